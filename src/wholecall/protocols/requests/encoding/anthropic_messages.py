"""The body of a request to Anthropic's Messages.

    {"model": …, "max_tokens": …, "system": "…" | [{"type": "text", "text": …}], "messages": [
        {"role": "user", "content": "…" | [{"type": "text" | "image" | "document"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": …, "signature": …},
            {"type": "text", "text": …},
            {"type": "tool_use", "id": …, "name": …, "input": {…}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": …, "content": …, "is_error": …}, …]}],
     "tools": [{"name": …, "input_schema": {…}}]}

All results of a turn stand in one user message, before what the user says himself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from wholecall.core.choice import Choice, Mode
from wholecall.core.choice import encode as encode_choice
from wholecall.core.conversation import (
    CallResult,
    Media,
    Message,
    Native,
    OutputSchema,
    PastCall,
    Request,
    Role,
)
from wholecall.core.history import System, Target, mend
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Call, Reasoning, Text
from wholecall.protocols.requests.fields import complete, natives_of, rest_of, without
from wholecall.protocols.requests.media import omit, type_of
from wholecall.protocols.requests.tools import list_tools, object_schema
from wholecall.protocols.requests.traits import AnthropicTraits, anthropic_traits
from wholecall.protocols.wire import present

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
    return [{"role": _ROLES[message.role], "content": content}]


_ROLES = {
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
    return [_PARTS[type(part)](part) for part in parts]


def _write_text(part: Text) -> dict[str, Any]:
    return {"type": "text", "text": part.text}


def _write_result(part: CallResult) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": part.call_id}
    content = _write_content(part.result.content)
    return {**block, "content": content, **({"is_error": True} if part.result.failed else {})}


def _write_media(part: Media) -> dict[str, Any]:
    return _MEDIA[part.kind](part)


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


_MEDIA: dict[str, Callable[[Media], dict[str, Any]]] = {
    "image": _write_image,
    "audio": _write_omitted,
    "document": _write_document,
}
_PARTS: dict[type, Callable[[Any], Any]] = {
    Text: _write_text,
    Media: _write_media,
    Native: _write_native,
    CallResult: _write_result,
}
