"""The gateways, each in processes of its own, with one worker and its own defaults.

Those of others are installed apart, because they want other versions of the same packages:

    apt-get install nginx-light
    python3 -m venv .venv-routers && .venv-routers/bin/pip install smg vllm-router
    python3 -m venv .venv-litellm && .venv-litellm/bin/pip install 'litellm[proxy]'
    npm install --prefix .portkey @portkey-ai/gateway

What is not there is left out, and the table says so. Portkey's streams need @hono/node-server
1.13.5 and hono 4.9.7: put them under "overrides" of .portkey/package.json before installing.

TensorZero's embedded gateway is not among them: its project was archived in June 2026, and the
function that starts it is private and chooses a port by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from proxies.load import Address, ask_for

BENCH = Path(__file__).parents[1]
ROOT = BENCH.parent
_BIN = Path(sys.executable).parent
_NGINX = Path(os.environ.get("NGINX", "/usr/sbin/nginx"))
_ROUTERS = Path(os.environ.get("ROUTERS", ROOT / ".venv-routers" / "bin"))
_LITELLM = Path(os.environ.get("LITELLM", ROOT / ".venv-litellm" / "bin" / "litellm"))
_PORTKEY = Path(os.environ.get("PORTKEY", ROOT / ".portkey"))
_SERVER = _PORTKEY / "node_modules/@portkey-ai/gateway/build/start-server.js"
_MASTER_KEY = f"sk-{secrets.token_hex(32)}"  # LiteLLM does not start without one
_START_SECONDS = 120
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Place:
    """Where a gateway should listen, whom it should ask, and where it may put files."""

    port: int
    upstream: str
    folder: Path


@dataclass(frozen=True)
class Subject:
    """How to start a gateway."""

    name: str
    command: Callable[[Place], list[str]]
    environ: Callable[[Place], dict[str, str]] = lambda _: {}
    headers: Callable[[Place], tuple[tuple[str, str], ...]] = lambda _: ()
    key: str = "none"
    needs: Path | None = None

    @property
    def missing(self) -> bool:
        return self.needs is not None and not self.needs.exists()


def _wholecall(place: Place) -> list[str]:
    model = {"upstream": "openai/bench", "base_url": place.upstream}
    # YAML is a superset of JSON.
    config = place.folder / "wholecall.yaml"
    config.write_text(json.dumps({"models": {"bench": model}}))
    return [str(_BIN / "wholecall"), "serve", "--config", str(config), "--port", str(place.port)]


def _litellm(place: Place) -> list[str]:
    params = {
        "model": "openai/bench",
        "api_base": f"{place.upstream}/v1",
        "api_key": "none",
    }
    config = place.folder / "litellm.yaml"
    config.write_text(
        json.dumps({"model_list": [{"model_name": "bench", "litellm_params": params}]})
    )
    command = [str(_LITELLM), "--config", str(config), "--host", "127.0.0.1"]
    return [*command, "--port", str(place.port)]


def _pipe(place: Place) -> list[str]:
    uvicorn = [str(_BIN / "uvicorn"), "--app-dir", str(BENCH), "proxies.pipe:app"]
    return [*uvicorn, "--port", str(place.port), "--no-access-log", "--log-level", "warning"]


_NGINX_CONFIG = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    keepalive_requests 1000000;
    upstream model {{ server {upstream}; keepalive 512; keepalive_requests 1000000; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://model;
            proxy_http_version 1.1;
            proxy_set_header connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def _nginx(place: Place) -> list[str]:
    config = place.folder / "nginx.conf"
    upstream = place.upstream.removeprefix("http://")
    config.write_text(_NGINX_CONFIG.format(folder=place.folder, port=place.port, upstream=upstream))
    return [str(_NGINX), "-c", str(config), "-p", str(place.folder)]


def _router(place: Place, program: str, *arguments: str) -> list[str]:
    """Smg and vllm-router have one origin, and so the same options."""
    command = [str(_ROUTERS / program), *arguments, "--worker-urls", place.upstream]
    command += ["--host", "127.0.0.1", "--port", str(place.port), "--policy", "round_robin"]
    return [*command, "--prometheus-port", str(free_port())]


def _portkey_headers(place: Place) -> tuple[tuple[str, str], ...]:
    return (
        ("x-portkey-provider", "openai"),
        ("x-portkey-custom-host", f"{place.upstream}/v1"),
    )


SUBJECTS = (
    Subject("bare pipe", _pipe, environ=lambda place: {"UPSTREAM": place.upstream}),
    Subject("Wholecall", _wholecall, environ=lambda _: {"OPENAI_API_KEY": "none", "NO_PROXY": "*"}),
    Subject("nginx, bytes only", _nginx, needs=_NGINX),
    Subject(
        "vllm-router (Rust)",
        lambda place: _router(place, "vllm-router"),
        environ=lambda _: {"NO_PROXY": "*"},
        needs=_ROUTERS / "vllm-router",
    ),
    Subject(
        "smg (Rust)",
        lambda place: _router(place, "smg", "launch", "--backend", "openai"),
        environ=lambda _: {"NO_PROXY": "*"},
        needs=_ROUTERS / "smg",
    ),
    Subject(
        "Portkey's gateway",
        lambda place: ["node", str(_SERVER), f"--port={place.port}", "--headless"],
        headers=_portkey_headers,
        needs=_SERVER,
    ),
    Subject(
        "LiteLLM proxy",
        _litellm,
        environ=lambda _: {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_MASTER_KEY": _MASTER_KEY,
            "NO_PROXY": "*",
        },
        key=_MASTER_KEY,
        needs=_LITELLM,
    ),
)


# ── Processes ───────────────────────────────────────────────────────────────────────


class Running:
    """A program and whatever it started."""

    def __init__(self, process: subprocess.Popen[bytes], address: Address, *, ready: float) -> None:
        self.process = process
        self.address = address
        self.ready = ready
        """Seconds from its start to its first right answer."""

    def memory(self) -> float:
        """Megabytes that are resident, of all its processes."""
        pages = (int(_stat(pid)[24 - 3]) for pid in self._processes())
        return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        stats = [_stat(pid) for pid in self._processes()]
        return sum(int(stat[14 - 3]) + int(stat[15 - 3]) for stat in stats) / _TICKS

    def _processes(self) -> list[int]:
        found, queue = [], [self.process.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            queue += map(int, children.split())
        return found


def _stat(pid: int) -> list[str]:
    """From the third field on: the second, the name, may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def run_upstream() -> Iterator[Address]:
    """The upstream, until the context is left."""
    port = free_port()
    environ = {**os.environ, "PYTHONPATH": str(BENCH)}
    command = [sys.executable, "-m", "proxies.upstream", str(port)]
    with _process(command, environ):
        _wait_for(address := Address(port))
        yield address


