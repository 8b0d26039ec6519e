"""Runs on many machines: PostgreSQL holds them, and DBOS hands them to workers.

    await wholecall.fleet.submit("openai/gpt-x", "Charge order 17", queue=queue, id="order-17")
    wholecall worker --journal postgresql://… --tool shop:charge

One durable queue, one workflow for each run, and no steps in it: a workflow resumes its run, and
the journal is the only truth. What DBOS gives is the queue with its limits, over all workers. A
workflow of a dead worker stays PENDING, and one that raised is over, so three small loops look
after them:

1. *Reap*: the workflows of workers without a sign of life go back to the queue.
2. *Sweep*: so do those that are PENDING under our own name and do not run here.
3. *Reconcile*: an open run without an open workflow gets a new one, named `run~epoch`.

The first and the last are done by one worker at a time, the one that holds an advisory lock.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Unpack

from wholecall.agent.api import Question, RunOptions, make_row
from wholecall.errors import RunFailed, RunWaiting, WholecallError, require_extra
from wholecall.journal.journal_rows import EndRow, Row, encode_row
from wholecall.journal.postgres_journal import PostgresJournal, find_store
from wholecall.journal.postgres_server import connect
from wholecall.journal.run_journal import ClaimState, RunRow, RunStatus

MOST_ATTEMPTS = 50
"""Workers that may take a run over. DBOS's own count starts anew with every resume."""
_QUEUE = "runs"
_WORKFLOW = "wholecall_run"
_SCHEMA = "wholecall_dbos"
_VERSION = "runs-1"
"""A constant. DBOS would not give the work of one version to the workers of another."""
_PAUSE = 0.1
_OPEN = ("DELAYED", "ENQUEUED", "PENDING")
_LONGEST_DELAY = 60.0
_MOST_RUNS = 1000
"""Runs that one round of reconciling looks at."""
_MIGRATION_LOCK = 0x77686F6C_64626F73
_REAPER_LOCK = 0x77686F6C_72656170
_LOG = logging.getLogger(__name__)


class FleetLimits(NamedTuple):
    """Limits on the runs that are carried out. The last worker to start sets them for all."""

    worker: int = 20
    """At a time by one worker."""
    fleet: int | None = None
    """At a time by all of them."""
    key: int | None = None
    """At a time for one API key."""
    rate: tuple[int, float] | None = None
    """So many may begin in so many seconds."""
    poll: float = 1.0
    """Seconds between two looks at the queue."""


def _load_dbos() -> Any:
    require_extra("a fleet of workers", "fleet")
    return importlib.import_module("dbos")


class RunQueue:
    """The durable queue of runs, for those who submit them and those who look after it."""

    def __init__(self, url: str) -> None:
        """Make DBOS's tables, in a schema of their own, unless they are there."""
        dbos = _load_dbos()
        self.url = url
        with connect(url) as connection:  # any number of processes may start at once
            # An index that is made concurrently waits for every open statement, so none waits here.
            query = "SELECT pg_try_advisory_lock(%s)"
            while not connection.execute(query, (_MIGRATION_LOCK,)).fetchone()[0]:
                time.sleep(_PAUSE)
            dbos.DBOS.migrate(url, schema=_SCHEMA)
        self._client = dbos.DBOSClient(
            system_database_url=url,
            dbos_system_schema=_SCHEMA,
            # The default is pickle: to write to the tables would be to run code here.
            serializer=dbos.DBOSPortableJSONSerializer(),
            system_database_pool_size=2,
            application_name="wholecall",
            retry_connection_errors=False,
        )

    def enqueue(self, run: RunRow) -> None:
        """Put a run into the queue, once for each epoch; one that failed waits longer each time."""
        delay = min(2.0 ** (run.epoch - 2), _LONGEST_DELAY) if run.epoch > 1 else 0.0
        options = {
            "queue_name": _QUEUE,
            "workflow_name": _WORKFLOW,
            "workflow_id": f"{run.id}~{run.epoch}",
            "app_version": _VERSION,
            "queue_partition_key": run.key_id or "none",
            **({"delay_seconds": delay} if delay else {}),
        }
        self._client.enqueue(options, run.id)

    def list_pending(self) -> list[tuple[str, str]]:
        """Return the workflows that a worker has taken, each with the worker's name."""
        found = self._list("PENDING")
        return [(each.workflow_id, each.executor_id or "") for each in found]

    def find_open(self) -> set[str]:
        """Return the ids of the runs that have an open workflow."""
        return {each.workflow_id.rpartition("~")[0] for each in self._list(*_OPEN)}

    def put_back(self, workflows: Iterable[str]) -> None:
        """Put the workflows of dead workers back into the queue."""
        named = list(workflows)
        if named:
            self._client.resume_workflows(named, queue_name=_QUEUE)

    def close(self) -> None:
        """Close the connections."""
        self._client.destroy()

    def _list(self, *statuses: str) -> list[Any]:
        options = {"status": list(statuses), "name": _WORKFLOW}
        return list(self._client.list_workflows(**options, load_input=False, load_output=False))


