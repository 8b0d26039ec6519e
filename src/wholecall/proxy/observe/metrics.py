"""Prometheus metrics: one table of series and the tap that counts."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.utils import floatToGoString

from wholecall.agent.run_events import (
    Resumed,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolRecalled,
    TurnRetried,
    TurnStarted,
)
from wholecall.dialects.provenance import RESCUED
from wholecall.errors import UpstreamError
from wholecall.events import (
    Ended,
    Inconsistent,
    Oddity,
    Reason,
    Rejected,
    Released,
    Usage,
    merge_usage,
)
from wholecall.proxy.observe.taps import (
    RUN_TAKEN_OVER,
    RUN_WAITING,
    AnswerBegan,
    Exchange,
    ExchangeEnded,
    Fate,
    Reading,
    Reads,
    RunOpened,
    UpstreamAnswered,
    UpstreamFailed,
    UpstreamRetried,
)

PREFIX = "wholecall_"
_YES = frozenset({"true", "1", "t"})
_TELLS_CREATION = os.environ.get("PROMETHEUS_DISABLE_CREATED_SERIES", "").lower() not in _YES
"""A switch of prometheus_client, as it reads it."""


class MetricFigure(NamedTuple):
    """A metric."""

    meaning: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()


class Count:
    """A counter."""

    __slots__ = ("created", "value")

    def __init__(self, created: float) -> None:
        self.created = created
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """It happened so many times more."""
        self.value += amount


class Spread:
    """A histogram."""

    __slots__ = ("_bounds", "_counts", "created", "total")

    def __init__(self, created: float, bounds: tuple[float, ...]) -> None:
        self.created = created
        self.total = 0.0
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)

    def observe(self, amount: float) -> None:
        """It was so large this time."""
        self.total += amount
        self._counts[bisect_left(self._bounds, amount)] += 1

    def buckets(self) -> list[tuple[str, float]]:
        """For each bound, how often it was not larger than that."""
        bounds = map(floatToGoString, (*self._bounds, float("inf")))
        return list(zip(bounds, accumulate(self._counts), strict=True))


class Series:
    """All counters and histograms of a process; what prometheus_client calls a collector."""

    def __init__(
        self,
        counters: Mapping[str, MetricFigure],
        histograms: Mapping[str, MetricFigure],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._counters = counters
        self._histograms = histograms
        self._clock = clock
        self._counts: dict[tuple[str, ...], Count] = {}
        self._spreads: dict[tuple[str, ...], Spread] = {}

    def find_counter(self, name: str, *labels: str) -> Count:
        """The counter of this name with these labels."""
        key = (name, *labels)
        if key not in self._counts:
            _check_labels(self._counters[name], labels)
            self._counts[key] = Count(self._clock())
        return self._counts[key]

    def find_histogram(self, name: str, *labels: str) -> Spread:
        """The histogram of this name with these labels."""
        key = (name, *labels)
        if key not in self._spreads:
            figure = self._histograms[name]
            _check_labels(figure, labels)
            self._spreads[key] = Spread(self._clock(), figure.buckets)
        return self._spreads[key]

    def collect(self) -> Iterator[Metric]:
        """Everything, in the forms of Prometheus."""
        yield from self._collect_counts()
        yield from self._collect_spreads()

    def _collect_counts(self) -> Iterator[Metric]:
        families = {
            name: CounterMetricFamily(PREFIX + name, figure.meaning, labels=figure.labels)
            for name, figure in self._counters.items()
        }
        for (name, *labels), count in self._counts.items():
            created = count.created if _TELLS_CREATION else None
            families[name].add_metric(labels, count.value, created)
        yield from families.values()

    def _collect_spreads(self) -> Iterator[Metric]:
        families = {
            name: HistogramMetricFamily(PREFIX + name, figure.meaning, labels=figure.labels)
            for name, figure in self._histograms.items()
        }
        for (name, *labels), spread in self._spreads.items():
            family = families[name]
            family.add_metric(labels, spread.buckets(), spread.total)
            if _TELLS_CREATION:
                named = dict(zip(self._histograms[name].labels, labels, strict=True))
                family.add_sample(f"{family.name}_created", named, spread.created)
        yield from families.values()


def _check_labels(figure: MetricFigure, labels: tuple[str, ...]) -> None:
    if len(labels) != len(figure.labels):
        raise ValueError(f"labels are {figure.labels!r}, and {labels!r} were given")


# The figures that Prometheus reads: one table, from which docs/metrics.md is checked as well.
#
# With several workers each has figures of its own, and a scrape reaches any of them. If
# `PROMETHEUS_MULTIPROC_DIR` names an empty folder before this module is imported, they write into
# it, and every worker tells the sum.


FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The folder with the figures of several workers."""
# From what a proxy adds to what a long answer takes.
_ADDED = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_COMMIT = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
_CHARACTERS = tuple(float(4**power) for power in range(2, 12))
_TURNS = (1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0)


