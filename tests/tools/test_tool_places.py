"""Calls of one tool wait for each other, in one event loop and in several."""

import asyncio
import threading

import pytest

from wholecall.tools.tool import Places


def test_so_many_are_in_at_a_time_and_the_others_come_in_order() -> None:
    async def scenario() -> list[str]:
        places = Places(2)
        said: list[str] = []
        leave = {name: asyncio.Event() for name in "abcd"}

        async def visit(name: str) -> None:
            async with places:
                said.append(f"{name} in")
                await leave[name].wait()
            said.append(f"{name} out")

        visits = {name: asyncio.create_task(visit(name)) for name in "abcd"}
        await step()
        assert said == ["a in", "b in"]
        for name in "bcad":
            leave[name].set()
            await visits[name]
        return said

    assert asyncio.run(scenario()) == [
        *("a in", "b in"),
        *("b out", "c in"),
        *("c out", "d in"),
        *("a out", "d out"),
    ]


async def step() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_gives_up_waiting_leaves_no_gap() -> None:
    async def scenario() -> None:
        places = Places(1)
        await places.__aenter__()
        quitter = asyncio.create_task(places.__aenter__())
        patient = asyncio.create_task(places.__aenter__())
        await step()
        quitter.cancel()
        await step()
        assert not patient.done()
        await places.__aexit__()
        await patient

    asyncio.run(scenario())


def test_who_gives_up_when_called_in_passes_the_place_on() -> None:
    async def scenario() -> None:
        places = Places(1)
        await places.__aenter__()
        quitter = asyncio.create_task(places.__aenter__())
        patient = asyncio.create_task(places.__aenter__())
        await step()
        await places.__aexit__()  # the quitter is called in, and hears of it later
        quitter.cancel()
        await patient
        assert quitter.cancelled()

    asyncio.run(scenario())


def test_a_place_that_nobody_waits_for_is_free_again() -> None:
    async def scenario() -> None:
        places = Places(1)
        for _ in range(3):
            async with places:
                pass

    asyncio.run(scenario())


def test_loops_in_several_threads_share_the_places() -> None:
    places = Places(1)
    inside = 0
    most = 0

    async def visit() -> None:
        nonlocal inside, most
        for _ in range(50):
            async with places:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=asyncio.run, args=(visit(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == 1
    assert inside == 0


def test_a_loop_that_was_closed_is_passed_over() -> None:
    places = Places(1)
    gone = asyncio.new_event_loop()
    gone.run_until_complete(places.__aenter__())
    waiting = gone.create_task(places.__aenter__())
    gone.run_until_complete(step())
    gone.close()

    async def scenario() -> None:
        await places.__aexit__()
        async with places:
            pass

    asyncio.run(scenario())
    waiting.get_coro().close()


def test_a_tool_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="not 0"):
        Places(0)
