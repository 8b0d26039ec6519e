"""How a turn ends, and what is told of it."""

import pytest

from wholecall.assembly.verdict import Ending, EndSigns
from wholecall.events import (
    Call,
    Ended,
    Evidence,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
)

CALL = Call(id="a", name="f", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)
CUT = Rejected(reason=Reason.TRUNCATED, detail="cut")
BAD = Rejected(reason=Reason.BAD_JSON, detail="bad")
FAULT = Fault(FaultKind.PROTOCOL, "odd")


def turn(
    *hints: Hint, terminated: bool = True, fault: Fault | None = None, limited: bool = False
) -> EndSigns:
    turn = EndSigns()
    turn.limited = limited
    for hint in hints:
        turn.take_hint(HintGiven(hint, hint.value.upper()))
    turn.terminated = terminated
    turn.fault = fault
    return turn


# what holds, the turn, how it ended
ENDINGS = [
    ("a good hint and the terminator", turn(Hint.TOOL_CALLS), Ending.GOOD),
    ("a hint without terminator is an end", turn(Hint.STOP, terminated=False), Ending.GOOD),
    ("a terminator without hint is an end", turn(), Ending.GOOD),
    ("neither of them is a drop", turn(terminated=False), Ending.DROPPED),
    ("unknown hints are tolerated", turn(Hint.UNKNOWN), Ending.GOOD),
    ("a pause is a good end", turn(Hint.PAUSE), Ending.GOOD),
    ("the output limit", turn(Hint.LENGTH), Ending.LENGTH),
    ("the limit, and no terminator", turn(Hint.LENGTH, terminated=False), Ending.LENGTH),
    ("the filter", turn(Hint.CONTENT_FILTER), Ending.FILTERED),
    ("a malformed call", turn(Hint.MALFORMED), Ending.MALFORMED),
    ("an error as hint", turn(Hint.ERROR), Ending.FAILED),
    ("a fault, whatever the hint says", turn(Hint.STOP, fault=FAULT), Ending.FAILED),
    ("a fault before a drop", turn(terminated=False, fault=FAULT), Ending.FAILED),
    ("a bad hint stays after a good one", turn(Hint.LENGTH, Hint.STOP), Ending.LENGTH),
    ("as many tokens as allowed", turn(Hint.TOOL_CALLS, limited=True), Ending.LENGTH),
    ("and no hint", turn(limited=True), Ending.LENGTH),
    ("and a worse hint", turn(Hint.CONTENT_FILTER, limited=True), Ending.FILTERED),
    ("and a fault", turn(Hint.STOP, fault=FAULT, limited=True), Ending.FAILED),
    ("and a drop", turn(terminated=False, limited=True), Ending.DROPPED),
]


@pytest.mark.parametrize(
    ("turn", "ending"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS]
)
def test_hint_terminator_and_fault_say_how_the_turn_ended(turn: EndSigns, ending: Ending) -> None:
    assert turn.ending() is ending


# what holds, the turn so far, whether a call may still start
SOUND = [
    ("nothing was said yet", turn(terminated=False), True),
    ("a good end", turn(Hint.TOOL_CALLS), True),
    ("the output limit ends only what is open", turn(Hint.LENGTH), True),
    ("the filter", turn(Hint.CONTENT_FILTER), False),
    ("a malformed call", turn(Hint.MALFORMED), False),
    ("an error", turn(Hint.ERROR), False),
    ("a fault", turn(fault=FAULT), False),
]


@pytest.mark.parametrize(
    ("turn", "sound"), [row[1:] for row in SOUND], ids=[row[0] for row in SOUND]
)
def test_a_turn_is_sound_until_something_forbids_its_calls(turn: EndSigns, sound: bool) -> None:
    assert turn.is_sound is sound


# An ending, and the fault that it means.
FAULTS = {
    Ending.GOOD: None,
    Ending.LENGTH: None,
    Ending.FILTERED: None,
    Ending.DROPPED: FaultKind.STREAM_DROPPED,
    Ending.FAILED: FaultKind.UPSTREAM_ERROR,
    Ending.MALFORMED: FaultKind.MALFORMED_FUNCTION_CALL,
}


