"""`wholecall chat` in a real terminal, against a real server."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from upstreams.fake_endpoint import PATIENCE
from upstreams.fake_runtime import program
from wholecall.cli.chat import Chat, converse, say_what_is_awaited
from wholecall.cli.chat_view import ChatView
from wholecall.errors import UpstreamError
from wholecall.events import Text
from wholecall.messages import Message, Request, Role
from wholecall.upstreams.local_upstream import LocalUpstream
from wholecall.upstreams.providers import Route
from wholecall.upstreams.replay import ReplayUpstream

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
PROGRAM = [sys.executable, "-m", "wholecall", "chat"]


def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return f"data: {json.dumps(body)}\n\n".encode()


END = b"data: [DONE]\n\n"
CALL = (
    chunk(
        {
            "tool_calls": [
                {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": ""}}
            ]
        }
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Oslo"}'}}]}),
    chunk({}, "tool_calls") + END,
)


BEGUN = (
    CALL[0],
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": "Os'}}]}),
)
STOP = chunk({}, "stop") + END
HEARD = threading.Event()
"""Set when somebody has seen that an answer is awaited."""
RELEASED = threading.Event()
"""Set when the tests are over: nobody waits any longer."""


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = body["messages"][-1]
        said = last["content"]
        if said == "refuse":
            self.send_error(404, "no such model")
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if last["role"] == "tool":
            self.write(chunk({"content": f"Result: {said}"}), STOP)
        elif said == "weather":
            self.write(*CALL)
        elif said == "build":
            self.write(*BEGUN)
            RELEASED.wait(PATIENCE)
        elif said == "hesitate":
            HEARD.wait(PATIENCE)
            self.write(chunk({"content": "At last."}), STOP)
        elif said == "wait":
            self.write(chunk({"content": "Thinking"}))
            RELEASED.wait(PATIENCE)
        else:
            self.write(chunk({"content": f"You said {said!r}."}), STOP)

    def write(self, *chunks: bytes) -> None:
        for piece in chunks:
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


class Terminal:
    """A chat that somebody types into."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self.process = process
        self._keyboard = keyboard
        self._raw = b""
        self._screen = ""
        self._seen = 0

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def press(self, key: str, words: str) -> str:
        """Press a key until these words come: what comes between two looks of readline at its
        keyboard is heard with the next key only."""
        for _ in range(int(PATIENCE)):
            self.type(key)
            if words in self._screen or select.select([self._keyboard], [], [], 1.0)[0]:
                break
        return self.wait_for(words)

    def wait_for(self, words: str) -> str:
        """Read until these words come; all since the last time, up to them."""
        while words not in self._screen:
            ready, _, _ = select.select([self._keyboard], [], [], PATIENCE)
            assert ready, f"{words!r} does not come; there is {self._screen!r}"
            self._raw += os.read(self._keyboard, 65536)
            self._screen = ANSI.sub("", self._raw.decode("utf-8", "ignore"))[self._seen :]
        end = self._screen.index(words) + len(words)
        shown, self._screen = self._screen[:end], self._screen[end:]
        self._seen += end
        return shown


