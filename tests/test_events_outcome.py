"""The events of a turn, folded into what it delivered."""

import pytest

from wholecall.events import (
    FIGURES,
    Call,
    Ended,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    OfChoice,
    Opened,
    Outcome,
    Proved,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
    Usage,
    collect,
    merge_usage,
)


def call(number: int) -> Call:
    id = f"call_{number}"
    return Call(id=id, name="f", arguments={}, raw="{}", evidence=Evidence.CONFIRMED, number=number)


def rejected(number: int) -> Rejected:
    return Rejected(reason=Reason.TRUNCATED, detail="cut", name="f", number=number)


ODD = Inconsistent(Oddity.HINT_MISSING)

# what holds, the events in, the outcome
ROWS: list[tuple[str, list[Event], Outcome]] = [
    ("nothing", [], Outcome()),
    ("text is joined", [Text("a"), Text(" b")], Outcome(text="a b")),
    (
        "reasoning is joined, apart",
        [Reasoning("a"), Text("t"), Reasoning("b")],
        Outcome(text="t", reasoning="ab"),
    ),
    (
        "what the provider wants back is kept",
        [Reasoning("", {"signature": "s"}), Reasoning("a"), ProviderBlock({"type": "search"})],
        Outcome(
            reasoning="a",
            reasoning_extras=({"signature": "s"},),
            provider_blocks=({"type": "search"},),
        ),
    ),
    (
        "calls stand in call order",
        [Released(call(1)), Released(call(0))],
        Outcome(calls=(call(0), call(1))),
    ),
    ("so do rejections", [rejected(2), rejected(1)], Outcome(rejected=(rejected(1), rejected(2)))),
    ("oddities are kept in their order", [ODD, ODD], Outcome(inconsistencies=(ODD, ODD))),
    (
        "the end says how it ended",
        [Ended("tool_calls", Hint.STOP, "end_turn", "protocol")],
        Outcome(finish_reason="tool_calls", native_finish_reason="end_turn", error="protocol"),
    ),
    (
        "progress leaves no trace",
        [
            Opened(0, "a", "f"),
            Grew(0, "{"),
            Proved(0, Evidence.CLOSED),
            Repeated(1, 0),
            HintGiven(Hint.STOP, "stop"),
            Fault(FaultKind.PROTOCOL, "odd"),
        ],
        Outcome(),
    ),
    ("usage is kept", [Usage(1, 2, {"a": 1})], Outcome(usage=Usage(1, 2, {"a": 1}))),
    (
        "later figures win",
        [Usage(1, 2, {"a": 1, "b": 1}), Usage(3, 0, {"b": 2})],
        Outcome(usage=Usage(3, 0, {"a": 1, "b": 2})),
    ),
    ("Anthropic sends the input first", [Usage(5), Usage(None, 7)], Outcome(usage=Usage(5, 7))),
    (
        "other choices stand apart",
        [Text("a"), OfChoice(1, Text("b")), OfChoice(2, rejected(0)), OfChoice(1, Text("c"))],
        Outcome(text="a", choices={1: Outcome(text="bc"), 2: Outcome(rejected=(rejected(0),))}),
    ),
]


@pytest.mark.parametrize(
    ("events", "outcome"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_events_are_folded(events: list[Event], outcome: Outcome) -> None:
    assert collect(events) == outcome
    assert collect(iter(events)) == outcome


def test_later_figures_win_and_what_they_leave_out_is_kept() -> None:
    first = Usage(5, 1, {"input_tokens": 5, "output_tokens": 1})
    merged = merge_usage(first, Usage(None, 9, {"output_tokens": 9}))
    assert merge_usage(None, first) is first
    assert merged == Usage(5, 9, {"input_tokens": 5, "output_tokens": 9})
    assert merge_usage(merged, Usage(7, None)).input_tokens == 7


def test_figures_that_come_under_ever_new_names_are_not_all_kept() -> None:
    merged = Usage(1)
    for number in range(FIGURES):
        merged = merge_usage(merged, Usage(native={f"n{number}": number}))
    assert len(merged.native) == FIGURES
    assert merge_usage(merged, Usage(native={"one more": 1})) == Usage(1, native={"one more": 1})