COUNTERS = {
    "exchanges": MetricFigure(
        "Requests that are over; `outcome`: `done`, `failed`, `gone` (the client left), `stopped` "
        "(the proxy ended).",
        ("model", "protocol", "way", "outcome"),
    ),
    "refusals": MetricFigure(
        "Requests that were turned away before a model was asked: key, rate, host, size, path.",
        ("status", "code"),
    ),
    "calls_released": MetricFigure("Calls that were whole and right.", ("model",)),
    "calls_rejected": MetricFigure("Calls that were not, by reason.", ("model", "reason")),
    "calls_rescued": MetricFigure(
        "Calls that were written as text; `outcome`: `started`, `refused` (the setting `rescue` "
        "forbids it), `quoted` (they stay text).",
        ("model", "outcome"),
    ),
    "calls_repaired": MetricFigure(
        "Changes of arguments that cannot change their meaning, by kind.", ("model", "kind")
    ),
    "calls_coerced": MetricFigure(
        "Calls with values that were turned into the type of their schema.", ("model",)
    ),
    "inconsistencies": MetricFigure(
        "What was strange about answers that could be read, by kind.", ("model", "kind")
    ),
    "turn_retries": MetricFigure("Answers that were asked for again.", ("model",)),
    "turn_retries_settled": MetricFigure(
        "Exchanges with such answers; `outcome`: `done` or `failed` in the end.",
        ("model", "outcome"),
    ),
    "tokens": MetricFigure(
        "Tokens, as upstreams count them; `direction`: `input`, `output`.", ("model", "direction")
    ),
    "tool_results": MetricFigure(
        "Results of tools that ran here, by how they ended.", ("tool", "status")
    ),
    "tools_abandoned": MetricFigure(
        "Tools that went on although they were told to stop.", ("tool",)
    ),
    "runs": MetricFigure(
        "What happened to durable runs; `event`: `began`, `taken_over` (from a worker that died or "
        "stopped), `fenced` (another worker has it), `waiting` (for a person or a tool).",
        ("model", "event"),
    ),
    "calls_unknown": MetricFigure(
        "Calls that had begun before a crash, and whose outcome is unknown.", ("tool",)
    ),
    "upstream_failures": MetricFigure(
        "Upstreams that gave no answer; "
        "`why`: a status, `timeout`, `connection`, `certificate` or `limit`.",
        ("model", "why"),
    ),
    "upstream_retries": MetricFigure("Attempts after the first to get an answer.", ("model",)),
    "upstream_retries_settled": MetricFigure(
        "Questions with such attempts; `outcome`: `answered` or `failed` in the end.",
        ("model", "outcome"),
    ),
}
HISTOGRAMS = {
    "exchange_seconds": MetricFigure(
        "From a request to the end of its answer.", ("model", "way"), _SECONDS
    ),
    "first_byte_seconds": MetricFigure(
        "From a request to the first byte of its answer.", ("model", "way"), _SECONDS
    ),
    "added_seconds": MetricFigure(
        "What the proxy adds to the time to the first byte: before an upstream is asked, and from "
        "the beginning of its answer to ours. Calls that wait for their check are in it.",
        ("model", "way"),
        _ADDED,
    ),
    "call_buffer_characters": MetricFigure(
        "Arguments of one call, collected until it was over.", ("model",), _CHARACTERS
    ),
    "journal_commit_seconds": MetricFigure(
        "A commit to the journal of durable runs, with all that waited for it.", (), _COMMIT
    ),
    "turns": MetricFigure("Answers of the model in one exchange.", ("model",), _TURNS),
    "tool_seconds": MetricFigure("From the start of a tool to its result.", ("tool",), _SECONDS),
    "upstream_first_byte_seconds": MetricFigure(
        "From asking an upstream to the beginning of its answer.", ("model",), _SECONDS
    ),
}
GAUGES = {
    "active_streams": MetricFigure("Streams that are under way.", ("protocol",)),
    "runs_open": MetricFigure(
        "Durable runs in the journal, of all workers; `status`: `ready`, `running`, `waiting`, "
        "`client`.",
        ("status",),
    ),
}
_SAME_FOR_ALL = frozenset({"runs_open"})
"""Gauges of which each worker tells the whole: the last one counts, not the sum."""


