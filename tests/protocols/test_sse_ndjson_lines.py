import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholecall.errors import ProtocolError
from wholecall.protocols.sse_ndjson import LineSplitter

ROWS = [
    ("LF ends a line", [b"a\nb\n"], ["a", "b"]),
    ("CRLF ends a line", [b"a\r\nb\r\n"], ["a", "b"]),
    ("CR ends a line", [b"a\rb\r"], ["a", "b"]),
    ("a CRLF may be cut in two", [b"a\r", b"\nb\n"], ["a", "b"]),
    ("a CRLF may be cut by nothing at all", [b"a\r", b"", b"\nb\n"], ["a", "b"]),
    ("an LF after a CRLF is a blank line", [b"a\r", b"\n", b"\n"], ["a", ""]),
    ("a CR after a cut CR is a blank line", [b"a\r", b"\r"], ["a", ""]),
    ("a line may come in pieces", [b"a", b"b", b"c\n"], ["abc"]),
    ("a character may be cut", [b"\xe4\xbd", b"\xa0\n"], ["你"]),
    ("what is no UTF-8 becomes U+FFFD", [b"a\xffb\n"], ["a\ufffdb"]),
    ("a BOM before the first line is dropped", [b"\xef\xbb", b"\xbfa\n"], ["a"]),
    ("a BOM before another line is kept", [b"a\n\xef\xbb\xbfb\n"], ["a", "\ufeffb"]),
    ("other separators end no line", ["a\u2028b\x0bc\x85d\n".encode()], ["a\u2028b\x0bc\x85d"]),
]


def split(pieces: list[bytes], limit: int = 10_000) -> list[str]:
    splitter = LineSplitter("a test", limit)
    return [line for piece in pieces for line in splitter.feed(piece)]


@pytest.mark.parametrize(("pieces", "lines"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_row(pieces: list[bytes], lines: list[str]) -> None:
    assert split(pieces) == lines
    whole = b"".join(pieces)
    assert split([whole]) == lines
    assert split([bytes([byte]) for byte in whole]) == lines


def test_the_end_gives_what_has_no_end_of_its_own() -> None:
    splitter = LineSplitter("a test", 100)
    splitter.feed(b"a\nb")
    assert splitter.end() == "b"
    assert splitter.end() == ""


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b""])
def test_a_line_may_have_as_many_bytes_as_its_limit(end: bytes) -> None:
    assert split([b"abc", end], limit=3) == (["abc"] if end else [])


@pytest.mark.parametrize("pieces", [[b"abcd"], [b"ab", b"cd"], [b"abcd\n"], [b"\nabcd"]])
def test_a_longer_line_is_an_error_that_names_the_limit(pieces: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="a line of a test has more than 3 bytes"):
        split(pieces, limit=3)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=8)))
def test_any_cut_gives_the_same_lines(pieces: list[bytes]) -> None:
    assert split(pieces) == split([b"".join(pieces)])
