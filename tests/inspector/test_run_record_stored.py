"""What is kept of a run, and what is made of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from inspector.recorded import (
    CALL,
    STORY,
    TELLING,
    end,
    kept,
    record,
    rejected,
    released,
    show,
    told,
)
from wholecall.agent.budget import Stop
from wholecall.agent.run_events import RunEnded, Status, ToolEnded, TurnStarted
from wholecall.events import (
    Coercion,
    Ended,
    Evidence,
    Hint,
    Inconsistent,
    Oddity,
    Proved,
    Reason,
    Rejected,
    Repair,
    Usage,
)
from wholecall.inspector.run_record import (
    StoredRun,
    digest,
    join_batches,
    read_runs,
    read_summary,
    write_run,
)
from wholecall.messages import Result

EVENTS = [
    Proved(0, Evidence.CLOSED | Evidence.SEALED),
    Usage(None, 10**22),
    Ended("stop", Hint.STOP, "stop", None),
    released(
        arguments={"n": 12345678901234567890},
        repairs=(Repair("trailing_comma", ",}", "}"),),
        coercions=(Coercion("$.n", "1", 1),),
        dropped=("more",),
    ),
    rejected("dig", "schema"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_the_same_in_json_as_before(event: object) -> None:
    [shown] = show(event)
    batch = write_run(StoredRun([{"began": 1.0}, shown]))
    [run] = read_runs(batch.content)
    assert run.events[1] == shown


def test_every_event_of_a_run_names_its_type() -> None:
    assert [event["type"] for event in show(*EVENTS)] == [type(event).__name__ for event in EVENTS]
    assert len({kind.__name__ for kind in TELLING}) == len(TELLING)


def test_of_a_run_it_is_counted_what_filters_and_figures_go_by() -> None:
    refused = Rejected(number=1, id="c2", name="dig", reason=Reason.SCHEMA, detail="no", raw="{}")
    odd = Inconsistent(Oddity.ID_MISSING, "no id", 1)
    made = record([*STORY, refused, odd, odd, end("failed", "bad")], key="k1")
    line, calls, oddities = digest(read_runs(made.keep().content)[0])
    assert line[:-1] == (made.id, "k1", made.about.head["began"], "m", "failed", "", "")
    head, sums, over = json.loads(str(line[-1]))
    assert [head, over] == [told(made)[0], told(made)[-1]]
    assert (sums["tools"], sums["reasons"]) == (["dig", "look"], ["schema"])
    assert list(calls) == [
        (1, 0, "look", "released", "", "", None),
        (1, 1, "dig", "rejected", "schema", "", None),
    ]
    assert list(oddities) == [("id_missing", 2)]


def test_the_line_of_a_run_says_how_it_began_and_ended() -> None:
    batch = kept("a", over=end("failed", code="bad_call"))
    *_, fate, code, stop, summary = digest(read_runs(batch.content)[0]).line
    assert (code, fate, stop) == ("bad_call", "failed", "")
    fields = read_summary(str(summary))
    assert (fields["id"], fields["code"], fields["turns"]) == ("a", "bad_call", 1)
    assert not {"type", "n", "at"} & set(fields)


def test_the_line_of_a_run_says_what_was_asked_and_what_was_not_done() -> None:
    asked = [
        {"role": "system", "text": "Be brief."},
        {"role": "user", "text": "Hello."},
        {"role": "assistant", "text": "Hello!"},
        {"role": "user", "text": "How is it\n  in Rome?"},
    ]
    again = [{"role": "user", "text": "Correct the call."}]
    skipped = ToolEnded(CALL, Status.SKIPPED, Result(()))
    done = ToolEnded(replace(CALL, id="c0"), Status.DONE, Result(()))
    story = [released(), released(number=1), skipped, done, RunEnded(Stop.IDENTICAL)]
    run = read_runs(kept(events=story).content)[0]
    events = [dict(event) for event in run.events]
    told = [{"type": "UpstreamAsked", "messages": each} for each in (asked, again)]
    fields = read_summary(str(digest(StoredRun([events[0], *told, *events[1:]])).line[-1]))
    assert fields["question"] == "How is it in Rome?"
    assert (fields["stop"], fields["statuses"]) == ("identical", {"skipped": 1})


@pytest.mark.parametrize(
    ("messages", "question"),
    [
        (None, ""),  # bodies are not kept
        ([], ""),
        ([{"role": "user"}], ""),
        ([{"role": "user", "text": "word " * 500}], ("word " * 500)[:160]),
    ],
)
def test_a_question_is_shown_as_far_as_it_is_known_and_fits(
    messages: object, question: str
) -> None:
    head, over = read_runs(kept().content)[0].events
    asked = {"type": "UpstreamAsked"} | ({} if messages is None else {"messages": messages})
    fields = read_summary(str(digest(StoredRun([head, asked, over])).line[-1]))
    assert fields.get("question", "") == question


def test_times_are_told_without_digits_that_say_nothing() -> None:
    made = record()
    made.take_all([102.8502812939987052, TurnStarted(1)])
    assert [event["at"] for event in told(made)] == [0.0, 2.8503]


def test_a_batch_is_as_old_as_its_youngest_run() -> None:
    batch = join_batches([kept(began=began) for began in (5.0, 9.0, 7.0)])
    assert (batch.began, batch.runs) == (9.0, 3)
    assert [run.head["began"] for run in read_runs(batch.content)] == [5.0, 9.0, 7.0]


def test_events_that_were_left_out_are_told() -> None:
    run = read_runs(kept().content)[0]
    run.dropped = 7
    assert read_summary(str(digest(run).line[-1]))["dropped"] == 7
