"""How long others wait while a large request is served.

    .venv/bin/python bench/large_requests.py                  print the table
    .venv/bin/python bench/large_requests.py --write          and put it into docs/performance.md
    .venv/bin/python bench/large_requests.py --only tools
    .venv/bin/python bench/large_requests.py --sets           processor time for each tool of a set

A real `wholecall serve` gets one large request after the other. Two waits are reported: that of a
`/health` polled beside it, on the clock of the wall, and the processor time that the server used
between two steps of its event loop, in which the other programs of the machine do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proxies.load import Address
from proxies.processes import start_process
from proxies.subjects import BENCH, Running, free_port
from proxies.whole_upstream import run_whole_upstream
from tables import markdown, write_section

POLL = 0.002
"""Seconds between two polls of `/health`."""
SETTLE = 0.3
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
TOOLS = '''
import wholecall

@wholecall.tool(read_only=True)
def get_text(megabytes: int) -> str:
    """Return a long text."""
    return "x" * (megabytes * 1_000_000)

@wholecall.tool(read_only=True)
async def get_rows(megabytes: int) -> list[str]:
    """Return many rows."""
    return ["x" * 90] * (megabytes * 10_000)
'''
MCP = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"],
                  "capabilities": {"tools": {}}, "serverInfo": {"name": "big", "version": "1"}}
    elif asked.get("method") == "tools/list":
        answer = {"tools": [{"name": "get", "inputSchema": {"type": "object"},
                             "annotations": {"readOnlyHint": True}}]}
    elif asked.get("method") == "tools/call":
        megabytes = asked["params"]["arguments"]["megabytes"]
        if megabytes < 0:  # a line without an end
            sys.stdout.write('{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"'
                             % json.dumps(asked["id"]))
            for _ in range(-megabytes):
                sys.stdout.write("x" * 1_000_000)
            sys.stdout.flush()
            continue
        answer = {"content": [{"type": "text", "text": "x" * (megabytes * 1_000_000)}]}
    elif "id" not in asked:
        continue
    else:
        answer = {}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}) + "\\n")
    sys.stdout.flush()
"""


@dataclass(frozen=True)
class Row:
    """One large request."""

    name: str
    make: Callable[[], tuple[str, Mapping[str, Any]]]
    """Returns the path and the body."""
    model: str = "chat"


def _chat(messages: list[Any], **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "/v1/chat/completions", {"messages": messages, **more}


def _anthropic(messages: list[Any], **more: Any) -> tuple[str, Mapping[str, Any]]:
    return "/v1/messages", {"messages": messages, "max_tokens": 100, **more}


def _said(count: int, text: str = "hi") -> list[Any]:
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at in range(count)]


def _called(count: int) -> list[Any]:
    """A history of so many calls, each with its result."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for at in range(count):
        function = {"name": "get_weather", "arguments": '{"city": "Bonn"}'}
        call = {"id": f"call_{at}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{at}", "content": "sunny"})
    return messages


def _used(count: int, at_a_time: int = 100) -> list[Any]:
    """The same for Anthropic's clients, some calls in each message."""
    messages: list[Any] = [{"role": "user", "content": "go"}]
    for at in range(0, count, at_a_time):
        numbers = range(at, at + at_a_time)
        uses = [
            {"type": "tool_use", "id": f"toolu_{n}", "name": "get_weather", "input": {"city": "B"}}
            for n in numbers
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"toolu_{n}", "content": "sunny"}
            for n in numbers
        ]
        messages.append({"role": "assistant", "content": uses})
        messages.append({"role": "user", "content": results})
    return messages


def make_tools(count: int, size: int = 300) -> list[Any]:
    """So many tools, each of about `size` bytes."""
    text = "x" * max(size - 200, 0)
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{at}",
                "description": text[: len(text) // 2],
                "parameters": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": text[len(text) // 2 :]},
                        f"n{at}": {"type": "integer", "minimum": 0},
                    },
                    "required": ["city"],
                },
            },
        }
        for at in range(count)
    ]


def _wide_tools(count: int, properties: int) -> list[Any]:
    """So many tools with so many parameters."""
    names = [f"parameter_{at}" for at in range(properties)]
    return [
        {
            "type": "function",
            "function": {
                "name": f"wide_{at}",
                "parameters": {
                    "type": "object",
                    "properties": {
                        f"{name}_{at}": {"type": "string", "enum": ["a", "b", name]}
                        for name in names
                    },
                },
            },
        }
        for at in range(count)
    ]


def _ask_for(tool: str, megabytes: int) -> Callable[[], tuple[str, Mapping[str, Any]]]:
    said = json.dumps({"tool": tool, "arguments": {"megabytes": megabytes}})
    return lambda: _chat([{"role": "user", "content": said}])


