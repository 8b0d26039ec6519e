"""A sample of `make fuzz`: recorded streams, cut inside."""

from __future__ import annotations

import pytest

from cuts import Stream, cut_everywhere, load_streams

STREAMS = list(load_streams())
STEP = 41


def test_there_are_enough_streams() -> None:
    assert len(STREAMS) >= 50


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.id)
def test_a_cut_stream_runs_nothing_that_the_whole_does_not_hold(stream: Stream) -> None:
    findings = list(cut_everywhere(stream, STEP))
    assert findings
    assert [finding for finding in findings if finding is not None] == []
