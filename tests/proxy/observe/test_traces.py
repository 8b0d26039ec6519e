from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, StatusCode, TraceFlags

from exchanges import Recorder, call, watch
from wholecall.agent.run_events import Status, ToolEnded, ToolStarted, TurnRetried
from wholecall.errors import UpstreamError
from wholecall.events import (
    Ended,
    Hint,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
    Released,
    Text,
    Usage,
)
from wholecall.messages import (
    CallResult,
    Media,
    Message,
    ModelOptions,
    OutputSchema,
    PastCall,
    Request,
    Result,
    Role,
)
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    Fate,
    TapEvent,
    UpstreamAnswered,
    UpstreamAsked,
    UpstreamFailed,
    UpstreamRetried,
)
from wholecall.proxy.observe.traces import CONTENT, TraceTap, find_trace_tap, make_trace_tap

STOP = Ended("stop", Hint.STOP, "stop", None)


@dataclass
class Drawn(NonRecordingSpan):
    """A span that can be looked at."""

    name: str
    kind: SpanKind
    parent: trace.Span
    attributes: dict[str, Any]
    number: int
    events: list[tuple[str, Any]] = field(default_factory=list)
    status: StatusCode = StatusCode.UNSET
    ends: int = 0

    def __post_init__(self) -> None:
        super().__init__(SpanContext(1, self.number, is_remote=False, trace_flags=TraceFlags(1)))

    def set_attribute(self, key: str, value: Any) -> None:
        assert not self.ends, "a span that is over does not change"
        self.attributes[key] = value

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:  # noqa: ARG002, PLR0917 - the interface
        assert not self.ends, "a span that is over does not change"
        self.events.append((name, attributes))

    def set_status(self, status: Any, description: str | None = None) -> None:  # noqa: ARG002 - the interface
        self.status = status

    def end(self, end_time: int | None = None) -> None:  # noqa: ARG002 - the interface
        self.ends += 1


class Paper(trace.TracerProvider, trace.NoOpTracer):
    """Whatever is drawn, in the order in which it was begun."""

    def __init__(self) -> None:
        self.spans: list[Drawn] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, context: Any = None, *rest: Any, **given: Any) -> trace.Span:  # noqa: ARG002 - what is drawn is given by name
        parent = trace.get_current_span(context)
        kind = given.get("kind", SpanKind.INTERNAL)
        number = len(self.spans) + 1
        span = Drawn(name, kind, parent, dict(given["attributes"]), number)
        self.spans.append(span)
        return span


def draw(*events: TapEvent, fate: Fate = Fate.DONE, **end: Any) -> list[Drawn]:
    paper = Paper()
    shown = watch(make_trace_tap(paper))
    for event in events:
        shown.take(event)
    shown.end(fate, **end)
    assert [span.ends for span in paper.spans] == [1] * len(paper.spans)
    return paper.spans


def test_an_exchange_is_a_span_of_a_server() -> None:
    [root] = draw(AnswerBegan(1.0, added=0.25))
    assert (root.name, root.kind) == ("POST /v1/chat/completions", SpanKind.SERVER)
    assert root.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/chat/completions",
        "http.response.status_code": 200,
        "wholecall.request.id": "req_1",
        "wholecall.way": "gate",
        "wholecall.key.id": "key_1",
        "wholecall.added_seconds": 0.25,
    }
    assert root.status is StatusCode.UNSET


def test_each_question_to_a_model_is_a_span_of_a_client() -> None:
    root, first, second = draw(
        UpstreamAsked(),
        UpstreamRetried(0.5),
        UpstreamAnswered(1.5, 1),
        Text("hello"),
        Usage(10, None),
        Usage(None, 5),
        Rejected(reason=Reason.TRUNCATED, detail=""),
        Inconsistent(Oddity.HINT_MISSING),
        STOP,
        UpstreamAsked(),
        STOP,
    )
    assert (first.name, first.kind, first.parent) == ("chat gpt-x-2026", SpanKind.CLIENT, root)
    assert first.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x-2026",
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": 1.5,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    assert first.events == [
        ("wholecall.upstream.retried", {"delay": 0.5}),
        ("wholecall.call.rejected", {"reason": "truncated"}),
        ("wholecall.inconsistent", {"oddity": "hint_missing"}),
    ]
    assert "gen_ai.usage.input_tokens" not in second.attributes


