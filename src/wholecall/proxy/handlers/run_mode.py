"""The mode `run`: the server's tools run here, the client runs those that it brought along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from wholecall.agent.approvals import Approvals
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.loop import Loop
from wholecall.agent.run import Plan, RunResult
from wholecall.agent.run_events import ApprovalAsked, RunEvent, ToolEnded, ToolReported
from wholecall.agent.tool_middleware import RunNext
from wholecall.events import Call
from wholecall.messages import Request, Result
from wholecall.proxy.handlers.idempotency import ToolNotice
from wholecall.proxy.handlers.mixed_tools import MixedTools
from wholecall.proxy.handlers.response_writer import ResponseWriter, RunView
from wholecall.proxy.observe.taps import ExchangeWatch
from wholecall.tools.toolbox import Toolbox

_BETWEEN_CHUNKS = (ToolReported, ToolEnded, ApprovalAsked)


class PatientExecutor(Executor):
    """Lets tools that must not be cancelled finish, although no one waits for them."""

    async def cancel(self, *, keep_unsafe: bool = True) -> None:
        """Begin nothing more; stop what may be stopped."""
        await super().cancel(keep_unsafe=keep_unsafe)


def join_tools(server: Toolbox, request: Request) -> tuple[Toolbox, Request]:
    """The tools of both sides in one box, and the request that offers them.

    A client that brings a tool of the same name along means its own.
    """
    brought = {spec.name for spec in request.tools}
    ours = [tool for tool in server if tool.name not in brought]
    toolbox = Toolbox([*ours, *request.tools])
    return toolbox, replace(request, tools=tuple(toolbox.offer.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The client of a run."""

    key_id: str
    request_id: str
    mixed_tools: MixedTools
    approvals: Approvals
    """The approvals of its calls."""
    notice: ToolNotice | None = None
    """Put up before a tool begins that must not begin twice."""


class RunMode:
    """Carries out one run for one client."""

    def __init__(
        self,
        plan: Plan,
        writer: ResponseWriter,
        *,
        owner: Owner,
        watch: ExchangeWatch,
        wake: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._writer = writer
        self._owner = owner
        self._watch = watch
        self._wake = wake
        self._view = RunView(writer)

    @property
    def ran(self) -> bool:
        """True if a tool has begun."""
        return self._view.ran

    async def run(self) -> None:
        """Take turns, and hand the answer over."""
        loop = Loop(
            self._plan,
            make_executor=self._make_executor,
            emit=self._take,
            room=self._writer.flush,
        )
        result = await loop.run()
        self._view.conclude(result, await self._hand_over(result))

    def _make_executor(self, emit: Callable[[RunEvent], None]) -> Executor:
        owner = self._owner
        settings = ExecutorSettings(
            run_id=owner.request_id,
            user=owner.key_id or None,
            approvals=owner.approvals,
            around=() if owner.notice is None else (partial(_run_noted, self._plan, owner.notice),),
        )
        return PatientExecutor(
            self._plan.toolbox, emit=emit, limits=self._plan.limits, settings=settings
        )

    def _take(self, event: RunEvent) -> None:
        self._watch.take(event)
        self._view.take(event)
        if isinstance(event, _BETWEEN_CHUNKS):
            self._wake()  # while tools run, no chunk comes that would send it

    async def _hand_over(self, result: RunResult) -> tuple[Call, ...]:
        """The client's calls. What it does not see of the run is kept until it comes back."""
        if not result.pending or not result.ended:
            return result.pending
        return await self._owner.mixed_tools.keep(self._owner.key_id, result)


async def _run_noted(plan: Plan, notice: ToolNotice, call: Call, run_next: RunNext) -> Result:  # noqa: PLR0917 - the last two come by place
    tool = plan.toolbox.find(call.name)
    if tool is None or not tool.repeatable:
        await notice.put_up()
    return await run_next(call)
