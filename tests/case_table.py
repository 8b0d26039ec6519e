"""What each client gets of each upstream, found out by trying, streamed and whole.

`.venv/bin/python tests/case_table.py` prints the table of docs/protocols.md.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aiohttp import web

from any_upstream import UPSTREAMS, AnyUpstream, Said, in_front_of
from tool_rows import AGENTS, ANSWERS, CHAT, CHAT_PATCH, MESSAGES, PATCH, PATHS, RESPONSES
from tool_rows import ask as ask_with_tool

CLIENTS = {CHAT: "openai-chat", RESPONSES: "openai-responses", MESSAGES: "anthropic"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = {"path": "a.txt"}
_NAMED = {"name": "place", "schema": SCHEMA}
_FORMATS: dict[str, dict[str, Any]] = {
    CHAT: {"response_format": {"type": "json_schema", "json_schema": _NAMED}},
    RESPONSES: {"text": {"format": {"type": "json_schema", **_NAMED}}},
    MESSAGES: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
}
_FUNCTIONS: dict[str, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "read", "parameters": SCHEMA}},
    RESPONSES: {"type": "function", "name": "read", "parameters": SCHEMA},
    MESSAGES: {"name": "read", "input_schema": SCHEMA},
}
_CUSTOM: dict[str, dict[str, Any]] = {CHAT: CHAT_PATCH, RESPONSES: PATCH}
_CUSTOM_CALLS: dict[str, dict[str, Any]] = {
    CHAT: {"type": "custom", "custom": {"name": "apply", "input": "+1"}},
    RESPONSES: {"type": "custom_tool_call", "name": "apply", "input": "+1"},
}
_SPAWNED = {"type": "function_call", "namespace": "agents", "name": "spawn"}


class Got(NamedTuple):
    """What a client gets: the parts of an answer, each with its kind, and how it ends."""

    parts: tuple[tuple[str, Any], ...]
    end: str

    def __str__(self) -> str:
        kinds = [kind for kind, _ in self.parts]
        counted = [
            f"{kinds.count(kind)} {kind}s" if kinds.count(kind) > 1 else kind
            for kind in dict.fromkeys(kinds)
        ]
        return ", ".join([*counted, f"`{self.end}`"])


class Case(NamedTuple):
    """One kind of answer."""

    says: Said | int
    """What the model says, or the status with which its upstream refuses."""
    parts: tuple[tuple[str, Any], ...] = ()
    fields: Callable[[str], dict[str, Any]] = lambda client: {"tools": [_FUNCTIONS[client]]}
    """The fields of the client's request."""
    native: Callable[[str], dict[str, Any] | None] = lambda _: None
    """The call as an upstream of the client's own protocol writes it."""
    clients: tuple[str, ...] = (CHAT, RESPONSES, MESSAGES)
    """Those whose protocol has it."""


_CALL = ("call", ("read", READ))
CASES = {
    "text": Case(Said("Hi."), (("text", "Hi."),)),
    "one call": Case(Said("", (("read", READ),)), (_CALL,)),
    "parallel calls": Case(Said("", (("read", READ), ("read", READ))), (_CALL, _CALL)),
    "reasoning and a call": Case(
        Said("", (("read", READ),), "Let me see."), (("reasoning", "Let me see."), _CALL)
    ),
    "a custom call": Case(
        Said("", (("apply", {"input": "+1"}),)),
        (("custom call", ("apply", "+1")),),
        lambda client: {"tools": [_CUSTOM[client]]},
        _CUSTOM_CALLS.get,
        (CHAT, RESPONSES),
    ),
    "a call in a namespace": Case(
        Said("", (("agents__spawn", {"task": "x"}),)),
        (("namespaced call", ("agents", "spawn", {"task": "x"})),),
        lambda _: {"tools": [AGENTS]},
        lambda _: {**_SPAWNED, "arguments": '{"task": "x"}'},
        (RESPONSES,),
    ),
    "structured output": Case(
        Said('{"path": "a.txt"}'), (("text", '{"path": "a.txt"}'),), _FORMATS.__getitem__
    ),
    "an error": Case(503),
}
ENDS = {
    CHAT: ("stop", "tool_calls"),
    RESPONSES: ("completed", "completed"),
    MESSAGES: ("end_turn", "tool_use"),
}


def expect(client: str, case: Case) -> Got:
    if isinstance(case.says, int):
        return Got((("error", None),), str(case.says))
    return Got(case.parts, ENDS[client][bool(case.says.calls)])


# ── What a client reads ─────────────────────────────────────────────────────────────


def _read_chat(body: Any) -> Got:
    [choice] = body["choices"]
    message = choice["message"]
    named = (("reasoning", "reasoning_content"), ("text", "content"))
    said = [(kind, message[field]) for kind, field in named if message.get(field)]
    calls = map(_read_chat_call, message.get("tool_calls") or ())
    return Got((*said, *calls), choice["finish_reason"])


def _read_chat_call(call: Any) -> tuple[str, Any]:
    if call["type"] == "custom":
        return "custom call", (call["custom"]["name"], call["custom"]["input"])
    return "call", (call["function"]["name"], json.loads(call["function"]["arguments"]))


def _read_responses(body: Any) -> Got:
    return Got(tuple(map(_read_item, body["output"])), body["status"])


