"""The journal of one run, and the store that holds the journals of all.

A run is a row with an owner and an epoch, and an append-only list of rows. Three rules make it
safe, whatever is killed when:

1. A tool that must not be repeated begins after its intent is on disk, under the epoch of the
   worker that begins it. So after a crash it is known what may have begun.
2. A row is appended only under the epoch that owns the run. A worker that lost its run while it was
   stopped is `Fenced`, and begins nothing more. A result is the exception: it is accepted from the
   worker that wrote the intent, because what a tool did stays true.
3. The end row and the status of the run are one change: a run is never over and open at once.

Nothing else is waited for: an `answer` or `turn` row that is lost at the end costs a request to the
model, and no tool begins twice for it.
"""

from __future__ import annotations

import asyncio
import enum
import queue
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from wholecall.errors import Fenced, RunFailed, RunWaiting, UpstreamError, WholecallError
from wholecall.events import Call
from wholecall.journal.journal_rows import (
    CANCEL,
    AnswerRow,
    AskRow,
    BrokenRow,
    DecisionRow,
    EndRow,
    IntentRow,
    RecalledCall,
    Restored,
    ResultRow,
    Row,
    TurnRow,
    decode_row,
    encode_row,
    read_call,
    read_result,
    restore,
    write_parts,
    write_result,
)
from wholecall.messages import Part, Result
from wholecall.storage import StoreFailed
from wholecall.tools.tool import Elicitation

_Result = TypeVar("_Result")
_Made = TypeVar("_Made")
_Settled: TypeAlias = tuple["asyncio.Future[None]", BaseException | None]
LEASE = 15.0
"""Seconds after which a worker that gives no sign of life has lost its runs."""
REFUSED_SECONDS = 120.0
"""Seconds for which a run that failed after a tool had begun keeps its handles from a request that
does not say that it was sent before. Some clients send one again up to three times within a minute,
after any error, and do not say so."""
MOST_CLAIMED = 4
"""Runs in one claim: the other workers take the rest."""
MOST_ASKED = 1000
"""Questions that are listed, the oldest first."""
LAZY_SECONDS = 0.005
"""The longest wait for a commit of what no one waits for: the next intent takes it along."""
GATHER_SECONDS = 0.002
"""The wait for the changes of other runs, so that they share a commit."""
STORE_FAILED = "the journal of runs cannot be used"
REPLACED = "an equal request was sent anew, and nothing had begun"
_RELEASING = frozenset({"release", "decision", "approval"})
TOO_LATE = DecisionRow("deny", "nobody answered in time")
NO_ANSWER = DecisionRow(CANCEL, "nobody answered in time")
_APPROVE = "the call of {name!r} waits for approval: decide `approve` or `deny`"


