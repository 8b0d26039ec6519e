"""Run the calls of a turn concurrently, each at most once, each with exactly one result."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter
from dataclasses import dataclass

from wholecall.agent.approvals import Approval
from wholecall.agent.budget import RunLimits
from wholecall.agent.call_runner import (
    CallOutcome,
    CallRunner,
    Emit,
    ExecutorSettings,
    describe_cancelled,
    describe_denied,
    describe_error,
    describe_repeated,
    describe_skipped,
    settle_crash,
)
from wholecall.agent.run_events import (
    ApprovalAnswered,
    Status,
    ToolEnded,
    ToolEvent,
    ToolRecalled,
    ToolStarted,
)
from wholecall.arguments.feedback import SkipReason
from wholecall.errors import RunWaiting
from wholecall.events import Call, copy_call
from wholecall.journal.journal_rows import APPROVALS
from wholecall.messages import CallResult, Result
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox


@dataclass(slots=True, eq=False)
class _Place:
    call_id: str
    order: tuple[int, int]
    name: str
    barrier: bool
    concurrency: int | None
    ready: bool = False
    running: bool = False


class Schedule:
    """Calls that are not over, by their ids."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._places: dict[str, _Place] = {}
        self._in_order: list[_Place] = []
        self._added = 0
        self._running: Counter[str] = Counter()
        """The number of running calls of a tool, by its name."""
        self._alone = False
        """True if a barrier runs."""

    def add(
        self, call_id: str, number: int, *, name: str, barrier: bool, concurrency: int | None
    ) -> None:
        """Take a call in. It holds its place, but does not begin before it is ready."""
        self._added += 1
        place = _Place(call_id, (number, self._added), name, barrier, concurrency)
        self._places[call_id] = place
        insort(self._in_order, place, key=lambda place: place.order)

    def make_ready(self, call_id: str) -> None:
        """Nothing but the other calls is in the way of this one any more."""
        self._places[call_id].ready = True

    def finish(self, call_id: str) -> None:
        """A call is over, whether or not it had begun."""
        place = self._places.pop(call_id)
        self._in_order.remove(place)
        self._running[place.name] -= place.running
        self._alone = self._alone and not (place.barrier and place.running)

    def begin(self) -> list[str]:
        """The calls that begin now, in order. They count as running from here on."""
        begun: list[str] = []
        room = 0 if self._alone else self._concurrency - self._running.total()
        for place in self._in_order:
            if len(begun) >= room:
                break
            if self._may_begin(place):
                self._start(place)
                begun.append(place.call_id)
            if place.barrier:
                break
        return begun

    def _may_begin(self, place: _Place) -> bool:
        if not place.ready or place.running:
            return False
        if place.barrier:
            return place is self._in_order[0] and not self._running.total()
        return place.concurrency is None or self._running[place.name] < place.concurrency

    def _start(self, place: _Place) -> None:
        place.running = True
        self._alone = place.barrier
        self._running[place.name] += 1


# Runs the calls of a run: side by side, each at most once, each with exactly one result.
#
# A call goes through these stations, in a task of its own:
#
#     start ──▶ approval ──▶ its turn in the schedule ──▶ attempts ──▶ one result
#                  │ no                                      │
#                  ▼                                         ▼ raised, timed out
#               denied                                    failed (tried again, if harmless)
#
# Whatever a tool does (raise, exit, hang, cancel itself, return nonsense) becomes the result of its
# own call; the others go on. Events tell of every station.


@dataclass(slots=True, eq=False)
class _Job:
    """A call that is to run."""

    call: Call
    """As it is shown."""
    tool: Tool
    calling: CallRunner

    @property
    def begun(self) -> bool:
        return self.calling.began_at is not None


