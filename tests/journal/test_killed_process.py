"""A process is killed in the midst of a run; another one goes on, and no tool begins twice."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from local_postgres import LocalPostgres

PROGRAM = textwrap.dedent(
    """
    import asyncio, os, signal, sqlite3, sys
    sys.path.insert(0, sys.argv[1])
    import wholecall
    from scripted import calls, says
    from wholecall.upstreams.replay import ReplayUpstream

    place, moment = sys.argv[2], sys.argv[3]

    def note(word):
        with open(f"{place}/log", "a") as log:
            log.write(word + chr(10))
            log.flush()
            os.fsync(log.fileno())

    def die(at):
        if moment == at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def charge(order: str) -> str:
        note(f"began {order}")
        die("in the tool")
        return "paid"

    def is_written(key):
        with sqlite3.connect(f"{place}/runs.sqlite") as database:
            return database.execute("SELECT 1 FROM rows WHERE key LIKE ?", (key,)).fetchone()

    async def look(order: str) -> str:
        # A result is not waited for. Here it is: a kill before it is on disk is "unknown".
        while moment == "in a later tool" and not is_written("result %"):
            pass
        die("in a later tool")
        return "there"

    def watch(event):
        die(type(event).__name__)

    def model(request):
        turns = sum(message.role.value == "assistant" for message in request.messages)
        return [calls(("charge", {"order": "17"})), calls(("look", {"order": "17"})),
                says("all done")][turns]

    class Model(ReplayUpstream):
        def answer(self, request):
            self._turns = [*map(lambda _: None, self.requests), model(request)]
            return super().answer(request)

    result = wholecall.ask_sync(
        "openai/model", "Charge it", tools=[charge, wholecall.tool(read_only=True)(look)],
        upstream=Model([]), journal=sys.argv[4], id="order-17", taps=[watch],
    )
    print(result.text, [each.status.value for each in result.ended])
    """
)
MOMENTS = [
    ("TurnStarted", "['done', 'done']"),
    ("Released", "['done', 'done']"),
    ("ToolStarted", "['unknown', 'done']"),
    ("in the tool", "['unknown', 'done']"),
    ("in a later tool", "['done', 'done']"),
    ("RunEnded", "['done', 'done']"),
]


def start(
    place: Path, moment: str, *, journal: str | None = None
) -> subprocess.CompletedProcess[str]:
    tests, journal = str(Path(__file__).parents[1]), journal or f"sqlite:{place}/runs.sqlite"
    command = [sys.executable, "-c", PROGRAM, tests, str(place), moment, journal]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("moment", "statuses"), MOMENTS)
def test_a_killed_run_goes_on_in_another_process(
    tmp_path: Path, *, moment: str, statuses: str
) -> None:
    killed = start(tmp_path, moment)
    assert killed.returncode == -9, killed.stderr
    resumed = start(tmp_path, "never")
    assert resumed.stdout.strip() == f"all done {statuses}", resumed.stderr
    log = tmp_path / "log"
    began = log.read_text().splitlines() if log.exists() else []
    expected = [] if moment == "ToolStarted" else ["began 17"]
    assert began == expected


def test_a_killed_run_goes_on_from_postgresql(tmp_path: Path, postgres: LocalPostgres) -> None:
    url = postgres.make_database()
    killed = start(tmp_path, "in the tool", journal=url)
    assert killed.returncode == -9, killed.stderr
    resumed = start(tmp_path, "never", journal=url)
    assert resumed.stdout.strip() == "all done ['unknown', 'done']", resumed.stderr
    assert (tmp_path / "log").read_text().splitlines() == ["began 17"]
