"""Run one call: attempts, timeouts, threads, and what the model reads when it fails."""

from __future__ import annotations

import asyncio
import contextvars
import math
import random
import threading
import time
import types
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from wholecall.agent.approvals import Approvals
from wholecall.agent.budget import RunLimits, Stop
from wholecall.agent.run_events import (
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolEvent,
    ToolPrinted,
    ToolReported,
    ToolStarted,
)
from wholecall.agent.tool_middleware import CURRENT, Around, ToolOutput, only_once, wrap
from wholecall.arguments.describe import cut, show
from wholecall.arguments.feedback import (
    ANSWER_FROM_RESULTS,
    Feedback,
    SkipReason,
    dropped_note,
    skipped,
    timed_out,
    tool_failed,
)
from wholecall.errors import ToolServerFailed
from wholecall.events import JSON, Call, Text, copy_call
from wholecall.journal.run_journal import RunJournal
from wholecall.messages import Content, Result
from wholecall.tools.tool import (
    CANCELLED,
    Blocking,
    Context,
    Elicit,
    Elicitation,
    Elicited,
    Failed,
    Retry,
    Tool,
    add_note,
    cap,
    to_progress,
    to_result,
)

T = TypeVar("T")


class Threads:
    """Runs functions in threads, and counts those that were abandoned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost = 0

    @property
    def lost(self) -> int:
        """Threads that were let go and have not ended yet."""
        return self._lost

    async def run(
        self,
        work: Callable[[], T],
        *,
        name: str,
        on_lost: Callable[[], None],
        on_late: Callable[[T | BaseException], None] = lambda _: None,
    ) -> T | BaseException:
        """Run `work` with the caller's context variables; what it raises is returned.

        It is returned and not raised, because a future refuses `StopIteration`. If the
        caller is cancelled the thread is let go, and `on_lost` is called unless it is over.
        `on_late` is then called, in the event loop, with what it gives in the end.
        """
        job = _Job(work, asyncio.get_running_loop(), on_late=on_late)
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._serve, job), name=f"wholecall {name}", daemon=True
        )
        thread.start()
        try:
            return await job.ended
        except asyncio.CancelledError:
            if self._let_go(job):
                on_lost()
            raise

    def _serve(self, job: _Job[T]) -> None:
        outcome: T | BaseException
        try:
            outcome = job.work()
        # The thread ends here: whatever the tool raises, SystemExit included, is its outcome.
        except BaseException as error:  # noqa: BLE001
            outcome = error
        with self._lock:
            job.over = True
            self._lost -= job.lost
        job.deliver(outcome)

    def _let_go(self, job: _Job[T]) -> bool:
        with self._lock:
            job.lost = not job.over
            self._lost += job.lost
        return job.lost


class _Job(Generic[T]):
    def __init__(
        self,
        work: Callable[[], T],
        loop: asyncio.AbstractEventLoop,
        *,
        on_late: Callable[[T | BaseException], None],
    ) -> None:
        self.work = work
        self.on_late = on_late
        self.ended: asyncio.Future[T | BaseException] = loop.create_future()
        self.over = False
        self.lost = False

    def deliver(self, outcome: T | BaseException) -> None:
        try:
            self.ended.get_loop().call_soon_threadsafe(self._arrive, outcome)
        except RuntimeError:  # the loop was closed: no one waits
            return

    def _arrive(self, outcome: T | BaseException) -> None:
        if self.ended.done():
            self.on_late(outcome)
        else:
            self.ended.set_result(outcome)


THREADS = Threads()
"""Those of this process: a lost thread is lost to all runs."""


# One attempt at running a call: begun, awaited, ended.
#
# The tool gets a task of its own. So it can time out although it does not end, its own cancellation
# can be distinguished from ours, and its exceptions harm nothing else.


ToolCode: TypeAlias = Callable[[], Awaitable[Result]]
HELD_UP = 0.1
"""Seconds by which a clock that is this late was held up: something else blocked the loop."""
_PARTS = 4
"""The number of parts in which the time of a tool is counted."""
_PAUSE_STEP = 0.25
"""Seconds between two looks whether the user has answered, once the tool's time would be over."""