@contextmanager
def chatting(url: str, folder: Path, *options: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    environ = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        [*PROGRAM, "m", "--base-url", url, *options],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | environ | {"WHOLECALL_MODELS": str(folder / "models")},
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - Ctrl-C needs a terminal of one's own
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait(PATIENCE)
        os.close(ours)


def take_terminal() -> None:
    import fcntl  # noqa: PLC0415 - only in the child
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        RELEASED.set()
        server.shutdown()
        thread.join(PATIENCE)


def test_a_call_is_seen_approved_run_and_answered(url: str, tmp_path: Path) -> None:
    with chatting(url, tmp_path, "--approve") as chat:
        assert "Ctrl-D ends the chat" in chat.wait_for("> ")
        chat.type("weather\n")
        assert "call 0  get_weather" in chat.wait_for("[y/N]")
        chat.type("y\n")
        shown = chat.wait_for("2 turns, 1 call")
        assert "released at CLOSED" in shown
        assert "get_weather: done in" in shown
        assert 'Result: {"city":"Oslo","celsius":3,"sky":"snow"}' in shown
        chat.wait_for("> ")
        chat.type("\x04")
        assert chat.process.wait(PATIENCE) == 0
    assert "weather" in (tmp_path / "chat_history").read_text()


def test_what_is_awaited_is_told_until_it_comes(url: str, tmp_path: Path) -> None:
    with chatting(url, tmp_path, "--no-tools") as chat:
        chat.wait_for("> ")
        chat.type("hesitate\n")
        chat.wait_for("waiting for m … 1 s")
        HEARD.set()
        chat.wait_for("At last.")
        assert "waiting" not in chat.wait_for("> ")


def test_who_waits_for_a_model_that_loads_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    upstream = LocalUpstream(path, program=program("serves", tmp_path))
    route = Route(upstream, "local/tiny")

    async def ask() -> list[str]:
        told = [say_what_is_awaited(route)]
        try:
            async with upstream.answer(Request(model="x", messages=(question,))) as answer:
                told += [say_what_is_awaited(route) async for _ in answer.chunks][:1]
        finally:
            await upstream.close()
        return [*told, say_what_is_awaited(route)]

    question = Message(Role.USER, (Text("hi"),))
    loading, waiting = "loading local/tiny …", "waiting for local/tiny …"
    assert asyncio.run(ask()) == [loading, waiting, loading]


def test_words_are_not_broken_at_the_edge_of_the_terminal(url: str, tmp_path: Path) -> None:
    with chatting(url, tmp_path, "--no-tools") as chat:
        chat.wait_for("> ")
        chat.type(f"{'elephant ' * 12}\n")
        chat.wait_for("You said")
        shown = chat.wait_for("1 turn")
    lines = [line.split() for line in shown.splitlines()]
    # The word that did not fit was taken back, which is not seen here, and stands in the next line.
    assert lines[1][0] == "elephant"
    assert sum(line.count("elephant") for line in lines) == 10


def test_ctrl_c_breaks_off_the_answer_and_not_the_chat(url: str, tmp_path: Path) -> None:
    with chatting(url, tmp_path, "--no-tools") as chat:
        chat.wait_for("> ")
        chat.type("wait\n")
        chat.wait_for("Thinking")
        chat.type("\x03")
        chat.wait_for("interrupted; the question is forgotten")
        chat.wait_for("> ")
        chat.type("half")
        chat.wait_for("half")
        chat.press("\x03", "\nCtrl-D ends the chat")
        chat.type("one\\\ntwo\n")
        chat.wait_for("You said 'one\\ntwo'.")
        chat.wait_for("> ")
        chat.type("/exit\n")
        assert chat.process.wait(PATIENCE) == 0


def test_what_is_broken_off_while_it_is_drawn_is_drawn_once(url: str, tmp_path: Path) -> None:
    with chatting(url, tmp_path) as chat:
        chat.wait_for("> ")
        chat.type("build\n")
        chat.wait_for('{"city": "Os')
        chat.type("\x03")
        shown = chat.wait_for("interrupted; the question is forgotten")
        assert "^C" not in shown
        chat.wait_for("> ")
        chat.type("\x04")
        assert chat.process.wait(PATIENCE) == 0


def test_words_with_a_slash_are_for_the_chat(url: str, tmp_path: Path) -> None:
    with chatting(url, tmp_path, "--no-tools") as chat:
        for typed, shown in [
            ("/clear\n", "forgotten"),
            ("/what\n", "/clear forgets"),
            ("refuse\n", "answered with status 404"),
            ("still there\n", "You said 'still there'."),
        ]:
            chat.wait_for("> ")
            chat.type(typed)
            chat.wait_for(shown)
        chat.wait_for("> ")
        chat.type("\n")
        chat.wait_for("> ")


# ── Without a terminal ──────────────────────────────────────────────────────────────


class Person:
    """Says what is on a list; an exception among it is raised."""

    def __init__(self, *says: str | type[BaseException]) -> None:
        self._says = iter(says)

    def __call__(self) -> str | None:
        said = next(self._says, None)
        if isinstance(said, type):
            raise said
        return said


def hold(
    person: Person, *, fails: type[BaseException] | None = None
) -> tuple[list[str], Chat, str]:
    """A conversation: the questions that were asked, and what was shown."""
    asked = list[str]()
    file = io.StringIO()

    def run(question: str) -> None:
        asked.append(question)
        if fails is not None:
            raise fails("it went wrong")

    chat = Chat(Route(ReplayUpstream([]), "m"))
    chat.messages = (Message(Role.USER, ()),)
    converse(chat, ChatView(Console(file=file, width=100)), run=run, read=person)
    return asked, chat, file.getvalue()


def test_questions_are_asked_until_there_are_no_more() -> None:
    asked, chat, shown = hold(Person("one", "", "two"))
    assert (asked, shown) == (["one", "two"], "")
    assert chat.messages


def test_exit_ends_it_at_once() -> None:
    assert hold(Person("/exit", "never"))[0] == []


def test_clear_forgets() -> None:
    asked, chat, shown = hold(Person("/clear", "/unknown", KeyboardInterrupt, "go on"))
    assert asked == ["go on"]
    assert chat.messages == ()
    assert shown.startswith("forgotten\n")
    assert "/exit ends it" in shown
    assert shown.endswith("\nCtrl-D ends the chat\n")


@pytest.mark.parametrize(
    ("fails", "said"),
    [(KeyboardInterrupt, "interrupted"), (UpstreamError, "it went wrong")],
)
def test_an_answer_that_fails_is_not_the_end(fails: type[BaseException], said: str) -> None:
    asked, _, shown = hold(Person("one", "two"), fails=fails)
    assert asked == ["one", "two"]
    assert shown.count(said) == 2
