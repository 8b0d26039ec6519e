from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from exchanges import Clock, call, watch
from wholecall.agent.run_events import Status, ToolAbandoned, ToolEnded, TurnRetried, TurnStarted
from wholecall.dialects.provenance import rescued_id
from wholecall.errors import UpstreamError
from wholecall.events import (
    Coercion,
    Ended,
    Hint,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
    Released,
    Repair,
    Text,
    Usage,
)
from wholecall.messages import Result
from wholecall.proxy.observe.metrics import MetricsTap, Names
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    Fate,
    TapEvent,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRetried,
)

NAMES = Names(models={"gpt-x"}, tools=lambda: {"search"})
ENDED = Ended("stop", Hint.STOP, "stop", None)


# The page sorts labels by name; here they stand as they are declared.
ORDER = ("model", "tool", "protocol", "way", "outcome", "reason", "kind", "direction", "status")


def place(label: tuple[str, str]) -> int:
    return ORDER.index(label[0]) if label[0] in ORDER else len(ORDER)


def samples(tap: MetricsTap) -> dict[tuple[str, ...], float]:
    """Every sample of ours that is not 0: its name, the values of its labels, its value."""
    page = tap.metrics.render()[0].decode()
    return {
        (
            sample.name.removeprefix("wholecall_"),
            *(value for _, value in sorted(sample.labels.items(), key=place)),
        ): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("wholecall_")
        and not sample.name.endswith(("_created", "_bucket"))
        and sample.value
    }


def count(*events: TapEvent, **fields: Any) -> dict[tuple[str, ...], float]:
    tap = MetricsTap(NAMES)
    shown = watch(tap, **fields)
    for event in events:
        shown.take(event)
    found = samples(tap)
    found.pop(("active_streams", "openai-chat"))
    return found


