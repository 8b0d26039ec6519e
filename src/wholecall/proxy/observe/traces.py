"""OpenTelemetry spans, by its conventions for generative AI.

    POST /v1/chat/completions        SERVER, continues the client's trace
    ├── chat gpt-x                   CLIENT, one for each time that a model is asked
    ├── execute_tool get_weather     INTERNAL, one for each call that runs here
    └── chat gpt-x

Spans hold no content. The operator decides where spans go: `opentelemetry-instrument wholecall
serve`. Without an exporter, the tap is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wholecall.agent.run_events import Status, ToolEnded, ToolStarted, TurnRetried
from wholecall.events import Ended, Inconsistent, Rejected, Usage
from wholecall.protocols.registry import NAMES, find_protocol
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

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

_SCOPE = "wholecall"
# Who an upstream is, as far as its protocol tells.
_PROVIDERS = {name: find_protocol(name).provider or name for name in NAMES}
_SERVER_FAULT = 500
_NO_ERROR = frozenset({Status.DONE, Status.SKIPPED, Status.DENIED})


def find_trace_tap() -> TraceTap | None:
    """Return the tap, if OpenTelemetry is installed and has an exporter."""
    try:
        from opentelemetry import trace  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, trace.ProxyTracerProvider) else make_trace_tap(provider)


def make_trace_tap(provider: TracerProvider) -> TraceTap:
    """A tap whose spans go to this provider."""
    return TraceTap(provider.get_tracer(_SCOPE))


class TraceTap:
    """Draws exchanges as spans."""

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry import propagate  # noqa: PLC0415 - an extra

        self._tracer = tracer
        self._extract: Callable[[Mapping[str, str]], Context] = propagate.extract

    def open(self, exchange: Exchange) -> Reading:
        """Begin the spans of an exchange."""
        parent = self._extract(exchange.trace_headers)
        return _Spans(self._tracer, exchange, parent=parent), _READS


class _Spans:
    """One exchange."""

    def __init__(self, tracer: Tracer, exchange: Exchange, *, parent: Context) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra

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
        self._chat: Span | None = None
        self._tools: dict[str, Span] = {}

    # ── The model ───────────────────────────────────────────────────────────────────

    def _ask(self, _: UpstreamAsked) -> None:
        self._close_chat()
        exchange = self._exchange
        self._chat = self._tracer.start_span(
            f"chat {exchange.upstream_model}",
            context=self._inside,
            kind=self._trace.SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _PROVIDERS.get(exchange.upstream, exchange.upstream),
                "gen_ai.request.model": exchange.upstream_model,
                "gen_ai.request.stream": exchange.stream,
            },
        )

    def _answer(self, event: UpstreamAnswered) -> None:
        self._place.set_attribute("gen_ai.response.time_to_first_chunk", event.seconds)

    def _retry(self, event: UpstreamRetried) -> None:
        self._place.add_event("wholecall.upstream.retried", {"delay": event.delay})

    def _fail(self, event: UpstreamFailed) -> None:
        status = event.error.status
        self._blame(self._place, str(status) if status is not None else event.error.code)
        self._close_chat()

    def _take_usage(self, usage: Usage) -> None:
        if usage.input_tokens is not None:
            self._place.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
        if usage.output_tokens is not None:
            self._place.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)

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
        if event.status not in _NO_ERROR:
            error = event.error
            self._blame(span, event.status.value if error is None else type(error).__qualname__)
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
        if event.fate is Fate.FAILED and event.status >= _SERVER_FAULT:
            self._blame(self._root, event.code or str(event.status))
        self._root.end()

    @property
    def _place(self) -> Span:
        """Return the current span: of an answer, or of the exchange between two answers."""
        return self._chat or self._root

    def _close_chat(self) -> None:
        if self._chat is not None:
            self._chat.end()
            self._chat = None

    def _blame(self, span: Span, error: str) -> None:
        span.set_attribute("error.type", error or "_OTHER")
        span.set_status(self._trace.StatusCode.ERROR)


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
