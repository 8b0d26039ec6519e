"""Requests to Anthropic's Messages, as its clients send them.

Results stand in the user's messages, before what the user says himself. They are read as a
message of their own; written again, the two become one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from wholecall.core.choice import decode as decode_choice
from wholecall.core.conversation import (
    CallResult,
    Media,
    Message,
    Native,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
)
from wholecall.core.history.stored import read_arguments
from wholecall.core.values import Reasoning, Text
from wholecall.protocols.requests.encoding.anthropic_messages import (
    CALL_EXTRAS,
    PROTOCOL,
    write_tool,
)
from wholecall.protocols.requests.fields import (
    fit,
    keep_rest,
    read_id,
    read_kind,
    refuse,
    refuse_role,
    without,
)
from wholecall.protocols.requests.tools import read_tools

# ── The wire ────────────────────────────────────────────────────────────────────────


class _Body(msgspec.Struct):
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


class _Message(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None


class _Text(msgspec.Struct):
    text: str


class _Source(msgspec.Struct):
    type: str = ""
    media_type: str = ""
    data: Any = None
    url: str | None = None


class _Media(msgspec.Struct):
    source: _Source
    title: str | None = None


class _ToolUse(msgspec.Struct):
    id: str | int | None = None
    name: str = ""
    input: Any = None


class _ToolResult(msgspec.Struct):
    tool_use_id: str | int | None = None
    content: str | list[Any] | None = None
    is_error: bool | None = None


class _Thinking(msgspec.Struct):
    thinking: str = ""
    signature: str | None = None


class _Redacted(msgspec.Struct):
    data: str


class _Format(msgspec.Struct):
    schema: dict[str, Any]


# ── Decoding ────────────────────────────────────────────────────────────────────────


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, _Body)
    tools = read_tools(fields.tools, PROTOCOL, write=write_tool)
    output, more = _read_output(fields.output_config or {})
    history = _History()
    rest = {
        **without(body, _Body.__struct_fields__),
        **({"tools": list(tools.said)} if tools.said else {}),
        **({"output_config": more} if more else {}),
    }
    system = [{"role": "system", "content": fields.system}] if fields.system else []
    messages = [
        *(message for native in system for message in history.read(native, _SYSTEM)),
        *(
            message
            for at, native in enumerate(fields.messages)
            for message in history.read(native, f"messages[{at}]")
        ),
    ]
    return Request(
        model=fields.model,
        messages=tuple(messages),
        tools=tools.specs,
        native_tools=tools.natives,
        choice=decode_choice(PROTOCOL, body, offered=tools.names),
        stream=bool(fields.stream),
        max_tokens=fields.max_tokens,
        temperature=fields.temperature,
        top_p=fields.top_p,
        stop=tuple(fields.stop_sequences or ()),
        output=output,
        rest=keep_rest(PROTOCOL, rest),
    )


def _read_output(config: Mapping[str, Any]) -> tuple[OutputSchema | None, Mapping[str, Any]]:
    """The form of the answer, and what else the field says."""
    wire = config.get("format")
    if not isinstance(wire, Mapping) or wire.get("type") != "json_schema":
        return None, config
    body = fit(wire, _Format, at="output_config.format")
    return OutputSchema(schema=body.schema), without(config, ["format"])


# ── Messages ────────────────────────────────────────────────────────────────────────


class _History:
    """The messages of a request, read one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""

    def read(self, native: Any, at: str) -> Iterator[Message]:
        message = fit(native, _Message, at=at)
        if message.role not in _ROLES:
            raise refuse_role(at, message.role, known=_ROLES)
        role = _ROLES[message.role]
        if not isinstance(message.content, list):
            said = (Text(message.content),) if message.content else ()
            yield Message(role, said, Native(PROTOCOL, (native,)))
            return
        where = at if at == _SYSTEM else f"{at}.content"
        read = [
            self._block(block, f"{where}[{place}]", role=role)
            for place, block in enumerate(message.content)
        ]
        paired = list(zip(read, message.content, strict=True))
        # Results come first, or are moved there: upstreams accept them nowhere else.
        ordered = sorted(paired, key=lambda pair: not isinstance(pair[0], CallResult))
        for are_results, group in groupby(ordered, lambda pair: isinstance(pair[0], CallResult)):
            some = list(group)
            wire = {**native, "content": [block for _, block in some]}
            parts = tuple(part for part, _ in some)
            yield Message(Role.TOOL if are_results else role, parts, Native(PROTOCOL, (wire,)))

    def _block(self, block: Any, at: str, *, role: Role) -> Part:
        kind = read_kind(block, at)
        if kind in _OF_MODELS and role is not Role.ASSISTANT:
            raise refuse(at, f"a block of the type {kind!r} can only be the assistant's")
        reader = _BLOCKS.get(kind)
        return reader(self, block, at) if reader is not None else Native(PROTOCOL, block)

    def read_text(self, block: Any, at: str) -> Part:
        return Text(fit(block, _Text, at=at).text)

    def read_media(self, block: Any, at: str) -> Part:
        return _read_media(block, at)

    def read_call(self, block: Any, at: str) -> Part:
        call = fit(block, _ToolUse, at=at)
        id = read_id(call.id)
        self._names[id] = call.name
        arguments, _ = read_arguments(call.input)
        extras = {key: block[key] for key in CALL_EXTRAS if block.get(key) is not None}
        return PastCall(id=id, name=call.name, arguments=arguments, extras=extras)

    def read_result(self, block: Any, at: str) -> Part:
        result = fit(block, _ToolResult, at=at)
        id = read_id(result.tool_use_id)
        content = tuple(_read_result_content(result.content, f"{at}.content"))
        output = Result(content, failed=bool(result.is_error))
        return CallResult(call_id=id, name=self._names.get(id, ""), result=output)

    def read_thinking(self, block: Any, at: str) -> Part:
        thinking = fit(block, _Thinking, at=at)
        signed = {"signature": thinking.signature} if thinking.signature else {}
        return Reasoning(thinking.thinking, signed)

    def read_redacted(self, block: Any, at: str) -> Part:
        return Reasoning("", {"redacted_thinking": fit(block, _Redacted, at=at).data})


