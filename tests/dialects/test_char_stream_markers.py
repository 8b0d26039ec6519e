"""Literals that are looked for together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.dialects.char_stream import Markers

MARKS = st.lists(st.text("ab<", min_size=1, max_size=6), min_size=1, max_size=12)


# what holds, the marks, the text, the mark that is found and its place
ROWS = [
    ("the first one", ["b", "c"], "aacab", (2, "c")),
    ("the longest at a place", ["<a", "<ab", "<abc"], "x<abd", (1, "<ab")),
    ("one that begins another, which does not go on", ["<ab", "<abcd"], "<abce", (0, "<ab")),
    ("marks of a pattern's own characters", ["(.*)", "[x]", "a|b"], "..a|b", (2, "a|b")),
    ("none", ["<a"], "<b", None),
    ("no marks at all", [], "<b", None),
]


@pytest.mark.parametrize(
    ("words", "text", "found"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_mark_is_found(words: list[str], text: str, *, found: tuple[int, str] | None) -> None:
    match = Markers(words).search(text, 0, ended=True)
    assert (match and (match.start(), match.group())) == found


@given(MARKS, st.text("ab<c", max_size=30))
def test_the_longest_of_the_first_is_found_like_one_by_one(words: list[str], text: str) -> None:
    match = Markers(words).search(text, 0, ended=True)
    places = [at for at in range(len(text)) if text.startswith(tuple(words), at)]
    if not places:
        assert match is None
        return
    fitting = [word for word in words if text.startswith(word, places[0])]
    assert match is not None
    assert (match.start(), match.group()) == (places[0], max(fitting, key=len))


def test_marks_may_begin_with_each_other_on_and_on() -> None:
    marks = Markers("a" * count for count in range(1, 500))
    assert marks.match("b" + "a" * 600, 1) == "a" * 499
    assert marks.match("a" * 30 + "b", 0) == "a" * 30


def test_a_long_mark_takes_no_more_room_than_its_characters() -> None:
    marks = Markers([f"<{'a' * 100_000}>", "<b"])
    assert marks.may_begin("x<aa", 1)
    assert not marks.may_begin("x<ab", 1)
    assert marks.safe_end("xx<aaa", 0) == len("xx")
    assert marks.safe_end("xx<aab", 0) == len("xx<aab")


@given(MARKS, st.text("ab<c", max_size=8))
def test_what_may_begin_a_mark_is_found_like_one_by_one(words: list[str], text: str) -> None:
    begins = any(len(word) > len(text) and word.startswith(text) for word in words)
    assert Markers(words).may_begin(text, 0) is begins


def test_marks_are_extended_by_those_they_lack() -> None:
    marks = Markers(("<a>",))
    more = marks.extended(("<a>", "</a>"))
    assert more.match("</a>", 0) == "</a>"
    assert more.match("<a>", 0) == "<a>"
    assert marks.match("</a>", 0) == ""
    assert more.extended(("</a>", "<a>")) is more
