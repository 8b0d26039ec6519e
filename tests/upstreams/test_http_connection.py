"""Answers of HTTP/1.1 as bytes: every row whole, byte by byte, and cut at random."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.upstreams.http_connection import (
    INFLATED_BYTES,
    MOST_HEAD_BYTES,
    TAKEN_BYTES,
    AnswerParser,
    NotHttp,
)

CUT = "in the middle of an answer"
SILENT = "without an answer"


Cut = Callable[[bytes], Iterator[bytes]]


@dataclass(frozen=True)
class Read:
    """What was made of all bytes, and of the end of the connection behind them."""

    status: int = 0
    body: bytes = b""
    over: bool = False
    """Before the connection closed."""
    reusable: bool = False
    error: str = ""
    headers: tuple[bytes, ...] = ()
    """Their names; not compared with a row that names none."""


OK = b"HTTP/1.1 200 OK\r\n"
GOOD = Read(200, b"hello", over=True, reusable=True)
LENGTH = b"content-length: 5\r\n\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
NO_HTTP = "Expected HTTP"

ROWS: list[tuple[str, bytes, Read]] = [
    ("a body by its length", OK + LENGTH + b"hello", GOOD),
    ("names in any case", OK + b"CONTENT-Length: 5\r\n\r\nhello", GOOD),
    ("a body in chunks", CHUNKED + b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", GOOD),
    ("chunks with extensions", CHUNKED + b"5;a=b\r\nhello\r\n0;c\r\n\r\n", GOOD),
    ("chunks with spaces behind their size", CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n", GOOD),
    ("chunks with trailers", CHUNKED + b"5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n", GOOD),
    ("lines that end without CR", (OK + LENGTH).replace(b"\r", b"") + b"hello", GOOD),
    ("a body until the connection closes", OK + b"\r\nhello", Read(200, b"hello")),
    (
        "a body until the connection closes, by the name of its coding",
        OK + b"transfer-encoding: identity\r\n\r\nhello",
        Read(200, b"hello"),
    ),
    (
        "chunks in two headers",
        OK + b"transfer-encoding: identity\r\nTransfer-Encoding: Chunked \r\n\r\n5\r\nhello",
        Read(200, b"hello", error=CUT),
    ),
    ("a body of HTTP/1.0", b"HTTP/1.0 200 OK\r\n\r\nhello", Read(200, b"hello")),
    (
        "a server that hangs up behind its answer",
        OK + b"connection: close\r\n" + LENGTH + b"hello",
        Read(200, b"hello", over=True),
    ),
    (
        "HTTP/1.0 that stays",
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n" + LENGTH + b"hello",
        GOOD,
    ),
    ("no content", b"HTTP/1.1 204 No Content\r\n\r\n", Read(204, over=True, reusable=True)),
    (
        "a body that may not be there",
        b"HTTP/1.1 204 No Content\r\n" + LENGTH + b"hello",
        Read(204, over=True),
    ),
    ("an empty body", OK + b"content-length: 0\r\n\r\n", Read(200, over=True, reusable=True)),
    (
        "an answer before the answer",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK + LENGTH + b"hello",
        GOOD,
    ),
    (
        "two of them, with headers",
        b"HTTP/1.1 103 Early Hints\r\ncontent-length: 99\r\n\r\n" * 2 + OK + LENGTH + b"hello",
        GOOD,
    ),
    ("no status at all", b"HTTP/1.1 000 X\r\n" + LENGTH + b"hello", Read(0, b"hello", True, True)),
    ("an error", b"HTTP/1.1 503 Busy\r\n" + LENGTH + b"hello", Read(503, b"hello", True, True)),
    ("no reason behind the status", b"HTTP/1.1 200\r\n" + LENGTH + b"hello", GOOD),
    ("empty lines before it", b"\r\n\r\n" + OK + LENGTH + b"hello", GOOD),
    # Behind an answer
    (
        "a second answer that nobody asked for",
        (OK + LENGTH + b"hello") * 2,
        Read(200, b"hello", over=True, headers=(b"content-length",)),
    ),
    (
        "an interim answer behind the answer",
        OK + LENGTH + b"hello" + b"HTTP/1.1 100 Continue\r\n\r\n",
        Read(200, b"hello", over=True, headers=(b"content-length",)),
    ),
    ("noise behind the answer", OK + LENGTH + b"hello, you", Read(200, b"hello", over=True)),
    (
        "noise behind an answer that closes",
        OK + b"connection: close\r\n" + LENGTH + b"hello!",
        Read(200, b"hello", over=True),
    ),
    # Cut
    ("nothing at all", b"", Read(error=SILENT)),
    ("a cut status", b"HTTP/1.1 20", Read(error=CUT)),
    ("cut headers", OK + b"content-length: 5\r\nx-a", Read(error=CUT)),
    ("only an answer before the answer", b"HTTP/1.1 100 Continue\r\n\r\n", Read(error=CUT)),
    ("a cut body", OK + LENGTH + b"hell", Read(200, b"hell", error=CUT)),
    ("a cut chunk", CHUNKED + b"5\r\nhell", Read(200, b"hell", error=CUT)),
    ("no last chunk", CHUNKED + b"5\r\nhello\r\n", Read(200, b"hello", error=CUT)),
    ("a cut last chunk", CHUNKED + b"5\r\nhello\r\n0\r\n", Read(200, b"hello", error=CUT)),
    # No HTTP
    ("mail", b"220 mail.example ESMTP\r\n\r\n", Read(error=NO_HTTP)),
    ("a newer HTTP", b"HTTP/2 200 OK\r\n\r\n", Read(error="Expected dot")),
    (
        "two lengths",
        OK + b"content-length: 5\r\n" + LENGTH + b"hello",
        Read(error="Duplicate Content-Length"),
    ),
    (
        "a length and chunks",
        OK + b"transfer-encoding: chunked\r\n" + LENGTH + b"hello",
        Read(error="can't be present with"),
    ),
    ("a length that is none", OK + b"content-length: five\r\n\r\n", Read(error="Content-Length")),
    (
        "a chunk without a size",
        CHUNKED + b"5\r\nhello\r\nhello\r\n",
        Read(200, b"hello", error="chunk size"),
    ),
    (
        "another protocol",
        b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        Read(error="another protocol"),
    ),
]


def read(pieces: Iterator[bytes]) -> Read:
    incoming = AnswerParser()
    body, error = b"", ""
    over = reusable = False
    try:
        for piece in pieces:
            try:
                incoming.feed(piece)
            finally:
                body += incoming.take()  # what came before an error counts
        over, reusable = incoming.over, incoming.reusable
        cut = incoming.feed_end()
        error = str(cut or "")
        assert incoming.over == (cut is None)
        assert not incoming.reusable
        while more := incoming.take():
            body += more
    except OSError as raised:
        error = str(raised)
    names = tuple(name for name, _ in incoming.headers)
    return Read(incoming.status, body, over, reusable, error, names)


def whole(data: bytes) -> Iterator[bytes]:
    yield data


def in_bytes(data: bytes) -> Iterator[bytes]:
    for place in range(len(data)):
        yield data[place : place + 1]
        yield b""


def at_random(data: bytes) -> Iterator[bytes]:
    choose = random.Random(len(data))  # noqa: S311 - the same cuts every time
    places = sorted(choose.choices(range(len(data) + 1), k=4))
    for start, stop in zip([0, *places], [*places, len(data)], strict=True):
        yield data[start:stop]


@pytest.mark.parametrize("cut", [whole, in_bytes, at_random], ids=lambda cut: cut.__name__)
@pytest.mark.parametrize(("data", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_every_row_however_it_is_cut(*, data: bytes, expected: Read, cut: Cut) -> None:
    got = read(cut(data))
    assert expected.error in got.error
    assert bool(expected.error) == bool(got.error)
    known = replace(expected, error=got.error, headers=expected.headers or got.headers)
    assert got == known


GOOD_ROWS = [data for _, data, expected in ROWS if not expected.error]


@given(data=st.sampled_from(GOOD_ROWS), places=st.lists(st.integers(0, 200), max_size=8))
def test_how_it_is_cut_changes_nothing(data: bytes, places: list[int]) -> None:
    stops = sorted(min(place, len(data)) for place in places)
    pieces = [data[a:b] for a, b in zip([0, *stops], [*stops, len(data)], strict=True)]
    assert read(iter(pieces)) == read(whole(data))


@given(data=st.sampled_from([OK + LENGTH + b"hello", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"]))
def test_a_beginning_is_never_an_answer(data: bytes) -> None:
    for size in range(len(data)):
        assert read(whole(data[:size])).error


# ── Headers ─────────────────────────────────────────────────────────────────────────


def test_headers_are_there_with_names_in_lower_case_and_trailers_are_not() -> None:
    incoming = AnswerParser()
    incoming.feed(OK + b"X-One: a\r\nx-ONE:  b \r\ntransfer-encoding: chunked\r\n\r\n")
    assert incoming.status == 200
    incoming.feed(b"0\r\nx-two: c\r\n\r\n")
    assert incoming.headers == [
        (b"x-one", b"a"),
        (b"x-one", b"b"),
        (b"transfer-encoding", b"chunked"),
    ]


@pytest.mark.parametrize("piece", [b"x-a: b\r\n", b"a", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_head_without_end_is_not_collected(piece: bytes) -> None:
    incoming = AnswerParser()
    incoming.feed(b"" if piece.startswith(b"HTTP") else OK)
    for _ in range(MOST_HEAD_BYTES // len(piece) - len(OK)):
        incoming.feed(piece)
    with pytest.raises(NotHttp, match="surround its answer"):
        incoming.feed(piece * (len(OK) + 1))


@pytest.mark.parametrize("cut", [whole, in_bytes, at_random], ids=lambda cut: cut.__name__)
def test_how_a_large_head_is_cut_changes_nothing(cut: Cut) -> None:
    head = OK + (b"x-a: " + b"b" * 1000 + b"\r\n") * 100
    got = read(cut(head + LENGTH + b"hello"))
    assert "surround its answer" in got.error


def test_a_value_with_control_characters_is_left_out() -> None:
    incoming = AnswerParser()
    incoming.feed(OK + b"x-a: b\x00c\r\nx-d: \x01\r\nx-e: f\tg\r\ncontent-length: 0\r\n\r\n")
    assert incoming.headers == [(b"x-e", b"f\tg"), (b"content-length", b"0")]
    assert incoming.over


def test_a_mistake_of_ours_is_not_told_of_the_upstream() -> None:
    class Mistaken(AnswerParser):
        def on_header(self, name: bytes, value: bytes) -> None:
            raise LookupError(name + value)

    with pytest.raises(LookupError, match="content-length"):
        Mistaken().feed(OK + LENGTH + b"hello")


# ── Codings ─────────────────────────────────────────────────────────────────────────

TEXT = b"data: {}\n\n" * 50


@pytest.mark.parametrize("cut", [whole, in_bytes, at_random], ids=lambda cut: cut.__name__)
@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", gzip.compress(TEXT)),
        (b"GZIP", gzip.compress(TEXT)),
        (b"deflate", zlib.compress(TEXT)),
        (b"deflate", zlib.compress(TEXT)[2:-4]),
        (b"gzip", gzip.compress(TEXT[:99]) + gzip.compress(b"") + gzip.compress(TEXT[99:])),
        (b"gzip", gzip.compress(TEXT) + bytes(9)),
        (b"gzip", gzip.compress(TEXT) + bytes(9) + gzip.compress(TEXT)),
        (b"utf-8", TEXT),
        (b"identity, none", TEXT),
    ],
    ids=[
        "gzip",
        "in capitals",
        "deflate",
        "deflate without its header",
        "gzip in parts",
        "gzip, filled up",
        "gzip, and more behind its end",
        "no coding",
        "none",
    ],
)
def test_a_compressed_body_is_unpacked(*, coding: bytes, packed: bytes, cut: Cut) -> None:
    head = OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (coding, len(packed))
    assert read(cut(head + packed)) == Read(
        200,
        TEXT,
        over=True,
        reusable=True,
        headers=(b"content-encoding", b"content-length"),
    )


def packed_head(packed: bytes) -> bytes:
    return OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed)


def test_an_empty_body_may_be_compressed() -> None:
    got = read(whole(packed_head(b"")))
    assert (got.body, got.over, got.error) == (b"", True, "")


def test_each_piece_of_a_compressed_stream_is_unpacked_as_it_comes() -> None:
    packing = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    incoming = AnswerParser()
    incoming.feed(OK + b"content-encoding: gzip\r\n\r\n")
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        incoming.feed(packing.compress(event) + packing.flush(zlib.Z_SYNC_FLUSH))
        assert incoming.take() == event
        assert incoming.take() == b""


def test_a_small_body_may_be_large_inside_and_comes_bit_by_bit() -> None:
    size = 5 * INFLATED_BYTES
    packed = gzip.compress(bytes(size))
    incoming = AnswerParser()
    incoming.feed(packed_head(packed) + packed)
    assert incoming.over
    pieces = []
    while piece := incoming.take():
        pieces.append(len(piece))
    assert sum(pieces) == size
    assert max(pieces) <= INFLATED_BYTES


def test_what_waits_to_be_unpacked_is_held() -> None:
    packed = gzip.compress(bytes(5 * INFLATED_BYTES))
    incoming = AnswerParser()
    incoming.feed(OK + b"content-encoding: gzip\r\ncontent-length: 9999999\r\n\r\n" + packed)
    incoming.take()
    incoming.feed(b"more")
    incoming.take()
    assert incoming.untaken == 4, "behind what was not unpacked yet"


@pytest.mark.parametrize(
    ("packed", "error"),
    [
        (gzip.compress(TEXT)[:-9], "middle of a compressed answer"),
        (b"plain text", "damaged"),
    ],
    ids=["cut", "plain text"],
)
def test_a_compressed_body_that_is_none_is_an_error(packed: bytes, error: str) -> None:
    got = read(whole(packed_head(packed) + packed))
    assert error in got.error


def test_a_body_in_a_coding_that_nobody_asked_for_is_an_error_but_its_status_counts() -> None:
    incoming = AnswerParser()
    incoming.feed(b"HTTP/1.1 401 No\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nab")
    assert incoming.status == 401
    with pytest.raises(NotHttp, match="'br', which was not requested"):
        incoming.take()


def test_two_codings_at_once_are_not_guessed_at() -> None:
    incoming = AnswerParser()
    incoming.feed(OK + b"content-encoding: gzip, utf-8, br\r\ncontent-length: 2\r\n\r\nab")
    with pytest.raises(NotHttp, match="'br, gzip', which was not requested"):
        incoming.take()


@pytest.mark.parametrize(
    "noise", [b"0\r\nx-sum: ", b"5;x-sum="], ids=["a trailer", "behind the size of a chunk"]
)
def test_what_stands_around_a_body_has_an_end(noise: bytes) -> None:
    incoming = AnswerParser()
    incoming.feed(CHUNKED + b"5\r\nhello\r\n" + noise)
    for _ in range(MOST_HEAD_BYTES // 1000):
        incoming.feed(b"1" * 1000)
    with pytest.raises(NotHttp, match=f"more than {MOST_HEAD_BYTES} bytes"):
        incoming.feed(b"1" * 1000)
    assert incoming.take() == b"hello"


def test_parts_of_a_body_may_be_as_many_as_they_like() -> None:
    incoming = AnswerParser()
    incoming.feed(CHUNKED)
    for _ in range(MOST_HEAD_BYTES):
        for piece in (b"1", b"\r\n", b"a", b"\r\n"):
            incoming.feed(piece)
    assert len(incoming.take()) == MOST_HEAD_BYTES


@pytest.mark.parametrize("size", [0, 1, TAKEN_BYTES, TAKEN_BYTES + 1, 4 * TAKEN_BYTES + 7])
def test_a_body_is_taken_in_pieces(size: int) -> None:
    incoming = AnswerParser()
    body = bytes(at % 251 for at in range(size))
    incoming.feed(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + body)
    assert incoming.over
    assert incoming.untaken == size
    pieces = []
    while piece := incoming.take():
        pieces.append(piece)
        assert incoming.untaken == size - sum(map(len, pieces))
    assert b"".join(pieces) == body
    assert max(map(len, pieces), default=0) <= TAKEN_BYTES
