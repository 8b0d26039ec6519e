"""Programs that a bench starts: each is ended with its context, and found on its port."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

_START_SECONDS = 120.0
_END_SECONDS = 20.0
_ASK_SECONDS = 5.0


@contextmanager
def start_process(
    command: list[str], *, port: int, environ: Mapping[str, str], log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, wait until it answers, and end it with the context."""
    with (log or Path(os.devnull)).open("ab") as out:
        process = subprocess.Popen(command, env={**os.environ, **environ}, stdout=out, stderr=out)
        try:
            _wait_for_port(port, process)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        connection = HTTPConnection("127.0.0.1", port, timeout=_ASK_SECONDS)
        with suppress(OSError, HTTPException), closing(connection):
            connection.request("GET", "/health")
            connection.getresponse()
            return
        time.sleep(0.05)
    raise RuntimeError(f"port {port} does not answer (exit code {process.poll()})")
