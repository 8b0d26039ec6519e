"""DBOS hands runs to workers, and what it leaves lying about is picked up."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from local_postgres import LocalPostgres
from scripted import calls, says
from wholecall.agent.api import RunOptions, resume
from wholecall.errors import UpstreamError
from wholecall.faults import start_in_thread
from wholecall.fleet import MOST_ATTEMPTS, FleetLimits, FleetWorker, RunQueue, submit
from wholecall.journal.postgres_journal import PostgresJournal
from wholecall.journal.postgres_server import connect
from wholecall.journal.run_journal import RunRow, RunStatus
from wholecall.upstreams.replay import ReplayUpstream

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("dbos") is None,
    reason="dbos is not installed: pip install 'wholecall[fleet]'",
)
SECONDS = 60
LIMITS = FleetLimits(poll=0.1)


@pytest.fixture(scope="module")
def tables(postgres: LocalPostgres) -> str:
    """A database with DBOS's tables: to make them takes seconds."""
    url = postgres.make_database()
    RunQueue(url).close()
    return url


@pytest.fixture
def journal(postgres: LocalPostgres, tables: str) -> Iterator[PostgresJournal]:
    opened = PostgresJournal(postgres.make_database(like=tables))
    opened.grace = 0.0
    yield opened
    opened.close()


@pytest.fixture
def queue(journal: PostgresJournal) -> Iterator[RunQueue]:
    opened = RunQueue(journal.url)
    yield opened
    opened.close()


@asynccontextmanager
async def working(
    journal: PostgresJournal,
    carry_out: Callable[[str], Awaitable[object]],
    *,
    limits: FleetLimits = LIMITS,
) -> AsyncIterator[FleetWorker]:
    worker = FleetWorker(journal, carry_out, limits=limits)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0)


def read_status(journal: PostgresJournal, id: str) -> RunStatus:
    found = journal.load(id).result()
    assert found is not None
    return found.run.status


def change_workflow(url: str, statement: str, *values: object) -> None:
    with connect(url) as connection:
        update = f"UPDATE wholecall_dbos.workflow_status SET {statement}"  # noqa: S608 - our words
        connection.execute(update, values)


class Till:
    """A tool that must not be repeated, and the model that calls it."""

    def __init__(self, journal: PostgresJournal) -> None:
        self.began: list[str] = []
        self._journal = journal

    def charge(self, order: str) -> str:
        self.began.append(order)
        return "paid"

    async def resume(self, id: str) -> None:
        asked = [calls(("charge", {"order": id})), says("Paid.")]
        upstream = ReplayUpstream(asked)
        await resume(id, journal=self._journal, tools=[self.charge], upstream=upstream)


async def submit_order(queue: RunQueue, journal: PostgresJournal, *, id: str = "17") -> None:
    await submit("openai/model", "Charge it.", queue=queue, journal=journal, id=id)


def test_a_submitted_run_is_carried_out_once(journal: PostgresJournal, queue: RunQueue) -> None:
    till = Till(journal)

    async def work() -> None:
        await submit_order(queue, journal)
        await submit_order(queue, journal)
        async with working(journal, till.resume):
            await wait_until(lambda: read_status(journal, "17") is RunStatus.DONE)
            await submit_order(queue, journal)
            # The workflow ends after its run: a worker that stops in between leaves it open.
            await wait_until(lambda: queue.find_open() == set())

    asyncio.run(work())
    assert till.began == ["17"]


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(FleetLimits(poll=0.1, fleet=1), id="one in the fleet"),
        pytest.param(FleetLimits(poll=0.1, key=1), id="one for a key"),
        pytest.param(FleetLimits(poll=0.1, worker=1, rate=(1, 0.1)), id="one in a worker"),
    ],
)
def test_a_limit_holds(journal: PostgresJournal, queue: RunQueue, *, limits: FleetLimits) -> None:
    at_work, most = set[str](), []

    async def carry_out(id: str) -> None:
        at_work.add(id)
        most.append(len(at_work))
        await asyncio.wrap_future(journal.cancel(id, "that was all"))
        at_work.discard(id)

    async def work() -> None:
        for number in range(4):
            await submit_order(queue, journal, id=f"order {number}")
        async with working(journal, carry_out, limits=limits):
            await wait_until(lambda: queue.find_open() == set())

    asyncio.run(work())
    assert most == [1, 1, 1, 1]


def test_the_tables_of_the_queue_are_made_by_many_at_once(postgres: LocalPostgres) -> None:
    url = postgres.make_database()
    barrier = threading.Barrier(4)

    def start(_: int) -> None:
        barrier.wait()
        RunQueue(url).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(start, range(4)))