@pytest.mark.parametrize("ending", Ending)
def test_a_bad_end_is_a_fault_that_is_told_once(ending: Ending) -> None:
    ended = turn()
    kinds = [fault.kind for fault in ended.faults(ending) if isinstance(fault, Fault)]
    assert kinds == [kind for kind in [FAULTS[ending]] if kind is not None]
    assert ended.faults(ending) == []


@pytest.mark.parametrize("ending", Ending)
def test_a_fault_that_was_told_already_is_not_told_again(ending: Ending) -> None:
    assert turn(fault=FAULT).faults(ending) == []


# what holds, the turn, the verdicts, the finish reason, what is odd
CONCLUSIONS = [
    ("calls and their hint", turn(Hint.TOOL_CALLS), [CALL], "tool_calls", ""),
    ("an answer and its hint", turn(Hint.STOP), [], "stop", ""),
    ("calls with `stop`", turn(Hint.STOP), [CALL], "tool_calls", "calls_with_other_hint"),
    ("no calls is an answer", turn(Hint.TOOL_CALLS), [], "stop", "tool_calls_without_calls"),
    ("a rejected call was a call", turn(Hint.TOOL_CALLS), [BAD], "stop", ""),
    ("a cut call was cut, whatever the hint says", turn(Hint.TOOL_CALLS), [CUT], "length", ""),
    ("a whole call beside a cut one", turn(Hint.TOOL_CALLS), [CUT, CALL], "tool_calls", ""),
    ("whole calls at the limit", turn(Hint.LENGTH), [CALL, CUT], "tool_calls", "calls_at_length"),
    ("an answer at the limit", turn(Hint.LENGTH), [], "length", ""),
    ("a hidden limit", turn(Hint.TOOL_CALLS, limited=True), [CUT], "length", "limit_reached"),
    ("and a call", turn(Hint.TOOL_CALLS, limited=True), [CALL], "tool_calls", "limit_reached"),
    ("and an answer", turn(Hint.STOP, limited=True), [], "length", "limit_reached"),
    ("a limit that is told", turn(Hint.LENGTH, limited=True), [], "length", ""),
    ("an unknown hint", turn(Hint.UNKNOWN), [], "stop", "hint_unknown"),
    ("and calls", turn(Hint.UNKNOWN), [CALL], "tool_calls", "calls_with_other_hint hint_unknown"),
    ("no hint", turn(), [CALL], "tool_calls", "hint_missing"),
    ("no terminator", turn(Hint.STOP, terminated=False), [], "stop", "no_terminator"),
    ("two hints", turn(Hint.TOOL_CALLS, Hint.STOP), [CALL], "tool_calls", "hint_changed"),
    ("the same hint twice", turn(Hint.STOP, Hint.STOP), [], "stop", ""),
    ("a changed hint, twice", turn(Hint.STOP, Hint.PAUSE, Hint.PAUSE), [], "stop", "hint_changed"),
    ("nothing passes the filter", turn(Hint.CONTENT_FILTER), [BAD], "content_filter", ""),
    ("a dropped stream never ends as if finished", turn(terminated=False), [CALL], None, ""),
    ("nor does a failed one", turn(Hint.ERROR), [], None, ""),
    ("nor a malformed one", turn(Hint.MALFORMED), [], None, ""),
]


@pytest.mark.parametrize("row", CONCLUSIONS, ids=[row[0] for row in CONCLUSIONS])
def test_the_end_tells_what_was_delivered_and_what_was_odd(
    row: tuple[str, EndSigns, list[Call | Rejected], str | None, str],
) -> None:
    _, turn, verdicts, reason, oddities = row
    detail = f"finish reason {turn.native!r}"
    assert turn.conclude(turn.ending(), iter(verdicts)) == [
        *(Inconsistent(Oddity(oddity), detail) for oddity in oddities.split()),
        Ended(reason, turn.hint, turn.native, None),
    ]


def test_the_end_names_the_fault() -> None:
    faulty = turn(Hint.STOP, fault=FAULT)
    assert faulty.conclude(Ending.FAILED, []) == [Ended(None, Hint.STOP, "STOP", "protocol")]


def test_the_native_word_is_that_of_the_worst_hint() -> None:
    ended = turn(Hint.TOOL_CALLS, Hint.LENGTH, Hint.STOP)
    assert (ended.hint, ended.native) == (Hint.LENGTH, "LENGTH")
