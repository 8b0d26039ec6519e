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
from wholecall.protocols.ollama import encode
from wholecall.protocols.openai_chat.request import write_tool

USER = Message(Role.USER, (Text("hi"),))
HI = {"role": "user", "content": "hi"}
CALL = PastCall(id="a", name="f", arguments={"x": 1})
PICTURE = Media(kind="image", data="AAAA")
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
        ({"output": OutputSchema(schema=SCHEMA)}, {"format": SCHEMA}),
        (
            {"max_tokens": 5, "temperature": 0.5, "top_p": 0.1, "stop": ("a",)},
            {"options": {"num_predict": 5, "temperature": 0.5, "top_p": 0.1, "stop": ["a"]}},
        ),
        (
            {"max_tokens": 5, "rest": Native("ollama", {"think": True, "options": {"num_ctx": 9}})},
            {"think": True, "options": {"num_ctx": 9, "num_predict": 5}},
        ),
        ({"tools": (F, G)}, {"tools": [write_tool(F), write_tool(G)]}),
        ({"tools": (F, G), "choice": Choice(Mode.NONE)}, {}),
        ({"tools": (F, G), "choice": Choice(Mode.REQUIRED, ("g",))}, {"tools": [write_tool(G)]}),
    ],
)
def test_fields(fields: dict[str, Any], added: dict[str, Any]) -> None:
    assert body(**fields) == {"model": "m", "messages": [HI], "stream": False, **added}


def test_messages() -> None:
    system = Message(Role.SYSTEM, (Text("s"),))
    seen = Message(Role.USER, (Text("a"), PICTURE, Media(kind="image", url="https://x"), Text("b")))
    thoughts = (Reasoning("h"), Reasoning("m"), Reasoning("no", {"signature": "s"}))
    answer = Message(Role.ASSISTANT, (*thoughts, Text("t"), CALL))
    outcome = Result((Text("no"), PICTURE), failed=True)
    result = Message(Role.TOOL, (CallResult(call_id="a", result=outcome),))
    assert body(system, seen, answer, result)["messages"] == [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": (
                "a\n(Left out here, because this model cannot be given it: image, https://x.)\nb"
            ),
            "images": ["AAAA"],
        },
        {
            "role": "assistant",
            "content": "t",
            "thinking": "hm",
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}],
        },
        {
            "role": "tool",
            "tool_name": "f",
            "tool_call_id": "a",
            "content": "Error: no",
            "images": ["AAAA"],
        },
    ]


def test_what_is_in_its_own_form_goes_out_as_it_is() -> None:
    native = {"role": "user", "content": "x", "y": 1}
    assert body(Message(Role.USER, (), Native("ollama", (native,))))["messages"] == [native]


def test_what_belongs_to_others_is_told_or_left_out() -> None:
    [message] = body(Message(Role.USER, (Native("anthropic", {}), Reasoning("x"))))["messages"]
    assert message["content"] == "(Something was left out here that this model cannot be given.)"


def test_an_empty_system_message_is_left_out() -> None:
    assert body(Message(Role.SYSTEM, ()), USER)["messages"] == [HI]
