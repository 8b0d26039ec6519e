"""Where a call that is being built may go from where it is."""

from itertools import product
from typing import Any

import pytest

from assembly.drafts import draft_of
from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.call_builder import (
    TRANSITIONS,
    UNSETTLED,
    BuildStep,
    Draft,
    State,
    TextForm,
)
from wholecall.errors import ProtocolError
from wholecall.events import Call, Evidence, Oddity, Reason, Rejected, Repair

# Each form of the text and each state of the call, and where its steps lead; a step that is not
# named is not legal.
FORMS = {
    "blank": "open: open, stray: foreign, release: blank",
    "open": "empty: empty, close: closed, stray: foreign, reread: foreign",
    "empty": "open: open, stray: foreign, release: empty",
    "closed": "release: closed",
    "foreign": "release: foreign",
}
STATES = {
    "building": "text: building, seal: sealed, release: released, reject: rejected",
    "sealed": "seal: sealed, release: released, reject: rejected",
    "released": "text: released, seal: released",
    "rejected": "text: rejected, seal: rejected",
}


def read_row(row: str) -> dict[str, str]:
    return dict(pair.split(": ") for pair in row.split(", "))


@pytest.mark.parametrize(("form", "step"), list(product(TextForm, BuildStep)))
def test_only_the_steps_of_the_table_are_legal_for_a_text(form: TextForm, step: BuildStep) -> None:
    legal = read_row(FORMS[form.value])
    arguments = Draft(0, DEFAULT).arguments
    arguments.form = form

    if step.value in legal:
        arguments.step(step)
        assert arguments.form is TextForm(legal[step.value])
    else:
        with pytest.raises(ProtocolError, match=f"'{step.value}'.*'{form.value}'"):
            arguments.step(step)


@pytest.mark.parametrize(("state", "step"), list(product(State, BuildStep)))
def test_only_the_steps_of_the_table_are_legal_for_a_call(state: State, step: BuildStep) -> None:
    legal = read_row(STATES[state.value])
    draft = Draft(0, DEFAULT)
    draft.state = state

    assert draft.allows(step) is (step.value in legal)
    if step.value in legal:
        draft.step(step)
        assert draft.state is State(legal[step.value])
    else:
        with pytest.raises(ProtocolError, match=f"'{step.value}'.*'{state.value}'"):
            draft.step(step)


def test_no_call_is_settled_twice() -> None:
    settled = {State.RELEASED, State.REJECTED}
    settling = {BuildStep.RELEASE, BuildStep.REJECT}
    assert not [pair for pair in TRANSITIONS if pair[0] in settled and pair[1] in settling]


def test_a_call_is_unsettled_while_it_can_be_settled() -> None:
    assert {state for state, step in TRANSITIONS if step is BuildStep.REJECT} == UNSETTLED


# ── Settling ────────────────────────────────────────────────────────────────────────


def make_call(*repairs: Repair) -> Call:
    evidence = Evidence.CONFIRMED
    return Call(id="1", name="f", arguments={}, raw="", evidence=evidence, repairs=repairs)


REPAIR = Repair("python_literal", "'", '"')

# what holds, what came, the form in which it is released
RELEASED: list[tuple[str, list[Any], TextForm]] = [
    ("nothing", [], TextForm.BLANK),
    ("an empty object", ["{}"], TextForm.EMPTY),
    ("a closed object", ['{"a": 1}'], TextForm.CLOSED),
    ("another syntax", ["{'a': 1}"], TextForm.FOREIGN),
    ("an object that is no text", [{"a": 1}], TextForm.BLANK),
]


@pytest.mark.parametrize(
    ("pieces", "form"), [row[1:] for row in RELEASED], ids=[row[0] for row in RELEASED]
)
def test_a_call_is_released_in_the_form_that_it_has(pieces: list[Any], form: TextForm) -> None:
    draft = draft_of(*pieces)
    draft.settle(make_call())
    assert (draft.state, draft.arguments.form) == (State.RELEASED, form)


def test_arguments_that_stop_inside_their_object_are_not_released() -> None:
    draft = draft_of('{"a": 1')
    with pytest.raises(ProtocolError, match="'release' is not legal for a call that is 'open'"):
        draft.settle(make_call())
    assert draft.state is State.BUILDING


def test_unless_the_whole_text_was_read_in_another_way() -> None:
    repaired, cumulative = draft_of("{'a': '\"'}"), draft_of('{"a', '{"a": 1}')
    cumulative.oddities.note(Oddity.ARGUMENTS_CUMULATIVE)
    for draft, call in ((repaired, make_call(REPAIR)), (cumulative, make_call())):
        assert draft.arguments.is_open
        draft.settle(call)
        assert (draft.state, draft.arguments.form) == (State.RELEASED, TextForm.FOREIGN)


def test_an_open_text_is_rejected_and_stays_open() -> None:
    draft = draft_of('{"a": 1')
    draft.settle(Rejected(reason=Reason.TRUNCATED, detail="cut"))
    assert draft.state is State.REJECTED
    assert draft.arguments.is_open  # whoever took its place may be a piece of it
