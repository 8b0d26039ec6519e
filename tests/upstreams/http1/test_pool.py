"""Requests over real connections: what is sent, what is kept, and what is closed."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from upstreams.http1.talking import (
    HEADERS,
    HELLO,
    Talk,
    ask,
    emptied,
    in_jumping_loop,
    in_loops,
    jump,
    listening,
    pooling,
    read_all,
    wait_until,
)
from upstreams.serving import PATIENCE
from wholecall.upstreams.http1 import direct as pool_module
from wholecall.upstreams.http1.base import (
    ConnectTimeout,
    NotHttp,
    PoolClosed,
    Stale,
    Timeouts,
    Unsafe,
)
from wholecall.upstreams.http1.connection import MOST_UNREAD_BYTES
from wholecall.upstreams.http1.direct import KEEP_ALIVE_SECONDS, DirectPool, open_socket


async def greet(talk: Talk) -> None:
    """Answer every request."""
    while True:
        await talk.hear()
        await talk.say(HELLO)


# ── What is sent ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "headers", "expected"),
    [
        ("{0}", {}, ["Host: 127.0.0.1:{1}", "Content-Length: 2"]),
        ("{0}", {"A": "b"}, ["Host: 127.0.0.1:{1}", "A: b", "Content-Length: 2"]),
        ("{0}", {"host": "there"}, ["host: there", "Content-Length: 2"]),
        (
            "user:pass%20word@{0}",
            {},
            [
                "Host: 127.0.0.1:{1}",
                "Authorization: Basic dXNlcjpwYXNzIHdvcmQ=",
                "Content-Length: 2",
            ],
        ),
        ("{0}", {"A": "é"}, ["Host: 127.0.0.1:{1}", "A: é", "Content-Length: 2"]),
    ],
)
@in_loops
async def test_a_request_is_written_as_http_wants_it(
    *, url: str, headers: Mapping[str, str], expected: list[str]
) -> None:
    heard: list[bytes] = []

    async def note(talk: Talk) -> None:
        heard.append(await talk.hear())
        await talk.say(HELLO)

    async with listening(note) as server, pooling(server.url) as pool:
        address = URL(f"http://{url.format(server.url.authority)}/a%20b/c?d=e")
        response = await pool.post(address, body=b"hi", headers=headers)
        assert await read_all(response) == b"hello"
    lines = ["POST /a%20b/c?d=e HTTP/1.1", *expected, "", "hi"]
    port = server.url.port
    assert heard[0].decode() == "\r\n".join(lines).format("", port)


@in_loops
async def test_a_page_is_asked_for_without_a_body() -> None:
    heard: list[bytes] = []

    async def note(talk: Talk) -> None:
        heard.append(await talk.hear())
        await talk.say(HELLO)

    async with listening(note) as server, pooling(server.url) as pool:
        response = await pool.get(server.url, headers=HEADERS)
        assert await read_all(response) == b"hello"
    head = heard[0]
    assert head.startswith(b"GET /path?a=b HTTP/1.1\r\n")
    assert b"ontent-" not in head


@in_loops
async def test_a_large_body_goes_out_whole_to_who_reads_slowly() -> None:
    body = bytes(range(256)) * 64 * 1024
    heard: list[bytes] = []

    async def listen(talk: Talk) -> None:
        heard.append(await talk.hear())
        await talk.say(HELLO)

    async with listening(listen) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url, body=body) == b"hello"
    assert heard[0].endswith(body)


# ── What is read ────────────────────────────────────────────────────────────────────


@in_loops
async def test_the_head_is_there_before_the_body_and_each_piece_as_it_comes() -> None:
    go_on = asyncio.Event()

    async def slowly(talk: Talk) -> None:
        await talk.hear()
        await talk.say(
            b"HTTP/1.1 201 Made\r\nContent-Type: Text/Plain; a=b\r\nX-One: 1\r\nx-one: 2\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for piece in (b"he", b"llo"):
            await go_on.wait()
            go_on.clear()
            await talk.say(b"%x\r\n%b\r\n" % (len(piece), piece))
        await talk.say(b"0\r\n\r\n")
        await talk.wait_for_silence()

    async with listening(slowly) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert response.status == 201
        assert response.content_type == "text/plain"
        assert response.headers["X-ONE"] == "1"
        assert (b"x-one", b"2") in response.raw_headers
        for piece in (b"he", b"llo"):
            go_on.set()
            assert await response.read() == piece
        assert await response.read() == b""
        assert await response.read() == b"", "and so it stays"


@in_loops
async def test_a_second_reader_is_turned_away_and_the_first_goes_on() -> None:
    go_on = asyncio.Event()

    async def slowly(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO[:-5])
        await go_on.wait()
        await talk.say(HELLO[-5:])

    async with listening(slowly) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        first = asyncio.create_task(read_all(response))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="this is the second"):
            await response.read()
        go_on.set()
        assert await first == b"hello"


@in_loops
async def test_without_a_type_a_body_may_be_anything() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert response.content_type == "application/octet-stream"
        assert await read_all(response) == b"hello"


@in_loops
async def test_who_does_not_read_is_not_sent_everything() -> None:
    piece = bytes(64 * 1024)

    async def flood(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(piece) * 500))
        for _ in range(500):
            await talk.say(piece)
        await talk.wait_for_silence()

    async with listening(flood) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        for _ in range(5000):
            await asyncio.sleep(0)
        assert MOST_UNREAD_BYTES < response.incoming.untaken < 2 * MOST_UNREAD_BYTES
        assert len(await read_all(response)) == len(piece) * 500


# ── Connections ─────────────────────────────────────────────────────────────────────


@in_loops
async def test_one_after_the_other_share_a_connection_and_both_at_once_have_two() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        for _ in range(3):
            assert await ask(pool, server.url) == b"hello"
        assert server.connections == 1
        await asyncio.gather(*(ask(pool, server.url) for _ in range(2)))
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        HELLO.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        HELLO + b"noise",
        HELLO + HELLO,
    ],
    ids=["said so", "noise", "a second answer"],
)
@in_loops
async def test_a_connection_that_is_not_clean_is_not_used_again(answer: bytes) -> None:
    async def once(talk: Talk) -> None:
        await talk.hear()
        await talk.say(answer)
        await talk.wait_for_silence()

    async with listening(once) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url) == b"hello"
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 2


@in_loops
async def test_noise_between_two_requests_is_no_answer() -> None:
    noisy, made = asyncio.Event(), asyncio.Event()

    async def chatter(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        await noisy.wait()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
        await talk.wait_for_silence()
        made.set()

    async with listening(chatter) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url) == b"hello"
        noisy.set()
        await made.wait()  # the connection was closed for it
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 2


class EagerLoop(asyncio.SelectorEventLoop):
    """Hands out a connection when the server has spoken on it, as uvloop does."""

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        made = await super().create_connection(*args, **options)
        while not made[1]._early:
            await asyncio.sleep(0)
        return made


@pytest.mark.parametrize("noise", [b"", b"noise"])
def test_who_answers_before_it_is_asked_is_heard(noise: bytes) -> None:
    async def full(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 503 Full\r\ncontent-length: 2\r\n\r\nno" + noise)
        await talk.wait_for_silence()

    async def meet() -> None:
        async with listening(full) as server, pooling(server.url) as pool:
            response = await pool.post(server.url, body=b"hi", headers=HEADERS)
            assert response.status == 503
            assert await read_all(response) == b"no"
            assert len(pool._idle) == (0 if noise else 1)

    with asyncio.Runner(loop_factory=EagerLoop) as runner:
        runner.run(asyncio.wait_for(meet(), PATIENCE))


@in_loops
async def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    closed = asyncio.Event()

    async def once(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        talk.hang_up()
        closed.set()

    async with listening(once) as server, pooling(server.url) as pool:
        for _ in range(3):
            closed.clear()
            assert await ask(pool, server.url) == b"hello"
            await closed.wait()
            await emptied(pool)
        assert server.connections == 3


@pytest.mark.parametrize("safe", [False, True], ids=["plain", "TLS"])
@in_loops
async def test_an_answer_before_all_was_sent_is_read_and_the_connection_closed(
    safe: bool, authority: Path
) -> None:
    gone = asyncio.Event()

    async def refuse(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        await talk.say(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await gone.wait()  # it stays, and never reads the rest

    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority))

    context = serving_context(authority) if safe else None
    async with listening(refuse, context) as server, pooling(server.url, trust=trust) as pool:
        response = await pool.post(server.url, body=bytes(64 * 1024 * 1024), headers=HEADERS)
        assert response.status == 413
        assert await read_all(response) == b"no"
        await emptied(pool)
        gone.set()


@in_loops
async def test_an_answer_ends_with_what_comes_although_not_all_was_sent() -> None:
    gone = asyncio.Event()

    async def refuse(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        await talk.say(b"HTTP/1.1 413 Too Large\r\n\r\nno")
        talk.writer.write_eof()
        await gone.wait()

    async with listening(refuse) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url, body=bytes(64 * 1024 * 1024)) == b"no"
        await emptied(pool)
        gone.set()


@in_loops
async def test_who_hangs_up_early_closes_the_connection() -> None:
    gone = asyncio.Event()

    async def forever(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhe")
        await talk.wait_for_silence()
        gone.set()

    async with listening(forever) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"he"
        response.close()
        await gone.wait()
        with pytest.raises(ConnectionError):
            await response.read()


@pytest.mark.parametrize("by", ["its reader", "the pool"])
@in_loops
async def test_what_is_closed_on_this_side_is_no_end_of_a_body(by: str) -> None:
    """A body without a length ends with the connection, but not if nobody wanted the rest."""

    async def forever(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhe")
        await talk.wait_for_silence()

    async with listening(forever) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"he"
        if by == "the pool":
            await pool.close()
        else:
            response.close()
        for _ in range(2):
            with pytest.raises(OSError, match="on this side"):
                await response.read()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n"])
@in_loops
async def test_who_is_cancelled_while_it_waits_closes_the_connection(head: bytes) -> None:
    heard, gone = asyncio.Event(), asyncio.Event()

    async def forever(talk: Talk) -> None:
        await talk.hear()
        await talk.say(head)
        heard.set()
        await talk.wait_for_silence()
        gone.set()

    async with listening(forever) as server, pooling(server.url) as pool:
        asking = asyncio.create_task(ask(pool, server.url))
        await heard.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await gone.wait()
        await emptied(pool)


@pytest.mark.parametrize("safe", [False, True], ids=["plain", "TLS"])
@in_loops
async def test_who_is_cancelled_at_any_step_leaves_no_socket_behind(
    safe: bool, authority: Path
) -> None:
    """The next one gets the number of its socket, which nothing else may use any more."""
    opened: list[socket.socket] = []

    def remember(address: AddrInfoType) -> socket.socket:
        opened.append(open_socket(address))
        return opened[-1]

    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority))

    async with listening(greet, serving_context(authority) if safe else None) as server:
        asking: asyncio.Task[bytes] | None = None
        steps = 0
        while asking is None or asking.cancelled():
            pool = DirectPool(server.url, timeouts=Timeouts(), trust=trust, open_socket=remember)
            asking = asyncio.create_task(ask(pool, server.url))
            await wait_until(lambda: bool(opened))  # before, a thread is at work
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            assert await ask(pool, server.url) == b"hello"
            await pool.close()
            assert {each.fileno() for each in opened} == {-1}
            opened.clear()
            steps += 1
        assert asking.result() == b"hello"


@in_loops
async def test_the_one_that_was_used_last_is_taken_first() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        await asyncio.gather(*(ask(pool, server.url) for _ in range(3)))
        oldest = pool._idle[0]
        for _ in range(5):
            await ask(pool, server.url)
        assert pool._idle[0] is oldest


@in_loops
async def test_whose_connection_fails_makes_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    refused = iter([True, False])

    def refuse_first(address: AddrInfoType) -> socket.socket:
        if next(refused):
            raise ConnectionRefusedError("not now")
        return open_socket(address)

    async with listening(greet) as server:
        pool = DirectPool(server.url, timeouts=Timeouts(), open_socket=refuse_first)
        asking = (ask(pool, server.url) for _ in range(2))
        first, second = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(first, ConnectionRefusedError)
        assert second == b"hello"
        await pool.close()


@in_jumping_loop
async def test_idle_connections_grow_old_and_those_in_use_do_not() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        await asyncio.gather(*(ask(pool, server.url) for _ in range(3)))
        await jump(0.7 * KEEP_ALIVE_SECONDS)
        assert await ask(pool, server.url) == b"hello"
        await jump(0.7 * KEEP_ALIVE_SECONDS)
        while len(pool._open) > 1:
            await asyncio.sleep(0)
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 3
        await jump(1.1 * KEEP_ALIVE_SECONDS)
        await emptied(pool)
        assert await ask(pool, server.url) == b"hello"
        assert server.connections == 4


@in_loops
async def test_who_comes_late_waits_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 2)
    async with listening(greet) as server, pooling(server.url) as pool:
        bodies = await asyncio.gather(*(ask(pool, server.url) for _ in range(20)))
        assert bodies == [b"hello"] * 20
        assert server.connections == 2


@in_loops
async def test_a_place_is_free_again_after_whatever_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    turns = iter(["hang up", "noise", "hold", "good"])
    held = asyncio.Event()

    async def moody(talk: Talk) -> None:
        await talk.hear()
        match next(turns):
            case "hang up":
                talk.hang_up(rudely=True)
            case "noise":
                await talk.say(b"noise")
            case "hold":
                held.set()
                await talk.wait_for_silence()
            case "good":
                await talk.say(HELLO)
                await greet(talk)

    async with listening(moody) as server, pooling(server.url) as pool:
        asking = [asyncio.create_task(ask(pool, server.url)) for _ in range(5)]
        await held.wait()
        asking[2].cancel()
        results = await asyncio.gather(*asking, return_exceptions=True)
    kinds = [type(each) for each in results]
    assert kinds == [ConnectionResetError, NotHttp, asyncio.CancelledError, bytes, bytes]


@in_loops
async def test_who_is_called_and_gone_passes_the_place_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    go_on = asyncio.Event()

    async def wait(talk: Talk) -> None:
        while True:
            await talk.hear()
            await go_on.wait()
            await talk.say(HELLO)

    async with listening(wait) as server, pooling(server.url) as pool:
        first = asyncio.create_task(ask(pool, server.url))
        while not pool._open:
            await asyncio.sleep(0)
        second, third = (asyncio.create_task(ask(pool, server.url)) for _ in range(2))
        while len(pool._waiting) != 2:
            await asyncio.sleep(0)
        place = pool._waiting[0]
        place.add_done_callback(lambda _: second.cancel())
        go_on.set()
        assert await first == b"hello"
        assert await third == b"hello"
        assert second.cancelled()


@in_loops
async def test_who_comes_first_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if somebody gives up, or asks again just when a connection gets free."""
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)
    heard: list[bytes] = []
    go_on = asyncio.Event()

    async def note(talk: Talk) -> None:
        while True:
            heard.append((await talk.hear())[-1:])
            await go_on.wait()
            await talk.say(HELLO)

    async with listening(note) as server, pooling(server.url) as pool:

        async def ask_twice(name: bytes) -> None:
            await ask(pool, server.url, body=name)
            await ask(pool, server.url, body=name)

        asking = [asyncio.create_task(ask_twice(b"%d" % number)) for number in range(4)]
        await wait_until(lambda: len(pool._waiting) == 3 and bool(heard))
        asking[3].cancel()
        await asyncio.wait([asking[3]])
        pool._call_next()  # something was free, and is gone again
        await wait_until(lambda: not pool._waiting[0].done())
        go_on.set()
        await asyncio.gather(*asking[:3])
    assert b"".join(heard) == b"012012"


