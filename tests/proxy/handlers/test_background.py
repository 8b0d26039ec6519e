"""Work that goes on although nobody waits for it; tests/e2e/test_proxy_background.py has more."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from typing import Any

import pytest

from proxy.collected_events import KeptSink
from proxy_server import in_loop
from wholecall.errors import RunFailed
from wholecall.events import Ended, Reasoning, Text
from wholecall.journal.run_journal import RunRow, RunStatus
from wholecall.protocols.registry import RESPONSES, make_encoder
from wholecall.protocols.response_base import Failure, ResponseHead, ResponseStyle
from wholecall.proxy.handlers.background import (
    NUMBER,
    After,
    make_failure,
    read_stream,
    write_state,
)
from wholecall.proxy.handlers.idempotency import SharedStream
from wholecall.proxy.handlers.response_store import find_response
from wholecall.proxy.handlers.response_writer import StreamedResponse

HEAD = ResponseHead(id="resp_1", model="m", created=7, rest={"background": True})
RUN = RunRow("resp_1", model="m", created=7.0, background=True)


FRAMES = b"".join(
    b'event: x\ndata: {"type":"x","sequence_number":%d,"text":"\\"sequence_number\\":0"}\n\n' % n
    for n in range(4)
)


def test_what_was_seen_is_left_out() -> None:
    assert After(-1)(FRAMES) == FRAMES
    assert After(1)(FRAMES).count(b"event:") == 2
    assert After(3)(FRAMES) == b""
    assert After(9)(b": a comment\n\n") == b": a comment\n\n"


@pytest.mark.parametrize(
    ("read", "number"), [(FRAMES, 3), (b": a comment\n\n", 0), (b"", 0)], ids=["some", "none", ""]
)
def test_a_reader_that_the_server_leaves_is_told_where_to_go_on(read: bytes, number: int) -> None:
    left = Failure(message="left", status=503, code="stream_left")
    told = make_failure(HEAD, read, failure=left, after=0)
    assert b"stream_left" in told
    assert b'"sequence_number":%d,' % number in told
    assert told.count(b"event:") == 1


# ── Continued by another worker ─────────────────────────────────────────────────────


def begin(*events: Any) -> bytes:
    encoder = make_encoder(RESPONSES, HEAD)
    written = [encoder.begin()]
    for event in events:
        is_event = isinstance(event, Text | Reasoning)
        written.append(encoder.encode(event) if is_event else encoder.report(event))
    return b"".join(written)


SAID = (Text("Let me "), Text("look."))
RESUMED: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "nothing was sent": ((), "Let me look.", "Let me look."),
    "a part was sent": ((Text("Let me "),), "Let me look.", "Let me look."),
    "all was sent": (SAID, "Let me look.", "Let me look."),
    "more was sent, of a turn that is asked for again": (SAID, "", "Let me look.\n\nDone."),
    "with reasoning": ((Reasoning("Hm."), *SAID), "Let me look.", "Let me look."),
    "with progress": (({"type": "turn_started"}, *SAID), "Let me look.", "Let me look."),
}


@pytest.mark.parametrize(("sent", "recalled", "text"), RESUMED.values(), ids=RESUMED)
@in_loop
async def test_a_stream_goes_on_where_the_other_worker_was(
    *, sent: tuple[Any, ...], recalled: str, text: str
) -> None:
    before, sink = begin(*sent), KeptSink()
    sink.begun = True
    writer = StreamedResponse(sink, RESPONSES, make_head=lambda: HEAD, style=ResponseStyle())
    writer.resume(read_stream(before))
    writer.recall(recalled)
    if not recalled:
        writer.put(Text("Done."))
    writer.put(Ended("stop", None, None, None))
    await writer.finish()
    stream = before + sink.frames
    numbers = [int(number) for number in NUMBER.findall(stream)]
    assert numbers == list(range(len(numbers)))
    end = find_response(stream)
    assert end is not None
    output = json.loads(end)["output"]
    assert [part["text"] for item in output for part in item.get("content", ())] == [text]


def test_a_stream_that_cannot_be_written_again_is_not_continued() -> None:
    writer = StreamedResponse(KeptSink(), RESPONSES, make_head=lambda: HEAD, style=ResponseStyle())
    with pytest.raises(RunFailed, match="cannot be continued"):
        writer.resume(read_stream(begin(*SAID).replace(b"resp_1", b"resp_2")))


STATES = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.WAITING: "in_progress",
    RunStatus.CANCELLED: "cancelled",
    RunStatus.BROKEN: "failed",
}


@pytest.mark.parametrize("status", STATES)
def test_the_state_of_a_response_is_that_of_its_run(status: RunStatus) -> None:
    state = json.loads(write_state(RUN._replace(status=status), begin(*SAID)))
    assert (state["id"], state["status"], state["background"]) == ("resp_1", STATES[status], True)


@in_loop
async def test_what_is_kept_does_not_keep_whoever_made_it() -> None:
    class Maker:
        def beat(self) -> bytes:
            return b"beat"

        async def work(self) -> None:
            """Nothing is written."""

    maker, answer = Maker(), SharedStream()
    answer.beat = maker.beat
    gone = weakref.ref(maker)
    task = answer.start(maker.work, break_off=maker.work)
    del maker
    await task
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert gone() is None
    assert answer.is_over
