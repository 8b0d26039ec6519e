"""Answers as they were received."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from inspector.recorded import Hider
from wholecall.cli.recordings import load
from wholecall.events import collect
from wholecall.inspector.captured_answer import CapturedAnswer, read
from wholecall.protocols.reader import Chunk
from wholecall.proxy.observe.redaction import Redactor

CHUNK = {"choices": [{"index": 0, "delta": {"content": "héllo"}, "finish_reason": "stop"}]}
OFFER = {"tools": [{"name": "look"}], "dialect": "hermes", "tool_choice": "auto"}
STREAM = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n".encode()
BODY = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
}


def write(
    chunks: Sequence[Chunk],
    *,
    streamed: bool = True,
    secret: str = "",
    offer: dict[str, Any] = OFFER,
    **limits: int,
) -> str:
    answer = CapturedAnswer("a title", offer, **limits)
    for number, chunk in enumerate(chunks):
        answer.describe("openai-chat", streamed=streamed)
        answer.take(number / 8, chunk)
    kept = answer.write(Hider(secret) if secret else Redactor())
    assert not secret or secret.encode() not in kept
    return read(kept) if kept else ""


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


@pytest.mark.parametrize("chunk", [STREAM, CHUNK])
def test_what_was_offered_is_kept(chunk: Chunk) -> None:
    case = json.loads(write([chunk]))
    assert {name: case[name] for name in OFFER} == OFFER


@pytest.mark.parametrize(
    ("said", "kept"), [("Hello.", True), ("x" * 2_000_000, False), ("half: \ud83d", False)]
)
@pytest.mark.parametrize("chunk", [STREAM, CHUNK])
def test_a_conversation_is_kept_if_it_is_not_too_long(
    chunk: Chunk, *, said: str, kept: bool
) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": said}]}]
    case = json.loads(write([chunk], offer={**OFFER, "messages": messages}))
    assert case["messages"] == (messages if kept else [])
    assert {name: case[name] for name in OFFER} == OFFER


def test_a_secret_in_the_conversation_is_taken_out() -> None:
    messages = [{"role": "user", "content": "The key is sesame."}]
    case = json.loads(write([STREAM], secret="sesame", offer={**OFFER, "messages": messages}))
    assert case["messages"] == [{"role": "user", "content": "The key is ***."}]


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


# ── Secrets in a stream whose frames are alike ──────────────────────────────────────


def frames(*texts: str, name: str = "content") -> bytes:
    deltas = [{"choices": [{"index": 0, "delta": {name: text}}]} for text in texts]
    return b"".join(b"data: " + json.dumps(delta).encode() + b"\n\n" for delta in deltas)


WORDS = [f"word {number} " for number in range(20)]
KEY = "sk-Zq81hHw0pLx5RkT2"
ASSIGNED = "Zq81hHw0pLx5RkT2"


@pytest.mark.parametrize(
    "stream",
    [
        frames(*WORDS, f"it is {KEY}", *WORDS),
        frames(f"it is {KEY}", *WORDS),
        frames(*WORDS) + b'data: {"error": "' + KEY.encode() + b'"}\n\n',
        b": " + KEY.encode() + b"\n\n" + frames(*WORDS),
        frames(*WORDS, name=KEY),
        frames(*(f"{ASSIGNED}{number}" for number in range(20)), name="token"),
        frames(*WORDS, name="content").replace(
            b"}}]}", b'}, "password": "%b"}]}' % ASSIGNED.encode()
        ),
        frames(*WORDS, f"the token: {ASSIGNED}", *WORDS),
        frames(KEY),
    ],
)
def test_a_secret_is_found_wherever_it_stands(stream: bytes) -> None:
    answer = CapturedAnswer("a title", {})
    answer.describe("openai-chat", streamed=True)
    answer.take(0.0, stream)
    answer.hear("".join(WORDS), is_clean=True)
    kept = answer.write(Redactor())
    assert not kept or ASSIGNED not in read(kept)
    assert b"Zq81hHw0pLx5RkT2" not in kept


def test_a_secret_in_the_definition_of_a_tool_is_found() -> None:
    answer = CapturedAnswer(
        "a title", {"tools": [{"name": "look", "description": f"look with {KEY}"}]}
    )
    answer.describe("openai-chat", streamed=True)
    answer.take(0.0, frames(*WORDS))
    kept = answer.write(Redactor())
    assert KEY not in read(kept)
    assert "word 19" in read(kept)


def test_what_was_heard_and_is_clean_is_not_looked_through_again() -> None:
    looked: list[str] = []

    class Noting(Redactor):
        def finds_in(self, texts: Sequence[str]) -> bool:
            looked.extend(texts)
            return super().finds_in(texts)

    for heard in ("".join(WORDS[1:]), "other"):
        looked.clear()
        answer = CapturedAnswer("a title", {})
        answer.describe("openai-chat", streamed=True)
        answer.take(0.0, frames("", *WORDS[1:]))
        answer.hear(heard, is_clean=True)
        assert read(answer.write(Noting()))
        assert ("word 7" in "".join(looked)) == (heard == "other")


def test_a_long_stream_is_compressed(tmp_path: Path) -> None:
    answer = CapturedAnswer("a title", {})
    answer.describe("openai-chat", streamed=True)
    texts = [f"word {number} " for number in range(2000)]
    for number, text in enumerate(texts):
        answer.take(number / 20, frames(text))
    kept = answer.write(Redactor())
    assert len(kept) < 20_000
    assert play(read(kept), tmp_path) == "".join(texts)
    assert set(json.loads(read(kept))["pauses"][1:]) == {0.05}