@in_loops
async def test_who_waits_for_a_place_is_told_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)

    async def forever(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(forever) as server, pooling(server.url) as pool:
        asking = [asyncio.create_task(ask(pool, server.url)) for _ in range(5)]
        await wait_until(lambda: len(pool._waiting) == 4 and bool(pool._open))
        await pool.close()
        errors = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(error) for error in errors] == [PoolClosed] * 5
        assert server.connections == 1
        with pytest.raises(PoolClosed):
            await ask(pool, server.url)


@in_loops
async def test_what_cannot_be_written_takes_no_connection() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        assert await ask(pool, server.url) == b"hello"
        with pytest.raises(UnicodeEncodeError):
            await pool.post(server.url, body=b"", headers={"x-a": "half of a character: \udc80"})
        assert len(pool._idle) == 1


@in_loops
async def test_the_last_place_does_not_come_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CONNECTIONS", 1)

    async def forever(talk: Talk) -> None:
        await talk.wait_for_silence()

    timeouts = Timeouts(connect=0.05)
    async with listening(forever) as server, pooling(server.url, timeouts) as pool:
        first = asyncio.create_task(ask(pool, server.url))
        while not pool._open:
            await asyncio.sleep(0)
        with pytest.raises(ConnectTimeout):
            await ask(pool, server.url)
        assert not pool._waiting
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


