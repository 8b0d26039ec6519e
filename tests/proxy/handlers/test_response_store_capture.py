"""Answers whose end is remembered on their way."""

from __future__ import annotations

import pytest

from proxy.collected_events import KeptSink
from proxy_server import in_loop
from wholecall.proxy.handlers.response_store import CaptureSink, find_response
from wholecall.proxy.http.client_connection import ResponseBody

DELTA = b'event: x\ndata: {"type":"response.output_text.delta","delta":"response.completed"}\n\n'
END = b'event: x\ndata: {"type":"response.completed","response":{"id":"r"}}\n\n'
CUT = b'event: x\ndata: {"type":"response.incomplete","response":{"id":"r"}}\n\n'
FAILED = b'event: x\ndata: {"type":"response.failed","response":{"id":"r"}}\n\n'


class Seen:
    """Remembers what it is to keep."""

    def __init__(self) -> None:
        self.responses: list[bytes] = []

    async def keep(self, response: bytes) -> None:
        self.responses.append(response)


ENDS: dict[str, tuple[bytes, bytes | None]] = {
    "a good end": (DELTA + END, b'{"id":"r"}'),
    "an end at a limit": (DELTA + CUT, b'{"id":"r"}'),
    "a terminator of imitators": (END + b"data: [DONE]\n\n", b'{"id":"r"}'),
    "a failure": (FAILED, b'{"id":"r"}'),
    "words only": (DELTA, None),
    "half of a frame": (END[:-20], None),
    "a type that is no UTF-8": (b'data: {"type":"\xff"}\n\n', None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("frames", "response"), ENDS.values(), ids=ENDS)
def test_the_last_event_tells_the_response(frames: bytes, response: bytes | None) -> None:
    assert find_response(frames) == response


@pytest.mark.parametrize(
    ("frames", "kept"),
    [([DELTA, END], 1), ([END, DELTA], 0), ([DELTA], 0), ([FAILED], 0), ([], 0)],
)
@in_loop
async def test_a_stream_that_ended_well_is_kept(frames: list[bytes], kept: int) -> None:
    inner, seen = KeptSink(), Seen()
    sink = CaptureSink(inner, seen.keep)
    sink.add_headers(((b"a", b"b"),))
    for each in frames:
        sink.put(each)
        await sink.flush()
    sink.wake()
    sink.beat = lambda: b"beat"
    await sink.close()
    assert (inner.frames, inner.closed, inner.woken) == (b"".join(frames), True, 1)
    assert (inner.headers, inner.beat(), sink.beat()) == (((b"a", b"b"),), b"beat", b"beat")
    assert sink.begun is bool(frames)
    inner.gone = True
    assert sink.gone
    assert len(seen.responses) == kept


@pytest.mark.parametrize(("status", "kept"), [(200, [b"{}"]), (502, [])])
@in_loop
async def test_an_answer_in_one_piece_is_kept_if_it_is_one(status: int, kept: list[bytes]) -> None:
    inner, seen = KeptSink(), Seen()
    await CaptureSink(inner, seen.keep).send_body(ResponseBody(status, b"{}"))
    assert seen.responses == kept
    assert inner.body is not None