class RunStatus(enum.Enum):
    """The status of a run."""

    READY = "ready"
    """No worker has it."""
    RUNNING = "running"
    WAITING = "waiting"
    """A person has to decide, or a tool is missing."""
    CLIENT = "client"
    """The client has to run its own calls."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    """A row of it cannot be read."""


OVER = frozenset({RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.BROKEN})
ANSWERED = OVER | {RunStatus.CLIENT}
"""Nothing is appended any more. What the client returns begins another run, which continues it."""


class RunRow(NamedTuple):
    """A run as a store holds it. Times are seconds since 1970."""

    id: str
    key_id: str = ""
    model: str = ""
    status: RunStatus = RunStatus.RUNNING
    owner: str = ""
    epoch: int = 0
    created: float = 0.0
    touched: float = 0.0
    due: float = 0.0
    """When it may be deleted, unless it waits; 0: not before it is over. Its end sets it anew."""
    stop: str = ""
    """Why it waits, failed or is broken."""
    background: bool = False
    """True if any worker takes it over when its own has died. Others are resumed by a client."""
    plan: bytes = b""


def _to_bytes(body: bytes | memoryview | str) -> bytes:
    """Return a body. SQLite returns a text if a hand has changed it."""
    return body.encode() if isinstance(body, str) else bytes(body)


def make_run(row: Sequence[Any]) -> RunRow:
    """Make a run of the columns of a store; `ValueError` if its status is none."""
    run = RunRow(*row)
    status, background = RunStatus(run.status), bool(run.background)
    return run._replace(status=status, background=background, plan=_to_bytes(run.plan))


COLUMNS = "id, key_id, model, status, owner, epoch, created, touched, due, stop, background"


class ClaimState(enum.Enum):
    """The result of a claim."""

    NEW = "new"
    TAKEN = "taken"
    """The run was there without a living owner, and is ours now."""
    BUSY = "busy"
    """Its owner is alive."""
    OVER = "over"


class Claim(NamedTuple):
    """A run, its rows, and whether it is ours."""

    state: ClaimState
    run: RunRow
    rows: tuple[Row, ...] = ()
    before: str = ""
    """The owner that it was taken from."""

    @property
    def has_begun(self) -> bool:
        """True if a tool has begun."""
        return any(row.key.startswith("intent ") for row in self.rows)

    def keeps_handles(self, now: float) -> bool:
        """Return True if an equal request must not begin anew yet: what had begun would repeat."""
        if self.run.status in (RunStatus.DONE, RunStatus.CLIENT) or not self.has_begun:
            return False
        return self.state is not ClaimState.OVER or now - self.run.touched < REFUSED_SECONDS


def find_last_release(claim: Claim) -> int:
    """Return the epoch in which an operator or a decision last let a run go on; 0: none has."""
    released = (row for row in claim.rows if row.key.partition(" ")[0] in _RELEASING)
    return max((row.epoch for row in released), default=0)


class NewRows:
    """Rows of a run on their way to disk. Those of all runs that wait are written together.

    Await them to return when they are on disk. No one awaits lazy ones: they are committed with the
    next change for which someone waits, or soon.
    """

    waits = True
    """They wait for a store that is away."""
    __slots__ = ("_note", "_written", "epoch", "id", "rows")

    def __init__(
        self, run: RunRow, rows: Sequence[Row], *, note: Callable[[BaseException], None], lazy: bool
    ) -> None:
        """`note` is called in the store's thread with what prevented the rows."""
        self.id, self.epoch, self.rows = run.id, run.epoch, rows
        self._note = note
        self._written = None if lazy else asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, None]:
        if self._written is not None:
            yield from self._written.__await__()

    @property
    def is_wanted(self) -> bool:
        """False if the task that awaits them was cancelled: then they are not written."""
        return self._written is None or not self._written.cancelled()

    @staticmethod
    def settle(outcomes: Iterable[tuple[NewRows, BaseException | None]]) -> None:
        """Say what became of rows, in the store's thread. Each event loop is woken once."""
        awaited: dict[asyncio.AbstractEventLoop, list[_Settled]] = {}
        for new, error in outcomes:
            if error is not None:
                new._note(error)
            if new._written is not None:
                awaited.setdefault(new._written.get_loop(), []).append((new._written, error))
        for loop, settled in awaited.items():
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(_wake, settled)


def _wake(settled: Iterable[_Settled]) -> None:
    for written, error in settled:
        if written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)


class StoreChange(NamedTuple):
    """A change to a journal, and what came of it."""

    make: Callable[[Any], Any]
    made: Future[Any]
    waits: bool = False
    """True if it waits for a server that is away."""

    @property
    def is_wanted(self) -> bool:
        """False if no one waits for it any more: then it is not made."""
        return self.made.set_running_or_notify_cancel()


def _make(database: Any, change: StoreChange) -> Any:
    try:
        return change.make(database)
    except Fenced as error:  # before anything was written
        return error


def split_added(added: Sequence[Row | bytes]) -> tuple[list[Row], list[bytes]]:
    """Return the rows and the frames."""
    rows = [each for each in added if isinstance(each, Row)]
    return rows, [each for each in added if isinstance(each, bytes)]


def settle(changes: Sequence[StoreChange | NewRows], outcomes: Sequence[Any]) -> None:
    """Say what came of changes: of rows at the end, to wake their tasks together."""
    rows = []
    for change, outcome in zip(changes, outcomes, strict=True):
        if isinstance(change, NewRows):
            rows.append((change, outcome))
        elif isinstance(outcome, BaseException):
            change.made.set_exception(outcome)
        else:
            change.made.set_result(outcome)
    NewRows.settle(rows)


