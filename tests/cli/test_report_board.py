"""The board shows what the events said, and keeps no more of a text than a screen holds."""

import sys

import pytest

from wholecall.cli.report import KEPT_CHARACTERS, Board, TextEnd, watch
from wholecall.events import (
    Call,
    Ended,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    Inconsistent,
    Oddity,
    OfChoice,
    Opened,
    Proved,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
    Usage,
)

CALL = Call(
    id="call_1",
    name="search",
    arguments={"query": "x"},
    raw='{"query": "x"}',
    evidence=Evidence.CLOSED | Evidence.CONFIRMED,
    number=0,
)
CUT = Rejected(reason=Reason.TRUNCATED, detail="cut off", name="search", raw='{"q', number=1)


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        ["", "short", ""],
        ["x" * KEPT_CHARACTERS],
        ["x", "y" * KEPT_CHARACTERS],
        ["begin", *("ab" for _ in range(KEPT_CHARACTERS)), "end"],
        [str(number) for number in range(1000)],
    ],
)
def test_a_growing_text_shows_its_end(pieces: list[str]) -> None:
    growing = TextEnd()
    for piece in pieces:
        growing.add(piece)
    whole = "".join(pieces)
    end = whole[-KEPT_CHARACTERS:]
    assert str(growing) == (end if end == whole else f"…{end}")
    assert growing.size == len(whole)
    assert growing.pieces == sum(map(bool, pieces))


@pytest.mark.parametrize("piece", ["x" * 1_000_000, "abcd", "y" * (KEPT_CHARACTERS - 1)])
def test_a_growing_text_keeps_little_of_megabytes(piece: str) -> None:
    growing = TextEnd()
    for _ in range(2_000):
        growing.add(piece)
    held = sum(sys.getsizeof(kept) for kept in growing.kept)
    assert sum(map(len, growing.kept)) < 2 * KEPT_CHARACTERS
    assert held < 100 * KEPT_CHARACTERS


def test_a_call_is_followed_from_its_first_piece_to_its_release() -> None:
    board = watch([Opened(0, "call_1", "search"), Grew(0, '{"query"'), Grew(0, ': "x"}')])
    lane = board.lanes[0]
    assert (lane.name, str(lane.arguments)) == ("search", '{"query": "x"}')
    assert (lane.evidence, lane.verdict) == (Evidence.NONE, None)
    board.apply(Proved(0, Evidence.CLOSED))
    assert lane.evidence is Evidence.CLOSED
    board.apply(Released(CALL))
    assert (lane.verdict, lane.evidence) == (CALL, CALL.evidence)


@pytest.mark.parametrize(
    ("name", "shown"), [("search", "search"), (None, "opened"), ("", "opened")]
)
def test_a_rejection_keeps_the_name_that_is_known(name: str | None, shown: str) -> None:
    rejected = Rejected(reason=Reason.NO_NAME, detail="no name", name=name)
    board = watch([Opened(0, "call_1", "opened"), rejected])
    assert (board.lanes[0].verdict, board.lanes[0].name) == (rejected, shown)


def test_a_repeat_says_of_which_call() -> None:
    board = watch([Released(CALL), Repeated(1, 0)])
    assert [lane.repeat_of for lane in board.lanes.values()] == [None, 0]


def test_what_was_said_and_what_went_wrong_is_kept() -> None:
    ended = Ended("stop", Hint.STOP, "stop", None)
    events: list[Event] = [
        Reasoning("I th"),
        Reasoning("ink"),
        Text("Hel"),
        Text("lo"),
        Usage(1, 2),
        Inconsistent(Oddity.ID_MISSING),
        Inconsistent(Oddity.ID_MISSING),
        Inconsistent(Oddity.HINT_UNKNOWN, "finish reason 'eos'"),
        Fault(FaultKind.PROTOCOL, "broken"),
        ended,
    ]
    board = watch(events)
    assert (str(board.reasoning), str(board.text)) == ("I think", "Hello")
    assert board.oddities == {"id_missing": 2, "hint_unknown (finish reason 'eos')": 1}
    assert board.faults == {"protocol: broken": 1}
    assert board.ended is ended
    assert board.lanes == {}


def test_other_choices_have_boards_of_their_own() -> None:
    board = watch([Text("one"), OfChoice(1, Text("two")), OfChoice(1, CUT)])
    assert (str(board.text), board.lanes) == ("one", {})
    assert isinstance(board.choices[1], Board)
    assert str(board.choices[1].text) == "two"
    assert board.choices[1].lanes[1].verdict is CUT