class _SharedSeries:
    """Series in a folder, which several processes share."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counters = {
            name: Counter(PREFIX + name, figure.meaning, figure.labels, registry=registry)
            for name, figure in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(
                PREFIX + name,
                figure.meaning,
                figure.labels,
                registry=registry,
                buckets=figure.buckets,
            )
            for name, figure in HISTOGRAMS.items()
        }

    def find_counter(self, name: str, *labels: str) -> Counter:
        return self._counters[name].labels(*labels)

    def find_histogram(self, name: str, *labels: str) -> Histogram:
        return self._histograms[name].labels(*labels)


class MetricsRegistry:
    """All figures of one process, in a registry of their own."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._folder = environ.get(FOLDER)
        self._registry = CollectorRegistry()
        series = self._make_series()
        self._gauges = {
            name: Gauge(
                PREFIX + name,
                figure.meaning,
                figure.labels,
                registry=self._registry,
                multiprocess_mode="mostrecent" if name in _SAME_FOR_ALL else "livesum",
            )
            for name, figure in GAUGES.items()
        }
        ProcessCollector(registry=self._registry)
        # To find a series by its labels takes longer than to count. There are not many of them.
        find_counter: Callable[..., Count | Counter] = series.find_counter
        find_histogram: Callable[..., Spread | Histogram] = series.find_histogram
        self.counter, self.histogram = cache(find_counter), cache(find_histogram)
        """Find a series by its name and labels, as `count` and `observe` do, for what every request
        adds to."""

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        self.counter(name, *labels).inc(by)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add a measurement."""
        self.histogram(name, *labels).observe(value)

    def shift(self, name: str, by: int, *labels: str) -> None:
        """Raise or lower a gauge."""
        self._gauges[name].labels(*labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._gauges[name].labels(*labels).set(value)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The page for Prometheus in a form that it accepts, and that form's media type."""
        registry = self._registry
        if self._folder:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        encode, media_type = choose_encoder(accept)
        return encode(registry), media_type

    def _make_series(self) -> Series | _SharedSeries:
        if self._folder:
            return _SharedSeries(self._registry)
        series = Series(COUNTERS, HISTOGRAMS)
        self._registry.register(series)
        return series


# A tap that counts, for Prometheus.
#
# The number of series is bounded: models and tools have a label of their own only if they are
# served here, and whatever else clients and models think up is counted as `other`.


OTHER = "other"
"""The label of what is not served here."""
_OWN_CODES = frozenset({"timeout", "connection", "certificate", "limit"})


class Names(NamedTuple):
    """The label names, of this moment: settings may change."""

    models: Container[str] = frozenset()
    tools: Callable[[], Container[str]] = frozenset


class MetricsTap:
    """Counts what happens to exchanges."""

    def __init__(self, names: Names, metrics: MetricsRegistry | None = None) -> None:
        self.models = names.models
        """A reload assigns others."""
        self._tools = names.tools
        self.metrics = metrics or MetricsRegistry()

    def open(self, exchange: Exchange) -> Reading:
        """Count an exchange."""
        model = exchange.model if exchange.model in self.models else OTHER
        return _Counting(self.metrics, exchange, model=model, tools=self._tools), _READS


