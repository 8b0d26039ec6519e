import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.errors import ProtocolError
from wholecall.protocols.decoder import Payload
from wholecall.protocols.sse_ndjson import Framing, NdjsonFraming, SseFraming, SseParser, _payload

ROWS = [
    (SseFraming, "bytes in any pieces", [b"data: a\n\nda", b"ta: b\n", b"\n"], ["a", "b"]),
    (SseFraming, "lines of text", ["event: x", "data: a", "", ": comment", ""], ["a"]),
    (SseFraming, "text with its line ends", ["data: a\n", "\n", "data: b\r\n\r\n"], ["a", "b"]),
    (
        SseFraming,
        "a line that is bare JSON",
        ['{"a":1}', 'data: {"b":2}', ""],
        ['{"a":1}', '{"b":2}'],
    ),
    (SseFraming, "separators inside JSON cut nothing", ['{"a":"\u2028"}\n'], ['{"a":"\u2028"}']),
    (SseFraming, "an event that lacks its blank line", ["data: [DONE]"], ["[DONE]"]),
    (NdjsonFraming, "bytes in any pieces", [b"{}\n[", b"]\n"], ["{}", "[]"]),
    (NdjsonFraming, "lines of text", ["{}", "", "[]\n{}\n"], ["{}", "[]", "{}"]),
    (NdjsonFraming, "a last line that lacks its newline", [b"{}"], ["{}"]),
    (SseFraming, "text that ends inside a line", ["data: a\n\nda", "ta: b\n", "\n"], ["a", "b"]),
    (SseFraming, "text that is cut before its first newline", list("data: a\n\n"), ["a"]),
    (SseFraming, "JSON over lines of text", ["", "{", '"a":1', "}"], ['{\n"a":1\n}']),
    (SseFraming, "buffers", [bytearray(b"data: a\n"), memoryview(b"\n")], ["a"]),
    (NdjsonFraming, "text that ends inside a line", ["{}\n[", "1]\n[", "]"], ["{}", "[1]", "[]"]),
    (NdjsonFraming, "text that is cut before its first newline", list("{}\n[]\n"), ["{}", "[]"]),
]


@pytest.mark.parametrize(
    ("framing", "chunks", "payloads"),
    [(framing, chunks, payloads) for framing, _, chunks, payloads in ROWS],
    ids=[f"{framing.__name__}: {says}" for framing, says, *_ in ROWS],
)
def test_row(framing: type[Framing], chunks: list[bytes | str], *, payloads: list[str]) -> None:
    frames = framing()
    given = [payload for chunk in chunks for payload in frames.feed(chunk)]
    assert _as_text(given + frames.end()) == payloads


# Pieces of streams: the two usual forms of an event, and whatever else may stand between them.
PIECES = st.sampled_from(
    [
        *(b'data: {"a": 1}\n\n', b"data: \n\n", b"data:x\n\n", b"data: [DONE]\n\n"),
        *(b"event: delta\ndata: a\n\n", b"event: error\ndata: a\n\n", b"event: error\n\n"),
        *(b"event: a\ndata: b\ndata: c\n\n", b"data: b\nevent: error\n\n", b"id: 1\n\n"),
        *(b": alive\n\n", b"\n", b"data: a\r\n\r\n", b"\r", b"data: \xc3\xa9\xff\n\n"),
        *(b'{"bare": 1}\n', b"\xef\xbb\xbf", b"data: cut", b"event: cut\n"),
    ]
)


@given(st.lists(PIECES, max_size=8).map(b"".join), st.randoms(use_true_random=False))
def test_what_is_cut_out_is_what_the_parser_reads(stream: bytes, dice: random.Random) -> None:
    places = sorted(dice.sample(range(len(stream) + 1), dice.randint(0, min(3, len(stream)))))
    framing, parser = SseFraming(), SseParser()
    for start, end in pairwise([0, *places, len(stream)]):
        piece = stream[start:end]
        assert _as_text(framing.feed(piece)) == [_payload(each) for each in parser.feed(piece)]
    assert _as_text(framing.end()) == [_payload(each) for each in parser.end()]


def _as_text(payloads: list[Payload]) -> list[str]:
    return [
        each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each)
        for each in payloads
    ]


def test_an_event_that_is_too_long_is_an_error_however_it_comes() -> None:
    framing = SseFraming(limit=20)
    framing.feed(b"data: a\n\n")
    with pytest.raises(ProtocolError, match="more than 20 bytes"):
        framing.feed(b"data: " + b"a" * 20 + b"\n\n")


def test_an_event_that_is_named_an_error_is_one() -> None:
    framing = SseFraming()
    assert framing.feed(b"event: error\ndata: upstream gone\n\n") == [
        '{"type": "error", "error": "upstream gone"}'
    ]
    assert framing.feed(b'event: error\ndata: {"error": 1}\n\n') == ['{"error": 1}']
