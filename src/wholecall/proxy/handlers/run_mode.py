"""The mode `run`: the server's tools run here, the client runs those that it brought along."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from wholecall.agent.approvals import Approvals
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.loop import Loop
from wholecall.agent.run import Plan, RunResult
from wholecall.agent.run_events import (
    ApprovalAsked,
    ElicitationAsked,
    RunEvent,
    ToolEnded,
    ToolReported,
)
from wholecall.events import Call
from wholecall.journal.journal_rows import BrokenRow, read_call, restore
from wholecall.journal.run_journal import JournalStore, RunJournal
from wholecall.messages import (
    CallResult,
    Message,
    Part,
    PastCall,
    Request,
    Role,
)
from wholecall.proxy.handlers.response_writer import ResponseWriter, RunView
from wholecall.proxy.observe.taps import ExchangeWatch, RunOpened
from wholecall.storage import KEPT_SECONDS, StoreFailed
from wholecall.tools.toolbox import Toolbox

_BETWEEN_CHUNKS = (ToolReported, ToolEnded, ApprovalAsked, ElicitationAsked)


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
    journal: RunJournal | None = None
    """Where the run is written down."""


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
        self._journal = owner.journal
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
            journal=self._journal,
        )
        if self._journal is not None:
            if not self._journal.is_resumed:
                self._watch.take(RunOpened(self._journal.run.id))
            if self._journal.restored.rows:
                self._view.recall(self._journal.restored)
        result = await loop.run()
        self._view.conclude(result, await self._hand_over(result))

    def _make_executor(self, emit: Callable[[RunEvent], None]) -> Executor:
        owner = self._owner
        settings = ExecutorSettings(
            run_id=owner.request_id if self._journal is None else self._journal.run.id,
            user=owner.key_id or None,
            approvals=owner.approvals,
            journal=self._journal,
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
        journal, owner = self._journal, self._owner
        if journal is None or not result.pending or not result.ended:
            return result.pending
        return await owner.mixed_tools.keep(owner.key_id, result, run=journal.run.id)


# ── Mixed tools ────────────────────────────────────────────────────────────────────────


# Tools of both sides in one conversation.
#
# In one answer a model may call tools that run here and tools that only the client can run. Ours
# run at once; the client gets only its own calls, and comes back with their results and a history
# in which ours do not occur. Then the history is put together again:
#
#     what the client sends             what the model gets
#     ─────────────────────             ───────────────────
#     user                              user
#                                       assistant  calls of earlier turns    ┐
#                                       tool       their results             │ kept
#     assistant  the client's calls     assistant  all calls of this turn    ┘
#     tool       the client's results   tool       all results, in call order
#     user …                            user …
#
# What is kept are the rows of the run, which waits for the client: no task and no memory is held,
# and any worker continues the conversation. They are found by the ids of the client's calls, which
# clients send back as they got them. A provider counts its ids (`call_0`) and gives the same ones
# to others, so these are made of the run's id and the call's: a resend is answered with the same
# ones. It must also be the same key that asks.


_PREFIX = "call_wc_"
_UNREADABLE = "what the proxy keeps of this conversation cannot be read"


def make_call_id(run: str, call_id: str) -> str:
    """An id by which a call of the client's is recognised when it comes back."""
    return f"{_PREFIX}{hashlib.sha256(f'{run} {call_id}'.encode()).hexdigest()[:32]}"


def _name_handle(key_id: str, call_id: str) -> str:
    return f"call {key_id} {call_id}"


