"""Work that goes on although nobody waits for it; tests/e2e/test_proxy_background.py has more."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from typing import Any

from proxy_server import in_loop
from wholecall.protocols.response_base import ResponseHead
from wholecall.proxy.handlers.background import Background
from wholecall.proxy.handlers.idempotency import SharedStream
from wholecall.proxy.routes.responses import After

HEAD = ResponseHead(id="resp_1", model="m", created=7, rest={"background": True})


def show(work: Background) -> Any:
    return json.loads(work.show())


@in_loop
async def test_before_it_is_begun_nothing_can_be_cancelled_of_it() -> None:
    work = Background(HEAD)
    assert (show(work)["status"], show(work)["id"]) == ("in_progress", "resp_1")
    await work.cancel()
    assert show(work)["status"] == "cancelled"
    assert work.is_over


@in_loop
async def test_what_ended_without_a_word_has_failed() -> None:
    async def nothing() -> None:
        """Nothing is written."""

    work = Background(HEAD)
    await work.answer.start(nothing, break_off=nothing)
    assert work.is_over
    assert (show(work)["status"], show(work)["error"]["code"]) == ("failed", "server_error")


FRAMES = b"".join(
    b'event: x\ndata: {"type":"x","sequence_number":%d,"text":"\\"sequence_number\\":0"}\n\n' % n
    for n in range(4)
)


def test_what_was_seen_is_left_out() -> None:
    assert After(-1)(FRAMES) == FRAMES
    assert After(1)(FRAMES).count(b"event:") == 2
    assert After(3)(FRAMES) == b""
    assert After(9)(b": a comment\n\n") == b": a comment\n\n"


@in_loop
async def test_a_reader_may_leave_and_the_work_goes_on() -> None:
    go_on = asyncio.Event()
    work = Background(HEAD)

    async def write() -> None:
        await go_on.wait()

    task = work.answer.start(write, break_off=write)
    for read, number in (((FRAMES,), 3), ((b": a comment\n\n", FRAMES), 3), ((), 0)):
        farewell = work.answer.farewell(iter(read))
        assert b"stream_left" in farewell
        assert b'"sequence_number":%d,' % number in farewell
    go_on.set()
    await task
    assert not task.cancelled()


@in_loop
async def test_what_is_kept_does_not_keep_whoever_made_it() -> None:
    class Maker:
        def beat(self) -> bytes:
            return b"beat"

        async def work(self) -> None:
            """Nothing is written."""

    maker, answer = Maker(), SharedStream()
    answer.beat = maker.beat
    gone = weakref.ref(maker)
    task = answer.start(maker.work, break_off=maker.work)
    del maker
    await task
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None
    assert answer.is_over
