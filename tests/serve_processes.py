"""`wholecall serve` as real processes, with tools that write down what they begin and end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from wholecall.faults.fault_server import start_in_thread

TOOLS = """
import os, time
import wholecall

LOG = {log!r}

def note(word, context):
    line = f"{{word}} {{context.idempotency_key}} {{os.getpid()}} {{time.monotonic()}}\\n"
    with open(LOG, "a") as log:
        log.write(line)
        log.flush()
        os.fsync(log.fileno())

def send_email(to: str, body: str, context: wholecall.Context) -> str:
    note("began", context)
    time.sleep({seconds})
    note("ended", context)
    return "sent"
"""
CONFIG = """
listen: {{port: {port}, workers: {workers}}}
keys: {{path: {folder}/keys.sqlite}}
inspector: {{enabled: false}}
journal: {{url: "{journal}"}}
limits: {{drain_seconds: 2}}
models:
  m: {{upstream: openai/{scenario}, base_url: {base_url}, api_key: "${{CHAOS_KEY}}", mode: run}}
tools:
  - {{python: "chaos_tools:send_email"}}
"""
_READY_SECONDS = 60.0
_OK = 200


def find_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@dataclass
class Serving:
    """A proxy of several processes on one port."""

    folder: Path
    port: int
    workers: int
    process: subprocess.Popen[bytes] | None = None
    command: tuple[str, ...] = (sys.executable, "-m", "wholecall")
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the supervisor with its workers, and wait until one answers."""
        process = self.begin()
        deadline = time.monotonic() + _READY_SECONDS
        while not self.is_ready():
            assert process.poll() is None, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            time.sleep(0.05)

    def begin(self) -> subprocess.Popen[bytes]:
        """Start the supervisor with its workers, in a group of processes of its own."""
        environ = {
            **os.environ,
            "WHOLECALL_CONFIG": str(self.folder / "wholecall.yaml"),
            "CHAOS_KEY": "chaos-key-of-the-upstream",
        }
        with (self.folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "serve"],
                env=environ,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(self.process)
        return self.process

    def is_ready(self) -> bool:
        with suppress(OSError, HTTPException):
            return self.get("/health")[0] == _OK
        return False

    def get(self, path: str) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of its response."""
        return self._request("GET", path)

    def post(self, path: str, body: Mapping[str, object], **headers: str) -> tuple[int, bytes]:
        """Send a request, and return the status and the body of its response."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._request("POST", path, body=json.dumps(body).encode(), headers=named)

    def _request(self, method: str, path: str, **more: Any) -> tuple[int, bytes]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, **more)
            told = connection.getresponse()
            return told.status, told.read()

    def read_log(self) -> str:
        return (self.folder / "serve.log").read_text()

    def list_workers(self) -> list[int]:
        """The processes that the supervisor started and that serve."""
        assert self.process is not None
        return list_children(self.process.pid)

    def stop(self) -> None:
        """End every process that was started here."""
        for process in self.started:
            workers = self.list_workers() if process is self.process else []
            if process.poll() is None:
                process.kill()
            process.wait()
            for pid in workers:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def list_children(pid: int) -> list[int]:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(word) for word in words]
    return []


def is_alive(pid: int) -> bool:
    """Return True if a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_effects(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Return how often each call began and ended, by its idempotency key."""
    began, ended = Counter[str](), Counter[str]()
    path = folder / "effects.log"
    for line in path.read_text().splitlines() if path.exists() else ():
        word, key, *_ = line.split()
        {"began": began, "ended": ended}[word][key] += 1
    return began, ended


@contextmanager
def serve_processes(  # noqa: PLR0913 - settings of a trial
    folder: Path,
    *,
    start: bool = True,
    workers: int = 2,
    seconds: float = 0.2,
    scenario: str = "good",
    journal: str = "",
) -> Iterator[Serving]:
    """Serve a model whose tool takes so many seconds; the upstream plays a fault scenario."""
    (folder / "chaos_tools.py").write_text(
        TOOLS.format(log=str(folder / "effects.log"), seconds=seconds)
    )
    with start_in_thread() as upstream:
        serving = Serving(folder, find_port(), workers)
        config = CONFIG.format(
            port=serving.port,
            workers=workers,
            folder=folder,
            journal=journal,
            scenario=scenario,
            base_url=upstream.base_url,
        )
        (folder / "wholecall.yaml").write_text(config)
        try:
            if start:
                serving.start()
            yield serving
        finally:
            serving.stop()
