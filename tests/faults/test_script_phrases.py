"""The phrases that scenarios are made of."""

from __future__ import annotations

import json

import pytest

from wholecall.arguments.validate import admit
from wholecall.events import Start
from wholecall.faults.script import (
    MAIL,
    PROTOCOLS,
    READ_ONLY,
    TOOLS,
    Begin,
    Grow,
    Say,
    Seal,
    Step,
    address,
    call,
    cut_call,
    definitions,
    open_call,
    split,
    write,
)
from wholecall.messages import read_offer


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


# ── The four tools, in the form of each protocol ────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_definition_says_what_the_tool_is(protocol: str) -> None:
    offer = read_offer(definitions(protocol))
    assert [(tool.name, tool.parameters, tool.description) for tool in offer.values()] == [
        (tool.name, tool.parameters, tool.description) for tool in TOOLS
    ]


def test_the_tools_may_be_offered() -> None:
    assert not admit(TOOLS)


def test_only_what_reads_may_start_early() -> None:
    assert {"get_weather", "list_items"} == READ_ONLY
    assert {tool.name for tool in TOOLS if tool.start is Start.CONFIRMED} == {
        "send_email",
        "write_file",
    }