def test_reap_a_workflow_of_a_dead_worker(journal: PostgresJournal, queue: RunQueue) -> None:
    till = Till(journal)

    async def work() -> None:
        await submit_order(queue, journal)
        change_workflow(journal.url, "status = 'PENDING', executor_id = 'dead'")
        async with working(journal, till.resume):
            await wait_until(lambda: read_status(journal, "17") is RunStatus.DONE)

    asyncio.run(work())
    assert till.began == ["17"]


def test_sweep_a_workflow_that_is_ours_and_does_not_run(
    journal: PostgresJournal, queue: RunQueue
) -> None:
    till = Till(journal)

    async def work() -> None:
        async with working(journal, till.resume):
            await submit_order(queue, journal)
            change_workflow(journal.url, "status = 'PENDING', executor_id = %s", journal.worker)
            await wait_until(lambda: read_status(journal, "17") is RunStatus.DONE)

    asyncio.run(work())
    assert till.began == ["17"]


def test_reconcile_an_open_run_whose_workflow_is_over(
    journal: PostgresJournal, queue: RunQueue
) -> None:
    till = Till(journal)

    async def work() -> None:
        await submit_order(queue, journal)
        change_workflow(journal.url, "status = 'ERROR'")
        # As after an upstream's failure: another epoch, and no owner.
        with connect(journal.url) as connection:
            connection.execute("UPDATE wholecall.runs SET epoch = 2")
        async with working(journal, till.resume):
            await wait_until(lambda: read_status(journal, "17") is RunStatus.DONE)

    asyncio.run(work())
    assert till.began == ["17"]


def test_a_run_is_given_up_after_many_attempts(journal: PostgresJournal, queue: RunQueue) -> None:
    till = Till(journal)

    async def work() -> None:
        await submit_order(queue, journal)
        change_workflow(journal.url, "status = 'ERROR'")
        with connect(journal.url) as connection:
            connection.execute("UPDATE wholecall.runs SET epoch = %s", (MOST_ATTEMPTS,))
        async with working(journal, till.resume):
            await wait_until(lambda: read_status(journal, "17") is RunStatus.FAILED)

    asyncio.run(work())
    assert till.began == []


def test_a_workflow_never_raises(journal: PostgresJournal, queue: RunQueue) -> None:
    tried: list[str] = []

    async def fail(id: str) -> None:
        tried.append(id)
        if len(tried) == 1:
            raise UpstreamError("the upstream is away")
        raise ZeroDivisionError

    async def work() -> None:
        await submit_order(queue, journal)
        await submit_order(queue, journal, id="18")
        async with working(journal, fail):
            await wait_until(lambda: len(tried) >= 2 and queue.find_open() == set())

    asyncio.run(work())
    assert set(tried) == {"17", "18"}


def test_a_cancelled_run_in_the_queue_does_not_begin(
    journal: PostgresJournal, queue: RunQueue
) -> None:
    till = Till(journal)

    async def work() -> None:
        await submit_order(queue, journal)
        await asyncio.wrap_future(journal.cancel("17", "not wanted any more"))
        async with working(journal, till.resume):
            await wait_until(lambda: queue.find_open() == set())

    asyncio.run(work())
    assert till.began == []
    assert read_status(journal, "17") is RunStatus.CANCELLED


def test_a_worker_that_stops_hands_its_runs_over(journal: PostgresJournal, queue: RunQueue) -> None:
    till, began = Till(journal), asyncio.Event()

    async def hang(id: str) -> None:
        upstream: Any = ReplayUpstream([calls(("wait", {}))])

        async def wait() -> str:
            began.set()
            await asyncio.Event().wait()
            return "never"

        await resume(id, journal=journal, tools=[wait], upstream=upstream)

    async def work() -> None:
        await submit_order(queue, journal)
        async with working(journal, hang):
            await began.wait()
        assert read_status(journal, "17") is RunStatus.READY
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, lambda: "the loop's executor is its own")

    asyncio.run(work())
    assert till.began == []


def test_the_arguments_of_workflows_are_json(journal: PostgresJournal, queue: RunQueue) -> None:
    asyncio.run(submit_order(queue, journal))
    with connect(journal.url) as connection:
        query = "SELECT serialization FROM wholecall_dbos.workflow_status"
        assert connection.execute(query).fetchone() == ("portable_json",)


@pytest.mark.parametrize("is_cancelled_first", [False, True])
def test_a_pending_workflow_can_be_put_back(
    journal: PostgresJournal, queue: RunQueue, *, is_cancelled_first: bool
) -> None:
    """The first way is not in DBOS's documentation, the second one is."""
    asyncio.run(submit_order(queue, journal))
    change_workflow(journal.url, "status = 'PENDING', executor_id = 'dead'")
    if is_cancelled_first:
        queue._client.cancel_workflows(["17~1"])
    queue.put_back(["17~1"])
    assert queue.list_pending() == []
    assert queue.find_open() == {"17"}


