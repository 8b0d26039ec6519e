"""Blocking code runs in threads that can be let go."""

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from wholecall.agent.call_runner import Threads

USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


def run_in(threads: Threads, work: Callable[[], object]) -> object:
    return asyncio.run(threads.run(work, name="t", on_lost=lambda: None))


def test_it_runs_in_a_daemon_with_the_caller_s_context() -> None:
    async def scenario() -> object:
        USER.set("ann")
        return await Threads().run(
            lambda: (
                USER.get(),
                threading.current_thread().daemon,
                threading.current_thread().name,
            ),
            name="weather",
            on_lost=lambda: None,
        )

    assert asyncio.run(scenario()) == ("ann", True, "wholecall weather")


@pytest.mark.parametrize(
    "error", [ValueError("x"), StopIteration(1), SystemExit(3), KeyboardInterrupt()], ids=repr
)
def test_what_it_raises_is_returned(error: BaseException) -> None:
    def work() -> None:
        raise error

    assert run_in(Threads(), work) is error


def test_a_thread_that_is_let_go_is_counted_until_it_ends() -> None:
    threads = Threads()
    hang, begun, ended = threading.Event(), threading.Event(), threading.Event()
    lost: list[int] = []

    def work() -> None:
        begun.set()
        hang.wait(30)
        ended.set()

    async def scenario() -> None:
        task = asyncio.create_task(
            threads.run(work, name="t", on_lost=lambda: lost.append(threads.lost))
        )
        await asyncio.to_thread(begun.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert lost == [1]
        hang.set()
        while threads.lost:
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert ended.is_set()


def test_a_thread_that_is_over_is_not_lost() -> None:
    threads = Threads()

    async def scenario() -> None:
        over = threading.Event()
        lost: list[int] = []

        async def cancel_when_over() -> None:
            """Cancel between the end of the thread and the loop's hearing of it."""
            caller = asyncio.create_task(
                threads.run(over.set, name="t", on_lost=lambda: lost.append(1))
            )
            await asyncio.sleep(0)
            over.wait(30)
            for thread in threading.enumerate():
                if thread.name == "wholecall t":
                    thread.join(30)
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller

        await cancel_when_over()
        assert (lost, threads.lost) == ([], 0)

    asyncio.run(scenario())


def test_a_thread_may_outlive_its_loop() -> None:
    threads = Threads()
    hang, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        hang.wait(30)

    async def scenario() -> None:
        task = asyncio.create_task(threads.run(work, name="outlives", on_lost=lambda: None))
        await asyncio.sleep(0)
        begun.wait(30)
        task.cancel()

    asyncio.run(scenario())
    [thread] = [each for each in threading.enumerate() if each.name == "wholecall outlives"]
    hang.set()
    thread.join(30)
    assert threads.lost == 0


PROGRAM = """
import asyncio, threading
from wholecall.agent.call_runner import THREADS

async def main():
    begun = threading.Event()
    def hang():
        begun.set()
        threading.Event().wait()
    task = asyncio.create_task(THREADS.run(hang, name="t", on_lost=lambda: print("lost")))
    await asyncio.sleep(0)
    begun.wait()
    task.cancel()
    await asyncio.wait([task])
    print(THREADS.lost)

asyncio.run(main())
"""


def test_a_thread_that_hangs_does_not_keep_the_process_alive() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["lost", "1"]
