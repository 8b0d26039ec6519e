"""Where a call that is being built may go from where it stands."""

from itertools import product

import pytest

from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.call_builder import OPEN_STATES, TRANSITIONS, BuildStep, Draft, State
from wholecall.errors import ProtocolError

# Each state, and where its steps lead; a step that is not named is not legal.
LEGAL = {
    "building": "text: building, close: closed, seal: sealed, release: released, reject: rejected",
    "closed": "text: closed, seal: sealed, release: released, reject: rejected",
    "sealed": "seal: sealed, release: released, reject: rejected",
    "released": "text: released, seal: released",
    "rejected": "text: rejected, seal: rejected",
}


@pytest.mark.parametrize(("state", "step"), list(product(State, BuildStep)))
def test_only_the_steps_of_the_table_are_legal(state: State, step: BuildStep) -> None:
    legal = dict(pair.split(": ") for pair in LEGAL[state.value].split(", "))
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


def test_a_call_is_open_while_it_can_be_settled() -> None:
    settling = {BuildStep.RELEASE, BuildStep.REJECT}
    assert {state for state, step in TRANSITIONS if step in settling} == OPEN_STATES
