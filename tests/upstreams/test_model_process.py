"""A process that is started when it is needed, and left alone when it keeps failing."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from upstreams.fake_endpoint import PATIENCE
from upstreams.fake_runtime import ORDER, count_starts, program
from wholecall.errors import UpstreamError
from wholecall.upstreams import model_process
from wholecall.upstreams.model_process import (
    LONGEST_DELAY,
    STEADY_SECONDS,
    ModelKeeper,
    ModelProcess,
    back_off,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Launcher:
    """Starts processes with the behaviours of a list, the last for all that follow."""

    def __init__(self, folder: Path, *behaviours: str) -> None:
        self._folder = folder
        self._behaviours = behaviours
        self.processes: list[ModelProcess] = []

    def __call__(self) -> ModelProcess:
        number = min(len(self.processes), len(self._behaviours) - 1)
        process = ModelProcess(ORDER, program(self._behaviours[number], self._folder))
        self.processes.append(process)
        return process


def make_keeper(launch: Callable[[], ModelProcess], clock: Clock) -> ModelKeeper:
    return ModelKeeper(launch, start_seconds=PATIENCE, clock=clock)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 0.0), (2, 1.0), (3, 2.0), (4, 4.0), (99, LONGEST_DELAY)]
)
def test_the_delay_grows_up_to_a_limit(failures: int, seconds: float) -> None:
    assert back_off(failures) == seconds


def test_many_ask_at_once_and_one_process_starts(tmp_path: Path) -> None:
    launch = Launcher(tmp_path, "serves")

    async def ask() -> list[str]:
        keeper = make_keeper(launch, Clock())
        try:
            addresses = await asyncio.gather(*(keeper.find_address() for _ in range(20)))
            return [*addresses, await keeper.find_address()]
        finally:
            keeper.stop()
            keeper.stop()

    assert len(set(asyncio.run(ask()))) == 1
    assert count_starts(tmp_path) == 1
    assert not launch.processes[0].is_running


def test_it_outlives_the_event_loop_that_started_it(tmp_path: Path) -> None:
    launch = Launcher(tmp_path, "serves")
    keeper = make_keeper(launch, Clock())
    try:
        assert asyncio.run(keeper.find_address()) == asyncio.run(keeper.find_address())
    finally:
        keeper.stop()
    assert count_starts(tmp_path) == 1


def test_who_stops_waiting_stops_no_loading(tmp_path: Path) -> None:
    launch = Launcher(tmp_path, "serves")
    keeper = make_keeper(launch, Clock())

    async def give_up_and_ask_again() -> str:
        waiting = asyncio.create_task(keeper.find_address())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await keeper.find_address()

    try:
        assert asyncio.run(give_up_and_ask_again()).startswith("http://")
    finally:
        keeper.stop()
    assert count_starts(tmp_path) == 1


def test_a_process_that_died_is_started_again(tmp_path: Path) -> None:
    launch = Launcher(tmp_path, "serves")
    keeper = make_keeper(launch, Clock())
    try:
        first = asyncio.run(keeper.find_address())
        launch.processes[0].stop()
        assert asyncio.run(keeper.find_address()) != first
    finally:
        keeper.stop()


def test_the_loop_goes_on_while_the_end_of_a_process_is_looked_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_process, "ENDING_SECONDS", PATIENCE)
    launch = Launcher(tmp_path, "leaves somebody behind", "serves")
    keeper = make_keeper(launch, Clock())

    async def ask_again() -> str:
        await keeper.find_address()
        await asyncio.to_thread(launch.processes[0]._process.wait)
        asked = asyncio.create_task(keeper.find_address())
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(launch.processes) == 1, "the last words of the first are still awaited"
        (tmp_path / "release").touch()
        return await asked

    try:
        assert asyncio.run(ask_again()).startswith("http://")
    finally:
        (tmp_path / "release").touch()
        keeper.stop()
    assert len(launch.processes) == 2


def test_who_asked_before_it_was_stopped_starts_nothing(tmp_path: Path) -> None:
    keeper = make_keeper(Launcher(tmp_path, "serves"), Clock())

    async def stop_first() -> None:
        with keeper._lock:  # so that the start has to wait
            asked = asyncio.create_task(keeper.find_address())
            await asyncio.sleep(0)
            keeper._stops += 1
        with pytest.raises(UpstreamError, match="was stopped before"):
            await asked

    asyncio.run(stop_first())
    assert not (tmp_path / "starts").exists()


def test_one_that_keeps_failing_is_left_alone_for_longer_and_longer(tmp_path: Path) -> None:
    clock = Clock()
    keeper = make_keeper(Launcher(tmp_path, "fails"), clock)

    def ask() -> UpstreamError:
        with pytest.raises(UpstreamError, match="bad tensor") as raised:
            asyncio.run(keeper.find_address())
        return raised.value

    for _ in range(2):  # the second attempt follows at once
        assert ask().retry_after is None
    waits = []
    for _ in range(3):
        refusal = ask()
        assert "it is tried again in" in str(refusal)
        assert refusal.retry_after is not None
        waits.append(refusal.retry_after)
        clock.now += refusal.retry_after
        assert ask().retry_after is None
    assert waits == [1.0, 2.0, 4.0]
    assert count_starts(tmp_path) == 5


def test_the_end_of_a_steady_process_is_not_held_against_it(tmp_path: Path) -> None:
    clock = Clock()
    launch = Launcher(tmp_path, "fails", "fails", "serves")
    keeper = make_keeper(launch, clock)
    try:
        for _ in range(2):
            with pytest.raises(UpstreamError, match="bad tensor"):
                asyncio.run(keeper.find_address())
        with pytest.raises(UpstreamError, match="tried again in 1 s"):
            asyncio.run(keeper.find_address())
        clock.now += 1.0
        asyncio.run(keeper.find_address())
        clock.now += STEADY_SECONDS
        launch.processes[-1].stop()
        assert asyncio.run(keeper.find_address()).startswith("http://")
    finally:
        keeper.stop()


def test_it_can_be_stopped_while_it_loads(tmp_path: Path) -> None:
    launch = Launcher(tmp_path, "hangs")
    keeper = make_keeper(launch, Clock())

    async def stop_early() -> None:
        waiting = asyncio.create_task(keeper.find_address())
        await asyncio.sleep(0)
        await asyncio.to_thread(keeper.stop)
        with pytest.raises(UpstreamError, match="it was stopped while it loaded"):
            await waiting

    asyncio.run(stop_early())
    assert not launch.processes[0].is_running


def test_why_it_failed_is_missed_by_nobody_who_has_gone(tmp_path: Path) -> None:
    told: list[object] = []
    keeper = make_keeper(Launcher(tmp_path, "hangs"), Clock())

    async def give_up_and_stop() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        waiting = asyncio.create_task(keeper.find_address())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.to_thread(keeper.stop)
        gc.collect()

    asyncio.run(give_up_and_stop())
    gc.collect()
    assert told == []
