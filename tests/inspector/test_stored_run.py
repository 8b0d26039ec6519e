"""What is kept of a run, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

from inspector.recorded import STORY, Done, kept, record, rejected, released, told
from wholecall.events import Inconsistent, Oddity, Reason, Rejected
from wholecall.inspector import page_events
from wholecall.inspector.page_events import AnyPageEvent, PageEvent
from wholecall.inspector.stored_run import (
    CallTally,
    StoredRun,
    digest,
    make_batch,
    read_runs,
    read_summary,
    tell_events,
    write_runs,
)


def _find_kinds(of: type[PageEvent] = PageEvent) -> Iterator[type[PageEvent]]:
    for kind in of.__subclasses__():
        if kind.__subclasses__():
            yield from _find_kinds(kind)
        else:
            yield kind


def test_every_kind_of_event_can_be_read_again() -> None:
    assert set(_find_kinds()) == set(get_args(AnyPageEvent))


EVENTS: list[AnyPageEvent] = [
    page_events.PageAsked(2, ("look",), ({"role": "user", "text": "hi"},)),
    page_events.PageGrew(0, "{", whole=True),
    page_events.PageProved(0, ("CLOSED",)),
    page_events.PageUsage(None, 2),
    page_events.PageEnded("stop", "stop", None),
    msgspec.structs.replace(
        released(),
        evidence=("CLOSED", "SEALED"),
        arguments='{"n": 12345678901234567890}',
        repairs=(page_events.PageChange(",}", "}", kind="trailing_comma"),),
        coercions=(page_events.PageChange('"1"', "1", path="$.n"),),
        dropped=("more",),
    ),
    msgspec.structs.replace(rejected("dig", "schema"), problems=(page_events.PageProblem("type"),)),
    page_events.PageUpstreamFailed(None, "timeout", "nothing came"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_the_same_in_json_as_before(event: AnyPageEvent) -> None:
    event.n, event.at = 3, 0.123456789
    [[again]] = [run.events for run in read_runs(write_runs([StoredRun([event])]))]
    assert type(again) is type(event)
    assert msgspec.json.encode(again) == msgspec.json.encode(event)


def test_of_a_run_it_is_counted_what_filters_and_figures_go_by() -> None:
    refused = Rejected(number=1, id="c2", name="dig", reason=Reason.SCHEMA, detail="no", raw="{}")
    odd = Inconsistent(Oddity.ID_MISSING, "no id", 1)
    made = record([*STORY, refused, odd, odd, Done("failed", "bad")], key="k1")
    line, calls, oddities = digest(read_runs(made.keep().content)[0])
    assert line[:-1] == (made.id, "k1", made.head.began, "m", "failed", "")
    head, sums, over = json.loads(line.summary)
    assert [head, over] == [told(made)[0], told(made)[-1]]
    assert (sums["tools"], sums["reasons"]) == (["dig", "look"], ["schema"])
    assert list(calls) == [
        CallTally(turn=1, number=0, name="look", verdict="released"),
        CallTally(turn=1, number=1, name="dig", verdict="rejected", reason="schema"),
    ]
    assert list(oddities) == [("id_missing", 2)]


def test_the_line_of_a_run_says_how_it_began_and_ended() -> None:
    line = digest(read_runs(kept("a", fate="failed", code="bad_call").content)[0]).line
    assert (line.code, line.fate) == ("bad_call", "failed")
    fields = read_summary(line.summary)
    assert (fields["id"], fields["code"], fields["turns"]) == ("a", "bad_call", 1)
    assert not {"kind", "n", "at"} & set(fields)


def test_times_are_told_without_digits_that_say_nothing() -> None:
    run = read_runs(kept(events=[page_events.PageTurn(1)]).content)[0]
    run.events[1].at = 2.8502812939987052
    assert [event["at"] for event in json.loads(tell_events(run))] == [0.0, 2.8503, 2.0]


def test_a_batch_is_as_old_as_its_youngest_run() -> None:
    runs = [read_runs(kept(began=began).content)[0] for began in (5.0, 9.0, 7.0)]
    assert (make_batch(runs).began, make_batch(runs).runs) == (9.0, 3)


def test_events_that_were_left_out_are_told() -> None:
    run = read_runs(kept().content)[0]
    run.dropped = 7
    assert read_summary(digest(run).line.summary)["dropped"] == 7
