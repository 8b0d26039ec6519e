"""Calls that a person must approve before they run.

It fails closed. Only a rule that returns `False` lets a call pass unasked, and only an answer that
is `True` lets it run: a rule or an approver that raises, an answer of another type, and no answer
in time are all a no.

Every recipient gets a copy of the call: changes to it are not seen by others, and what was approved
is what runs.

A question of a tool (an elicitation) is answered by a form that fits its schema. Whatever else
comes back, or nothing, cancels it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ElicitationAnswered,
    ElicitationAsked,
)
from wholecall.errors import Fenced, RunWaiting
from wholecall.events import JSON, Call, copy_call
from wholecall.storage import StoreFailed
from wholecall.tools.tool import CANCELLED, Approve, Elicitation, Elicited, check_form

_Emit: TypeAlias = Callable[
    [ApprovalAsked | ApprovalAnswered | ElicitationAsked | ElicitationAnswered], None
]


class Approval(NamedTuple):
    """The decision whether a call may run."""

    approved: bool
    why: str = ""
    """The model reads it."""


Approver: TypeAlias = Callable[[Call], Awaitable[bool | Approval]]
"""Asked about each call that needs approval."""
Elicitor: TypeAlias = Callable[[Call, Elicitation], Awaitable[Mapping[str, JSON] | None]]
"""Answers what a tool asks the user during a call: with the form, or None to decline."""

Park: TypeAlias = Callable[[Call], Awaitable[RunWaiting]]
"""Writes down that a call waits for approval; returns what ends the run until then."""


class Approvals:
    """Asks, and takes the answers: of the approver, if there is one, and from outside.

    The first answer counts. `seconds` is how long an answer may take. Several runs may share
    it; of two calls with one id the second is refused while the first waits.
    """

    def __init__(
        self,
        approver: Approver | None = None,
        *,
        elicitor: Elicitor | None = None,
        seconds: float | None = None,
    ) -> None:
        self._approver = approver
        self._elicitor = elicitor
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}

    @property
    def pending(self) -> tuple[Call, ...]:
        """The calls that wait for an answer."""
        with self._lock:
            return tuple(copy_call(waiting.call) for waiting in self._waiting.values())

    def answer(self, call_id: str, approved: bool, *, why: str = "") -> bool:
        """Answer for a call, from any thread; False if no such call waits (any more)."""
        with self._lock:
            waiting = self._waiting.pop(call_id, None)
        if waiting is None:
            return False
        try:
            waiting.loop.call_soon_threadsafe(waiting.arrive, Approval(approved, why))
        except RuntimeError:  # the loop was closed
            return False
        return True

    async def ask(
        self, call: Call, rule: Approve, *, emit: _Emit, park: Park | None = None
    ) -> Approval:
        """Decide whether a call may run, by the rule of its tool. It may take until a person
        answers; with `park`, what that returns is raised instead."""
        if rule is False:
            return Approval(True)
        given: Approval | RunWaiting
        try:
            async with asyncio.timeout(self._seconds):
                if not await _needs_approval(rule, copy_call(call)):
                    return Approval(True)
                given = await (self._wait(call, emit) if park is None else park(call))
        except TimeoutError:
            given = Approval(False, "nobody answered in time")
        except (StoreFailed, Fenced):
            raise
        # The rule is the user's code, and whatever is wrong with it must not let a call run.
        except Exception as error:  # noqa: BLE001
            given = Approval(False, f"the rule for approvals failed ({type(error).__name__})")
        if isinstance(given, RunWaiting):
            emit(ApprovalAsked(copy_call(call)))
            raise given
        emit(ApprovalAnswered(copy_call(call), *given))
        return given

    async def elicit(self, call: Call, asked: Elicitation, *, emit: _Emit) -> Elicited:
        """Ask the user what a tool wants to know."""
        emit(ElicitationAsked(copy_call(call), asked.server, asked.message))
        given = await self._ask_user(call, asked)
        emit(ElicitationAnswered(copy_call(call), given.action))
        return given

    async def _ask_user(self, call: Call, asked: Elicitation) -> Elicited:
        if self._elicitor is None:
            return CANCELLED
        try:
            async with asyncio.timeout(self._seconds):
                content = await self._elicitor(copy_call(call), asked)
            if content is None:
                return Elicited("decline")
            form = check_form(asked, content)
        # The elicitor is the user's code, and whatever is wrong with it must not be an answer.
        except Exception:  # noqa: BLE001
            return CANCELLED
        return CANCELLED if form.problems else Elicited("accept", form.content)

    async def _wait(self, call: Call, emit: _Emit) -> Approval:
        loop = asyncio.get_running_loop()
        waiting = _Waiting(call, loop, loop.create_future())
        with self._lock:
            if self._waiting.setdefault(call.id, waiting) is not waiting:
                # Of another run. An answer must not let the wrong one of them pass.
                return Approval(False, "another call with the same id waits for an answer")
        approver = self._approver
        asked = None if approver is None else loop.create_task(self._ask(approver, waiting))
        try:
            emit(ApprovalAsked(copy_call(call)))
            return await waiting.answered
        finally:
            self._leave(waiting)
            if asked is not None:
                asked.cancel()

    async def _ask(self, approver: Approver, waiting: _Waiting) -> None:
        """Let the approver answer for this call, and for no other that has its id by then."""
        try:
            given = await approver(copy_call(waiting.call))
            approved, why = given if isinstance(given, Approval) else Approval(given)
        except asyncio.CancelledError:
            # Either we cancelled it, and no one waits any more; or the approver cancelled itself,
            # and no other answer will come.
            self._answer(waiting, Approval(False, "the approver broke off"))
            raise
        except (StoreFailed, Fenced) as error:  # of a run that was cancelled or taken over
            if self._leave(waiting) and not waiting.answered.done():
                waiting.answered.set_exception(error)
            return
        # The approver is the user's code, and whatever is wrong with it is a no.
        except Exception as error:  # noqa: BLE001
            approved, why = False, f"the approver failed ({type(error).__name__})"
        self._answer(waiting, Approval(approved, why))

    def _answer(self, waiting: _Waiting, approval: Approval) -> None:
        if self._leave(waiting):
            waiting.arrive(approval)

    def _leave(self, waiting: _Waiting) -> bool:
        """Stop waiting; return False if it was answered already."""
        id = waiting.call.id
        with self._lock:
            waits = self._waiting.get(id) is waiting
            if waits:
                del self._waiting[id]
        return waits


class _Waiting(NamedTuple):
    call: Call
    loop: asyncio.AbstractEventLoop
    answered: asyncio.Future[Approval]

    def arrive(self, given: Approval) -> None:
        """Take an answer, if it is the first. Nothing but a yes is one."""
        if not self.answered.done():
            self.answered.set_result(Approval(given.approved is True, given.why))


async def _needs_approval(rule: Approve, call: Call) -> bool:
    if isinstance(rule, bool):
        return rule
    needs = rule(call)
    if isinstance(needs, Awaitable):
        needs = await needs
    return needs is not False
