from typing import Any

import pytest

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
from wholecall.protocols.gemini_interactions import PROTOCOL, carried_options, encode

USER = Message(Role.USER, (Text("hi"),))
HI = {"type": "user_input", "content": [{"type": "text", "text": "hi"}]}
PICTURE = Media(kind="image", data="AAAA")
SHOWN = {"type": "image", "mime_type": "image/png", "data": "AAAA"}
SCHEMA = {"type": "object"}
F, G = ToolSpec("f", SCHEMA, description="d"), ToolSpec("g", SCHEMA)
WRITTEN_F = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA}
WRITTEN_G = {"type": "function", "name": "g", "parameters": SCHEMA}
BODY = {"model": "m", "input": [HI], "stream": False, "store": False}


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return encode(
        Request(**{"model": "m", "stream": False, **fields}, messages=messages or (USER,))
    )


def config(**fields: Any) -> dict[str, Any]:
    return {"generation_config": fields}


JSON_TEXT = {"type": "text", "mime_type": "application/json"}


@pytest.mark.parametrize(
    ("fields", "added"),
    [
        ({}, {}),
        ({"stream": True}, {"stream": True}),
        (
            {"output": OutputSchema(schema=SCHEMA)},
            {"response_format": {**JSON_TEXT, "schema": SCHEMA}},
        ),
        ({"output": OutputSchema(schema={}, any_object=True)}, {"response_format": JSON_TEXT}),
        (
            {"max_tokens": 5, "temperature": 0.5, "top_p": 0.1, "stop": ("a",)},
            config(temperature=0.5, top_p=0.1, max_output_tokens=5, stop_sequences=["a"]),
        ),
        ({"options": ModelOptions(effort="high")}, config(thinking_level="high")),
        ({"rest": Native(PROTOCOL, {"store": True, "labels": {}})}, {"store": True, "labels": {}}),
        ({"tools": (F, G)}, {"tools": [WRITTEN_F, WRITTEN_G]}),
        (
            {"tools": (F,), "choice": Choice(Mode.NONE)},
            {"tools": [WRITTEN_F], **config(tool_choice="none")},
        ),
        (
            {"tools": (F, G), "choice": Choice(Mode.REQUIRED, ("g",))},
            {
                "tools": [WRITTEN_F, WRITTEN_G],
                **config(tool_choice={"allowed_tools": {"mode": "any", "tools": ["g"]}}),
            },
        ),
        ({"tools": (F, G), "choice": Choice(Mode.AUTO, ("g",))}, {"tools": [WRITTEN_G]}),
        ({"choice": Choice(Mode.NONE)}, {}),
    ],
)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {**BODY, **added}


def test_the_options_that_it_takes() -> None:
    assert "effort" in carried_options(Request(model="m", messages=(USER,), stream=False))


def steps(*messages: Message) -> list[Any]:
    written: list[Any] = body(*messages)["input"]
    return written


def test_system_messages_are_instructions() -> None:
    told = [Message(Role.SYSTEM, (Text(text),)) for text in ("a", "", "b")]
    assert body(*told, USER) == {**BODY, "system_instruction": "a\n\nb"}


def test_steps_of_an_answer_keep_their_order() -> None:
    call = PastCall(id="a", name="f", arguments={"x": 1}, extras={"thought_signature": "t"})
    answer = Message(
        Role.ASSISTANT,
        (
            Reasoning("hm", {"thought_signature": "s"}),
            Text("one"),
            Reasoning("unsigned"),
            Text("two"),
            Native(PROTOCOL, {"type": "google_search_call"}),
            call,
            Text(""),
        ),
    )
    outcome = Result((Text("no"),), failed=True)
    result = Message(Role.TOOL, (CallResult(call_id="a", result=outcome),))
    assert steps(USER, answer, result)[1:] == [
        {"type": "thought", "signature": "s"},
        {
            "type": "model_output",
            "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
        },
        {"type": "google_search_call"},
        {
            "type": "function_call",
            "id": "a",
            "name": "f",
            "arguments": {"x": 1},
            "signature": "t",
        },
        {
            "type": "function_result",
            "call_id": "a",
            "name": "f",
            "result": "no",
            "is_error": True,
        },
    ]


def test_a_result_holds_pictures_and_other_media_follow_it() -> None:
    sound = Media(kind="audio", url="http://h/a.mp3", media_type="audio/mpeg")
    answer = Message(Role.ASSISTANT, (PastCall(id="a", name="f", arguments={}, provider_id="p"),))
    outcome = Result((Text("see"), PICTURE, sound))
    result = Message(Role.TOOL, (CallResult(call_id="a", result=outcome),))
    given, heard = steps(USER, answer, result)[2:]
    assert given["call_id"] == "p"
    assert given["result"] == [{"type": "text", "text": "see"}, SHOWN]
    assert heard == {
        "type": "user_input",
        "content": [{"type": "audio", "mime_type": "audio/mpeg", "uri": "http://h/a.mp3"}],
    }


def test_what_another_protocol_has_is_named() -> None:
    asked = Message(Role.USER, (PICTURE, Native(PROTOCOL, {"type": "video"}), Native("x", {})))
    shown, own, other = steps(asked)[0]["content"]
    assert (shown, own, other["type"]) == (SHOWN, {"type": "video"}, "text")


def test_a_message_that_was_read_in_this_protocol_is_written_as_it_was() -> None:
    own = Native(PROTOCOL, ({"type": "user_input", "content": []},))
    assert steps(Message(Role.USER, (Text("hi"),), own)) == [{"type": "user_input", "content": []}]
