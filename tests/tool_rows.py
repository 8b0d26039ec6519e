"""Tools that are not plain functions: their definitions, calls and results in each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

CHAT, RESPONSES, MESSAGES = "openai", "responses", "anthropic"
PROTOCOLS = {CHAT: "openai-chat", RESPONSES: "openai-responses", MESSAGES: "anthropic"}
PATHS = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses", MESSAGES: "/v1/messages"}
AGENT_SCHEMA = {
    "type": "object",
    "properties": {"task": {"type": "string"}},
    "required": ["task"],
    "additionalProperties": False,
}
SPAWN = {"type": "function", "name": "spawn", "description": "Begin.", "parameters": AGENT_SCHEMA}
AGENTS = {"type": "namespace", "name": "agents", "description": "All agents.", "tools": [SPAWN]}
PATCH = {
    "type": "custom",
    "name": "apply",
    "description": "Change files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
DIGITS = {
    "type": "custom",
    "name": "dial",
    "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"},
}
CHAT_PATCH = {"type": "custom", "custom": {"name": "apply", "description": "Change files."}}
BASH: dict[str, Any] = {"type": "bash_20250124", "name": "bash"}
EDITOR: dict[str, Any] = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}
COMPUTER: dict[str, Any] = {
    "type": "computer_20251124",
    "name": "computer",
    "display_width_px": 800,
    "display_height_px": 600,
}
MEMORY: dict[str, Any] = {"type": "memory_20250818", "name": "memory"}
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


class Row(NamedTuple):
    """A tool, a call of it and its result, as client and upstream write them."""

    says: str
    client: str
    tool: dict[str, Any]
    name: str
    """The function that another upstream is offered, and its call."""
    arguments: dict[str, Any]
    call: dict[str, Any]
    """The call as the client gets it, without ids."""
    result: dict[str, Any]
    """The result as the client sends it, without ids."""
    told: str
    """The result as another upstream is told it."""


def tool_use(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


def tool_result(text: str) -> dict[str, Any]:
    return {"type": "tool_result", "content": text}


SHELL_RESULT = [
    {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
    {"stdout": "", "stderr": "no\n", "outcome": {"type": "exit", "exit_code": 2}},
    {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
]
OF_MESSAGES: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (BASH, "bash", {"command": "ls"}),
    (EDITOR, "str_replace_based_edit_tool", {"command": "view", "path": "/a"}),
    (COMPUTER, "computer", {"action": "left_click", "coordinate": [1, 2]}),
    (MEMORY, "memory", {"command": "rename", "old_path": "/a", "new_path": "/b"}),
]
ROWS = [
    Row(
        "a function in a namespace",
        RESPONSES,
        AGENTS,
        "agents__spawn",
        {"task": "x"},
        {
            "type": "function_call",
            "namespace": "agents",
            "name": "spawn",
            "arguments": '{"task":"x"}',
        },
        {"type": "function_call_output", "output": "begun"},
        "begun",
    ),
    Row(
        "free text with a grammar",
        RESPONSES,
        PATCH,
        "apply",
        {"input": 'line "1"\n+é'},
        {"type": "custom_tool_call", "name": "apply", "input": 'line "1"\n+é'},
        {"type": "custom_tool_call_output", "output": "done"},
        "done",
    ),
    Row(
        "free text that a regular expression describes",
        RESPONSES,
        DIGITS,
        "dial",
        {"input": "112"},
        {"type": "custom_tool_call", "name": "dial", "input": "112"},
        {"type": "custom_tool_call_output", "output": [{"type": "input_text", "text": "rings"}]},
        "rings",
    ),
    Row(
        "free text in a namespace",
        RESPONSES,
        {**AGENTS, "tools": [DIGITS]},
        "agents__dial",
        {"input": "112"},
        {"type": "custom_tool_call", "namespace": "agents", "name": "dial", "input": "112"},
        {"type": "custom_tool_call_output", "output": "rings"},
        "rings",
    ),
    Row(
        "the shell",
        RESPONSES,
        {"type": "shell", "environment": {"type": "local"}},
        "shell",
        {"commands": ["ls", "cat b"], "timeout_ms": 5},
        {"type": "shell_call", "action": {"commands": ["ls", "cat b"], "timeout_ms": 5}},
        {"type": "shell_call_output", "output": SHELL_RESULT},
        "a\nno\n(exit code 2)\n(timed out)",
    ),
    Row(
        "the local shell",
        RESPONSES,
        {"type": "local_shell"},
        "local_shell",
        {"command": ["ls", "-l"], "working_directory": "/"},
        {
            "type": "local_shell_call",
            "action": {
                "type": "exec",
                "env": {},
                "command": ["ls", "-l"],
                "working_directory": "/",
            },
        },
        {"type": "local_shell_call_output", "output": "a b"},
        "a b",
    ),
    Row(
        "the patch tool",
        RESPONSES,
        {"type": "apply_patch"},
        "apply_patch",
        {"type": "create_file", "path": "a", "diff": "+1"},
        {
            "type": "apply_patch_call",
            "operation": {"type": "create_file", "path": "a", "diff": "+1"},
        },
        {"type": "apply_patch_call_output", "status": "failed", "output": "exists"},
        "exists",
    ),
    Row(
        "a search for tools that the client makes",
        RESPONSES,
        SEARCH,
        "tool_search",
        {"query": "mail"},
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "mail"}},
        {"type": "tool_search_output", "execution": "client", "tools": [SPAWN]},
        "Tools that can be called now: spawn.",
    ),
    Row(
        "a custom tool of the chat protocol",
        CHAT,
        CHAT_PATCH,
        "apply",
        {"input": "+1"},
        {"type": "custom", "custom": {"name": "apply", "input": "+1"}},
        {"content": "done"},
        "done",
    ),
    *(
        Row(
            f"the tool {name}",
            MESSAGES,
            tool,
            name,
            given,
            tool_use(name, **given),
            tool_result("done"),
            "done",
        )
        for tool, name, given in OF_MESSAGES
    ),
]


# ── The upstreams ───────────────────────────────────────────────────────────────────


def write(arguments: Any) -> str:
    return json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def chat_answer(entry: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    call = {"id": "call_1", **entry}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    deltas: list[Any] = [{"tool_calls": [{"index": 0, **call}]}, {}]
    ends = [None, "tool_calls"]
    chunks = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]
    return whole, [*(("", chunk) for chunk in chunks), ("", "[DONE]")]


def responses_answer(entry: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    item = {"id": "item_1", "call_id": "call_1", "status": "completed", **entry}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "output": [item]}
    events: list[Any] = [
        {"type": "response.created", "response": {**whole, "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [(event["type"], event) for event in events]


def messages_answer(entry: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    block = {"id": "call_1", **entry}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {**head, "content": [block], "stop_reason": "tool_use", "usage": usage}
    delta = {"type": "input_json_delta", "partial_json": write(entry["input"])}
    events: list[Any] = [
        {"type": "message_start", "message": {**head, "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
        {"type": "message_stop"},
    ]
    return whole, [(event["type"], event) for event in events]


ANSWERS: dict[str, Callable[[dict[str, Any]], tuple[dict[str, Any], list[Any]]]] = {
    CHAT: chat_answer,
    RESPONSES: responses_answer,
    MESSAGES: messages_answer,
}


def function_call(protocol: str, name: str, *, arguments: dict[str, Any]) -> dict[str, Any]:
    """The call of a function, as an upstream writes it."""
    text = write(arguments)
    calls: dict[str, dict[str, Any]] = {
        CHAT: {"type": "function", "function": {"name": name, "arguments": text}},
        RESPONSES: {"type": "function_call", "name": name, "arguments": text},
        MESSAGES: tool_use(name, **arguments),
    }
    return calls[protocol]


# ── The clients ─────────────────────────────────────────────────────────────────────


def ask(client: str, tool: Any, *history: Any, stream: bool = False, **more: Any) -> dict[str, Any]:
    user = {"role": "user", "content": "Do it."}
    said = {"input" if client == RESPONSES else "messages": [user, *history]}
    limit = {"max_tokens": 99} if client == MESSAGES else {}
    return {"model": "m", "tools": [tool], "stream": stream, **said, **limit, **more}


def history_of(row: Row) -> list[Any]:
    if row.client == RESPONSES:
        named = (
            {"id": "call_1"} if row.call["type"] == "local_shell_call" else {"call_id": "call_1"}
        )
        return [{"id": "item_1", "call_id": "call_1", **row.call}, {**row.result, **named}]
    if row.client == CHAT:
        called = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", **row.call}],
        }
        return [called, {"role": "tool", "tool_call_id": "call_1", **row.result}]
    return [
        {"role": "assistant", "content": [{"id": "call_1", **row.call}]},
        {"role": "user", "content": [{"tool_use_id": "call_1", **row.result}]},
    ]


def read_events(text: str) -> Iterator[Any]:
    for line in text.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def join_stream(client: str, text: str) -> Any:
    """The whole answer that a stream amounts to."""
    events = list(read_events(text))
    if client == RESPONSES:
        return events[-1]["response"]
    if client == CHAT:
        choices = [event["choices"][0] for event in events if event["choices"]]
        [entry] = [each for choice in choices for each in choice["delta"].get("tool_calls", ())]
        reasons = [choice["finish_reason"] for choice in choices]
        message = {"tool_calls": [entry]}
        return {"choices": [{"message": message, "finish_reason": reasons[-1]}]}
    [block] = [each["content_block"] for each in events if each["type"] == "content_block_start"]
    pieces = [each["delta"] for each in events if each["type"] == "content_block_delta"]
    given = json.loads("".join(piece["partial_json"] for piece in pieces))
    [end] = [each["delta"] for each in events if each["type"] == "message_delta"]
    return {"content": [{**block, "input": given}], "stop_reason": end["stop_reason"]}


def read_call(client: str, body: Any) -> tuple[dict[str, Any], str]:
    """The one call of an answer, and how it ended."""
    if client == RESPONSES:
        return body["output"][-1], body["status"]
    if client == CHAT:
        choice = body["choices"][0]
        return choice["message"]["tool_calls"][-1], choice["finish_reason"]
    return body["content"][-1], body["stop_reason"]


ENDS = {CHAT: "tool_calls", RESPONSES: "completed", MESSAGES: "tool_use"}


def offered(protocol: str, body: Any) -> list[tuple[str, Any]]:
    """The functions that an upstream was offered, with their schemas."""
    tools = body.get("tools", [])
    if protocol == CHAT:
        return [(tool["function"]["name"], tool["function"]["parameters"]) for tool in tools]
    return [(tool["name"], tool.get("parameters", tool.get("input_schema"))) for tool in tools]


def told(protocol: str, body: Any) -> tuple[str, Any, str]:
    """The past call and its result, as an upstream was told them."""
    if protocol == RESPONSES:
        *_, called, result = body["input"]
        return called["name"], json.loads(called["arguments"]), result["output"]
    *_, answer, reply = body["messages"]
    if protocol == CHAT:
        function = answer["tool_calls"][0]["function"]
        return function["name"], json.loads(function["arguments"]), reply["content"]
    [block], [result] = answer["content"], reply["content"]
    return block["name"], block["input"], result["content"]


def cleaned(row: Row, call: dict[str, Any]) -> dict[str, Any]:
    assert call.get("call_id", call["id"])
    return {name: value for name, value in call.items() if name in row.call}


def check_answers(row: Row, answers: list[tuple[int, Any, Any]]) -> None:
    for status, answer, _ in answers:
        assert status == 200, answer
        whole = join_stream(row.client, answer) if isinstance(answer, str) else answer
        call, end = read_call(row.client, whole)
        assert cleaned(row, call) == row.call
        assert end == ENDS[row.client]
