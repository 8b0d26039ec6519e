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
    Native,
    OutputSchema,
    PastCall,
    Request,
    Result,
    Role,
    ToolKind,
    ToolSpec,
)
from wholecall.protocols.openai_chat.request import decode, encode
from wholecall.protocols.request_fields import ANY_OBJECT
from wholecall.protocols.tool_kinds import text_tool

PROTOCOL = "openai-chat"
SCHEMA = {"type": "object"}
FUNCTION = {"name": "f", "parameters": SCHEMA}
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}


def read(*messages: Any, **fields: Any) -> Request:
    return decode({"model": "m", "messages": list(messages), **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"stream": False}),
        ({"stream": True}, {"stream": True}),
        ({"stream": None}, {"stream": False}),
        ({"temperature": 1, "top_p": 0.5}, {"temperature": 1.0, "top_p": 0.5}),
        ({"stop": "a"}, {"stop": ("a",)}),
        ({"stop": ["a", "b"]}, {"stop": ("a", "b")}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        (
            {"max_tokens": 5, "max_completion_tokens": 9},
            {"max_tokens": 9, "rest": Native(PROTOCOL, {"max_completion_tokens": 9})},
        ),
        ({"model": "gpt-5", "max_completion_tokens": 9}, {"model": "gpt-5", "max_tokens": 9}),
        (
            {"model": "gpt-4", "max_tokens": 9},
            {"model": "gpt-4", "max_tokens": 9, "rest": Native(PROTOCOL, {"max_tokens": 9})},
        ),
        ({"seed": 1, "x": None}, {"rest": Native(PROTOCOL, {"seed": 1, "x": None})}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA},
                }
            },
            {"output": OutputSchema(schema=SCHEMA, name="n", strict=False)},
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {
                        "name": "n",
                        "schema": SCHEMA,
                        "strict": True,
                        "description": "d",
                    },
                }
            },
            {
                "output": OutputSchema(schema=SCHEMA, name="n"),
                "rest": Native(
                    PROTOCOL, {"response_format": {"json_schema": {"description": "d"}}}
                ),
            },
        ),
        (
            {"response_format": {"type": "json_object"}},
            {"output": ANY_OBJECT},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            {
                "rest": Native(
                    PROTOCOL,
                    {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
                )
            },
        ),
        (
            {"tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "required"},
            {"tools": (ToolSpec("f", SCHEMA),), "choice": Choice(Mode.REQUIRED)},
        ),
        (
            {"functions": [FUNCTION], "function_call": {"name": "f"}},
            {
                "tools": (ToolSpec("f", SCHEMA),),
                "choice": Choice(Mode.REQUIRED, ("f",), parallel=False),
            },
        ),
        (
            {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]},
            {
                "tools": (ToolSpec("f", SCHEMA, strict=True),),
                "rest": Native(
                    PROTOCOL,
                    {"tools": [{"type": "function", "function": {**FUNCTION, "strict": True}}]},
                ),
            },
        ),
        (
            {"tools": [{"type": "custom", "custom": {"name": "c"}}]},
            {
                "tools": (text_tool(ToolKind(PROTOCOL, "custom", "c")),),
                "rest": Native(PROTOCOL, {"tools": [{"type": "custom", "custom": {"name": "c"}}]}),
            },
        ),
    ],
)
def test_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(**fields) == Request(**{"model": "m", "messages": (), "stream": False, **expected})


def test_the_description_of_an_output_goes_back_with_it() -> None:
    wire = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True, "description": "d"},
    }
    assert encode(read(response_format=wire))["response_format"] == wire


