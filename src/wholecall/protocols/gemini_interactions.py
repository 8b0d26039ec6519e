"""Google's Interactions.

An answer is a list of steps: thoughts, output, calls, and what Google's own tools did. In a stream
each step starts, grows by deltas and stops; steps are addressed by their index. The arguments of a
call come as pieces of JSON text, after a start that holds `{}` in their place.

    {"event_type": "step.start", "index": 1, "step":
        {"type": "function_call", "id": …, "name": …, "arguments": {}, "signature": …}}
    {"event_type": "step.delta", "index": 1, "delta":
        {"type": "arguments_delta", "arguments": "{…"}}
    {"event_type": "step.stop", "index": 1}
    {"event_type": "interaction.completed", "interaction":
        {"status": "requires_action", "usage": {…}}}

Until June 2026 a step was a `content`, the list was `outputs`, and a call came in one delta.

The body of a request:

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

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import (
    CallDelta,
    Delta,
    HintGiven,
    ProviderBlock,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
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
from wholecall.protocols.decoder import (
    Decoded,
    GrowingBlock,
    OpenBlocks,
    Payload,
    fit,
    guard,
    plain,
    present,
    read,
    read_arguments,
    read_count,
    read_error,
    read_mark,
    terminate,
)
from wholecall.protocols.gemini.request import SIGNATURE, find_signature
from wholecall.protocols.history import Target
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair
from wholecall.protocols.openai_chat.history import efforts_of
from wholecall.protocols.registry import OBJECTS, UpstreamSide, WireProtocol
from wholecall.protocols.request_fields import (
    SAMPLING,
    complete,
    define_tool,
    foreign_options,
    list_tools,
    media_in,
    natives_of,
    omit,
    rest_of,
    type_of,
    without,
)
from wholecall.protocols.sse_ndjson import SseFraming

_CALL = "function_call"
_OUTPUT, _THOUGHT = "model_output", "thought"
# In a whole answer they repeat what was sent.
_GIVEN = frozenset({"user_input", "function_result"})
_UNFINISHED = frozenset({"in_progress", "queued"})


class _Words(msgspec.Struct):
    """A text, alone or in a summary."""

    text: str | None = None


class _Step(msgspec.Struct):
    """A step, or a delta of one: its type says which fields it has."""

    type: str = ""
    id: str | None = None
    name: str | None = None
    arguments: Any = None  # a piece of text in a delta
    signature: str | None = None
    text: str | None = None
    content: Any = None  # a list; one in a delta
    summary: list[Any] | None = None


class _Interaction(msgspec.Struct):
    """A whole answer, or its end."""

    status: str | None = None
    steps: list[Any] | None = None
    outputs: list[Any] | None = None
    usage: Any = None
    error: Any = None


class _Event(_Interaction):
    event_type: str = ""
    index: int = 0
    step: Any = None
    content: Any = None  # a step, before June 2026
    delta: Any = None
    interaction: _Interaction | None = None


_EVENT = msgspec.json.Decoder(_Event)


class InteractionDecoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._open = OpenBlocks(_CALL)

    def decode(self, payload: Payload) -> Decoded:
        """Turn one event into deltas."""
        return guard(self._decode(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No event is read apart from the others."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(self._decode_response(body)))

    def _decode(self, payload: Payload) -> Iterator[Delta]:
        event = read(payload, _EVENT)
        if event.error:
            yield read_error(event.error)
        elif event.event_type in _EVENTS:
            yield from _EVENTS[event.event_type](self, event)

    def _decode_response(self, body: Payload) -> Iterator[Delta]:
        answer = read(body, _EVENT)
        steps = answer.outputs if answer.steps is None else answer.steps
        if answer.error:
            yield read_error(answer.error)
        elif answer.status in _UNFINISHED:
            raise ProtocolError(f"the interaction is not over: its status is {answer.status!r}")
        elif steps is None and answer.status is None:
            raise ProtocolError("the answer has neither steps nor an error")
        for index, step in enumerate(steps or ()):
            yield from self._start(index, step)
            yield from self._open.stop(index)
        yield from _end(answer)

    # ── Steps ───────────────────────────────────────────────────────────────────────

    def _start(self, index: int, value: Any) -> Iterator[Delta]:
        step = fit(value, _Step)
        if step.type == _CALL:
            self._open.open_call(index)
            yield _open_call(index, step)
        elif step.type in _WORDS:
            self._open.open_words(index)
            yield from _WORDS[step.type](step)
        else:
            self._open.open_other(index, GrowingBlock(plain(value)))

    def start(self, event: _Event) -> Iterator[Delta]:
        """A step begins."""
        return self._start(event.index, event.step or event.content or {"type": _OUTPUT})

    def grow(self, event: _Event) -> Iterator[Delta]:
        """A step grows."""
        delta = fit(event.delta or {}, _Step)
        growing = self._open.growing(event.index)
        if growing is not None:
            growing.native.update(present(plain(event.delta or {})))
        elif delta.type == _CALL:
            yield from self._grow_call(event.index, delta)
        elif delta.type == "arguments_delta":
            arguments = read_arguments(delta.arguments)
            yield from self._open.add_input(event.index, arguments)
            yield from _sign_call(event.index, delta)
        elif delta.type in _WORDS:
            yield from _WORDS[delta.type](delta)
        else:
            yield ProviderBlock(plain(event.delta or {}))

    def _grow_call(self, index: int, call: _Step) -> Iterator[Delta]:
        known = self._open.is_call(index)
        if not known:
            self._open.open_call(index)
        yield msgspec.structs.replace(_open_call(index, call), opens=not known)

    def stop(self, event: _Event) -> Iterator[Delta]:
        """A step is over."""
        return self._open.stop(event.index)

    def complete(self, event: _Event) -> Iterator[Delta]:
        """The answer is over."""
        end = event.interaction or event
        if end.error:
            yield read_error(end.error)
        yield from _end(end)
        yield Terminated()


def _open_call(index: int, call: _Step) -> CallDelta:
    extras = {SIGNATURE: call.signature} if call.signature else None
    arguments = read_arguments(call.arguments) or None
    return CallDelta(index, arguments, call.name, call.id, opens=True, extras=extras)


def _sign_call(index: int, delta: _Step) -> Iterator[Delta]:
    if delta.signature:
        yield CallDelta(index, extras={SIGNATURE: delta.signature})


# ── Words ───────────────────────────────────────────────────────────────────────────


def _text(step: _Step) -> Iterator[Delta]:
    if step.text:
        yield Text(step.text)


def _output(step: _Step) -> Iterator[Delta]:
    for block in step.content or ():
        shape = fit(block, _Step)
        if shape.type == "text":
            yield from _text(shape)
        else:
            yield ProviderBlock(plain(block))


def _thought(step: _Step) -> Iterator[Delta]:
    """A whole thought, a piece of its summary, or its signature."""
    told = step.summary or ([step.content] if step.content else [])
    words = "".join(fit(each, _Words).text or "" for each in told)
    if words:
        yield Reasoning(words)
    if step.signature:
        yield Reasoning("", {SIGNATURE: step.signature})


def _silence(_: _Step) -> Iterator[Delta]:
    return iter(())


_WORDS: dict[str, Callable[[_Step], Iterator[Delta]]] = {
    _OUTPUT: _output,
    "text": _text,
    _THOUGHT: _thought,
    "thought_summary": _thought,
    "thought_signature": _thought,
    "text_annotation": _silence,
    "text_annotation_delta": _silence,
    **dict.fromkeys(_GIVEN, _silence),
}


# ── The end ─────────────────────────────────────────────────────────────────────────


def _end(end: _Interaction) -> Iterator[Delta]:
    if isinstance(end.usage, Mapping):
        yield _usage(plain(end.usage))
    if end.status:
        yield HintGiven(read_hint(end.status), end.status)


def _usage(native: Mapping[str, Any]) -> Usage:
    names = ("total_input_tokens", "total_output_tokens", "total_thought_tokens")
    given, *written = (read_count(native.get(name)) for name in names)
    # Thoughts are tokens that the model wrote, but Google counts them apart.
    counts = [count for count in written if count is not None]
    return Usage(given, sum(counts) if counts else None, native)


_EVENTS: dict[str, Callable[[InteractionDecoder, _Event], Iterator[Delta]]] = {
    "step.start": InteractionDecoder.start,
    "step.delta": InteractionDecoder.grow,
    "step.stop": InteractionDecoder.stop,
    "interaction.completed": InteractionDecoder.complete,
    "content.start": InteractionDecoder.start,
    "content.delta": InteractionDecoder.grow,
    "content.stop": InteractionDecoder.stop,
    "interaction.complete": InteractionDecoder.complete,
}

# ── A request ─────────────────────────────────────────────────────────────────────────

PROTOCOL = "gemini-interactions"
_LEVELS = ("low", "medium", "high")
_MODES = {Mode.NONE: "none", Mode.REQUIRED: "any"}


def encode(request: Request, _: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    system = [message.text for message in request.messages if message.role is Role.SYSTEM]
    messages = [message for message in request.messages if message.role is not Role.SYSTEM]
    tools = _write_tools(request)
    options = foreign_options(request, PROTOCOL)
    config = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "max_output_tokens": request.max_tokens,
        "stop_sequences": list(request.stop) or None,
        "thinking_level": options.effort_among(efforts_of(request.model) or _LEVELS),
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
    return {"type": "function", **define_tool(spec, "parameters")}


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
        own = part.protocol == PROTOCOL
        yield dict(part.value) if own else {"type": "text", "text": omit(part)}


# ── The protocol ──────────────────────────────────────────────────────────────────────

RECORD = WireProtocol(
    name=PROTOCOL,
    provider="gcp.gemini",
    decoder=InteractionDecoder,
    framing=SseFraming,
    kinds=("interaction",),
    fields=(frozenset({"event_type"}),),
    whole_kind="interaction",
    usual_whole=OBJECTS,
    upstream=UpstreamSide(
        encode=encode,
        carried=carried_options,
        media=dict.fromkeys(("image", "audio", "document"), True),
        path="interactions",
        version="v1beta",
        key_header="x-goog-api-key",
        key_form="{key}",
    ),
)
