"""Anthropic's Messages API.

A message is a list of content blocks. In a stream each block starts, grows by deltas and
stops; blocks are addressed by their index and may be interleaved. A call is a block of
type `tool_use`, whose input comes as pieces of JSON text; its start holds `{}` in place
of the input. Blocks of other types than those below are what Anthropic's own tools did.
A whole answer is the same list of blocks: each starts and stops at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import CallDelta, Delta, HintGiven, Reasoning, Terminated, Text
from wholecall.protocols.anthropic import shapes
from wholecall.protocols.decoder import (
    UNREADABLE,
    Decoded,
    GrowingBlock,
    OpenBlocks,
    Payload,
    fit,
    guard,
    plain,
    present,
    read,
    read_arguments,
    read_error,
    read_mark,
    read_usage,
    terminate,
)

CITATIONS = "citations"
STOP_SEQUENCE = "stop_sequence"

_EVENT = msgspec.json.Decoder(shapes.MessageEvent)
_MESSAGE = msgspec.json.Decoder(shapes.MessageBody)


# ── Decoding ────────────────────────────────────────────────────────────────────────


class Decoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def decode(self, payload: Payload) -> Decoded:
        """Turn one event into deltas."""
        return guard(self._decode(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, payload: Payload) -> Delta | None:
        """A piece of a text block, or of a call whose block is open."""
        try:
            event = read(payload, _EVENT)
        except UNREADABLE:
            return None
        if event.type != "content_block_delta":
            return None
        return self._blocks.read_piece(event.index, event.delta or shapes.BlockDelta())

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(self._decode_response(body)))

    def _decode(self, payload: Payload) -> Decoded:
        event = read(payload, _EVENT)
        yield from _EVENTS.get(event.type, _other)(self._blocks, event)

    def _decode_response(self, body: Payload) -> Decoded:
        message = read(body, _MESSAGE)
        if message.error:
            yield read_error(message.error)
        elif message.content is None:
            raise ProtocolError("the answer has neither content nor an error")
        for index, block in enumerate(_list_blocks(message.content)):
            yield from self._blocks.start(index, block)
            yield from self._blocks.stop(index)
        yield from _usage(message.usage)
        yield from _hint(message)


def _list_blocks(content: list[Any] | str | None) -> list[Any]:
    """Return the blocks; a plain text is one block, as in requests."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


class _Blocks:
    """The content blocks of one message."""

    def __init__(self) -> None:
        self._open = OpenBlocks("tool_use")
        self._latest = -1
        self._after_text = False
        """True if the last block is text."""

    def start(self, index: int | None, block: Any) -> Iterator[Delta]:
        """A block begins. Without an index it is the next one."""
        self._latest = self._latest + 1 if index is None else index
        kind = fit(block, shapes.BlockKind).type
        if self._after_text and kind == _TEXT:
            yield Reasoning("", {CITATIONS: []})  # what is cited for one is not for the other
        self._after_text = kind == _TEXT
        if kind == "tool_use":
            self._open.open_call(self._latest)
            yield _opening(self._latest, fit(block, shapes.ToolUse))
        elif kind in _WORDS:
            self._open.open_words(self._latest)
            yield from _words(fit(block, shapes.WordBlock))
        else:
            self._open.open_other(self._latest, GrowingBlock(plain(block)))

    def grow(self, index: int | None, delta: shapes.BlockDelta) -> Iterator[Delta]:
        """A block grows. Without an index it is the one that began last."""
        index = self._latest if index is None else index
        growing = self._open.growing(index)
        if growing is not None:
            fields = present({**msgspec.structs.asdict(delta), "citation": None})
            for field, text in fields.items():
                growing.grow(field, text if isinstance(text, str) else json.dumps(plain(text)))
        elif delta.partial_json:
            yield from self._open.add_input(index, read_arguments(delta.partial_json))
        else:
            yield from _words(delta)

    def read_piece(self, index: int | None, delta: shapes.BlockDelta) -> Delta | None:
        """Return the piece by which a block grows, if nothing else changes."""
        index = self._latest if index is None else index
        if self._open.growing(index) is not None:
            return None
        if delta.partial_json and not self._open.is_call(index):
            return None
        pieces = list(self.grow(index, delta))
        return pieces[0] if len(pieces) == 1 else None

    def stop(self, index: int | None) -> Iterator[Delta]:
        """A block is over."""
        return self._open.stop(self._latest if index is None else index)


def _opening(index: int, block: shapes.ToolUse) -> CallDelta:
    arguments = read_arguments(block.input) or None
    extras = present({"caller": plain(block.caller), "toolset_name": block.toolset_name})
    return CallDelta(index, arguments, block.name, block.id, opens=True, extras=extras or None)


def _words(words: shapes.WordBlock | shapes.BlockDelta) -> Iterator[Delta]:
    if words.text:
        yield Text(words.text)
    if words.thinking:
        yield Reasoning(words.thinking)
    if words.signature:
        yield Reasoning("", {"signature": words.signature})
    if isinstance(words, shapes.WordBlock) and words.data:
        yield Reasoning("", {"redacted_thinking": words.data})
    cited = words.citations if isinstance(words, shapes.WordBlock) else [words.citation or None]
    if cited and isinstance(cited, list) and cited[0] is not None:
        yield Reasoning("", {CITATIONS: plain(cited)})


# ── Events ──────────────────────────────────────────────────────────────────────────


def _message_start(_: _Blocks, event: shapes.MessageEvent) -> Iterator[Delta]:
    return _usage(event.message.usage if event.message is not None else None)


def _block_start(blocks: _Blocks, event: shapes.MessageEvent) -> Iterator[Delta]:
    return blocks.start(event.index, event.content_block)


def _block_delta(blocks: _Blocks, event: shapes.MessageEvent) -> Iterator[Delta]:
    return blocks.grow(event.index, event.delta or shapes.BlockDelta())


def _block_stop(blocks: _Blocks, event: shapes.MessageEvent) -> Iterator[Delta]:
    return blocks.stop(event.index)


def _message_delta(_: _Blocks, event: shapes.MessageEvent) -> Iterator[Delta]:
    yield from _hint(event.delta or shapes.BlockDelta())
    yield from _usage(event.usage)


def _message_stop(_: _Blocks, __: shapes.MessageEvent) -> Iterator[Delta]:
    yield Terminated()


def _other(_: _Blocks, event: shapes.MessageEvent) -> Iterator[Delta]:
    """A ping, an event of a later version; or an error, which may not say that it is one."""
    if event.error or event.type == "error":
        yield read_error(event.error or "error")


def _hint(stopped: shapes.MessageBody | shapes.BlockDelta) -> Iterator[Delta]:
    if stopped.stop_sequence:
        yield Reasoning("", {STOP_SEQUENCE: stopped.stop_sequence})
    if stopped.stop_reason:
        yield HintGiven(read_hint(stopped.stop_reason), stopped.stop_reason)


def _usage(usage: Any) -> Iterator[Delta]:
    return read_usage(usage, input_tokens="input_tokens", output_tokens="output_tokens")


_TEXT = "text"
_WORDS = frozenset({_TEXT, "thinking", "redacted_thinking"})
_EVENTS: dict[str, Callable[[_Blocks, shapes.MessageEvent], Iterator[Delta]]] = {
    "message_start": _message_start,
    "content_block_start": _block_start,
    "content_block_delta": _block_delta,
    "content_block_stop": _block_stop,
    "message_delta": _message_delta,
    "message_stop": _message_stop,
}
