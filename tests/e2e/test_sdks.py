"""The guide's programs, with the real openai and anthropic SDKs, over a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


class Recorded(ThreadingHTTPServer):
    """An upstream that answers every request with one recorded stream."""

    daemon_threads = True

    def __init__(self, stream: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.stream = stream


class _Answer(BaseHTTPRequestHandler):
    server: Recorded

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(self.server.stream)))
        self.end_headers()
        self.wfile.write(self.server.stream)

    def log_message(self, *_: object) -> None:
        """Say nothing: the test's output is its own."""


@contextmanager
def upstream(stream: bytes) -> Iterator[str]:
    server = Recorded(stream)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sse(*payloads: dict[str, Any], named: bool = False, done: bool = False) -> bytes:
    frames = [
        (f"event: {payload['type']}\n" if named else "") + f"data: {json.dumps(payload)}\n\n"
        for payload in payloads
    ]
    return "".join([*frames, "data: [DONE]\n\n" if done else ""]).encode()


def chat_chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def tool_call(index: int, id: str | None, *, arguments: str) -> dict[str, Any]:
    head = {} if id is None else {"id": id, "type": "function"}
    name = {} if id is None else {"name": "weather"}
    return {"index": index, **head, "function": {**name, "arguments": arguments}}


CHAT = [
    chat_chunk(role="assistant", content="Let me look."),
    chat_chunk(tool_calls=[tool_call(0, "call_1", arguments="")]),
    chat_chunk(tool_calls=[tool_call(1, "call_2", arguments='{"city": "Ro')]),
    chat_chunk(tool_calls=[tool_call(0, None, arguments='{"city": "Oslo", "days": "3"}')]),
]
BLOCK = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {}}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [],
    "model": "m",
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
ANTHROPIC: list[dict[str, Any]] = [
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": BLOCK},
    *(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        }
        for piece in ('{"query', '": "cut a stream"}')
    ),
]
ANTHROPIC_END: list[dict[str, Any]] = [
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]
CUT_OFF = "the answer was cut off by the output limit inside this call's arguments"
ROWS = [
    (
        "a call cut by the output limit is not run, its whole sibling is",
        "openai_stream.py",
        sse(*CHAT, chat_chunk(finish="length"), done=True),
        [
            "Let me look.",
            "run weather {'city': 'Oslo', 'days': 3}",
            f"do not run weather because {CUT_OFF}",
        ],
    ),
    (
        "a read-only call runs as soon as its object is closed",
        "anthropic_stream.py",
        sse(*ANTHROPIC, *ANTHROPIC_END, named=True),
        [
            'building {"query',
            'building ": "cut a stream"}',
            "run search {'query': 'cut a stream'}",
            "ended tool_calls",
        ],
    ),
    (
        "a stream that drops after a closed read-only call does not look finished",
        "anthropic_stream.py",
        sse(*ANTHROPIC, named=True),
        [
            'building {"query',
            'building ": "cut a stream"}',
            "run search {'query': 'cut a stream'}",
            "ended None",
        ],
    ),
]


@pytest.mark.parametrize(
    ("program", "stream", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_guides_programs(program: str, stream: bytes, *, expected: list[str]) -> None:
    with upstream(stream) as address:
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": "none",
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "none",
        }
        done = subprocess.run(
            [sys.executable, EXAMPLES / program],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == ""
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize("program", ["openai_stream.py", "anthropic_stream.py"])
def test_the_guide_shows_the_program_that_is_tested(program: str) -> None:
    guide = (EXAMPLES.parent / "docs" / "own-client.md").read_text(encoding="utf-8")
    assert (EXAMPLES / program).read_text(encoding="utf-8") in guide
