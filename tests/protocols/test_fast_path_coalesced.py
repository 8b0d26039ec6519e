"""Neighbours that came in one read as one delta: what is joined, and that it says the same."""

import pytest

from recut import play, smooth, write
from wholecall.events import CallDelta, CallPieces, Delta, OfChoice, Reasoning, Text
from wholecall.protocols.fast_path import coalesce

A, B = CallDelta(0, "a"), CallDelta(0, "b")

ROWS: list[tuple[str, list[Delta], list[Delta]]] = [
    ("texts", [Text("a"), Text("b"), Text("c")], [Text("abc")]),
    ("reasoning", [Reasoning("a"), Reasoning("b")], [Reasoning("ab")]),
    ("pieces of one call", [A, B], [CallPieces(0, pieces=("a", "b"))]),
    ("pieces without a slot", [CallDelta(None, "a")] * 2, [CallPieces(None, pieces=("a", "a"))]),
    ("a piece alone stays what it is", [A, Text("x"), B], [A, Text("x"), B]),
    ("text and reasoning are two things", [Text("a"), Reasoning("b")], [Text("a"), Reasoning("b")]),
    ("other calls", [A, CallDelta(1, "b")], [A, CallDelta(1, "b")]),
    ("slots of other types", [A, CallDelta("0", "b")], [A, CallDelta("0", "b")]),
    ("a name", [A, CallDelta(0, "b", "find")], [A, CallDelta(0, "b", "find")]),
    ("an id", [A, CallDelta(0, "b", None, "x")], [A, CallDelta(0, "b", None, "x")]),
    ("a call that opens", [A, CallDelta(0, "b", opens=True)], [A, CallDelta(0, "b", opens=True)]),
    ("extras", [A, CallDelta(0, "b", extras={"x": 1})], [A, CallDelta(0, "b", extras={"x": 1})]),
    ("an object", [A, CallDelta(0, {"b": 1})], [A, CallDelta(0, {"b": 1})]),
    (
        "signatures",
        [Reasoning("a", {"x": 1}), Reasoning("b")],
        [Reasoning("a", {"x": 1}), Reasoning("b")],
    ),
]


@pytest.mark.parametrize(
    ("given", "joined"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_row(given: list[Delta], joined: list[Delta]) -> None:
    assert coalesce(given) == joined


def test_choices_stay_apart() -> None:
    other = OfChoice[Delta](1, Text("a"))
    assert coalesce([other, other, Text("b")]) == [other, other, Text("b")]


# How pieces that are joined could be mistaken for something else.
TURNS = [
    ("a closed object and its repeat", '0 a find {"x": | 0 - - 1} | 0 - - {"x": | 0 - - 1}'),
    ("a closed object and stray closers", '0 a find {"x": | 0 - - 1} | 0 - - } | 0 - - }'),
    ("snapshots", '0 a find {"x" | 0 - - {"x": | 0 - - {"x": 1}'),
    ("snapshots that end as pieces", '0 a find {"x": | 0 - - {"x": 1 | 0 - - }'),
    ("pieces, then all of it", '0 a find {"x": | 0 - - 1 | 0 - - {"x": 1}'),
    ("pieces, then all of it but its end", '0 a find {"x": | 0 - - [ | 0 - - 1 | 0 - - {"x": [1]}'),
    ("a placeholder first", '0 a find {} | 0 - - {"x": | 0 - - 1} | 0 - - {}'),
    ("a closer that does not fit", '0 a find {"x": | 0 - - 1 | 0 - - ] | 0 - - }'),
    ("braces in a string", '0 a find {"x": | 0 - - "} | 0 - - } | 0 - - {" | 0 - - }'),
    (
        "calls in turn",
        '0 a find {"x": | 1 b edit {"y": | 0 - - 1 | 0 - - 2 | 1 - - 3 | 0 - - } | 1 - - }',
    ),
    ("pieces of no call", '0 - - {"x" | 0 - - :1 | 0 - - }'),
]


@pytest.mark.parametrize("turn", [turn for _, turn in TURNS], ids=[says for says, _ in TURNS])
def test_joined_it_says_the_same(turn: str) -> None:
    deltas = [*write(turn), *write("hint tool_calls | end")]
    joined = coalesce(deltas)
    assert len(joined) < len(deltas)
    assert smooth(play(joined)) == smooth(play(deltas))  # type: ignore[arg-type]  # no choices here
