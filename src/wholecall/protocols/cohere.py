"""Cohere's chat, version 2.

Each event of the stream names itself in `type`; its content is in `delta`, in the shape of the
message that it continues. Calls and blocks of content are counted apart, each by `index`. Before
its calls the model writes a plan, which is reasoning. A whole answer is the message itself, with
the finish reason beside it.

    {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls":
        {"id": …, "type": "function", "function": {"name": …, "arguments": ""}}}}}
    {"type": "tool-call-delta", "index": 0, "delta": {"message": {"tool_calls":
        {"function": {"arguments": "…"}}}}}
    {"type": "tool-call-end", "index": 0}
    {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL", "usage": {…}}}

The body of a request:

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

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import CallDelta, CallSealed, Delta, HintGiven, Reasoning, Terminated, Text
from wholecall.messages import Media, Mode, Native, OutputSchema, PastCall, Request, Role
from wholecall.protocols.decoder import (
    Decoded,
    Payload,
    fit,
    guard,
    present,
    read,
    read_arguments,
    read_error,
    read_mark,
    read_usage,
    terminate,
)
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair
from wholecall.protocols.openai_chat.request import write_tool
from wholecall.protocols.registry import UpstreamSide, WireProtocol
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
from wholecall.protocols.sse_ndjson import SseFraming

# ── The wire ────────────────────────────────────────────────────────────────────────


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None  # text


class _ToolCall(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Block(msgspec.Struct):
    """A block of content, or a piece of one."""

    text: str | None = None
    thinking: str | None = None


class _Message(msgspec.Struct):
    """A whole message, or what an event adds to it: then calls and content are not lists."""

    content: Any = None
    tool_plan: str | None = None
    tool_calls: Any = None


class _End(msgspec.Struct):
    """The end of an answer: in the last event, and beside a whole message."""

    message: Any = None
    finish_reason: str | None = None
    usage: Any = None
    error: Any = None


class _Event(_End):
    type: str | None = None
    index: int | None = None
    delta: _End | None = None


_EVENT = msgspec.json.Decoder(_Event)


# ── Decoding ────────────────────────────────────────────────────────────────────────


class CohereDecoder:
    """Reads one stream, or one whole answer."""

    def decode(self, payload: Payload) -> Decoded:
        """Turn one event into deltas."""
        return guard(_read(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No event is read apart from the others."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(_read(body, whole=True)))


def _read(payload: Payload, *, whole: bool = False) -> Iterator[Delta]:
    event = read(payload, _EVENT)
    if event.type is None:
        yield from _whole(event, whole=whole)
    elif event.type in _EVENTS:
        yield from _EVENTS[event.type](event)


def _whole(event: _Event, *, whole: bool) -> Iterator[Delta]:
    if isinstance(event.message, str) or event.error:
        yield read_error(event.error or event.message)
    elif event.message is not None:
        message = fit(event.message, _Message)
        yield from _content(message)
        for slot, call in enumerate(message.tool_calls or ()):
            yield from _begin(slot, call)
            yield CallSealed(slot)
        yield from _end(event)
    elif whole:
        raise ProtocolError("the answer has neither a message nor an error")


def _content(message: _Message) -> Iterator[Delta]:
    if message.tool_plan:
        yield Reasoning(message.tool_plan)
    blocks = message.content if isinstance(message.content, list) else [message.content or {}]
    for each in blocks:
        block = _Block(each) if isinstance(each, str) else fit(each, _Block)
        if block.thinking:
            yield Reasoning(block.thinking)
        if block.text:
            yield Text(block.text)


def _begin(slot: int | None, call: Any) -> Iterator[Delta]:
    shape = fit(call, _ToolCall)
    function = shape.function or _Function()
    arguments = read_arguments(function.arguments)
    yield CallDelta(slot, arguments, function.name, shape.id, opens=True)


def _end(end: _End) -> Iterator[Delta]:
    counts = end.usage.get("tokens") if isinstance(end.usage, dict) else None
    yield from read_usage(counts, input_tokens="input_tokens", output_tokens="output_tokens")
    if end.error:
        yield read_error(end.error)
    if end.finish_reason:
        yield HintGiven(read_hint(end.finish_reason), end.finish_reason)
    yield Terminated()


# ── Events ──────────────────────────────────────────────────────────────────────────


def _message_of(event: _Event) -> _Message:
    return fit(event.delta.message if event.delta and event.delta.message else {}, _Message)


def _content_event(event: _Event) -> Iterator[Delta]:
    return _content(_message_of(event))


def _call_start(event: _Event) -> Iterator[Delta]:
    return _begin(event.index, _message_of(event).tool_calls or {})


def _call_delta(event: _Event) -> Iterator[Delta]:
    call = fit(_message_of(event).tool_calls or {}, _ToolCall)
    function = call.function or _Function()
    yield CallDelta(event.index, read_arguments(function.arguments), function.name, call.id)


def _call_end(event: _Event) -> Iterator[Delta]:
    yield CallSealed(event.index)


def _message_end(event: _Event) -> Iterator[Delta]:
    return _end(event.delta or _End())


_EVENTS: dict[str, Callable[[_Event], Iterator[Delta]]] = {
    "content-start": _content_event,
    "content-delta": _content_event,
    "tool-plan-delta": _content_event,
    "tool-call-start": _call_start,
    "tool-call-delta": _call_delta,
    "tool-call-end": _call_end,
    "message-end": _message_end,
}


# ── A request ─────────────────────────────────────────────────────────────────────────

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


# ── The protocol ──────────────────────────────────────────────────────────────────────

RECORD = WireProtocol(
    name=PROTOCOL,
    decoder=CohereDecoder,
    framing=SseFraming,
    kinds=(
        *("message-start", "message-end", "content-start", "content-delta", "content-end"),
        *("tool-plan-delta", "tool-call-start", "tool-call-delta", "tool-call-end", "citation-"),
    ),
    fields=(frozenset({"message", "finish_reason"}),),
    upstream=UpstreamSide(encode=encode, media={"image": True}, path="chat", version="v2"),
)
