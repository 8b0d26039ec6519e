"""The history of OpenAI's chat protocol."""

from typing import Any

import pytest

from wholecall.protocols.history import (
    NO_OUTPUT,
    UNRECORDED,
    ChangeKind,
    ReasoningRule,
    Target,
    explain,
)
from wholecall.protocols.history_repair import mend
from wholecall.protocols.openai_chat.history import DEEPSEEK, GEMINI, MISTRAL, OPENAI_CHAT

PLAIN = Target()
SIGNED = Target(reasoning=ReasoningRule.SIGNED)
USER = {"role": "user", "content": "go on"}
CUT = '{"command":"str_replace","path":"a'


def call(id: Any, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    function = {"name": "t", "arguments": arguments}
    return {"id": id, "type": "function", "function": function, **more}


def asked(*calls: Any, content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [*calls], **more}


def result(id: str, content: Any = "1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def said(content: Any, role: str = "assistant", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


CUSTOM = {"id": "a", "type": "custom", "custom": {"name": "t", "input": "{"}}
BROKEN_CALLS = [
    {"role": "assistant", "content": None, "tool_calls": "x"},
    {"role": "assistant", "content": None, "tool_calls": [call("b"), None]},
    {"role": "robot", "content": "x"},
    {"content": "x"},
    None,
]

# what holds, messages, mended
ROWS: list[tuple[str, list[Any], list[Any]]] = [
    # https://github.com/dataelement/Clawith/pull/416
    ("a result whose call was cut away", [result("c1", "ok"), USER], [USER]),
    # https://github.com/pydantic/pydantic-ai/issues/2360
    (
        "a user between two results",
        [asked(call("a"), call("b")), result("a", "1"), USER, result("b", "2")],
        [asked(call("a"), call("b")), result("a", "1"), result("b", "2"), USER],
    ),
    # https://github.com/token-js/token.js/pull/36
    (
        "results in the order of completion",
        [asked(call("a"), call("b")), result("b", "10"), result("a", "72")],
        [asked(call("a"), call("b")), result("a", "72"), result("b", "10")],
    ),
    # https://github.com/fw-ai/fireconnect/issues/16
    (
        "ids that start again in every turn",
        [
            asked(call("ls:0", '{"p": "."}')),
            result("ls:0", "a"),
            asked(call("ls:0", '{"p": "/"}')),
            result("ls:0", "b"),
        ],
        [
            asked(call("ls:0", '{"p": "."}')),
            result("ls:0", "a"),
            asked(call("ls:1", '{"p": "/"}')),
            result("ls:1", "b"),
        ],
    ),
    # https://github.com/OpenHands/OpenHands/issues/13949
    (
        "arguments that cannot be parsed",
        [asked(call("c1", CUT)), result("c1", "Error: Unterminated string")],
        [asked(call("c1")), result("c1", f"Error: Unterminated string\n\n{explain(CUT)}")],
    ),
    (
        "a call without a result",
        [asked(call("a")), USER],
        [asked(call("a")), result("a", UNRECORDED), USER],
    ),
    (
        "arguments that are an object",
        [asked(call("a", {"x": 1})), result("a")],
        [asked(call("a", '{"x":1}')), result("a")],
    ),
    ("no arguments", [asked(call("a", "")), result("a")], [asked(call("a")), result("a")]),
    (
        "no id",
        [asked({**call(""), "id": None}), result("")],
        [asked(call("call_0")), result("call_0")],
    ),
    ("no type", [asked(call("a", type="")), result("a")], [asked(call("a")), result("a")]),
    (
        "arguments that are encoded twice",
        [asked(call("a", '"{\\"x\\":1}"')), result("a")],
        [asked(call("a", '{"x":1}')), result("a")],
    ),
    ("a custom tool takes any text", [asked(CUSTOM), result("a")], [asked(CUSTOM), result("a")]),
    (
        "a result without content",
        [asked(call("a")), result("a", "")],
        [asked(call("a")), result("a", NO_OUTPUT)],
    ),
    (
        "a result of empty parts",
        [asked(call("a")), result("a", [part("")])],
        [asked(call("a")), result("a", [part(NO_OUTPUT)])],
    ),
    (
        "empty words beside calls are accepted",
        [asked(call("a"), content=""), result("a")],
        [asked(call("a"), content=""), result("a")],
    ),
    (
        "empty parts beside calls are not",
        [asked(call("a"), content=[part("")]), result("a")],
        [asked(call("a")), result("a")],
    ),
    ("an answer that says nothing", [USER, said(""), USER], [USER, USER]),
    ("or has nothing to say", [said(None, refusal=None), said([]), said([part(" ")])], []),
    ("a refusal says something", [said(None, refusal="no")], [said(None, refusal="no")]),
    ("with parts that say nothing", [said([part("")], refusal="no")], [said(None, refusal="no")]),
    ("no calls are no list of calls", [asked(content="hi")], [said("hi")]),
    ("and may leave nothing", [asked()], []),
    ("an empty part of an answer", [said([part("a"), part("")])], [said([part("a")])]),
    ("a user may be silent", [said("", "user")], [said("", "user")]),
    (
        "but not in parts",
        [said([part("")], "user"), said([], "system")],
        [said("", "user"), said("", "system")],
    ),
    (
        "old functions are left alone",
        [said(None, function_call={"name": "t"}), said("1", "function", name="t")],
        [said(None, function_call={"name": "t"}), said("1", "function", name="t")],
    ),
    *(
        (f"what cannot be read stays, {n}", [broken, result("b")], [broken, result("b")])
        for n, broken in enumerate(BROKEN_CALLS)
    ),
]


@pytest.mark.parametrize(("messages", "mended"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_history_is_mended(messages: list[Any], mended: list[Any]) -> None:
    assert mend("openai-chat", messages).messages == mended


THOUGHT = {"reasoning_content": "hm"}
DETAILS: dict[str, Any] = {"reasoning_details": [{"data": "x"}]}
SIGNATURE = {"extra_content": {"google": {"thought_signature": "s"}}}
TURN = asked(call("a"))
NINE = "05f49740f"  # the same on every machine

# what holds, target, messages, mended, changes
TARGETS: list[tuple[str, Target, list[Any], list[Any], list[ChangeKind]]] = [
    (
        "reasoning is kept",
        PLAIN,
        [asked(call("a"), **THOUGHT), result("a")],
        [asked(call("a"), **THOUGHT), result("a")],
        [],
    ),
    (
        "OpenAI knows none",
        OPENAI_CHAT,
        [asked(call("a"), **THOUGHT, **DETAILS), result("a")],
        [TURN, result("a")],
        [ChangeKind.REASONING_DROPPED],
    ),
    (
        "nor in an answer",
        OPENAI_CHAT,
        [said("a", **THOUGHT)],
        [said("a")],
        [ChangeKind.REASONING_DROPPED],
    ),
    (
        "an answer may then say nothing",
        OPENAI_CHAT,
        [said("", **THOUGHT)],
        [],
        [ChangeKind.REASONING_DROPPED, ChangeKind.BLANK_DROPPED],
    ),
    ("which else it does", PLAIN, [said("", **THOUGHT)], [said("", **THOUGHT)], []),
    (
        "signed reasoning may be kept",
        SIGNED,
        [said("a", **THOUGHT, **DETAILS)],
        [said("a", **DETAILS)],
        [ChangeKind.REASONING_DROPPED],
    ),
    (
        "DeepSeek wants it with calls",
        DEEPSEEK,
        [asked(call("a"), **THOUGHT), result("a")],
        [asked(call("a"), **THOUGHT), result("a")],
        [],
    ),
    # https://github.com/vercel/ai/pull/13203
    (
        "even if there is none",
        DEEPSEEK,
        [TURN, result("a")],
        [asked(call("a"), reasoning_content=""), result("a")],
        [ChangeKind.REASONING_RESTORED],
    ),
    (
        "or it has another name",
        DEEPSEEK,
        [asked(call("a"), reasoning="hm"), result("a")],
        [asked(call("a"), reasoning="hm", **THOUGHT), result("a")],
        [ChangeKind.REASONING_RESTORED],
    ),
    ("but not without calls", DEEPSEEK, [said("a")], [said("a")], []),
    (
        "Gemini wants its signature",
        GEMINI,
        [asked(call("a", **SIGNATURE)), result("a")],
        [asked(call("a", **SIGNATURE)), result("a")],
        [],
    ),
    (
        "OpenAI does not",
        OPENAI_CHAT,
        [asked(call("a", **SIGNATURE)), result("a")],
        [TURN, result("a")],
        [ChangeKind.SIGNATURE_DROPPED],
    ),
    (
        "Mistral takes nine characters",
        MISTRAL,
        [asked(call("call_a")), result("call_a")],
        [asked(call(NINE)), result(NINE)],
        [ChangeKind.ID_REWRITTEN],
    ),
    (
        "and no user behind a result",
        MISTRAL,
        [asked(call("abcdefgh1")), result("abcdefgh1"), USER],
        [asked(call("abcdefgh1")), result("abcdefgh1"), said("I have the results."), USER],
        [ChangeKind.BRIDGE_ADDED],
    ),
    (
        "but an assistant",
        MISTRAL,
        [asked(call("abcdefgh1")), result("abcdefgh1"), said("a"), USER],
        [asked(call("abcdefgh1")), result("abcdefgh1"), said("a"), USER],
        [],
    ),
    (
        "or what cannot be read",
        MISTRAL,
        [asked(call("abcdefgh1")), result("abcdefgh1"), None],
        [asked(call("abcdefgh1")), result("abcdefgh1"), None],
        [],
    ),
]


@pytest.mark.parametrize("row", [r[1:] for r in TARGETS], ids=[r[0] for r in TARGETS])
def test_a_target_gets_what_it_accepts(
    row: tuple[Target, list[Any], list[Any], list[ChangeKind]],
) -> None:
    target, messages, expected, changes = row
    mended = mend("openai-chat", messages, target=target)

    assert mended.messages == expected
    assert [change.kind for change in mended.changes] == changes


# what holds, messages, changes
REPORTED: list[tuple[str, list[Any], list[tuple[ChangeKind, str, str]]]] = [
    (
        "emptied arguments",
        [USER, asked(call("a", "{")), result("a")],
        [(ChangeKind.ARGUMENTS_EMPTIED, "$[1]", "a")],
    ),
    (
        "encoded arguments",
        [asked(call("a", {})), result("a")],
        [(ChangeKind.ARGUMENTS_ENCODED, "$[0]", "a")],
    ),
    (
        "a call without a type",
        [asked({"id": "a", "function": {"name": "t", "arguments": "{}"}}), result("a")],
        [(ChangeKind.TYPE_ADDED, "$[0]", "a")],
    ),
    ("a filled result", [asked(call("a"))], [(ChangeKind.RESULT_FILLED, "$[0]", "a")]),
    (
        "a blank result",
        [asked(call("a")), result("a", None)],
        [(ChangeKind.RESULT_BLANK, "$[1]", "")],
    ),
    ("a blank message", [USER, said("")], [(ChangeKind.BLANK_DROPPED, "$[1]", "message")]),
    (
        "an empty list of calls",
        [asked(content="a")],
        [(ChangeKind.BLANK_DROPPED, "$[0]", "tool_calls")],
    ),
]


@pytest.mark.parametrize(
    ("messages", "changes"), [r[1:] for r in REPORTED], ids=[r[0] for r in REPORTED]
)
def test_each_change_is_reported_with_its_place(
    messages: list[Any], changes: list[tuple[ChangeKind, str, str]]
) -> None:
    reported = mend("openai-chat", messages).changes

    assert [(change.kind, change.where, change.detail) for change in reported] == changes
