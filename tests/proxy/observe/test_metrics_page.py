"""The page is the one that prometheus_client's own objects would have made."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder

from wholecall.proxy.observe.metrics import PREFIX, MetricFigure, Series

COUNTERS = {
    "calls": MetricFigure("Calls, by reason.", ("model", "reason")),
    "silent": MetricFigure("What never happens.", ("model",)),
}
HISTOGRAMS = {
    "seconds": MetricFigure("How long it took.", ("model",), (0.001, 0.5, 1.0, 10.0)),
    "characters": MetricFigure("How much it was.", ("model", "way"), (16.0, 4194304.0)),
}
FORMS = ["", "application/openmetrics-text; version=1.0.0"]
NOW = 1_700_000_000.25

word = st.sampled_from(["gpt-x", "other", 'a "quoted"\nname', "ä"])
amount = st.one_of(
    st.integers(0, 10**7), st.floats(0, 1e7), st.sampled_from([0.001, 0.5, 1.0, 10.0, 16.0])
)
counted = st.tuples(st.just("calls"), st.tuples(word, word), st.integers(0, 1000))
measured = st.one_of(
    st.tuples(st.just("seconds"), st.tuples(word), amount),
    st.tuples(st.just("characters"), st.tuples(word, word), amount),
)


def show(registry: CollectorRegistry, accept: str) -> str:
    """The page, whenever its series began."""
    page = choose_encoder(accept)[0](registry).decode()
    return re.sub(r"(_created\{.*\}) \S+", rf"\1 {NOW}", page)


class Both:
    """The same figures twice: counted here, and by the library."""

    def __init__(self) -> None:
        self.ours, self.theirs = CollectorRegistry(), CollectorRegistry()
        self._series = Series(COUNTERS, HISTOGRAMS)
        self.ours.register(self._series)
        self._counters = {
            name: Counter(PREFIX + name, figure.meaning, figure.labels, registry=self.theirs)
            for name, figure in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(
                PREFIX + name,
                figure.meaning,
                figure.labels,
                registry=self.theirs,
                buckets=figure.buckets,
            )
            for name, figure in HISTOGRAMS.items()
        }

    def take(self, name: str, labels: tuple[str, ...], *, amount: float) -> None:
        if name in COUNTERS:
            self._series.find_counter(name, *labels).inc(amount)
            self._counters[name].labels(*labels).inc(amount)
        else:
            self._series.find_histogram(name, *labels).observe(amount)
            self._histograms[name].labels(*labels).observe(amount)


@pytest.mark.parametrize("accept", FORMS)
@given(given=st.lists(st.one_of(counted, measured)))
def test_the_page_is_the_librarys_own(
    accept: str, given: list[tuple[str, tuple[str, ...], float]]
) -> None:
    both = Both()
    for name, labels, by in given:
        both.take(name, labels, amount=by)
    assert show(both.ours, accept) == show(both.theirs, accept)


def test_a_series_knows_when_it_began() -> None:
    clock = iter([NOW, NOW + 1])
    series = Series(COUNTERS, HISTOGRAMS, clock=lambda: next(clock))
    for _ in range(2):
        series.find_counter("calls", "gpt-x", "a").inc()
        series.find_histogram("seconds", "gpt-x").observe(0.2)
    created = {
        sample.name: sample.value
        for family in series.collect()
        for sample in family.samples
        if sample.name.endswith("_created")
    }
    assert created == {
        "wholecall_calls_created": NOW,
        "wholecall_seconds_created": NOW + 1,
    }


def test_wrong_labels_are_refused() -> None:
    series = Series(COUNTERS, HISTOGRAMS)
    with pytest.raises(ValueError, match=r"labels are \('model', 'reason'\), and \('gpt-x',\)"):
        series.find_counter("calls", "gpt-x")
    with pytest.raises(ValueError, match=r"labels are \('model',\), and \(\)"):
        series.find_histogram("seconds")


PAGE = """
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from wholecall.proxy.observe.metrics import MetricFigure, Series
series = Series({"a": MetricFigure("A", ())}, {"b": MetricFigure("B", (), (1.0,))})
registry = CollectorRegistry()
registry.register(series)
series.find_counter("a").inc()
series.find_histogram("b").observe(1)
print(generate_latest(registry).decode())
"""


@pytest.mark.parametrize(("switch", "told"), [("True", False), ("", True)])
def test_the_librarys_switch_holds(switch: str, *, told: bool) -> None:
    # The library looks at it when it is imported, so this needs a fresh process.
    page = subprocess.run(
        [sys.executable, "-c", PAGE],
        env={**os.environ, "PROMETHEUS_DISABLE_CREATED_SERIES": switch},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "wholecall_a_total 1.0" in page
    assert 'wholecall_b_bucket{le="1.0"} 1.0' in page
    assert ("_created" in page) == told
