"""Durations of tools, for the figures of the inspector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wholecall.inspector.encoding import Fields


def measure_durations(rows: Iterable[tuple[str, str, float]]) -> Sequence[Fields]:
    """Each tool: how often it ran, and how long in the middle and at its slowest."""
    tools: dict[str, list[float]] = {}
    failed: dict[str, int] = {}
    for name, status, seconds in rows:
        tools.setdefault(name, []).append(seconds)
        failed[name] = failed.get(name, 0) + (status != "done")
    return [
        {
            "name": name,
            "count": len(seconds),
            "failed": failed[name],
            "median": _at(sorted(seconds), 0.5),
            "p95": _at(sorted(seconds), 0.95),
            "longest": max(seconds),
        }
        for name, seconds in sorted(tools.items())
    ]


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
