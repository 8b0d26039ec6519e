"""Text that is wrapped while it comes, on a screen that is written to as a terminal is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from recut import every_cutting
from wholecall.cli.chat_view import LEAST_WIDTH, WordWrapper

WIDTH = 20


def show(*pieces: str, width: int = WIDTH) -> list[str]:
    """The lines that stand on a screen after these pieces."""
    wrapping, lines = WordWrapper(), [""]
    for piece in pieces:
        for back, text in wrapping.feed(piece, width=width):
            left = lines[-1]
            assert back <= cell_len(left), "nothing is taken back beyond the line"
            while cell_len(lines[-1]) > cell_len(left) - back:
                lines[-1] = lines[-1][:-1]
            first, *others = text.split("\n")
            lines[-1] += first
            lines += others
    return lines


ROWS = {
    "a text that fits stays as it is": ("one two\nthree", ["one two", "three"]),
    "a word at the edge moves to the next line": (
        "The weather in Oslo is snow",
        ["The weather in Oslo", "is snow"],
    ),
    "a word that would fill the last column moves, too": (
        "abcdefghi abcdefghij",
        ["abcdefghi", "abcdefghij"],
    ),
    "blanks at the edge begin no line": (
        "abcdefghi abcdefghi   next",
        ["abcdefghi abcdefghi", "next"],
    ),
    "a line that ends at the edge leaves no empty one behind": (
        "abcdefghi abcdefghi \nnext",
        ["abcdefghi abcdefghi", "next"],
    ),
    "an empty line stays one": ("one\n\ntwo", ["one", "", "two"]),
    "a word longer than a line begins in its own and is left to the terminal": (
        "see https://example.org/a/long/address now",
        ["see", "https://example.org/a/long/address", "now"],
    ),
    "wide characters take two columns and break anywhere": (
        "天気は雪で気温は三度です",
        ["天気は雪で気温は三", "度です"],
    ),
    "a narrow word behind wide ones may begin the next line": (
        "天気は雪で気温は三abc",
        ["天気は雪で気温は三", "abc"],
    ),
    "what has no width takes no room": ("e\u0301" * 19 + " x", ["e\u0301" * 19, "x"]),
    "code in a fence is not touched": (
        "so:\n```py\nprint('a long line', 'of code')\n```\nand words after the code",
        ["so:", "```py", "print('a long line', 'of code')", "```", "and words after the", "code"],
    ),
    "another fence does not close it": (
        "~~~\n```\nx = 'a long line of code'\n~~~\nand words after the code",
        ["~~~", "```", "x = 'a long line of code'", "~~~", "and words after the", "code"],
    ),
    "nor is an indented line": (
        "    x = 'a long line of code'\n  - a point that is too long",
        ["    x = 'a long line of code'", "  - a point that is", "too long"],
    ),
    "ticks in the midst of a line are no fence": (
        "see ```x``` and so on\nand words after the code",
        ["see ```x``` and so", "on", "and words after the", "code"],
    ),
}


@pytest.mark.parametrize(("text", "lines"), ROWS.values(), ids=ROWS.keys())
def test_a_text_is_wrapped_however_it_is_cut(text: str, lines: list[str]) -> None:
    for pieces in every_cutting(text):
        # What stands behind the last word of a line is not seen.
        assert [line.rstrip() for line in show(*pieces)] == lines


@pytest.mark.parametrize("width", [0, 1, LEAST_WIDTH - 1])
def test_where_the_width_is_not_known_or_tiny_nothing_is_wrapped(width: int) -> None:
    assert show("words " * 50, width=width) == ["words " * 50]


def test_of_a_word_longer_than_a_line_only_so_much_is_remembered() -> None:
    wrapping = WordWrapper()
    for _ in range(100):
        list(wrapping.feed("x" * 50, width=WIDTH))
    assert len(wrapping._word) < WIDTH


def test_words_are_there_before_they_end() -> None:
    assert show("It sno") == ["It sno"]


def test_a_terminal_may_become_narrower_in_the_midst_of_a_line() -> None:
    wrapping = WordWrapper()
    list(wrapping.feed("one two three four", width=80))
    assert list(wrapping.feed("teen", width=12)) == [(0, ""), (4, "\nfourteen")]


WORDS = st.text("ab 漢\n", max_size=80)


@given(st.lists(WORDS, max_size=6), st.integers(LEAST_WIDTH, 30))
def test_no_line_is_too_long_and_nothing_is_lost(pieces: list[str], width: int) -> None:
    lines = show(*pieces, width=width)
    assert lines == show("".join(pieces), width=width)
    assert "".join("".join(lines).split()) == "".join("".join(pieces).split())
    for line in lines:
        if " " in line.strip() and not line.startswith("    "):
            assert cell_len(line.rstrip()) < width
