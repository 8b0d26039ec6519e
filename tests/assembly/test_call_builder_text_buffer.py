"""A text in pieces, which are joined to blocks behind its back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wholecall.assembly import call_builder
from wholecall.assembly.call_builder import TextBuffer

MANY = 3 * call_builder._LOOSE + 5


def test_a_text_that_never_grew_is_empty() -> None:
    text = TextBuffer()
    assert (bool(text), text.is_joined, text.join(), text.fresh()) == (False, False, "", "")


def test_what_was_shown_is_shown_once() -> None:
    text = TextBuffer()
    text.append("a")
    text.append("b")
    assert text.fresh() == "ab"
    text.append("c")
    assert (text.fresh(), text.fresh(), text.join()) == ("c", "", "abc")


def test_the_last_piece_can_be_cut() -> None:
    text = TextBuffer()
    text.append("a")
    assert not text.is_joined
    text.append("b}c")
    text.last = text.last[:2]
    assert (text.last, text.join(), text.is_joined) == ("b}", "ab}", True)
    text.clear()
    assert not text


def test_a_long_text_takes_few_objects_once_it_was_shown() -> None:
    shown, kept = TextBuffer(), TextBuffer()
    for number in range(MANY):
        shown.append(str(number))
        shown.fresh()
        kept.append(str(number))
    assert len(shown._blocks) == 3
    assert len(shown._pieces) == 5
    assert len(kept._pieces) == MANY
    assert shown.join() == kept.join() == kept.fresh()
    assert shown.is_joined


@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 2)), max_size=30))
def test_it_is_the_sum_of_its_pieces(steps: list[tuple[str, int]]) -> None:
    text, said, all_of_it = TextBuffer(), "", ""
    for piece, repeated in steps:
        for _ in range(call_builder._LOOSE if repeated == 2 else 1):
            text.append(piece)
            all_of_it += piece
            if repeated:
                said += text.fresh()
    assert said + text.fresh() == text.join() == all_of_it
