from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from exchanges import Clock, Recorder, call, exchange, watch
from scripted import says
from wholecall.errors import UpstreamError
from wholecall.events import Grew, OfChoice, Released, Text
from wholecall.messages import Message, Request, Role
from wholecall.protocols.reader import Chunk
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    ChunksBegan,
    Exchange,
    ExchangeEnded,
    ExchangeWatch,
    Fate,
    Reading,
    Reads,
    UpstreamAnswered,
    UpstreamAsked,
    UpstreamFailed,
    UpstreamRetried,
    WatchedUpstream,
    sleep_and_tell,
)
from wholecall.upstreams.base import Upstream
from wholecall.upstreams.replay import ReplayUpstream

UPSTREAM = (UpstreamAsked, UpstreamRetried, UpstreamAnswered, UpstreamFailed)


def test_a_tap_sees_only_the_events_that_it_wants() -> None:
    texts, calls = Recorder((Text,)), Recorder((Released,))
    shown = watch(texts, calls)
    for event in (Text("a"), Grew(0, "{"), Released(call())):
        shown.take(event)
    assert texts.seen == [Text("a")]
    assert calls.seen == [Released(call())]


def test_all_taps_see_the_same_event() -> None:
    taps = [Recorder((Text,)), Recorder((Text, Grew))]
    watch(*taps).take(Text("a"))
    assert [tap.seen for tap in taps] == [[Text("a")], [Text("a")]]


def test_events_of_other_choices_are_shown_like_those_of_the_first() -> None:
    tap = Recorder((Released,))
    watch(tap).take(OfChoice(1, Released(call())))
    assert tap.seen == [Released(call())]


def test_nobody_needs_to_look() -> None:
    ExchangeWatch(exchange(), ()).take(Text("a"))


# ── Times ───────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def slow(clock: Clock, seconds: float) -> AsyncIterator[str]:
    clock.now += seconds
    yield "answer"


def test_what_is_added_is_neither_the_upstreams_time_nor_that_of_tools() -> None:
    clock, tap = Clock(), Recorder((AnswerBegan, ExchangeEnded, UpstreamAnswered))
    shown = watch(tap, clock=clock)

    async def exchange_bytes() -> None:
        clock.now += 0.25  # reading the request
        async with shown.asking(slow(clock, 1.0)):
            clock.now += 2.0  # nothing of this answer is for the client
        clock.now += 5.0  # a tool
        async with shown.asking(slow(clock, 3.0)) as answer:
            assert answer == "answer"
            clock.now += 0.5
            shown.begin()
            clock.now += 8.0
            shown.begin()
        shown.end(Fate.DONE)

    asyncio.run(exchange_bytes())
    assert tap.seen == [
        UpstreamAnswered(1.0),
        UpstreamAnswered(3.0),
        AnswerBegan(11.75, added=0.75),
        ExchangeEnded(fate=Fate.DONE, seconds=19.75),
    ]


def test_an_answer_without_an_upstream_is_all_ours() -> None:
    clock, tap = Clock(), Recorder((AnswerBegan,))
    shown = watch(tap, clock=clock)
    clock.now += 0.5
    shown.begin()
    assert tap.seen == [AnswerBegan(0.5, added=0.5)]


def test_an_exchange_ends_once() -> None:
    tap = Recorder((ExchangeEnded,))
    shown = watch(tap)
    shown.end(Fate.FAILED, status=502, code="connection", message="the upstream is gone")
    shown.end(Fate.DONE)
    assert tap.seen == [
        ExchangeEnded(
            fate=Fate.FAILED,
            seconds=0.0,
            status=502,
            code="connection",
            message="the upstream is gone",
        )
    ]


# ── Upstreams ───────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def retrying(retries: int, error: UpstreamError | None = None) -> AsyncIterator[None]:
    for _ in range(retries):
        await sleep_and_tell(0.0)
    if error is not None:
        raise error
    yield