CASES: dict[str, tuple[list[TapEvent], dict[tuple[str, ...], float]]] = {
    "text is not counted": ([Text("a")], {}),
    "a call is counted with the size of its arguments": (
        [Released(call(raw='{"a": 1}'))],
        {
            ("calls_released_total", "gpt-x"): 1,
            ("call_buffer_characters_count", "gpt-x"): 1,
            ("call_buffer_characters_sum", "gpt-x"): 8,
        },
    ),
    "a rejection is counted by its reason": (
        [Rejected(reason=Reason.TRUNCATED, detail="", raw="{")],
        {
            ("calls_rejected_total", "gpt-x", "truncated"): 1,
            ("call_buffer_characters_count", "gpt-x"): 1,
            ("call_buffer_characters_sum", "gpt-x"): 1,
        },
    ),
    "an inconsistency is counted by its kind": (
        [Inconsistent(Oddity.CALLS_WITH_OTHER_HINT)],
        {("inconsistencies_total", "gpt-x", "calls_with_other_hint"): 1},
    ),
    "a call that was written as text is counted by what became of it": (
        [
            Released(replace(call(raw="{}"), id=rescued_id())),
            Rejected(reason=Reason.WRITTEN_AS_TEXT, detail="", raw="{}"),
            Inconsistent(Oddity.CALL_QUOTED),
        ],
        {
            ("calls_released_total", "gpt-x"): 1,
            ("calls_rejected_total", "gpt-x", "written_as_text"): 1,
            ("call_buffer_characters_count", "gpt-x"): 2,
            ("call_buffer_characters_sum", "gpt-x"): 4,
            ("inconsistencies_total", "gpt-x", "call_quoted"): 1,
            ("calls_rescued_total", "gpt-x", "started"): 1,
            ("calls_rescued_total", "gpt-x", "refused"): 1,
            ("calls_rescued_total", "gpt-x", "quoted"): 1,
        },
    ),
    "the last usage of each turn counts": (
        [Usage(10, 1), Usage(None, 5), ENDED, Usage(20, None), ENDED, ENDED],
        {("tokens_total", "gpt-x", "input"): 30, ("tokens_total", "gpt-x", "output"): 5},
    ),
    "a tool of ours has a label of its own": (
        [ToolEnded(call("search"), Status.DONE, Result(()), 0.5)],
        {
            ("tool_results_total", "search", "done"): 1,
            ("tool_seconds_count", "search"): 1,
            ("tool_seconds_sum", "search"): 0.5,
        },
    ),
    "a tool that a model thought up has none": (
        [ToolEnded(call("sing"), Status.SKIPPED, Result(())), ToolAbandoned(call("sing"))],
        {
            ("tool_results_total", "other", "skipped"): 1,
            ("tool_seconds_count", "other"): 1,
            ("tools_abandoned_total", "other"): 1,
        },
    ),
    "retries that led to an answer": (
        [UpstreamRetried(0.5), UpstreamRetried(1.0), UpstreamAnswered(2.0, 2)],
        {
            ("upstream_retries_total", "gpt-x"): 2,
            ("upstream_retries_settled_total", "gpt-x", "answered"): 1,
            ("upstream_first_byte_seconds_count", "gpt-x"): 1,
            ("upstream_first_byte_seconds_sum", "gpt-x"): 2,
        },
    ),
    "retries that led to nothing": (
        [UpstreamRetried(0.5), UpstreamFailed(UpstreamError("no", status=503), 1)],
        {
            ("upstream_retries_total", "gpt-x"): 1,
            ("upstream_retries_settled_total", "gpt-x", "failed"): 1,
            ("upstream_failures_total", "gpt-x", "503"): 1,
        },
    ),
    "an upstream that fell silent": (
        [UpstreamFailed(UpstreamError("no", code="timeout"))],
        {("upstream_failures_total", "gpt-x", "timeout"): 1},
    ),
    "an upstream that did not prove who it is": (
        [UpstreamFailed(UpstreamError("no", code="certificate"))],
        {("upstream_failures_total", "gpt-x", "certificate"): 1},
    ),
    "an upstream's own code makes no label": (
        [UpstreamFailed(UpstreamError("no", code="quota-of-anna"))],
        {("upstream_failures_total", "gpt-x", "other"): 1},
    ),
    "the first byte": (
        [AnswerBegan(2.0, added=0.25)],
        {
            ("first_byte_seconds_count", "gpt-x", "gate"): 1,
            ("first_byte_seconds_sum", "gpt-x", "gate"): 2,
            ("added_seconds_count", "gpt-x", "gate"): 1,
            ("added_seconds_sum", "gpt-x", "gate"): 0.25,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_events_are_counted(case: str) -> None:
    events, expected = CASES[case]
    assert count(*events) == expected


def test_what_was_done_to_arguments_is_counted() -> None:
    repairs = (Repair("strip_fence", "", ""), Repair("trailing_comma", ",", ""))
    changed = call(repairs=repairs, coercions=(Coercion("$.a", "1", 1), Coercion("$.b", "2", 2)))
    found = count(Released(changed))
    assert found["calls_repaired_total", "gpt-x", "strip_fence"] == 1
    assert found["calls_repaired_total", "gpt-x", "trailing_comma"] == 1
    assert found["calls_coerced_total", "gpt-x"] == 1


@pytest.mark.parametrize(("fate", "outcome"), [(Fate.DONE, "done"), (Fate.GONE, "failed")])
def test_an_exchange_is_counted_when_it_is_over(fate: Fate, outcome: str) -> None:
    tap, clock = MetricsTap(NAMES), Clock()
    shown = watch(tap, clock=clock)
    assert samples(tap) == {("active_streams", "openai-chat"): 1}
    for event in (TurnStarted(1), TurnRetried(1, "empty"), TurnStarted(1)):
        shown.take(event)
    clock.now += 4
    shown.end(fate)
    assert samples(tap) == {
        ("exchanges_total", "gpt-x", "openai-chat", "gate", fate.value): 1,
        ("exchange_seconds_count", "gpt-x", "gate"): 1,
        ("exchange_seconds_sum", "gpt-x", "gate"): 4,
        ("turns_count", "gpt-x"): 1,
        ("turns_sum", "gpt-x"): 2,
        ("turn_retries_total", "gpt-x"): 1,
        ("turn_retries_settled_total", "gpt-x", outcome): 1,
    }


def test_an_answer_in_one_piece_is_no_stream() -> None:
    tap = MetricsTap(NAMES)
    shown = watch(tap, stream=False)
    assert samples(tap) == {}
    shown.end(Fate.DONE)
    assert set(samples(tap)) == {
        ("exchanges_total", "gpt-x", "openai-chat", "gate", "done"),
        ("exchange_seconds_count", "gpt-x", "gate"),
    }


def test_clients_cannot_make_series() -> None:
    tap = MetricsTap(NAMES)
    for number in range(1000):
        watch(tap, model=f"model-{number}", stream=False).end(Fate.FAILED, status=404)
    assert samples(tap)["exchanges_total", "other", "openai-chat", "gate", "failed"] == 1000
    assert len(samples(tap)) == 2


def test_without_names_everything_is_other() -> None:
    tap = MetricsTap(Names())
    watch(tap, stream=False).take(ToolEnded(call("search"), Status.DONE, Result(())))
    assert ("tool_results_total", "other", "done") in samples(tap)