class _Counting:
    """One exchange."""

    def __init__(
        self,
        metrics: MetricsRegistry,
        exchange: Exchange,
        *,
        model: str,
        tools: Callable[[], Container[str]],
    ) -> None:
        self._metrics = metrics
        self._exchange = exchange
        self._model = model
        self._tools = tools
        self._turns = 0
        self._retried = False
        self._recalled: set[str] = set()
        self._usage: Usage | None = None
        if exchange.stream:
            metrics.shift("active_streams", 1, exchange.protocol)

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _release(self, event: Released) -> None:
        metrics, call = self._metrics, event.call
        metrics.count("calls_released", self._model)
        metrics.observe("call_buffer_characters", len(call.raw), self._model)
        if call.id.startswith(RESCUED):
            metrics.count("calls_rescued", self._model, "started")
        for repair in call.repairs:
            metrics.count("calls_repaired", self._model, repair.kind)
        if call.coercions:
            metrics.count("calls_coerced", self._model)

    def _reject(self, rejected: Rejected) -> None:
        self._metrics.count("calls_rejected", self._model, rejected.reason.value)
        self._metrics.observe("call_buffer_characters", len(rejected.raw), self._model)
        if rejected.reason is Reason.WRITTEN_AS_TEXT:
            self._metrics.count("calls_rescued", self._model, "refused")

    def _wonder(self, event: Inconsistent) -> None:
        self._metrics.count("inconsistencies", self._model, event.oddity.value)
        if event.oddity is Oddity.CALL_QUOTED:
            self._metrics.count("calls_rescued", self._model, "quoted")

    # ── Turns and tools ─────────────────────────────────────────────────────────────

    def _start_turn(self, _: TurnStarted) -> None:
        self._turns += 1

    def _retry_turn(self, _: TurnRetried) -> None:
        self._retried = True
        self._metrics.count("turn_retries", self._model)

    def _take_usage(self, usage: Usage) -> None:
        """Take usage, which is reported repeatedly, and by some in parts, during a turn; the last
        value counts."""
        self._usage = usage if self._usage is None else merge_usage(self._usage, usage)

    def _end_turn(self, _: Ended) -> None:
        usage, self._usage = self._usage, None
        counter, model = self._metrics.counter, self._model
        if usage is not None and usage.input_tokens:
            counter("tokens", model, "input").inc(usage.input_tokens)
        if usage is not None and usage.output_tokens:
            counter("tokens", model, "output").inc(usage.output_tokens)

    def _open_run(self, _: RunOpened) -> None:
        self._metrics.count("runs", self._model, "began")

    def _resume_run(self, event: Resumed) -> None:
        if event.before:
            self._metrics.count("runs", self._model, "taken_over")

    def _recall_tool(self, event: ToolRecalled) -> None:
        self._recalled.add(event.call.id)

    def _end_tool(self, event: ToolEnded) -> None:
        if event.call.id in self._recalled:
            return  # it was counted when it ended
        tool = self._label(event.call.name)
        if event.status is Status.UNKNOWN:
            self._metrics.count("calls_unknown", tool)
        self._metrics.count("tool_results", tool, event.status.value)
        self._metrics.observe("tool_seconds", event.seconds, tool)

    def _abandon_tool(self, event: ToolAbandoned) -> None:
        self._metrics.count("tools_abandoned", self._label(event.call.name))

    def _label(self, tool: str) -> str:
        return tool if tool in self._tools() else OTHER

    # ── The upstream ────────────────────────────────────────────────────────────────

    def _retry_upstream(self, _: UpstreamRetried) -> None:
        self._metrics.count("upstream_retries", self._model)

    def _answer(self, event: UpstreamAnswered) -> None:
        histogram = self._metrics.histogram
        histogram("upstream_first_byte_seconds", self._model).observe(event.seconds)
        if event.retries:
            self._metrics.count("upstream_retries_settled", self._model, "answered")

    def _fail(self, event: UpstreamFailed) -> None:
        self._metrics.count("upstream_failures", self._model, _why(event.error))
        if event.retries:
            self._metrics.count("upstream_retries_settled", self._model, "failed")

    # ── The client ──────────────────────────────────────────────────────────────────

    def _begin(self, event: AnswerBegan) -> None:
        histogram, model, way = self._metrics.histogram, self._model, self._exchange.way
        histogram("first_byte_seconds", model, way).observe(event.seconds)
        histogram("added_seconds", model, way).observe(event.added)

    def _end(self, event: ExchangeEnded) -> None:
        metrics, exchange, model = self._metrics, self._exchange, self._model
        if exchange.stream:
            metrics.shift("active_streams", -1, exchange.protocol)
        if event.code in _RUN_EVENTS:
            metrics.count("runs", model, _RUN_EVENTS[event.code])
        way, fate = exchange.way, event.fate.value
        metrics.counter("exchanges", model, exchange.protocol, way, fate).inc()
        metrics.histogram("exchange_seconds", model, way).observe(event.seconds)
        if self._turns:
            metrics.observe("turns", self._turns, model)
        if self._retried:
            outcome = "done" if event.fate is Fate.DONE else "failed"
            metrics.count("turn_retries_settled", model, outcome)


_RUN_EVENTS: Mapping[str, str] = {RUN_TAKEN_OVER: "fenced", RUN_WAITING: "waiting"}
"""By the codes with which exchanges end."""
_READS = Reads(
    {
        Released: _Counting._release,
        Rejected: _Counting._reject,
        Inconsistent: _Counting._wonder,
        Usage: _Counting._take_usage,
        Ended: _Counting._end_turn,
        TurnStarted: _Counting._start_turn,
        TurnRetried: _Counting._retry_turn,
        RunOpened: _Counting._open_run,
        Resumed: _Counting._resume_run,
        ToolRecalled: _Counting._recall_tool,
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
