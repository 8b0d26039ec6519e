"""What a run comes to."""

from __future__ import annotations

from wholecall.inspector import shown
from wholecall.inspector.shown import Shown
from wholecall.inspector.tally import CallTally, Tally


def count(*events: Shown) -> Tally:
    tally = Tally()
    tally.count(events)
    return tally


def test_calls_are_counted_by_turn_and_number() -> None:
    repair = shown.Change(",}", "}", kind="trailing_comma")
    coercion = shown.Change('"1"', "1", path="$.n")
    tally = count(
        shown.Turn(1),
        shown.Opened(0, name="look"),
        shown.Released(number=0, id="c1", name="look", characters=8),
        shown.Opened(1),
        shown.Rejected(number=1, name="dig", reason="schema", characters=3),
        shown.ToolEnded("c1", status="done", seconds=0.5),
        shown.Turn(2),
        shown.Released(
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
    rejected = shown.Rejected(number=0, reason="truncated", characters=3)
    [call] = count(shown.Opened(0, name="look"), rejected).calls.values()
    assert (call.name, call.verdict) == ("look", "rejected")


def test_tokens_are_summed_over_turns_and_the_last_word_of_each_counts() -> None:
    sums = count(
        shown.Usage(5),
        shown.Usage(5, 2),
        shown.Ended(),
        shown.Ended(),
        # As Anthropic does: each part of it once.
        shown.Usage(7),
        shown.Usage(None, 1),
        shown.Ended(),
    ).sum_up(dropped=4)
    assert (sums.input_tokens, sums.output_tokens) == (12, 3)
    assert (sums.turns, sums.dropped) == (1, 4)


def test_a_call_that_only_repeats_another_is_none() -> None:
    opened = shown.Opened(0, name="look")
    assert count(opened, shown.Repeated(0, of=3), shown.Repeated(9, of=3)).calls == {}


def test_oddities_and_faults_are_told() -> None:
    tally = count(
        shown.Odd("id_missing"),
        shown.Odd("id_missing"),
        shown.Fault("protocol"),
        shown.ToolEnded("unknown", status="done", seconds=1.0),
        shown.Text(0, "nothing to count"),
        shown.Over(fate="failed", status=502, code="x", seconds=2.0),
    )
    sums = tally.sum_up()
    assert (sums.oddities, sums.faults) == ({"id_missing": 2}, {"protocol": 1})
