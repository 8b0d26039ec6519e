"""The history of Anthropic's protocol."""

from typing import Any

import pytest

from wholecall.protocols.anthropic.history import ANTHROPIC
from wholecall.protocols.history import (
    NO_OUTPUT,
    UNRECORDED,
    ChangeKind,
    ReasoningRule,
    Target,
    explain,
)
from wholecall.protocols.history_repair import mend


def call(id: Any, arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "t", "input": arguments or {}}


def result(id: str, content: Any = "1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def missing(id: str, said: str = UNRECORDED) -> dict[str, Any]:
    return result(id, said, is_error=True)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks]}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": [*blocks]}


CUT = '{"x'
HELLO = {"role": "user", "content": "hello"}
WORDS = {"role": "assistant", "content": "words"}
BRIEF = {"role": "system", "content": "be brief"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
UNSIGNED = {"type": "thinking", "thinking": "hm"}
REDACTED = {"type": "redacted_thinking", "data": "x"}
SEARCH = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []}
IMAGE = {"type": "image", "source": {}}


def piece(text: Any) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text, "index": 1}


# what holds, messages, mended
ROWS: list[tuple[str, list[Any], list[Any]]] = [
    (
        "arguments in blocks as they streamed",
        [
            assistant(
                text("so"), {**call("a"), "index": 1}, piece('{"x"'), piece(": 1}"), call("b")
            ),
            user(result("a"), result("b")),
        ],
        [assistant(text("so"), call("a", {"x": 1}), call("b")), user(result("a"), result("b"))],
    ),
    (
        "such a block beside the arguments",
        [assistant(call("a", {"x": 1}), piece('{"x": 1}')), user(result("a"))],
        [assistant(call("a", {"x": 1})), user(result("a"))],
    ),
    (
        "one that is empty",
        [assistant(call("a"), piece(None)), user(result("a"))],
        [assistant(call("a")), user(result("a"))],
    ),
    (
        "one that belongs to no call",
        [assistant(text("so"), piece('{"x": 1}'))],
        [assistant(text("so"))],
    ),
    # https://github.com/pydantic/pydantic-ai/pull/653
    (
        "results in a message each",
        [assistant(call("a"), call("b")), user(result("a", "1")), user(result("b", "2"))],
        [assistant(call("a"), call("b")), user(result("a", "1"), result("b", "2"))],
    ),
    ("a result without a call", [user(result("a"), text("x")), HELLO], [user(text("x")), HELLO]),
    (
        "a result that was stored with its call",
        [assistant(call("a"), result("a"), text("x")), HELLO],
        [assistant(call("a"), text("x")), user(result("a")), HELLO],
    ),
    (
        "a result in the model's next words",
        [assistant(call("a")), assistant(result("a"), text("x"))],
        [assistant(call("a")), user(result("a")), assistant(text("x"))],
    ),
    (
        "a result in a message of the model's own",
        [assistant(call("a")), assistant(result("a"))],
        [assistant(call("a")), user(result("a"))],
    ),
    ("and with nothing else to say", [user(result("a")), HELLO], [HELLO]),
    (
        "a call without a result",
        [assistant(call("a")), WORDS],
        [assistant(call("a")), user(missing("a")), WORDS],
    ),
    (
        "before what the user says instead",
        [assistant(call("a")), HELLO],
        [assistant(call("a")), user(missing("a"), text("hello"))],
    ),
    (
        "beside another's result",
        [assistant(call("a"), call("b")), user(result("b"), IMAGE), HELLO],
        [assistant(call("a"), call("b")), user(missing("a"), result("b"), IMAGE), HELLO],
    ),
    (
        "at the end",
        [HELLO, assistant(call("a"))],
        [HELLO, assistant(call("a")), user(missing("a"))],
    ),
    (
        "results in the order of completion",
        [assistant(call("a"), call("b")), user(result("b", "2"), result("a", "1"))],
        [assistant(call("a"), call("b")), user(result("a", "1"), result("b", "2"))],
    ),
    (
        "words before a result",
        [assistant(call("a")), user(text("x"), result("a"), text("y"))],
        [assistant(call("a")), user(result("a"), text("x"), text("y"))],
    ),
    (
        "words between results",
        [assistant(call("a"), call("b")), user(result("a"), text("x")), HELLO, user(result("b"))],
        [assistant(call("a"), call("b")), user(result("a"), result("b"), text("x"), text("hello"))],
    ),
    (
        "a system message between",
        [assistant(call("a")), BRIEF, user(result("a"))],
        [assistant(call("a")), user(result("a")), BRIEF],
    ),
    (
        "a late result leaves its message behind",
        [assistant(call("a")), WORDS, user(result("a"), text("x"))],
        [assistant(call("a")), user(result("a")), WORDS, user(text("x"))],
    ),
    (
        "two results",
        [assistant(call("a")), user(result("a", "1"), result("a", "2"))],
        [assistant(call("a")), user(result("a", "1"))],
    ),
    (
        "calls made together, stored apart",
        [assistant(THOUGHT, call("a")), assistant(call("b")), user(result("a"), result("b"))],
        [assistant(THOUGHT, call("a"), call("b")), user(result("a"), result("b"))],
    ),
    (
        "an id that starts again",
        [assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))],
        [assistant(call("a")), user(result("a")), assistant(call("a_2")), user(result("a_2"))],
    ),
    (
        "an id of another alphabet",
        [assistant(call("ls:0")), user(result("ls:0"))],
        [assistant(call("ls_0")), user(result("ls_0"))],
    ),
    (
        "arguments that are a cut text",
        [assistant({**call("a"), "input": CUT}), user(result("a", "Error"))],
        [assistant(call("a")), user(result("a", f"Error\n\n{explain(CUT)}"))],
    ),
    (
        "arguments that are a whole text",
        [assistant({**call("a"), "input": '{"x": 1}'}), user(result("a"))],
        [assistant(call("a", {"x": 1})), user(result("a"))],
    ),
    (
        "no arguments",
        [assistant({**call("a"), "input": None}), user(result("a"))],
        [assistant(call("a")), user(result("a"))],
    ),
    # https://github.com/anthropics/claude-code/issues/62396
    (
        "an empty text beside a call",
        [assistant(text(""), call("a")), user(result("a"))],
        [assistant(call("a")), user(result("a"))],
    ),
    (
        "an empty text beside a result",
        [assistant(call("a")), user(result("a"), text(""))],
        [assistant(call("a")), user(result("a"))],
    ),
    (
        "a message of empty texts",
        [HELLO, assistant(text("")), user(text(" ")), HELLO],
        [HELLO, HELLO],
    ),
    (
        "an empty message",
        [
            {"role": "user", "content": ""},
            assistant(),
            {"role": "user"},
            {**BRIEF, "content": [text("")]},
        ],
        [],
    ),
    (
        "a result without words",
        [assistant(call("a")), user(result("a", ""))],
        [assistant(call("a")), user(result("a", NO_OUTPUT))],
    ),
    (
        "an error without words",
        [assistant(call("a")), user({"type": "tool_result", "tool_use_id": "a", "is_error": True})],
        [assistant(call("a")), user(result("a", NO_OUTPUT, is_error=True))],
    ),
]


