"""Programs of examples/, run as a reader would run them, before an upstream on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from wholecall.protocols.reader import Chunk
from wholecall.upstreams.replay import ScriptedAnswer

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 60
"""That a program may take on a busy machine."""
_FIELDS = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x"}


class Done(NamedTuple):
    """What a program printed, and what it asked."""

    lines: list[str]
    asked: list[dict[str, Any]]


def run_example(program: str, *turns: ScriptedAnswer, typed: str = "") -> Done:
    """Run a program to its end; each of its requests gets the next of the answers."""
    with _serving(turns) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        environment = {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "127.0.0.1",
            "PYTHONUTF8": "1",
        }
        done = subprocess.run(
            [sys.executable, EXAMPLES / program],
            env={**os.environ, **environment},
            input=typed,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return Done(done.stdout.splitlines(), server.asked)


def results(request: dict[str, Any]) -> dict[str, str]:
    """The results that a request tells the model, by the ids of their calls."""
    messages = request["messages"]
    return {told["tool_call_id"]: told["content"] for told in messages if told["role"] == "tool"}


class _Upstream(ThreadingHTTPServer):
    """Answers with one stream after the other, and remembers what it was asked."""

    daemon_threads = True

    def __init__(self, turns: Sequence[ScriptedAnswer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.streams = [b"".join(map(_encode, turn.chunks)) for turn in turns]
        self.asked: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Upstream

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        stream = self.server.streams[len(self.server.asked)]
        self.server.asked.append(json.loads(body))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(stream)))
        self.end_headers()
        self.wfile.write(stream)

    def log_message(self, *_: object) -> None:
        """Say nothing: the test's output is its own."""


def _encode(chunk: Chunk) -> bytes:
    if isinstance(chunk, dict):
        return f"data: {json.dumps({**_FIELDS, **chunk})}\n\n".encode()
    return f"{chunk}\n".encode()


@contextmanager
def _serving(turns: Sequence[ScriptedAnswer]) -> Iterator[_Upstream]:
    server = _Upstream(turns)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