class Executor:
    """Runs calls as they are started; `settle` returns the results of a turn.

    Used as a context, it leaves no tool running.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        emit: Emit,
        limits: RunLimits | None = None,
        settings: ExecutorSettings | None = None,
    ) -> None:
        self._toolbox = toolbox
        self._emit_on = emit
        self._limits = limits or RunLimits()
        self._settings = settings or ExecutorSettings()
        self._schedule = Schedule(self._limits.concurrency)
        self._known: dict[str, Call] = {}
        self._working: dict[asyncio.Task[CallOutcome], _Job] = {}
        self._turns: dict[str, asyncio.Event] = {}
        self._results: dict[str, Result] = {}
        journal = self._settings.journal
        self._ran = [] if journal is None else list(journal.restored.intents.values())
        self._bugs: list[BaseException] = []
        self._cancelled = False

    async def __aenter__(self) -> Executor:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cancel()

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun, in all turns of the run: what they did is done."""
        return tuple(self._ran)

    def start(self, call: Call) -> None:
        """Run a call as soon as its tool's rules allow. A call that is known is not run again."""
        if call.id in self._known:
            return
        if self._recall(call):
            return
        tool = self._toolbox.find(call.name)
        if tool is None or tool.run is None:
            self.skip(call, "nobody here can run it", reason=SkipReason.UNAVAILABLE)
        elif self._cancelled:
            self.skip(call, "the run was stopped")
        else:
            self._known[call.id] = call
            self._begin(call, tool)

    def _recall(self, call: Call) -> bool:
        """Give a call of a restored run the result that it had, if it had one."""
        journal = self._settings.journal
        recalled = None if journal is None else journal.recall(call.id)
        if recalled is None:
            return False
        self._known[call.id] = call
        status = Status(recalled.status)
        self._emit(ToolRecalled(copy_call(call), status))
        self._results[call.id] = recalled.result
        self._emit(ToolEnded(copy_call(call), status, recalled.result, recalled.seconds))
        return True

    def skip(
        self,
        call: Call,
        why: str,
        *,
        reason: SkipReason = SkipReason.STOPPED,
        status: Status = Status.SKIPPED,
    ) -> None:
        """Give a call that is not to run its result: why not, and what to do instead."""
        if call.id not in self._known:
            self._known[call.id] = call
            result = describe_skipped(call.name, why, reason=reason)
            self._conclude(copy_call(call), CallOutcome(status, result))

    def repeat(self, call: Call, why: str, *, earlier: Result) -> None:
        """Give a call that is not to run again the result that the same call had before."""
        if call.id not in self._known:
            self._known[call.id] = call
            result = describe_repeated(call.name, why, earlier=earlier)
            self._conclude(copy_call(call), CallOutcome(Status.SKIPPED, result))

    async def settle(self) -> tuple[CallResult, ...]:
        """Wait for all calls of the turn; their results, in call order. The next turn begins."""
        await self._wait()
        if self._bugs:
            raise self._bugs.pop(0)
        results, self._results = self._results, {}
        calls = sorted((self._known[call_id] for call_id in results), key=lambda call: call.number)
        return tuple(
            CallResult(call_id=call.id, name=call.name, result=results[call.id]) for call in calls
        )

    async def cancel(self, *, keep_unsafe: bool = False) -> None:
        """Begin nothing more, and stop what runs. Every call has its result afterwards.

        With `keep_unsafe`, tools that have begun and are neither read-only nor idempotent
        run to their end: what they did must be known.
        """
        self.halt()
        for task, job in self._working.items():
            if not (keep_unsafe and job.begun and not job.tool.repeatable):
                task.cancel()
        await self._wait()

    def halt(self) -> None:
        """Start nothing more. Running tools continue; `cancel` stops them."""
        self._cancelled = True
        for task, job in self._working.items():
            job.calling.halt()
            if not job.begun:
                task.cancel()

    async def _wait(self) -> None:
        while self._working:
            await asyncio.wait(self._working)

    # ── The way of one call ─────────────────────────────────────────────────────────

    def _begin(self, call: Call, tool: Tool) -> None:
        self._schedule.add(
            call.id, call.number, name=call.name, barrier=tool.barrier, concurrency=tool.concurrency
        )
        calling = CallRunner(
            call, tool, limits=self._limits, settings=self._settings, emit=self._emit
        )
        job = _Job(calling.shown, tool, calling)
        self._turns[call.id] = asyncio.Event()
        task = asyncio.create_task(self._serve(job), name=f"call {call.id}")
        self._working[task] = job
        # Even a task that is cancelled before its first step passes here.
        task.add_done_callback(self._finish)

    async def _serve(self, job: _Job) -> CallOutcome:
        call, journal = job.call, self._settings.journal
        if journal is not None and journal.has_begun(call.id):
            found = await settle_crash(job.calling, journal)
            if found is not None:
                return found
        else:
            approval = await self._approve(job)
            if not approval.approved:
                return CallOutcome(Status.DENIED, describe_denied(call.name, approval.why))
        self._schedule.make_ready(call.id)
        self._advance()
        await self._turns[call.id].wait()
        return await job.calling.run()

    async def _approve(self, job: _Job) -> Approval:
        """Ask whether a call may run. In a durable run, what a person once said counts."""
        call, journal, approvals = job.call, self._settings.journal, self._settings.approvals
        if journal is None:
            return await approvals.ask(call, job.tool.approve, emit=self._emit)
        given = journal.restored.approvals.get(call.id)
        if given is None:
            park = journal.park if journal.parks else None
            return await approvals.ask(call, job.tool.approve, emit=self._emit, park=park)
        approval = Approval(given.decision == APPROVALS[0], given.why)
        self._emit(ApprovalAnswered(copy_call(call), *approval))
        return approval

    def _advance(self) -> None:
        for call_id in self._schedule.begin():
            self._turns[call_id].set()

    def _finish(self, task: asyncio.Task[CallOutcome]) -> None:
        job = self._working.pop(task)
        del self._turns[job.call.id]
        self._schedule.finish(job.call.id)
        self._advance()
        waits = None if task.cancelled() else task.exception()
        if isinstance(waits, RunWaiting):
            self._bugs.append(waits)  # the call has no result yet, and `settle` raises
            return
        outcome = self._read(task, job)
        self._conclude(job.call, outcome, calling=job.calling)
        job.calling.conclude(outcome.status)

    def _read(self, task: asyncio.Task[CallOutcome], job: _Job) -> CallOutcome:
        name = job.call.name
        if task.cancelled() and job.begun:
            return CallOutcome(Status.CANCELLED, describe_cancelled(name))
        if task.cancelled():
            return CallOutcome(Status.SKIPPED, describe_skipped(name, "the run was stopped"))
        error = task.exception()
        if error is None:
            return task.result()
        # A tool's errors are outcomes by now. This one is ours, and `settle` raises it.
        self._bugs.append(error)
        return CallOutcome(Status.FAILED, describe_error(name, error, reveal=False), error)

    def _conclude(
        self, call: Call, outcome: CallOutcome, *, calling: CallRunner | None = None
    ) -> None:
        """Give a call its one result."""
        self._results[call.id] = outcome.result
        seconds = blocked = 0.0
        if calling is not None and calling.began_at is not None:
            seconds = asyncio.get_running_loop().time() - calling.began_at
            blocked = calling.blocked
        status, result, error = outcome.status, outcome.result, outcome.error
        self._record(call, outcome, seconds=seconds)
        self._emit(ToolEnded(call, status, result, seconds, error=error, blocked=blocked))

    def _record(self, call: Call, outcome: CallOutcome, *, seconds: float) -> None:
        """Write the result down. What a stopped run did not begin, or broke off, has none: it is
        settled when the run is resumed."""
        journal, status = self._settings.journal, outcome.status
        stopped = self._cancelled and status in (Status.SKIPPED, Status.CANCELLED)
        if journal is None or stopped or outcome.error in self._bugs:
            return
        journal.end_call(call, status=status.value, result=outcome.result, seconds=seconds)

    def _emit(self, event: ToolEvent) -> None:
        if isinstance(event, ToolStarted) and event.attempt == 1:
            self._ran.append(event.call)
        self._emit_on(event)
