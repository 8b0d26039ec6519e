"""Answers as Anthropic's messages.

A message is a list of content blocks, each started, grown by deltas and stopped. Text and
thinking stay open until something else comes; the signature ends the thinking that it signs.
The stop reason comes with the usage, in an event of its own before the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wholecall.events import JSON, Call, Opened, Reasoning, Text, Usage
from wholecall.messages import Native, Part, PastCall
from wholecall.protocols.anthropic.request import CALL_EXTRAS, PROTOCOL
from wholecall.protocols.anthropic.stream import CITATIONS, STOP_SEQUENCE
from wholecall.protocols.request_fields import pick
from wholecall.protocols.response_base import (
    END,
    NO_THREADS,
    PRIVATE,
    SERVER,
    ChoiceWriter,
    Failure,
    FinishReason,
    ResponseHead,
    ResponseStyle,
    comment,
    frame,
    is_message_usage,
    quote,
    read_figures,
    write_request_id,
)
from wholecall.protocols.response_encoder import GatheredAnswer

_NOTHING = b""
_ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_DELTA_END = b"}}" + END
_PING = frame({"type": "ping"}, "ping")
_MESSAGE_STOP = frame({"type": "message_stop"}, "message_stop")
_REASONS = {
    "tool_calls": "tool_use",
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
}
# Anthropic has several words where we have one; its own word is kept where it says the same.
_FINER = {"stop_sequence": "stop", "pause_turn": "stop", "model_context_window_exceeded": "length"}


class _Growth(NamedTuple):
    """A block that grows: how it starts, and what its deltas are called."""

    start: Mapping[str, str]
    kind: str
    field: str


_TEXT = _Growth({"type": "text", "text": ""}, "text_delta", "text")
_THINKING = _Growth(
    {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"
)
_INPUT = _Growth({}, "input_json_delta", "partial_json")


# ── Streams ─────────────────────────────────────────────────────────────────────────


class AnthropicWriter:
    """Writes one message as a stream."""

    def __init__(self, head: ResponseHead, style: ResponseStyle) -> None:
        self._head = head
        self._blocks = _Blocks(native=style.upstream == PROTOCOL)

    def begin(self, usage: Usage | None) -> bytes:
        """The message without content, and what it cost to read the request, if that is known."""
        message = _write_message(self._head, [], finish=None, usage=usage)
        return frame({"type": "message_start", "message": message}, "message_start")

    def choice(self, index: int) -> ChoiceWriter | None:
        """The blocks of the message, which has no other choices."""
        return None if index else self._blocks

    def finish(self, finishes: Mapping[int, FinishReason], usage: Usage | None) -> bytes:
        """Write the stop reason, the usage and the end of the message."""
        return (
            self._blocks.close()
            + _event(
                "message_delta",
                delta=_write_stop(finishes[0], self._blocks.stop_sequence),
                usage=write_usage(usage),
            )
            + _MESSAGE_STOP
        )

    def fail(self, failure: Failure) -> bytes:
        """An error. Open blocks stay open: they were not finished."""
        return frame(encode_error(failure), "error")

    def keep_alive(self) -> bytes:
        """The protocol's own sign of life."""
        return _PING

    def report(self, progress: JSON) -> bytes:
        """A comment: clients refuse events that they do not know."""
        return comment(PRIVATE, progress)