@pytest.mark.parametrize(("messages", "mended"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_history_is_mended(messages: list[Any], mended: list[Any]) -> None:
    assert mend("anthropic", messages).messages == mended


# what holds, messages
HEALTHY: list[tuple[str, list[Any]]] = [
    ("thinking before calls", [HELLO, assistant(THOUGHT, REDACTED, call("a")), user(result("a"))]),
    ("thinking without a signature", [HELLO, assistant(UNSIGNED, text("a"))]),
    ("the upstream's own tools", [HELLO, assistant(SEARCH, FOUND, text("a")), HELLO]),
    ("a user who says more", [assistant(call("a")), user(result("a"), text("x")), HELLO, HELLO]),
    (
        "a result may leave its content out",
        [assistant(call("a")), user({"type": "tool_result", "tool_use_id": "a"})],
    ),
    ("system messages", [HELLO, BRIEF, {**BRIEF, "content": [text("x")]}, WORDS]),
    ("a user message with more keys", [assistant(call("a")), {**user(result("a")), "id": "m"}]),
    (
        "a role that is not known",
        [{"role": "robot", "content": []}, user(result("a")), user(text("x"))],
    ),
    ("content that cannot be read", [{"role": "user", "content": 5}, user(result("a"))]),
    ("blocks that cannot be read", [assistant(None, call("a")), user(result("a"), None)]),
    ("a result behind what cannot be read", [None, user(result("a")), None]),
]


@pytest.mark.parametrize("messages", [r[1] for r in HEALTHY], ids=[r[0] for r in HEALTHY])
def test_what_is_accepted_comes_back_equal(messages: list[Any]) -> None:
    mended = mend("anthropic", messages)

    assert mended.messages == messages
    assert mended.changes == ()


NONE = Target(reasoning=ReasoningRule.NONE)

# what holds, target, messages, mended
TARGETS: list[tuple[str, Target, list[Any], list[Any]]] = [
    (
        "Anthropic wants its own thinking",
        ANTHROPIC,
        [assistant(THOUGHT, REDACTED, text("a"))],
        [assistant(THOUGHT, REDACTED, text("a"))],
    ),
    ("but nobody else's", ANTHROPIC, [assistant(UNSIGNED, text("a"))], [assistant(text("a"))]),
    ("and nothing may be left", ANTHROPIC, [HELLO, assistant(UNSIGNED)], [HELLO]),
    ("others want none", NONE, [assistant(THOUGHT, REDACTED, text("a"))], [assistant(text("a"))]),
]


@pytest.mark.parametrize(
    ("target", "messages", "expected"), [r[1:] for r in TARGETS], ids=[r[0] for r in TARGETS]
)
def test_a_target_gets_what_it_accepts(
    target: Target, messages: list[Any], *, expected: list[Any]
) -> None:
    assert mend("anthropic", messages, target=target).messages == expected


# what holds, messages, changes
REPORTED: list[tuple[str, list[Any], list[tuple[ChangeKind, str]]]] = [
    (
        "a merged turn",
        [assistant(call("a")), assistant(call("b")), user(result("a"), result("b"))],
        [(ChangeKind.TURNS_MERGED, "$[1]")],
    ),
    (
        "a moved result",
        [assistant(call("a"), call("b")), user(result("a")), user(result("b"))],
        [(ChangeKind.RESULT_MOVED, "$[2]")],
    ),
    (
        "words before a result",
        [assistant(call("a")), user(text("x"), result("a"))],
        [(ChangeKind.RESULT_MOVED, "$[1]")],
    ),
    ("a filled result", [HELLO, assistant(call("a"))], [(ChangeKind.RESULT_FILLED, "$[1]")]),
    ("an empty message", [HELLO, {**WORDS, "content": ""}], [(ChangeKind.BLANK_DROPPED, "$[1]")]),
    (
        "encoded arguments",
        [assistant({**call("a"), "input": ""}), user(result("a"))],
        [(ChangeKind.ARGUMENTS_ENCODED, "$[0]")],
    ),
    (
        "emptied arguments",
        [assistant({**call("a"), "input": "x"}), user(result("a"))],
        [(ChangeKind.ARGUMENTS_EMPTIED, "$[0]")],
    ),
]


@pytest.mark.parametrize(
    ("messages", "changes"), [r[1:] for r in REPORTED], ids=[r[0] for r in REPORTED]
)
def test_each_change_is_reported_with_its_place(
    messages: list[Any], changes: list[tuple[ChangeKind, str]]
) -> None:
    reported = mend("anthropic", messages).changes

    assert [(change.kind, change.where) for change in reported] == changes
