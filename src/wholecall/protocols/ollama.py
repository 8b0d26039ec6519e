"""Ollama's own chat API: newline-delimited JSON, each call whole in one chunk.

The arguments are an object, older versions give no ids, and the finish reason
is `stop` even if there are calls.

The body of a request:

    {"model": …, "messages": [
        {"role": "user", "content": "…", "images": ["<base64>"]},
        {"role": "assistant", "content": "…", "thinking": "…", "tool_calls": [
            {"id": …, "function": {"name": …, "arguments": {…}}}]},
        {"role": "tool", "tool_name": …, "tool_call_id": …, "content": "…"}],
     "tools": [{"type": "function", "function": {…}}], "format": {…}, "options": {…}}

The API lacks `tool_choice`: forbidden tools are not offered, and a required call cannot be
expressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import msgspec

from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    HintGiven,
    Oddity,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.messages import Content, Media, Mode, Native, OutputSchema, PastCall, Request, Role
from wholecall.protocols.decoder import (
    Decoded,
    Payload,
    guard,
    present,
    read,
    read_arguments,
    read_count,
    read_error,
    read_mark,
    terminate,
)
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair
from wholecall.protocols.openai_chat.request import write_tool
from wholecall.protocols.registry import ENDS_ALIKE, OBJECTS, UpstreamSide, WireProtocol
from wholecall.protocols.request_fields import (
    SAMPLING,
    complete,
    foreign_options,
    list_tools,
    natives_of,
    omit,
    rest_of,
    speak,
    thought_of,
    without,
)
from wholecall.protocols.sse_ndjson import NdjsonFraming

# ── The wire ────────────────────────────────────────────────────────────────────────


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None  # an object; text from imitators


class _ToolCall(msgspec.Struct):
    id: str | None = None  # missing from older versions
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Chunk(msgspec.Struct):
    message: _Message | None = None
    response: str | None = None  # instead of a message, where a prompt was completed
    thinking: str | None = None
    done: bool | None = None
    done_reason: str | None = None
    prompt_eval_count: int | None = None  # missing if the prompt was cached
    eval_count: int | None = None
    total_duration: int | None = None
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


# ── Decoding ────────────────────────────────────────────────────────────────────────


class OllamaDecoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._slots = count()

    def decode(self, payload: Payload) -> Decoded:
        """Turn one chunk into deltas."""
        return guard(self._read(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No chunk leaves it as it was."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(self._read(body, whole=True)))

    def _read(self, payload: Payload, *, whole: bool = False) -> Iterator[Delta]:
        chunk = read(payload, _CHUNK)
        if chunk.error:
            yield read_error(chunk.error)
        if chunk.message is not None:
            yield from self._message(chunk.message)
        elif chunk.response is not None:
            yield from self._message(_Message(chunk.response, chunk.thinking))
        elif whole and not chunk.error:
            raise ProtocolError("the answer has neither a message nor an error")
        if chunk.done:
            yield from _end(chunk)

    def _message(self, message: _Message) -> Iterator[Delta]:
        if message.thinking:
            yield Reasoning(message.thinking)
        if message.content:
            yield Text(message.content)
        for call in message.tool_calls or ():
            slot = next(self._slots)
            function = call.function or _Function()
            arguments = read_arguments(function.arguments)
            yield CallDelta(slot, arguments, function.name, call.id, opens=True)
            yield CallSealed(slot)


def _end(chunk: _Chunk) -> Iterator[Delta]:
    figures = {
        "prompt_eval_count": chunk.prompt_eval_count,
        "eval_count": chunk.eval_count,
        "total_duration": chunk.total_duration,
    }
    if present(figures):
        given, written = read_count(chunk.prompt_eval_count), read_count(chunk.eval_count)
        yield Usage(given, written, present(figures))
    if chunk.done_reason:
        yield HintGiven(read_hint(chunk.done_reason), chunk.done_reason)
    yield Terminated()


# ── A request ─────────────────────────────────────────────────────────────────────────

PROTOCOL = "ollama"


def _write_output(output: OutputSchema | None) -> Any:
    if output is None:
        return None
    return "json" if output.any_object else output.schema


def encode(request: Request, _: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    options = {
        "num_predict": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
    }
    body = {
        "model": request.model,
        "messages": [wire for exchange in pair(request.messages) for wire in _write(exchange)],
        "tools": _offer(request) or None,
        # Streaming is what it does if nothing is said.
        "stream": request.stream,
        "format": _write_output(request.output),
        "options": present(options) or None,
        "think": _write_think(request),
    }
    return complete(body, without(rest_of(request, PROTOCOL), ["tools"]))


# The models that think; others refuse `think`. Those of the first row know degrees of it.
_DEGREES = ("gpt-oss",)
_THINKERS = ("qwen3", "deepseek-r1", "deepseek-v3.1", "magistral", "glm-", "kimi-k2-thinking")


def carried_options(request: Request) -> frozenset[str]:
    """Return the options that the upstream of a request takes."""
    thinks = _name(request).startswith((*_DEGREES, *_THINKERS))
    return SAMPLING | {"effort"} if thinks else SAMPLING


def _write_think(request: Request) -> bool | str | None:
    name, options = _name(request), foreign_options(request, PROTOCOL)
    if name.startswith(_DEGREES):
        return options.effort_among(("low", "medium", "high"))
    return options.level != "none" if options.level and name.startswith(_THINKERS) else None


def _name(request: Request) -> str:
    return request.model.lower().rpartition("/")[2]


def _offer(request: Request) -> list[Any]:
    choice = request.choice
    if choice.mode is Mode.NONE:
        return []
    return list_tools(request, PROTOCOL, write=write_tool, only=choice.names or None)


def _write(exchange: CallExchange) -> Iterator[Any]:
    message = exchange.message
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        yield from natives
    elif message.role is Role.ASSISTANT:
        yield _write_answer(exchange)
    elif message.parts or message.role is not Role.SYSTEM:
        yield {"role": message.role.value, **_write_content(message.parts)}
    yield from (_write_result(each) for each in exchange.answered)


def _write_answer(exchange: CallExchange) -> dict[str, Any]:
    message = exchange.message
    thoughts = [thought_of(part) for part in message.parts if isinstance(part, Reasoning)]
    fields = {
        "role": "assistant",
        "content": message.text,
        "thinking": "".join(thoughts) or None,
        "tool_calls": [_write_call(each.call) for each in exchange.answered] or None,
    }
    return present(fields)


def _write_call(call: PastCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "function": function}


def _write_result(answered: AnsweredCall) -> dict[str, Any]:
    call, result = answered.call, answered.result
    media = [piece for piece in result.content if isinstance(piece, Media)]
    content = _write_content([Text(speak(result)), *media])
    names = {"tool_name": call.name, "tool_call_id": call.id}
    return {"role": "tool", **names, **content}


def _write_content(parts: Iterable[Content | object]) -> dict[str, Any]:
    """Texts and images stand apart; of all else there is nothing but a word."""
    words: list[str] = []
    images: list[str] = []
    for part in parts:
        if isinstance(part, Media) and part.kind == "image" and part.data:
            images.append(part.data)
        elif isinstance(part, Media | Native):
            words.append(omit(part))
        elif isinstance(part, Text):
            words.append(part.text)
    return {"content": "\n".join(filter(None, words)), **({"images": images} if images else {})}


# ── The protocol ──────────────────────────────────────────────────────────────────────

_USUAL = OBJECTS | ENDS_ALIKE | {Oddity.ID_MISSING}
RECORD = WireProtocol(
    name=PROTOCOL,
    decoder=OllamaDecoder,
    framing=NdjsonFraming,
    fields=(frozenset({"message", "done"}),),
    usual=_USUAL,
    usual_whole=_USUAL,
    upstream=UpstreamSide(
        encode=encode,
        carried=carried_options,
        media={"image": False},
        path="chat",
        version="api",
        streams_json=True,
        models="tags",
    ),
)
