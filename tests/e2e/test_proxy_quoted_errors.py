"""Calls inside of server errors, in the words of the servers, for every client and both modes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web

from any_upstream import AnyUpstream, Said, in_front_of
from case_table import CLIENTS, JOINERS, READERS, Got
from proxy_server import within
from tool_rows import CHAT, MESSAGES, PATHS, RESPONSES
from wholecall.tools.function_tool import make_tool

SCHEMA = {
    "type": "object",
    "properties": {"content": {"type": "string"}, "path": {"type": "string"}},
    "required": ["path"],
}
TOOLS: dict[str, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "write", "parameters": SCHEMA}},
    RESPONSES: {"type": "function", "name": "write", "parameters": SCHEMA},
    MESSAGES: {"name": "write", "input_schema": SCHEMA},
}
PATH = {"path": "a.txt"}
FILE = {"content": "{\n}", "path": "a.txt"}
CODER = (
    "<tool_call>\n<function=write>\n<parameter=content>\n{\n}\n</parameter>\n"
    "<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>"
)
FAILED = (
    "Failed to call a function. Please adjust your prompt. "
    "See 'failed_generation' for more details."
)


def llama_cpp(message: str) -> dict[str, Any]:
    return {"error": {"code": 500, "message": message, "type": "server_error"}}


def groq(said: str | None, message: str = FAILED) -> dict[str, Any]:
    error = {"message": message, "type": "invalid_request_error", "code": "tool_use_failed"}
    return {"error": error if said is None else {**error, "failed_generation": said}}


def openrouter(body: Any) -> dict[str, Any]:
    raw = {"raw": json.dumps(body), "provider_name": "Groq"}
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": raw}}


class Row(NamedTuple):
    """An error, and what becomes of it."""

    says: str
    prefix: str
    status: int
    body: Any
    gives: dict[str, Any] | None
    """The arguments of the call that it quotes; None if the model has to make it once more."""
    told: str = ""
    """What the model is told then."""


ROWS = [
    Row(
        "llama.cpp, Qwen3.6 (issue 24644)",
        "openai",
        500,
        llama_cpp(f"Failed to parse input at pos 1360: {CODER}"),
        FILE,
    ),
    Row(
        "llama.cpp, LFM2.5 (issue 23838)",
        "openai",
        500,
        llama_cpp(
            "Failed to parse input at pos 395: "
            "<|tool_call_start|>[write(path='a.txt')]<|tool_call_end|>"
        ),
        PATH,
    ),
    Row(
        "llama.cpp, its Messages route (issue 20761)",
        "anthropic",
        500,
        llama_cpp(f"Failed to parse input at pos 12: {CODER}"),
        FILE,
    ),
    Row(
        "llama.cpp, its Responses route",
        "responses",
        500,
        llama_cpp(f"Failed to parse input at pos 12: {CODER}"),
        FILE,
    ),
    Row(
        "llama.cpp, the rest of a call (issue 20761)",
        "openai",
        500,
        llama_cpp("Failed to parse input at pos 12: </tool_call>"),
        None,
        "Failed to parse input at pos 12",
    ),
    Row(
        "llama.cpp since June 2026, which quotes nothing",
        "openai",
        500,
        llama_cpp("The model produced output that does not match the expected peg-native format"),
        None,
        "does not match the expected peg-native format",
    ),
    Row(
        "Ollama, gpt-oss, a wrapped call (issue 12884)",
        "ollama",
        500,
        {
            "error": "error parsing tool call: raw='"
            + json.dumps({"name": "write", "parameters": FILE})
            + "', err=invalid character '/' after top-level value"
        },
        FILE,
    ),
    Row(
        "Ollama, gpt-oss, arguments without the name of their tool (issue 17638)",
        "ollama",
        500,
        {"error": """error parsing tool call: raw='{"path":"a.txt"}]', err=invalid"""},
        None,
        "error parsing tool call",
    ),
    Row(
        "Ollama, gpt-oss, a command alone",
        "ollama",
        500,
        {
            "error": "error parsing tool call: raw='ls -R\n', "
            "err=invalid character 'l' looking for beginning of value"
        },
        None,
        "looking for beginning of value",
    ),
    Row(
        "Ollama, qwen3-coder, which quotes nothing (issue 18563)",
        "ollama",
        500,
        {"error": "XML syntax error on line 127: element <parameter> closed by </function>"},
        None,
        "element <parameter> closed by </function>",
    ),
    Row(
        "Ollama's route for chat completions",
        "openai",
        500,
        {
            "error": {
                "message": "expected element type <function> but have <parameter>",
                "type": "api_error",
                "param": None,
                "code": None,
            }
        },
        None,
        "expected element type <function>",
    ),
    Row(
        "Groq, Llama 3.1",
        "openai",
        400,
        groq('<function=write>{"path": "a.txt"}</function>'),
        PATH,
    ),
    Row(
        "Groq, Llama 3 (groq-typescript issue 103)",
        "openai",
        400,
        groq(
            '<tool-use>\n{"tool_calls": [{"id": "pending", "type": "function", "function": '
            '{"name": "write"}, "parameters": {"path": "a.txt"}}]}\n</tool-use>'
        ),
        PATH,
    ),
    Row(
        "Groq, by OpenRouter",
        "openai",
        400,
        openrouter(groq('{"name": "write", "arguments": {"path": "a.txt"}}')),
        PATH,
    ),
    Row(
        "Groq, half a call (smolagents issue 1119)",
        "openai",
        400,
        groq('write{"path": "a.txt", "content": 2016}</function>'),
        None,
        "Failed to call a function",
    ),
    Row(
        "Groq, without the call (ha-groq-cloud-api issue 20)",
        "openai",
        400,
        groq(
            None,
            "tool call validation failed: parameters for tool write did not match schema: "
            "errors: [`/path`: expected string, but got array]",
        ),
        None,
        "expected string, but got array",
    ),
    Row(
        "Groq, a tool that was not offered (mastra issue 9688)",
        "openai",
        400,
        groq(
            '{"name": "listFiles", "arguments": {}}',
            "tool call validation failed: attempted to call tool 'listFiles' "
            "which was not in request.tools",
        ),
        None,
        "listFiles",
    ),
]
FRAMES = {
    "openai": "data: {}\n\n",
    "responses": "data: {}\n\n",
    "anthropic": "event: error\ndata: {}\n\n",
    "ollama": "{}\n",
}
SAID = {"content": "once more", "path": "a.txt"}


def refusals(row: Row) -> Iterator[tuple[str, web.Response]]:
    """The error as a status, and as an event of a stream that has begun well."""
    yield "status", web.json_response(row.body, status=row.status)
    body = row.body
    if row.prefix == "anthropic":
        body = {"type": "error", **body}
    media = "application/x-ndjson" if row.prefix == "ollama" else "text/event-stream"
    frame = FRAMES[row.prefix].format(json.dumps(body))
    yield "event", web.Response(text=frame, content_type=media)


async def ask(it: AnyUpstream, client: str, *, stream: bool, tools: bool) -> tuple[int, Any, Any]:
    body: dict[str, Any] = {"model": "m", "stream": stream}
    if client == RESPONSES:
        body["input"] = "Write it."
    else:
        body |= {"messages": [{"role": "user", "content": "Write it."}], "max_tokens": 99}
    if tools:
        body["tools"] = [TOOLS[client]]
    it.server.bodies.clear()
    return await it.served.post(PATHS[client], body)


def read(client: str, answer: Any, *, stream: bool) -> Got:
    return READERS[client](JOINERS[client](answer) if stream else answer)


class Way(NamedTuple):
    """How a client asks, and what the upstream answers at first."""

    client: str
    stream: bool
    form: str
    refusal: web.Response


def ways(row: Row) -> Iterator[Way]:
    """Each client, streamed or not; an event of a stream only where there is one."""
    for client, stream in product(CLIENTS, (False, True)):
        for form, refusal in refusals(row):
            if form == "status" or stream:
                yield Way(client, stream, form, refusal)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
@within(120)
async def test_gate_hands_over_the_call_or_tells_the_model(row: Row) -> None:
    async with in_front_of(row.prefix) as it:
        for way in ways(row):
            where = (row.says, *way[:3])
            it.first, it.says = [way.refusal], Said("", (("write", SAID),))
            status, answer, _ = await ask(it, way.client, stream=way.stream, tools=True)
            assert (where, status) == (where, 200)
            [(kind, (name, given))] = read(way.client, answer, stream=way.stream).parts
            wanted = SAID if row.gives is None else row.gives
            assert (where, kind, name, given) == (where, "call", "write", wanted)
            check_asked(row, it.sent, where=where)


def check_asked(row: Row, sent: list[Any], *, where: Any) -> None:
    """Once if the error quotes the call; else again, with what was wrong."""
    assert (where, len(sent)) == (where, 1 if row.gives is not None else 2)
    if row.gives is None:
        again = json.dumps(sent[-1], ensure_ascii=False)
        assert (where, row.told in again) == (where, True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.says)
@within(120)
async def test_run_makes_the_call_or_tells_the_model(row: Row, tmp_path: Path) -> None:
    made: list[dict[str, Any]] = []

    def write(path: str, content: str | None = None) -> str:
        """Write a file."""
        made.append({"path": path, "content": content})
        return "written"

    async with in_front_of(
        row.prefix, mode="run", runs=(make_tool(write, read_only=True),), folder=tmp_path
    ) as it:
        for way in ways(row):
            where = (row.says, *way[:3])
            made.clear()
            again = () if row.gives else (Said("", (("write", SAID),)),)
            it.first, it.says = [way.refusal, *again], Said("Done.")
            status, answer, _ = await ask(it, way.client, stream=way.stream, tools=False)
            assert (where, status) == (where, 200)
            assert ("text", "Done.") in read(way.client, answer, stream=way.stream).parts
            assert (where, made) == (where, [{"content": None, **(row.gives or SAID)}])
            check_asked(row, it.sent[:-1], where=where)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.gives is None], ids=lambda row: row.says
)
@within(60)
async def test_without_a_retry_the_client_is_told_not_to_send_it_again(row: Row) -> None:
    async with in_front_of(row.prefix, reask=0, retries=2) as it:
        for client in CLIENTS:
            it.first = [next(refusals(row))[1]]
            status, answer, headers = await ask(it, client, stream=False, tools=True)
            assert (row.says, status, len(it.sent)) == (row.says, 502, 1)
            assert headers["x-should-retry"] == "false"
            assert row.told in json.dumps(answer, ensure_ascii=False)


@within(60)
async def test_run_keeps_the_rules_of_rescue(tmp_path: Path) -> None:
    """A tool that changes something is not run because of a text."""
    made: list[str] = []

    def write(path: str) -> None:
        """Write a file."""
        made.append(path)

    [row] = [row for row in ROWS if row.says.startswith("Groq, Llama 3.1")]
    async with in_front_of(row.prefix, mode="run", runs=(make_tool(write),), folder=tmp_path) as it:
        for way in ways(row):
            it.first, it.says = [way.refusal], Said("Done.")
            status, answer, _ = await ask(it, way.client, stream=way.stream, tools=False)
            assert (status, made, len(it.sent)) == (200, [], 2)
            assert ("text", "Done.") in read(way.client, answer, stream=way.stream).parts
            assert "you wrote it as text" in json.dumps(it.sent[-1])