class ChangeQueue(queue.SimpleQueue[Any]):
    """The changes that wait for their commit, for any thread."""

    def __init__(self) -> None:
        self.is_closing = False
        self._is_urgent = threading.Event()

    def add(self, change: Any, *, lazy: bool) -> None:
        """Add a change. A `lazy` one is committed with the next other one, or soon."""
        if self.is_closing:
            settle([change], [StoreFailed(f"{STORE_FAILED}: it is closed")])
            return
        self.put(change)
        if not lazy and not self._is_urgent.is_set():
            self._is_urgent.set()

    def end(self) -> None:
        """Let the thread that takes the changes end."""
        self.is_closing = True
        self.put(None)
        self._is_urgent.set()

    def gather(self, *, has_others: bool) -> None:
        """Wait for the changes that share the commit of the first one."""
        self._is_urgent.wait(LAZY_SECONDS)
        if has_others:
            time.sleep(GATHER_SECONDS)
        self._is_urgent.clear()


class StoredFrames(NamedTuple):
    """A part of the response of a run, as its client reads it, and the run without its plan."""

    run: RunRow
    bodies: tuple[bytes, ...]


class AskedCall(NamedTuple):
    """A question to a person."""

    run: RunRow
    row: Row
    at: float
    """When it was asked, in seconds since 1970."""


