from typing import Any

import pytest

from wholecall.errors import InvalidChoice, UnreadableRequest
from wholecall.events import Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Media,
    Message,
    Mode,
    ModelOptions,
    Native,
    OutputSchema,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.anthropic.request import decode, encode
from wholecall.protocols.anthropic.shapes import read_kinds

PROTOCOL = "anthropic"
SCHEMA = {"type": "object"}
TOOL = {"name": "f", "input_schema": SCHEMA}
BASH = {"type": "bash_20250124", "name": "bash"}


def read(*messages: Any, **fields: Any) -> Request:
    return decode({"model": "m", "messages": list(messages), **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        (
            {"stream": True, "max_tokens": 5, "temperature": 0.5, "top_p": 0.1},
            {"stream": True, "max_tokens": 5, "temperature": 0.5, "top_p": 0.1},
        ),
        ({"stop_sequences": ["a"]}, {"stop": ("a",)}),
        ({"top_k": 1}, {"rest": Native(PROTOCOL, {"top_k": 1})}),
        (
            {"tools": [TOOL, BASH], "tool_choice": {"type": "tool", "name": "bash"}},
            {
                "tools": (ToolSpec("f", SCHEMA), *(read_kinds(BASH, "") or ())),
                "rest": Native(PROTOCOL, {"tools": [TOOL, BASH]}),
                "choice": Choice(Mode.REQUIRED, ("bash",)),
            },
        ),
        (
            {"tools": [{**TOOL, "type": "custom", "strict": True}]},
            {
                "tools": (ToolSpec("f", SCHEMA, strict=True),),
                "rest": Native(PROTOCOL, {"tools": [{**TOOL, "type": "custom", "strict": True}]}),
            },
        ),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            {"output": OutputSchema(schema=SCHEMA)},
        ),
        (
            {"output_config": {"effort": "low", "format": None}},
            {
                "rest": Native(PROTOCOL, {"output_config": {"effort": "low", "format": None}}),
                "options": ModelOptions(effort="low"),
            },
        ),
        (
            {"system": "s"},
            {
                "messages": (
                    Message(
                        Role.SYSTEM,
                        (Text("s"),),
                        Native(PROTOCOL, ({"role": "system", "content": "s"},)),
                    ),
                )
            },
        ),
    ],
)
def test_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(**fields) == Request(**{"model": "m", "messages": (), "stream": False, **expected})


MESSAGES: list[tuple[dict[str, Any], Role, list[Any]]] = [
    ({"role": "user", "content": "u"}, Role.USER, [Text("u")]),
    ({"role": "user", "content": None}, Role.USER, []),
    ({"role": "system", "content": [{"type": "text", "text": "s"}]}, Role.SYSTEM, [Text("s")]),
    (
        {
            "role": "user",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AA"},
                },
                {"type": "image", "source": {"type": "url", "url": "https://x"}},
                {"type": "image", "source": {"type": "file", "file_id": "f"}},
                {
                    "type": "document",
                    "title": "n",
                    "source": {"type": "text", "media_type": "text/plain", "data": "hello"},
                },
                {"type": "search_result"},
                {
                    "type": "search_result",
                    "title": "t",
                    "source": "s",
                    "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                },
                {},
            ],
        },
        Role.USER,
        [
            Media(kind="image", media_type="image/png", data="AA"),
            Media(kind="image", url="https://x"),
            Native(PROTOCOL, {"type": "image", "source": {"type": "file", "file_id": "f"}}),
            Media(kind="document", media_type="text/plain", data="aGVsbG8=", name="n"),
            Native(PROTOCOL, {"type": "search_result"}),
            Text("t\ns\na\nb"),
            Native(PROTOCOL, {}),
        ],
    ),
    (
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "a", "signature": "s"},
                {"type": "thinking", "thinking": "b", "signature": ""},
                {"type": "redacted_thinking", "data": "r"},
                {"type": "text", "text": "t"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}, "caller": {"c": 1}},
                {"type": "tool_use", "name": "f", "input": None, "caller": None},
                {"type": "server_tool_use"},
            ],
        },
        Role.ASSISTANT,
        [
            Reasoning("a", {"signature": "s"}),
            Reasoning("b"),
            Reasoning("", {"redacted_thinking": "r"}),
            Text("t"),
            PastCall(id="a", name="f", arguments={"x": 1}, extras={"caller": {"c": 1}}),
            PastCall(id="", name="f", arguments={}),
            Native(PROTOCOL, {"type": "server_tool_use"}),
        ],
    ),
]