def test_tokens_of_caches_and_reasoning_are_counted_apart() -> None:
    native = {
        "input_tokens": 10,
        "output_tokens": 7,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 4},
    }
    _, chat = draw(UpstreamAsked(), Usage(10, 7, native), STOP)
    counted = {name: value for name, value in chat.attributes.items() if "usage" in name}
    assert counted == {
        "gen_ai.usage.input_tokens": 130,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "gen_ai.usage.cache_write.input_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 4,
    }


REQUEST = Request(
    model="m",
    messages=(
        Message(Role.USER, (Text("Weather? My key is sk-abcdefghijklmnopqrstuvwx."),)),
        Message(Role.ASSISTANT, (PastCall(id="a", name="f", arguments={"x": 1}),)),
        Message(Role.TOOL, (CallResult(call_id="a", result=Result((Text("sun"),))),)),
        Message(Role.USER, (Media(kind="image", url="https://x.example"),)),
    ),
    max_tokens=5,
    temperature=0.5,
    stop=("x",),
    output=OutputSchema(schema={}),
    options=ModelOptions(effort="low"),
)


def test_a_question_says_how_it_wants_to_be_answered() -> None:
    _, chat = draw(UpstreamAsked(REQUEST), STOP)
    said = {name: value for name, value in chat.attributes.items() if ".request." in name}
    assert said == {
        "gen_ai.request.model": "gpt-x-2026",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 5,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stop_sequences": ["x"],
        "gen_ai.request.reasoning.level": "low",
    }
    assert chat.attributes["gen_ai.output.type"] == "json"
    assert not [name for name in chat.attributes if "messages" in name]


def test_a_model_whose_tools_run_here_is_an_agent() -> None:
    paper = Paper()
    shown = watch(TraceTap(paper), way="run")
    shown.take(UpstreamAsked())
    shown.take(STOP)
    shown.end(Fate.FAILED, status=502, code="run_failed")
    root, agent, chat = paper.spans
    assert (agent.name, agent.kind, agent.parent) == (
        "invoke_agent gpt-x",
        SpanKind.INTERNAL,
        root,
    )
    assert agent.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "gpt-x",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x-2026",
        "error.type": "run_failed",
    }
    assert chat.parent is agent
    assert [span.ends for span in paper.spans] == [1, 1, 1]


def test_messages_and_arguments_are_shown_to_those_who_want_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CONTENT, "SPAN_ONLY")
    made = call("search", arguments={"q": "x"})
    _, first, second, tool = draw(
        UpstreamAsked(REQUEST),
        Text("Let me "),
        Text("see."),
        Released(made),
        Ended("tool_calls", Hint.TOOL_CALLS, None, None),
        UpstreamAsked(),
        STOP,
        ToolStarted(made),
        ToolEnded(made, Status.DONE, Result((Text("found"),))),
        ToolEnded(call("never", id="call_3"), Status.SKIPPED, Result(())),
    )
    asked = json.loads(first.attributes["gen_ai.input.messages"])
    assert "sk-abc" not in str(asked[0])
    assert asked[1:] == [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "a", "name": "f", "arguments": {"x": 1}}],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "a", "response": "sun"}],
        },
        {"role": "user", "parts": []},
    ]
    [said] = json.loads(first.attributes["gen_ai.output.messages"])
    assert said == {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "Let me see."},
            {"type": "tool_call", "id": "call_1", "name": "search", "arguments": {"q": "x"}},
        ],
        "finish_reason": "tool_calls",
    }
    assert "gen_ai.input.messages" not in second.attributes
    assert tool.attributes["gen_ai.tool.call.arguments"] == '{"q":"x"}'
    assert tool.attributes["gen_ai.tool.call.result"] == '"found"'


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UpstreamError("no", status=503, code="overloaded"), "503"),
        (UpstreamError("no", code="timeout"), "timeout"),
        (UpstreamError("no"), "_OTHER"),
    ],
)
def test_an_upstream_that_fails(error: UpstreamError, told: str) -> None:
    _, chat = draw(UpstreamAsked(), UpstreamFailed(error))
    assert (chat.attributes["error.type"], chat.status) == (told, StatusCode.ERROR)


def test_an_answer_that_was_cut() -> None:
    root, chat = draw(
        UpstreamAsked(),
        Ended(None, None, None, "stream_dropped"),
        TurnRetried(1, "the answer broke off"),
    )
    assert (chat.attributes["error.type"], chat.status) == ("stream_dropped", StatusCode.ERROR)
    assert "gen_ai.response.finish_reasons" not in chat.attributes
    assert root.events == [("wholecall.turn.retried", {"turn": 1})]


