"""OpenTelemetry spans and metrics, by its conventions for generative AI.

    POST /v1/chat/completions        SERVER, continues the client's trace
    └── invoke_agent gpt-x           INTERNAL, only where tools run here
        ├── chat gpt-x               CLIENT, one for each time that a model is asked
        ├── execute_tool get_weather INTERNAL, one for each call that runs here
        └── chat gpt-x

Spans hold no content, unless the operator wants it (`CONTENT`). The operator decides where spans
go: `opentelemetry-instrument wholecall serve`. Without an exporter, the tap is left out.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from wholecall.agent.run_events import Status, ToolEnded, ToolStarted, TurnRetried
from wholecall.assembly.json_scanner import write_json
from wholecall.events import Ended, Inconsistent, Rejected, Released, Text, Usage
from wholecall.messages import CallResult, Message, PastCall, Request
from wholecall.protocols.registry import NAMES, find_protocol
from wholecall.protocols.response_base import read_figures
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    Exchange,
    ExchangeEnded,
    Fate,
    Reading,
    Reads,
    UpstreamAnswered,
    UpstreamAsked,
    UpstreamFailed,
    UpstreamRetried,
)
from wholecall.upstreams.secrets import hide_keys

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

_SCOPE = "wholecall"
# Who an upstream is, as far as its protocol tells.
_PROVIDERS = {name: find_protocol(name).provider or name for name in NAMES}
_SERVER_FAULT = 500
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which OpenTelemetry's instrumentations are allowed to write messages down."""
_CAPTURES = frozenset({"true", "span_only", "span_and_event"})
_MOST_CONTENT = 32_768
"""Characters of an attribute with content; more is cut."""
_SECONDS = tuple(0.01 * 2**power for power in range(14))
_TOKENS = tuple(4**power for power in range(14))
_LONG_SECONDS = tuple(0.1 * 2**power for power in range(13))
_CALLS = tuple(2**power for power in range(8))
"""The limits of the buckets, as the conventions have them."""
_HISTOGRAMS = (
    ("client.operation.duration", "s", _SECONDS),
    ("client.operation.time_to_first_chunk", "s", _SECONDS),
    ("client.token.usage", "{token}", _TOKENS),
    ("execute_tool.duration", "s", _SECONDS),
    ("invoke_agent.duration", "s", _LONG_SECONDS),
    ("invoke_agent.inference_calls", "{inference_call}", _CALLS),
    ("invoke_agent.tool_calls", "{tool_call}", _CALLS),
)
_NO_ERROR = frozenset({Status.DONE, Status.SKIPPED, Status.DENIED})


