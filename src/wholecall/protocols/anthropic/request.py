"""Requests of Anthropic's Messages API: encode for an upstream, decode from a client."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import Any

import msgspec

from wholecall.events import Call, Reasoning, Text
from wholecall.messages import (
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
    ToolSpec,
)
from wholecall.protocols.decoder import present
from wholecall.protocols.history import System, Target, read_arguments
from wholecall.protocols.history_repair import mend
from wholecall.protocols.model_traits import AnthropicTraits, anthropic_traits
from wholecall.protocols.request_fields import (
    complete,
    fit,
    keep_rest,
    list_tools,
    natives_of,
    object_schema,
    omit,
    read_id,
    read_kind,
    read_tools,
    refuse,
    refuse_role,
    rest_of,
    type_of,
    without,
)
from wholecall.protocols.tool_choices import decode as decode_choice
from wholecall.protocols.tool_choices import encode as encode_choice
from wholecall.tool_choice import Choice, Mode

PROTOCOL = "anthropic"
CALL_EXTRAS = ("caller", "toolset_name")
"""Fields that are sent back with a call."""
MAX_TOKENS = 8192
"""The output limit where the request names none: the protocol demands one, and every model that
is still served allows this much."""
# The first message has to be the user's.
_OPENING = {"role": "user", "content": "(The conversation begins with the assistant.)"}


def encode(request: Request, target: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    traits = anthropic_traits(request.model)
    request = _declare_called(request)
    leading = list(takewhile(lambda message: message.role is Role.SYSTEM, request.messages))
    messages = request.messages[len(leading) :]
    written = [wire for message in messages for wire in _write(message)]
    mended = mend(PROTOCOL, written, target=_place_system(target or traits.target, messages))
    choice = encode_choice(request.choice, PROTOCOL)
    tools = list_tools(request, PROTOCOL, write=write_tool, only=choice.offer)
    said = request.choice != Choice() and bool(tools)
    system = [wire for message in leading for wire in _write(message)]
    body = {
        "model": request.model,
        "max_tokens": request.max_tokens or MAX_TOKENS,
        "system": _write_system([*system, *mended.system]),
        "messages": _begin(list(_join(mended.messages))),
        "tools": tools or None,
        **(choice.fields if said else {}),
        "stream": request.stream,
        **_write_sampling(request, traits),
        "stop_sequences": list(request.stop) or None,
        "output_config": _write_output(request.output),
    }
    return complete(body, without(rest_of(request, PROTOCOL), ["tools"]))


def _declare_called(request: Request) -> Request:
    """A history with calls is refused without tools: declare those called, and forbid them."""
    parts = [part for message in request.messages for part in message.parts]
    called = dict.fromkeys(part.name for part in parts if isinstance(part, PastCall))
    if request.tools or request.native_tools or not called:
        return request
    specs = tuple(ToolSpec(name) for name in called)
    return replace(request, tools=specs, choice=Choice(Mode.NONE))


def _place_system(target: Target, messages: Sequence[Message]) -> Target:
    """A client that puts system messages between the others knows that its model takes them."""
    systems = [message for message in messages if message.role is Role.SYSTEM]
    if any(natives_of(message, PROTOCOL) is not None for message in systems):
        return replace(target, system=System.ANYWHERE)
    return target


def _write_sampling(request: Request, traits: AnthropicTraits) -> dict[str, float | None]:
    if not traits.sampling:
        return {}
    top_p = request.top_p if traits.top_p_with_temperature or request.temperature is None else None
    return {"temperature": request.temperature, "top_p": top_p}


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Define a tool."""
    fields = {"name": spec.name, "description": spec.description or None}
    return {**present(fields), "input_schema": object_schema(spec)}


def pick_extras(call: Call | PastCall) -> dict[str, Any]:
    """Return the fields that this protocol wants back with a call."""
    return {key: call.extras[key] for key in CALL_EXTRAS if key in call.extras}


def _write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None:
        return None
    return {"format": {"type": "json_schema", "schema": output.schema}}


# ── Messages ────────────────────────────────────────────────────────────────────────


