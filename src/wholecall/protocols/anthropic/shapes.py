"""The wire of Anthropic's Messages, with the holes that imitators and clients leave in it."""

from __future__ import annotations

from typing import Any

import msgspec


class BlockKind(msgspec.Struct):
    """The type of a content block; its other fields depend on it."""

    type: str | None = None


class ToolUse(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    input: Any = None  # `{}` in a stream; whole in a whole answer, and from some imitators
    caller: Any = None
    toolset_name: str | None = None


class WordBlock(msgspec.Struct):
    """A block of text or of thinking."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None  # thinking that was redacted
    citations: Any = None  # a list; of a stream they come one by one


class BlockDelta(msgspec.Struct):
    """A delta of a block, or (`stop_reason`) of the message. Its fields tell its type."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: Any = None  # an object from some imitators
    content: str | None = None  # of a compaction
    encrypted_content: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class MessageBody(msgspec.Struct):
    content: list[Any] | str | None = None  # a text: of gateways in front of other models
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Any = None
    error: Any = None


class MessageEvent(msgspec.Struct):
    type: str = ""
    index: int | None = None
    message: MessageBody | None = None
    content_block: Any = None
    delta: BlockDelta | None = None
    usage: Any = None
    error: Any = None


class MessagesBody(msgspec.Struct):
    model: str
    messages: list[Any]
    max_tokens: int | None = None  # not there where tokens are only counted
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    output_config: dict[str, Any] | None = None


class InputMessage(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None


class MediaSource(msgspec.Struct):
    type: str = ""
    media_type: str = ""
    data: Any = None
    url: str | None = None


class MediaBlock(msgspec.Struct):
    source: MediaSource
    title: str | None = None


class PastToolUse(msgspec.Struct):
    id: str | int | None = None
    name: str = ""
    input: Any = None


class ToolResultBlock(msgspec.Struct):
    tool_use_id: str | int | None = None
    content: str | list[Any] | None = None
    is_error: bool | None = None


class ThinkingBlock(msgspec.Struct):
    thinking: str = ""
    signature: str | None = None


class RedactedBlock(msgspec.Struct):
    data: str
