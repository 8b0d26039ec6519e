"""Processes that are replaced one by one."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import uvicorn
from uvicorn.config import STARTUP_FAILURE

from wholecall.proxy.config.schema import Config, McpTool, PythonTool
from wholecall.proxy.server import START_SECONDS, WorkerProcess, Workers, find_patience


class Fake:
    """A process that is never started: it is ready after so many questions, or ends."""

    made: ClassVar[list[Fake]]
    ready_after = 0
    lives = True
    hanging = False
    exitcode = -9
    on_question: Any = staticmethod(lambda: None)

    served = True
    ended = False
    pid = 7

    def __init__(self, *_: object, **__: object) -> None:
        self.asked = 0
        self.done: list[str] = []
        self.process = self
        self.made.append(self)

    def is_alive(self) -> bool:
        return self.lives

    def hangs(self, _: float) -> bool:
        return self.hanging

    def is_ready(self, _: float) -> bool:
        self.asked += 1
        self.on_question()
        return self.asked > self.ready_after

    def __getattr__(self, name: str) -> Any:
        return lambda: self.done.append(name)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    class Mine(Fake):
        made: ClassVar[list[Fake]] = []

    monkeypatch.setattr("wholecall.proxy.server.WorkerProcess", Mine)
    monkeypatch.setattr("wholecall.proxy.server._PAUSE", 0.0)
    before = {each: signal.getsignal(each) for each in signal.valid_signals()}
    with socket.socket() as bound:
        made = Workers(uvicorn.Config("none", log_config=None), sockets=[bound])
        made.processes = [Mine(), Mine()]  # type: ignore[list-item]  # as far as they are used here
        yield made
    for each, handler in before.items():
        if handler is not None and signal.getsignal(each) is not handler:
            signal.signal(each, handler)


def fakes(workers: Workers) -> list[Fake]:
    made: list[Fake] = type(workers.processes[0]).made  # type: ignore[attr-defined]
    return made


def test_each_process_is_replaced_when_another_is_ready(workers: Workers) -> None:
    type(fakes(workers)[0]).ready_after = 3
    workers.restart_all()
    first, second, *fresh = fakes(workers)
    assert first.done == second.done == ["terminate", "join"]
    assert [each.done for each in fresh] == [["start"], ["start"]]
    assert [*map(id, workers.processes)] == [*map(id, fresh)]


STOPS: dict[str, tuple[dict[str, Any], str]] = {
    "it ends": ({"lives": False}, "did not start"),
    "it takes too long": ({"ready_after": 10**9}, "was not ready after 0 seconds"),
}


@pytest.mark.parametrize(("how", "why"), STOPS.values(), ids=STOPS)
def test_if_a_new_process_is_not_ready_the_others_go_on_and_that_is_told(
    workers: Workers, caplog: pytest.LogCaptureFixture, *, how: dict[str, Any], why: str
) -> None:
    for name, value in how.items():
        setattr(type(fakes(workers)[0]), name, value)
    workers.patience = 0.0
    workers.restart_all()
    first, second, fresh = fakes(workers)
    assert (first.done, second.done, fresh.done) == ([], [], ["start", "kill", "join"])
    assert "new configuration not applied" in caplog.text
    assert why in caplog.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_comes_before_a_change(
    workers: Workers, caplog: pytest.LogCaptureFixture, *, number: int
) -> None:
    kind = type(fakes(workers)[0])
    kind.ready_after = 10**9
    kind.on_question = staticmethod(lambda: workers.signal_queue.append(number))
    workers.restart_all()
    assert fakes(workers)[-1].done == ["start", "kill", "join"]
    assert not caplog.text


@pytest.mark.parametrize("how", [{"lives": False}, {"hanging": True}])
def test_a_process_that_died_or_hangs_is_replaced_and_the_others_stay(
    workers: Workers, *, how: dict[str, Any]
) -> None:
    for name, value in how.items():
        setattr(workers.processes[0], name, value)
    workers.keep_subprocess_alive()
    first, second, fresh = fakes(workers)
    assert (first.done, second.done, fresh.done) == (["kill", "join"], [], ["start"])
    assert [*map(id, workers.processes)] == [id(fresh), id(second)]


def test_a_process_that_could_not_start_ends_them_all_if_none_ever_served(
    workers: Workers,
) -> None:
    kind = type(fakes(workers)[0])
    kind.lives, kind.exitcode, kind.served = False, STARTUP_FAILURE, False
    with pytest.raises(SystemExit) as raised:
        workers.keep_subprocess_alive()
    assert raised.value.code == STARTUP_FAILURE
    assert [process.done for process in fakes(workers)] == [["kill", "join"], []]


def test_a_process_that_could_not_start_is_tried_again_when_another_serves(
    workers: Workers,
) -> None:
    first, second = fakes(workers)
    kind = type(first)
    kind.served, first.lives, first.exitcode = False, False, STARTUP_FAILURE
    for _ in range(3):
        workers.keep_subprocess_alive()
    assert len(fakes(workers)) == 2
    second.served = True
    for _ in range(3):
        workers.keep_subprocess_alive()
    assert [process.done for process in fakes(workers)] == [["kill", "join"], [], ["start"]]


def test_the_last_process_that_could_not_start_ends_it(workers: Workers) -> None:
    first, second = fakes(workers)
    type(first).served, type(first).exitcode = False, STARTUP_FAILURE
    first.lives = False
    workers.keep_subprocess_alive()
    second.lives = False
    with pytest.raises(SystemExit) as raised:
        workers.keep_subprocess_alive()
    assert raised.value.code == STARTUP_FAILURE


def test_one_that_cannot_start_later_is_tried_again_after_longer_and_longer_rests(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wholecall.proxy.server._PAUSE", 1.0)
    now = 0.0
    monkeypatch.setattr("wholecall.proxy.server.time.monotonic", lambda: now)
    workers.keep_subprocess_alive()
    first, second = fakes(workers)
    kind = type(first)
    first.lives, kind.served, kind.exitcode = False, False, STARTUP_FAILURE
    second.lives = second.served = True
    kind.lives = False
    first.served = True  # it served, and was killed
    starts = []
    for now in range(200):
        before = len(fakes(workers))
        workers.keep_subprocess_alive()
        starts += [now] * (len(fakes(workers)) - before)
    assert starts == [0, 3, 8, 17, 34, 65, 96, 127, 158, 189]
    assert not workers.should_exit.is_set()
    assert second.done == []


def test_rests_do_not_grow_beyond_all_numbers(workers: Workers) -> None:
    first, second = fakes(workers)
    first.served = first.lives = False
    workers._in_vain = 5000
    workers.keep_subprocess_alive()
    assert second.done == []


def test_a_process_hangs_when_it_has_not_answered_for_so_long() -> None:
    with socket.socket() as bound:
        process = WorkerProcess(uvicorn.Config("none", log_config=None), [bound])
    assert not process.hangs(60.0)
    process.heard_at -= 61.0
    assert process.hangs(60.0)
    process.child_conn.send(True)
    assert not process.hangs(60.0)


def test_a_process_has_time_for_its_servers() -> None:
    slow = McpTool(mcp="a", command="x", start_timeout=90.0)
    late = McpTool(mcp="b", command="x", start_timeout=500.0, required=False)
    assert find_patience(Config()) == START_SECONDS
    assert find_patience(Config(tools=(PythonTool(python="a:b"), slow, late))) == START_SECONDS + 90