def _write_system(messages: Sequence[Any]) -> Any:
    if len(messages) == 1:
        return messages[0]["content"] or None
    return [block for message in messages for block in _blocks(message)] or None


def _begin(messages: list[Any]) -> list[Any]:
    role = messages[0].get("role") if messages else None
    return [_OPENING, *messages] if role == "assistant" else messages


def _join(messages: Iterable[Any]) -> Iterator[Any]:
    """Put the results of a turn and the user's next words into one message."""
    results: dict[str, Any] | None = None
    for message in messages:
        if results is not None and message["role"] == "user":
            content = results["content"]
            results.update(message, content=content)
            content += _blocks(message)
            continue
        if results is not None:
            yield results
            results = None
        if _holds_results(message):
            results = {**message, "content": _blocks(message)}
        else:
            yield message
    if results is not None:
        yield results


def _holds_results(message: Any) -> bool:
    blocks = message.get("content")
    return isinstance(blocks, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks
    )


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _write(message: Message) -> Sequence[Any]:
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        return natives
    content: str | list[Any]
    if message.role is Role.ASSISTANT:
        content = [block for part in message.parts for block in _write_said(part)]
    else:
        content = _write_content(message.parts)
    return [{"role": _WIRE_ROLES[message.role], "content": content}]


_WIRE_ROLES = {
    Role.SYSTEM: "system",
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "assistant",
}


def _write_said(part: object) -> Iterator[Any]:
    """Write a part of an answer. What belongs to another protocol is left out."""
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, PastCall):
        call = {"id": part.id, "name": part.name, "input": part.arguments}
        yield {"type": "tool_use", **call, **pick_extras(part)}
    elif isinstance(part, Reasoning):
        yield from _write_reasoning(part)
    elif isinstance(part, Native) and part.protocol == PROTOCOL:
        yield part.value


def _write_reasoning(part: Reasoning) -> Iterator[Any]:
    if "redacted_thinking" in part.extras:
        yield {"type": "redacted_thinking", "data": part.extras["redacted_thinking"]}
    elif "signature" in part.extras or not part.extras:
        signature = part.extras.get("signature", "")
        yield {"type": "thinking", "thinking": part.text, "signature": signature}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _write_content(parts: Sequence[Any]) -> str | list[Any]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_PART_WRITERS[type(part)](part) for part in parts]


def _write_text(part: Text) -> dict[str, Any]:
    return {"type": "text", "text": part.text}


def _write_result(part: CallResult) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": part.call_id}
    content = _write_content(part.result.content)
    return {**block, "content": content, **({"is_error": True} if part.result.failed else {})}


def _write_media(part: Media) -> dict[str, Any]:
    return _MEDIA_WRITERS[part.kind](part)


def _write_image(part: Media) -> dict[str, Any]:
    return {"type": "image", "source": _write_source(part)}


def _write_document(part: Media) -> dict[str, Any]:
    source = _read_plain_text(part) or _write_source(part)
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _write_source(part: Media) -> dict[str, Any]:
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": type_of(part), "data": part.data}


def _read_plain_text(part: Media) -> dict[str, Any] | None:
    """A document that is text comes as text, not as base64."""
    if part.url or not part.media_type.startswith("text/"):
        return None
    try:
        text = base64.b64decode(part.data, validate=True).decode("utf-8", "replace")
    except binascii.Error:
        return None
    return {"type": "text", "media_type": "text/plain", "data": text}


def _write_omitted(part: Media | Native) -> dict[str, Any]:
    return _write_text(Text(omit(part)))


def _write_native(part: Native) -> Any:
    return part.value if part.protocol == PROTOCOL else _write_omitted(part)


_MEDIA_WRITERS: dict[str, Callable[[Media], dict[str, Any]]] = {
    "image": _write_image,
    "audio": _write_omitted,
    "document": _write_document,
}
_PART_WRITERS: dict[type, Callable[[Any], Any]] = {
    Text: _write_text,
    Media: _write_media,
    Native: _write_native,
    CallResult: _write_result,
}


# Requests to Anthropic's Messages, as its clients send them.
#
# Results stand in the user's messages, before what the user says himself. They are read as a
# message of their own; written again, the two become one.


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
