"""The history of OpenAI's Responses protocol."""

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
from wholecall.protocols.openai_responses.history import OPENAI_RESPONSES

USER = {"role": "user", "content": "go on"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
SEALED = {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "x"}
WORDS = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
EMPTY = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ""}]}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
REFERENCE = {"type": "item_reference", "id": "fc_1"}
SCREEN = {"type": "computer_call_output", "call_id": "c", "output": {}}


def call(id: Any, arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": "t", "arguments": arguments, **more}


def custom(id: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "call_id": id, "name": "t", "input": "{"}


def output(id: str, said: Any = "1", *, kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": id, "output": said}


CUSTOM_OUTPUT = output("a", UNRECORDED, kind="custom_tool_call_output")

# what holds, items, mended
ROWS: list[tuple[str, list[Any], list[Any]]] = [
    ("a result without a call", [output("a"), USER], [USER]),
    ("a call without a result", [call("a"), USER], [call("a"), output("a", UNRECORDED), USER]),
    ("a custom tool's call without a result", [custom("a")], [custom("a"), CUSTOM_OUTPUT]),
    (
        "results in the order of completion",
        [call("a"), call("b"), output("b", "2"), output("a", "1")],
        [call("a"), call("b"), output("a", "1"), output("b", "2")],
    ),
    (
        "a user between two results",
        [call("a"), call("b"), output("a"), USER, output("b")],
        [call("a"), call("b"), output("a"), output("b"), USER],
    ),
    ("two results", [call("a"), output("a", "1"), output("a", "2")], [call("a"), output("a", "1")]),
    (
        "an id that starts again",
        [call("a:0"), output("a:0", "1"), call("a:0"), output("a:0", "2")],
        [call("a:0"), output("a:0", "1"), call("a:1"), output("a:1", "2")],
    ),
    (
        "arguments that cannot be parsed",
        [call("a", "{"), output("a", "Error")],
        [call("a"), output("a", f"Error\n\n{explain('{')}")],
    ),
    (
        "of a call without a result",
        [call("a", "{")],
        [call("a"), output("a", f"{UNRECORDED}\n\n{explain('{')}")],
    ),
    ("arguments as an object", [call("a", {}), output("a")], [call("a"), output("a")]),
    ("a result without content", [call("a"), output("a", "")], [call("a"), output("a", NO_OUTPUT)]),
    (
        "a result of empty parts",
        [call("a"), output("a", [{"type": "input_text", "text": ""}])],
        [call("a"), output("a", [{"type": "input_text", "text": NO_OUTPUT}])],
    ),
    ("an empty answer", [USER, EMPTY, {"role": "assistant", "content": ""}], [USER]),
    ("which took its reasoning along", [USER, THOUGHT, EMPTY], [USER]),
    (
        "reasoning before nothing",
        [USER, call("a"), THOUGHT, output("a")],
        [USER, call("a"), output("a")],
    ),
    ("however much of it", [USER, WORDS, *[THOUGHT] * 50_000], [USER, WORDS]),
    ("a user's empty parts", [{"role": "user", "content": []}], [{"role": "user", "content": ""}]),
    (
        "what the upstream holds may be the call",
        [REFERENCE, output("a"), USER],
        [REFERENCE, output("a"), USER],
    ),
]


@pytest.mark.parametrize(("items", "mended"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_history_is_mended(items: list[Any], mended: list[Any]) -> None:
    assert mend("openai-responses", items).messages == mended


# what holds, items
HEALTHY: list[tuple[str, list[Any]]] = [
    ("reasoning stays before its item", [USER, THOUGHT, call("a"), output("a"), WORDS]),
    ("between calls, too", [THOUGHT, call("a"), SEALED, call("b"), output("a"), output("b")]),
    ("words before the result", [THOUGHT, call("a"), WORDS, output("a")]),
    ("the upstream's own tools", [call("a"), SEARCH, call("b"), output("a"), output("b")]),
    ("what belongs to reasoning may be held", [THOUGHT, REFERENCE, USER]),
    ("a reference may leave its type out", [THOUGHT, {"id": "fc_1"}, output("a")]),
    ("what cannot be read may be it, too", [THOUGHT, None, output("a")]),
    ("results of other shapes", [{"type": "computer_call", "call_id": "c"}, SCREEN]),
    ("an async call is answered late", [call("a", **{"async": True}), WORDS, USER, output("a")]),
    ("or never", [call("a", **{"async": True}), USER]),
    (
        "a custom tool takes any text",
        [custom("a"), output("a", "1", kind="custom_tool_call_output")],
    ),
    ("words alone", [USER, WORDS, USER, THOUGHT, WORDS]),
]


@pytest.mark.parametrize("items", [r[1] for r in HEALTHY], ids=[r[0] for r in HEALTHY])
def test_a_healthy_history_comes_back_equal(items: list[Any]) -> None:
    mended = mend("openai-responses", items)

    assert mended.messages == items
    assert mended.changes == ()


NONE, SIGNED = Target(reasoning=ReasoningRule.NONE), Target(reasoning=ReasoningRule.SIGNED)

# what holds, target, items, mended
TARGETS: list[tuple[str, Target, list[Any], list[Any]]] = [
    ("OpenAI wants reasoning back", OPENAI_RESPONSES, [THOUGHT, WORDS], [THOUGHT, WORDS]),
    ("others do not", NONE, [THOUGHT, SEALED, WORDS], [WORDS]),
    (
        "nor ids that would ask for it",
        NONE,
        [THOUGHT, {**call("a"), "id": "fc_1"}, SEARCH, {**WORDS, "id": "msg_1"}, output("a")],
        [call("a"), SEARCH, WORDS, output("a")],
    ),
    (
        "only what is sealed",
        SIGNED,
        [THOUGHT, WORDS, USER, SEALED, WORDS],
        [WORDS, USER, SEALED, WORDS],
    ),
]


@pytest.mark.parametrize(
    ("target", "items", "expected"), [r[1:] for r in TARGETS], ids=[r[0] for r in TARGETS]
)
def test_a_target_gets_what_it_accepts(
    target: Target, items: list[Any], *, expected: list[Any]
) -> None:
    assert mend("openai-responses", items, target=target).messages == expected


def test_an_id_that_is_too_long_is_replaced_on_both_sides() -> None:
    items = [call("x" * 65), output("x" * 65)]
    [made, answered] = mend("openai-responses", items, target=OPENAI_RESPONSES).messages

    assert len(made["call_id"]) == 64
    assert answered == output(made["call_id"])


# what holds, items, changes
REPORTED: list[tuple[str, list[Any], list[tuple[ChangeKind, str]]]] = [
    ("reasoning before nothing", [USER, THOUGHT], [(ChangeKind.REASONING_DROPPED, "$[1]")]),
    ("emptied arguments", [call("a", "{"), output("a")], [(ChangeKind.ARGUMENTS_EMPTIED, "$[0]")]),
    ("encoded arguments", [call("a", None), output("a")], [(ChangeKind.ARGUMENTS_ENCODED, "$[0]")]),
    ("a filled result", [THOUGHT, call("a")], [(ChangeKind.RESULT_FILLED, "$[1]")]),
]


@pytest.mark.parametrize(
    ("items", "changes"), [r[1:] for r in REPORTED], ids=[r[0] for r in REPORTED]
)
def test_each_change_is_reported_with_its_place(
    items: list[Any], changes: list[tuple[ChangeKind, str]]
) -> None:
    reported = mend("openai-responses", items).changes

    assert [(change.kind, change.where) for change in reported] == changes


def test_reasoning_before_a_repeated_call_leaves_with_it() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    result = {"type": "function_call_output", "call_id": "c1", "output": "empty"}
    mended = mend("openai-responses", [call, thought, dict(call), result])
    assert mended.messages == [call, result]
    assert mend("openai-responses", mended.messages).changes == ()
