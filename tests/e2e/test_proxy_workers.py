"""Real processes: what one worker began, another continues, and nothing begins twice."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from serve_processes import Serving, is_alive, read_effects, serve_processes

SECONDS = 20.0
"""To wait for something before the test fails."""


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


def retrieve(serving: Serving, id: str, *, query: str = "") -> bytes:
    return serving.get(f"/v1/responses/{id}{query}")[1]


def find_owner(folder: Path, run: str) -> int:
    """The process in which the tool of a run has begun; 0 if it has not."""
    path = folder / "effects.log"
    lines = path.read_text().splitlines() if path.exists() else []
    owners = (line.split()[2] for line in lines if line.startswith(f"began {run}"))
    return int(next(owners, 0))


def test_one_idempotency_key_four_times_at_once_begins_the_tool_once(tmp_path: Path) -> None:
    with serve_processes(tmp_path) as serving, ThreadPoolExecutor(16) as pool:

        def ask(number: int) -> tuple[int, bytes]:
            key = f"key {number // 4}"
            body = {"model": "m", "messages": [{"role": "user", "content": key}]}
            return serving.post("/v1/chat/completions", body, idempotency_key=key)

        answers = list(pool.map(ask, range(16)))
    began, ended = read_effects(tmp_path)
    assert [status for status, _ in answers] == [200] * 16
    assert all(b"All done." in body for _, body in answers)
    assert list(began.values()) == list(ended.values()) == [1] * 4


def test_another_worker_continues_a_response_and_its_stream(tmp_path: Path) -> None:
    with serve_processes(tmp_path, seconds=2.0) as serving:
        asked = {"model": "m", "input": "Do it.", "background": True}
        _, body = serving.post("/v1/responses", asked)
        id = json.loads(body)["id"]
        owner = until(lambda: find_owner(tmp_path, id), "the tool did not begin")
        os.kill(owner, signal.SIGKILL)

        def is_completed() -> bool:
            return bool(json.loads(retrieve(serving, id))["status"] == "completed")

        until(is_completed, "the response was not completed")
        whole = retrieve(serving, id, query="?stream=true")
        rest = retrieve(serving, id, query="?stream=true&starting_after=1")
    began, _ = read_effects(tmp_path)
    assert list(began.values()) == [1]
    assert whole.endswith(rest)
    assert b"response.created" in whole
    assert b"response.created" not in rest
    assert b"All done." in rest
    assert '"event":"run taken over"' in serving.read_log()


def test_the_workers_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with serve_processes(tmp_path) as serving:
        workers = serving.list_workers()
        assert len(workers) == 2
        assert serving.process is not None
        serving.process.kill()
        until(lambda: not any(map(is_alive, workers)), "a worker serves on")


# ── Signals, starts and what is forked ──────────────────────────────────────────────


def send_group(serving: Serving, number: int) -> list[int]:
    """Signal the supervisor and its workers at once, as a terminal does; return the workers."""
    assert serving.process is not None
    workers = serving.list_workers()
    os.killpg(serving.process.pid, number)
    return workers


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_group_ends_all_in_order(tmp_path: Path, *, number: int) -> None:
    with serve_processes(tmp_path, workers=3, seconds=1.0) as serving, ThreadPoolExecutor(1) as one:
        assert serving.process is not None
        until(lambda: len(serving.list_workers()) == 3, "a worker is missing")
        asked = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
        answer = one.submit(serving.post, "/v1/chat/completions", asked)
        until(lambda: find_owner(tmp_path, ""), "the tool did not begin")
        workers = send_group(serving, number)
        assert answer.result()[0] == 200, "an answer in progress was cut"
        assert serving.process.wait(SECONDS) == 0
        assert not any(map(is_alive, workers))
        assert "Traceback" not in serving.read_log()
        assert '"level":"error"' not in serving.read_log()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wait", [0.0, 0.05, 0.4])
def test_a_signal_while_workers_start(tmp_path: Path, *, number: int, wait: float) -> None:
    with serve_processes(tmp_path, workers=3, start=False) as serving:
        process = serving.begin()
        until(lambda: "OPENAI_BASE_URL" in serving.read_log(), "it did not start")
        until(serving.list_workers, "no worker started")
        time.sleep(wait)
        send_group(serving, number)
        if number == signal.SIGHUP:
            until(serving.is_ready, "it does not serve")
            send_group(serving, signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        until(lambda: not list_group(process.pid), "a process is left")
        assert "Traceback" not in serving.read_log()


def list_group(number: int) -> list[str]:
    """The processes of a group that are alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, group, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(group) == number and state != "Z":
            found.append(stat.parent.name)
    return found


def test_a_hangup_of_the_group_replaces_each_worker_once(tmp_path: Path) -> None:
    with serve_processes(tmp_path, workers=2) as serving:
        until(lambda: len(serving.list_workers()) == 2, "a worker is missing")
        before = send_group(serving, signal.SIGHUP)
        until(lambda: not set(before) & set(serving.list_workers()), "a worker was not replaced")
        after = serving.list_workers()
        time.sleep(1.5)  # a second round would begin
        assert serving.list_workers() == after
        assert len(after) == 2
        assert not any(map(is_alive, before))
        assert '"level":"error"' not in serving.read_log()


WRONG = "models: {m: {upstream: nonsense}}"