async def submit(
    model: str, prompt: Question, *, queue: RunQueue, **options: Unpack[RunOptions]
) -> str:
    """Write a run down and put it into the queue; return its id. The same id is one run.

    Give the tools to the workers: a journal holds no functions. If this process dies between the
    two steps, a worker puts the run into the queue.
    """
    options["journal"] = options.get("journal", queue.url)
    journal, row = find_store(options["journal"]), make_row(model, prompt, **options)
    claim = await asyncio.wrap_future(journal.open_run(row))
    if claim.state in {ClaimState.NEW, ClaimState.TAKEN}:
        ready = journal.append(row.id, (), epoch=claim.run.epoch, status=RunStatus.READY)
        journal.let_go(row.id)
        await asyncio.wrap_future(ready)
        await asyncio.to_thread(queue.enqueue, claim.run)
    return row.id


class FleetWorker:
    """Carries out the runs of the queue, on the event loop that starts it.

    DBOS is launched in a thread: on the loop's own it would take over the loop's executor, and to
    end it there would hold up the loop.
    """

    def __init__(
        self,
        journal: PostgresJournal,
        resume: Callable[[str], Awaitable[object]],
        *,
        limits: FleetLimits | None = None,
    ) -> None:
        self._journal = journal
        self._resume = resume
        self._limits = limits or FleetLimits()
        self._queue = RunQueue(journal.url)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: set[str] = set()
        """The workflows that run here."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._suspects: set[str] = set()
        self._session: Any = None
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="wholecall fleet", daemon=True)

    async def start(self) -> None:
        """Begin to take runs from the queue."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._launch)
        self._keeper.start()

    async def stop(self) -> None:
        """Take no more runs, and hand those that are being carried out to other workers."""
        self._closing.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._end)

    # ── Workflows ───────────────────────────────────────────────────────────────────

    def _launch(self) -> None:
        dbos = _load_dbos()
        config = {
            "name": "wholecall",
            "system_database_url": self._journal.url,
            "dbos_system_schema": _SCHEMA,
            "serializer": dbos.DBOSPortableJSONSerializer(),
            "application_version": _VERSION,
            "executor_id": self._journal.worker,
            "sys_db_pool_size": 4,
            "run_migrations": False,  # the queue has made the tables
            "log_level": "ERROR",
        }
        dbos.DBOS(config=config)

        async def carry_out(run_id: str) -> str:  # DBOS takes no methods
            return await self._carry_out(run_id)

        try:
            dbos.DBOS.workflow(name=_WORKFLOW, max_recovery_attempts=None)(carry_out)
            dbos.DBOS.listen_queues([_QUEUE])
            dbos.DBOS.launch()
            dbos.DBOS.register_queue(_QUEUE, **self._describe_queue(), on_conflict="always_update")
        except BaseException:
            # Without this, a second launch would silently do nothing.
            dbos.DBOS.destroy(destroy_registry=True)
            self._queue.close()
            raise

    def _describe_queue(self) -> dict[str, Any]:
        limits, rate = self._limits, self._limits.rate
        worker = limits.worker if limits.fleet is None else min(limits.worker, limits.fleet)
        return {
            "worker_concurrency": worker,  # DBOS refuses one above that of the fleet
            "global_concurrency": limits.fleet,
            "partition_concurrency": limits.key,
            "limiter": None if rate is None else {"limit": rate[0], "period": rate[1]},
            "polling_interval_sec": limits.poll,
        }

    async def _carry_out(self, run_id: str) -> str:
        """Resume a run, on our own loop. It never raises: a workflow that did could not be put
        back."""
        assert self._loop is not None  # noqa: S101 - a workflow runs after the start
        workflow = _load_dbos().DBOS.workflow_id
        self._running.add(workflow)
        try:
            resumed = asyncio.run_coroutine_threadsafe(self._resume_run(run_id), self._loop)
            return await asyncio.wrap_future(resumed)
        except asyncio.CancelledError:
            return "handed over"
        finally:
            self._running.discard(workflow)

    async def _resume_run(self, run_id: str) -> str:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        if self._closing.is_set():
            return "not begun"
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._resume(run_id)
        except (RunFailed, RunWaiting) as error:
            return str(error)
        except WholecallError as error:
            _LOG.warning("the run %r goes back to the queue: %s", run_id, error)
            return str(error)
        except Exception as error:  # noqa: BLE001 - a bug of a tool must not strand the run
            _LOG.exception("the run %r could not be resumed", run_id)
            return repr(error)
        return "done"

    def _end(self) -> None:
        if self._keeper.is_alive():
            self._keeper.join()
        _load_dbos().DBOS.destroy(destroy_registry=True, workflow_completion_timeout_sec=5)
        self._queue.close()
        self._drop_session()

    # ── The three loops ─────────────────────────────────────────────────────────────

    def _keep(self) -> None:
        while not self._closing.wait(self._limits.poll):
            try:
                self.look_after()
            except Exception as error:  # noqa: BLE001 - SQLAlchemy's, psycopg's and our own
                _LOG.warning("the queue of runs cannot be checked: %s", error)
                self._drop_session()

    def look_after(self) -> None:
        """Do one round of all three loops."""
        pending = self._queue.list_pending()
        self._sweep(pending)
        if self._is_reaper():
            living = self._journal.find_living(self._session)
            self._reap(pending, living)
            self._reconcile(living)

    def _sweep(self, pending: list[tuple[str, str]]) -> None:
        """Put back what is ours and does not run here; seen twice, because it may just begin."""
        mine = {id for id, worker in pending if worker == self._journal.worker}
        lost = mine - self._running
        self._queue.put_back(lost & self._suspects)
        self._suspects = lost - self._suspects

    def _reap(self, pending: list[tuple[str, str]], living: set[str]) -> None:
        self._queue.put_back(id for id, worker in pending if worker not in living)

    def _reconcile(self, living: set[str]) -> None:
        """Put open runs into the queue that have no workflow there."""
        statuses = (RunStatus.READY, RunStatus.RUNNING)
        runs = self._journal.list_runs(statuses, most=_MOST_RUNS).result()
        open_runs = self._queue.find_open()
        for run in runs:
            has_owner = run.status is RunStatus.RUNNING and run.owner in living
            if run.background and not has_owner and run.id not in open_runs:
                self._give_back(run)

    def _give_back(self, run: RunRow) -> None:
        if run.epoch < MOST_ATTEMPTS:
            self._queue.enqueue(run)
            return
        claim = self._journal.claim(run.id).result()
        if claim is not None and claim.state is ClaimState.TAKEN:
            why = f"given up: {MOST_ATTEMPTS} workers began it, and none ended it"
            rows = [Row("end", encode_row(EndRow(error=why)))]
            ended = self._journal.append(
                run.id, rows, epoch=claim.run.epoch, status=RunStatus.FAILED, stop=why
            )
            self._journal.let_go(run.id)
            ended.result()

    def _is_reaper(self) -> bool:
        """Return True if this worker holds the lock; it keeps it as long as its session lasts."""
        if self._session is None:
            self._session = connect(self._journal.url)
        held = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        if self._session.execute(held).fetchone() is not None:
            return True
        query = "SELECT pg_try_advisory_lock(%s)"
        return bool(self._session.execute(query, (_REAPER_LOCK,)).fetchone()[0])

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):  # it may be gone already
                session.close()
