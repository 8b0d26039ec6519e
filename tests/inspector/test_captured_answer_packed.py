"""Streams without what all of their frames have in common."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.inspector.captured_answer import pack


def frame(text: str, **fields: str) -> bytes:
    delta = {"id": "chatcmpl-1", "choices": [{"delta": {"content": text}}], **fields}
    return b"data: " + json.dumps(delta).encode() + b"\n\n"


WORDS = [f"word {number}" for number in range(20)]
ALIKE = b"".join(map(frame, WORDS))
OPENING = b'data: {"role": "assistant"}\n\n'
END = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "stream",
    [
        ALIKE,
        OPENING + ALIKE + END,
        OPENING + OPENING + ALIKE + frame("end", usage="some") + END,
        ALIKE[:-1],
        ALIKE[:-30],
        b"\n\n" + ALIKE,
    ],
)
def test_what_frames_have_in_common_is_kept_once(stream: bytes) -> None:
    packed = pack(stream)
    assert packed.unpack() == stream
    assert (
        packed.head
        == b'data: {"id": "chatcmpl-1", "choices": [{"delta": {"content": "'[: len(packed.head)]
    )
    assert b"word 3word 4" in packed.said
    assert len(packed.texts) + len(packed.around) < len(stream) / 2


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\n",
        END,
        OPENING + frame("a") + END,
        ALIKE.replace(b"\n\n", b"\r\n\r\n"),
        ALIKE.replace(b"\n\n", b"\n"),
        ALIKE.replace(b"word 7", b"\0"),
        ALIKE + b": alive\n\n" + ALIKE,
        b"".join(b"data: %d\n\n" % number for number in range(20)),
        b"x\n\n" * 20,
    ],
)
def test_what_is_not_alike_stays_as_it_is(stream: bytes) -> None:
    packed = pack(stream)
    assert packed.before == packed.unpack() == packed.around == stream
    assert packed.said == b""


def test_a_long_stream_is_packed_and_one_that_is_not_alike_everywhere_is_not() -> None:
    """It is put together again some frames at a time."""
    stream = b"".join(frame(f"word {number}") for number in range(1000))
    assert pack(stream).unpack() == stream
    assert len(pack(stream).around) < 500
    for broken in (b"\n", b"\n\n\n", b"\n: alive\n"):
        parts = stream.split(b"\n\n")
        for place in (3, 128, 129, 500, 997):
            torn = b"\n\n".join(parts[:place]) + broken + b"\n\n".join(parts[place:])
            assert pack(torn).unpack() == torn


@given(st.lists(st.sampled_from(["data: ", "x", '"', "\n", "\n\n", "\0", "é", 'data: "a"\n\n'])))
def test_nothing_is_lost(pieces: list[str]) -> None:
    stream = "".join(pieces).encode()
    assert pack(stream).unpack() == stream


@given(st.lists(st.text(), min_size=8))
def test_nothing_that_a_model_says_is_lost(texts: list[str]) -> None:
    stream = b"".join(map(frame, texts))
    packed = pack(stream)
    assert packed.unpack() == stream


def test_names_before_and_behind_a_text_are_looked_at_with_it() -> None:
    packed = pack(ALIKE)
    assert b'"content": "0123456789abcdef"' in packed.around
    assert b'password"}}]}' in packed.around
