"""A tool: one callable with its schema and the rules by which it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from wholecall.core.conversation import Result
from wholecall.core.spec import ToolSpec
from wholecall.core.values import JSON, Call
from wholecall.tools.places import Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a tool may know of the call that it serves."""

    call_id: str
    run_id: str
    idempotency_key: str
    """The same for every attempt at this call, and for no other call."""
    user: str | None = None
    report: Callable[[JSON], None] = field(default=lambda _: None)
    """Tell how far the tool is; it becomes an event of the run, if it is JSON of at most 16,384
    characters. May be called from any thread."""
    is_cancelled: Callable[[], bool] = field(default=lambda: False)
    """Whether nobody waits for the result any more: a thread should look now and then."""


Runner: TypeAlias = Callable[[Mapping[str, JSON], Context], Awaitable[Result]]
"""Runs one call. It may raise `Retry`, `Failed` or anything else; that is a failure."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """A body that blocks: it runs in a thread of its own, never on the event loop."""

    run: Callable[[Mapping[str, JSON], Context], Result]


Approve: TypeAlias = bool | Callable[[Call], bool | Awaitable[bool]]
"""Whether a call needs somebody's approval: never, always, or as the predicate says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """What a run knows of a tool."""

    spec: ToolSpec
    run: Runner | Blocking | None
    """None: the tool is the client's. Its calls are handed over, and never run here."""
    read_only: bool = False
    """It changes nothing: it may start early, be broken off and be tried again."""
    idempotent: bool = False
    """Twice does the same as once: it may start early, be broken off and be tried again."""
    timeout: float | None = None
    """Seconds; None: the run's default."""
    barrier: bool = False
    """It runs alone: after every call before it, and before every call behind it."""
    approve: Approve = False
    retries: int = 0
    """How often a failed call of an idempotent or read-only tool is tried again."""
    concurrency: int | None = None
    """How many calls of it may run at a time in this process; None: no limit of its own."""
    result_limit: int | None = None
    """Characters of a result that the model gets to see; None: the run's default."""
    ends_run: bool = False
    """Its result is the run's final answer, read as the type that `output=` asks for."""
    places: Places | None = field(default=None, repr=False, compare=False)
    """Where its calls wait for each other, over all runs. `concurrency` makes them; tools that
    share a limit, as those of one MCP server, are given the same ones."""

    def __post_init__(self) -> None:
        # Written so that NaN, which is neither more nor less than anything, is refused as well.
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"the timeout of {self.name!r} must be more than 0 seconds")
        for rule in ("retries", "result_limit"):
            if (getattr(self, rule) or 0) < 0:
                raise ValueError(f"{rule} of {self.name!r} must be 0 or more")
        if self.retries and not self.repeatable:
            raise ValueError(f"{self.name!r} has retries, but is neither read_only nor idempotent")
        if self.concurrency is not None:
            object.__setattr__(self, "places", Places(self.concurrency))

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self.spec.name

    @property
    def repeatable(self) -> bool:
        """Whether a second run of the same call, or a half one, does no harm."""
        return self.read_only or self.idempotent
