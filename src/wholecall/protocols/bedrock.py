"""Amazon Bedrock's Converse API.

Each event of the stream is a union: an object with one member that names it. Content
blocks are addressed by their index; only calls and the work of Bedrock's own tools have a
start, text and reasoning begin with their first delta. `metadata` comes after `messageStop`.
A whole answer is a list of blocks, which are unions too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Fault,
    HintGiven,
    ProviderBlock,
    Reasoning,
    Terminated,
    Text,
)
from wholecall.protocols.decoder import (
    Decoded,
    GrowingBlock,
    OpenBlocks,
    Payload,
    fit,
    guard,
    present,
    read_arguments,
    read_error,
    read_json,
    read_mark,
    read_usage,
    terminate,
)
from wholecall.protocols.registry import OBJECTS, WireProtocol
from wholecall.protocols.sse_ndjson import NdjsonFraming

# ── The wire ────────────────────────────────────────────────────────────────────────


class _ToolUse(msgspec.Struct, rename="camel"):
    """A call: at its start, in a delta (`input` is a piece of text), or whole."""

    tool_use_id: str | None = None
    name: str | None = None
    input: Any = None
    type: str | None = None  # `server_tool_use`: Bedrock runs it itself


class _Reasoning(msgspec.Struct, rename="camel"):
    """Reasoning in a delta; a whole one has its text and signature in `reasoningText`."""

    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None
    reasoning_text: _Reasoning | None = None


class _Cited(msgspec.Struct):
    text: str | None = None


class _Citations(msgspec.Struct):
    """Text with its sources."""

    content: list[_Cited] | None = None


class _BlockEvent(msgspec.Struct, rename="camel"):
    """The start, a delta or the stop of a block; `start` and `delta` are unions."""

    content_block_index: int = 0
    start: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None


class _Message(msgspec.Struct):
    content: list[dict[str, Any]] | None = None


class _Output(msgspec.Struct):
    message: _Message | None = None


class _Answer(msgspec.Struct, rename="camel"):
    """A whole answer, or what its `messageStop` and `metadata` say in a stream."""

    output: _Output | None = None
    stop_reason: str | None = None
    usage: Any = None
    message: Any = None  # of an error


# ── Decoding ────────────────────────────────────────────────────────────────────────


_Member: TypeAlias = tuple[str, Any]
"""A member of a union that is set: its name and what it holds."""


class ConverseDecoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._blocks = _Blocks()

    def decode(self, payload: Payload) -> Decoded:
        """Turn one event into deltas."""
        return guard(self._decode(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No chunk leaves it as it was."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(_decode_response(body)))

    def _decode(self, payload: Payload) -> Decoded:
        for member, body in _members(fit(read_json(payload), dict[str, Any])):
            if member in _EVENTS:
                yield from _EVENTS[member](self._blocks, body)
            elif member.endswith("Exception"):
                fault = read_error(body)
                yield Fault(fault.kind, f"{member}: {fault.message}", {member: body})


def _members(union: Mapping[str, Any] | None) -> Iterator[_Member]:
    """The members of a union that are set: one, if the sender keeps to it."""
    yield from present(union or {}).items()


# ── A stream ────────────────────────────────────────────────────────────────────────


class _Blocks:
    """The content blocks of one stream."""

    def __init__(self) -> None:
        self._open = OpenBlocks("toolUse")

    def start(self, index: int, begun: _Member) -> Iterator[Delta]:
        """A block begins."""
        member, content = begun
        if member == "toolUse" and _is_call(tool := fit(content, _ToolUse)):
            self._open.open_call(index)
            yield CallDelta(index, None, tool.name, tool.tool_use_id, opens=True)
        else:
            native = fit(content, dict[str, Any])
            self._open.open_other(index, GrowingBlock(native, member))

    def grow(self, index: int, grown: _Member) -> Iterator[Delta]:
        """A block grows."""
        member, content = grown
        growing = self._open.growing(index)
        if growing is not None:
            _grow(growing, content)
        elif member == "toolUse":
            arguments = read_arguments(fit(content, _ToolUse).input)
            yield from self._open.add_input(index, arguments)
        elif member in _WORDS:
            yield from _WORDS[member](content)

    def stop(self, index: int) -> Iterator[Delta]:
        """A block is over."""
        return self._open.stop(index)


def _is_call(tool: _ToolUse) -> bool:
    return tool.type in (None, "tool_use")


def _grow(block: GrowingBlock, content: Any) -> None:
    """Add a delta to the block of a server tool: pieces of its input, or of its result."""
    if isinstance(content, list):
        block.extend("content", content)
        return
    fields = fit(content, dict[str, Any])
    if isinstance(fields.get("input"), str):
        block.grow("partial_json", fields["input"])
    else:
        block.native.update(fields)


def _block_start(blocks: _Blocks, body: Any) -> Iterator[Delta]:
    event = fit(body, _BlockEvent)
    for member in _members(event.start):
        yield from blocks.start(event.content_block_index, member)


def _block_delta(blocks: _Blocks, body: Any) -> Iterator[Delta]:
    event = fit(body, _BlockEvent)
    for member in _members(event.delta):
        yield from blocks.grow(event.content_block_index, member)


def _block_stop(blocks: _Blocks, body: Any) -> Iterator[Delta]:
    return blocks.stop(fit(body, _BlockEvent).content_block_index)


def _message_stop(_: _Blocks, body: Any) -> Iterator[Delta]:
    yield from _hint(fit(body, _Answer))
    yield Terminated()


def _metadata(_: _Blocks, body: Any) -> Iterator[Delta]:
    return _usage(fit(body, _Answer))


def _error(_: _Blocks, body: Any) -> Iterator[Delta]:
    yield read_error(body)


_EVENTS: dict[str, Callable[[_Blocks, Any], Iterator[Delta]]] = {
    "contentBlockStart": _block_start,
    "contentBlockDelta": _block_delta,
    "contentBlockStop": _block_stop,
    "messageStop": _message_stop,
    "metadata": _metadata,
    "error": _error,
}


# ── A whole answer ──────────────────────────────────────────────────────────────────


def _decode_response(body: Payload) -> Decoded:
    answer = fit(read_json(body), _Answer)
    message = answer.output.message if answer.output is not None else None
    if message is not None:
        for index, block in enumerate(message.content or ()):
            for member in _members(block):
                yield from _whole(index, member)
    elif answer.message:
        yield read_error(answer.message)
    else:
        raise ProtocolError("the answer has neither a message nor an error")
    yield from _usage(answer)
    yield from _hint(answer)


def _whole(index: int, whole: _Member) -> Iterator[Delta]:
    member, content = whole
    if member == "toolUse" and _is_call(tool := fit(content, _ToolUse)):
        arguments = read_arguments(tool.input) or None
        yield CallDelta(index, arguments, tool.name, tool.tool_use_id, opens=True)
        yield CallSealed(index)
    elif member in _WORDS:
        yield from _WORDS[member](content)
    else:
        yield ProviderBlock({member: content})


# ── Both ────────────────────────────────────────────────────────────────────────────


def _text(content: Any) -> Iterator[Delta]:
    text = fit(content, str)
    if text:
        yield Text(text)


def _citations(content: Any) -> Iterator[Delta]:
    cited = fit(content, _Citations).content or ()
    return (Text(piece.text) for piece in cited if piece.text)


def _reasoning(content: Any) -> Iterator[Delta]:
    reasoning = fit(content, _Reasoning)
    text = reasoning.reasoning_text or reasoning
    if text.text:
        yield Reasoning(text.text)
    if text.signature:
        yield Reasoning("", {"signature": text.signature})
    if reasoning.redacted_content:
        yield Reasoning("", {"redacted_content": reasoning.redacted_content})


def _hint(answer: _Answer) -> Iterator[Delta]:
    if answer.stop_reason:
        yield HintGiven(read_hint(answer.stop_reason), answer.stop_reason)


def _usage(answer: _Answer) -> Iterator[Delta]:
    return read_usage(answer.usage, input_tokens="inputTokens", output_tokens="outputTokens")


_WORDS: dict[str, Callable[[Any], Iterator[Delta]]] = {
    "text": _text,
    "reasoningContent": _reasoning,
    "citationsContent": _citations,
}


# ── The protocol ──────────────────────────────────────────────────────────────────────

RECORD = WireProtocol(
    name="bedrock-converse",
    decoder=ConverseDecoder,
    # On the wire Bedrock uses AWS's binary event stream, which boto3 takes off; what is recorded
    # of it is one event a line.
    framing=NdjsonFraming,
    fields=(
        frozenset({"messageStart"}),
        frozenset({"contentBlockStart"}),
        frozenset({"contentBlockDelta"}),
        frozenset({"contentBlockStop"}),
        frozenset({"messageStop"}),
        frozenset({"output", "stopReason"}),
    ),
    usual_whole=OBJECTS,
)
