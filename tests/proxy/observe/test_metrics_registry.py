from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wholecall.proxy.observe.metrics import (
    COUNTERS,
    FOLDER,
    GAUGES,
    HISTOGRAMS,
    PREFIX,
    MetricsRegistry,
)

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_counters_count() -> None:
    figures = MetricsRegistry()
    figures.count("calls_rejected", "gpt-x", "truncated")
    figures.count("calls_rejected", "gpt-x", "truncated", by=2)
    page, _ = figures.render()
    assert b'wholecall_calls_rejected_total{model="gpt-x",reason="truncated"} 3.0' in page


def test_histograms_measure() -> None:
    figures = MetricsRegistry()
    figures.observe("tool_seconds", 0.2, "search")
    page, _ = figures.render()
    assert b'wholecall_tool_seconds_bucket{le="0.1",tool="search"} 0.0' in page
    assert b'wholecall_tool_seconds_bucket{le="0.25",tool="search"} 1.0' in page


def test_gauges_rise_and_fall() -> None:
    figures = MetricsRegistry()
    figures.shift("active_streams", 1, "anthropic")
    figures.shift("active_streams", 1, "anthropic")
    figures.shift("active_streams", -1, "anthropic")
    page, _ = figures.render()
    assert b'wholecall_active_streams{protocol="anthropic"} 1.0' in page


def test_each_has_a_registry_of_its_own() -> None:
    MetricsRegistry().count("calls_released", "gpt-x")
    assert b'calls_released_total{model="gpt-x"}' not in MetricsRegistry().render()[0]


def test_the_process_is_measured_too() -> None:
    assert b"process_resident_memory_bytes" in MetricsRegistry().render()[0]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/plain"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
    ],
)
def test_prometheus_gets_the_form_that_it_accepts(accept: str, media_type: str) -> None:
    page, form = MetricsRegistry().render(accept)
    assert form.startswith(media_type)
    assert page.endswith(b"# EOF\n") == bool(accept)


def test_figures_of_several_workers_are_read_from_their_folder(tmp_path: Path) -> None:
    figures = MetricsRegistry({FOLDER: str(tmp_path)})
    figures.count("calls_released", "gpt-x")  # kept in this process: it began without a folder
    assert figures.render()[0] == b""


WORKER = """
from wholecall.proxy.observe.metrics import MetricsRegistry
figures = MetricsRegistry()
figures.count("calls_released", "gpt-x")
print(figures.render()[0].decode())
"""


def test_every_worker_tells_the_sum_of_all(tmp_path: Path) -> None:
    # The library looks for the folder when it is imported, so this needs fresh processes.
    environ = {**os.environ, FOLDER: str(tmp_path)}
    pages = [
        subprocess.run(
            [sys.executable, "-c", WORKER],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert 'wholecall_calls_released_total{model="gpt-x"} 1.0' in pages[0]
    assert 'wholecall_calls_released_total{model="gpt-x"} 2.0' in pages[1]


def test_the_docs_list_every_figure() -> None:
    written = {
        name + ("_total" if name in COUNTERS else ""): figure
        for table in (COUNTERS, HISTOGRAMS, GAUGES)
        for name, figure in table.items()
    }
    rows = {
        f"| `{PREFIX}{name}` | {', '.join(f'`{label}`' for label in figure.labels)} "
        f"| {figure.meaning} |"
        for name, figure in written.items()
    }
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if line.startswith(f"| `{PREFIX}")} == rows