# The field that holds what is said before all messages; it is read like one.
_SYSTEM = "system"
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_OF_MODELS = frozenset({"tool_use", "thinking", "redacted_thinking"})
_BLOCKS: dict[str, Callable[[_History, Any, str], Part]] = {
    "text": _History.read_text,
    "image": _History.read_media,
    "document": _History.read_media,
    "tool_use": _History.read_call,
    "tool_result": _History.read_result,
    "thinking": _History.read_thinking,
    "redacted_thinking": _History.read_redacted,
}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_result_content(content: str | list[Any] | None, at: str) -> Iterator[Text | Media]:
    if content is None or isinstance(content, str):
        yield from [Text(content)] if content else []
        return
    for place, block in enumerate(content):
        yield _read_result_block(block, f"{at}[{place}]")


def _read_result_block(block: Any, at: str) -> Text | Media:
    """Read a block of a result. One that no other protocol has is written as it is."""
    kind = read_kind(block, at)
    read: object = None
    if kind == "text":
        read = Text(fit(block, _Text, at=at).text)
    elif kind in _KINDS:
        read = _read_media(block, at)
    return read if isinstance(read, Text | Media) else Text(json.dumps(block, ensure_ascii=False))


_KINDS = {"image": "image", "document": "document"}


def _read_media(block: Any, at: str) -> Media | Native:
    fields = fit(block, _Media, at=at)
    reader = _SOURCES.get(fields.source.type)
    if reader is None:  # a file that Anthropic holds, or a document made of blocks
        return Native(PROTOCOL, block)
    kind = _KINDS[block["type"]]
    return reader(kind, fields)


def _read_base64(kind: str, fields: _Media) -> Media:
    source, name = fields.source, fields.title or ""
    data = str(source.data or "")
    return Media(kind=kind, media_type=source.media_type, data=data, name=name)


def _read_plain(kind: str, fields: _Media) -> Media:
    source, name = fields.source, fields.title or ""
    data = base64.b64encode(str(source.data or "").encode("utf-8", "replace")).decode()
    return Media(kind=kind, media_type=source.media_type or "text/plain", data=data, name=name)


def _read_url(kind: str, fields: _Media) -> Media:
    return Media(kind=kind, url=fields.source.url or "", name=fields.title or "")


_SOURCES: dict[str, Callable[[str, _Media], Media]] = {
    "base64": _read_base64,
    "text": _read_plain,
    "url": _read_url,
}
