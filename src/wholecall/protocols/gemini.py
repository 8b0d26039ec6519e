"""Google's generateContent, of the Gemini API and of Vertex AI.

A chunk holds candidates, each with parts of its content. A call is a part, whole in one
chunk, its arguments an object. Vertex can stream the arguments: the first part has the
name and `willContinue`, further ones have values at JSON paths, the last is without
`willContinue`. They are handed on as `{` when the call opens and the rest when it is
finished, so that a call that was cut is an open object and never `{}`. A whole call that a
chunk only brings again is read once.

Google's JSON is written in camelCase, and its Python objects in snake_case; both are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wholecall.core.hints import read_hint
from wholecall.core.values import (
    CallDelta,
    CallSealed,
    Delta,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    OfChoice,
    ProviderBlock,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.errors import ProtocolError
from wholecall.protocols.partial_args import GrowingObject, Scalar
from wholecall.protocols.snapshots import Snapshots, count_tokens
from wholecall.protocols.wire import (
    Decoded,
    Payload,
    fit,
    guard,
    present,
    read_arguments,
    read_count,
    read_error,
    read_json,
    read_mark,
    terminate,
)

# ── The wire ────────────────────────────────────────────────────────────────────────


class _PartialArg(msgspec.Struct):
    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: Any = UNSET  # "NULL_VALUE" or null; that it is there says it
    will_continue: bool | None = None

    @property
    def value(self) -> Scalar | UnsetType:
        for value in (self.string_value, self.number_value, self.bool_value):
            if value is not None:
                return value
        return UNSET if self.null_value is UNSET else None


class _FunctionCall(msgspec.Struct):
    name: str | None = None  # missing from all parts of a streamed call but the first
    id: str | None = None  # missing from most models
    args: Any = None
    partial_args: list[_PartialArg] | None = None
    will_continue: bool | None = None


class _Part(msgspec.Struct):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _FunctionCall | None = None


class _Content(msgspec.Struct):
    parts: list[dict[str, Any] | None] | None = None


class _Candidate(msgspec.Struct):
    index: int | None = None
    content: _Content | None = None
    finish_reason: str | int | None = None  # a number from client libraries


class _Feedback(msgspec.Struct):
    block_reason: str | None = None


class _Chunk(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: dict[str, Any] | None = None
    error: Any = None


# The numbers on which the two versions of the enumeration agree; of the others, none means that
# a call is to be run.
_REASONS = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")


def _name_reason(reason: str | int | None) -> str:
    if not isinstance(reason, int):
        return reason or ""
    return _REASONS[reason] if reason in range(len(_REASONS)) else "MALFORMED_FUNCTION_CALL"


_SHAPES = (_PartialArg, _FunctionCall, _Part, _Content, _Candidate, _Feedback, _Chunk)
_FIELDS = frozenset(name for shape in _SHAPES for name in shape.__struct_fields__)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


_SNAKE = {_camel(name): name for name in _FIELDS}
# What is handed on as it came.
_VERBATIM = frozenset({"args", "parts", "usage_metadata", "error"})


def _respell(value: Any) -> Any:
    """Spell the names of our shapes in snake_case; what they do not know, they skip."""
    if isinstance(value, list):
        return [_respell(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    known = ((_SNAKE.get(name, name), each) for name, each in value.items())
    return {
        name: each if name in _VERBATIM else _respell(each)
        for name, each in known
        if name in _FIELDS
    }


# ── Decoding ────────────────────────────────────────────────────────────────────────


class Decoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._slots = count()
        self._open: dict[int, _OpenCall] = {}
        """The call that each candidate is streaming."""
        self._snapshots: defaultdict[int, Snapshots] = defaultdict(Snapshots)

    def decode(self, payload: Payload) -> Decoded:
        """Turn one chunk into deltas."""
        return guard(self._read(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No chunk leaves it as it was."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(self._read(body, whole=True)))

    def _read(self, payload: Payload, *, whole: bool = False) -> Decoded:
        chunks = read_json(payload)
        # Without `alt=sse` the stream is one list of chunks; errors come in a list as well.
        for chunk in chunks if isinstance(chunks, list) else [chunks]:
            yield from self._chunk(fit(_respell(chunk), _Chunk), whole=whole)

    def _chunk(self, chunk: _Chunk, *, whole: bool) -> Decoded:
        if chunk.error:
            yield read_error(chunk.error)
        elif whole and not (chunk.candidates or chunk.prompt_feedback):
            raise ProtocolError("the answer has neither candidates nor an error")
        for candidate in chunk.candidates or ():
            deltas = self._candidate(candidate, count_tokens(chunk.usage_metadata))
            if candidate.index:
                yield from (OfChoice(candidate.index, delta) for delta in deltas)
            else:
                yield from deltas
        if chunk.usage_metadata is not None:
            yield _usage(chunk.usage_metadata)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            yield HintGiven(Hint.CONTENT_FILTER, chunk.prompt_feedback.block_reason)
            yield Terminated()

    def _candidate(self, candidate: _Candidate, tokens: int) -> Iterator[Delta]:
        parts = (candidate.content or _Content()).parts or []
        known = self._snapshots[candidate.index or 0].known(parts, tokens)
        for place, native in enumerate(parts):
            if native is not None and place not in known:
                yield from self._part(candidate.index or 0, native)
        if reason := _name_reason(candidate.finish_reason):
            yield HintGiven(read_hint(reason), reason)
            yield Terminated(closes=False)

    def _part(self, candidate: int, native: dict[str, Any]) -> Iterator[Delta]:
        part = fit(_respell(native), _Part)
        extras = present({"thought_signature": part.thought_signature})
        if part.function_call is not None:
            yield from self._call(candidate, part.function_call, extras=extras)
            return
        if part.text:
            yield Reasoning(part.text) if part.thought else Text(part.text)
        elif part.text is None and _is_provider_block(native):
            yield ProviderBlock(present(native))
        if extras:
            yield Reasoning("", extras)

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _call(
        self, candidate: int, call: _FunctionCall, *, extras: Mapping[str, Any]
    ) -> Iterator[Delta]:
        begun = self._open.get(candidate)
        if begun is not None and begun.is_continued_by(call):
            if extras:
                yield CallDelta(begun.slot, extras=extras)
        elif call.will_continue or call.partial_args:
            yield from self._abandon(candidate, call)
            begun = self._open[candidate] = _OpenCall(next(self._slots), call)
            yield CallDelta(begun.slot, "{", call.name, call.id, opens=True, extras=extras or None)
        else:
            yield from self._abandon(candidate, call)
            yield from self._whole(call, extras)
            return
        begun.take(call)
        if not call.will_continue:
            del self._open[candidate]
            yield from begun.finish()

    def _whole(self, call: _FunctionCall, extras: Mapping[str, Any]) -> Iterator[Delta]:
        if call.name or call.args:  # the end of a call is sent even if nothing is open
            slot = next(self._slots)
            arguments = read_arguments(call.args)
            yield CallDelta(slot, arguments, call.name, call.id, opens=True, extras=extras or None)
            yield CallSealed(slot)

    def _abandon(self, candidate: int, call: _FunctionCall) -> Iterator[Fault]:
        begun = self._open.pop(candidate, None)
        if begun is not None:
            message = f"call of {call.name!r} began before that of {begun.name!r} was finished"
            yield Fault(FaultKind.PROTOCOL, message)


class _OpenCall:
    """A call whose arguments are being streamed."""

    def __init__(self, slot: int, call: _FunctionCall) -> None:
        self.slot = slot
        self.name = call.name
        self._id = call.id
        self._arguments = GrowingObject(fit(call.args or {}, dict[str, Any]))

    def is_continued_by(self, call: _FunctionCall) -> bool:
        """Only the first part has a name; one that is repeated must bring arguments."""
        if call.args or call.id not in (None, self._id):
            return False
        return not call.name or (call.name == self.name and bool(call.partial_args))

    def take(self, call: _FunctionCall) -> None:
        for partial in call.partial_args or ():
            continues = bool(partial.will_continue)
            self._arguments.put(partial.json_path, partial.value, continues=continues)

    def finish(self) -> Iterator[Delta]:
        """The rest of the arguments; not if a string was cut, then the object stays open."""
        if self._arguments.is_whole:
            yield CallDelta(self.slot, self._arguments.encode()[1:])
            yield CallSealed(self.slot)


# ── The rest ────────────────────────────────────────────────────────────────────────

_NO_BLOCK = frozenset({"text", "thought", "thoughtSignature", "thought_signature"})


def _is_provider_block(native: Mapping[str, Any]) -> bool:
    """Code that was executed, its result, a picture: whatever is neither text nor a call."""
    return not _NO_BLOCK.issuperset(present(native))


def _usage(native: Mapping[str, Any]) -> Usage:
    given, *written = (
        read_count(native.get(_camel(name), native.get(name)))
        for name in ("prompt_token_count", "candidates_token_count", "thoughts_token_count")
    )
    # Thoughts are tokens that the model wrote, but Google counts them apart.
    counts = [count for count in written if count is not None]
    return Usage(given, sum(counts) if counts else None, native)
