"""`wholecall serve` as a process: addresses, signals, workers."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from wholecall.faults import start_in_thread
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config
from wholecall.proxy.server import is_news, reload, reloading

PATIENCE = 40.0
WHOLECALL = Path(sys.executable).with_name("wholecall")


@contextmanager
def serving(*arguments: str, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process that serves, and the address that it announces."""
    environ = {name: value for name, value in os.environ.items() if "WHOLECALL" not in name}
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [WHOLECALL, "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=environ,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("OPENAI_BASE_URL="), (folder / "stderr").read_text()
        yield line.strip().removeprefix("OPENAI_BASE_URL=").removesuffix("/v1"), process
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


def fetch(url: str, body: Any = None) -> Any:
    """Ask until somebody answers: the address is announced before the first process is ready."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - our own address
        url, data=content, headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:  # noqa: S310 - the same
        return json.load(response)


def until(holds: Any) -> None:
    """Wait for something that a signal brings about."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_address_is_enough_to_serve(tmp_path: Path) -> None:
    with (
        start_in_thread() as faults,
        serving("--upstream", faults.base_url, folder=tmp_path) as (url, process),
    ):
        assert fetch(f"{url}/health") == {"status": "ok"}
        body = {"model": "answer-only", "messages": [{"role": "user", "content": "hi"}]}
        answer = fetch(f"{url}/v1/chat/completions", body)
        assert answer["choices"][0]["message"]["content"] == "All done."
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


def test_the_address_may_speak_another_protocol(tmp_path: Path) -> None:
    with (
        start_in_thread() as faults,
        serving("--upstream", f"anthropic={faults.address}", folder=tmp_path) as (url, _),
    ):
        body = {"model": "answer-only", "messages": [{"role": "user", "content": "hi"}]}
        answer = fetch(f"{url}/v1/chat/completions", body)
        assert answer["choices"][0]["message"]["content"] == "All done."


def _write(folder: Path, *names: str) -> None:
    model = "{upstream: openai/x, base_url: 'http://127.0.0.1:9'}"
    lines = [f"  {name}: {model}" for name in names]
    (folder / "wholecall.yaml").write_text("models:\n" + "\n".join(lines) + "\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_configuration_is_read_again_on_a_signal(tmp_path: Path, workers: int) -> None:
    def list_models(url: str) -> list[str]:
        return [model["id"] for model in fetch(f"{url}/v1/models")["data"]]

    _write(tmp_path, "a")
    with serving("--workers", str(workers), folder=tmp_path) as (url, process):
        assert list_models(url) == ["a"]
        _write(tmp_path, "a", "b")
        process.send_signal(signal.SIGHUP)
        until(lambda: list_models(url) == ["a", "b"])
        if workers == 1:
            (tmp_path / "wholecall.yaml").write_text("models: [\n")
            process.send_signal(signal.SIGHUP)
            until(lambda: "keeping the old one" in (tmp_path / "stderr").read_text())
            assert list_models(url) == ["a", "b"]


def find_line(folder: Path, event: str) -> dict[str, Any]:
    """Wait for a line of the log."""
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        lines = map(json.loads, (folder / "stderr").read_text().splitlines())
        found.extend(line for line in lines if line["event"] == event)
        return bool(found)

    until(is_there)
    return found[0]


@contextmanager
def waiting(url: str, upstream: socket.socket) -> Iterator[None]:
    """A client that waits for an upstream which never answers."""
    host, _, port = url.removeprefix("http://").partition(":")
    body = b'{"model": "a", "messages": []}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    with socket.create_connection((host, int(port))) as client:
        client.sendall(head + body)
        with upstream.accept()[0]:
            yield


def test_a_reload_is_one_line_and_changes_how_long_answers_may_take_to_end(tmp_path: Path) -> None:
    file = tmp_path / "wholecall.yaml"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        model = f"{{upstream: openai/x, base_url: '{address}'}}"
        file.write_text(f"models: {{a: {model}}}\nlimits: {{drain_seconds: 3600}}\n")
        with serving(folder=tmp_path) as (url, process), waiting(url, silent):
            file.write_text(f"models: {{b: {model}}}\nlimits: {{drain_seconds: 0}}\n")
            process.send_signal(signal.SIGHUP)
            line = find_line(tmp_path, "configuration reloaded")
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
    changed = ["models.a (removed)", "models.b (added)", "limits.drain_seconds"]
    assert (line["changed"], line["restart"]) == (changed, [])


def test_it_serves_though_nobody_reads_its_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reading, writing = os.pipe()
    os.close(reading)
    with (tmp_path / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [WHOLECALL, "serve", "--port", str(port), "--upstream", "http://127.0.0.1:9"],
            stdout=writing,
            stderr=errors,
            cwd=tmp_path,
        )
    os.close(writing)
    try:
        until(lambda: is_listening(port) or process.poll() is not None)
        assert fetch(f"http://127.0.0.1:{port}/health") == {"status": "ok"}
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait(PATIENCE)
    assert (tmp_path / "stderr").read_text() == ""


def is_listening(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def test_without_a_model_there_is_nothing_to_serve(tmp_path: Path) -> None:
    ended = subprocess.run(
        [WHOLECALL, "serve"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 2
    assert "--upstream" in ended.stderr


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (logging.makeLogRecord({"msg": "trouble"}), True),
        (logging.makeLogRecord({"msg": "x", "exc_info": (OSError, OSError(), None)}), True),
        (logging.makeLogRecord({"msg": "Cancel %s, timeout graceful shutdown exceeded"}), False),
        (
            logging.makeLogRecord(
                {"msg": "x", "exc_info": (asyncio.CancelledError, asyncio.CancelledError(), None)}
            ),
            False,
        ),
    ],
)
def test_what_we_know_better_is_no_news(record: logging.LogRecord, told: bool) -> None:
    assert is_news(record) is told


def test_what_keeps_it_from_starting_is_told_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "wholecall.yaml").write_text(
        "models: {a: {upstream: openai/x, base_url: 'http://127.0.0.1:9'}}\n"
        "tools: [{mcp: broken, command: /nowhere/server}]\n"
    )
    ended = subprocess.run(
        [WHOLECALL, "serve", "--port", "0"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode != 0
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert any(line["event"] == "the proxy cannot start" for line in lines)
    assert "broken" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_variable_that_cannot_be_used_is_told_when_it_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"OPENAI_BASE_URL": "http://[::1", "OPENAI_API_KEY": "k"}
    (tmp_path / "wholecall.yaml").write_text("models: {a: {upstream: openai/x}}\n")
    monkeypatch.setenv("WHOLECALL_CONFIG", str(tmp_path / "wholecall.yaml"))
    proxy = make_app(Config(), environ=environ)
    asyncio.run(reload(proxy))
    assert "new configuration rejected; keeping the old one" in capsys.readouterr().err
    assert proxy.config.models == {}


def test_a_configuration_that_is_being_read_as_the_proxy_ends_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    mute = json.dumps(["-c", f"touch '{started}'; exec sleep {PATIENCE:.0f}"])
    tool = f"{{mcp: mute, command: sh, args: {mute}}}"
    (tmp_path / "wholecall.yaml").write_text(f"tools: [{tool}]\n")
    monkeypatch.setenv("WHOLECALL_CONFIG", str(tmp_path / "wholecall.yaml"))

    async def end_early() -> int:
        async with reloading(make_app(Config(), environ={})):
            os.kill(os.getpid(), signal.SIGHUP)
            while not started.exists():
                await asyncio.sleep(0.01)
        return len(asyncio.all_tasks())

    assert asyncio.run(asyncio.wait_for(end_early(), PATIENCE)) <= 2, "the test, and its clock"
