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
from wholecall.protocols.openai_responses.request import encode

PROTOCOL = "openai-responses"
USER = Message(Role.USER, (Text("hi"),))
HI = {"type": "message", "role": "user", "content": "hi"}
CALL = PastCall(id="a", name="f", arguments={"x": 1})
CALLED = {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x":1}'}
DONE = Message(Role.TOOL, (CallResult(call_id="a", name="f", result=Result((Text("1"),))),))
OUTPUT = {"type": "function_call_output", "call_id": "a", "output": "1"}
PICTURE = Media(kind="image", media_type="image/png", data="AAAA")
SHOWN = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
SCHEMA = {"type": "object"}


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return encode(
        Request(**{"model": "m", "stream": False, **fields}, messages=messages or (USER,))
    )


def answer(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


def test_a_plain_request() -> None:
    assert body() == {"model": "m", "input": [HI], "stream": False}


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"stream": True}, {"stream": True}),
    ({"max_tokens": 5}, {"max_output_tokens": 5}),
    ({"temperature": 0.5, "top_p": 0.1}, {"temperature": 0.5, "top_p": 0.1}),
    (
        {
            "output": OutputSchema(schema=SCHEMA),
            "rest": Native(PROTOCOL, {"text": {"verbosity": "low"}}),
        },
        {
            "text": {
                "verbosity": "low",
                "format": {
                    "type": "json_schema",
                    "name": "answer",
                    "schema": SCHEMA,
                    "strict": True,
                },
            }
        },
    ),
    ({"rest": Native(PROTOCOL, {"store": False, "stream_options": {}})}, {"store": False}),
    (
        {"stream": True, "rest": Native(PROTOCOL, {"stream_options": {"a": 1}})},
        {"stream": True, "stream_options": {"a": 1}},
    ),
    (
        {"tools": (ToolSpec("f", SCHEMA, "d"),), "choice": Choice(Mode.REQUIRED)},
        {
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "description": "d",
                    "parameters": SCHEMA,
                    "strict": False,
                }
            ],
            "tool_choice": "required",
        },
    ),
]


@pytest.mark.parametrize(("fields", "added"), FIELDS)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {**body(), **added}


def test_what_is_said_first_are_the_instructions() -> None:
    system = Message(Role.SYSTEM, (Text("s"),))
    written = body(system, system, USER)
    assert written["instructions"] == "s"
    assert written["input"] == [{"type": "message", "role": "system", "content": "s"}, HI]


def test_unless_it_was_an_item() -> None:
    item = {"role": "developer", "content": "s"}
    written = body(Message(Role.SYSTEM, (Text("s"),), Native(PROTOCOL, (item,))), USER)
    assert "instructions" not in written
    assert written["input"] == [item, HI]


def test_nothing_is_an_empty_input() -> None:
    assert encode(Request(model="m", messages=()))["input"] == []


THOUGHT = {"type": "reasoning", "id": "rs", "summary": []}
MESSAGES: list[tuple[str, list[Message], list[Any]]] = [
    (
        "an answer is a run of items",
        [answer(Text("a"), CALL, Text("b")), DONE],
        [
            {"type": "message", "role": "assistant", "content": "a"},
            CALLED,
            {"type": "message", "role": "assistant", "content": "b"},
            OUTPUT,
        ],
    ),
    (
        "reasoning goes back as its item, without what was null in it",
        [
            answer(
                Reasoning("hm", {"item": {**THOUGHT, "status": None}}),
                Reasoning("no", {"signature": "s"}),
                Reasoning("no"),
                CALL,
            ),
            DONE,
        ],
        [THOUGHT, CALLED, OUTPUT],
    ),
    (
        "a message goes back under its id",
        [answer(Text("a"), Reasoning("", {"message": {"id": "msg", "phase": "commentary"}}))],
        [
            {
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "id": "msg",
                "phase": "commentary",
                "content": [{"type": "output_text", "text": "a", "annotations": []}],
            }
        ],
    ),
    (
        "what OpenAI's own tools did goes back, what others' did does not",
        [answer(Native(PROTOCOL, {"type": "web_search_call"}), Native("gemini", {}), Text("a"))],
        [{"type": "web_search_call"}, {"type": "message", "role": "assistant", "content": "a"}],
    ),
    (
        "images and documents",
        [
            Message(
                Role.USER,
                (
                    Text("a"),
                    PICTURE,
                    Media(kind="document", url="https://x/a.pdf"),
                    Media(kind="document", data="AA"),
                    Native(PROTOCOL, {"type": "input_file", "file_id": "f"}),
                ),
            )
        ],
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    SHOWN,
                    {"type": "input_file", "file_url": "https://x/a.pdf"},
                    {
                        "type": "input_file",
                        "filename": "document",
                        "file_data": "data:application/pdf;base64,AA",
                    },
                    {"type": "input_file", "file_id": "f"},
                ],
            }
        ],
    ),
    (
        "a result with an image is a list",
        [
            answer(CALL),
            Message(Role.TOOL, (CallResult(call_id="a", result=Result((Text("1"), PICTURE))),)),
        ],
        [CALLED, {**OUTPUT, "output": [{"type": "input_text", "text": "1"}, SHOWN]}],
    ),
]


@pytest.mark.parametrize(
    ("messages", "items"), [pytest.param(m, w, id=says) for says, m, w in MESSAGES]
)
def test_messages(messages: list[Message], items: list[Any]) -> None:
    assert body(*messages)["input"] == items


@pytest.mark.parametrize("part", [Media(kind="audio", data="AA"), Native("gemini", {})])
def test_what_cannot_be_sent_is_told(part: Part) -> None:
    [item] = body(Message(Role.USER, (part,)))["input"]
    assert "eft out here" in item["content"][0]["text"]


@pytest.mark.parametrize(("provider_id", "ids"), [(None, "fc"), ("a", "fc"), ("b", None)])
def test_a_call_goes_back_under_its_item_unless_it_was_renamed(
    provider_id: str | None, ids: str | None
) -> None:
    extras = {"item_id": "fc", "namespace": "n"}
    call = PastCall(id="a", name="f", arguments={}, provider_id=provider_id, extras=extras)
    item = body(answer(call))["input"][0]
    assert (item.get("id"), item["namespace"]) == (ids, "n")


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_result_may_belong_to_a_call_that_the_upstream_holds(field: str) -> None:
    assert body(DONE)["input"] == []
    assert body(DONE, rest=Native(PROTOCOL, {field: "x"}))["input"] == [OUTPUT]
