"""Real processes: what one worker began, another continues, and nothing begins twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

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
