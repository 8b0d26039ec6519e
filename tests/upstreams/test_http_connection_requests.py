"""Requests over real connections: what is sent, what is read, and what goes wrong."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping

import pytest
from aiohappyeyeballs import AddrInfoType
from yarl import URL

from upstreams.http_peer import (
    HEADERS,
    HELLO,
    Talk,
    ask,
    greet,
    in_loops,
    listening,
    pooling,
    read_all,
)
from wholecall.upstreams.connection_pool import ConnectionPool, open_socket
from wholecall.upstreams.http_connection import (
    MOST_UNREAD_BYTES,
    ConnectionTrouble,
    NotHttp,
    Stale,
    Timeouts,
    judge,
)


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


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        (b"", ConnectionResetError, "without an answer"),
        (b"HTTP/1.1 200", ConnectionResetError, "in the middle"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel", ConnectionResetError, "in the middle"),
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
async def test_a_connection_that_the_system_gave_up_was_lost_and_not_silent() -> None:
    def open_impatient(address: AddrInfoType) -> socket.socket:
        opened = open_socket(address)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 50)
        return opened

    with socket.create_server(("127.0.0.1", 0)) as deaf:  # it reads nothing, so its buffer is full
        url = URL(f"http://127.0.0.1:{deaf.getsockname()[1]}/")
        pool = ConnectionPool(url, timeouts=Timeouts(), open_socket=open_impatient)
        with pytest.raises(ConnectionResetError, match=r"it is gone: .*timed out") as lost:
            await pool.post(url, body=bytes(16 * 1024 * 1024), headers=HEADERS)
        await pool.close()
    assert judge(lost.value) == ConnectionTrouble("connection", repeatable=True)