def test_a_question_that_is_asked_again_has_a_span_of_its_own() -> None:
    assert len(draw(UpstreamAsked(), UpstreamAsked())) == 3


def test_what_runs_here_is_a_span() -> None:
    search, sing = call("search", id="call_1"), call("sing", id="call_2")
    root, first, second = draw(
        ToolStarted(search),
        ToolStarted(sing),
        ToolStarted(sing, attempt=2),
        ToolEnded(sing, Status.FAILED, Result(()), error=KeyError("text that was said")),
        ToolEnded(search, Status.DONE, Result(())),
        ToolEnded(call("never", id="call_3"), Status.SKIPPED, Result(())),
    )
    assert (first.name, first.kind, first.parent) == (
        "execute_tool search",
        SpanKind.INTERNAL,
        root,
    )
    assert first.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.type": "function",
    }
    assert first.status is StatusCode.UNSET
    assert second.events == [("wholecall.tool.retried", {"attempt": 2})]
    assert (second.attributes["error.type"], second.status) == ("KeyError", StatusCode.ERROR)


def test_a_tool_that_took_too_long() -> None:
    _, tool = draw(ToolStarted(call()), ToolEnded(call(), Status.TIMED_OUT, Result(())))
    assert tool.attributes["error.type"] == "timed_out"


def test_what_is_still_open_ends_with_the_exchange() -> None:
    assert len(draw(UpstreamAsked(), ToolStarted(call()), fate=Fate.GONE, status=499)) == 3


@pytest.mark.parametrize(
    ("end", "told"),
    [((502, "connection"), "connection"), ((500, ""), "500"), ((400, "invalid_value"), None)],
)
def test_only_failures_of_the_server_are_its_errors(end: tuple[int, str], told: str | None) -> None:
    status, code = end
    [root] = draw(fate=Fate.FAILED, status=status, code=code)
    assert root.attributes["http.response.status_code"] == status
    assert root.attributes.get("error.type") == told
    assert (root.status is StatusCode.ERROR) == (told is not None)


@pytest.mark.parametrize(
    ("upstream", "provider"), [("anthropic", "anthropic"), ("gemini", "gcp.gemini")]
)
def test_the_provider_is_known_by_its_protocol(upstream: str, provider: str) -> None:
    paper = Paper()
    watch(TraceTap(paper), upstream=upstream).take(UpstreamAsked())
    assert paper.spans[-1].attributes["gen_ai.provider.name"] == provider


def test_a_clients_trace_goes_on_here() -> None:
    paper = Paper()
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    watch(TraceTap(paper), trace_headers={"traceparent": header})
    parent = paper.spans[0].parent.get_span_context()
    assert f"{parent.trace_id:032x}-{parent.span_id:016x}" in header


def test_as_long_as_nobody_listens_there_is_no_tap() -> None:
    assert find_trace_tap() is None


LISTENING = """
from opentelemetry import trace
from wholecall.proxy.observe.traces import TraceTap, find_trace_tap
trace.set_tracer_provider(trace.NoOpTracerProvider())
assert isinstance(find_trace_tap(), TraceTap)
"""


def test_whoever_starts_it_decides_that_somebody_listens() -> None:
    # A provider is set once in the life of a process.
    subprocess.run([sys.executable, "-c", LISTENING], timeout=60, check=True)


def test_without_the_extra_there_is_no_tap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert find_trace_tap() is None


def test_spans_stand_beside_other_taps() -> None:
    paper, other = Paper(), Recorder((Text,))
    watch(TraceTap(paper), other).take(Text("a"))
    assert other.seen == [Text("a")]


# ── Metrics ─────────────────────────────────────────────────────────────────────────


class Column(metrics.NoOpHistogram):
    def __init__(self, name: str, *, unit: str, buckets: Sequence[float]) -> None:
        super().__init__(name, unit)
        self.unit = unit
        self.buckets = buckets
        self.recorded: list[tuple[float, dict[str, Any]]] = []

    def record(self, amount: float, attributes: Any = None, context: Any = None) -> None:  # noqa: ARG002, PLR0917 - the interface
        self.recorded.append((amount, dict(attributes)))


class Ledger(metrics.NoOpMeterProvider, metrics.NoOpMeter):
    """Whatever is recorded, by the names of the instruments."""

    def __init__(self) -> None:
        metrics.NoOpMeter.__init__(self, "any")
        self.columns: dict[str, Column] = {}

    def get_meter(self, *_: Any, **__: Any) -> metrics.Meter:
        return self

    def create_histogram(self, name: str, *_: Any, **given: Any) -> metrics.Histogram:
        buckets = given["explicit_bucket_boundaries_advisory"]
        self.columns[name] = Column(name, unit=given["unit"], buckets=buckets)
        return self.columns[name]