class OutOfTime(Exception):
    """The tool did not end in its time."""


class Attempt:
    """Runs a tool's code once, for a bounded time."""

    def __init__(
        self,
        *,
        grace: float,
        on_abandoned: Callable[[], None],
        on_late: Callable[[Result | BaseException], None] = lambda _: None,
    ) -> None:
        """`on_late` is called with the outcome of a tool that ended after its time limit."""
        self._grace = grace
        self._on_abandoned = on_abandoned
        self._on_late = on_late
        self._over = threading.Event()
        self._pauses = 0
        self._paused_at = 0.0
        self._paused = 0.0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let the tool's time stand still, because the user is asked."""
        loop = asyncio.get_running_loop()
        if not self._pauses:
            self._paused_at = loop.time()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._paused += loop.time() - self._paused_at

    def _take_paused(self, now: float) -> float:
        """Return the seconds to give back for pauses, each once."""
        paused, self._paused = self._paused, 0.0
        if not self._pauses:
            return paused
        paused += now - self._paused_at
        self._paused_at = now
        return max(paused, _PAUSE_STEP)

    def is_over(self) -> bool:
        """True if no one waits for the tool any more. Safe in any thread."""
        return self._over.is_set()

    async def run(self, code: ToolCode, *, seconds: float) -> Result | BaseException:
        """Return what the tool gave: a result, what it raised, or `OutOfTime`."""
        task = asyncio.create_task(_guard(code))
        try:
            await _wait_for(task, seconds, take_paused=self._take_paused)
            if task.done():
                return _read(task)
        finally:
            self._over.set()
            await self._end(task)
        task.add_done_callback(self._take_late)
        return OutOfTime()

    async def _end(self, task: asyncio.Task[Result | BaseException]) -> None:
        """Cancel a running task, and wait a little for its end."""
        if task.done():
            return
        task.cancel()
        try:
            await asyncio.wait([task], timeout=self._grace)
        finally:
            if not task.done():
                _ABANDONED.add(task)
                task.add_done_callback(_forget)
                self._on_abandoned()

    def _take_late(self, task: asyncio.Task[Result | BaseException]) -> None:
        given = _read(task)
        if not isinstance(given, asyncio.CancelledError):
            self._on_late(given)


async def _wait_for(
    task: asyncio.Task[Result | BaseException],
    seconds: float,
    *,
    take_paused: Callable[[float], float],
) -> None:
    """Wait for a task for some time, in which it had the chance to go on.

    While another tool blocks the event loop, this one cannot take the steps to its end. So the
    time is counted in parts, and what the clock is late by after a part does not count.
    """
    if math.isinf(seconds):
        await asyncio.wait([task])
        return
    loop, left = asyncio.get_running_loop(), seconds
    while not task.done():
        part = min(left, seconds / _PARTS)
        due = loop.time() + part
        await asyncio.wait([task], timeout=part)
        late = loop.time() - due
        left -= part + (late if late < HELD_UP else 0)
        if left <= 0:
            left = take_paused(loop.time())
            if not left:
                return


async def _guard(code: ToolCode) -> Result | BaseException:
    try:
        return await code()
    # Here we meet the tool's code: whatever it raises is its outcome. Asyncio would let
    # SystemExit and KeyboardInterrupt end the whole loop, and the server with it. The user's own
    # Ctrl-C is not raised here: `asyncio.run`, `ask_sync` and the server take the signal.
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001
        return error


@types.coroutine
def time_steps(
    work: Coroutine[Any, Any, T], note: Callable[[float], None], *, clock: Callable[[], float]
) -> Generator[Any, Any, T]:
    """Await `work`, and note how long each of its steps keeps the event loop."""
    advance: Callable[[], Any] = partial(work.send, None)
    while True:
        began = clock()
        try:
            awaited = advance()
        except StopIteration as done:
            given: T = done.value
            return given
        finally:
            note(clock() - began)
        try:
            advance = partial(work.send, (yield awaited))
        # Throw it into the work, as if this coroutine were not in between.
        except BaseException as error:  # noqa: BLE001
            advance = partial(work.throw, error)


