"""Requests of Anthropic's Messages API: encode for an upstream, decode from a client."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from typing import Any

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    EncodedChoice,
    Media,
    Message,
    Mode,
    Native,
    Offered,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
    Wire,
    allow_all,
    field_of,
    read_choice,
    restrict,
)
from wholecall.protocols.anthropic import shapes
from wholecall.protocols.anthropic.history import AnthropicTraits, anthropic_traits
from wholecall.protocols.decoder import present
from wholecall.protocols.history import System, Target, read_arguments
from wholecall.protocols.history_repair import mend
from wholecall.protocols.request_fields import (
    ContentForm,
    JsonSchema,
    complete,
    fit,
    keep_rest,
    list_tools,
    natives_of,
    object_schema,
    pick,
    read_id,
    read_kind,
    read_text,
    read_tools,
    refuse,
    refuse_role,
    rest_of,
    type_of,
    without,
)

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
    choice = CHOICE.encode(request.choice)
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


def _write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None or output.any_object:  # the protocol has no format for any object
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
        yield {"type": "tool_use", **call, **pick(part.extras, CALL_EXTRAS)}
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
    if any(isinstance(part, CallResult) for part in parts):
        return [_write_block(part) for part in parts]
    return _CONTENT.write(parts)


def _write_block(part: object) -> Any:
    return _write_result(part) if isinstance(part, CallResult) else _CONTENT.write_part(part)


def _write_result(part: CallResult) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": part.call_id}
    content = _CONTENT.write(part.result.content)
    return {**block, "content": content, **({"is_error": True} if part.result.failed else {})}


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


# ── The choice ──────────────────────────────────────────────────────────────────────
#
# Anthropic's choice: always an object, with the flag against parallel calls inside it.


_MODES = {"auto": Mode.AUTO, "none": Mode.NONE, "any": Mode.REQUIRED}
_MODE_WORDS = {mode: word for word, mode in _MODES.items()}
_TOOL = "tool"
_ONE_AT_A_TIME = "disable_parallel_tool_use"


class AnthropicForm:
    """Reads and says a choice in Anthropic's words."""

    def decode(self, request: Wire, offered: Offered) -> Choice:
        """Read the choice from a request's fields."""
        choice = field_of(request, "tool_choice")
        if choice.value is None:
            return Choice()
        parallel = not choice.member(_ONE_AT_A_TIME).read_flag(default=False)
        kind = choice.member("type")
        mode = kind.read_word({**_MODES, _TOOL: Mode.REQUIRED})
        if kind.value != _TOOL:
            return allow_all(mode, parallel=parallel)
        return restrict(mode, [choice.read_name(offered)], parallel=parallel)

    def encode(self, choice: Choice) -> EncodedChoice:
        """Say a choice in the protocol's words."""
        if choice.tools and not choice.names:
            # Nothing that may be called can be named, and nothing else may be called.
            return EncodedChoice({"tool_choice": {"type": "none"}}, unsaid=choice.specials)
        value: dict[str, Any] = {"type": _MODE_WORDS[choice.mode]}
        # The protocol has no list of allowed tools, so the others are not offered.
        offer = choice.names or None
        if choice.mode is Mode.REQUIRED and len(choice.names) == 1:
            value, offer = {"type": _TOOL, "name": choice.names[0]}, None
        if not choice.parallel:
            value[_ONE_AT_A_TIME] = True
        return EncodedChoice({"tool_choice": value}, offer, choice.specials)


CHOICE = AnthropicForm()


# Requests to Anthropic's Messages, as its clients send them.
#
# Results stand in the user's messages, before what the user says himself. They are read as a
# message of their own; written again, the two become one.


# ── Decoding ────────────────────────────────────────────────────────────────────────

# The types of a definition that is a function of the client's.
_FUNCTIONS = (None, "custom")


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, shapes.MessagesBody)
    tools = read_tools(fields.tools, PROTOCOL, functions=_FUNCTIONS, write=write_tool)
    output, more = _read_output(fields.output_config or {})
    history = _History()
    rest = {
        **without(body, shapes.MessagesBody.__struct_fields__),
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
        choice=read_choice(CHOICE, body, offered=tools.names),
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
    body = fit(wire, JsonSchema, at="output_config.format")
    return OutputSchema(schema=body.schema), without(config, ["format"])


# ── Messages ────────────────────────────────────────────────────────────────────────


class _History:
    """The messages of a request, read one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""

    def read(self, native: Any, at: str) -> Iterator[Message]:
        message = fit(native, shapes.InputMessage, at=at)
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
        return reader(self, block, at) if reader is not None else _CONTENT.read_part(block, at)

    def read_call(self, block: Any, at: str) -> Part:
        call = fit(block, shapes.PastToolUse, at=at)
        id = read_id(call.id)
        self._names[id] = call.name
        arguments, _ = read_arguments(call.input)
        extras = pick(block, CALL_EXTRAS)
        return PastCall(id=id, name=call.name, arguments=arguments, extras=extras)

    def read_result(self, block: Any, at: str) -> Part:
        result = fit(block, shapes.ToolResultBlock, at=at)
        id = read_id(result.tool_use_id)
        content = tuple(_read_result_content(result.content, f"{at}.content"))
        output = Result(content, failed=bool(result.is_error))
        return CallResult(call_id=id, name=self._names.get(id, ""), result=output)

    def read_thinking(self, block: Any, at: str) -> Part:
        thinking = fit(block, shapes.ThinkingBlock, at=at)
        signed = {"signature": thinking.signature} if thinking.signature else {}
        return Reasoning(thinking.thinking, signed)

    def read_redacted(self, block: Any, at: str) -> Part:
        return Reasoning("", {"redacted_thinking": fit(block, shapes.RedactedBlock, at=at).data})


# The field that holds what is said before all messages; it is read like one.
_SYSTEM = "system"
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_OF_MODELS = frozenset({"tool_use", "thinking", "redacted_thinking"})
_BLOCKS: dict[str, Callable[[_History, Any, str], Part]] = {
    "tool_use": _History.read_call,
    "tool_result": _History.read_result,
    "thinking": _History.read_thinking,
    "redacted_thinking": _History.read_redacted,
}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_result_content(content: str | list[Any] | None, at: str) -> Iterator[Text | Media]:
    """Read a result. A block that no other protocol has is written as it is."""
    for part in _CONTENT.read(content, at):
        if isinstance(part, Native):
            yield Text(json.dumps(part.value, ensure_ascii=False))
        else:
            yield part


def _read_media(block: Any, at: str) -> Media | Native:
    fields = fit(block, shapes.MediaBlock, at=at)
    source, kind, name = fields.source, block["type"], fields.title or ""
    data = str(source.data or "")
    match source.type:
        case "base64":
            return Media(kind=kind, media_type=source.media_type, data=data, name=name)
        case "text":
            data = base64.b64encode(data.encode("utf-8", "replace")).decode()
            media_type = source.media_type or "text/plain"
            return Media(kind=kind, media_type=media_type, data=data, name=name)
        case "url":
            return Media(kind=kind, url=source.url or "", name=name)
    return Native(PROTOCOL, block)  # a file that Anthropic holds, or a document made of blocks


_CONTENT = ContentForm(
    protocol=PROTOCOL,
    text="text",
    writers={"image": _write_image, "document": _write_document},
    readers={"text": read_text, "image": _read_media, "document": _read_media},
)
