"""A tap that counts, for Prometheus.

The number of series is bounded: models and tools have a label of their own only if they are
served here, and whatever else clients and models think up is counted as `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from wholecall.core.outcome import merge_usage
from wholecall.core.values import (
    Ended,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
    Released,
    Usage,
)
from wholecall.dialects.provenance import is_rescued
from wholecall.errors import UpstreamError
from wholecall.proxy.figures import Figures
from wholecall.proxy.taps import (
    AnswerBegan,
    Exchange,
    ExchangeEnded,
    Fate,
    Reading,
    Reads,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRetried,
)
from wholecall.runs.events import ToolAbandoned, ToolEnded, TurnRetried, TurnStarted

OTHER = "other"
"""The label of what is not served here."""
_NOBODY = frozenset[str]()
_OWN_CODES = frozenset({"timeout", "connection", "certificate", "limit"})


def _nobody() -> Container[str]:
    return _NOBODY


class Names(NamedTuple):
    """The label names, computed anew for each exchange: settings may change."""

    models: Callable[[], Container[str]] = _nobody
    tools: Callable[[], Container[str]] = _nobody


class MetricsTap:
    """Counts what happens to exchanges."""

    def __init__(self, names: Names, figures: Figures | None = None) -> None:
        self._names = names
        self.figures = figures or Figures()

    def open(self, exchange: Exchange) -> Reading:
        """Count an exchange."""
        model = exchange.model if exchange.model in self._names.models() else OTHER
        return _Counting(self.figures, exchange, model=model, tools=self._names.tools), _READS


class _Counting:
    """One exchange."""

    def __init__(
        self,
        figures: Figures,
        exchange: Exchange,
        *,
        model: str,
        tools: Callable[[], Container[str]],
    ) -> None:
        self._figures = figures
        self._exchange = exchange
        self._model = model
        self._tools = tools
        self._turns = 0
        self._retried = False
        self._usage: Usage | None = None
        if exchange.stream:
            figures.shift("active_streams", 1, exchange.protocol)

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _release(self, event: Released) -> None:
        figures, call = self._figures, event.call
        figures.count("calls_released", self._model)
        figures.observe("call_buffer_characters", len(call.raw), self._model)
        if is_rescued(call.id):
            figures.count("calls_rescued", self._model, "started")
        for repair in call.repairs:
            figures.count("calls_repaired", self._model, repair.kind)
        if call.coercions:
            figures.count("calls_coerced", self._model)

    def _reject(self, rejected: Rejected) -> None:
        self._figures.count("calls_rejected", self._model, rejected.reason.value)
        self._figures.observe("call_buffer_characters", len(rejected.raw), self._model)
        if rejected.reason is Reason.WRITTEN_AS_TEXT:
            self._figures.count("calls_rescued", self._model, "refused")

    def _wonder(self, event: Inconsistent) -> None:
        self._figures.count("inconsistencies", self._model, event.oddity.value)
        if event.oddity is Oddity.CALL_QUOTED:
            self._figures.count("calls_rescued", self._model, "quoted")

    # ── Turns and tools ─────────────────────────────────────────────────────────────

    def _start_turn(self, _: TurnStarted) -> None:
        self._turns += 1

    def _retry_turn(self, _: TurnRetried) -> None:
        self._retried = True
        self._figures.count("turn_retries", self._model)

    def _take_usage(self, usage: Usage) -> None:
        """Take usage, which is reported repeatedly, and by some in parts, during a turn; the last
        value counts."""
        self._usage = merge_usage(self._usage, usage)

    def _end_turn(self, _: Ended) -> None:
        usage, self._usage = self._usage or Usage(), None
        if usage.input_tokens:
            self._figures.count("tokens", self._model, "input", by=usage.input_tokens)
        if usage.output_tokens:
            self._figures.count("tokens", self._model, "output", by=usage.output_tokens)

    def _end_tool(self, event: ToolEnded) -> None:
        tool = self._label(event.call.name)
        self._figures.count("tool_results", tool, event.status.value)
        self._figures.observe("tool_seconds", event.seconds, tool)

    def _abandon_tool(self, event: ToolAbandoned) -> None:
        self._figures.count("tools_abandoned", self._label(event.call.name))

    def _label(self, tool: str) -> str:
        return tool if tool in self._tools() else OTHER

    # ── The upstream ────────────────────────────────────────────────────────────────

    def _retry_upstream(self, _: UpstreamRetried) -> None:
        self._figures.count("upstream_retries", self._model)

    def _answer(self, event: UpstreamAnswered) -> None:
        self._figures.observe("upstream_first_byte_seconds", event.seconds, self._model)
        self._settle("answered", retries=event.retries)

    def _fail(self, event: UpstreamFailed) -> None:
        self._figures.count("upstream_failures", self._model, _why(event.error))
        self._settle("failed", retries=event.retries)

    def _settle(self, outcome: str, *, retries: int) -> None:
        if retries:
            self._figures.count("upstream_retries_settled", self._model, outcome)

    # ── The client ──────────────────────────────────────────────────────────────────

    def _begin(self, event: AnswerBegan) -> None:
        way = self._exchange.way
        self._figures.observe("first_byte_seconds", event.seconds, self._model, way)
        self._figures.observe("added_seconds", event.added, self._model, way)

    def _end(self, event: ExchangeEnded) -> None:
        figures, exchange, model = self._figures, self._exchange, self._model
        if exchange.stream:
            figures.shift("active_streams", -1, exchange.protocol)
        figures.count("exchanges", model, exchange.protocol, exchange.way, event.fate.value)
        figures.observe("exchange_seconds", event.seconds, model, exchange.way)
        if self._turns:
            figures.observe("turns", self._turns, model)
        if self._retried:
            outcome = "done" if event.fate is Fate.DONE else "failed"
            figures.count("turn_retries_settled", model, outcome)


_READS = Reads(
    {
        Released: _Counting._release,
        Rejected: _Counting._reject,
        Inconsistent: _Counting._wonder,
        Usage: _Counting._take_usage,
        Ended: _Counting._end_turn,
        TurnStarted: _Counting._start_turn,
        TurnRetried: _Counting._retry_turn,
        ToolEnded: _Counting._end_tool,
        ToolAbandoned: _Counting._abandon_tool,
        UpstreamRetried: _Counting._retry_upstream,
        UpstreamAnswered: _Counting._answer,
        UpstreamFailed: _Counting._fail,
        AnswerBegan: _Counting._begin,
        ExchangeEnded: _Counting._end,
    }
)


def _why(error: UpstreamError) -> str:
    """An upstream's own codes are without number; its statuses are not."""
    if error.status is not None:
        return str(error.status)
    return error.code if error.code in _OWN_CODES else OTHER
