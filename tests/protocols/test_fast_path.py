"""Payloads that are like the one before: read without the decoder, and to the same deltas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recut import smooth
from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.events import CallDelta, CallPieces, Delta, OfChoice, Reasoning, Text
from wholecall.protocols.anthropic import stream as anthropic_messages
from wholecall.protocols.decoder import Decoded, Payload, PayloadDecoder
from wholecall.protocols.fast_path import RepeatedChunks
from wholecall.protocols.openai_chat import stream as openai_chat
from wholecall.protocols.openai_responses import stream as openai_responses
from wholecall.protocols.reader import Reader, Tools


class Counting:
    """A decoder that is asked now and then."""

    def __init__(self, decoder: PayloadDecoder) -> None:
        self._decoder = decoder
        self.asked = 0
        self.tried = 0

    def decode(self, payload: Payload) -> Decoded:
        self.asked += 1
        return self._decoder.decode(payload)

    def read_piece(self, payload: bytes) -> Delta | None:
        self.tried += 1
        return self._decoder.read_piece(payload)

    def decode_response(self, body: Payload) -> Decoded:
        return self._decoder.decode_response(body)


def chat(delta: dict[str, Any], **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
    return json.dumps({"id": "id-1", "model": "m", "choices": [choice]}).encode()


def text(content: str, **more: Any) -> bytes:
    return chat({"content": content}, **more)


def thought(said: str, **more: Any) -> bytes:
    return chat({"reasoning_content": said, **more})


def piece(arguments: str, index: int = 0) -> bytes:
    return chat({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def legacy(content: str, arguments: str) -> bytes:
    return chat({"content": content, "function_call": {"name": "f", "arguments": arguments}})


HEAD = chat({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": ""}}]})
STOP = chat({}, finish_reason="stop")
ESCAPED = b'{"model": "%s", "choices": [{"delta": {"content": "\\u0061"}}]}'

# what holds, the payloads, how often the decoder is asked
ROWS: list[tuple[str, list[bytes], int]] = [
    ("text after text", [text("a"), text("b"), text("c")], 1),
    ("escapes and letters", [text("a"), text('"\\\n'), text("é"), text("\U0001f600")], 1),
    ("reasoning", [thought("a"), thought("b"), thought("c"), text("d"), text("e")], 2),
    ("reasoning to keep", [thought("a"), thought("b", reasoning_details=[1])], 2),
    ("pieces of a call", [HEAD, piece("{"), piece('"a"'), piece(": 1}")], 2),
    ("another call", [HEAD, piece("{"), piece("a"), piece("{", 1), piece("b", 1)], 3),
    ("an end", [text("a"), text("b"), text("c", finish_reason="stop"), text("d")], 3),
    ("an empty text says nothing", [text("a"), text(""), text("b"), text("c")], 3),
    ("half of a character", [text("a"), text("\ud83d"), text("b"), text("c")], 3),
    ("half of a character first", [text("\ud83d"), text("a"), text("b")], 2),
    ("other fields", [text("a"), text("b", logprobs=None), text("c", logprobs=None)], 2),
    ("no JSON", [text("a"), text("b")[:-1], text("c")], 3),
    ("more than a string", [text("a"), text("b").replace(b'"b"', b'"b", "x": "c"'), text("d")], 3),
    ("a text that stands there twice", [text("a").replace(b'"m"', b'"a"'), text("b")], 2),
    ("its text is escaped, and stands elsewhere", [ESCAPED % b"a", ESCAPED % b"b"], 2),
    ("a payload shorter than what is around", [text("a"), text("")[:20], text("b")], 3),
    ("text beside a legacy call", [text("a"), legacy("a", "1"), legacy("b", "0"), STOP], 4),
    ("a thought beside a text", [thought("a"), thought("b", content="c"), thought("d")], 3),
]


@pytest.mark.parametrize(
    ("payloads", "asked"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_row(payloads: list[bytes], asked: int) -> None:
    counting = Counting(openai_chat.Decoder())
    deltas = RepeatedChunks(counting).decode(payloads)
    assert _spread(deltas) == _decode_each(openai_chat.Decoder(), payloads)
    assert counting.asked == asked


def test_other_choices_are_left_to_the_decoder() -> None:
    payloads = [text("a", index=1), text("b", index=1)]
    assert RepeatedChunks(openai_chat.Decoder()).decode(payloads) == [
        OfChoice(1, Text("a")),
        OfChoice(1, Text("b")),
    ]


def test_texts_are_left_to_the_decoder() -> None:
    payloads: list[Payload] = [text("a").decode(), text("b").decode()]
    assert RepeatedChunks(openai_chat.Decoder()).decode(payloads) == [Text("a"), Text("b")]


def test_a_stream_whose_chunks_are_never_alike_is_not_tried_for_ever() -> None:
    counting = Counting(openai_chat.Decoder())
    payloads = [text("a", content_filter_results=number) for number in range(100)]
    assert RepeatedChunks(counting).decode(payloads) == [Text("a")] * 100
    assert (counting.asked, counting.tried) == (100, 2 * 16)


def test_a_block_that_is_over_takes_no_more_pieces() -> None:
    grow = b'{"type":"content_block_delta","index":0,"delta":{"partial_json":"%s"}}'
    call = b'{"type":"tool_use","id":"a","name":"f"}'
    start = b'{"type":"content_block_start","index":0,"content_block":' + call + b"}"
    stop = b'{"type":"content_block_stop","index":0}'
    payloads = [start, grow % b"{", grow % b"}", stop, grow % b"{", grow % b"}"]
    deltas = RepeatedChunks(anthropic_messages.Decoder()).decode(payloads)
    assert _spread(deltas) == _decode_each(anthropic_messages.Decoder(), payloads)


def test_decoders_that_remember_pieces_read_all_of_them() -> None:
    place = b'"item_id":"a","output_index":0,"content_index":0'
    grow = b'{"type":"response.output_text.delta",' + place + b',"delta":"%s"}'
    done = b'{"type":"response.output_text.done",' + place + b',"text":"abc"}'
    payloads = [grow % b"a", grow % b"b", grow % b"c", done]
    deltas = RepeatedChunks(openai_responses.Decoder()).decode(payloads)
    assert deltas == _decode_each(openai_responses.Decoder(), payloads)


def _decode_each(decoder: PayloadDecoder, payloads: Iterable[Payload]) -> list[Any]:
    return [delta for payload in payloads for delta in decoder.decode(payload)]


def _spread(deltas: Iterable[Delta | OfChoice[Delta]]) -> list[Any]:
    """Each piece on its own again. Of texts that were joined, each has one letter here."""
    spread: list[Any] = []
    for delta in deltas:
        if isinstance(delta, CallPieces):
            spread += [CallDelta(delta.slot, each) for each in delta.pieces]
        elif isinstance(delta, Text) or (isinstance(delta, Reasoning) and not delta.extras):
            spread += map(type(delta), _letters(delta.text))
        else:
            spread.append(delta)
    return spread


def _letters(written: str) -> list[str]:
    return ['"\\\n' if each == '"' else each for each in written if each not in "\\\n"]


# ── Whole streams ───────────────────────────────────────────────────────────────────

CHUNKS = st.one_of(
    st.text(max_size=3).map(text),
    st.builds(piece, st.sampled_from(["{", "}", '{"a"', ":", "1", '"b', '"']), st.integers(0, 1)),
    st.just(HEAD),
    st.builds(legacy, st.sampled_from(["", "a"]), st.sampled_from(["{", "}", '"a": 1', "0"])),
    st.just(chat({"content": "a", "tool_calls": [{"index": 0, "function": {"arguments": "1"}}]})),
    st.just(chat({}, finish_reason="tool_calls")),
)


@given(st.lists(CHUNKS, max_size=12))
def test_a_stream_says_the_same_with_and_without(chunks: list[bytes]) -> None:
    stream = b"".join(b"data: " + each + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"
    reader, plain = (Reader("openai-chat", new_assembler=_number_calls) for _ in range(2))
    told = reader.feed(stream) + reader.end()
    # A decoded payload goes to the decoder, without a stencil and without being joined to others.
    apart = [event for each in chunks for event in plain.feed(json.loads(each))]
    assert smooth(told) == smooth(apart + plain.feed(b"data: [DONE]\n\n") + plain.end())


def _number_calls(tools: Tools | None) -> Assembler:
    numbers = count()
    return Assembler(tools, ids=CallIds(make=lambda: f"new_{next(numbers)}"))


# ── What is a piece ─────────────────────────────────────────────────────────────────

START = (
    b'{"type":"content_block_start","index":%d,"content_block":{"type":"%s","id":"a","name":"f"}}'
)
JSON = b'{"type":"content_block_delta","index":%d,"delta":{"partial_json":"{"}}'
PIECES: list[tuple[str, PayloadDecoder, bytes, Delta | None]] = [
    ("no JSON", openai_chat.Decoder(), b"{", None),
    ("the first piece of a call", openai_chat.Decoder(), piece("{"), None),
    ("no JSON for Anthropic", anthropic_messages.Decoder(), b"{", None),
    ("an event that is none", anthropic_messages.Decoder(), b'{"type":"ping"}', None),
    ("a call that never began", anthropic_messages.Decoder(), JSON % 7, None),
    ("a call that began", anthropic_messages.Decoder(), JSON % 0, CallDelta(0, "{")),
    ("a block of the provider", anthropic_messages.Decoder(), JSON % 1, None),
]


@pytest.mark.parametrize(
    ("decoder", "payload", "found"), [row[1:] for row in PIECES], ids=[row[0] for row in PIECES]
)
def test_piece(decoder: PayloadDecoder, payload: bytes, *, found: Delta | None) -> None:
    for start in (START % (0, b"tool_use"), START % (1, b"server_tool_use")):
        list(decoder.decode(start))
    assert decoder.read_piece(payload) == found