def _read(task: asyncio.Task[Result | BaseException]) -> Result | BaseException:
    # We did not cancel it yet: the tool did.
    if task.cancelled():
        return asyncio.CancelledError()
    error = task.exception()
    return task.result() if error is None else error


# The event loop itself holds tasks only weakly.
_ABANDONED: set[asyncio.Task[Result | BaseException]] = set()


def _forget(task: asyncio.Task[Result | BaseException]) -> None:
    _ABANDONED.discard(task)
    if not task.cancelled():
        task.exception()


# Messages about calls without output, for the model, and about runs without an answer.


_MESSAGE = 500
"""Characters of an unexpected exception's message that the model sees."""
_RESULTS = 10
"""The number of results that a run without an answer lists: the last ones."""
_SEND_AGAIN = "Correct the call and send it again."
_MAYBE_DONE = (
    "Do not send the call again: it may have been carried out. "
    "Find out with another tool whether it was, or say that its outcome is unknown."
)
_HARMLESS = "The call may be sent again if its result is still needed; or go on without it."
_NOT_SENT = "The call was not run. Go on without its result, or send it again later."
_GO_ON = "Do not send the call again. Go on without its result, or say what is missing."


def describe_failure(feedback: Feedback) -> Result:
    """Return feedback as a failed result."""
    return Result((Text(feedback.text),), failed=True)


def describe_error(
    name: str, error: BaseException, *, reveal: bool, repeatable: bool = False
) -> Result:
    """Return feedback on an exception that the tool raised.

    `Retry` and `Failed` are passed on as they were written. Anything else is reported by its class
    and its message, unless not even these may be revealed; never with a traceback. If the server of
    a tool failed, the model is invited to repeat only a call that does no harm twice.
    """
    match error:
        case Retry():
            return describe_failure(
                replace(tool_failed(name, str(error)), type="retry", hint=_SEND_AGAIN)
            )
        case Failed():
            return describe_failure(replace(tool_failed(name, str(error)), hint=_GO_ON))
        case ToolServerFailed():
            return describe_failure(_tell_server(name, error, reveal=reveal, repeatable=repeatable))
        case asyncio.CancelledError():
            return describe_failure(tool_failed(name, "it broke off by itself"))
        case _ if not reveal:
            return describe_failure(tool_failed(name, "an internal error"))
        case _:
            return describe_failure(tool_failed(name, _describe(error)))


def _tell_server(name: str, error: ToolServerFailed, *, reveal: bool, repeatable: bool) -> Feedback:
    hint = _HARMLESS if repeatable else _MAYBE_DONE
    said = "its server failed; what the call had done by then is unknown"
    if not error.outcome_unknown:
        hint, said = _NOT_SENT, "its server cannot be reached"
    return replace(tool_failed(name, cut(str(error), _MESSAGE) if reveal else said), hint=hint)


def describe_timeout(name: str, seconds: float) -> Result:
    """Return feedback that the tool did not end within its time limit."""
    return describe_failure(timed_out(name, seconds))


def describe_skipped(name: str, why: str, *, reason: SkipReason = SkipReason.STOPPED) -> Result:
    """Return feedback that the call was not run although nothing was wrong with it."""
    return describe_failure(skipped(name, why, reason=reason))


def describe_repeated(name: str, why: str, *, earlier: Result) -> Result:
    """Return the result that the same call had before. It comes first: a small model that reads
    only why its call was not run repeats that sentence as its answer."""
    why = f"it was not run: {why}. {ANSWER_FROM_RESULTS}"
    note = f"\nNote: this is what the same call of {show(name)} gave before; {why}"
    return replace(earlier, content=(*earlier.content, Text(note)))