# ── Trouble ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        (b"", ConnectionResetError, "without an answer"),
        (b"HTTP/1.1 200", ConnectionResetError, "in the midst"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel", ConnectionResetError, "in the midst"),
        (b"SSH-2.0-OpenSSH\r\n", NotHttp, "Expected HTTP"),
    ],
)
@in_loops
async def test_what_is_cut_or_no_answer_is_an_error(
    *, said: bytes, error: type[OSError], match: str
) -> None:
    async def speak(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said)

    async with listening(speak) as server, pooling(server.url) as pool:
        with pytest.raises(error, match=match):
            await ask(pool, server.url)


@pytest.mark.parametrize("requests", [0, 1, 2])
@pytest.mark.parametrize("said", [b"", b"HTTP"])
@pytest.mark.parametrize("rudely", [False, True])
@in_loops
async def test_who_hangs_up_on_another_request_without_a_word_may_not_have_heard_it(
    *, requests: int, said: bytes, rudely: bool
) -> None:
    async def answer_some(talk: Talk) -> None:
        for _ in range(requests):
            await talk.hear()
            await talk.say(HELLO)
        await talk.hear()
        await talk.say(said)
        talk.hang_up(rudely=rudely and not said)

    async with listening(answer_some) as server, pooling(server.url) as pool:
        for _ in range(requests):
            assert await ask(pool, server.url) == b"hello"
        with pytest.raises(ConnectionError) as caught:
            await ask(pool, server.url)
        assert isinstance(caught.value, Stale) == (requests > 0 and not said)
        assert server.connections == 1