class _Blocks:
    """Writes the content blocks of a message."""

    def __init__(self, *, native: bool) -> None:
        self.opening = _NOTHING
        self.stop_sequence: str | None = None
        """At which the model was stopped."""
        self._native = native
        self._next = 0
        self._open: _Growth | None = None
        """The block of text or thinking that is open."""
        self._index = 0
        self._before = _NOTHING
        """The beginning of each delta of the open block."""
        self._places: dict[int, tuple[int, bytes]] = {}
        """The calls that are being shown as they grow: index, and how their deltas begin."""

    # ── Words ───────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> bytes:
        """A piece of text."""
        return self._grow(_TEXT) + self._before + quote(text) + _DELTA_END

    def think(self, event: Reasoning) -> bytes:
        """A piece of thinking, its signature, or thinking that is not shown."""
        frames = self._think(event.text) if event.text else _NOTHING
        signature = event.extras.get("signature")
        if signature:
            frames += self._sign(signature)
        redacted = event.extras.get("redacted_thinking")
        if redacted:
            frames += self._add({"type": "redacted_thinking", "data": redacted})
        if CITATIONS in event.extras:
            frames += self._cite(event.extras[CITATIONS])
        self.stop_sequence = event.extras.get(STOP_SEQUENCE, self.stop_sequence)
        return frames

    def close(self) -> bytes:
        """Nothing more comes for the open block of text or thinking."""
        if self._open is None:
            return _NOTHING
        self._open = None
        return _stop(self._index)

    def _think(self, text: str) -> bytes:
        return self._grow(_THINKING) + self._before + quote(text) + _DELTA_END

    def _sign(self, signature: str) -> bytes:
        opening = self._grow(_THINKING)
        delta = {"type": "signature_delta", "signature": signature}
        signed = _event("content_block_delta", index=self._index, delta=delta)
        return opening + signed + self.close()

    def _cite(self, citations: list[Any]) -> bytes:
        """Add to the block of text; none: it is over, and what follows is one of its own."""
        if not citations:
            return self.close()
        frames = self._grow(_TEXT)
        for citation in citations:
            delta = {"type": "citations_delta", "citation": citation}
            frames += _event("content_block_delta", index=self._index, delta=delta)
        return frames

    def _grow(self, growth: _Growth) -> bytes:
        """Return what must precede more of this: nothing, if its block is open."""
        if self._open is growth:
            return _NOTHING
        closing = self.close()
        self._open, self._index = growth, self._next
        self._before = _delta_start(self._index, growth)
        return closing + self._start(growth.start)

    # ── Blocks ──────────────────────────────────────────────────────────────────────

    def add_block(self, native: Mapping[str, Any]) -> bytes:
        """Write the actions of Anthropic's own tools, for clients that know them."""
        return self._add(native) if self._native else _NOTHING

    def add_call(self, call: Call, arguments: str) -> bytes:
        """A block whose whole input is one delta: its start has room for none."""
        index = self._next
        frames = self.close() + self._start(_write_call(call, {}))
        frames += _delta_start(index, _INPUT) + quote(arguments) + _DELTA_END
        return frames + _stop(index)

    def open_call(self, opened: Opened) -> bytes:
        """A block begins whose input is yet to come."""
        block = {"type": "tool_use", "id": opened.id, "name": opened.name, "input": {}}
        return self._open_call(opened.number, block)

    def grow_call(self, number: int, text: str) -> bytes:
        """A piece of the input."""
        return self._places[number][1] + quote(text) + _DELTA_END

    def close_call(self, call: Call, _: str) -> bytes:
        """The input is over."""
        return _stop(self._places.pop(call.number)[0])

    def _open_call(self, number: int, block: Mapping[str, Any]) -> bytes:
        closing, index = self.close(), self._next
        self._places[number] = index, _delta_start(index, _INPUT)
        return closing + self._start(block)

    def _add(self, block: Mapping[str, Any]) -> bytes:
        closing, index = self.close(), self._next
        return closing + self._start(block) + _stop(index)

    def _start(self, block: Mapping[str, Any]) -> bytes:
        self._next += 1
        return _event("content_block_start", index=self._next - 1, content_block=block)


def _event(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, **fields}, kind)


def _stop(index: int) -> bytes:
    name = "content_block_stop"
    return f'event: {name}\ndata: {{"type":"{name}","index":{index}}}\n\n'.encode()