def describe_denied(name: str, why: str) -> Result:
    """Return feedback that the call was not approved."""
    said = f"it was not approved: {why}" if why else "it was not approved"
    return describe_failure(replace(skipped(name, said, reason=SkipReason.DENIED), type="denied"))


def describe_cancelled(name: str) -> Result:
    """Return feedback that the call was cancelled together with the run."""
    why = "it was stopped before it ended, because the run was; what it had done is unknown"
    return describe_failure(replace(tool_failed(name, why), type="cancelled", hint=""))


_DONE = "It was carried out before the run was interrupted; what it returned is lost."
_NOT_DONE = "it was not carried out, because the run was interrupted"


def describe_unknown(name: str) -> Result:
    """Return feedback that a call had begun before a crash, and its effects are not known."""
    why = "the run was interrupted while it ran; whether it was carried out is unknown"
    return describe_failure(replace(tool_failed(name, why), type="unknown", hint=_MAYBE_DONE))


def describe_found(name: str, *, done: bool) -> Result:
    """Return what a person or a function found out about a call that had begun."""
    if done:
        return Result((Text(_DONE),))
    return describe_failure(replace(tool_failed(name, _NOT_DONE), hint=_NOT_SENT))


def tell_late(late: ToolEndedLate) -> tuple[Content, ...]:
    """Return a note with the outcome of a tool whose call was reported as timed out."""
    how = "Its result" if late.status is Status.DONE else "It failed"
    said = (
        f"Note: the tool {show(late.call.name)}, whose call {show(late.call.id)} was reported as "
        f"timed out, has ended since. {how}:\n"
    )
    return (Text(said), *late.result.content)


# ── Runs ────────────────────────────────────────────────────────────────────────────

_CAPS = {
    Stop.TURNS: "it reached its turn limit ({limits.turns})",
    Stop.CALLS: "it reached its call limit ({limits.calls})",
    Stop.SECONDS: "it reached its time limit ({limits.seconds:g} seconds)",
    Stop.TOKENS: "it reached its token limit ({limits.tokens})",
    Stop.IDENTICAL: "the model made the same call {limits.stop_identical} times",
}
CAPS = frozenset(_CAPS)
"""The endings of runs that were stopped before the model had finished."""
_BEGUN = frozenset(Status) - {Status.DENIED, Status.SKIPPED}


def tell_stop(stop: Stop, limits: RunLimits, *, ended: Iterable[ToolEnded]) -> str:
    """Return why a run was stopped without an answer, and the results of its calls so far."""
    why = _CAPS[stop].format(limits=limits)
    said = f"The run was stopped without an answer from the model, because {why}."
    begun = [each for each in ended if each.status in _BEGUN]
    if not begun:
        return f"{said} No tool had given a result."
    lines = [f"- {each.call.name}: {_sum_up(each)}" for each in begun[-_RESULTS:]]
    left_out = len(begun) - len(lines)
    earlier = f" (the last {_RESULTS} of {len(begun)})" if left_out else ""
    return "\n".join([f"{said} Results so far{earlier}:", *lines])


def _sum_up(ended: ToolEnded) -> str:
    text = cut(" ".join(ended.result.text.split()))
    return text if ended.status is Status.DONE else f"({ended.status.value}) {text}"