def test_a_failed_launch_can_be_tried_again(journal: PostgresJournal, queue: RunQueue) -> None:
    till = Till(journal)
    url = journal.url

    async def work() -> None:
        await submit_order(queue, journal)
        failing = FleetWorker(journal, till.resume, limits=LIMITS)
        journal.url = url.rpartition("/")[0] + "/none"
        with pytest.raises(Exception, match="none"):
            await failing.start()
        journal.url = url
        async with working(journal, till.resume):
            await wait_until(lambda: read_status(journal, "17") is RunStatus.DONE)

    asyncio.run(work())
    assert till.began == ["17"]


def test_the_run_that_is_enqueued_again_waits_longer_each_time(queue: RunQueue) -> None:
    for epoch in (1, 3):
        queue.enqueue(RunRow(f"run {epoch}", epoch=epoch))
    found = {each.workflow_id: each.status for each in queue._list("ENQUEUED", "DELAYED")}
    assert found == {"run 1~1": "ENQUEUED", "run 3~3": "DELAYED"}


# ── Processes ───────────────────────────────────────────────────────────────────────

TOOLS = """
import os, pathlib, time

def send_email(to: str, body: str) -> str:
    with open(pathlib.Path(__file__).parent / "log", "a") as log:
        log.write(f"{to}\\n")
        log.flush()
        os.fsync(log.fileno())
    held = pathlib.Path(__file__).parent / "held"
    while held.exists():
        time.sleep(0.05)
    return "sent"
"""


def start_worker(folder: Path, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "wholecall", "worker", "--tool", "mail:send_email"]
    environment = {**os.environ, "WHOLECALL_JOURNAL": url, "OPENAI_API_KEY": "none"}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_killed_worker_is_replaced_by_another_process(
    tmp_path: Path, queue: RunQueue, *, journal: PostgresJournal
) -> None:
    (tmp_path / "mail.py").write_text(TOOLS)
    (tmp_path / "held").touch()
    log = tmp_path / "log"
    with start_in_thread() as model:
        options: RunOptions = {"base_url": model.base_url, "journal": journal, "id": "17"}
        asyncio.run(submit("openai/good", "Tell Ada.", queue=queue, **options))
        first = start_worker(tmp_path, journal.url)
        asyncio.run(wait_until(log.exists))
        first.kill()
        first.communicate(timeout=SECONDS)
        (tmp_path / "held").unlink()
        second = start_worker(tmp_path, journal.url)
        asyncio.run(wait_until(lambda: read_status(journal, "17") is RunStatus.DONE))
        second.terminate()
        output, _ = second.communicate(timeout=SECONDS)
    assert second.returncode == 0
    assert "takes runs from postgresql://127.0.0.1" in output
    assert "secret-word" not in output
    assert log.read_text().splitlines() == ["ada@example.org"]


RECIPE = """
import asyncio, os, sys
import wholecall
from dbos import DBOS
from mail import send_email

url, base_url = sys.argv[1:3]

@DBOS.workflow()
async def handle_order(order: str) -> str:
    result = await wholecall.ask(
        "openai/good", "Tell Ada.", tools=[send_email], base_url=base_url, api_key="none",
        journal=url, id=f"order-{order}",
    )
    return f"{[ended.status.value for ended in result.ended]}"

async def main() -> None:
    DBOS(config={"name": "shop", "system_database_url": url, "application_version": "1",
                 "log_level": "ERROR"})
    DBOS.launch()
    if "start" in sys.argv:
        await DBOS.start_workflow_async(handle_order, "17")
    while not (found := await DBOS.list_workflows_async(status="SUCCESS")):
        await asyncio.sleep(0.1)
    print(found[0].output, flush=True)
    os._exit(0)

asyncio.run(main())
"""


def test_a_run_inside_a_workflow_of_the_users_own(tmp_path: Path, journal: PostgresJournal) -> None:
    (tmp_path / "mail.py").write_text(TOOLS)
    (tmp_path / "held").touch()
    log = tmp_path / "log"
    with start_in_thread() as model:
        command = [sys.executable, "-c", RECIPE, journal.url, model.base_url]
        pipe = subprocess.PIPE
        killed = subprocess.Popen([*command, "start"], cwd=tmp_path, stdout=pipe, text=True)
        asyncio.run(wait_until(log.exists))
        killed.kill()
        killed.communicate(timeout=SECONDS)
        (tmp_path / "held").unlink()
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    assert done.stdout.strip() == "['unknown']", done.stderr
    assert log.read_text().splitlines() == ["ada@example.org"]