@in_loops
async def test_what_came_before_a_reset_is_read_before_it() -> None:
    read = asyncio.Event()

    async def reset(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await read.wait()
        talk.hang_up(rudely=True)

    async with listening(reset) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        assert await response.read() == b"hello"
        read.set()
        # A polite end would have been the end of this body; aborting a socket of which all was
        # read looks like one to some systems.
        try:
            assert await response.read() == b""
        except ConnectionError:
            with pytest.raises(ConnectionError):
                await response.read()


@in_loops
async def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = URL(f"http://127.0.0.1:{free.getsockname()[1]}")
    async with pooling(url) as pool:
        with pytest.raises(ConnectionRefusedError):
            await ask(pool, url)
        assert pool._connecting == 0


class AskedLoop(asyncio.SelectorEventLoop):
    """Counts how often it looks up a name, and waits with the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0
        self.go_on = asyncio.Event()

    async def getaddrinfo(self, *args: Any, **options: Any) -> Any:
        self.lookups += 1
        await self.go_on.wait()
        return await super().getaddrinfo(*args, **options)


def test_who_needs_a_name_at_the_same_time_waits_for_one_look_at_it() -> None:
    async def meet(loop: AskedLoop) -> None:
        async with listening(greet) as server, pooling(server.url) as pool:
            asking = [asyncio.create_task(ask(pool, server.url)) for _ in range(5)]
            await wait_until(lambda: pool._connecting == 5)
            asking[0].cancel()
            await asyncio.wait(asking[:1])
            loop.go_on.set()
            assert await asyncio.gather(*asking[1:]) == [b"hello"] * 4
            assert loop.lookups == 1
            assert asking[0].cancelled()

    with asyncio.Runner(loop_factory=AskedLoop) as runner:
        loop = cast(AskedLoop, runner.get_loop())
        runner.run(asyncio.wait_for(meet(loop), PATIENCE))


def test_a_name_that_nobody_waits_for_any_more_may_be_none() -> None:
    complaints: list[object] = []

    async def leave(loop: AskedLoop) -> None:
        async with pooling(URL("http://nobody.invalid:1")) as pool:
            asking = asyncio.create_task(ask(pool, URL("http://nobody.invalid:1")))
            await wait_until(lambda: pool._connecting == 1)
            asking.cancel()
            await asyncio.wait([asking])
            loop.go_on.set()
            await wait_until(lambda: pool._looking is None)
        gc.collect()

    with asyncio.Runner(loop_factory=AskedLoop) as runner:
        loop = cast(AskedLoop, runner.get_loop())
        loop.set_exception_handler(lambda _, complaint: complaints.append(complaint))
        runner.run(asyncio.wait_for(leave(loop), PATIENCE))
    assert complaints == []


@in_loops
async def test_nobody_has_that_name() -> None:
    url = URL("http://nobody.invalid:1")
    async with pooling(url) as pool:
        with pytest.raises(socket.gaierror):
            await ask(pool, url)


@in_loops
async def test_a_handshake_that_does_not_come_in_time() -> None:
    async def silent(talk: Talk) -> None:
        await talk.wait_for_silence()

    async with listening(silent) as server:
        url = server.url.with_scheme("https")
        async with pooling(url, Timeouts(connect=0.1)) as pool:
            with pytest.raises(ConnectTimeout):
                await ask(pool, url)
            assert pool._connecting == 0


@asynccontextmanager
async def hearing(
    timeouts: Timeouts,
) -> AsyncIterator[tuple[DirectPool, URL, asyncio.Queue[bytes]]]:
    """A server that says what is put into a queue."""
    saying: asyncio.Queue[bytes] = asyncio.Queue()

    async def say_all(talk: Talk) -> None:
        await talk.hear()
        while said := await saying.get():
            await talk.say(said)
        await talk.wait_for_silence()

    async with listening(say_all) as server, pooling(server.url, timeouts) as pool:
        yield pool, server.url, saying


@in_jumping_loop
async def test_silence_is_counted_from_what_came_last() -> None:
    timeouts = Timeouts(first_byte=100.0, between_chunks=100.0)
    async with hearing(timeouts) as (pool, url, saying):
        await saying.put(HELLO[:-5])
        response = await pool.post(url, body=b"", headers=HEADERS)
        for byte in HELLO[-5:-1]:
            await jump(60.0)
            await saying.put(bytes([byte]))
            assert await response.read() == bytes([byte])
        reading = asyncio.create_task(response.read())
        await jump(99.0)
        assert not reading.done()
        await jump(2.0)
        with pytest.raises(TimeoutError, match="nothing came for 100 s"):
            await reading
        await emptied(pool)


@pytest.mark.parametrize(
    ("timeouts", "patience"),
    [
        (Timeouts(first_byte=10.0, between_chunks=None), 10.0),
        (Timeouts(first_byte=10.0, between_chunks=300.0), 10.0),
        (Timeouts(first_byte=600.0, between_chunks=10.0), 600.0),
        (Timeouts(first_byte=None, between_chunks=10.0), None),
        (Timeouts(first_byte=None, between_chunks=None), None),
    ],
)
@in_jumping_loop
async def test_the_first_byte_has_a_limit_of_its_own(
    timeouts: Timeouts, patience: float | None
) -> None:
    async with hearing(timeouts) as (pool, url, saying):
        asking = asyncio.create_task(ask(pool, url))
        await wait_until(lambda: bool(pool._open))
        for _ in range(int((patience or 5000.0) // 5) - 1):
            await jump(5.0)
        assert not asking.done()
        await jump(5.1)
        if patience is None:
            await saying.put(HELLO)
            assert await asking == b"hello"
        else:
            with pytest.raises(TimeoutError, match=f"nothing came for {patience:g} s"):
                await asking


@in_jumping_loop
async def test_after_the_first_byte_another_silence_is_allowed() -> None:
    async with hearing(Timeouts(first_byte=600.0, between_chunks=10.0)) as (pool, url, saying):
        await saying.put(HELLO[:-5])
        response = await pool.post(url, body=b"", headers=HEADERS)
        await jump(500.0)
        await saying.put(HELLO[-5:-2])
        assert await response.read() == b"hel"
        await jump(9.0)
        await saying.put(HELLO[-2:-1])
        assert await response.read() == b"l"
        await jump(10.1)
        with pytest.raises(TimeoutError, match="nothing came for 10 s"):
            await response.read()


@in_jumping_loop
async def test_who_reads_slowly_is_not_told_that_the_upstream_is_silent() -> None:
    size = 8 * MOST_UNREAD_BYTES
    async with hearing(Timeouts(first_byte=10.0, between_chunks=10.0)) as (pool, url, saying):
        await saying.put(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size))
        response = await pool.post(url, body=b"", headers=HEADERS)
        await wait_until(lambda: response.incoming.untaken > MOST_UNREAD_BYTES)
        for _ in range(10):
            await jump(9.0)
        assert len(await read_all(response)) == size


@in_jumping_loop
async def test_who_takes_in_a_request_bit_by_bit_is_not_silent() -> None:
    size, bit = 64 * 1024 * 1024, 8 * 1024 * 1024

    async def slowly(talk: Talk) -> None:
        await talk.reader.readuntil(b"\r\n\r\n")
        for _ in range(size // bit):
            await jump(60.0)
            await talk.reader.readexactly(bit)
        await talk.say(HELLO)

    async with listening(slowly) as server, pooling(server.url, Timeouts(first_byte=100.0)) as pool:
        assert await ask(pool, server.url, body=bytes(size)) == b"hello"


@in_jumping_loop
async def test_between_two_requests_nobody_counts() -> None:
    async with hearing(Timeouts(first_byte=10.0, between_chunks=10.0)) as (pool, url, saying):
        await saying.put(HELLO)
        assert await ask(pool, url) == b"hello"
        await jump(15.0)
        assert len(pool._idle) == 1
        await saying.put(HELLO)
        assert await ask(pool, url) == b"hello"
        assert len(pool._open) == 1


# ── The end ─────────────────────────────────────────────────────────────────────────


@in_loops
async def test_closing_closes_what_is_idle_and_what_is_under_way() -> None:
    async def first_only(talk: Talk) -> None:
        await talk.hear()
        await talk.say(HELLO)
        await talk.hear()
        await talk.wait_for_silence()

    async with listening(first_only) as server, pooling(server.url) as pool:
        await asyncio.gather(*(ask(pool, server.url) for _ in range(2)))
        under_way = asyncio.create_task(ask(pool, server.url))
        await asyncio.sleep(0)
        await asyncio.gather(pool.close(), pool.close())
        assert pool.closed
        assert not pool._open
        with pytest.raises(PoolClosed):
            await under_way


@in_loops
async def test_what_comes_about_after_the_end_is_closed() -> None:
    async with listening(greet) as server, pooling(server.url) as pool:
        late = asyncio.create_task(ask(pool, server.url))
        while not pool._connecting:
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(PoolClosed):
            await late


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "said",
    [
        HELLO,
        HELLO[:-1],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nno\r\n",
    ],
    ids=["good", "cut", "no HTTP"],
)
@in_loops
async def test_an_answer_leaves_nothing_for_the_collector(said: bytes) -> None:
    async def answer(talk: Talk) -> None:
        await talk.hear()
        await talk.say(said)

    async def ask_once(pool: DirectPool, url: URL) -> weakref.ref[object]:
        response = await pool.post(url, body=b"", headers=HEADERS)
        with closing(response), suppress(OSError):
            await read_all(response)
        return weakref.ref(response.incoming)

    async with listening(answer) as server, pooling(server.url) as pool:
        with without_collector():
            left = await ask_once(pool, server.url)
            assert left() is None


# ── TLS ─────────────────────────────────────────────────────────────────────────────


def serving_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@in_loops
async def test_over_tls_it_is_the_same(authority: Path) -> None:
    def trust() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(authority))

    context = serving_context(authority)
    async with listening(greet, context) as server, pooling(server.url, trust=trust) as pool:
        for _ in range(3):
            assert await ask(pool, server.url, body=bytes(1_000_000)) == b"hello"
        assert server.connections == 1


@in_loops
async def test_who_cannot_prove_its_name_is_not_asked(authority: Path) -> None:
    heard: list[bytes] = []

    async def note(talk: Talk) -> None:
        heard.append(await talk.hear())

    context = serving_context(authority)
    async with listening(note, context) as server, pooling(server.url) as pool:
        with pytest.raises(Unsafe, match="certificate verify failed"):
            await ask(pool, server.url)
        assert pool._connecting == 0
    assert heard == []


@in_loops
async def test_who_hangs_up_in_the_handshake() -> None:
    async def leave(talk: Talk) -> None:
        await talk.reader.read(65536)

    async with listening(leave) as server:
        url = server.url.with_scheme("https")
        async with pooling(url) as pool:
            with pytest.raises(ConnectionError, match="in the handshake"):
                await ask(pool, url)


@in_loops
async def test_plain_text_where_tls_should_be() -> None:
    async def speak(talk: Talk) -> None:
        await talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(speak) as server:
        url = server.url.with_scheme("https")
        async with pooling(url) as pool:
            with pytest.raises(Unsafe):
                await ask(pool, url)
