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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from wholecall.events import (
    CallSealed as CallSealed,
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
from wholecall.protocols.gemini.request import SIGNATURE
from wholecall.protocols.gemini_interactions import request
from wholecall.protocols.registry import OBJECTS, UpstreamSide, WireProtocol
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

RECORD = WireProtocol(
    name=request.PROTOCOL,
    provider="gcp.gemini",
    decoder=InteractionDecoder,
    framing=SseFraming,
    kinds=("interaction",),
    fields=(frozenset({"event_type"}),),
    whole_kind="interaction",
    usual_whole=OBJECTS,
    upstream=UpstreamSide(
        encode=request.encode,
        carried=request.carried_options,
        path="interactions",
        version="v1beta",
        key_header="x-goog-api-key",
        key_form="{key}",
    ),
)