@pytest.mark.parametrize(("native", "role", "parts"), MESSAGES)
def test_messages(native: dict[str, Any], role: Role, *, parts: list[Any]) -> None:
    assert read(native).messages == (Message(role, tuple(parts), Native(PROTOCOL, (native,))),)


def test_an_empty_message_is_none() -> None:
    assert read({"role": "user", "content": []}).messages == ()


def test_results_are_a_message_of_their_own_and_stand_first() -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    one = {"type": "tool_result", "tool_use_id": "a", "content": "1", "is_error": True}
    text = {"type": "text", "text": "u"}
    two = {"type": "tool_result", "content": None}
    mixed = {"role": "user", "content": [text, one, two], "x": 1}
    _, results, said = read({"role": "assistant", "content": [call]}, mixed).messages
    assert results == Message(
        Role.TOOL,
        (
            CallResult(call_id="a", name="f", result=Result((Text("1"),), failed=True)),
            CallResult(call_id="", result=Result()),
        ),
        Native(PROTOCOL, ({"role": "user", "content": [one, two], "x": 1},)),
    )
    assert said == Message(
        Role.USER, (Text("u"),), Native(PROTOCOL, ({"role": "user", "content": [text], "x": 1},))
    )


def test_a_result_may_hold_anything() -> None:
    content = [
        {"type": "text", "text": "t"},
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "tool_reference", "tool_name": "ü"},
    ]
    block = {"type": "tool_result", "tool_use_id": "a", "content": content}
    [message] = read({"role": "user", "content": [block]}).messages
    [part] = message.parts
    assert isinstance(part, CallResult)
    assert part.result.content == (
        Text("t"),
        Media(kind="image", url="https://x"),
        Text('{"type": "image", "source": {"type": "file", "file_id": "f"}}'),
        Text('{"type": "tool_reference", "tool_name": "ü"}'),
    )


def message(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": 1}, "messages"),
        ({"messages": [{"role": "king"}]}, "messages[0].role"),
        (message(1), "messages[0].content[0]"),
        (message({"type": "text"}), "messages[0].content[0].text"),
        (message({"type": ["text"]}), "messages[0].content[0].type"),
        (
            message({"type": "tool_result", "content": [{"type": {}}]}),
            "messages[0].content[0].content[0].type",
        ),
        (message({"type": "image"}), "messages[0].content[0].source"),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking"}]}]},
            "messages[0].content[0].data",
        ),
        (
            message({"type": "tool_result", "content": [{"type": "text"}]}),
            "messages[0].content[0].content[0].text",
        ),
        ({"messages": [], "system": [{"type": "text"}]}, "system[0].text"),
        *(
            (
                {
                    "messages": [
                        {"role": role, "content": [{"type": kind, "name": "f", "data": ""}]}
                    ]
                },
                "messages[0].content[0]",
            )
            for role in ("user", "system")
            for kind in ("tool_use", "thinking", "redacted_thinking")
        ),
        ({"messages": [], "system": 1}, "system"),
        (
            {"messages": [], "output_config": {"format": {"type": "json_schema"}}},
            "output_config.format.schema",
        ),
        ({"messages": [], "tools": [{"input_schema": {}}]}, "tools[0].name"),
    ],
)
def test_what_cannot_be_read_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        decode({"model": "m", **fields})
    assert caught.value.param == param


def test_a_choice_that_is_not_allowed_is_named() -> None:
    with pytest.raises(InvalidChoice) as caught:
        read(tool_choice={"type": "sometimes"})
    assert caught.value.param == "tool_choice.type"


TEXT_BLOCK = {"type": "text", "text": "b"}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ([{"type": "text", "text": "a"}, TEXT_BLOCK], "a\nb"),
        ([TEXT_BLOCK, {"type": "image"}], None),
        ([TEXT_BLOCK, 1], None),
        ([], None),
        (None, None),
    ],
)
def test_a_document_of_texts_is_a_text(content: Any, text: str | None) -> None:
    block = {"type": "document", "source": {"type": "content", "content": content}}
    messages = [{"role": "user", "content": [block]}]
    request = decode({"model": "m", "max_tokens": 9, "messages": messages})
    [part] = request.messages[0].parts
    assert (part.plain_text if isinstance(part, Media) else None) == text
    assert encode(request)["messages"] == messages