def measure(*events: TapEvent, **exchange: Any) -> dict[str, Column]:
    ledger = Ledger()
    shown = watch(make_trace_tap(Paper(), meter_provider=ledger), **exchange)
    for event in events:
        shown.take(event)
    shown.end(Fate.DONE)
    return ledger.columns


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
OPERATION, TOKENS = "gen_ai.client.operation.duration", "gen_ai.client.token.usage"


def test_each_answer_has_a_duration_and_the_tokens_that_were_told_last() -> None:
    columns = measure(
        UpstreamAsked(), Usage(10, None), Usage(12, 5), STOP, UpstreamAsked(), Usage(1, None), STOP
    )
    recorded = columns[OPERATION].recorded
    assert [labels.keys() for _, labels in recorded] == [{*CHAT, "gen_ai.request.model"}] * 2
    assert all(seconds >= 0 and labels.items() >= CHAT.items() for seconds, labels in recorded)
    told = [(count, labels["gen_ai.token.type"]) for count, labels in columns[TOKENS].recorded]
    assert told == [(12, "input"), (5, "output"), (1, "input")]
    assert (columns[OPERATION].unit, columns[TOKENS].unit) == ("s", "{token}")
    assert columns[OPERATION].buckets[:2] == (0.01, 0.02)
    assert columns[OPERATION].buckets[-1] == pytest.approx(81.92)
    assert columns[TOKENS].buckets[-1] == 67_108_864


def test_an_answer_that_failed_says_why() -> None:
    failed = UpstreamFailed(UpstreamError("no", status=503, code="overloaded"))
    columns = measure(UpstreamAsked(), failed, UpstreamAsked(), STOP)
    errors = [labels.get("error.type") for _, labels in columns[OPERATION].recorded]
    assert errors == ["503", None]
    assert columns[TOKENS].recorded == []


def test_each_tool_has_a_duration() -> None:
    one, other = call("look", id="c1"), call("write", id="c2")
    columns = measure(
        UpstreamAsked(),
        STOP,
        ToolStarted(one),
        ToolStarted(other),
        ToolEnded(one, Status.DONE, Result(()), 1.5),
        ToolEnded(other, Status.FAILED, Result(()), 2.5, error=ValueError("no")),
        way="run",
    )
    agent = {"gen_ai.agent.name": "gpt-x"}
    [(seconds, labels)] = columns["gen_ai.invoke_agent.duration"].recorded
    assert (seconds >= 0, labels) == (True, agent)
    assert columns["gen_ai.invoke_agent.inference_calls"].recorded == [(1, agent)]
    assert columns["gen_ai.invoke_agent.tool_calls"].recorded == [(2, agent)]
    assert columns["gen_ai.invoke_agent.duration"].buckets[-1] == pytest.approx(409.6)
    assert [*columns["gen_ai.invoke_agent.tool_calls"].buckets] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert columns["gen_ai.execute_tool.duration"].recorded == [
        (1.5, {"gen_ai.tool.name": "look"}),
        (2.5, {"gen_ai.tool.name": "write", "error.type": "ValueError"}),
    ]


def test_a_run_that_failed_says_why() -> None:
    ledger = Ledger()
    shown = watch(make_trace_tap(Paper(), meter_provider=ledger), way="run")
    shown.end(Fate.FAILED, status=502, code="bad_call")
    [(_, labels)] = ledger.columns["gen_ai.invoke_agent.duration"].recorded
    assert labels == {"gen_ai.agent.name": "gpt-x", "error.type": "bad_call"}


@pytest.mark.parametrize("stream", [True, False])
def test_only_a_stream_has_a_first_chunk(*, stream: bool) -> None:
    columns = measure(UpstreamAsked(), UpstreamAnswered(0.25), STOP, stream=stream)
    recorded = columns["gen_ai.client.operation.time_to_first_chunk"].recorded
    assert [seconds for seconds, _ in recorded] == ([0.25] if stream else [])
    assert all(labels.items() >= CHAT.items() for _, labels in recorded)


def test_the_gate_is_no_agent() -> None:
    columns = measure(UpstreamAsked(), STOP)
    assert columns["gen_ai.invoke_agent.duration"].recorded == []
