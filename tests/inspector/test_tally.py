"""What a run comes to."""

from __future__ import annotations

from typing import Any

from wholecall.inspector.tally import CallTally, Tally


def count(*events: dict[str, Any]) -> Tally:
    tally = Tally()
    for event in events:
        tally.take(event)
    return tally


def test_calls_are_counted_by_turn_and_number() -> None:
    tally = count(
        {"kind": "turn", "turn": 1},
        {"kind": "opened", "number": 0, "name": "look"},
        {"kind": "released", "number": 0, "id": "c1", "name": "look", "characters": 8},
        {"kind": "opened", "number": 1},
        {"kind": "rejected", "number": 1, "name": "dig", "reason": "schema", "characters": 3},
        {"kind": "tool_ended", "id": "c1", "status": "done", "seconds": 0.5},
        {"kind": "turn", "turn": 2},
        {
            "kind": "released",
            "number": 0,
            "id": "c2",
            "name": "look",
            "characters": 9,
            "repairs": [{"kind": "trailing_comma"}],
            "coercions": [{}],
        },
    )
    assert list(tally.calls.values()) == [
        CallTally(
            turn=1,
            number=0,
            name="look",
            verdict="released",
            characters=8,
            status="done",
            seconds=0.5,
        ),
        CallTally(turn=1, number=1, name="dig", verdict="rejected", reason="schema", characters=3),
        CallTally(
            turn=2,
            number=0,
            name="look",
            verdict="repaired",
            repairs=("trailing_comma",),
            coerced=True,
            characters=9,
        ),
    ]
    summary = tally.summarise()
    assert (summary["turns"], summary["calls"]) == (2, 3)
    assert summary["tools"] == ["dig", "look"]
    assert summary["verdicts"] == {"released": 1, "rejected": 1, "repaired": 1}
    assert summary["reasons"] == ["schema"]


def test_tokens_are_summed_over_turns_and_the_last_word_of_each_counts() -> None:
    tally = count(
        {"kind": "usage", "input": 5},
        {"kind": "usage", "input": 5, "output": 2},
        {"kind": "ended"},
        {"kind": "ended"},
        # As Anthropic does: each part of it once.
        {"kind": "usage", "input": 7},
        {"kind": "usage", "input": None, "output": 1},
        {"kind": "ended"},
    )
    summary = tally.summarise()
    assert (summary["input_tokens"], summary["output_tokens"]) == (12, 3)
    assert summary["turns"] == 1


def test_a_call_that_only_repeats_another_is_none() -> None:
    tally = count(
        {"kind": "opened", "number": 0, "name": "look"},
        {"kind": "repeated", "number": 0, "of": 3},
        {"kind": "repeated", "number": 9, "of": 3},
    )
    assert tally.calls == {}


def test_oddities_faults_and_the_end_are_told() -> None:
    tally = count(
        {"kind": "odd", "oddity": "id_missing"},
        {"kind": "odd", "oddity": "id_missing"},
        {"kind": "fault", "fault": "protocol"},
        {"kind": "tool_ended", "id": "unknown", "status": "done", "seconds": 1.0},
        {"kind": "text", "text": "nothing to count"},
        {"kind": "over", "fate": "failed", "status": 502, "code": "x", "seconds": 2.0, "n": 9},
    )
    summary = tally.summarise()
    assert summary["oddities"] == {"id_missing": 2}
    assert summary["faults"] == {"protocol": 1}
    assert (summary["fate"], summary["status"], summary["code"]) == ("failed", 502, "x")
    assert "n" not in summary
