import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholecall.errors import ProtocolError
from wholecall.protocols.sse_ndjson import ServerSentEvent, SseParser

ROWS = [
    ("a blank line ends an event", b"data: a\n\n", [("message", "a")]),
    ("an event may have a name", b"event: ping\ndata: a\n\n", [("ping", "a")]),
    (
        "the name is of one event only",
        b"event: x\ndata: a\n\ndata: b\n\n",
        [("x", "a"), ("message", "b")],
    ),
    ("lines of data are joined by newlines", b"data: a\ndata: b\n\n", [("message", "a\nb")]),
    ("only one space is taken off", b"data:  a\n\n", [("message", " a")]),
    ("and none at the end", b"data: a \n\n", [("message", "a ")]),
    ("the space may be missing", b"data:a\nevent:x\n\n", [("x", "a")]),
    ("a field may have no colon", b"data\n\n", [("message", "")]),
    ("empty data is data", b"data:\n\n", [("message", "")]),
    ("a comment is skipped", b": ping\n\n: ping\ndata: a\n\n", [("message", "a")]),
    ("unknown fields are skipped", b"id: 1\nretry: 5\nfoo\ndata: a\n\n", [("message", "a")]),
    ("a name without data is no event", b"event: keepalive\n\n", []),
    ("and it does not name the next one", b"event: x\n\ndata: a\n\n", [("message", "a")]),
    ("blank lines alone are no events", b"\n\r\n\r", []),
    ("a colon may stand in the data", b'data: {"a":1}\n\n', [("message", '{"a":1}')]),
    ("lines may end with CR", b"data: a\r\r", [("message", "a")]),
    ("lines may end with CRLF", b"event: x\r\ndata: a\r\n\r\n", [("x", "a")]),
    ("a BOM is skipped", b"\xef\xbb\xbfdata: a\n\n", [("message", "a")]),
    ("text is UTF-8", "data: 你好 😀\n\n".encode(), [("message", "你好 😀")]),
    ("what is no UTF-8 becomes U+FFFD", b"data: \xf0\x9f\x98\n\n", [("message", "\ufffd")]),
    ("the last blank line may be missing", b"data: a\n", [("message", "a")]),
    ("a last line that was cut is dropped", b"data: a\n\ndata: b", [("message", "a")]),
    ("and so is the event that it was cut from", b"data: a\ndata: b", []),
    (
        "a last [DONE] needs no newline",
        b"data: a\n\ndata: [DONE]",
        [("message", "a"), ("message", "[DONE]")],
    ),
    ("but it must be all of the data", b"data: a\ndata: [DONE]", []),
    ("a whole [DONE] survives what follows it", b"data: [DONE]\nev", [("message", "[DONE]")]),
    ("a cut [DONE] is dropped", b"data: [DON", []),
    ("a last object needs no newline", b'data: {"a":1}', [("message", '{"a":1}')]),
    ("nor does one of several lines", b'data: {"a":\n1}', [("message", '{"a":\n1}')]),
    ("but its end", b'data: {"a":1', []),
    ("a number may go on", b"data: 1", []),
    (
        "[DONE] in small letters",
        b"data: {}\ndata: [done]",
        [("message", "{}"), ("message", "[done]")],
    ),
    ("[DONE] with blanks", b"data: [ DONE ] ", [("message", "[ DONE ] ")]),
    (
        "[DONE] without a field, among events",
        b"data: a\n\n[DONE]\n",
        [("message", "a"), ("message", "[DONE]")],
    ),
    # Fields without their names.
    (
        "lines of an open object belong to it",
        b'data: {\n "a":\n1\n}\n\n',
        [("message", '{\n "a":\n1\n}')],
    ),
    ("whatever they begin with", b'data: {"a":\n{}\n}\n\n', [("message", '{"a":\n{}\n}')]),
    ("a line within a string", b'data: {"a":"b\nc"}\n\n', [("message", '{"a":"b\nc"}')]),
    (
        "fields among them are fields",
        b'data: {"a":\n: wait\n1\ndata: }\n\n',
        [("message", '{"a":\n1\n}')],
    ),
    ("a whole object is over", b'data: {"a":1}\nfoo\nbar\n\n', [("message", '{"a":1}')]),
    ("what is no object has no such lines", b"data: a\nfoo\n\n", [("message", "a")]),
    (
        "each object for itself",
        b'data: {"a":1}\nfoo\n\ndata: {\n}\n\n',
        [("message", '{"a":1}'), ("message", "{\n}")],
    ),
    # Blank lines that are left out.
    (
        "objects are events",
        b'data: {"a":1}\ndata: {"b":2}\n\n',
        [("message", '{"a":1}'), ("message", '{"b":2}')],
    ),
    (
        "so is [DONE]",
        b'data: {"a":1}\ndata: [DONE]',
        [("message", '{"a":1}'), ("message", "[DONE]")],
    ),
    (
        "an object may have several lines",
        b'data: {"a":\ndata: {"b":2}}\n\n',
        [("message", '{"a":\n{"b":2}}')],
    ),
    (
        "what follows an object may be none",
        b'data: {"a":1}\ndata: b\n\n',
        [("message", '{"a":1}\nb')],
    ),
    (
        "a cut object leaves the one before it",
        b'data: {"a":1}\ndata: {"b"',
        [("message", '{"a":1}')],
    ),
    # Bare JSON.
    ("a line that is JSON is an event", b'{"a":1}\n', [("message", '{"a":1}')]),
    ("each one", b'{"a":1}\n\n{"b":2}\n', [("message", '{"a":1}'), ("message", '{"b":2}')]),
    ("it needs no newline", b'{"a":1}', [("message", '{"a":1}')]),
    ("but its end", b'{"a":', []),
    ("a BOM and blanks may stand before", b'\xef\xbb\xbf\n \n  {"a":1}', [("message", '{"a":1}')]),
    ("so may comments", b': wait\n\n{"a":\n1}\n', [("message", '{"a":\n1}')]),
    ("JSON over several lines is one event", b'{\n"a": 1\n\n}\n', [("message", '{\n"a": 1\n\n}')]),
    ("with or without its last newline", b'[{"a":1},\r\n{}]', [("message", '[{"a":1},\n{}]')]),
    ("what was cut is dropped", b'{\n"a": 1', []),
    ("what is broken is for the decoder to tell", b'{"a": oops\n', [("message", '{"a": oops')]),
    ("[DONE] without a field", b'{"a":1}\n[DONE]', [("message", '{"a":1}'), ("message", "[DONE]")]),
    ("JSON among events", b'data: a\n\n{"a":1}\n', [("message", "a"), ("message", '{"a":1}')]),
    (
        "a broken one hides no events",
        b'data: a\n\n{"a":\ndata: b\n\n',
        [("message", "a"), ("message", '{"a":'), ("message", "b")],
    ),
    ("other lines among events are skipped", b"event: x\n[info]\ndata: a\n\n", [("x", "a")]),
]