class JournalStore(Protocol):
    """Holds runs. Every method may be called from any thread and returns at once.

    The changes of one store are made in the order in which they were requested. A future fails with
    `StoreFailed` if the store does, with `Fenced` if the epoch is not the run's any more.
    """

    worker: str
    """The name of this worker, as owner of runs."""
    on_commit: Callable[[float], None]
    """Called in any thread with the seconds that a commit took."""
    _mine: set[str]
    """The runs that this process works on."""
    _clock: Callable[[], float]
    _changes: ChangeQueue
    _thread: threading.Thread

    def __init__(self, worker: str, *, clock: Callable[[], float]) -> None:
        self.worker, self._clock = worker, clock
        self.on_commit = lambda _: None
        self._mine, self._changes = set(), ChangeQueue()
        self._thread = threading.Thread(target=self._work, name="wholecall journal", daemon=True)

    @property
    def is_closed(self) -> bool:
        """True if nothing can be asked of it any more."""
        return not self._thread.is_alive()

    # ── Runs and their handles ──────────────────────────────────────────────────────

    def open_run(
        self, run: RunRow, handles: Sequence[str] = (), *, bare: bool = False
    ) -> Future[Claim]:
        """Insert a run with its handles. If its id or a handle is taken, claim that run instead.

        `bare`: the request does not say that it was sent before. So it takes the handles of a run
        that is over or has no living owner. One in which a tool had begun and that did not end well
        is returned (and is claimed), until it has been over for `REFUSED_SECONDS`.
        """

    def claim(self, id: str) -> Future[Claim | None]:
        """Take a run over if its owner is dead or it has none; return None for an unknown id."""
        return self._submit(lambda database: self._claim(database, id))

    def claim_abandoned(self, most: int = MOST_CLAIMED) -> Future[list[Claim]]:
        """Take over background runs that are READY, or whose workers died: the oldest first."""

    def add_handles(self, id: str, handles: Sequence[str], *, until: float) -> Future[bool]:
        """Let more names lead to a run; False, and no change, if one of them leads to another run.

        The run is kept until then (seconds since 1970), even if it is over.
        """

    def find(self, handle: str) -> Future[str | None]:
        """Return the id of the run that a handle leads to."""
        return self._submit(lambda database: self._find_handle(database, handle))

    def load(self, id: str) -> Future[Claim | None]:
        """Read a run and its rows, without a claim."""

        def read(database: Any) -> Claim | None:
            run = self._read_run(database, id)
            if run is None:
                return None
            state = ClaimState.OVER if run.status in ANSWERED else ClaimState.BUSY
            return Claim(state, run, self._read_rows(database, id))

        return self._submit(read)

    def list_runs(
        self, statuses: Sequence[RunStatus] = (), *, key_id: str | None = None, most: int = 100
    ) -> Future[list[RunRow]]:
        """Return runs without their plans, the latest first."""
        wanted = [status.value for status in statuses or tuple(RunStatus)]
        of_key = "" if key_id is None else "AND key_id = ?"
        values = [*wanted, *([] if key_id is None else [key_id]), most]
        places = ", ".join("?" * len(wanted))
        query = (
            f"SELECT {COLUMNS} FROM wholecall.runs WHERE status IN ({places}) "  # noqa: S608 - only our own words
            f"{of_key} ORDER BY touched DESC LIMIT ?"
        )
        return self._submit(
            lambda database: [make_run(row) for row in self._execute(database, query, *values)]
        )

    def list_asked(self, *, key_id: str | None = None) -> Future[list[AskedCall]]:
        """Return the questions to people that no one has answered, of runs that are not over."""

        def read(database: Any) -> list[AskedCall]:
            found = self._read_asked(database, key_id)
            return [
                AskedCall(make_run(run), Row(key, _to_bytes(body), epoch), at)
                for key, body, epoch, at, *run in found
            ]

        return self._submit(read)

    def count_open(self) -> Future[dict[RunStatus, int]]:
        """Return how many runs are not over, by their status."""
        query = (
            "SELECT status, count(*) FROM wholecall.runs "
            "WHERE status IN ('ready', 'running', 'waiting', 'client') GROUP BY status"
        )
        return self._submit(
            lambda database: {
                RunStatus(name): count for name, count in self._execute(database, query)
            }
        )

    def cancel(self, id: str, why: str, *, frames: Sequence[bytes] = ()) -> Future[bool]:
        """End a run that is not over, under a new epoch: its owner is fenced."""

    def delete(self, id: str) -> Future[bool]:
        """Forget a run, its rows, frames and handles. Its owner is fenced."""
        query = "DELETE FROM wholecall.runs WHERE id = ?"
        return self._submit(lambda database: self._execute(database, query, id).rowcount == 1)

    def finish(self, id: str) -> Future[bool]:
        """End a run that waited for the client's own calls; False if it did not."""
        query = "UPDATE wholecall.runs SET status = 'done' WHERE id = ? AND status = 'client'"
        return self._submit(lambda database: self._execute(database, query, id).rowcount == 1)

    def let_go(self, id: str) -> None:
        """This process works no more on a run, whatever the store says."""
        self._mine.discard(id)
        query = (
            "UPDATE wholecall.runs SET status = 'ready', owner = '' "
            "WHERE id = ? AND owner = ? AND status = 'running'"
        )

        def change(database: Any) -> None:
            if id not in self._mine:  # it may have been claimed anew since
                self._execute(database, query, id, self.worker)

        self._submit(change, lazy=True)

    def close(self) -> None:
        """Give up the runs of this worker, and close."""

    # ── Rows and frames ─────────────────────────────────────────────────────────────

    def append(
        self,
        id: str,
        added: Sequence[Row | bytes],
        *,
        epoch: int,
        status: RunStatus | None = None,
        stop: str = "",
    ) -> Future[None]:
        """Append rows and frames (bytes) to a run and its response, and set its status, in one
        change. A status but RUNNING lets go."""

    def write(self, new: NewRows, *, lazy: bool) -> None:
        """Append rows. Results among them are accepted as `append_result` accepts them."""
        self._changes.add(new, lazy=lazy)

    def append_result(self, id: str, call_id: str, *, body: bytes, epoch: int) -> Future[bytes]:
        """Append a result, from the owner or from the epoch of the intent; return what counts."""
        row = Row(f"result {call_id}", body, epoch)
        return self._submit(
            lambda database: self._add_result(database, id, row=row), waits=True, lazy=True
        )

    def decide(self, id: str, key: str, *, body: bytes) -> Future[bool]:
        """Append a decision under a key; False if there is one. The run becomes READY if it
        waited."""

        def change(database: Any) -> bool:
            counted = self._add(database, id, row=Row(key, body))
            if counted:
                self._release(database, id)
            return counted

        return self._submit(change)

    def read_row(self, id: str, key: str) -> Future[bytes | None]:
        """Return a row of a run."""

        def read(database: Any) -> bytes | None:
            query = "SELECT body FROM wholecall.rows WHERE run = ? AND key = ?"
            found = self._execute(database, query, id, key).fetchone()
            return None if found is None else _to_bytes(found[0])

        return self._submit(read)

    def release(self, id: str) -> Future[bool]:
        """Let a run that waits go on, whatever it waits for; False if it does not wait."""

        def change(database: Any) -> bool:
            run = self._lock_run(database, id)
            if run is None or run.status is not RunStatus.WAITING:
                return False
            self._add(database, id, row=Row(f"release {run.epoch}", b"{}"))
            return self._release(database, id)

        return self._submit(change)

    def read_frames(self, id: str, start: int = 0) -> Future[StoredFrames | None]:
        """Return the frames of a run from a number on; None for an unknown id."""

        def read(database: Any) -> StoredFrames | None:
            run = self._read_run(database, id)
            query = (
                "SELECT body FROM wholecall.frames WHERE run = ? AND number >= ? ORDER BY number"
            )
            found = self._execute(database, query, id, start)
            bodies = tuple(_to_bytes(body) for (body,) in found)
            return None if run is None else StoredFrames(run._replace(plan=b""), bodies)

        return self._submit(read)

    def _submit(
        self, make: Callable[[Any], _Made], *, waits: bool = False, lazy: bool = False
    ) -> Future[_Made]:
        """Have a change made. A `lazy` one is committed with the next other one, or soon."""
        change = StoreChange(make, Future(), waits)
        self._changes.add(change, lazy=lazy)
        return change.made

    def _make_each(self, database: Any, changes: Sequence[StoreChange | NewRows]) -> list[Any]:
        """Make changes in their order; rows of several runs that follow each other together."""
        outcomes: list[Any] = []
        for kind, group in groupby(changes, key=type):
            some: Sequence[Any] = list(group)
            made = (_make(database, change) for change in some)
            outcomes += made if kind is StoreChange else self._write_all(database, some)
        return outcomes

    def _write(self, database: Any, new: NewRows) -> Fenced | None:
        """Append rows of one run. If it is fenced, results of what it began are written."""
        results = [row for row in new.rows if row.key.startswith("result ")]
        rows = [row for row in new.rows if row not in results]
        try:
            for row in results:
                self._add_result(database, new.id, row=row._replace(epoch=new.epoch))
            self._append(database, new.id, rows=rows, epoch=new.epoch)
        except Fenced as error:
            return error
        return None

    # ── Parts of changes, in the store's thread ─────────────────────────────────────

    def _claim(self, database: Any, id: str) -> Claim | None:
        run = self._lock_run(database, id)
        if run is None:
            return None
        rows = self._read_rows(database, id)
        if run.status in ANSWERED:
            return Claim(ClaimState.OVER, run, rows)
        if run.status is RunStatus.RUNNING and self._is_at_work(database, run):
            return Claim(ClaimState.BUSY, run, rows)
        epoch, now = run.epoch + 1, self._clock()
        query = (
            "UPDATE wholecall.runs SET owner = ?, epoch = ?, status = 'running', touched = ?, "
            "stop = '' WHERE id = ?"
        )
        self._execute(database, query, self.worker, epoch, now, id)
        self._take_in(database, id)
        status, owner = RunStatus.RUNNING, self.worker
        taken = run._replace(owner=owner, epoch=epoch, status=status, touched=now, stop="")
        return Claim(ClaimState.TAKEN, taken, rows, run.owner)

    def _take_in(self, database: Any, id: str) -> None:  # noqa: ARG002 - some need it
        """Work on a run."""
        self._mine.add(id)

    def _find_handle(self, database: Any, name: str) -> str | None:
        query = "SELECT run FROM wholecall.handles WHERE name = ?"
        found = self._execute(database, query, name).fetchone()
        return None if found is None else str(found[0])

    def _find_taken(self, database: Any, id: str, *, handles: Sequence[str]) -> str | None:
        """Return the run that has one of these names."""
        for name in handles:
            run = self._find_handle(database, name)
            if run is not None:
                return run
        return None if self._read_run(database, id) is None else id

    def _read_run(self, database: Any, id: str) -> RunRow | None:
        query = f"SELECT {COLUMNS}, plan FROM wholecall.runs WHERE id = ?"  # noqa: S608 - only our own words
        row = self._execute(database, query, id).fetchone()
        return None if row is None else make_run(row)

    def _read_rows(self, database: Any, id: str) -> tuple[Row, ...]:
        query = "SELECT key, body, epoch FROM wholecall.rows WHERE run = ? ORDER BY number"
        found = self._execute(database, query, id)
        return tuple(Row(key, _to_bytes(body), epoch) for key, body, epoch in found)

    def _release(self, database: Any, id: str) -> bool:
        """Make a run READY if it waits."""
        query = (
            "UPDATE wholecall.runs SET status = 'ready', stop = '' "
            "WHERE id = ? AND status = 'waiting'"
        )
        return bool(self._execute(database, query, id).rowcount == 1)

    # ── What differs ────────────────────────────────────────────────────────────────

    def _execute(self, database: Any, query: str, *values: object) -> Any:
        """Execute a statement that is the same in all stores but for its marks."""

    def _work(self) -> None:
        """Make the changes until the store is closed."""

    def _lock_run(self, database: Any, id: str) -> RunRow | None:
        """Read a run that no one else changes before the commit."""
        return self._read_run(database, id)

    def _is_at_work(self, database: Any, run: RunRow) -> bool:
        """Return True if the owner of a run is alive."""

    def _read_asked(self, database: Any, key_id: str | None) -> Sequence[Sequence[Any]]:
        """Read questions: key, body, epoch, time, and the run without its plan."""

    def _write_all(self, database: Any, news: Sequence[NewRows]) -> Sequence[Fenced | None]:
        """Append rows of several runs."""

    def _append(self, database: Any, id: str, *, rows: Sequence[Row], epoch: int) -> None:
        """Append rows of one run; `Fenced` if its epoch is another one."""

    def _add(self, database: Any, id: str, *, row: Row) -> bool:
        """Append a row under whatever epoch the run has; False if it is there."""

    def _add_result(self, database: Any, id: str, *, row: Row) -> bytes:
        """Append a result; return what counts."""


