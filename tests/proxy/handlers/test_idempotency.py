"""Answers for whoever reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from starlette.types import Message

from proxy_server import in_loop
from wholecall.errors import UpstreamError
from wholecall.proxy.handlers.idempotency import SharedStream
from wholecall.proxy.http.client_connection import ClientSink, ResponseBody


class Client:
    """Reads an answer."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.sink = ClientSink(self._send)

    async def _send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def read(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.messages)

    @property
    def over(self) -> bool:
        return bool(self.messages) and self.messages[-1].get("more_body") is False


async def nothing() -> None:
    """Nothing is to be said."""


Work = Callable[[], Coroutine[None, None, None]]


def start(make: Callable[[SharedStream], Work], break_off: Work = nothing) -> SharedStream:
    answer = SharedStream()
    answer.start(make(answer), break_off=break_off)
    return answer


def write_slowly(go_on: asyncio.Event, begun: asyncio.Event) -> Callable[[SharedStream], Work]:
    def make(answer: SharedStream) -> Work:
        async def work() -> None:
            answer.add_headers(((b"x", b"y"),))
            answer.put(b"")
            answer.put(b"one ")
            await answer.flush()
            begun.set()
            await go_on.wait()
            answer.put(b"two")
            answer.wake()
            await answer.close()

        return work

    return make


@in_loop
async def test_every_reader_reads_all_of_it_whenever_he_comes() -> None:
    go_on, begun = asyncio.Event(), asyncio.Event()
    answer = start(write_slowly(go_on, begun))
    assert not answer.begun
    early, late, last = Client(), Client(), Client()
    first = asyncio.create_task(answer.copy_to(early.sink))
    await begun.wait()
    second = asyncio.create_task(answer.copy_to(late.sink))
    while not late.read:
        await asyncio.sleep(0)
    assert (early.read, answer.begun) == (b"one ", True)
    go_on.set()
    await asyncio.gather(first, second)
    await answer.copy_to(last.sink)
    assert early.read == late.read == last.read == b"one two"
    assert early.over
    assert late.over
    assert answer.is_over


@in_loop
async def test_an_answer_in_one_piece_is_read_by_all() -> None:
    def make(answer: SharedStream) -> Work:
        async def work() -> None:
            await answer.send_body(ResponseBody(404, b"{}"))

        return work

    answer = start(make)
    clients = [Client(), Client()]
    for client in clients:
        await answer.copy_to(client.sink)
        assert client.messages[0]["status"] == 404
        assert client.read == b"{}"


@in_loop
async def test_one_reader_may_leave_and_the_last_one_ends_it() -> None:
    go_on, begun = asyncio.Event(), asyncio.Event()
    broken: list[str] = []
    answer = SharedStream()

    async def break_off() -> None:
        broken.append("off")
        answer.put(b"broken")

    task = answer.start(write_slowly(go_on, begun)(answer), break_off=break_off)
    first, second = Client(), Client()
    readings = [asyncio.create_task(answer.copy_to(each.sink)) for each in (first, second)]
    await begun.wait()
    while not (first.read and second.read):
        await asyncio.sleep(0)
    first.sink.note_disconnect()
    readings[0].cancel()
    await asyncio.wait([readings[0]])
    assert not broken
    left_alone = answer.gone
    second.sink.note_disconnect()
    readings[1].cancel()
    await asyncio.wait([readings[1], task])
    assert (left_alone, answer.gone) == (False, True)
    assert broken == ["off"]
    assert task.cancelled()
    assert second.read == b"one broken"
    assert second.over


@in_loop
async def test_the_end_of_the_server_is_told_to_all_readers_and_breaks_off_once() -> None:
    go_on, begun = asyncio.Event(), asyncio.Event()
    broken: list[str] = []
    answer = SharedStream()

    async def break_off() -> None:
        broken.append("off")
        answer.put(b"broken")

    task = answer.start(write_slowly(go_on, begun)(answer), break_off=break_off)
    clients = [Client(), Client(), Client()]
    readings = [asyncio.create_task(answer.copy_to(each.sink)) for each in clients]
    await begun.wait()
    while not all(each.read for each in clients):
        await asyncio.sleep(0)
    for reading in readings:
        reading.cancel()
    await asyncio.wait([*readings, task])
    assert broken == ["off"]
    assert task.cancelling() == 1
    assert {(each.read, each.over) for each in clients} == {(b"one broken", True)}


@in_loop
async def test_a_reader_of_what_nobody_makes_may_leave() -> None:
    answer = SharedStream()
    client = Client()
    reading = asyncio.create_task(answer.copy_to(client.sink))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    assert client.over


@in_loop
async def test_signs_of_life_are_those_of_the_answer() -> None:
    answer = SharedStream()
    answer.beat = lambda: b": alive\n\n"
    client = Client()
    reading = asyncio.create_task(answer.copy_to(client.sink))
    await asyncio.sleep(0)
    assert client.sink.beat() == b": alive\n\n"
    reading.cancel()
    await asyncio.wait([reading])


@in_loop
async def test_an_answer_has_a_limit() -> None:
    answer = SharedStream(most_bytes=10)
    answer.put(b"x" * 11)
    with pytest.raises(UpstreamError, match="10 bytes"):
        await answer.flush()
