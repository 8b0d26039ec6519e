"""Whether an answer obeyed the choice, which calls must not run, and what the model hears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.events import Call, Evidence, Reason, Rejected
from wholecall.messages import Choice, Mode, Special, obeyed

AUTO, REQUIRED = Mode.AUTO, Mode.REQUIRED
SHELL = Special("shell")


def call(name: str) -> Call:
    return Call(id="c", name=name, arguments={}, raw="{}", evidence=Evidence.CONFIRMED)


def rejected(name: str | None) -> Rejected:
    return Rejected(reason=Reason.BAD_JSON, detail="", name=name)


A, B = call("a"), call("b")

# what holds, choice, answer
OBEYED: list[tuple[str, Choice, list[Call | Rejected]]] = [
    ("free and silent", Choice(), []),
    ("free and calling twice", Choice(), [A, B]),
    ("silent where no tool may be called", Choice(Mode.NONE), []),
    ("one call is required", Choice(REQUIRED), [A]),
    ("an attempt counts as a call", Choice(REQUIRED), [rejected("a")]),
    ("an attempt without a name, too", Choice(REQUIRED), [rejected(None)]),
    ("the named tool, twice", Choice(REQUIRED, ("a",)), [A, A]),
    ("allowed but not required", Choice(AUTO, ("a",)), []),
    ("one at a time", Choice(parallel=False), [A]),
    ("one whole call beside a rejected one", Choice(parallel=False), [rejected("a"), B]),
    ("a hosted tool leaves no call", Choice(REQUIRED, specials=(SHELL,)), []),
    ("a custom tool goes by its name", Choice(REQUIRED, specials=(Special("custom", "b"),)), [B]),
]


@pytest.mark.parametrize(("choice", "answer"), [r[1:] for r in OBEYED], ids=[r[0] for r in OBEYED])
def test_an_answer_that_obeys_is_let_through(choice: Choice, answer: list[Call | Rejected]) -> None:
    assert obeyed(choice, answer) is None


ONE_AT_A_TIME = "Send one call at a time; only the first of this answer counts."

# what holds, choice, answer, calls that must not run, what the model hears
BROKEN: list[tuple[str, Choice, list[Call | Rejected], tuple[int, ...], str]] = [
    (
        "no tool may be called",
        Choice(Mode.NONE),
        [A, rejected("b")],
        (0, 1),
        "No tool may be called in this answer. Answer in plain text.",
    ),
    (
        "a call is missing",
        Choice(REQUIRED),
        [],
        (),
        "This answer must call at least one of the tools.",
    ),
    ("the call is missing", Choice(REQUIRED, ("a",)), [], (), "This answer must call 'a'."),
    (
        "one of two is missing",
        Choice(REQUIRED, ("b", "a")),
        [],
        (),
        "This answer must call one of 'a', 'b'.",
    ),
    (
        "another was called",
        Choice(REQUIRED, ("a",)),
        [B],
        (0,),
        "Only 'a' may be called in this answer, not 'b'. This answer must call 'a'.",
    ),
    (
        "another was called besides",
        Choice(AUTO, ("a",)),
        [A, B],
        (1,),
        "Only 'a' may be called in this answer, not 'b'.",
    ),
    (
        "nobody was called",
        Choice(AUTO, ("a",)),
        [rejected(None)],
        (0,),
        "Only 'a' may be called in this answer, not ''.",
    ),
    ("more than one", Choice(parallel=False), [A, B, A], (1, 2), ONE_AT_A_TIME),
    (
        "another, and more than one",
        Choice(REQUIRED, ("a",), False),
        [B, A, A],
        (0, 2),
        f"Only 'a' may be called in this answer, not 'b'. {ONE_AT_A_TIME}",
    ),
    (
        "a function for a hosted tool",
        Choice(REQUIRED, specials=(SHELL,)),
        [A],
        (0,),
        "Only 'shell' may be called in this answer, not 'a'.",
    ),
]


@pytest.mark.parametrize(
    ("choice", "answer", "refused", "message"), [r[1:] for r in BROKEN], ids=[r[0] for r in BROKEN]
)
def test_an_answer_that_disobeys_is_named(
    choice: Choice, answer: list[Call | Rejected], *, refused: tuple[int, ...], message: str
) -> None:
    breach = obeyed(choice, answer)

    assert breach is not None
    assert breach.refused == refused
    assert breach.message == message


@given(
    choice=st.just(Choice(Mode.NONE))
    | st.builds(
        Choice,
        st.sampled_from([AUTO, REQUIRED]),
        st.lists(st.sampled_from("abc"), unique=True).map(tuple),
        st.booleans(),
    ),
    answer=st.lists(st.sampled_from("abcd").map(call), max_size=5),
)
def test_what_remains_after_the_refusals_is_allowed(choice: Choice, answer: list[Call]) -> None:
    breach = obeyed(choice, answer)
    refused = breach.refused if breach else ()
    rest = [made for place, made in enumerate(answer) if place not in refused]
    again = obeyed(choice, rest)

    # Only that something is missing can be wrong with the rest.
    assert again is None or (not again.refused and choice.mode is REQUIRED and not rest)
    if choice.mode is Mode.NONE:
        assert not rest