@contextmanager
def run(subject: Subject, upstream: Address) -> Iterator[Running]:
    """A gateway, until the context is left."""
    with TemporaryDirectory() as folder:
        place = Place(free_port(), f"http://127.0.0.1:{upstream.port}", Path(folder))
        begun = time.perf_counter()
        with _process(subject.command(place), {**os.environ, **subject.environ(place)}) as process:
            address = Address(place.port, key=subject.key, headers=subject.headers(place))
            _wait_for(address, process)
            yield Running(process, address, ready=time.perf_counter() - begun)


@contextmanager
def _process(command: list[str], environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with Path(os.environ.get("BENCH_LOG", os.devnull)).open("ab") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(address: Address, process: subprocess.Popen[bytes] | None = None) -> None:
    """Until it answers rightly."""
    deadline = time.monotonic() + _START_SECONDS
    wrong = "nothing"
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        try:
            load = asyncio.run(_ask_once(address))
        except OSError as error:
            wrong = repr(error)
        else:
            if not load:
                return
            wrong = load
        time.sleep(0.02)
    raise RuntimeError(f"port {address.port} does not answer: {wrong}")


async def _ask_once(address: Address) -> str:
    load = await ask_for(address, "whole", connections=1, seconds=0.0001)
    return load.errors[0] if load.errors else ""
