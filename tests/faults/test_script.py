"""Which answer of a script is given, and what is expected in which form."""

from __future__ import annotations

import pytest

from wholecall.faults.script import (
    EVERYWHERE,
    FINAL_TEXT,
    Expected,
    Form,
    Say,
    Scenario,
    ScriptAnswer,
    ToolRun,
    forms,
)

FIRST, SECOND, LAST, CLOSING = (ScriptAnswer(steps=(Say(word),)) for word in ("a", "b", "c", "d"))
RUN = ToolRun("list_items", {})
STREAM, WHOLE = Form("openai-chat", True), Form("openai-chat", False)


def scenario(
    expected: Expected | None = None,
    *,
    differs: dict[Form, Expected] | None = None,
    closing: ScriptAnswer | None = None,
) -> Scenario:
    return Scenario(
        name="sample",
        sentence="A sample.",
        turns=((FIRST, SECOND), (LAST,)),
        expected=expected or Expected(),
        differs=differs or {},
        closing=closing,
    )


@pytest.mark.parametrize(
    ("turn", "attempt", "answer"),
    [
        (0, 0, FIRST),
        (0, 1, SECOND),
        (0, 9, SECOND),
        (1, 0, LAST),
        (9, 9, LAST),
    ],
)
def test_beyond_the_script_its_last_line_is_said_again(
    *, turn: int, attempt: int, answer: ScriptAnswer
) -> None:
    assert scenario().answer(turn, attempt) is answer


def test_without_tools_the_closing_answer_is_given() -> None:
    closed = scenario(closing=CLOSING)
    assert closed.answer(0, 0, offers_tools=False) is CLOSING
    assert closed.answer(0, 0, offers_tools=True) is FIRST
    assert scenario().answer(0, 0, offers_tools=False) is FIRST


def test_the_form_may_change_what_is_expected() -> None:
    sample = scenario(Expected(runs=(RUN,)), differs={WHOLE: Expected(runs=(RUN, RUN), first=())})
    assert sample.expect(STREAM).runs == sample.expected_runs == (RUN,)
    assert sample.first_runs(STREAM) == (RUN,)
    assert sample.expect(WHOLE).runs == (RUN, RUN)
    assert sample.first_runs(WHOLE) == ()


def test_a_run_comes_to_a_text_or_ends_in_an_error() -> None:
    assert (scenario().final_text, scenario().ends_in_error) == (FINAL_TEXT, False)
    failing = scenario(Expected(error=True))
    assert (failing.final_text, failing.ends_in_error) == (None, True)


def test_some_forms() -> None:
    assert forms() == EVERYWHERE
    assert forms(["openai-chat"]) == {STREAM, WHOLE}
    assert forms(["openai-chat"], streamed=[False]) == {WHOLE}
