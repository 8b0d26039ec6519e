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
from wholecall.protocols.history import System, Target
from wholecall.protocols.openai_chat.request import encode

PROTOCOL = "openai-chat"
USER = Message(Role.USER, (Text("hi"),))
CALL = PastCall(id="a", name="f", arguments={"x": [1]})
PICTURE = Media(kind="image", media_type="image/png", data="AAAA")
SCHEMA = {"type": "object"}


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return encode(
        Request(**{"model": "m", "stream": False, **fields}, messages=messages or (USER,))
    )


def answer(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


def result(*content: Text | Media, failed: bool = False, name: str = "f") -> Message:
    return Message(Role.TOOL, (CallResult(call_id="a", name=name, result=Result(content, failed)),))


def test_a_plain_request() -> None:
    assert body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
    }


FIELDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    ({"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0, "top_p": 0.5}),
    ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
    ({"max_tokens": 5}, {"max_tokens": 5}),
    (
        {"output": OutputSchema(schema=SCHEMA, name="n", strict=False)},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": SCHEMA, "strict": False},
            }
        },
    ),
    ({"rest": Native(PROTOCOL, {"seed": 1})}, {"seed": 1}),
    ({"rest": Native("anthropic", {"seed": 1})}, {}),
    ({"choice": Choice(Mode.NONE)}, {}),
    (
        {"max_tokens": 5, "rest": Native(PROTOCOL, {"max_completion_tokens": 9})},
        {"max_completion_tokens": 5},
    ),
    ({"rest": Native(PROTOCOL, {"max_tokens": 9})}, {}),
    ({"rest": Native(PROTOCOL, {"stream_options": {"x": 1}})}, {}),
    (
        {"stream": True, "rest": Native(PROTOCOL, {"stream_options": {"x": 1}})},
        {"stream": True, "stream_options": {"x": 1, "include_usage": True}},
    ),
    (
        {"rest": Native(PROTOCOL, {"response_format": {"type": "json_object"}})},
        {"response_format": {"type": "json_object"}},
    ),
    ({"rest": Native(PROTOCOL, {"response_format": {"json_schema": {"description": "d"}}})}, {}),
    ({"rest": Native(PROTOCOL, {"response_format": None})}, {}),
]


@pytest.mark.parametrize(("fields", "added"), FIELDS)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {**body(), **added}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5", "max_completion_tokens"),
        ("o3", "max_completion_tokens"),
        ("llama", "max_tokens"),
        ("mistral-large", "max_tokens"),
    ],
)
def test_the_output_limit_has_the_name_that_the_model_takes(model: str, name: str) -> None:
    assert body(model=model, max_tokens=5)[name] == 5


def test_mistral_is_not_asked_for_usage() -> None:
    assert "stream_options" not in body(model="mistral-large", stream=True)


def test_tools_and_their_choice() -> None:
    tools = (ToolSpec("f", SCHEMA, "does f"), ToolSpec("g"))
    written = body(tools=tools, choice=Choice(Mode.REQUIRED, ("f",), parallel=False))
    assert written["tools"] == [
        {
            "type": "function",
            "function": {"name": "f", "description": "does f", "parameters": SCHEMA},
        },
        {"type": "function", "function": {"name": "g", "parameters": {**SCHEMA, "properties": {}}}},
    ]
    assert written["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert written["parallel_tool_calls"] is False
    assert "tool_choice" not in body(tools=tools)
    assert body(tools=tools, choice=Choice(Mode.NONE))["tool_choice"] == "none"


MESSAGES: list[tuple[str, list[Message], list[dict[str, Any]]]] = [
    (
        "system messages and several texts",
        [Message(Role.SYSTEM, (Text("s"),)), Message(Role.USER, (Text("a"), Text("b")))],
        [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ],
    ),
    (
        "images, sounds and documents",
        [
            Message(
                Role.USER,
                (
                    PICTURE,
                    Media(kind="image", url="https://x/a.png"),
                    Media(kind="audio", media_type="audio/mpeg", data="AA"),
                    Media(kind="document", data="AA", name="a.pdf"),
                    Native(PROTOCOL, {"type": "file", "file": {"file_id": "f"}}),
                ),
            )
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
                    {"type": "input_audio", "input_audio": {"data": "AA", "format": "mp3"}},
                    {
                        "type": "file",
                        "file": {
                            "file_data": "data:application/pdf;base64,AA",
                            "filename": "a.pdf",
                        },
                    },
                    {"type": "file", "file": {"file_id": "f"}},
                ],
            }
        ],
    ),
    (
        "calls and results",
        [USER, answer(Text("a"), CALL, Text("b")), result(Text("1"), Text("2")), USER],
        [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "ab",
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"x":[1]}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "12"},
            {"role": "user", "content": "hi"},
        ],
    ),
    (
        "reasoning that is plain or this protocol's own",
        [
            answer(
                Reasoning("a"),
                Reasoning("b", {"signature": "s"}),
                Reasoning("", {"reasoning_details": [1], "thinking_blocks": [2]}),
                Reasoning("", {"reasoning_details": [3]}),
                Text("t"),
            )
        ],
        [
            {
                "role": "assistant",
                "content": "t",
                "reasoning_content": "a",
                "reasoning_details": [1, 3],
                "thinking_blocks": [2],
            }
        ],
    ),
    (
        "an answer that says nothing is left out",
        [USER, answer(Reasoning("", {"item": {}}))],
        [{"role": "user", "content": "hi"}],
    ),
    (
        "what was read in this protocol goes out as it came in",
        [
            Message(
                Role.USER,
                (Text("x"),),
                Native(PROTOCOL, ({"role": "user", "content": "y", "z": 1},)),
            )
        ],
        [{"role": "user", "content": "y", "z": 1}],
    ),
    (
        "what was read in another is written anew",
        [
            Message(
                Role.USER, (Text("x"),), Native("anthropic", ({"role": "user", "content": "y"},))
            )
        ],
        [{"role": "user", "content": "x"}],
    ),
]