def _describe(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        message = cut(str(error), _MESSAGE)
    # `__str__` is the tool's code, too, and may raise.
    except Exception:  # noqa: BLE001
        message = ""
    return f"{kind}: {message}" if message else kind


# One call being run: its attempts, the wrappers around it, and what came of it.


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
    journal: RunJournal | None = None
    """Where the calls of a durable run are written down."""
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


class CallRunner:
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

    async def inquire(self, journal: RunJournal) -> CallOutcome | None:
        """Find out what became of the call before a crash; None: it is to begin again."""
        tool, name = self._tool, self._call.name
        rule = tool.on_crash or ("rerun" if tool.repeatable else "unknown")
        found: object = None
        match rule:
            case "rerun":
                return None
            case "unknown":
                pass
            case "ask":
                decision = journal.restored.decisions.get(self._call.id)
                if decision is None:
                    raise await journal.ask(self._call, _WHAT_BECAME.format(name=name))
                found = _DECISIONS.get(decision.decision)
            case _:
                found = await self._ask_function(rule)
        if found is _RERUN:
            return None
        match found:
            case None:
                return CallOutcome(Status.UNKNOWN, describe_unknown(name))
            case True | False:
                status = Status.DONE if found else Status.FAILED
                return CallOutcome(status, describe_found(name, done=found))
            case _:
                return CallOutcome(Status.DONE, self._cap(to_result(found)))

    async def _ask_function(self, rule: Callable[[Call, Context], object]) -> object:
        """Let the tool's function find out. One that fails knows nothing."""
        attempt = Attempt(grace=self._settings.grace, on_abandoned=self._report_abandoned)
        context = self._make_context(attempt, asyncio.get_running_loop())
        try:
            given = rule(copy_call(self._call), context)
            given = await given if isinstance(given, Awaitable) else given
        # It is the user's code, and may raise anything; then the outcome stays unknown.
        except Exception:  # noqa: BLE001
            return None
        return _RERUN if given is False else given

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
            result = describe_skipped(self._call.name, why, reason=SkipReason.HANGING)
            return CallOutcome(Status.SKIPPED, result)
        journal = self._settings.journal
        if journal is not None:
            await journal.begin(self._call, number, wait=not self._tool.repeatable)
        loop = asyncio.get_running_loop()
        self.began_at = self.began_at or loop.time()
        self._emit(ToolStarted(self.shown, number))
        attempt = Attempt(
            grace=self._settings.grace, on_abandoned=self._report_abandoned, on_late=self._take_late
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
                result = describe_timeout(name, self._seconds)
                return CallOutcome(Status.TIMED_OUT, result, given, transient=True)
            case _:
                reveal, repeatable = self._settings.reveal_errors, self._tool.repeatable
                result = describe_error(name, given, reveal=reveal, repeatable=repeatable)
                final = isinstance(given, Retry | Failed)
                return CallOutcome(Status.FAILED, result, given, transient=not final)

    # ── The tool's own code ─────────────────────────────────────────────────────────

    async def _run_tool(self, context: Context, call: Call) -> Result:
        if self._halted:
            return describe_skipped(call.name, "the run was stopped")
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
                    work, name=call.name, on_lost=self._report_abandoned, on_late=self._take_late
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
            elicit=self._make_elicit(attempt, loop),
        )

    def _make_elicit(self, attempt: Attempt, loop: asyncio.AbstractEventLoop) -> Elicit:
        async def ask(asked: Elicitation) -> Elicited:
            if attempt.is_over():
                return CANCELLED
            with attempt.pause():
                approvals = self._settings.approvals
                return await approvals.elicit(self._call, asked, emit=self._emit)

        async def ask_at_home(asked: Elicitation) -> Elicited:
            if asyncio.get_running_loop() is loop:
                return await ask(asked)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ask(asked), loop))

        return ask_at_home

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


_WHAT_BECAME = (
    "{name!r} had begun before the run was interrupted, and its outcome is unknown: "
    "decide `done`, `not_done` or `rerun`"
)
_RERUN = object()
_DECISIONS: dict[str, object] = {"done": True, "not_done": False, "rerun": _RERUN}


async def settle_crash(calling: CallRunner, journal: RunJournal) -> CallOutcome | None:
    """Return the outcome of a call that had begun before a crash; None: it is to begin again.

    The worker that began it may be alive, and may have written the real result by now.
    """
    outcome = await calling.inquire(journal)
    if outcome is None:
        return None
    status, result = outcome.status.value, outcome.result
    counts = await journal.settle(calling.shown, status=status, result=result)
    return replace(outcome, status=Status(counts.status), result=counts.result)


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
    return longest * random.uniform(0.5, 1)  # noqa: S311  # it spreads the load, and keeps no secret
