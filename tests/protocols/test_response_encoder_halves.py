r"""Pieces of text that were cut between the halves of a character."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.arguments.parse import HALVES, join_halves, replace_lone
from wholecall.errors import ProtocolError
from wholecall.protocols.response_encoder import EscapedHalves, Halves

RAW: list[tuple[str, list[str], list[str]]] = [
    ("what is whole passes as it is", ["a", "", "é😀"], ["a", "", "é😀", ""]),
    ("a first half waits for the second", ["a\ud83d", "\ude00b"], ["a", "\ud83d\ude00b", ""]),
    ("over an empty piece as well", ["\ud83d", "", "\ude00"], ["", "", "\ud83d\ude00", ""]),
    ("one that stays alone is told", ["a\ud83d"], ["a", "\ufffd"]),
    ("a second half waits for nothing", ["\ude00", "a"], ["\ude00", "a", ""]),
    ("of two first halves the last waits", ["\ud83d\ud83d", "x"], ["\ud83d", "\ud83dx", ""]),
]


@pytest.mark.parametrize(("says", "pieces", "expected"), RAW)
def test_text(says: str, pieces: list[str], *, expected: list[str]) -> None:
    halves = Halves()
    assert [*map(halves.take, pieces), halves.rest()] == expected, says
    assert halves.rest() == ""


ESCAPED: list[tuple[str, list[str], list[str]]] = [
    ("what is whole passes as it is", ['{"a', r'": "\n', 'é"}'], ['{"a', r'": "\n', 'é"}', "}"]),
    ("a pair that was cut", [r"x\ud83d", r"\ude00y"], ["x", r"\ud83d\ude00y", "}"]),
    ("a pair that was cut in its second half", [r"\ud83d\u", "de00"], ["", r"\ud83d\ude00", "}"]),
    ("a raw pair that was cut", ["x\ud83d", "\ude00"], ["x", "😀", "}"]),
    ("a raw half behind an escape", ["\\n\ud83d", "\ude00"], [r"\n", "😀", "}"]),
    ("an escape that was cut", ["a\\", "n", r"\u00", "e9"], ["a", r"\n", "", r"\u00e9", "}"]),
    ("a first half and something else", [r"\ud83d", "x"], ["", r"\ufffdx", "}"]),
    ("a first half and another escape", [r"\ud83d", "\\", "n"], ["", "", r"\ufffd\n", "}"]),
    (
        "a first half and another one",
        [r"\ud83d", r"\ud83d\ude00"],
        ["", r"\ufffd\ud83d\ude00", "}"],
    ),
    ("a first half at the end", [r"x\ud83d"], ["x", r"\ufffd}"]),
    ("a second half alone", [r"\ude00", "x"], [r"\ufffd", "x", "}"]),
    ("a raw half and an escaped one", ["\ud83d", r"\ude00"], ["", "\ufffd\\ufffd", "}"]),
    ("an escaped backslash opens nothing", ["\\\\", "ud83d"], ["\\\\", "ud83d", "}"]),
    ("but a third one does", ["\\\\\\", "ud83d", "x"], ["\\\\", "", r"\ufffdx", "}"]),
    ("an escape that is none", [r"\uzz", "x"], [r"\uzz", "x", "}"]),
]


@pytest.mark.parametrize(("says", "pieces", "expected"), ESCAPED)
def test_json(says: str, pieces: list[str], *, expected: list[str]) -> None:
    assert [*map(EscapedHalves().take, [*pieces, "}"])] == expected, says


UNITS = [
    "\\ud83d",
    "\\uDE00",
    "\ud83d",
    "\ude00",
    "\\\\",
    "\\n",
    '\\"',
    "\\",
    "u",
    "d83d",
    "é",
    "x",
]


@given(st.lists(st.sampled_from(UNITS), max_size=12), st.randoms(use_true_random=False))
def test_how_it_was_cut_changes_nothing(units: list[str], random: Random) -> None:
    text = "".join(units)
    cuts = sorted(random.randint(0, len(text)) for _ in range(4))
    pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    raw, escaped = Halves(), EscapedHalves()
    said = "".join([*map(raw.take, pieces), raw.rest()])
    assert join_halves(said) == join_halves(text)
    shown = [*map(escaped.take, pieces), escaped.take("}")]
    whole = replace_lone(text + "}")
    assert whole is not None
    assert "".join(shown) == whole.text
    assert all(piece.encode() == piece.encode("utf-8", "replace") for piece in shown)


def test_a_piece_of_nothing_but_halves_is_refused() -> None:
    with pytest.raises(ProtocolError, match="garbled"):
        EscapedHalves().take("\ud83d" * (HALVES + 2))