ROWS = (
    Row("200,000 short messages (refused)", lambda: _chat(_said(200_000), tools=[TOOL])),
    Row("50,000 calls and results (refused)", lambda: _chat(_called(25_000), tools=[TOOL])),
    Row("100,000 tools (refused)", lambda: _chat(_said(1), tools=make_tools(100_000))),
    Row("500 tools of 50 kB (refused)", lambda: _chat(_said(1), tools=make_tools(500, 50_000))),
    Row("10,000 messages", lambda: _chat(_said(10_000), tools=[TOOL])),
    Row("10,000 messages, passed through", lambda: _chat(_said(10_000))),
    Row("10,000 messages, from Anthropic's client", lambda: _anthropic(_said(10_000))),
    Row("10,000 messages of 3 kB", lambda: _chat(_said(10_000, "x" * 3000), tools=[TOOL])),
    Row("4,900 calls and results", lambda: _chat(_called(4_900), tools=[TOOL])),
    Row("10,000 calls and results, from Anthropic's client", lambda: _anthropic(_used(10_000))),
    Row("one text of 30 MB", lambda: _chat(_said(1, "x" * 30_000_000), tools=[TOOL])),
    Row("128 tools of 30 kB, first time", lambda: _chat(_said(1), tools=make_tools(128, 30_000))),
    Row("128 tools of 30 kB, again", lambda: _chat(_said(1), tools=make_tools(128, 30_000))),
    Row("1,000 tools, first time", lambda: _chat(_said(1), tools=make_tools(1000)), "many"),
    Row("1,000 tools, again", lambda: _chat(_said(1), tools=make_tools(1000)), "many"),
    Row("128 tools of 200 parameters", lambda: _chat(_said(1), tools=_wide_tools(128, 200))),
    Row("a run with 10,000 messages", lambda: _chat(_said(10_000)), "run"),
    Row("a run with 4,900 calls and results", lambda: _chat(_called(4_900)), "run"),
    Row("a tool that returns 1 GB of text", _ask_for("get_text", 1000), "run"),
    Row("a tool that returns 100 MB of rows", _ask_for("get_rows", 100), "run"),
    Row("an MCP answer of 15 MB", _ask_for("big__get", 15), "run"),
    Row("an MCP answer of 1 GB", _ask_for("big__get", 1000), "run"),
    Row("an MCP line of 1 GB without an end", _ask_for("big__get", -1000), "run"),
    Row(
        "a call with arguments of 5 MB",
        lambda: _chat(
            [{"role": "user", "content": json.dumps({"tool": "tool_0", "long": 5})}],
            tools=make_tools(1),
        ),
    ),
    Row(
        "a stream whose call has arguments of 5 MB",
        lambda: _chat(
            [{"role": "user", "content": json.dumps({"tool": "tool_0", "long": 5})}],
            tools=make_tools(1),
            stream=True,
        ),
    ),
    Row(
        "a stream of 20 MB of text",
        lambda: _chat(
            [{"role": "user", "content": json.dumps({"say": 20})}], tools=make_tools(1), stream=True
        ),
    ),
)


# ── Measuring ───────────────────────────────────────────────────────────────────────