def _delta_start(index: int, growth: _Growth) -> bytes:
    name = "content_block_delta"
    start = f'{{"type":"{name}","index":{index},"delta":{{"type":"{growth.kind}","{growth.field}":'
    return f"event: {name}\ndata: {start}".encode()


# ── Whole answers ───────────────────────────────────────────────────────────────────


def encode_answer(whole: GatheredAnswer, head: ResponseHead) -> dict[str, Any]:
    """The body of a message. It has one choice; others have no place in it."""
    said = whole.choices[0]
    content: list[Any] = []
    for part in said.parts:
        content += _write_part(part)
        if isinstance(part, Reasoning):
            content[-1:] = [_cite(block, part) for block in content[-1:]]
    message = _write_message(head, content, finish=said.finish, usage=whole.usage)
    sequences = [note[STOP_SEQUENCE] for note in said.notes if STOP_SEQUENCE in note]
    return {**message, **_write_stop(said.finish, *sequences[-1:])}


def _cite(block: Mapping[str, Any], behind: Reasoning) -> Mapping[str, Any]:
    """Return the block with its citations, if they follow it."""
    cited = behind.extras.get(CITATIONS)
    if not cited or block.get("type") != "text":
        return block
    return {**block, CITATIONS: [*block.get(CITATIONS, ()), *cited]}


def _write_part(part: Part) -> Iterator[Mapping[str, Any]]:
    match part:
        case Text(text):
            yield {"type": "text", "text": text}
        case Reasoning():
            signature = part.extras.get("signature")
            if part.text or signature:
                yield {"type": "thinking", "thinking": part.text, "signature": signature or ""}
            if part.extras.get("redacted_thinking"):
                yield {"type": "redacted_thinking", "data": part.extras["redacted_thinking"]}
        case PastCall():
            yield _write_call(part, part.arguments)
        case Native() if part.protocol == PROTOCOL:
            yield part.value


# ── Both ────────────────────────────────────────────────────────────────────────────


def _write_call(call: Call | PastCall, arguments: Mapping[str, JSON]) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    return {**block, **pick(call.extras, CALL_EXTRAS)} if call.extras else block


def _write_message(
    head: ResponseHead, content: list[Any], *, finish: FinishReason | None, usage: Usage | None
) -> dict[str, Any]:
    fields = {
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        **_write_stop(finish),
        "usage": write_usage(usage),
    }
    return head.complete(fields)


def _write_stop(finish: FinishReason | None, sequence: str | None = None) -> dict[str, Any]:
    reason = _name_reason(finish)
    stopped = sequence if reason == STOP_SEQUENCE else None
    return {"stop_reason": reason, STOP_SEQUENCE: stopped}


def _name_reason(finish: FinishReason | None) -> str | None:
    if finish is None:
        return None
    keeps = _FINER.get(finish.native or "") == finish.reason
    return finish.native if keeps else _REASONS[finish.reason]


def write_usage(usage: Usage | None) -> dict[str, Any]:
    """`usage` of a message. The protocol demands it, so what is unknown is 0."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    if is_message_usage(usage.native):
        return {"output_tokens": 0, **usage.native}
    figures = read_figures(usage)
    return {
        "input_tokens": max(figures.input - figures.cached - figures.stored, 0),
        "cache_creation_input_tokens": figures.stored,
        "cache_read_input_tokens": figures.cached,
        "output_tokens": figures.output,
    }


def encode_error(failure: Failure) -> dict[str, Any]:
    """The body of an error in Anthropic's shape, which has no place for a field."""
    other = "api_error" if failure.status >= SERVER else "invalid_request_error"
    kind = _ERROR_TYPES.get(failure.status, other)
    message = failure.message
    if failure.param and failure.param not in message:
        message = f"{failure.param}: {message}"
    error: dict[str, Any] = {"type": kind, "message": message}
    if failure.code == NO_THREADS:
        error["details"] = {"error_code": NO_THREADS}
    return {"type": "error", "error": error, **write_request_id(failure)}
