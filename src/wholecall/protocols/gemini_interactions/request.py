"""The body of a request to Google's Interactions.

    {"model": …, "system_instruction": "…", "input": [
        {"type": "user_input", "content": [{"type": "text", "text": …},
            {"type": "image", "mime_type": …, "data": …}]},
        {"type": "thought", "signature": …},
        {"type": "model_output", "content": [{"type": "text", "text": …}]},
        {"type": "function_call", "id": …, "name": …, "arguments": {…}, "signature": …},
        {"type": "function_result", "call_id": …, "name": …, "result": "…", "is_error": true}],
     "tools": [{"type": "function", "name": …, "description": …, "parameters": {…}}],
     "generation_config": {"tool_choice": "any" | {"allowed_tools": {…}}, …},
     "response_format": {"type": "text", "mime_type": "application/json", "schema": {…}},
     "store": false}

The whole conversation is sent each time, so that Google need not store it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    Choice,
    Media,
    Mode,
    Native,
    OutputSchema,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.decoder import present
from wholecall.protocols.gemini.request import SIGNATURE, find_signature
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair
from wholecall.protocols.request_fields import (
    SAMPLING,
    complete,
    foreign_options,
    list_tools,
    media_in,
    natives_of,
    object_schema,
    omit,
    rest_of,
    type_of,
    without,
)

PROTOCOL = "gemini-interactions"
_LEVELS = ("low", "medium", "high")
_MODES = {Mode.NONE: "none", Mode.REQUIRED: "any"}


def encode(request: Request, _: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    system = [message.text for message in request.messages if message.role is Role.SYSTEM]
    messages = [message for message in request.messages if message.role is not Role.SYSTEM]
    tools = _write_tools(request)
    config = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_output_tokens": request.max_tokens,
        "stop_sequences": list(request.stop) or None,
        "thinking_level": foreign_options(request, PROTOCOL).effort_among(_LEVELS),
        "tool_choice": _write_choice(request.choice) if request.tools else None,
    }
    body = {
        "model": request.model,
        "system_instruction": "\n\n".join(filter(None, system)) or None,
        "input": [step for exchange in pair(messages) for step in _write(exchange)],
        "tools": tools or None,
        "generation_config": present(config) or None,
        "response_format": _write_output(request.output),
        "stream": request.stream,
    }
    return complete(body, {"store": False, **without(rest_of(request, PROTOCOL), ["tools"])})


def carried_options(_: Request) -> frozenset[str]:
    """Return the options that the upstream of a request takes."""
    return SAMPLING | {"effort"}


def _write_tools(request: Request) -> list[Any]:
    choice = request.choice
    # Only where a call is demanded can names be said; else those that may be called are offered.
    only = choice.names if choice.names and choice.mode is Mode.AUTO else None
    return list_tools(request, PROTOCOL, write=_write_tool, only=only)


def _write_tool(spec: ToolSpec) -> dict[str, Any]:
    fields = {"type": "function", "name": spec.name, "description": spec.description or None}
    return {**present(fields), "parameters": object_schema(spec)}


def _write_choice(choice: Choice) -> Any:
    mode = _MODES.get(choice.mode)
    if mode is None or not choice.names:
        return mode
    return {"allowed_tools": {"mode": mode, "tools": list(choice.names)}}


def _write_output(output: OutputSchema | None) -> Any:
    if output is None:
        return None
    schema = None if output.any_object else output.schema
    return present({"type": "text", "mime_type": "application/json", "schema": schema})


# ── Steps ───────────────────────────────────────────────────────────────────────────


def _write(exchange: CallExchange) -> Iterator[Any]:
    message = exchange.message
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        yield from natives
    elif message.role is Role.ASSISTANT:
        yield from _write_answer(message.parts)
    else:
        yield from _wrap("user_input", message.parts)
    yield from map(_write_result, exchange.answered)
    media = [piece for each in exchange.answered for piece in _unfit_media(each.result)]
    yield from _wrap("user_input", media)


def _wrap(kind: str, parts: Iterable[object]) -> Iterator[Any]:
    content = [written for part in parts for written in _write_part(part)]
    if content:
        yield {"type": kind, "content": content}


def _write_answer(parts: Iterable[object]) -> Iterator[Any]:
    said: list[Text] = []
    for part in parts:
        if isinstance(part, Text):
            said.append(part)
            continue
        steps = list(_write_step(part))
        if steps:
            yield from _wrap("model_output", said)
            said = []
        yield from steps
    yield from _wrap("model_output", said)


def _write_step(part: object) -> Iterator[dict[str, Any]]:
    if isinstance(part, PastCall):
        yield _write_call(part)
    elif isinstance(part, Reasoning) and SIGNATURE in part.extras:
        # The text of a thought is a summary. What counts is the signature.
        yield {"type": "thought", "signature": part.extras[SIGNATURE]}
    elif isinstance(part, Native) and part.protocol == PROTOCOL:
        yield dict(part.value)


def _write_call(call: PastCall) -> dict[str, Any]:
    fields = {
        "type": "function_call",
        "id": call.provider_id or call.id,
        "name": call.name,
        "arguments": call.arguments,
        "signature": find_signature(call),
    }
    return present(fields)


def _write_result(answered: AnsweredCall) -> dict[str, Any]:
    result, call = answered.result, answered.call
    pictures = [piece for piece in media_in(result.content) if piece.kind == "image"]
    fields = {
        "type": "function_result",
        "call_id": call.provider_id or call.id,
        "name": call.name,
        "result": [written for part in result.content for written in _write_fit(part)]
        if pictures
        else result.text,
        "is_error": True if result.failed else None,
    }
    return present(fields)


def _write_fit(part: object) -> Iterator[dict[str, Any]]:
    """A result holds texts and pictures only."""
    if not isinstance(part, Media) or part.kind == "image":
        yield from _write_part(part)


def _unfit_media(result: Result) -> list[Media]:
    return [piece for piece in media_in(result.content) if piece.kind != "image"]


def _write_part(part: object) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text) and part.text:
        yield {"type": "text", "text": part.text}
    elif isinstance(part, Media):
        place = {"uri": part.url} if part.url else {"data": part.data}
        yield {"type": part.kind, "mime_type": type_of(part), **place}
    elif isinstance(part, Native):
        yield (
            dict(part.value)
            if part.protocol == PROTOCOL
            else {
                "type": "text",
                "text": omit(part),
            }
        )
