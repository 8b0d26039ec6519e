"""Lines of text and pieces of text, told apart."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholecall.errors import ProtocolError
from wholecall.protocols.sse_ndjson import Piece, TextStream

ROWS: list[tuple[str, list[Piece], bytes]] = [
    ("one text is a line", ["data: a"], b"data: a\n"),
    ("whatever it holds", ["abc"], b"abc\n"),
    ("two fields in a row are lines", ["data: a", "data: b"], b"data: a\ndata: b\n"),
    ("so is a field behind a comment", [": c", "data: b", "x"], b": c\ndata: b\nx\n"),
    ("comments are lines in the end", ["data: a", ": c"], b"data: a\n: c\n"),
    ("an empty text is a line", ["x", "", "data: a"], b"x\n\ndata: a\n"),
    ("also as the first one", ["", "x"], b"\nx\n"),
    ("a whole object is a line", ['{"a":1}', '{"b":2}'], b'{"a":1}\n{"b":2}\n'),
    ("half of one is not", ['{"a"', ":1}"], b'{"a":1}'),
    ("a newline says that they are pieces", ["da", "ta: a\n", "da", "ta"], b"data: a\ndata"),
    ("a CR does, too", ["da", "ta: a\r", "", "da"], b"data: a\rda"),
    ("even after lines", ["", "a", "b\nc", "d"], b"\na\nb\ncd"),
    ("a colon is no comment inside a line", ['data: {"a"', ":", "1}\n"], b'data: {"a":1}\n'),
    ("no line goes on as a field", ["data: a", "data: b\n"], b"data: a\ndata: b\n"),
    ("pieces that never end are pieces", ["da", "ta: a"], b"data: a"),
    ("bytes are themselves", [b"a", bytearray(b"b"), memoryview(b"c")], b"abc"),
    ("and end what was kept", ["data: a", b"b"], b"data: a\nb"),
    ("half of a pair is kept", ["\ud83d\n"], b"\xed\xa0\xbd\n"),
]


def encode(pieces: list[Piece]) -> bytes:
    texts = TextStream()
    return b"".join(map(texts.encode, pieces)) + texts.end() + texts.end()


@pytest.mark.parametrize(("pieces", "whole"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_row(pieces: list[Piece], whole: bytes) -> None:
    assert encode(pieces) == whole


STREAM = 'event: x\ndata: {"a": "é: [1]"}\n\n: c\n\ndata: [DONE]\n\n'


@settings(deadline=None)
@given(st.sets(st.integers(1, len(STREAM) - 1)))
def test_any_cut_gives_the_same_bytes(cuts: set[int]) -> None:
    bounds = pairwise([0, *sorted(cuts), len(STREAM)])
    assert encode([STREAM[start:end] for start, end in bounds]) == STREAM.encode()


def test_what_is_kept_has_a_limit() -> None:
    texts = TextStream(limit=3)
    texts.encode("abc")
    with pytest.raises(ProtocolError, match="a line has more than 3 characters"):
        texts.encode("d")
