"""Texts that come in pieces, without the secrets in them."""

from __future__ import annotations

import pytest

from inspector.recorded import SECRET, Hider
from wholecall.inspector.run_record import GrowingText, Piece
from wholecall.proxy.observe.redaction import Redactor


def show(pieces: list[str]) -> tuple[str, bool]:
    """What stands on the page in the end, and whether something was taken back."""
    growing = GrowingText(Hider())
    shown, taken_back = "", False
    for piece in (growing.add(text) for text in pieces):
        if piece is not None:
            shown = piece.text if piece.whole else shown + piece.text
            taken_back |= piece.whole
    end = growing.end()
    assert end.whole == taken_back
    assert end.text == shown or taken_back
    return end.text, taken_back


def test_pieces_pass_as_they_come() -> None:
    growing = GrowingText(Hider())
    assert growing.add("a") == Piece("a")
    assert growing.add("b") == Piece("b")
    assert growing.end() == Piece("ab")
    assert not growing.has_secrets


@pytest.mark.parametrize("size", [1, 2, 7, 15, 100])
def test_a_secret_is_taken_back_wherever_it_was_cut(size: int) -> None:
    text = f"the key is {SECRET}, keep it; again {SECRET}"
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert show(pieces) == ("the key is ***, keep it; again ***", True)


def test_after_a_secret_nothing_is_shown_until_the_end() -> None:
    growing = GrowingText(Hider())
    assert growing.add(f"x{SECRET}") == Piece("x***", whole=True)
    assert growing.add("y") is None
    assert growing.end() == Piece("x***y", whole=True)
    assert growing.has_secrets


def test_what_is_looked_at_again_is_bounded() -> None:
    looked: list[int] = []

    class Counting(Redactor):
        def hide(self, text: str) -> str:
            looked.append(len(text))
            return text

    growing = GrowingText(Counting())
    for _ in range(1000):
        growing.add("x" * 100)
    assert max(looked) <= 1024 + 100


@pytest.mark.parametrize("size", [1, 3, 11])
@pytest.mark.parametrize(
    "secret",
    [
        "sk-Zq81hHw0pLx5RkT2",
        "bearer   Zq81hHw0pLx5RkT2",
        "https://ada:Zq81hHw0@example.org",
        "known to us",
    ],
)
def test_secrets_of_all_forms_are_known_although_they_are_cut(secret: str, size: int) -> None:
    growing = GrowingText(Redactor(["known to us"]))
    text = f"{'word ' * 400}{secret} {'word ' * 10}"
    for start in range(0, len(text), size):
        growing.add(text[start : start + size])
    piece = growing.end()
    assert piece.whole
    assert secret not in piece.text
