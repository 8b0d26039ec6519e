"""The figures that Prometheus reads: one table, from which docs/metrics.md is checked as well.

With several workers each has figures of its own, and a scrape reaches any of them. If
`PROMETHEUS_MULTIPROC_DIR` names an empty folder before this module is imported, they write
into it, and every worker tells the sum.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from wholecall.proxy.series import PREFIX, Figure, Series

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The folder with the figures of several workers."""
# From what a proxy adds to what a long answer takes.
_ADDED = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_CHARACTERS = tuple(float(4**power) for power in range(2, 12))
_TURNS = (1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0)


COUNTERS = {
    "exchanges": Figure(
        "Requests that are over; `outcome`: `done`, `failed`, `gone` (the client left), `stopped` "
        "(the proxy ended).",
        ("model", "protocol", "way", "outcome"),
    ),
    "refusals": Figure(
        "Requests that were turned away before a model was asked: key, rate, host, size, path.",
        ("status", "code"),
    ),
    "calls_released": Figure("Calls that were whole and right.", ("model",)),
    "calls_rejected": Figure("Calls that were not, by reason.", ("model", "reason")),
    "calls_rescued": Figure(
        "Calls that were written as text; `outcome`: `started`, `refused` (the setting `rescue` "
        "forbids it), `quoted` (they stay text).",
        ("model", "outcome"),
    ),
    "calls_repaired": Figure(
        "Changes of arguments that cannot change their meaning, by kind.", ("model", "kind")
    ),
    "calls_coerced": Figure(
        "Calls with values that were turned into the type of their schema.", ("model",)
    ),
    "inconsistencies": Figure(
        "What was strange about answers that could be read, by kind.", ("model", "kind")
    ),
    "turn_retries": Figure("Answers that were asked for again.", ("model",)),
    "turn_retries_settled": Figure(
        "Exchanges with such answers; `outcome`: `done` or `failed` in the end.",
        ("model", "outcome"),
    ),
    "tokens": Figure(
        "Tokens, as upstreams count them; `direction`: `input`, `output`.", ("model", "direction")
    ),
    "tool_results": Figure(
        "Results of tools that ran here, by how they ended.", ("tool", "status")
    ),
    "tools_abandoned": Figure("Tools that went on although they were told to stop.", ("tool",)),
    "upstream_failures": Figure(
        "Upstreams that gave no answer; "
        "`why`: a status, `timeout`, `connection`, `certificate` or `limit`.",
        ("model", "why"),
    ),
    "upstream_retries": Figure("Attempts after the first to get an answer.", ("model",)),
    "upstream_retries_settled": Figure(
        "Questions with such attempts; `outcome`: `answered` or `failed` in the end.",
        ("model", "outcome"),
    ),
}
HISTOGRAMS = {
    "exchange_seconds": Figure(
        "From a request to the end of its answer.", ("model", "way"), _SECONDS
    ),
    "first_byte_seconds": Figure(
        "From a request to the first byte of its answer.", ("model", "way"), _SECONDS
    ),
    "added_seconds": Figure(
        "What the proxy adds to the time to the first byte: before an upstream is asked, and from "
        "the beginning of its answer to ours. Calls that wait for their check are in it.",
        ("model", "way"),
        _ADDED,
    ),
    "call_buffer_characters": Figure(
        "Arguments of one call, collected until it was over.", ("model",), _CHARACTERS
    ),
    "turns": Figure("Answers of the model in one exchange.", ("model",), _TURNS),
    "tool_seconds": Figure("From the start of a tool to its result.", ("tool",), _SECONDS),
    "upstream_first_byte_seconds": Figure(
        "From asking an upstream to the beginning of its answer.", ("model",), _SECONDS
    ),
}
GAUGES = {
    "active_streams": Figure("Streams that are under way.", ("protocol",)),
}


class _Counter(Protocol):
    def inc(self, amount: float = 1) -> None:
        """Add to it."""


class _Histogram(Protocol):
    def observe(self, amount: float) -> None:
        """Add a measurement."""


class _Finder(Protocol):
    """Knows every series by its name and labels."""

    def find_counter(self, name: str, *labels: str) -> _Counter:
        """The counter of this name with these labels."""

    def find_histogram(self, name: str, *labels: str) -> _Histogram:
        """The histogram of this name with these labels."""


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


class Figures:
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
                multiprocess_mode="livesum",
            )
            for name, figure in GAUGES.items()
        }
        ProcessCollector(registry=self._registry)
        # To find a series by its labels takes longer than to count. There are not many of them.
        self._counter = cache(series.find_counter)
        self._histogram = cache(series.find_histogram)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        self._counter(name, *labels).inc(by)

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Add a measurement."""
        self._histogram(name, *labels).observe(value)

    def shift(self, name: str, by: int, *labels: str) -> None:
        """Raise or lower a gauge."""
        self._gauges[name].labels(*labels).inc(by)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The page for Prometheus in a form that it accepts, and that form's media type."""
        registry = self._registry
        if self._folder:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        encode, media_type = choose_encoder(accept)
        return encode(registry), media_type

    def _make_series(self) -> _Finder:
        if self._folder:
            return _SharedSeries(self._registry)
        series = Series(COUNTERS, HISTOGRAMS)
        self._registry.register(series)
        return series
