"""Histories rewritten in a dialect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulated_requests import PROMPTED, says
from wholecall.dialects.dialect import template_of
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.emulate import rewrite_history
from wholecall.dialects.rescue import parse_text
from wholecall.events import JSON, Reasoning, Text
from wholecall.messages import CallResult, Media, Message, Native, Part, PastCall, Result, Role

SYSTEM, USER, ASSISTANT, TOOL = Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL
PICTURE = Media(kind="image", media_type="image/png", data="aGk=")
HERMES = template_of(DIALECTS["hermes"])


def call(id: str, **arguments: JSON) -> PastCall:
    return PastCall(id=id, name="find", arguments=arguments)


def result(id: str, *texts: str, failed: bool = False, name: str = "") -> CallResult:
    content = tuple(PICTURE if text == "picture" else Text(text) for text in texts)
    return CallResult(call_id=id, result=Result(content, failed), name=name)


def told(id: str, output: str, *, name: str = "find") -> str:
    return (
        f'<tool_response>\n{{"name": "{name}", "id": "{id}", "content": "{output}"}}\n'
        "</tool_response>"
    )


def written(*arguments: str) -> str:
    calls = (f'{{"name": "find", "arguments": {each}}}' for each in arguments)
    return "\n".join(f"<tool_call>\n{each}\n</tool_call>" for each in calls)


HISTORIES: list[tuple[str, list[Message], list[Message]]] = [
    (
        "a call is written where it stood",
        [says(ASSISTANT, "Let me look.", call("1", q="x"))],
        [says(ASSISTANT, "Let me look.\n" + written('{"q": "x"}'))],
    ),
    (
        "calls of one answer stand together",
        [says(ASSISTANT, call("1", q="x"), call("2", q="y"))],
        [says(ASSISTANT, written('{"q": "x"}', '{"q": "y"}'))],
    ),
    (
        "an empty text before a call leaves no line",
        [says(ASSISTANT, "", call("1"))],
        [says(ASSISTANT, written("{}"))],
    ),
    (
        "a result is told by the user, with the name that its call had, and its id",
        [says(ASSISTANT, call("1")), says(TOOL, result("1", "rain"))],
        [says(ASSISTANT, written("{}")), says(USER, told("1", "rain"))],
    ),
    (
        "results come in the order of their calls",
        [
            says(ASSISTANT, call("1"), call("2")),
            says(TOOL, result("2", "b")),
            says(TOOL, result("1", "a")),
        ],
        [
            says(ASSISTANT, written("{}", "{}")),
            says(USER, told("1", "a") + "\n" + told("2", "b")),
        ],
    ),
    (
        "what the user says next is joined to them",
        [says(TOOL, result("1", "a", name="own")), says(USER, "And now?"), says(USER, "Well?")],
        [says(USER, told("1", "a", name="own") + "\nAnd now?\nWell?")],
    ),
    (
        "a result without a call comes last, under its own name or none",
        [says(ASSISTANT, call("1")), says(USER, result("9", "z"), result("1", "a"), "Go on.")],
        [
            says(ASSISTANT, written("{}")),
            says(USER, told("1", "a") + "\n" + told("9", "z", name="") + "\nGo on."),
        ],
    ),
    (
        "a failure is said in words",
        [says(TOOL, result("1", "no such city", failed=True))],
        [says(USER, told("1", "Error: no such city", name=""))],
    ),
    (
        "a picture in a result stays a picture",
        [says(TOOL, result("1", "seen", "picture"), result("2", "b"))],
        [says(USER, told("1", "seen", name=""), PICTURE, told("2", "b", name=""))],
    ),
    (
        "reasoning and what only one protocol knows stay where they are",
        [says(ASSISTANT, Reasoning("hm"), call("1"), Native("gemini", 1), "Yes.")],
        [says(ASSISTANT, Reasoning("hm"), written("{}"), Native("gemini", 1), "Yes.")],
    ),
    (
        "two answers in a row become one if one of them was rewritten",
        [says(ASSISTANT, "Hm."), says(ASSISTANT, call("1")), says(ASSISTANT, "So.")],
        [says(ASSISTANT, "Hm.\n" + written("{}") + "\nSo.")],
    ),
    (
        "what the caller wrote is not joined",
        [says(SYSTEM, "a"), says(SYSTEM, "b"), says(USER, "c"), says(USER, "d", "e")],
        [says(SYSTEM, "a"), says(SYSTEM, "b"), says(USER, "c"), says(USER, "d", "e")],
    ),
]


@pytest.mark.parametrize(
    ("before", "after"), [row[1:] for row in HISTORIES], ids=[row[0] for row in HISTORIES]
)
def test_a_history_is_told_as_text(before: list[Message], after: list[Message]) -> None:
    assert rewrite_history(before, HERMES) == tuple(after)


def test_a_message_without_calls_is_the_same_message() -> None:
    native = Message(USER, (Text("Hi"),), Native("openai-chat", ({"role": "user"},)))
    assert rewrite_history([native], HERMES)[0] is native


def test_a_rewritten_message_is_not_sent_as_it_came_in() -> None:
    native = Native("openai-chat", ({"role": "assistant"},))
    [message] = rewrite_history([Message(ASSISTANT, (call("1"),), native)], HERMES)
    assert message.native is None


def test_what_the_dialect_cannot_carry_is_told_as_json() -> None:
    message = says(ASSISTANT, call("1", q="</parameter>"))
    [rewritten] = rewrite_history([message], template_of(DIALECTS["qwen3_xml"]))
    assert rewritten.text == '{"name": "find", "arguments": {"q": "</parameter>"}}'


@pytest.mark.parametrize("dialect", PROMPTED)
def test_a_past_call_is_written_as_the_next_one_is_read(dialect: str) -> None:
    message = says(ASSISTANT, call("1", q="x y"), call("2", q="z"))
    [rewritten] = rewrite_history([message], template_of(DIALECTS[dialect]))
    tool = {"name": "find", "parameters": {"properties": {"q": {"type": "string"}}}}
    calls = parse_text(dialect, rewritten.text, tools=[tool]).calls
    assert [dict(each.arguments) for each in calls] == [{"q": "x y"}, {"q": "z"}]


class Watched(tuple[Part, ...]):
    """Parts that count how often they are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[Part]:
        Watched.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("turns", [8, 64])
def test_a_long_history_is_gone_through_as_often_as_a_short_one(turns: int) -> None:
    messages = [
        Message(role, Watched((part,)))
        for number in range(turns)
        for role, part in ((ASSISTANT, call(str(number))), (TOOL, result(str(number), "x")))
    ]
    Watched.looks = 0

    rewrite_history(messages, HERMES)

    assert Watched.looks <= 6 * len(messages)
