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
    """A tool's information about the call that it serves."""

    call_id: str
    run_id: str
    idempotency_key: str
    """The same for every attempt at this call, and for no other call."""
    user: str | None = None
    report: Callable[[JSON], None] = field(default=lambda _: None)
    """Tell how far the tool is; it becomes an event of the run, if it is JSON of at most 16,384
    characters. May be called from any thread."""
    is_cancelled: Callable[[], bool] = field(default=lambda: False)
    """Returns True if the result is not awaited any more: a thread should check it now and then."""


Runner: TypeAlias = Callable[[Mapping[str, JSON], Context], Awaitable[Result]]
"""Runs one call. It may raise `Retry`, `Failed` or anything else; that is a failure."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """A body that blocks: it runs in a thread of its own, never on the event loop."""

    run: Callable[[Mapping[str, JSON], Context], Result]


Approve: TypeAlias = bool | Callable[[Call], bool | Awaitable[bool]]
"""When a call needs approval: never, always, or as the predicate says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool of a run."""

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
    """It runs alone: after every call before it, and before every call after it."""
    approve: Approve = False
    retries: int = 0
    """Retries of a failed call of an idempotent or read-only tool."""
    concurrency: int | None = None
    """The largest number of concurrent calls in this process; None: no limit of its own."""
    result_limit: int | None = None
    """Characters of a result that the model gets to see; None: the run's default."""
    ends_run: bool = False
    """Its result is the run's final answer, read as the type that `output=` asks for."""
    places: Places | None = field(default=None, repr=False, compare=False)
    """The slots of its concurrent calls, over all runs. `concurrency` makes them; tools that share
    a limit, such as those of one MCP server, get the same ones."""

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
        """True if a second or partial run of the same call does no harm."""
        return self.read_only or self.idempotent
