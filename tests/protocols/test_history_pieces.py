"""The pieces of a history: what they are, and how they are told apart."""

from typing import Any

import pytest

from wholecall.protocols.history import (
    UNRECORDED,
    Change,
    ChangeKind,
    Mending,
    Spot,
    StoredCall,
    StoredResult,
    StoredTurn,
    Target,
    read_id,
)


def test_two_equal_results_are_still_two() -> None:
    assert StoredResult(0, "c", {}) != StoredResult(0, "c", {})


def test_a_turn_knows_its_calls_and_what_stands_between_them() -> None:
    call = StoredCall(0, "c", {"id": "c"})
    turn = StoredTurn(0, ("words", call, {"type": "reasoning"}))

    assert turn.calls == (call,)
    assert turn.natives == ["words", {"id": "c"}, {"type": "reasoning"}]


def test_a_change_names_the_message_as_it_came_in() -> None:
    mending = Mending(Target())
    mending.note(ChangeKind.RESULT_FILLED, 3, detail="c")
    Spot(4, mending).note(ChangeKind.BLANK_DROPPED)

    assert mending.changes == [
        Change(ChangeKind.RESULT_FILLED, "$[3]", "c"),
        Change(ChangeKind.BLANK_DROPPED, "$[4]"),
    ]


# what holds, what was sent, id
IDS: list[tuple[str, dict[str, Any], str]] = [
    ("an id", {"id": "c"}, "c"),
    ("none", {}, ""),
    ("nothing", {"id": None}, ""),
    ("a number is an id, too", {"id": 7}, "7"),
    ("a list is none", {"id": ["c"]}, ""),
]


@pytest.mark.parametrize(("native", "id"), [r[1:] for r in IDS], ids=[r[0] for r in IDS])
def test_an_id_is_read_as_it_was_sent(native: dict[str, Any], id: str) -> None:
    assert read_id(native, "id") == id


def test_the_words_of_a_missing_result_blame_nobody() -> None:
    words = UNRECORDED.lower()

    assert "no result was recorded for this call" in words
    assert not any(word in words for word in ("cancel", "abort", "interrupt", "user", "denied"))