@pytest.mark.parametrize(
    ("messages", "written"), [pytest.param(m, w, id=says) for says, m, w in MESSAGES]
)
def test_messages(messages: list[Message], written: list[dict[str, Any]]) -> None:
    assert body(*messages)["messages"] == written


@pytest.mark.parametrize(
    "part",
    [
        Media(kind="audio", url="https://x/a.wav"),
        Media(kind="document", url="https://x/a.pdf"),
        Native("anthropic", {"type": "search_result"}),
    ],
)
def test_what_cannot_be_sent_is_told(part: Part) -> None:
    [message] = body(Message(Role.USER, (part,)))["messages"]
    [said] = message["content"]
    assert "eft out here" in said["text"]


def test_images_in_results_are_shown_behind_the_results_of_the_turn() -> None:
    other = CallResult(call_id="b", result=Result((Text("see"), PICTURE)))
    calls = answer(CALL, PastCall(id="b", name="g", arguments={}))
    written = body(calls, result(PICTURE), Message(Role.TOOL, (other,)), USER)["messages"]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert written[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "(It is shown in the next message.)"},
        {"role": "tool", "tool_call_id": "b", "content": "see"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From the result of 'f':"},
                image,
                {"type": "text", "text": "From the result of 'b':"},
                image,
            ],
        },
        {"role": "user", "content": "hi"},
    ]


def test_results_in_their_own_form_are_left_alone() -> None:
    native = {"role": "tool", "tool_call_id": "a", "content": "x"}
    read = Message(Role.TOOL, result(PICTURE).parts, Native(PROTOCOL, (native,)))
    assert body(answer(CALL), read)["messages"][1:] == [native]


def test_a_failure_is_told_in_words() -> None:
    assert body(answer(CALL), result(Text("no disk"), failed=True))["messages"][1]["content"] == (
        "Error: no disk"
    )


def test_what_a_call_goes_back_with() -> None:
    extras = {"extra_content": {"google": 1}, "item_id": "fc", "thought_signature": "t"}
    call = PastCall(id="a", name="f", arguments={}, extras=extras)
    [written] = body(answer(call))["messages"][0]["tool_calls"]
    assert written == {
        "id": "a",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": {"google": 1},
        "thought_signature": "t",
    }


def test_openai_gets_no_reasoning_and_deepseek_misses_none() -> None:
    thought = answer(Reasoning("hm"), CALL)
    assert "reasoning_content" not in body(thought, model="gpt-5")["messages"][0]
    assert body(answer(CALL), model="deepseek-x")["messages"][0]["reasoning_content"] == ""


def test_a_target_that_wants_system_messages_apart_gets_them_first() -> None:
    messages = (USER, Message(Role.SYSTEM, (Text("s"),)))
    request = Request(model="m", messages=messages)
    written = encode(request, Target(system=System.APART))["messages"]
    assert [message["role"] for message in written] == ["system", "user"]
