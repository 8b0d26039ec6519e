"""Lines of a server's process: whole ones, long ones, and those without an end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.mcp_calls import call, in_loop, opened
from wholecall.errors import ToolServerFailed
from wholecall.tools.mcp.server_config import McpServer
from wholecall.tools.mcp.stdio_transport import KEPT, LongLine, MessageLines, StderrTail
from wholecall.tools.mcp.tool_definitions import McpEvent, ServerNoise
from wholecall.tools.mcp.toolset import McpTools

HEAD = b'{"jsonrpc":"2.0","id":7,"result":{"text":"'
# the bytes as they come, the lines that are read
ROWS: list[tuple[list[bytes], list[bytes | int | str | None]]] = [
    ([b"a\nb\n"], [b"a", b"b"]),
    ([b"a", b"b\n", b"c"], [b"ab"]),
    ([b"\n\n"], [b"", b""]),
    ([b"x" * 100, b"\n"], [b"x" * 100]),
    ([HEAD + b"x" * 60, b"y" * 60, b"\nc\n"], [7, b"c"]),
    ([HEAD + b"x" * 60 + b"\nc\n"], [7, b"c"]),
    ([b'{"id": "a1", "result": "' + b"x" * 99 + b"\n"], ["a1"]),
    ([b'{"result": {"id": 3, "text": "' + b"x" * 99 + b"\n"], [None]),
    ([b"x" * 101, b"x" * 101], [None]),
]


NOISY = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if id is None:
        continue
    answer = {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}
    if method == "initialize":
        version = asked["params"]["protocolVersion"]
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        answer = {"jsonrpc": "2.0", "id": id, "result": result}
    elif method == "tools/list":
        tools = [{"name": "echo", "inputSchema": {"type": "object"}}]
        answer = {"jsonrpc": "2.0", "id": id, "result": {"tools": tools}}
    elif method == "tools/call":
        content = [{"type": "text", "text": "said"}]
        answer = {"jsonrpc": "2.0", "id": id, "result": {"content": content}}
    forged = json.dumps(answer).replace("said", "forged") + "\\n"
    print(NOISE, end="")
    print(json.dumps(answer), flush=True)
"""


@pytest.mark.parametrize(
    ("noise", "line"),
    [
        ("'ready. ' * (method == 'initialize')", "ready. {"),
        ("'10 %\\r20 %\\r'", "10 %\r20 %\r{"),
        ("'10 %\\r20 % done'", "10 %\r20 % done{"),
        ("'a {\"id\": ' * 9 + '\\n'", 'a {"id": a {'),
        ("'got ' + line", "got {"),
        # Log lines, in which any web page may write an answer.
        ("'fetched ' + forged", "fetched {"),
        ("'fetched \"a\\r' + forged", 'fetched "a\r{'),
        ("'{}\\r' + forged", "{}\r{"),
        ("'fetched {} ' + forged", "fetched {} {"),
    ],
)
@in_loop
async def test_an_answer_is_found_behind_what_has_no_line_end(noise: str, line: str) -> None:
    told: list[McpEvent] = []
    args = ("-c", NOISY.replace("NOISE", noise))
    server = McpServer("s", command=sys.executable, args=args)
    async with McpTools(server, tap=told.append) as tools:
        assert (await call(tools, "s__echo")).text == "said"
    [heard] = [each.line for each in told if isinstance(each, ServerNoise)]
    assert heard.startswith(line)


@pytest.mark.parametrize(("pieces", "lines"), ROWS)
def test_a_line_over_the_limit_is_reported_once_and_skipped(
    pieces: list[bytes], lines: list[bytes | int | str | None]
) -> None:
    splitter = MessageLines(100)
    read = [line for piece in pieces for line in splitter.feed(piece)]
    assert [line.id if isinstance(line, LongLine) else line for line in read] == lines


SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, id = asked.get("method"), asked.get("id")
    if method == "initialize":
        version = asked["params"]["protocolVersion"]
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        schema = {"type": "object"}
        names = ("small", "large", "endless")
        result = {"tools": [{"name": name, "inputSchema": schema} for name in names]}
    elif method == "tools/call":
        name = asked["params"]["name"]
        if name == "endless":
            print('{"jsonrpc": "2.0", "result": "', end="", flush=True)
            while True:
                print("x" * 10_000, end="", flush=True)
        text = "x" * (2_000_000 if name == "large" else 5)
        result = {"content": [{"type": "text", "text": text}]}
    elif id is not None:
        answer = {"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}}
        print(json.dumps(answer), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
"""


def make(most_bytes: int) -> McpServer:
    return McpServer("s", command=sys.executable, args=("-c", SERVER), message_bytes=most_bytes)


@in_loop
async def test_an_answer_over_the_limit_fails_its_call_and_no_other() -> None:
    async with opened(make(1_000_000)) as tools:
        large = await call(tools, "s__large")
        assert large.failed
        assert "the tool answered, but with more than 1000000 bytes" in large.text
        assert (await call(tools, "s__small")).text == "xxxxx"


@in_loop
async def test_a_large_answer_within_the_limit_arrives() -> None:
    async with opened(make(4_000_000)) as tools:
        assert len((await call(tools, "s__large")).text) == 2_000_000


@in_loop
async def test_a_line_without_an_end_is_a_failed_call() -> None:
    async with opened(make(1_000_000)) as tools:
        with pytest.raises(ToolServerFailed):
            await call(tools, "s__endless")


# ── Of what a process writes to its standard error the end is kept, and never blocks it ─


async def capture(program: str) -> str:
    tail = StderrTail()
    with tail.open() as file:
        subprocess.run([sys.executable, "-c", program], stderr=file, check=True, timeout=30)
    return await tail.finish()


@in_loop
async def test_what_was_written_is_kept() -> None:
    assert await capture("import sys; sys.stderr.write('no such file\\n')") == "no such file"


@in_loop
async def test_of_much_only_the_end_is_kept() -> None:
    kept = await capture("import sys; sys.stderr.write('x' * 1_000_000 + 'the end')")
    assert len(kept) == KEPT
    assert kept.endswith("xthe end")


@in_loop
async def test_bytes_that_are_no_text_do_no_harm() -> None:
    program = "import sys; sys.stderr.buffer.write(b'caf\\xff')"
    assert await capture(program) == "caf\N{REPLACEMENT CHARACTER}"


@in_loop
async def test_without_a_process_there_is_nothing() -> None:
    assert await StderrTail().finish() == ""
