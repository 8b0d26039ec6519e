"""What a run comes to."""

from __future__ import annotations

from dataclasses import replace

from inspector.recorded import CALL, end, released, show
from wholecall.agent.run_events import Status, ToolEnded, TurnStarted
from wholecall.events import (
    Coercion,
    Ended,
    Fault,
    FaultKind,
    Inconsistent,
    Oddity,
    Opened,
    Reason,
    Rejected,
    Repair,
    Repeated,
    Usage,
)
from wholecall.inspector.run_record import CallTally, RunSummary
from wholecall.messages import Result

ENDED = Ended(None, None, None, None)
GROWN = {"type": "Text", "number": 0, "text": "nothing to count"}


def count(*events: object) -> RunSummary:
    return RunSummary([*show(*events), GROWN])


def end_tool(id: str, seconds: float) -> ToolEnded:
    return ToolEnded(replace(CALL, id=id), Status.DONE, Result(), seconds)


def test_calls_are_counted_by_turn_and_number() -> None:
    repairs = (Repair("trailing_comma", ",}", "}"),)
    coercions = (Coercion("$.n", "1", 1),)
    tally = count(
        TurnStarted(1),
        Opened(0, "c0", "look"),
        released(),
        Opened(1, "", ""),
        Rejected(number=1, name="dig", reason=Reason.SCHEMA, detail="no"),
        end_tool("c0", 0.5),
        TurnStarted(2),
        released(repairs=repairs, coercions=coercions),
        Opened(1, "", "look"),
        released(number=1, coercions=coercions),
    )
    assert list(tally.calls.values()) == [
        CallTally(turn=1, number=0, name="look", verdict="released", status="done", seconds=0.5),
        CallTally(turn=1, number=1, name="dig", verdict="rejected", reason="schema"),
        CallTally(turn=2, number=0, name="look", verdict="repaired"),
        CallTally(turn=2, number=1, name="look", verdict="released"),
    ]
    sums = tally.sum_up()
    assert (sums.turns, sums.calls, sums.tools) == (2, 4, ("dig", "look"))
    assert sums.verdicts == {"released": 2, "rejected": 1, "repaired": 1}
    assert sums.reasons == ("schema",)


def test_a_rejection_without_a_name_leaves_the_one_that_was_told_before() -> None:
    rejected = Rejected(reason=Reason.TRUNCATED, detail="cut")
    [call] = count(Opened(0, "", "look"), rejected).calls.values()
    assert (call.name, call.verdict) == ("look", "rejected")


def test_tokens_are_summed_over_turns_and_the_last_word_of_each_counts() -> None:
    sums = count(
        Usage(5),
        Usage(5, 2),
        ENDED,
        ENDED,
        # As Anthropic does: each part of it once.
        Usage(7),
        Usage(None, 1),
        ENDED,
    ).sum_up(dropped=4)
    assert (sums.input_tokens, sums.output_tokens) == (12, 3)
    assert (sums.turns, sums.dropped) == (1, 4)


def test_a_call_that_only_repeats_another_is_none() -> None:
    assert count(Opened(0, "", "look"), Repeated(0, of=3), Repeated(9, of=3)).calls == {}


def test_oddities_and_faults_are_told() -> None:
    odd = Inconsistent(Oddity.ID_MISSING)
    fault = Fault(FaultKind.PROTOCOL, "bad")
    tally = count(odd, odd, fault, end_tool("unknown", 1.0), end("failed", code="x"))
    sums = tally.sum_up()
    assert (sums.oddities, sums.faults) == ({"id_missing": 2}, {"protocol": 1})