def test_no_worker_can_start_so_it_ends_with_a_status(tmp_path: Path) -> None:
    with serve_processes(tmp_path, start=False) as serving:
        server = "\n  - {mcp: gone, command: /none/such}\n"
        with (tmp_path / "wholecall.yaml").open("a") as file:
            file.write(server)
        process = serving.begin()
        assert process.wait(SECONDS) == 3
        assert not list_group(process.pid)


FAILS_ONCE = """
from pathlib import Path
from time import sleep

mark = Path(__file__).with_name("mark")
try:
    mark.touch(exist_ok=False)
except FileExistsError:
    sleep(3.0)
else:
    raise SystemExit(3)

def look() -> str:
    return "here"
"""


def test_a_worker_that_cannot_start_at_first_ends_no_other(tmp_path: Path) -> None:
    with serve_processes(tmp_path, start=False) as serving:
        (tmp_path / "looking.py").write_text(FAILS_ONCE)
        with (tmp_path / "wholecall.yaml").open("a") as file:
            file.write("\n  - python: looking:look\n")
        process = serving.begin()
        until(serving.is_ready, "no worker serves")
        until(lambda: len(serving.list_workers()) == 2, "it does not come back")
        assert process.poll() is None
        assert serving.read_log().count("a process could not start") == 1


def test_a_worker_that_cannot_come_back_ends_no_other_and_is_tried_with_rests(
    tmp_path: Path,
) -> None:
    with serve_processes(tmp_path) as serving:
        until(lambda: len(serving.list_workers()) == 2, "a worker is missing")
        time.sleep(1.0)  # pinged at least once
        file = tmp_path / "wholecall.yaml"
        right = file.read_text()
        file.write_text(WRONG)
        lost, kept = serving.list_workers()
        os.kill(lost, signal.SIGKILL)
        time.sleep(5.0)
        log = serving.read_log()
        assert is_alive(kept)
        assert serving.is_ready()
        assert 1 <= log.count("ended before it was ready") <= 6, log
        assert "Traceback" not in log
        file.write_text(right)
        until(lambda: len(serving.list_workers()) == 2, "it does not come back")


def test_what_workers_are_forked_from_has_one_thread_and_no_tools(tmp_path: Path) -> None:
    with serve_processes(tmp_path, start=False) as serving:
        tools = tmp_path / "chaos_tools.py"
        begun = "import threading, time\n"
        begun += "threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()\n"
        begun += "kept = open(__file__)\n"
        tools.write_text(begun + tools.read_text())
        serving.start()
        assert serving.process is not None
        place = Path(f"/proc/{serving.process.pid}")
        assert len(list(place.joinpath("task").iterdir())) == 1
        opened = [os.readlink(each) for each in place.joinpath("fd").iterdir()]
        assert not [name for name in opened if "sqlite" in name or name == str(tools)]
        worker, *_ = until(serving.list_workers, "no worker")
        until(lambda: holds_file(worker, tools), "the worker has not imported the tools")


def holds_file(pid: int, path: Path) -> bool:
    try:
        return str(path) in [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False


def test_a_changed_tool_is_imported_anew_after_a_hangup(tmp_path: Path) -> None:
    with serve_processes(tmp_path, workers=2) as serving:
        assert serving.process is not None
        tools = tmp_path / "chaos_tools.py"
        tools.write_text(tools.read_text().replace('note("began", context)', "pass"))
        before = serving.list_workers()
        serving.process.send_signal(signal.SIGHUP)
        until(lambda: not set(before) & set(serving.list_workers()), "a worker was not replaced")
        asked = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
        assert serving.post("/v1/chat/completions", asked)[0] == 200
        began, ended = read_effects(tmp_path)
        assert (len(began), len(ended)) == (0, 1)


def test_a_tool_that_cannot_be_imported_ends_the_start_with_its_name(tmp_path: Path) -> None:
    with serve_processes(tmp_path, start=False) as serving:
        (tmp_path / "chaos_tools.py").write_text("1 / 0")
        process = serving.begin()
        assert process.wait(SECONDS) == 3
        assert "Traceback" not in serving.read_log()
        assert "ZeroDivisionError" in serving.read_log()
        assert not list_group(process.pid)


@pytest.mark.parametrize("name", ["json", "uvicorn", "signal"])
def test_a_module_in_the_current_folder_shadows_nothing(tmp_path: Path, *, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} of the folder')\n")
    with serve_processes(tmp_path, start=False) as serving:
        serving.command = (str(Path(sys.executable).with_name("wholecall")),)
        serving.start()
        assert "of the folder" not in serving.read_log()


def test_where_nothing_can_be_forked_new_interpreters_serve(tmp_path: Path) -> None:
    start = "import sys, wholecall.proxy.server as s; s.FORKS = False; "
    start += "from wholecall.__main__ import main; main()"
    with serve_processes(tmp_path, start=False) as serving:
        serving.command = (sys.executable, "-c", start)
        serving.start()
        assert serving.process is not None
        until(lambda: len(serving.list_workers()) == 3, "two workers and a tracker")
        workers = serving.list_workers()
        serving.process.terminate()
        assert serving.process.wait(SECONDS) == 0
        until(lambda: not any(map(is_alive, workers)), "a process is left")
        assert "Traceback" not in serving.read_log()