def _read_item(item: Any) -> tuple[str, Any]:
    if item["type"] == "message":
        return "text", item["content"][0]["text"]
    if item["type"] == "reasoning":
        return "reasoning", item["summary"][0]["text"]
    if item["type"] == "custom_tool_call":
        return "custom call", (item["name"], item["input"])
    arguments = json.loads(item["arguments"])
    if "namespace" in item:
        return "namespaced call", (item["namespace"], item["name"], arguments)
    return "call", (item["name"], arguments)


def _read_messages(body: Any) -> Got:
    fields = {"text": ("text", "text"), "thinking": ("reasoning", "thinking")}
    parts: list[tuple[str, Any]] = []
    for block in body["content"]:
        if block["type"] == "tool_use":
            parts.append(("call", (block["name"], block["input"])))
        else:
            kind, field = fields[block["type"]]
            parts.append((kind, block[field]))
    return Got(tuple(parts), body["stop_reason"])


def _events(stream: str) -> Iterator[Any]:
    for line in stream.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _join_chat(stream: str) -> Any:
    message: dict[str, Any] = {"tool_calls": {}}
    end = None
    for choice in (choice for event in _events(stream) for choice in event["choices"]):
        end = choice["finish_reason"] or end
        for name, value in choice["delta"].items():
            if name in ("content", "reasoning_content") and value:
                message[name] = message.get(name, "") + value
        for piece in choice["delta"].get("tool_calls", ()):
            _grow(message["tool_calls"].setdefault(piece["index"], {}), piece)
    message["tool_calls"] = list(message["tool_calls"].values())
    return {"choices": [{"message": message, "finish_reason": end}]}


def _grow(call: dict[str, Any], piece: Any) -> None:
    """Add a piece of a call: texts of its function grow, all else is said once."""
    for name, value in piece.items():
        if isinstance(value, dict):
            inner = call.setdefault(name, {})
            for field, text in value.items():
                inner[field] = inner.get(field, "") + text
        else:
            call[name] = value


def _join_messages(stream: str) -> Any:
    blocks: list[dict[str, Any]] = []
    end = None
    for event in _events(stream):
        delta = event.get("delta", {})
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "partial": ""})
        elif event["type"] == "message_delta":
            end = delta["stop_reason"]
        elif "partial_json" in delta:
            blocks[-1]["partial"] += delta["partial_json"]
        else:
            for name in {"text", "thinking"} & delta.keys():
                blocks[-1][name] += delta[name]
    whole = ({**block, "input": json.loads(block["partial"] or "{}")} for block in blocks)
    return {"content": list(whole), "stop_reason": end}


READERS = {CHAT: _read_chat, RESPONSES: _read_responses, MESSAGES: _read_messages}
JOINERS: dict[str, Callable[[str], Any]] = {
    CHAT: _join_chat,
    RESPONSES: lambda stream: list(_events(stream))[-1]["response"],
    MESSAGES: _join_messages,
}


# ── Trying ──────────────────────────────────────────────────────────────────────────


def _answer(client: str, prefix: str, *, case: Case, stream: bool) -> Said | web.Response:
    """What the upstream answers; a call of a special tool is native in its own protocol only."""
    if isinstance(case.says, int):
        return web.json_response({"error": {"message": "busy"}}, status=case.says)
    native = case.native(client) if client == prefix else None
    if native is None:
        return case.says
    whole, events = ANSWERS[prefix](native)
    if not stream:
        return web.json_response(whole)
    frames = (
        (name, event if isinstance(event, str) else json.dumps(event)) for name, event in events
    )
    body = "".join(
        f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n" for name, text in frames
    )
    return web.Response(text=body, content_type="text/event-stream")


async def find_got(it: AnyUpstream, client: str, *, case: Case, stream: bool) -> Got:
    """What the client gets."""
    it.says = _answer(client, it.prefix, case=case, stream=stream)
    body = ask_with_tool(client, None, stream=stream)
    body = {**body, "tools": [], **case.fields(client)}
    status, answer, _ = await it.served.post(PATHS[client], body)
    if status != 200:
        return Got((("error", None),), str(status))
    return READERS[client](JOINERS[client](answer) if stream else answer)


class Row(NamedTuple):
    """A row of the table."""

    client: str
    name: str

    def write(self, cells: list[str]) -> str:
        return f"| `{CLIENTS[self.client]}` | {self.name} | {' | '.join(cells)} |"


ROWS = [
    Row(client, name)
    for client in CLIENTS
    for name, case in CASES.items()
    if client in case.clients
]


async def find_column(prefix: str) -> dict[Row, list[Got]]:
    """What each client gets of one upstream, streamed and whole."""
    found: dict[Row, list[Got]] = {}
    async with in_front_of(prefix) as it:
        for row in ROWS:
            case = CASES[row.name]
            found[row] = [
                await find_got(it, row.client, case=case, stream=stream) for stream in (True, False)
            ]
    return found


async def write_cases() -> str:
    """The table."""
    columns = [await find_column(prefix) for prefix in UPSTREAMS]
    heads = [f"`{protocol}`" for protocol in UPSTREAMS.values()]
    lines = [f"| client | answer | {' | '.join(heads)} |", "|---" * (len(heads) + 2) + "|"]
    for row in ROWS:
        pairs = [column[row] for column in columns]
        lines.append(row.write([" or ".join(dict.fromkeys(map(str, pair))) for pair in pairs]))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(write_cases())}\n")
