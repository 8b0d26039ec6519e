"""One call being run: its attempts, the wrappers around it, and what came of it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

from wholecall.core.conversation import Result
from wholecall.core.feedback import SkipReason, dropped_note
from wholecall.core.values import JSON, Call
from wholecall.runs.approvals import Approvals
from wholecall.runs.around import Around, only_once, wrap
from wholecall.runs.attempt import HELD_UP, Attempt, OutOfTime, time_steps
from wholecall.runs.events import (
    Status,
    ToolAbandoned,
    ToolEndedLate,
    ToolEvent,
    ToolPrinted,
    ToolReported,
    ToolStarted,
    copy_call,
)
from wholecall.runs.limits import RunLimits
from wholecall.runs.telling import tell_error, tell_skipped, tell_timeout
from wholecall.runs.threads import THREADS, Threads
from wholecall.runs.tool_output import CURRENT, ToolOutput
from wholecall.tools.results import add_note, cap, to_progress, to_result
from wholecall.tools.signals import Failed, Retry
from wholecall.tools.tool import Blocking, Context, Tool

T = TypeVar("T")
Emit: TypeAlias = Callable[[ToolEvent], None]
_BACK_OFF = 0.1
"""Seconds before the second attempt; twice as many before each further one."""
_LONGEST_BACK_OFF = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """Settings for the calls of one run."""

    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    user: str | None = None
    """The user on whose behalf the tools work; tools find it in their context."""
    approvals: Approvals = field(default_factory=Approvals)
    around: tuple[Around, ...] = ()
    """Wrappers around every call; the first is the outermost."""
    reveal_errors: bool = True
    """True if the model reads class and message of an unexpected exception."""
    grace: float = 1.0
    """Seconds for a tool to stop when it is cancelled."""
    threads: Threads = THREADS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before another attempt."""
    clock: Callable[[], float] = time.monotonic
    """By which the steps of `async def` tools are timed. Not that of the loop, which may stand
    still within a step."""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call."""

    status: Status
    result: Result
    error: BaseException | None = None
    transient: bool = False
    """True if the same call may succeed another time."""


class Calling:
    """Runs one call by the rules of its tool."""

    def __init__(
        self, call: Call, tool: Tool, *, limits: RunLimits, settings: ExecutorSettings, emit: Emit
    ) -> None:
        self._call = call
        self.shown = copy_call(call)
        """The copy that is reported. Changes to it do not affect what runs."""
        self._tool = tool
        self._limits = limits
        self._settings = settings
        self._emit = emit
        self.began_at: float | None = None
        """By the event loop's clock; None before the first attempt."""
        self.blocked = 0.0
        """Seconds for which the tool kept the event loop, in steps that are too long."""
        self._halted = False
        self._timed_out = False
        self._late: CallOutcome | None = None

    def conclude(self, status: Status) -> None:
        """The call has its result. If that was a timeout, tell what the tool gives later."""
        self._timed_out = status is Status.TIMED_OUT
        self._tell_late()

    def halt(self) -> None:
        """Let the tool's code not begin (again), from this moment on."""
        self._halted = True

    async def run(self) -> CallOutcome:
        """Run it until it succeeds or nothing is left to try."""
        async with self._tool.places or nullcontext():
            outcome = await self._try_repeatedly()
        result = self._cap(outcome.result)
        return replace(outcome, result=add_note(result, dropped_note(self._call)))

    def _cap(self, result: Result) -> Result:
        limit = self._tool.result_limit
        return cap(result, self._limits.result_limit if limit is None else limit)

    async def _try_repeatedly(self) -> CallOutcome:
        retries = self._tool.retries
        for number in range(1, retries + 1):
            outcome = await self._try(number)
            if not outcome.transient:
                return outcome
            await self._settings.sleep(_back_off(number))
            if self._halted:
                return outcome
        return await self._try(retries + 1)

    async def _try(self, number: int) -> CallOutcome:
        if isinstance(self._tool.run, Blocking) and self._too_many_hang():
            why = "too many earlier calls hang and cannot be ended"
            result = tell_skipped(self._call.name, why, reason=SkipReason.HANGING)
            return CallOutcome(Status.SKIPPED, result)
        loop = asyncio.get_running_loop()
        self.began_at = self.began_at or loop.time()
        self._emit(ToolStarted(self.shown, number))
        attempt = Attempt(
            grace=self._settings.grace,
            on_abandoned=self._report_abandoned,
            on_late=self._take_late,
        )
        run = partial(self._run_tool, self._make_context(attempt, loop))
        guarded = run if self._tool.repeatable else only_once(run)
        # What a tool or a wrapper does to the arguments must not change what the model said.
        work = partial(wrap(self._settings.around, guarded), copy_call(self._call))
        return self._judge(await attempt.run(work, seconds=self._seconds))

    @property
    def _seconds(self) -> float:
        timeout = self._tool.timeout
        return self._limits.tool_timeout if timeout is None else timeout

    def _too_many_hang(self) -> bool:
        return self._settings.threads.lost >= self._limits.lost_threads

    def _judge(self, given: Result | BaseException) -> CallOutcome:
        name = self._call.name
        match given:
            case Result():
                return CallOutcome(Status.FAILED if given.failed else Status.DONE, given)
            case OutOfTime():
                result = tell_timeout(name, self._seconds)
                return CallOutcome(Status.TIMED_OUT, result, given, transient=True)
            case _:
                reveal, repeatable = self._settings.reveal_errors, self._tool.repeatable
                result = tell_error(name, given, reveal=reveal, repeatable=repeatable)
                final = isinstance(given, Retry | Failed)
                return CallOutcome(Status.FAILED, result, given, transient=not final)

    # ── The tool's own code ─────────────────────────────────────────────────────────

    async def _run_tool(self, context: Context, call: Call) -> Result:
        if self._halted:
            return tell_skipped(call.name, "the run was stopped")
        loop = asyncio.get_running_loop()
        output = ToolOutput(_from_any_thread(loop, self._report_line))
        token = CURRENT.set(output)
        try:
            return to_result(await self._run_body(context, call))
        finally:
            CURRENT.reset(token)
            output.end()

    async def _run_body(self, context: Context, call: Call) -> Result:
        body, settings = self._tool.run, self._settings
        if isinstance(body, Blocking):
            work = partial(body.run, call.arguments, context)
            return _unfold(
                await settings.threads.run(
                    work,
                    name=call.name,
                    on_lost=self._report_abandoned,
                    on_late=self._take_late,
                )
            )
        if body is None:
            raise TypeError(f"{call.name!r} is a tool of the client and cannot be run here")
        steps = _await(body(call.arguments, context))
        return await time_steps(steps, self._note_step, clock=settings.clock)

    def _make_context(self, attempt: Attempt, loop: asyncio.AbstractEventLoop) -> Context:
        def tell(progress: JSON) -> None:
            if not attempt.is_over() and progress is not None:
                self._emit(ToolReported(self._call.id, progress))

        tell_home = _from_any_thread(loop, tell)

        def report(value: JSON) -> None:
            tell_home(to_progress(value))

        return Context(
            call_id=self._call.id,
            run_id=self._settings.run_id,
            idempotency_key=f"{self._settings.run_id}:{self._call.id}",
            user=self._settings.user,
            report=report,
            is_cancelled=attempt.is_over,
        )

    def _report_abandoned(self) -> None:
        self._emit(ToolAbandoned(self.shown))

    def _report_line(self, line: str) -> None:
        self._emit(ToolPrinted(self.shown, line))

    def _note_step(self, seconds: float) -> None:
        if seconds >= HELD_UP:
            self.blocked += seconds

    # ── After its time ──────────────────────────────────────────────────────────────

    def _take_late(self, given: Result | BaseException) -> None:
        """Keep what the tool gave after an attempt had timed out."""
        self._late = self._judge(given)
        self._tell_late()

    def _tell_late(self) -> None:
        late = self._late
        if late is None or not self._timed_out:
            return
        self._timed_out = False  # once is enough, whatever other attempts give
        seconds = asyncio.get_running_loop().time() - (self.began_at or 0.0)
        result = self._cap(late.result)
        self._emit(ToolEndedLate(self.shown, late.status, result, seconds, late.error))


async def _await(given: Awaitable[Result]) -> Result:
    return await given


def _from_any_thread(
    loop: asyncio.AbstractEventLoop, tell: Callable[[T], None]
) -> Callable[[T], None]:
    """Return a function that tells something in the thread of the loop, wherever it is called."""
    home = threading.get_ident()

    def tell_home(value: T) -> None:
        if threading.get_ident() == home:
            tell(value)
            return
        with suppress(RuntimeError):  # the loop was closed: no one listens
            loop.call_soon_threadsafe(tell, value)

    return tell_home


def _unfold(given: Result | BaseException) -> Result:
    if isinstance(given, Result):
        return given
    if isinstance(given, Exception):
        raise given
    # SystemExit and the like ended the thread, and must not end the event loop as well.
    raise RuntimeError(f"{type(given).__name__} in a thread") from given


def _back_off(failures: int) -> float:
    longest: float = min(_BACK_OFF * 2 ** (failures - 1), _LONGEST_BACK_OFF)
    return longest * random.uniform(0.5, 1)  # noqa: S311  # it spreads the load, and is no secret
