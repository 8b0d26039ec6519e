import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholecall.errors import ProtocolError
from wholecall.protocols.sse_ndjson import NdjsonParser

ROWS = [
    ("each line is a payload", b'{"a":1}\n{"b":2}\n', ['{"a":1}', '{"b":2}']),
    ("lines may end with CRLF", b'{"a":1}\r\n{"b":2}\r\n', ['{"a":1}', '{"b":2}']),
    ("blank lines are skipped", b'\n{"a":1}\n \n\n', ['{"a":1}']),
    ("a last line may lack its newline", b'{"a":1}\n{"b":2}', ['{"a":1}', '{"b":2}']),
    ("but not its end", b'{"a":1}\n{"b":', ['{"a":1}']),
    ("a stream may end before its first line", b"", []),
    ("text is UTF-8", '{"a":"你"}\n'.encode(), ['{"a":"你"}']),
    ("what is nested beyond the stack is not whole", b"[" * 100_000, []),
]


def parse(pieces: list[bytes]) -> list[str]:
    parser = NdjsonParser()
    lines = [line for piece in pieces for line in parser.feed(piece)]
    return lines + parser.end()


@pytest.mark.parametrize(("stream", "lines"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_row(stream: bytes, lines: list[str]) -> None:
    assert parse([stream]) == lines


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"{", b"}", b"\r", b"\n", b" ", b"\xe4\xbd\xa0", b"\xe4"])))
def test_any_cut_gives_the_same_lines(pieces: list[bytes]) -> None:
    assert parse(pieces) == parse([b"".join(pieces)])


def test_a_line_beyond_the_limit_is_an_error_that_names_it() -> None:
    with pytest.raises(ProtocolError, match="a line of newline-delimited JSON has more than 3"):
        NdjsonParser(limit=3).feed(b"1234")
