"""The limits of a run. Each has a name and a reason."""

from __future__ import annotations

from dataclasses import dataclass

from wholecall.upstreams.traits import traits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The defaults suit a question with a handful of tools."""

    turns: int = 10
    """Answers of the model; then a last one is requested without tools."""
    calls: int = 200
    """Calls of the whole run."""
    seconds: float | None = None
    """Wall time of the whole run."""
    tokens: int | None = None
    """Input and output tokens of all turns together, as the upstream counts them."""
    concurrency: int = 16
    """Calls that run at the same time."""
    tool_timeout: float = 30.0
    """Seconds of one attempt at a call, unless its tool says otherwise."""
    attempts: int = 3
    """Failed or rejected calls of one tool in a row; then it is withdrawn."""
    warn_identical: int = 3
    """Identical calls (name and arguments) after which the model is warned."""
    stop_identical: int = 5
    """The same call this often: it is not run, and the tools are withdrawn."""
    result_limit: int = 262_144
    """Characters of one result, unless its tool says otherwise; the rest is cut off, and the
    result says so."""
    turn_retries: int = 2
    """Retries of a dropped or empty answer before any of its tools ran."""
    output_tokens: int = 32_768
    """The largest `max_tokens` for a call that the output limit cut off."""
    lost_threads: int = 32
    """Threads of timed-out tools that do not end; beyond it no further one is begun."""

    def __post_init__(self) -> None:
        for name in ("turns", "concurrency", "attempts", "warn_identical", "stop_identical"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: it must be 1 at least")
        for name in ("calls", "result_limit", "turn_retries", "lost_threads"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: it must be 0 at least")
        # Written so that NaN, which is neither more nor less than anything, is refused as well.
        for name in ("seconds", "tokens"):
            limit = getattr(self, name)
            if limit is not None and not limit >= 0:
                raise ValueError(f"{name}={limit}: it must be 0 at least, or None")
        if not self.tool_timeout > 0:
            raise ValueError(f"tool_timeout={self.tool_timeout}: no tool can run in no time")


def default_limits(model: str) -> RunLimits:
    """Return the default limits of a run of this model."""
    times = traits_of(model).identical
    return RunLimits() if times is None else RunLimits(warn_identical=times, stop_identical=times)
