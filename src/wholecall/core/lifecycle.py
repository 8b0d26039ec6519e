"""Where a call that is being built may go from where it stands.

    BUILDING ──text──▶ BUILDING        pieces of the arguments
    BUILDING ──close─▶ CLOSED          the brace that closes the root object
    BUILDING ──seal──▶ SEALED          the protocol says: over
    CLOSED   ──text──▶ CLOSED          the object once more, or a stray closer; see `tail`
    CLOSED   ──seal──▶ SEALED
    SEALED   ──seal──▶ SEALED          some protocols say it twice
    …        ──release / reject──▶     once, from any of the three
    RELEASED ──text──▶ RELEASED        looked at in the end: a repeat, or a protocol error
    REJECTED ──text──▶ REJECTED        dropped: nothing can make it a call again

What is not in the table is a protocol error that names both sides.
"""

from __future__ import annotations

import enum

from wholecall.errors import ProtocolError


class State(enum.Enum):
    """The state of a draft."""

    BUILDING = "building"
    CLOSED = "closed"
    SEALED = "sealed"
    RELEASED = "released"
    REJECTED = "rejected"


class Step(enum.Enum):
    """An event in the life of a draft."""

    TEXT = "text"
    CLOSE = "close"
    SEAL = "seal"
    RELEASE = "release"
    REJECT = "reject"


TRANSITIONS: dict[tuple[State, Step], State] = {
    (State.BUILDING, Step.TEXT): State.BUILDING,
    (State.BUILDING, Step.CLOSE): State.CLOSED,
    (State.BUILDING, Step.SEAL): State.SEALED,
    (State.BUILDING, Step.RELEASE): State.RELEASED,
    (State.BUILDING, Step.REJECT): State.REJECTED,
    (State.CLOSED, Step.TEXT): State.CLOSED,
    (State.CLOSED, Step.SEAL): State.SEALED,
    (State.CLOSED, Step.RELEASE): State.RELEASED,
    (State.CLOSED, Step.REJECT): State.REJECTED,
    (State.SEALED, Step.SEAL): State.SEALED,
    (State.SEALED, Step.RELEASE): State.RELEASED,
    (State.SEALED, Step.REJECT): State.REJECTED,
    (State.RELEASED, Step.TEXT): State.RELEASED,
    (State.RELEASED, Step.SEAL): State.RELEASED,
    (State.REJECTED, Step.TEXT): State.REJECTED,
    (State.REJECTED, Step.SEAL): State.REJECTED,
}

OPEN_STATES = frozenset({State.BUILDING, State.CLOSED, State.SEALED})


def advance(state: State, step: Step) -> State:
    """Return the next state, by the table."""
    try:
        return TRANSITIONS[state, step]
    except KeyError:
        sides = f"{step.value!r} is not legal for a call that is {state.value!r}"
        raise ProtocolError(sides) from None
