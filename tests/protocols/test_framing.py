import pytest

from wholecall.protocols.framing import Framing, NdjsonFraming, SseFraming

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
    assert [p for chunk in chunks for p in frames.feed(chunk)] + frames.end() == payloads


def test_an_event_that_is_named_an_error_is_one() -> None:
    framing = SseFraming()
    assert framing.feed(b"event: error\ndata: upstream gone\n\n") == [
        '{"type": "error", "error": "upstream gone"}'
    ]
    assert framing.feed(b'event: error\ndata: {"error": 1}\n\n') == ['{"error": 1}']