def parse(pieces: list[bytes]) -> list[tuple[str, str]]:
    parser = SseParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return [(event.event, event.data) for event in [*events, *parser.end()]]


def one_by_one(stream: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in stream]


@pytest.mark.parametrize(("stream", "events"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_row(stream: bytes, events: list[tuple[str, str]]) -> None:
    assert parse([stream]) == events
    assert parse(one_by_one(stream)) == events


TOKENS = [b"data: a", "data:你".encode(), b"event: x", b": c", b"data: [DONE]", b"\xef\xbb\xbf"]
ENDS = [b"\n", b"\r\n", b"\r", b"\xe4"]


@settings(deadline=None)
@given(st.lists(st.sampled_from([*TOKENS, *ENDS, *ENDS])), st.data())
def test_any_cut_gives_the_same_events(tokens: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(tokens)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    bounds = pairwise([0, *cuts, len(stream)])
    assert parse([stream[start:end] for start, end in bounds]) == parse([stream])


def test_lines_that_are_split_already_can_be_fed() -> None:
    parser = SseParser()
    assert parser.feed_line("event: error") == []
    assert parser.feed_line("data: {}") == []
    assert parser.feed_line("") == [ServerSentEvent("error", "{}")]
    assert parser.feed_line("data: [DONE]") == []
    assert parser.end() == [ServerSentEvent("message", "[DONE]")]


def test_the_end_leaves_nothing_behind() -> None:
    parser = SseParser()
    parser.feed(b"event: x\ndata: a\ndata: b")
    assert parser.end() == []
    assert parser.feed(b"data: c\n\n") == [ServerSentEvent("message", "c")]


def test_a_line_beyond_the_limit_is_an_error_that_names_it() -> None:
    with pytest.raises(ProtocolError, match="a line of server-sent events has more than 10 bytes"):
        SseParser(limit=10).feed(b"data: 12345")


def test_an_event_beyond_the_limit_is_an_error_that_names_it() -> None:
    parser = SseParser(limit=10)
    assert parser.feed(b"data:1234\n" * 2 + b"\n") == [ServerSentEvent("message", "1234\n1234")]
    with pytest.raises(ProtocolError, match="a server-sent event has more than 10 characters"):
        parser.feed(b"data:1234\n" * 3)


def bytes_allocated(length: int) -> int:
    """All bytes that are allocated while a line of this length is fed one by one."""
    parser = SseParser()
    total = 0
    tracemalloc.start()
    for _ in range(length):
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        parser.feed(b"a")
        total += tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return total


def test_a_long_line_in_single_bytes_is_not_copied_for_each() -> None:
    # Twice the line is twice the work; a copy of the line for each byte would be four times.
    assert bytes_allocated(40_000) < 3 * bytes_allocated(20_000)


def test_a_stream_recorded_from_llama_cpp() -> None:
    stream = (Path(__file__).parent / "streams" / "qwen-plain-text.sse").read_bytes()
    events = parse([stream])
    assert len(events) == stream.count(b"data: ")
    assert events[-1] == ("message", "[DONE]")
    assert parse(one_by_one(stream)) == events


def test_bare_json_beyond_the_limit_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="has more than 10 characters"):
        SseParser(limit=10).feed(b"{\n" + b'"a":1\n' * 3)
