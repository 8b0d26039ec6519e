from typing import Any

import pytest

from wholecall.errors import UnreadableRequest
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
from wholecall.protocols.openai_responses.request import decode

PROTOCOL = "openai-responses"
SCHEMA = {"type": "object"}
TOOL = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
FORMAT = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}


def read(**fields: Any) -> Request:
    return decode({"model": "m", **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"stream": True}, {"stream": True}),
        (
            {"max_output_tokens": 5, "temperature": 0.5, "top_p": 0.1},
            {"max_tokens": 5, "temperature": 0.5, "top_p": 0.1},
        ),
        (
            {"previous_response_id": "r", "store": False},
            {"rest": Native(PROTOCOL, {"previous_response_id": "r", "store": False})},
        ),
        (
            {"tools": [TOOL, {"type": "web_search"}], "tool_choice": "required"},
            {
                "tools": (ToolSpec("f", SCHEMA),),
                "native_tools": (Native(PROTOCOL, {"type": "web_search"}),),
                "choice": Choice(Mode.REQUIRED),
                "rest": Native(PROTOCOL, {"tools": [TOOL, {"type": "web_search"}]}),
            },
        ),
        (
            {"tools": [{**TOOL, "strict": True}]},
            {
                "tools": (ToolSpec("f", SCHEMA, strict=True),),
                "rest": Native(PROTOCOL, {"tools": [{**TOOL, "strict": True}]}),
            },
        ),
        ({"text": {"format": FORMAT}}, {"output": OutputSchema(schema=SCHEMA, name="n")}),
        (
            {"text": {"format": {**FORMAT, "description": "d"}, "verbosity": "low"}},
            {
                "output": OutputSchema(schema=SCHEMA, name="n"),
                "rest": Native(
                    PROTOCOL, {"text": {"verbosity": "low", "format": {"description": "d"}}}
                ),
                "options": ModelOptions(verbosity="low"),
            },
        ),
        (
            {"text": {"format": {"type": "text"}}},
            {"rest": Native(PROTOCOL, {"text": {"format": {"type": "text"}}})},
        ),
        (
            {"text": {"verbosity": "low"}},
            {
                "rest": Native(PROTOCOL, {"text": {"verbosity": "low"}}),
                "options": ModelOptions(verbosity="low"),
            },
        ),
        ({"instructions": "s"}, {"messages": (Message(Role.SYSTEM, (Text("s"),)),)}),
        ({"input": "u"}, {"messages": (Message(Role.USER, (Text("u"),)),)}),
        (
            {"instructions": [{"role": "developer", "content": "s"}]},
            {
                "messages": (
                    Message(
                        Role.SYSTEM,
                        (Text("s"),),
                        Native(PROTOCOL, ({"role": "developer", "content": "s"},)),
                    ),
                )
            },
        ),
    ],
)
def test_fields(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(**fields) == Request(**{"model": "m", "messages": (), "stream": False, **expected})


THOUGHT = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "a"}],
    "content": [{"type": "reasoning_text", "text": "b"}],
}
SAID = {
    "type": "message",
    "role": "assistant",
    "id": "msg",
    "status": "completed",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": "t"}, {"type": "refusal", "refusal": "r"}],
}
CALLED = {
    "type": "function_call",
    "id": "fc",
    "call_id": "a",
    "name": "f",
    "arguments": '{"x":1}',
    "namespace": None,
}
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "1"}
RUNS: list[tuple[str, list[Any], list[tuple[Role, list[Any], int]]]] = [
    (
        "what the model put out is one message",
        [THOUGHT, SAID, {"type": "web_search_call"}, {"type": "compaction"}, CALLED, OUTPUT],
        [
            (
                Role.ASSISTANT,
                [
                    Reasoning("ab", {"item": THOUGHT}),
                    Text("t"),
                    Text("r"),
                    Reasoning("", {"message": {"id": "msg", "phase": "commentary"}}),
                    Native(PROTOCOL, {"type": "web_search_call"}),
                    Native(PROTOCOL, {"type": "compaction"}),
                    PastCall(id="a", name="f", arguments={"x": 1}, extras={"item_id": "fc"}),
                ],
                5,
            ),
            (Role.TOOL, [CallResult(call_id="a", name="f", result=Result((Text("1"),)))], 1),
        ],
    ),
    (
        "every other item is one of its own",
        [
            {"role": "user", "content": "u"},
            {"role": "system", "content": "s"},
            {"role": "assistant", "content": "t"},
            {"type": "item_reference", "id": "x"},
            {"id": "y"},
            {"role": "assistant", "id": "msg", "content": ""},
        ],
        [
            (Role.USER, [Text("u")], 1),
            (Role.SYSTEM, [Text("s")], 1),
            (Role.ASSISTANT, [Text("t")], 1),
            (Role.USER, [Native(PROTOCOL, {"type": "item_reference", "id": "x"})], 1),
            (Role.USER, [Native(PROTOCOL, {"id": "y"})], 1),
            (Role.ASSISTANT, [], 1),
        ],
    ),
    (
        "content has many forms",
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "t"},
                    {"type": "input_image", "image_url": "https://x"},
                    {"type": "input_image", "file_id": "f"},
                    {"type": "input_file", "file_data": "data:a/b;base64,AA", "filename": "n"},
                    {"type": "input_file", "file_data": "AA"},
                    {"type": "input_file", "file_url": "https://x"},
                    {"type": "input_file", "file_id": "f"},
                    {"type": "new"},
                ],
            },
        ],
        [
            (
                Role.USER,
                [
                    Text("t"),
                    Media(kind="image", url="https://x"),
                    Native(PROTOCOL, {"type": "input_image", "file_id": "f"}),
                    Media(kind="document", media_type="a/b", data="AA", name="n"),
                    Media(kind="document", data="AA"),
                    Media(kind="document", url="https://x"),
                    Native(PROTOCOL, {"type": "input_file", "file_id": "f"}),
                    Native(PROTOCOL, {"type": "new"}),
                ],
                1,
            )
        ],
    ),
    (
        "ids may be missing and results may have parts",
        [
            {"type": "function_call", "name": "f", "arguments": ""},
            {
                "type": "function_call_output",
                "output": [{"type": "input_text", "text": "t"}, {"type": "new"}],
            },
            {"type": "function_call_output", "call_id": 7, "name": "g"},
            {"type": "reasoning"},
        ],
        [
            (Role.ASSISTANT, [PastCall(id="", name="f", arguments={})], 1),
            (Role.TOOL, [CallResult(call_id="", name="f", result=Result((Text("t"),)))], 1),
            (Role.TOOL, [CallResult(call_id="7", name="g", result=Result())], 1),
            (Role.ASSISTANT, [Reasoning("", {"item": {"type": "reasoning"}})], 1),
        ],
    ),
]


@pytest.mark.parametrize(
    ("items", "expected"), [pytest.param(i, x, id=says) for says, i, x in RUNS]
)
def test_items(items: list[Any], expected: list[tuple[Role, list[Any], int]]) -> None:
    messages = read(input=items).messages
    assert [(message.role, list(message.parts)) for message in messages] == [
        (role, parts) for role, parts, _ in expected
    ]
    natives = [message.native.value for message in messages if message.native is not None]
    assert [len(native) for native in natives] == [count for _, _, count in expected]
    assert [item for native in natives for item in native] == items


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": 1}, "input"),
        ({"input": [1]}, "input[0]"),
        ({"input": [{"role": "king"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text"}]}]},
            "input[0].content[0].text",
        ),
        ({"input": [{"role": "user", "content": [{"type": {}}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "name": 1}]}, "input[0].name"),
        ({"input": [{"type": "function_call_output", "output": [1]}]}, "input[0].output[0]"),
        ({"instructions": 1}, "instructions"),
        ({"instructions": [1]}, "instructions[0]"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ],
)
def test_what_cannot_be_read_is_named(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read(**fields)
    assert caught.value.param == param
