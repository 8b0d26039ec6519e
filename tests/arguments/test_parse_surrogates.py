"""Halves of surrogate pairs: joined, replaced, or too many."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.arguments.parse import HALVES, JoinedText, join_halves, replace_lone

# what holds, text, text without halves, the first that stood alone
ROWS = [
    ("a plain text stays", '{"a": "b"}', '{"a": "b"}', ""),
    ("so does one with other characters", '{"a": "é😀"}', '{"a": "é😀"}', ""),
    ("a pair of escapes stays", r"\ud83d\ude00", r"\ud83d\ude00", ""),
    ("the first half alone", r"a\ud83db", r"a\ufffdb", r"\ud83d"),
    ("the second half alone", r"\uDE00", r"\ufffd", r"\uDE00"),
    ("two first halves and a second", r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00", r"\ud83d"),
    ("two second halves", r"\ude00\ude00", r"\ufffd\ufffd", r"\ude00"),
    ("an escaped backslash begins nothing", r"\\ud83d", r"\\ud83d", ""),
    ("behind an escaped backslash", r"\\\ud83d", r"\\\ufffd", r"\ud83d"),
    ("an escape without its digits is none", r"\ud8zz \ud83d", r"\ud8zz \ufffd", r"\ud83d"),
    ("a backslash at the end", "\\ud83d\\", "\\ufffd\\", r"\ud83d"),
    ("across lines", "\\ud83d\n\\n\\ud83d", "\\ufffd\n\\n\\ufffd", r"\ud83d"),
    ("a raw pair is a character", "\ud83d\ude00", "😀", ""),
    ("a raw half alone", "a\udc80b", "a\ufffdb", r"\udc80"),
    ("a raw half and an escaped one", "\udc80\\ud83d", "\ufffd\\ufffd", r"\udc80"),
]


@pytest.mark.parametrize(("text", "whole", "lone"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_halves_are_joined_or_replaced(text: str, whole: str, *, lone: str) -> None:
    assert replace_lone(text) == JoinedText(whole, lone)


@pytest.mark.parametrize("half", ["\ud83d", r"\ud83d"])
def test_so_many_halves_are_replaced_and_no_more(half: str) -> None:
    assert replace_lone(half * HALVES) is not None
    assert replace_lone(half * (HALVES + 1)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud83d\ude00", "a😀"),
        ("\ud83d", "\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        (r"\ud83d", r"\ud83d"),
        ("é", "é"),
    ],
)
def test_in_prose_only_raw_halves_are_joined(text: str, expected: str) -> None:
    assert join_halves(text) == expected


UNITS = st.sampled_from(["\\ud83d", "\\uDE00", "\ud83d", "\ude00", "\\\\", "\\n", '\\"', "é", "x"])


@given(st.lists(UNITS))
def test_what_was_replaced_can_be_read_and_written(units: list[str]) -> None:
    whole = replace_lone(f'"{"".join(units)}"')

    assert whole is not None
    value = json.loads(whole.text)
    assert bool(whole.lone) == ("\ufffd" in value)
    assert value.encode().decode() == value
