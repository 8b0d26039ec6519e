"""The body of a request to Cohere's chat, version 2.

    {"model": …, "messages": [
        {"role": "user", "content": [{"type": "text", "text": …},
            {"type": "image_url", "image_url": {"url": …}}]},
        {"role": "assistant", "tool_plan": "…", "content": "…", "tool_calls": [
            {"id": …, "type": "function", "function": {"name": …, "arguments": "{…}"}}]},
        {"role": "tool", "tool_call_id": …, "content": "…"}],
     "tools": [{"type": "function", "function": {…}}], "tool_choice": "REQUIRED" | "NONE",
     "response_format": {"type": "json_object", "json_schema": {…}}, "p": …}

A choice of some tools cannot be expressed: then only those are offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wholecall.events import Reasoning, Text
from wholecall.messages import Media, Mode, Native, OutputSchema, PastCall, Request, Role
from wholecall.protocols.decoder import present
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair
from wholecall.protocols.openai_chat.request import write_tool
from wholecall.protocols.request_fields import (
    complete,
    list_tools,
    media_in,
    natives_of,
    omit,
    rest_of,
    speak,
    without,
    write_address,
)

PROTOCOL = "cohere"
_CHOICES = {Mode.REQUIRED: "REQUIRED", Mode.NONE: "NONE"}


def encode(request: Request, _: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    names = request.choice.names or None
    tools = list_tools(request, PROTOCOL, write=write_tool, only=names)
    body = {
        "model": request.model,
        "messages": [wire for exchange in pair(request.messages) for wire in _write(exchange)],
        "tools": tools or None,
        "tool_choice": _CHOICES.get(request.choice.mode) if tools else None,
        "stream": request.stream,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "p": request.top_p,
        "stop_sequences": list(request.stop) or None,
        "response_format": _write_output(request.output),
    }
    return complete(body, without(rest_of(request, PROTOCOL), ["tools"]))


def _write_output(output: OutputSchema | None) -> Any:
    if output is None:
        return None
    schema = None if output.any_object else output.schema
    return present({"type": "json_object", "json_schema": schema})


def _write(exchange: CallExchange) -> Iterator[Any]:
    message = exchange.message
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        yield from natives
    elif message.role is Role.ASSISTANT:
        yield from _write_answer(exchange)
    else:
        yield {"role": message.role.value, "content": _write_content(message.parts)}
    yield from (_write_result(each) for each in exchange.answered)
    media = [piece for each in exchange.answered for piece in media_in(each.result.content)]
    if media:
        yield {"role": "user", "content": _write_content(media)}


def _write_answer(exchange: CallExchange) -> Iterator[Any]:
    message = exchange.message
    plan = "".join(
        part.text for part in message.parts if isinstance(part, Reasoning) and not part.extras
    )
    calls = [_write_call(each.call) for each in exchange.answered]
    fields = {
        "tool_plan": (plan or None) if calls else None,
        "content": message.text or None,
        "tool_calls": calls or None,
    }
    if present(fields):  # a message without any of them is refused
        yield {"role": "assistant", **present(fields)}


def _write_call(call: PastCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _write_result(answered: AnsweredCall) -> dict[str, Any]:
    # A result without content is refused.
    content = speak(answered.result) or "(no output)"
    return {"role": "tool", "tool_call_id": answered.call.id, "content": content}


def _write_content(parts: Iterable[object]) -> str | list[dict[str, Any]]:
    """One text if there is nothing else, or a list of parts."""
    written = [each for part in parts for each in _write_part(part)]
    if all(each["type"] == "text" for each in written):
        return "\n".join(each["text"] for each in written)
    return written


def _write_part(part: object) -> Iterator[dict[str, Any]]:
    if isinstance(part, Media) and part.kind == "image":
        yield {"type": "image_url", "image_url": {"url": write_address(part)}}
    elif isinstance(part, Media | Native):
        yield {"type": "text", "text": omit(part)}
    elif isinstance(part, Text) and part.text:
        yield {"type": "text", "text": part.text}