MESSAGES: list[tuple[dict[str, Any], Role, list[Any]]] = [
    ({"role": "system", "content": "s"}, Role.SYSTEM, [Text("s")]),
    ({"role": "developer", "content": "s"}, Role.SYSTEM, [Text("s")]),
    ({"role": "user", "content": ""}, Role.USER, []),
    ({"role": "user"}, Role.USER, []),
    (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "t"},
                {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
                {"type": "image_url", "image_url": "data:image/png;base64,AA"},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
                {"type": "file", "file": {"file_data": "data:a/b;base64,AA", "filename": "n"}},
                {"type": "file", "file": {"file_data": "AA"}},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "new"},
                {},
            ],
        },
        Role.USER,
        [
            Text("t"),
            Media(kind="image", url="https://x", detail="low"),
            Media(kind="image", media_type="image/png", data="AA"),
            Media(kind="audio", media_type="audio/mpeg", data="AA"),
            Media(kind="document", media_type="a/b", data="AA", name="n"),
            Media(kind="document", data="AA"),
            Native(PROTOCOL, {"type": "file", "file": {"file_id": "f"}}),
            Native(PROTOCOL, {"type": "new"}),
            Native(PROTOCOL, {}),
        ],
    ),
    (
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "t"}, {"type": "refusal", "refusal": "r"}],
            "refusal": "no",
            "reasoning_content": "h",
            "reasoning_details": [1],
            "tool_calls": [
                {**CALL, "extra_content": {"google": 1}, "provider_specific_fields": None},
                {"id": 7, "function": {"name": "f", "arguments": {"y": 2}}},
                {"function": {"arguments": "not json"}},
                {"id": "c", "type": "custom", "custom": {"name": "c", "input": "i"}},
                {"id": "n", "type": "new", "new": {}},
            ],
        },
        Role.ASSISTANT,
        [
            Reasoning("h"),
            Reasoning("", {"reasoning_details": [1]}),
            Text("t"),
            Text("r"),
            Text("no"),
            PastCall(id="a", name="f", arguments={"x": 1}, extras={"extra_content": {"google": 1}}),
            PastCall(id="7", name="f", arguments={"y": 2}),
            PastCall(id="", name="", arguments={}),
            PastCall(id="c", name="c", arguments={"input": "i"}),
            Native(PROTOCOL, {"id": "n", "type": "new", "new": {}}),
        ],
    ),
    ({"role": "assistant", "content": None, "reasoning": "h"}, Role.ASSISTANT, [Reasoning("h")]),
    (
        {
            "role": "tool",
            "tool_call_id": 7,
            "name": "f",
            "content": [{"type": "text", "text": "t"}, {}],
        },
        Role.TOOL,
        [CallResult(call_id="7", name="f", result=Result((Text("t"),)))],
    ),
    (
        {"role": "tool", "content": "t"},
        Role.TOOL,
        [CallResult(call_id="", result=Result((Text("t"),)))],
    ),
]


@pytest.mark.parametrize(("native", "role", "parts"), MESSAGES)
def test_messages(native: dict[str, Any], role: Role, *, parts: list[Any]) -> None:
    assert read(native).messages == (Message(role, tuple(parts), Native(PROTOCOL, (native,))),)


def test_a_result_knows_the_tool_of_its_call() -> None:
    request = read(
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
    )
    [result] = request.messages[1].parts
    assert result == CallResult(call_id="a", name="f", result=Result((Text("1"),)))


def test_function_calls_of_old_become_tool_calls() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "1"}
    request = read({"role": "user", "content": "u"}, old, result, result)
    called = PastCall(id="function_call_1", name="f", arguments={})
    assert request.messages[1:] == (
        Message(Role.ASSISTANT, (called,)),
        Message(Role.TOOL, (CallResult(call_id=called.id, name="f", result=Result((Text("1"),))),)),
        Message(Role.TOOL, (CallResult(call_id="", name="f", result=Result((Text("1"),))),)),
    )
    assert encode(request)["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": called.id,
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}"},
                }
            ],
        },
        {"role": "tool", "tool_call_id": called.id, "content": "1"},
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": "hi"}, "messages"),
        ({"model": "m", "messages": [1]}, "messages[0]"),
        ({"model": "m", "messages": [{}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "king"}]}, "messages[0].role"),
        ({"model": "m", "messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"model": "m", "messages": [{"role": "user", "content": [1]}]}, "messages[0].content[0]"),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
        ),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": ["text"]}]}]},
            "messages[0].content[0].type",
        ),
        (
            {
                "model": "m",
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": 1}}]}
                ],
            },
            "messages[0].content[0].image_url.url",
        ),
        (
            {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"function": 1}]}]},
            "messages[0].tool_calls[0].function",
        ),
        ({"model": "m", "messages": [], "stop": [1]}, "stop[0]"),
        ({"model": "m", "messages": [], "stream": "yes"}, "stream"),
        ({"model": "m", "messages": [], "max_tokens": "1"}, "max_tokens"),
        ({"model": "m", "messages": [], "tools": [1]}, "tools[0]"),
        (
            {"model": "m", "messages": [], "response_format": {"type": "json_schema"}},
            "response_format.json_schema",
        ),
    ],
)
def test_what_cannot_be_read_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        decode(body)
    assert caught.value.param == param
    assert str(caught.value).startswith(param)


def test_a_choice_that_is_not_allowed_is_named() -> None:
    with pytest.raises(InvalidChoice) as caught:
        read(tool_choice="sometimes")
    assert caught.value.param == "tool_choice"
