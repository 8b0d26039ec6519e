"""The series of one process: plain numbers, which become Prometheus's when it asks for them.

The objects of prometheus_client take a lock for every number, and look with every addition whether
they may be added to. Here one thread counts, for every request, and all of that would take four
times as long as the counting. The page is the same, which tests/proxy/test_series.py holds.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

PREFIX = "wholecall_"
_YES = frozenset({"true", "1", "t"})
_TELLS_CREATION = os.environ.get("PROMETHEUS_DISABLE_CREATED_SERIES", "").lower() not in _YES
"""A switch of prometheus_client, as it reads it."""


class Figure(NamedTuple):
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
        counters: Mapping[str, Figure],
        histograms: Mapping[str, Figure],
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


def _check_labels(figure: Figure, labels: tuple[str, ...]) -> None:
    if len(labels) != len(figure.labels):
        raise ValueError(f"labels are {figure.labels!r}, and {labels!r} were given")