class Poll(threading.Thread):
    """Asks for `/health` again and again, and keeps the longest wait."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._ends = threading.Event()
        self.longest = 0.0

    def run(self) -> None:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=120)) as connection:
            while not self._ends.wait(POLL):
                asked = time.perf_counter()
                connection.request("GET", "/health")
                connection.getresponse().read()
                self.longest = max(self.longest, time.perf_counter() - asked)

    def end(self) -> float:
        """Stop, and return the longest wait."""
        self._ends.set()
        self.join()
        return self.longest


@dataclass(frozen=True)
class Waited:
    """What one row did."""

    status: int
    seconds: float
    health: float
    step: float
    process: float
    megabytes: float
    said: str


class Measure:
    """A server and its pulse."""

    def __init__(self, running: Running, pulse: Path) -> None:
        self._running = running
        self._pulse = pulse
        self._port = running.address.port

    def read_pulse(self) -> Mapping[str, float]:
        """Return the longest pauses since the last time."""
        self._pulse.unlink(missing_ok=True)
        os.kill(self._running.process.pid, signal.SIGUSR1)
        while not self._pulse.exists():
            time.sleep(0.01)
        return json.loads(self._pulse.read_text())  # type: ignore[no-any-return]

    def ask(self, row: Row) -> Waited:
        """Send a request beside the polls."""
        path, body = row.make()
        content = json.dumps({"model": row.model, **body}).encode()
        time.sleep(SETTLE)
        self.read_pulse()
        poll = Poll(self._port)
        poll.start()
        begun = time.perf_counter()
        status, said = self._post(path, content)
        took = time.perf_counter() - begun
        time.sleep(SETTLE)
        health, paused = poll.end(), self.read_pulse()
        memory = self._running.memory()
        return Waited(status, took, health, paused["loop"], paused["process"], memory, said)

    def idle(self, seconds: float = 2.0) -> Waited:
        """The same without a large request."""
        self.read_pulse()
        poll = Poll(self._port)
        poll.start()
        time.sleep(seconds)
        health, paused = poll.end(), self.read_pulse()
        memory = self._running.memory()
        return Waited(0, seconds, health, paused["loop"], paused["process"], memory, "")

    def _post(self, path: str, content: bytes) -> tuple[int, str]:
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=120)) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request("POST", path, content, {"content-type": "application/json"})
            told = connection.getresponse()
            return told.status, told.read().decode("utf-8", "replace")

    def spend(self, count: int, size: int, *, times: int) -> float:
        """Return the processor seconds of a request with so many tools that was sent before."""
        asked = _chat(_said(1), **({"tools": make_tools(count, size)} if count else {}))[1]
        content = json.dumps({"model": "many", **asked}).encode()
        for _ in range(5):
            self._post("/v1/chat/completions", content)
        before = self._processor()
        for _ in range(times):
            self._post("/v1/chat/completions", content)
        return (self._processor() - before) / times

    def _processor(self) -> float:
        path = Path(f"/proc/{self._running.process.pid}/stat")
        used = path.read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def measure_sets() -> None:
    """Print what each tool of a set costs that was seen before."""
    with serve({"tools": 1024}) as measure:
        one = measure.spend(1, 300, times=300)
        for count, size in ((100, 300), (128, 3_000), (250, 300), (500, 300), (1_000, 300)):
            took = measure.spend(count, size, times=max(30_000 // count, 50))
            each = (took - one) / count * 1000
            print(f"{count:5} tools of {size:5} bytes: {took * 1000:6.2f} ms, {each:.3f} for each")


@contextmanager
def serve(limits: Mapping[str, int]) -> Iterator[Measure]:
    """A proxy with a pulse, in front of an upstream that answers anything."""
    with run_whole_upstream() as upstream, TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "big_tools.py").write_text(TOOLS)
        (place / "big_mcp.py").write_text(MCP)
        model = {"upstream": "openai/bench", "base_url": f"http://127.0.0.1:{upstream}/v1"}
        mcp = {"mcp": "big", "command": sys.executable, "args": [str(place / "big_mcp.py")]}
        config = {
            "models": {"chat": model, "many": model, "run": {**model, "mode": "run"}},
            "tools": [
                {"python": "big_tools:get_text"},
                {"python": "big_tools:get_rows"},
                mcp,
            ],
            "keys": {"path": str(place / "keys.sqlite")},
            "limits": dict(limits),
        }
        (place / "wholecall.yaml").write_text(json.dumps(config))
        environ = {
            "OPENAI_API_KEY": "none",
            "NO_PROXY": "*",
            "PYTHONPATH": str(BENCH),
            "WHOLECALL_CONFIG": str(place / "wholecall.yaml"),
        }
        pulse, port = place / "pulse.json", free_port()
        command = [sys.executable, "-m", "proxies.pulsed", str(port), str(pulse)]
        with start_process(command, port=port, environ=environ) as process:
            yield Measure(Running(process, Address(port), ready=0.0), pulse)


def main() -> None:
    parser = argparse.ArgumentParser(description="How long others wait for a large request.")
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    parser.add_argument("--only", default="", help="rows with this in their name")
    parser.add_argument("--sets", action="store_true", help="only sets of tools seen before")
    given = parser.parse_args()
    if given.sets:
        measure_sets()
        return
    found: dict[str, Waited] = {}
    for is_many in (False, True):
        rows = [row for row in ROWS if (row.model == "many") is is_many and given.only in row.name]
        if not rows:
            continue
        with serve({"tools": 1024} if is_many else {}) as measure:
            if not is_many:
                found["nothing"] = measure.idle()
            for row in rows:
                found[row.name] = waited = measure.ask(row)
                print(
                    row.name,
                    waited.status,
                    f"{waited.seconds:.2f} s",
                    f"health {waited.health * 1000:.0f} ms, loop {waited.step * 1000:.0f},",
                    f"process {waited.process * 1000:.0f}; {waited.megabytes:.0f} MB",
                    waited.said[:150],
                    file=sys.stderr,
                )
    header = ["request", "status", "longest step, ms", "of it in the event loop"]
    table = markdown(
        header,
        [
            [
                name,
                str(w.status or "–"),
                f"{w.process * 1000:.0f}",
                f"{w.step * 1000:.0f}",
            ]
            for name, w in found.items()
        ],
    )
    print(table)
    if given.write:
        write_section("large-requests", table)


if __name__ == "__main__":
    main()
