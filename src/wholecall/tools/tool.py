"""A tool: one callable with its schema, the rules by which it runs, and its limit of concurrent
calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from wholecall.events import JSON, Call
from wholecall.messages import Result, ToolSpec

# Exceptions by which a tool says what the model should do.
#
# Any other exception means that the tool itself is at fault. The model learns so, and a read-only
# or idempotent tool with `retries` is tried again first. These two are final.


class Retry(Exception):
    """A call that can be corrected: the model learns how, and is asked to send it again.

    `raise Retry("there is no city 'Olso'; the nearest is 'Oslo'")`
    """


class Failed(Exception):
    """No other call would help: the model learns why, and continues without the result.

    `raise Failed("the archive is closed until Monday")`
    """


# Taps of users: functions that look on, and must not change what they look at.


_Event = TypeVar("_Event")


def notify(event: _Event, tap: Callable[[_Event], None], *, of: str) -> None:
    """Show an event to a tap `of` something. What it raises goes to the event loop's exception
    handler, which logs it, and nowhere else."""
    try:
        tap(event)
    # It is the user's code, and may raise anything.
    except Exception as error:  # noqa: BLE001
        message = f"a tap of {of} raised at {type(event).__name__}"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


# Limit the concurrent calls of one tool, in the whole process.
#
# A tool outlives its runs and may be used by several event loops, each in a thread of its own
# (`ask_sync`). `asyncio.Semaphore` belongs to one loop, so it cannot be used.


class _Waiter(NamedTuple):
    loop: asyncio.AbstractEventLoop
    arrived: asyncio.Future[None]


class Places:
    """Lets at most `limit` in at a time; the others wait in the order of their coming."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a tool needs room for one call at least, not {limit!r}")
        self._lock = threading.Lock()
        self._free = limit
        self._waiting: deque[_Waiter] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop, loop.create_future())
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append(waiter)
        try:
            await waiter.arrived
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return
        # It was called in at the same moment: the place is taken, and goes to the next.
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                waiter = self._waiting.popleft()
                if _call_in(waiter):
                    return
            self._free += 1


def _call_in(waiter: _Waiter) -> bool:
    """Return True if the waiter was still there to be woken."""
    try:
        waiter.loop.call_soon_threadsafe(_arrive, waiter.arrived)
    except RuntimeError:  # its loop was closed
        return False
    return True


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


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
"""The condition under which a call needs approval: never, always, or as the predicate says."""


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
