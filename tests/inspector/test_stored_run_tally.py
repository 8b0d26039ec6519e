"""What a run comes to."""

from __future__ import annotations

from wholecall.inspector import page_events
from wholecall.inspector.page_events import PageEvent
from wholecall.inspector.stored_run import CallTally, RunSummary


def count(*events: PageEvent) -> RunSummary:
    tally = RunSummary()
    tally.count(events)
    return tally


def test_calls_are_counted_by_turn_and_number() -> None:
    repair = page_events.PageChange(",}", "}", kind="trailing_comma")
    coercion = page_events.PageChange('"1"', "1", path="$.n")
    tally = count(
        page_events.PageTurn(1),
        page_events.PageOpened(0, name="look"),
        page_events.PageReleased(number=0, id="c1", name="look", characters=8),
        page_events.PageOpened(1),
        page_events.PageRejected(number=1, name="dig", reason="schema", characters=3),
        page_events.PageToolEnded("c1", status="done", seconds=0.5),
        page_events.PageTurn(2),
        page_events.PageReleased(
            number=0,
            id="c2",
            name="look",
            characters=9,
            repairs=(repair,),
            coercions=(coercion,),
        ),
    )
    assert list(tally.calls.values()) == [
        CallTally(turn=1, number=0, name="look", verdict="released", status="done", seconds=0.5),
        CallTally(turn=1, number=1, name="dig", verdict="rejected", reason="schema"),
        CallTally(turn=2, number=0, name="look", verdict="repaired"),
    ]
    sums = tally.sum_up()
    assert (sums.turns, sums.calls, sums.tools) == (2, 3, ("dig", "look"))
    assert sums.verdicts == {"released": 1, "rejected": 1, "repaired": 1}
    assert sums.reasons == ("schema",)


def test_a_rejection_without_a_name_leaves_the_one_that_was_told_before() -> None:
    rejected = page_events.PageRejected(number=0, reason="truncated", characters=3)
    [call] = count(page_events.PageOpened(0, name="look"), rejected).calls.values()
    assert (call.name, call.verdict) == ("look", "rejected")


def test_tokens_are_summed_over_turns_and_the_last_word_of_each_counts() -> None:
    sums = count(
        page_events.PageUsage(5),
        page_events.PageUsage(5, 2),
        page_events.PageEnded(),
        page_events.PageEnded(),
        # As Anthropic does: each part of it once.
        page_events.PageUsage(7),
        page_events.PageUsage(None, 1),
        page_events.PageEnded(),
    ).sum_up(dropped=4)
    assert (sums.input_tokens, sums.output_tokens) == (12, 3)
    assert (sums.turns, sums.dropped) == (1, 4)


def test_a_call_that_only_repeats_another_is_none() -> None:
    opened = page_events.PageOpened(0, name="look")
    assert (
        count(opened, page_events.PageRepeated(0, of=3), page_events.PageRepeated(9, of=3)).calls
        == {}
    )


def test_oddities_and_faults_are_told() -> None:
    tally = count(
        page_events.PageOdd("id_missing"),
        page_events.PageOdd("id_missing"),
        page_events.PageFault("protocol"),
        page_events.PageToolEnded("unknown", status="done", seconds=1.0),
        page_events.PageText(0, "nothing to count"),
        page_events.PageOver(fate="failed", status=502, code="x", seconds=2.0),
    )
    sums = tally.sum_up()
    assert (sums.oddities, sums.faults) == ({"id_missing": 2}, {"protocol": 1})