def test_retries_are_counted_for_the_exchange_that_asks() -> None:
    taps = [Recorder(UPSTREAM), Recorder(UPSTREAM)]

    async def ask(tap: Recorder, retries: int) -> None:
        async with watch(tap).asking(retrying(retries)):
            await sleep_and_tell(0.0)  # whoever reads an answer does not ask

    async def ask_both() -> None:
        await asyncio.gather(ask(taps[0], 2), ask(taps[1], 0))

    asyncio.run(ask_both())
    again = UpstreamRetried(0.0)
    assert taps[0].seen == [UpstreamAsked(), again, again, UpstreamAnswered(0.0, 2)]
    assert taps[1].seen == [UpstreamAsked(), UpstreamAnswered(0.0, 0)]


def test_retries_of_one_question_are_not_those_of_the_next() -> None:
    tap = Recorder((UpstreamAnswered,))
    shown = watch(tap)

    async def ask_twice() -> None:
        for retries in (1, 0):
            async with shown.asking(retrying(retries)):
                pass

    asyncio.run(ask_twice())
    assert tap.seen == [UpstreamAnswered(0.0, 1), UpstreamAnswered(0.0, 0)]


def test_an_upstream_that_gives_no_answer_is_told() -> None:
    tap, error = Recorder(UPSTREAM), UpstreamError("no", status=503)

    async def ask() -> None:
        async with watch(tap).asking(retrying(1, error)):
            pytest.fail("there is no answer")

    with pytest.raises(UpstreamError):
        asyncio.run(ask())
    assert tap.seen == [UpstreamAsked(), UpstreamRetried(0.0), UpstreamFailed(error, 1)]


def test_what_fails_while_an_answer_is_read_is_no_failure_to_answer() -> None:
    tap, error = Recorder((UpstreamFailed,)), UpstreamError("cut", code="connection")

    async def ask() -> None:
        async with watch(tap).asking(retrying(0)):
            raise error

    with pytest.raises(UpstreamError):
        asyncio.run(ask())
    assert tap.seen == []


def test_a_retry_outside_of_exchanges_is_nobodys() -> None:
    asyncio.run(sleep_and_tell(0.0))


REQUEST = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),))


async def read(upstream: Upstream) -> list[Chunk]:
    async with upstream.answer(REQUEST) as answer:
        chunks = [chunk async for chunk in answer.chunks]
    await upstream.close()
    return chunks


def test_a_watched_upstream_answers_as_before() -> None:
    tap, upstream = Recorder(UPSTREAM), ReplayUpstream([says("hello")])
    watched = WatchedUpstream(upstream, watch(tap))
    assert asyncio.run(read(watched)) == says("hello").chunks
    assert watched.protocol == upstream.protocol
    assert tap.seen == [UpstreamAsked(REQUEST), UpstreamAnswered(0.0)]


class ChunkRecorder:
    """A tap that keeps chunks."""

    def __init__(self) -> None:
        self.began: list[ChunksBegan] = []
        self.chunks: list[Chunk] = []

    def open(self, exchange: Exchange) -> Reading:  # noqa: ARG002 - of all exchanges alike
        return self, Reads({ChunksBegan: ChunkRecorder.listen})

    def listen(self, began: ChunksBegan) -> Callable[[Chunk], None]:
        self.began.append(began)
        return self.chunks.append


@pytest.mark.parametrize("count", [1, 2])
def test_chunks_are_shown_to_those_who_want_them(count: int) -> None:
    taps, other = [ChunkRecorder() for _ in range(count)], Recorder(UPSTREAM)
    watched = WatchedUpstream(ReplayUpstream([says("hello")]), watch(*taps, other))
    assert asyncio.run(read(watched)) == says("hello").chunks
    for tap in taps:
        assert tap.began == [ChunksBegan("openai-chat", streamed=True)]
        assert tap.chunks == says("hello").chunks


def test_the_beginning_of_each_answer_can_be_peeked_at() -> None:
    peeked: list[Chunk] = []

    def peek(chunk: Chunk) -> bool:
        peeked.append(chunk)
        return len(peeked) > 1

    upstream = ReplayUpstream([says("hello"), says("again")])
    watched = WatchedUpstream(upstream, watch(), peek=peek)
    for words in ("hello", "again"):
        assert asyncio.run(read(watched)) == says(words).chunks
    assert peeked == [*says("hello").chunks[:2], says("again").chunks[0]]