def find_trace_tap() -> TraceTap | None:
    """Return the tap, if OpenTelemetry is installed and has an exporter."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else make_trace_tap(provider)


def make_trace_tap(
    provider: TracerProvider, *, meter_provider: MeterProvider | None = None
) -> TraceTap:
    """A tap whose spans go to this provider, and whose metrics to the other."""
    content = os.environ.get(CONTENT, "").lower() in _CAPTURES
    figures = GenAiMetrics(meter_provider)
    return TraceTap(provider.get_tracer(_SCOPE), content=content, figures=figures)


class GenAiMetrics:
    """The histograms of answers, tools and agents."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        """Without a provider it is the one of the process."""
        from opentelemetry import metrics  # noqa: PLC0415 - an extra

        meter = (provider or metrics.get_meter_provider()).get_meter(_SCOPE)
        self._histograms = {
            name: meter.create_histogram(
                f"gen_ai.{name}", unit=unit, explicit_bucket_boundaries_advisory=buckets
            )
            for name, unit, buckets in _HISTOGRAMS
        }

    def record(self, name: str, figure: float, *, labels: Mapping[str, str]) -> None:
        """Add a figure to a histogram."""
        self._histograms[name].record(figure, labels)


class TraceTap:
    """Draws exchanges as spans."""

    def __init__(
        self, tracer: Tracer, *, content: bool = False, figures: GenAiMetrics | None = None
    ) -> None:
        from opentelemetry import propagate  # noqa: PLC0415 - an extra

        self._tracer = tracer
        self._content = content
        self._figures = figures or GenAiMetrics()
        self._extract: Callable[[Mapping[str, str]], Context] = propagate.extract

    def open(self, exchange: Exchange) -> Reading:
        """Begin the spans of an exchange."""
        parent = self._extract(exchange.trace_headers)
        kind, reads = (_Contents, _READS_CONTENT) if self._content else (_Spans, _READS)
        return kind(self._tracer, exchange, parent=parent, figures=self._figures), reads


class _Spans:
    """One exchange."""

    def __init__(
        self, tracer: Tracer, exchange: Exchange, *, parent: Context, figures: GenAiMetrics
    ) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra

        self._figures = figures
        self._began_at = self._asked_at = time.perf_counter()
        self._counts = Counter({"inference_calls": 0, "tool_calls": 0})
        """Requests to the model, and tools that began."""
        self._tokens: dict[str, int] = {}
        self._error: dict[str, str] = {}

        self._tracer = tracer
        self._trace = trace
        self._exchange = exchange
        self._root = tracer.start_span(
            f"POST {exchange.path}",
            context=parent,
            kind=trace.SpanKind.SERVER,
            attributes={
                "http.request.method": "POST",
                "http.route": exchange.path,
                "wholecall.request.id": exchange.request_id,
                "wholecall.way": exchange.way,
                "wholecall.key.id": exchange.key_id,
            },
        )
        self._inside = trace.set_span_in_context(self._root)
        self._agent = self._start_agent() if exchange.way == "run" else None
        if self._agent is not None:
            self._inside = trace.set_span_in_context(self._agent)
        self._chat: Span | None = None
        self._tools: dict[str, Span] = {}

    def _start_agent(self) -> Span:
        """The model with its tools is an agent, under the name that clients use."""
        exchange = self._exchange
        return self._tracer.start_span(
            f"invoke_agent {exchange.model}",
            context=self._inside,
            attributes={
                **self._served_by,
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": exchange.model,
            },
        )

    # ── The model ───────────────────────────────────────────────────────────────────

    def _ask(self, event: UpstreamAsked) -> None:
        self._close_chat()
        exchange = self._exchange
        self._asked_at = time.perf_counter()
        self._counts["inference_calls"] += 1
        self._chat = self._tracer.start_span(
            f"chat {exchange.upstream_model}",
            context=self._inside,
            kind=self._trace.SpanKind.CLIENT,
            attributes={
                **self._chat_labels,
                "gen_ai.request.stream": exchange.stream,
                **_describe(event.request),
            },
        )

    def _answer(self, event: UpstreamAnswered) -> None:
        if self._exchange.stream:
            self._place.set_attribute("gen_ai.response.time_to_first_chunk", event.seconds)
            name = "client.operation.time_to_first_chunk"
            self._figures.record(name, event.seconds, labels=self._chat_labels)

    def _retry(self, event: UpstreamRetried) -> None:
        self._place.add_event("wholecall.upstream.retried", {"delay": event.delay})

    def _fail(self, event: UpstreamFailed) -> None:
        status = event.error.status
        self._blame(self._place, str(status) if status is not None else event.error.code)
        self._close_chat()

    def _take_usage(self, usage: Usage) -> None:
        figures = read_figures(usage)
        if usage.input_tokens is not None:
            self._place.set_attribute("gen_ai.usage.input_tokens", figures.input)
            self._tokens["input"] = figures.input
        if usage.output_tokens is not None:
            self._place.set_attribute("gen_ai.usage.output_tokens", figures.output)
            self._tokens["output"] = figures.output
        parts = {
            "gen_ai.usage.cache_read.input_tokens": figures.cached,
            "gen_ai.usage.cache_write.input_tokens": figures.stored,
            "gen_ai.usage.reasoning.output_tokens": figures.reasoning,
        }
        for name, count in parts.items():
            if count:
                self._place.set_attribute(name, count)

    def _reject(self, rejected: Rejected) -> None:
        self._place.add_event("wholecall.call.rejected", {"reason": rejected.reason.value})

    def _wonder(self, event: Inconsistent) -> None:
        self._place.add_event("wholecall.inconsistent", {"oddity": event.oddity.value})

    def _end_turn(self, event: Ended) -> None:
        if event.finish_reason is not None:
            self._place.set_attribute("gen_ai.response.finish_reasons", [event.finish_reason])
        if event.error is not None:
            self._blame(self._place, event.error)
        self._close_chat()

    def _retry_turn(self, event: TurnRetried) -> None:
        self._close_chat()
        self._root.add_event("wholecall.turn.retried", {"turn": event.turn})

    # ── Tools ───────────────────────────────────────────────────────────────────────

    def _start_tool(self, event: ToolStarted) -> None:
        call = event.call
        if call.id in self._tools:  # a further attempt of the same call
            self._tools[call.id].add_event("wholecall.tool.retried", {"attempt": event.attempt})
            return
        self._counts["tool_calls"] += 1
        self._tools[call.id] = self._tracer.start_span(
            f"execute_tool {call.name}",
            context=self._inside,
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.id": call.id,
                "gen_ai.tool.type": "function",
            },
        )

    def _end_tool(self, event: ToolEnded) -> None:
        span = self._tools.pop(event.call.id, None)
        if span is None:  # it was never begun
            return
        labels = {"gen_ai.tool.name": event.call.name}
        if event.status not in _NO_ERROR:
            error = event.error
            word = event.status.value if error is None else type(error).__qualname__
            self._blame(span, word)
            labels["error.type"] = word
        self._figures.record("execute_tool.duration", event.seconds, labels=labels)
        span.end()

    # ── The client ──────────────────────────────────────────────────────────────────

    def _begin(self, event: AnswerBegan) -> None:
        self._root.set_attribute("wholecall.added_seconds", event.added)

    def _end(self, event: ExchangeEnded) -> None:
        self._close_chat()
        for span in self._tools.values():  # it runs on, but is not awaited here
            span.end()
        self._tools.clear()
        self._root.set_attribute("http.response.status_code", event.status)
        # By the conventions for servers a client's mistake is not an error of the server.
        failed = event.fate is Fate.FAILED and event.status >= _SERVER_FAULT
        error = (event.code or str(event.status)) if failed else ""
        if error:
            self._blame(self._root, error)
        if self._agent is not None:
            self._end_agent(self._agent, error)
        self._root.end()

    def _end_agent(self, agent: Span, error: str) -> None:
        labels = {"gen_ai.agent.name": self._exchange.model}
        seconds = time.perf_counter() - self._began_at
        failure = {"error.type": error} if error else {}
        self._figures.record("invoke_agent.duration", seconds, labels={**labels, **failure})
        for name, count in self._counts.items():
            self._figures.record(f"invoke_agent.{name}", count, labels=labels)
        if error:
            self._blame(agent, error)
        agent.end()

    @property
    def _served_by(self) -> dict[str, str]:
        exchange = self._exchange
        return {
            "gen_ai.provider.name": _PROVIDERS.get(exchange.upstream, exchange.upstream),
            "gen_ai.request.model": exchange.upstream_model,
        }

    @property
    def _chat_labels(self) -> dict[str, str]:
        return {**self._served_by, "gen_ai.operation.name": "chat"}

    @property
    def _place(self) -> Span:
        """Return the current span: of an answer, or of the exchange between two answers."""
        return self._chat or self._root

    def _close_chat(self) -> None:
        if self._chat is not None:
            self._chat.end()
            self._chat = None
            self._measure()

    def _measure(self) -> None:
        """Record the figures of an answer that is over."""
        labels, figures = self._chat_labels, self._figures
        seconds = time.perf_counter() - self._asked_at
        figures.record("client.operation.duration", seconds, labels={**labels, **self._error})
        for kind, count in self._tokens.items():
            figures.record(
                "client.token.usage", count, labels={**labels, "gen_ai.token.type": kind}
            )
        self._tokens, self._error = {}, {}

    def _blame(self, span: Span, error: str) -> None:
        if span is self._chat:
            self._error = {"error.type": error or "_OTHER"}
        span.set_attribute("error.type", error or "_OTHER")
        span.set_status(self._trace.StatusCode.ERROR)


def _describe(request: Request | None) -> dict[str, Any]:
    """The attributes of a request that say how to answer."""
    if request is None:
        return {}
    said: dict[str, Any] = {
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.top_p": request.top_p,
        "gen_ai.request.stop_sequences": list(request.stop) or None,
        "gen_ai.request.reasoning.level": request.options.level or None,
        "gen_ai.output.type": "json" if request.output is not None else None,
    }
    return {name: value for name, value in said.items() if value is not None}


# ── Content ─────────────────────────────────────────────────────────────────────────


class _Contents(_Spans):
    """One exchange with what was said."""

    def __init__(
        self, tracer: Tracer, exchange: Exchange, *, parent: Context, figures: GenAiMetrics
    ) -> None:
        super().__init__(tracer, exchange, parent=parent, figures=figures)
        self._said: list[dict[str, Any]] = []
        self._texts: list[str] = []

    def _ask(self, event: UpstreamAsked) -> None:
        super()._ask(event)
        self._said, self._texts = [], []
        if event.request is not None:
            messages = [_write_message(message) for message in event.request.messages]
            self._write("gen_ai.input.messages", messages)

    def _say(self, event: Text) -> None:
        self._texts.append(event.text)

    def _end_text(self) -> None:
        if self._texts:
            self._said.append({"type": "text", "content": "".join(self._texts)})
        self._texts = []

    def _release(self, event: Released) -> None:
        self._end_text()
        call = event.call
        self._said.append(_write_call(call.id, call.name, arguments=call.arguments))

    def _end_turn(self, event: Ended) -> None:
        self._end_text()
        message = {"role": "assistant", "parts": self._said, "finish_reason": event.finish_reason}
        self._write("gen_ai.output.messages", [message])
        super()._end_turn(event)

    def _start_tool(self, event: ToolStarted) -> None:
        super()._start_tool(event)
        arguments = _write_content(event.call.arguments)
        self._tools[event.call.id].set_attribute("gen_ai.tool.call.arguments", arguments)

    def _end_tool(self, event: ToolEnded) -> None:
        span = self._tools.get(event.call.id)
        if span is not None:
            result = _write_content(event.result.text)
            span.set_attribute("gen_ai.tool.call.result", result)
        super()._end_tool(event)

    def _write(self, name: str, value: Any) -> None:
        self._place.set_attribute(name, _write_content(value))


def _write_content(value: Any) -> str:
    """Content as JSON, without secrets and not longer than an exporter takes."""
    return hide_keys(write_json(value)[:_MOST_CONTENT])


def _write_message(message: Message) -> dict[str, Any]:
    parts = [written for part in message.parts for written in _write_part(part)]
    return {"role": message.role.value, "parts": parts}


def _write_part(part: object) -> Iterator[dict[str, Any]]:
    match part:
        case Text(text):
            yield {"type": "text", "content": text}
        case PastCall():
            yield _write_call(part.id, part.name, arguments=part.arguments)
        case CallResult():
            text = part.result.text
            yield {"type": "tool_call_response", "id": part.call_id, "response": text}


def _write_call(id: str, name: str, *, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}


_READS = Reads(
    {
        UpstreamAsked: _Spans._ask,
        UpstreamRetried: _Spans._retry,
        UpstreamAnswered: _Spans._answer,
        UpstreamFailed: _Spans._fail,
        Usage: _Spans._take_usage,
        Rejected: _Spans._reject,
        Inconsistent: _Spans._wonder,
        Ended: _Spans._end_turn,
        TurnRetried: _Spans._retry_turn,
        ToolStarted: _Spans._start_tool,
        ToolEnded: _Spans._end_tool,
        AnswerBegan: _Spans._begin,
        ExchangeEnded: _Spans._end,
    }
)
# The readers are functions of the class, so those with content have others.
_READS_CONTENT = Reads(
    {
        **_READS.by_type,
        UpstreamAsked: _Contents._ask,
        Text: _Contents._say,
        Released: _Contents._release,
        Ended: _Contents._end_turn,
        ToolStarted: _Contents._start_tool,
        ToolEnded: _Contents._end_tool,
    }
)
