"""Ollama's own chat API: newline-delimited JSON, each call whole in one chunk.

The arguments are an object, older versions give no ids, and the finish reason
is `stop` even if there are calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    HintGiven,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.decoder import (
    Decoded,
    Payload,
    guard,
    present,
    read,
    read_arguments,
    read_count,
    read_error,
    read_mark,
    terminate,
)

# ── The wire ────────────────────────────────────────────────────────────────────────


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None  # an object; text from imitators


class _ToolCall(msgspec.Struct):
    id: str | None = None  # missing from older versions
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Chunk(msgspec.Struct):
    message: _Message | None = None
    response: str | None = None  # instead of a message, where a prompt was completed
    thinking: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None  # missing if the prompt was cached
    eval_count: int | None = None
    total_duration: int | None = None
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


# ── Decoding ────────────────────────────────────────────────────────────────────────


class Decoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._slots = count()

    def decode(self, payload: Payload) -> Decoded:
        """Turn one chunk into deltas."""
        return guard(self._read(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No chunk leaves it as it was."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(self._read(body, whole=True)))

    def _read(self, payload: Payload, *, whole: bool = False) -> Iterator[Delta]:
        chunk = read(payload, _CHUNK)
        if chunk.error:
            yield read_error(chunk.error)
        if chunk.message is not None:
            yield from self._message(chunk.message)
        elif chunk.response is not None:
            yield from self._message(_Message(chunk.response, chunk.thinking))
        elif whole and not chunk.error:
            raise ProtocolError("the answer has neither a message nor an error")
        if chunk.done:
            yield from _end(chunk)

    def _message(self, message: _Message) -> Iterator[Delta]:
        if message.thinking:
            yield Reasoning(message.thinking)
        if message.content:
            yield Text(message.content)
        for call in message.tool_calls or ():
            slot = next(self._slots)
            function = call.function or _Function()
            arguments = read_arguments(function.arguments)
            yield CallDelta(slot, arguments, function.name, call.id, opens=True)
            yield CallSealed(slot)


def _end(chunk: _Chunk) -> Iterator[Delta]:
    figures = {
        "prompt_eval_count": chunk.prompt_eval_count,
        "eval_count": chunk.eval_count,
        "total_duration": chunk.total_duration,
    }
    if present(figures):
        given, written = read_count(chunk.prompt_eval_count), read_count(chunk.eval_count)
        yield Usage(given, written, present(figures))
    if chunk.done_reason:
        yield HintGiven(read_hint(chunk.done_reason), chunk.done_reason)
    yield Terminated()