class MixedTools:
    """Finds the runs that wait for their clients, and puts the histories together again."""

    def __init__(self, find_store: Callable[[], JournalStore | None]) -> None:
        """`find_store` returns the journal of the runs; None if there is none yet."""
        self._find_store = find_store

    async def keep(self, key_id: str, result: RunResult, *, run: str) -> tuple[Call, ...]:
        """Let the client's calls lead to their run; return them under the ids that it gets to
        see."""
        calls = tuple(replace(call, id=make_call_id(run, call.id)) for call in result.pending)
        store = self._find_store()
        if store is not None:
            names = [_name_handle(key_id, call.id) for call in calls]
            until = time.time() + KEPT_SECONDS
            await asyncio.wrap_future(store.add_handles(run, names, until=until))
        return calls

    async def restore(self, key_id: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the history with the stored turns. Other messages stay as they came.

        Raise `StoreFailed` if that is unknown: without it a tool could run a second time.
        """
        ids = [id for message in messages for id in _own_ids(message)]
        store = self._find_store() if ids else None
        if store is None:
            return messages
        runs = [await asyncio.wrap_future(store.find(_name_handle(key_id, id))) for id in ids]
        turns = {run: await _read_turns(store, run) for run in set(runs) if run is not None}
        found = {id: turns[run] for id, run in zip(ids, runs, strict=True) if run is not None}
        return tuple(_splice(messages, found))


async def _read_turns(store: JournalStore, run: str) -> tuple[Message, ...]:
    """Return the messages of a run, which does not wait any more."""
    await asyncio.wrap_future(store.finish(run))
    claim = await asyncio.wrap_future(store.load(run))
    try:
        restored = restore(() if claim is None else claim.rows)
    except BrokenRow as error:
        raise StoreFailed(_UNREADABLE, why=f"{_UNREADABLE}: {run}: {error}") from error
    pending = [] if restored.end is None else map(read_call, restored.end.pending)
    ids = {call.id: make_call_id(run, call.id) for call in pending}
    return tuple(_rename(restored.messages, ids))


def _rename(messages: Iterable[Message], ids: Mapping[str, str]) -> Iterator[Message]:
    for message in messages:
        parts = (_rename_part(part, ids) for part in message.parts)
        yield replace(message, parts=tuple(parts), native=None)


def _rename_part(part: Part, ids: Mapping[str, str]) -> Part:
    if isinstance(part, PastCall) and part.id in ids:
        return replace(part, id=ids[part.id])
    return part


def _own_ids(message: Message) -> list[str]:
    calls = (part for part in message.parts if isinstance(part, PastCall))
    return [call.id for call in calls if call.id.startswith(_PREFIX)]


# ── Putting together ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Said:
    """Consecutive messages of one side."""

    role: Role
    messages: tuple[Message, ...]


def _splice(
    messages: tuple[Message, ...], found: Mapping[str, tuple[Message, ...]]
) -> Iterator[Message]:
    said = [_Said(role, tuple(group)) for role, group in groupby(messages, lambda m: m.role)]
    place = 0
    while place < len(said):
        here = said[place]
        place += 1
        kept = _find_kept(here, found)
        if kept is None:
            yield from here.messages
            continue
        follows = said[place] if place < len(said) else None
        results: tuple[Message, ...] = ()
        if follows is not None and follows.role is Role.TOOL:
            results = follows.messages
            place += 1
        yield from _join(kept, results)


def _find_kept(said: _Said, found: Mapping[str, tuple[Message, ...]]) -> tuple[Message, ...] | None:
    if said.role is not Role.ASSISTANT:
        return None
    ids = (id for message in said.messages for id in _own_ids(message))
    return next((found[id] for id in ids if id in found), None)


def _join(kept: tuple[Message, ...], brought: tuple[Message, ...]) -> Iterator[Message]:
    """Return all stored turns; after the last one, the results of both sides in call order."""
    ours = tuple(takewhile(lambda m: m.role is not Role.ASSISTANT, reversed(kept)))
    turns = kept[: len(kept) - len(ours)]
    yield from turns
    results = {
        part.call_id: part
        for message in (*ours, *brought)
        for part in message.parts
        if isinstance(part, CallResult)
    }
    calls = [part.id for part in turns[-1].parts if isinstance(part, PastCall)]
    in_order = tuple(results[id] for id in calls if id in results)
    if in_order:
        yield Message(Role.TOOL, in_order)
    yield from (message for message in reversed(ours) if message.role is not Role.TOOL)
