from typing import Any

import pytest

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Media,
    Message,
    Mode,
    Native,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.anthropic.request import encode
from wholecall.protocols.history import ReasoningRule as Wanted
from wholecall.protocols.history import Target

PROTOCOL = "anthropic"
MODEL = "claude-sonnet-4-5"
USER = Message(Role.USER, (Text("hi"),))
HI = {"role": "user", "content": "hi"}
CALL = PastCall(id="a", name="f", arguments={"x": 1})
CALLED = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
OTHER = PastCall(id="b", name="g", arguments={})
PICTURE = Media(kind="image", media_type="image/png", data="AAAA")
SCHEMA = {"type": "object"}
TOOLS = (ToolSpec("f", SCHEMA, "d"), ToolSpec("g"))


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    given = {"model": MODEL, "stream": False, **fields}
    return encode(Request(**given, messages=messages or (USER,)))


def answer(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


def result(id: str, *content: Text | Media, failed: bool = False) -> Message:
    return Message(Role.TOOL, (CallResult(call_id=id, result=Result(content, failed)),))


def test_a_plain_request() -> None:
    assert body() == {"model": MODEL, "max_tokens": 64_000, "messages": [HI], "stream": False}


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"max_tokens": 5}, {"max_tokens": 5}),
    ({"stop": ("a",)}, {"stop_sequences": ["a"]}),
    ({"temperature": 0.5}, {"temperature": 0.5}),
    ({"top_p": 0.5}, {"top_p": 0.5}),
    ({"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5}),
    (
        {"model": "kimi", "temperature": 0.5, "top_p": 0.5},
        {"model": "kimi", "temperature": 0.5, "top_p": 0.5, "max_tokens": 8192},
    ),
    (
        {"model": "claude-opus-4-7", "temperature": 0.5, "top_p": 0.5},
        {"model": "claude-opus-4-7", "max_tokens": 128_000},
    ),
    (
        {
            "output": OutputSchema(schema=SCHEMA),
            "rest": Native(PROTOCOL, {"output_config": {"effort": "low"}}),
        },
        {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    (
        {"rest": Native(PROTOCOL, {"thinking": {"type": "adaptive"}})},
        {"thinking": {"type": "adaptive"}},
    ),
    (
        {"tools": TOOLS, "choice": Choice(Mode.REQUIRED, ("f",))},
        {
            "tools": [
                {"name": "f", "description": "d", "input_schema": SCHEMA},
                {"name": "g", "input_schema": {**SCHEMA, "properties": {}}},
            ],
            "tool_choice": {"type": "tool", "name": "f"},
        },
    ),
    (
        {"tools": TOOLS, "choice": Choice(Mode.AUTO, ("f",))},
        {
            "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA}],
            "tool_choice": {"type": "auto"},
        },
    ),
]


@pytest.mark.parametrize(("fields", "added"), FIELDS)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {**body(), **added}


# ── System ──────────────────────────────────────────────────────────────────────────

SYSTEM = Message(Role.SYSTEM, (Text("s"),))
BLOCKS = [{"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}]
OWN = Message(Role.SYSTEM, (Text("t"),), Native(PROTOCOL, ({"role": "system", "content": BLOCKS},)))


@pytest.mark.parametrize(
    ("messages", "system"),
    [
        ([SYSTEM, USER], "s"),
        ([OWN, USER], BLOCKS),
        ([SYSTEM, OWN, USER], [{"type": "text", "text": "s"}, *BLOCKS]),
        ([USER, SYSTEM], "s"),
        ([Message(Role.SYSTEM, (Text(""),)), USER], None),
    ],
)
def test_system_messages_stand_apart(messages: list[Message], system: Any) -> None:
    written = body(*messages)
    assert written.get("system") == system
    assert written["messages"] == [HI]


def test_but_a_client_of_this_protocol_may_put_them_anywhere() -> None:
    assert body(USER, OWN)["messages"] == [HI, {"role": "system", "content": BLOCKS}]


# ── Messages ────────────────────────────────────────────────────────────────────────


def ok(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


MESSAGES: list[tuple[str, list[Message], list[Any]]] = [
    (
        "all results of a turn stand in one message, before what the user says",
        [
            USER,
            answer(Text("t"), CALL, OTHER),
            result("a", Text("1")),
            result("b", Text("2")),
            USER,
        ],
        [
            HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "t"},
                    CALLED,
                    {"type": "tool_use", "id": "b", "name": "g", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [ok("a", "1"), ok("b", "2"), {"type": "text", "text": "hi"}],
            },
        ],
    ),
    (
        "what the model says behind results stands apart",
        [USER, answer(CALL), result("a", Text("1")), answer(Text("t")), USER],
        [
            HI,
            {"role": "assistant", "content": [CALLED]},
            {"role": "user", "content": [ok("a", "1")]},
            {"role": "assistant", "content": [{"type": "text", "text": "t"}]},
            HI,
        ],
    ),
    (
        "a failure is a failure, and images stand in results",
        [USER, answer(CALL), result("a", Text("no"), PICTURE, failed=True)],
        [
            HI,
            {"role": "assistant", "content": [CALLED]},
            {
                "role": "user",
                "content": [
                    ok(
                        "a",
                        [
                            {"type": "text", "text": "no"},
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "media_type": "image/png",
                                    "data": "AAAA",
                                },
                            },
                        ],
                        is_error=True,
                    )
                ],
            },
        ],
    ),
    (
        "thinking goes back if it is signed",
        [
            USER,
            answer(
                Reasoning("a", {"signature": "s"}),
                Reasoning("", {"redacted_thinking": "r"}),
                Reasoning("b"),
                Reasoning("c", {"item": {}}),
                Native(PROTOCOL, {"type": "server_tool_use"}),
                Native("gemini", {}),
                Text("t"),
            ),
        ],
        [
            HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "a", "signature": "s"},
                    {"type": "redacted_thinking", "data": "r"},
                    {"type": "server_tool_use"},
                    {"type": "text", "text": "t"},
                ],
            },
        ],
    ),
    (
        "documents are PDFs, texts or addresses",
        [
            Message(
                Role.USER,
                (
                    Media(kind="document", media_type="application/pdf", data="AA", name="a.pdf"),
                    Media(kind="document", media_type="text/markdown", data="aGVsbG8="),
                    Media(kind="document", media_type="text/plain", data="not base64"),
                    Media(kind="document", media_type="text/plain", url="https://x/a"),
                    Native(PROTOCOL, {"type": "search_result"}),
                ),
            )
        ],
        [
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"},
                        "title": "a.pdf",
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "hello"},
                    },
                    {
                        "type": "document",
                        "source": {
                            "type": "base64",
                            "media_type": "text/plain",
                            "data": "not base64",
                        },
                    },
                    {"type": "document", "source": {"type": "url", "url": "https://x/a"}},
                    {"type": "search_result"},
                ],
            }
        ],
    ),
    (
        "the user begins",
        [answer(Text("t")), USER],
        [
            {"role": "user", "content": "(The conversation begins with the assistant.)"},
            {"role": "assistant", "content": [{"type": "text", "text": "t"}]},
            HI,
        ],
    ),
    ("two messages of the user stay two", [USER, USER], [HI, HI]),
]


