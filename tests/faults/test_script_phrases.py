"""The phrases that scenarios are made of."""

from __future__ import annotations

import json

import pytest

from wholecall.faults.script import (
    MAIL,
    Begin,
    Grow,
    Say,
    Seal,
    Step,
    address,
    call,
    cut_call,
    open_call,
    split,
    write,
)


def joined(steps: tuple[Step, ...]) -> str:
    return "".join(step.arguments for step in steps if isinstance(step, Grow))


@pytest.mark.parametrize("text", ["", "a", "abc", "abcd", "abcdefghi"])
@pytest.mark.parametrize("pieces", [1, 4, 7])
def test_the_pieces_of_a_text_are_the_text(text: str, pieces: int) -> None:
    cut = split(text, pieces)
    assert "".join(cut) == text
    assert len(cut) <= pieces
    assert all(cut)


def test_a_call_begins_grows_and_is_sealed() -> None:
    steps = call(MAIL, 2)
    assert steps[0] == Begin(call=2, name="send_email")
    assert steps[-1] == Seal(call=2)
    assert json.loads(joined(steps)) == MAIL.arguments
    assert open_call(MAIL, 2) == steps[:-1]


def test_a_cut_call_ends_behind_the_text() -> None:
    assert joined(cut_call(MAIL, "Dinner")) == write(MAIL)[: write(MAIL).index("Dinner") + 6]


def test_an_address_is_put_on_every_piece_and_an_id_on_the_first() -> None:
    steps = address((*call(MAIL), Say("so")), index=7, id="x")
    assert steps[0] == Begin(name="send_email", index=7, id="x")
    assert {step.index for step in steps if isinstance(step, Grow)} == {7}
    assert {step.id for step in steps if isinstance(step, Grow)} == {None}
    assert steps[-2:] == (Seal(), Say("so"))
