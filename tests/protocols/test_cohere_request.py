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
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.cohere import encode
from wholecall.protocols.openai_chat.request import write_tool

USER = Message(Role.USER, (Text("hi"),))
HI = {"role": "user", "content": "hi"}
CALL = PastCall(id="a", name="f", arguments={"x": 1})
PICTURE = Media(kind="image", data="AAAA")
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
SCHEMA = {"type": "object"}
F, G = ToolSpec("f", SCHEMA), ToolSpec("g", SCHEMA)


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return encode(
        Request(**{"model": "m", "stream": False, **fields}, messages=messages or (USER,))
    )


@pytest.mark.parametrize(
    ("fields", "added"),
    [
        ({}, {}),
        ({"stream": True}, {"stream": True}),
        (
            {"output": OutputSchema(schema=SCHEMA)},
            {"response_format": {"type": "json_object", "json_schema": SCHEMA}},
        ),
        (
            {"output": OutputSchema(schema={}, any_object=True)},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {"max_tokens": 5, "temperature": 0.5, "top_p": 0.1, "stop": ("a",)},
            {"max_tokens": 5, "temperature": 0.5, "p": 0.1, "stop_sequences": ["a"]},
        ),
        ({"rest": Native("cohere", {"safety_mode": "OFF"})}, {"safety_mode": "OFF"}),
        ({"tools": (F, G)}, {"tools": [write_tool(F), write_tool(G)]}),
        (
            {"tools": (F,), "choice": Choice(Mode.NONE)},
            {"tools": [write_tool(F)], "tool_choice": "NONE"},
        ),
        (
            {"tools": (F, G), "choice": Choice(Mode.REQUIRED, ("g",))},
            {"tools": [write_tool(G)], "tool_choice": "REQUIRED"},
        ),
        ({"choice": Choice(Mode.NONE)}, {}),
    ],
)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {"model": "m", "messages": [HI], "stream": False, **added}


def test_messages() -> None:
    system = Message(Role.SYSTEM, (Text("s"), Text("")))
    seen = Message(Role.USER, (Text("a"), PICTURE, Media(kind="audio", data="AA")))
    thoughts = (Reasoning("pl"), Reasoning("an"), Reasoning("no", {"signature": "s"}))
    answer = Message(Role.ASSISTANT, (*thoughts, Text("t"), CALL))
    outcome = Result((Text("no"), PICTURE), failed=True)
    result = Message(Role.TOOL, (CallResult(call_id="a", result=outcome),))
    written = body(system, seen, answer, result)["messages"]
    sound = written[1]["content"][2]
    assert sound["type"] == "text"
    assert written == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, SHOWN, sound]},
        {
            "role": "assistant",
            "tool_plan": "plan",
            "content": "t",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"x":1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "Error: no"},
        {"role": "user", "content": [SHOWN]},
    ]


def test_a_result_without_output_has_words() -> None:
    answer = Message(Role.ASSISTANT, (CALL,))
    result = Message(Role.TOOL, (CallResult(call_id="a", result=Result(())),))
    *_, written = body(USER, answer, result)["messages"]
    assert written["content"].strip()


def test_an_answer_of_nothing_but_thoughts_is_left_out() -> None:
    assert body(USER, Message(Role.ASSISTANT, (Reasoning("hm"),)))["messages"] == [HI]


def test_messages_of_the_same_protocol_stay_as_they_are() -> None:
    wire = {"role": "user", "content": "hi", "citations": []}
    message = Message(Role.USER, (Text("hi"),), Native("cohere", (wire,)))
    assert body(message)["messages"] == [wire]
