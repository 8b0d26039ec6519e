"""Answers as they were received."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from inspector.recorded import Hider
from wholecall.core.outcome import collect
from wholecall.core.spec import ToolSpec
from wholecall.inspector.encoding import Plain
from wholecall.inspector.raw import RawAnswer
from wholecall.protocols.reader import Chunk
from wholecall.recording import load

CHUNK = {"choices": [{"index": 0, "delta": {"content": "héllo"}, "finish_reason": "stop"}]}
STREAM = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n".encode()
BODY = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
}


def write(
    chunks: Sequence[Chunk], *, streamed: bool = True, secret: str = "", **limits: int
) -> str:
    answer = RawAnswer("a title", (ToolSpec("look"),), **limits)
    for number, chunk in enumerate(chunks):
        answer.describe("openai-chat", streamed=streamed)
        answer.take(number / 8, chunk)
    return answer.write(Hider(secret) if secret else Plain())


def play(case: str, folder: Path) -> str:
    (folder / "case.jsonl").write_text(case + "\n")
    [recording] = load(folder / "case.jsonl")
    return collect([event for events in recording.play() for event in events]).text


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_can_be_played_again(tmp_path: Path, size: int) -> None:
    chunks = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    assert play(write(chunks), tmp_path) == "héllo"


@pytest.mark.parametrize("chunks", [[CHUNK], ["data: [DONE]\n\n"], []])
def test_other_forms_of_chunks_are_kept(chunks: list[Any]) -> None:
    case = write(chunks)
    assert (json.loads(case)["events"] if case else []) == chunks


@pytest.mark.parametrize(
    "chunk", [json.dumps(BODY).encode(), json.dumps(BODY, indent=2).encode(), BODY]
)
def test_a_whole_answer_can_be_played_again(tmp_path: Path, chunk: Chunk) -> None:
    assert play(write([chunk], streamed=False), tmp_path) == "hi"


def test_a_body_that_is_no_json_is_not_kept() -> None:
    assert write([b"<html>"], streamed=False) == ""


def test_secrets_are_taken_out(tmp_path: Path) -> None:
    assert play(write([STREAM], secret="llo"), tmp_path) == "hé***"
    assert play(write([CHUNK], secret="llo"), tmp_path) == "hé***"
    assert play(write([BODY], secret="hi", streamed=False), tmp_path) == "***"


def test_an_answer_that_would_be_broken_without_its_secret_is_not_kept() -> None:
    assert write([STREAM], secret='llo"') == ""


def test_an_answer_that_is_too_long_is_not_kept() -> None:
    chunks = [STREAM, CHUNK, STREAM]
    assert write(chunks, most_chunks=3)
    assert write(chunks, most_chunks=2) == ""
    assert write(chunks, most_bytes=100) == ""


@pytest.mark.parametrize("chunks", [[STREAM, STREAM], [STREAM[:-1], b"\n", STREAM], [CHUNK, CHUNK]])
def test_the_times_between_chunks_are_kept(chunks: list[Any]) -> None:
    case = json.loads(write(chunks))
    assert len(case["pauses"]) == len(case["events"])
    assert sum(case["pauses"]) == (len(chunks) - 1) / 8