class RunJournal:
    """Writes the rows of one run, under one epoch."""

    def __init__(self, store: JournalStore, claim: Claim) -> None:
        """`BrokenRow` if a row of the run cannot be read."""
        self._store = store
        self.run = claim.run
        self.is_resumed = claim.state is ClaimState.TAKEN
        self.before = claim.before
        """The worker that had it before."""
        self.restored: Restored = restore(claim.rows)
        self.turn = self.restored.turns + 1
        """The number of the open turn."""
        self.parts: Callable[[], Sequence[Part]] = tuple
        """Returns the answer as far as it is read."""
        self.kept_messages = len(self.restored.messages)
        """The number of messages in the rows of finished turns."""
        self.closes = True
        """False if the status is set with the last frames of a response, after the end row: a
        client that finds the run over finds all of its response."""
        self.parks = False
        """True if a call that needs approval ends the run, which waits in the store. Otherwise the
        answer is awaited here."""
        end = self.restored.end
        self.answered = RunStatus.CLIENT if end is not None and end.pending else RunStatus.DONE
        """The status of the run when it has its answer."""
        self.request_id = ""
        """Of the request that began the run, for the people who are asked."""
        self._failure: BaseException | None = None

    @property
    def worker(self) -> str:
        """The worker that has the run now."""
        return self._store.worker

    def check(self) -> None:
        """Raise what prevented a row that was not waited for."""
        if self._failure is not None:
            raise self._failure

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def recall(self, call_id: str) -> RecalledCall | None:
        """Return the result that a call had before the run was restored."""
        return self.restored.results.get(call_id)

    def has_begun(self, call_id: str) -> bool:
        """Return True if a call had begun before the run was restored, and has no result."""
        restored = self.restored
        return call_id in restored.intents and call_id not in restored.results

    async def begin(self, call: Call, attempt: int, *, wait: bool) -> None:
        """Write that a tool begins. With `wait`, return when that is on disk."""
        self.check()
        if attempt > 1 and not wait:
            return  # the intent is there; the tool may be repeated
        attempt += self.restored.attempts.get(call.id, 0)
        row = IntentRow(call, attempt, write_parts(self.parts()))
        number = f".{attempt}" if attempt > 1 else ""
        clock = asyncio.get_running_loop().time
        asked_at = clock()
        intent = Row(f"intent {self.turn}{number} {call.id}", encode_row(row))
        written = self._write(intent, lazy=not wait)
        if not wait:
            return
        await written
        if clock() - asked_at > LEASE / 2:
            # The process was stopped: another worker may have the run, and have settled the call.
            run = self.run
            await asyncio.wrap_future(self._store.append(run.id, (), epoch=run.epoch))

    def end_call(self, call: Call, *, status: str, result: Result, seconds: float) -> None:
        """Write the result of a call."""
        row = ResultRow(call, status, write_result(result), seconds)
        self._write(Row(f"result {call.id}", encode_row(row)), lazy=True)

    async def settle(self, call: Call, *, status: str, result: Result) -> RecalledCall:
        """Write the result of a call that had begun elsewhere; return the one that counts.

        The worker that began it may still be alive, and may have written the real one.
        """
        row = ResultRow(call, status, write_result(result))
        run, body = self.run, encode_row(row)
        written = self._store.append_result(run.id, call.id, body=body, epoch=run.epoch)
        row = decode_row(ResultRow, await asyncio.wrap_future(written))
        return RecalledCall(read_call(row.call), row.status, read_result(row.result), row.seconds)

    async def ask(self, call: Call, why: str) -> RunWaiting:
        """Write that a person has to say what became of a call; return the exception that says
        so."""
        await self._ask(f"ask {call.id}", call)
        return RunWaiting(why, id=self.run.id)

    async def park(self, call: Call) -> RunWaiting:
        """The same of a call that a person has to approve before it begins."""
        await self._ask(f"approval_ask {call.id}", call)
        return RunWaiting(_APPROVE.format(name=call.name), id=self.run.id)

    async def await_approval(self, call: Call, *, until: float, pace: float) -> DecisionRow:
        """Ask a person to approve a call, and wait for the decision; at the end of the time (in
        seconds since 1970) the call is denied. An earlier question keeps its own time."""
        question = f"approval_ask {call.id}"
        await self._ask(question, call, until=until)
        before = self.restored.asked.get(question)
        until = until if before is None else before.until or until
        return await self._await(f"approval {call.id}", until=until, pace=pace, late=TOO_LATE)

    async def await_answer(
        self, call: Call, asked: Elicitation, *, until: float, pace: float
    ) -> DecisionRow:
        """Ask the user what a tool wants to know, and wait for the answer. What a tool asked
        before a crash is asked again: it begins anew, or not at all."""
        name = f"{call.id}?{secrets.token_hex(4)}"
        row = AskRow(call, until, self.request_id, asdict(asked))
        await self._write(Row(f"approval_ask {name}", encode_row(row)))
        key = f"approval {name}"
        try:
            return await self._await(key, until=until, pace=pace, late=NO_ANSWER)
        except asyncio.CancelledError:
            # Nothing waits for it any more, so it is not shown any more.
            self._store.decide(self.run.id, key, body=encode_row(NO_ANSWER))
            raise

    async def _await(
        self, key: str, *, until: float, pace: float, late: DecisionRow
    ) -> DecisionRow:
        """Wait for a decision. At the end of the time it is `late`."""
        clock, body = time.time, None
        while body is None and clock() < until:
            # A run that was cancelled, or taken over, asks no one any more.
            await asyncio.wrap_future(self._store.append(self.run.id, (), epoch=self.run.epoch))
            body = await asyncio.wrap_future(self._store.read_row(self.run.id, key))
            if body is None:
                await asyncio.sleep(min(pace, max(until - clock(), 0.0)))
        if body is None:
            row = encode_row(late)
            await asyncio.wrap_future(self._store.decide(self.run.id, key, body=row))
            body = await asyncio.wrap_future(self._store.read_row(self.run.id, key))
        return late if body is None else decode_row(DecisionRow, body)

    async def _ask(self, key: str, call: Call, *, until: float = 0.0) -> None:
        if key not in self.restored.asked:
            row = AskRow(call, until, self.request_id)
            await self._write(Row(key, encode_row(row)))

    # ── Turns ───────────────────────────────────────────────────────────────────────

    def append(self, key: str, row: AnswerRow | TurnRow) -> None:
        """Append a row that is not waited for."""
        self.check()
        self._write(Row(key, encode_row(row)), lazy=True)

    async def end(self, rows: Sequence[Row], *, status: RunStatus, stop: str = "") -> None:
        """Append the last rows and end the run, in one change."""
        self.check()
        run, now, self.answered = self.run, status if self.closes else None, status
        written = self._store.append(run.id, rows, epoch=run.epoch, status=now, stop=stop)
        await asyncio.wrap_future(written)

    async def carry_out(self, work: Awaitable[_Result]) -> _Result:
        """Do the work of the run, and write what becomes of it if that raises.

        A failed run is over. One that an upstream failed, or that was cancelled with its process,
        is READY, and can be resumed.
        """
        try:
            return await work
        except RunWaiting as error:
            await self._leave(RunStatus.WAITING, str(error))
            raise
        except RunFailed as error:
            row = EndRow(error=str(error), text=error.text)
            await self.end([Row("end", encode_row(row))], status=RunStatus.FAILED, stop=str(error))
            raise
        except UpstreamError as error:
            if self.closes:
                await self._leave(RunStatus.READY, str(error))
            raise
        except asyncio.CancelledError:
            await self._leave(RunStatus.READY, "")
            raise
        finally:
            self.parts = tuple  # it refers to the turn, which refers to the loop
            if self.closes:
                self._store.let_go(self.run.id)

    async def _leave(self, status: RunStatus, stop: str) -> None:
        run = self.run
        try:
            # A cancelled task may wait once more; the store answers within its own time limit.
            left = self._store.append(run.id, (), epoch=run.epoch, status=status, stop=stop)
            await asyncio.wrap_future(left)
        except WholecallError:
            return  # another worker has it, or finds it without an owner

    def _write(self, row: Row, *, lazy: bool = False) -> NewRows:
        new = NewRows(self.run, (row,), note=self._note, lazy=lazy)
        self._store.write(new, lazy=lazy)
        return new

    def _note(self, error: BaseException) -> None:
        self._failure = error


