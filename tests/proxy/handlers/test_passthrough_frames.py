"""Streams that are cut anywhere are sent on in whole frames."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.proxy.handlers.passthrough import MOST_HELD, Frames

# what came, and what is sent on after each
ROWS: dict[str, list[tuple[bytes, bytes]]] = {
    "whole frames": [(b"a\n\n", b"a\n\n"), (b"b\n\nc\n\n", b"b\n\nc\n\n")],
    "a frame in pieces": [(b"a", b""), (b"b\n", b""), (b"\n", b"ab\n\n")],
    "a frame and a half": [(b"a\n\nb", b"a\n\n"), (b"\n\n", b"b\n\n")],
    "line ends of two bytes": [
        (b"a\r\n\r", b""),
        (b"\nb", b"a\r\n\r\n"),
        (b"\r\n\r\n", b"b\r\n\r\n"),
    ],
    "line ends of one": [(b"a\r", b""), (b"\rb", b"a\r\r")],
}


@pytest.mark.parametrize("steps", ROWS.values(), ids=ROWS)
def test_row(steps: list[tuple[bytes, bytes]]) -> None:
    frames = Frames()
    assert [frames.cut(came) for came, _ in steps] == [sent for _, sent in steps]
    assert not frames.is_within


@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"\r\n", b"data: x\n\n", b"\r", b"b\r\n\r\n"]), max_size=12
    ),
    st.randoms(use_true_random=False),
)
def test_nothing_is_lost_and_nothing_is_cut(pieces: list[bytes], dice: random.Random) -> None:
    stream = b"".join(pieces)
    places = sorted(dice.sample(range(len(stream) + 1), dice.randint(0, min(4, len(stream)))))
    frames = Frames()
    sent = [frames.cut(stream[start:end]) for start, end in pairwise([0, *places, len(stream)])]
    rest = frames.rest()
    assert b"".join(sent) + rest == stream
    for so_far in accumulate(sent):
        assert not so_far or so_far.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))


def test_a_frame_without_an_end_is_sent_in_pieces_and_known_to_be_open() -> None:
    frames, pieces = Frames(), (b"x" * MOST_HELD, b"y", b"z\n", b"\nq")
    told = [(len(frames.cut(came)), frames.is_within) for came in pieces]
    assert told == [(0, False), (MOST_HELD + 1, True), (0, True), (3, False)]
    assert frames.rest() == b"q"


def test_each_byte_of_a_long_frame_is_copied_once_or_twice() -> None:
    """The work is counted: a piece is looked at with a few bytes before it, whatever is held."""
    frames = Frames()
    for _ in range(1000):
        frames.cut(b"x" * 100)
        assert len(frames._last) <= 3
    assert len(frames._held) == 1000