@pytest.mark.parametrize(
    ("messages", "written"), [pytest.param(m, w, id=says) for says, m, w in MESSAGES]
)
def test_messages(messages: list[Message], written: list[Any]) -> None:
    assert body(*messages)["messages"] == written


def test_however_much_follows_results_is_joined_to_them() -> None:
    said = [Message(Role.USER, (Text(str(number)),)) for number in range(20_000)]
    [_, _, joined] = body(USER, answer(CALL), result("a", Text("x")), *said)["messages"]
    assert [block.get("text") for block in joined["content"]] == [None, *map(str, range(20_000))]


def test_nothing_is_an_empty_history() -> None:
    assert encode(Request(model=MODEL, messages=()))["messages"] == []


@pytest.mark.parametrize("part", [Media(kind="audio", data="AA"), Native("gemini", {})])
def test_what_cannot_be_sent_is_told(part: Part) -> None:
    [message] = body(Message(Role.USER, (part,)))["messages"]
    assert "eft out here" in message["content"][0]["text"]


def test_imitators_get_thinking_back_that_nobody_signed() -> None:
    sealed = Reasoning("c", {"item": {"encrypted_content": "x"}})
    thought = answer(Reasoning("b"), sealed, Text("t"))
    block = {"type": "thinking", "thinking": "b", "signature": ""}
    said = [block, {"type": "text", "text": "t"}]
    assert body(USER, thought, model="kimi")["messages"][1]["content"] == said
    request = Request(model=MODEL, messages=(USER, thought))
    written = encode(request, Target(reasoning=Wanted.ALL))
    assert written["messages"][1]["content"][0] == block


def test_what_a_call_goes_back_with() -> None:
    extras = {"caller": {"type": "direct"}, "item_id": "fc"}
    call = PastCall(id="a", name="f", arguments={}, extras=extras)
    [block] = body(USER, answer(call))["messages"][1]["content"]
    assert block == {**CALLED, "input": {}, "caller": {"type": "direct"}}


def test_a_history_with_calls_declares_them_where_nothing_is_offered() -> None:
    called = (USER, answer(CALL, PastCall(id="b", name="g", arguments={})))
    written = body(*called)
    assert [tool["name"] for tool in written["tools"]] == ["f", "g"]
    assert written["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in body(*called, tools=TOOLS)["tools"]] == ["f", "g"]
    bash = Native(PROTOCOL, {"type": "bash_20250124", "name": "bash"})
    assert body(*called, native_tools=(bash,))["tools"] == [bash.value]
