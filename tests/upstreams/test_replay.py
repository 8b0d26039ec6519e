"""Answers from recordings and scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from upstreams.fake_endpoint import FIRST, REQUEST, SECOND, WHOLE_REQUEST, Pauses, in_loop
from wholecall.cli.recordings import load
from wholecall.errors import UpstreamError
from wholecall.protocols.reader import Chunk
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer

BODY: dict[str, list[str]] = {"choices": []}


async def read(upstream: ReplayUpstream) -> list[Chunk]:
    async with upstream.answer(REQUEST) as answer:
        return [chunk async for chunk in answer.chunks]


@in_loop
async def test_each_request_takes_the_next_turn() -> None:
    upstream = ReplayUpstream(
        [
            ScriptedAnswer(chunks=(FIRST, SECOND)),
            UpstreamError("busy", status=429),
            ScriptedAnswer(protocol="anthropic", body=BODY),
        ]
    )
    assert upstream.protocol == "openai-chat"
    assert await read(upstream) == [FIRST, SECOND]
    assert upstream.protocol == "anthropic"
    with pytest.raises(UpstreamError, match="busy"):
        await read(upstream)
    async with upstream.answer(WHOLE_REQUEST) as answer:
        assert (answer.protocol, answer.streamed) == ("anthropic", False)
        assert [chunk async for chunk in answer.chunks] == [BODY]
    assert upstream.requests == [REQUEST, REQUEST, WHOLE_REQUEST]
    await upstream.close()


@in_loop
async def test_when_the_turns_are_over_it_says_so() -> None:
    upstream = ReplayUpstream([ScriptedAnswer()], protocol="gemini")
    assert await read(upstream) == []
    assert upstream.protocol == "gemini"
    with pytest.raises(UpstreamError, match="answer 2 was asked for, and the recording has 1"):
        await read(upstream)


@in_loop
async def test_a_recorded_cut_ends_the_chunks() -> None:
    upstream = ReplayUpstream([ScriptedAnswer(chunks=("data: {}", "!EOF", "data: {}"))])
    assert await read(upstream) == ["data: {}"]


@pytest.mark.parametrize(
    ("pace", "slept"),
    [(0.0, []), (1.0, [0.5, 2.0]), (2.0, [1.0, 4.0])],
)
@in_loop
async def test_the_recorded_pace_is_kept_if_wanted(pace: float, slept: list[float]) -> None:
    pauses = Pauses()
    turn = ScriptedAnswer(chunks=("a", "b", "c", "d"), pauses=(0.5, 0.0, 2.0))
    upstream = ReplayUpstream([turn], pace=pace, sleep=pauses.sleep)
    assert await read(upstream) == ["a", "b", "c", "d"]
    assert pauses.seconds == slept


@in_loop
async def test_a_file_of_recordings_is_an_upstream(tmp_path: Path) -> None:
    file = tmp_path / "recorded.sse"
    file.write_bytes(FIRST + SECOND)
    upstream = ReplayUpstream(load(file))
    assert b"".join(chunk for chunk in await read(upstream) if isinstance(chunk, bytes)) == (
        FIRST + SECOND
    )