async def open_journal(
    store: JournalStore, run: RunRow, *, handles: Sequence[str] = (), poll: float = 0.25
) -> RunJournal:
    """Insert or take over a run. While another worker has it, wait for its end.

    A run that is over is not claimed: its `restored.end` says how it ended.
    """
    claim = await asyncio.wrap_future(store.open_run(run, handles))
    while claim.state is ClaimState.BUSY:
        await asyncio.sleep(poll)
        found = await asyncio.wrap_future(store.claim(claim.run.id))
        if found is None:
            raise RunFailed(f"the run {claim.run.id!r} was deleted")
        claim = found
    return await make_journal(store, claim)


async def make_journal(store: JournalStore, claim: Claim) -> RunJournal:
    """Restore a claimed run. One with a row that cannot be read becomes `broken`."""
    try:
        journal = RunJournal(store, claim)
        if claim.state is ClaimState.OVER and journal.restored.end is None:
            run = claim.run
            raise RunFailed(f"the run {run.id!r} is {run.status.value}: {run.stop}")
        return journal
    except BrokenRow as error:
        if claim.state is ClaimState.TAKEN:
            run, broken = claim.run, RunStatus.BROKEN
            written = store.append(run.id, (), epoch=run.epoch, status=broken, stop=str(error))
            await asyncio.wrap_future(written)
            store.let_go(run.id)
        raise RunFailed(f"the run {claim.run.id!r} is broken: {error}") from error
