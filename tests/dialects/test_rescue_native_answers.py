"""Calls in the text of an answer whose protocol has calls of its own."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from wholecall.dialects.rescue import RescuingAssembler
from wholecall.events import (
    CallDelta,
    Delta,
    Hint,
    HintGiven,
    Outcome,
    Reason,
    Rejected,
    Terminated,
    Text,
    collect,
)
from wholecall.messages import ToolSpec

WEATHER = ToolSpec("weather", {"type": "object", "properties": {"city": {"type": "string"}}})
WRITTEN = '{"name": "weather", "arguments": {"city": "Oslo"}}'
STOP: list[Delta] = [HintGiven(Hint.STOP, "stop"), Terminated()]


def read(deltas: Iterable[Delta], tools: list[ToolSpec] | None) -> Outcome:
    assembler = RescuingAssembler(tools)
    events = [event for delta in deltas for event in assembler.feed(delta)]
    return collect(events + assembler.end())


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_call_in_the_text_is_a_call(size: int) -> None:
    pieces = [Text(WRITTEN[at : at + size]) for at in range(0, len(WRITTEN), size)]
    outcome = read([*pieces, *STOP], [WEATHER])
    assert [(call.name, call.arguments) for call in outcome.calls] == [
        ("weather", {"city": "Oslo"})
    ]
    assert (outcome.text, outcome.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize("tools", [None, [], [ToolSpec("other")]])
def test_what_nobody_offered_stays_text(tools: list[ToolSpec] | None) -> None:
    outcome = read([Text(WRITTEN), *STOP], tools)
    assert (outcome.calls, outcome.text, outcome.finish_reason) == ((), WRITTEN, "stop")


def test_a_native_call_wins_over_the_text() -> None:
    native = CallDelta(0, '{"city": "Rome"}', "weather", "call_1")
    outcome = read([Text(WRITTEN), native, *STOP], [WEATHER])
    assert [call.arguments for call in outcome.calls] == [{"city": "Rome"}]
    assert [rejected.reason for rejected in outcome.rejected] == [Reason.AMBIGUOUS]


def test_a_call_in_the_text_of_a_dropped_stream_does_not_run() -> None:
    outcome = read([Text(WRITTEN)], [WEATHER])
    assert outcome.calls == ()
    assert outcome.error == "stream_dropped"


@pytest.mark.parametrize("at", range(1, len(WRITTEN)))
def test_a_cut_call_is_never_completed(at: int) -> None:
    outcome = read([Text(WRITTEN[:at]), *STOP], [WEATHER])
    assert outcome.calls == ()
    assert all(isinstance(each, Rejected) for each in outcome.rejected)


def test_text_that_is_no_call_comes_through_byte_for_byte() -> None:
    text = 'Use `<tool_call>` like this: {"name": "weather"} and a lone <'
    assert read([Text(text), *STOP], [WEATHER]).text == text


# what may start, what runs, what is rejected, the end of the turn
RULES: list[tuple[set[str], list[str], list[Reason], str]] = [
    ({"weather"}, ["weather"], [], "tool_calls"),
    (set(), [], [Reason.WRITTEN_AS_TEXT], "stop"),
]


@pytest.mark.parametrize(("allowed", "run", "rejected", "end"), RULES)
def test_a_rule_says_what_a_call_in_a_text_may_start(
    allowed: set[str], run: list[str], *, rejected: list[Reason], end: str
) -> None:
    assembler = RescuingAssembler([WEATHER], may_start=allowed.__contains__)
    deltas: list[Delta] = [Text(WRITTEN), *STOP]
    events = [event for delta in deltas for event in assembler.feed(delta)]
    outcome = collect(events + assembler.end())
    assert [call.name for call in outcome.calls] == run
    assert [each.reason for each in outcome.rejected] == rejected
    assert (outcome.finish_reason, outcome.text) == (end, "")
    report = next(each for each in outcome.inconsistencies if each.oddity.value == "call_as_text")
    assert ("rescue: all" in report.detail) is not bool(run)


def test_native_calls_are_nobody_s_business() -> None:
    assembler = RescuingAssembler([WEATHER], may_start=lambda _: False)
    native = CallDelta(0, '{"city": "Rome"}', "weather", "call_1")
    events = [event for delta in [native, *STOP] for event in assembler.feed(delta)]
    assert len(collect(events + assembler.end()).calls) == 1
