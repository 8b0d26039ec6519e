"""Chunks of Google's generateContent to deltas, with calls that arrive repeatedly or in parts."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import (
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
from wholecall.protocols.decoder import (
    Decoded,
    Payload,
    Pieces,
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

_SHORTEST_SIGNATURE = 64
"""Characters. Signatures are much longer; shorter ones are words that gateways put there."""

_MOST_CALLS = 64
"""Calls of one answer that are compared with what follows."""
_PLAIN = frozenset({"name", "args"})

Part: TypeAlias = Mapping[str, Any]


class Snapshots:
    """The calls of one candidate so far."""

    __slots__ = ("_calls", "_tokens")

    def __init__(self) -> None:
        self._calls: list[Part] = []
        self._tokens = 0

    def known(self, parts: Sequence[Part | None], tokens: int) -> frozenset[int]:
        """The places of those parts that are calls which came before."""
        places = [at for at, part in enumerate(parts) if part is not None and _is_plain_call(part)]
        if not places or len(self._calls) > _MOST_CALLS:
            return frozenset()
        calls = [parts[at] or {} for at in places]
        again = self._count_again(calls, grown=not 0 < tokens == self._tokens)
        self._calls += calls[again:]
        self._tokens = tokens
        return frozenset(places[:again])

    def _count_again(self, calls: Sequence[Part], *, grown: bool) -> int:
        """Count the leading calls that came before."""
        if not grown and all(call in self._calls for call in calls):
            return len(calls)
        most = len(self._calls)
        if any(map(_is_signed, self._calls)) and list(calls[:most]) == self._calls:
            return most
        return next((at for at, call in enumerate(calls) if not self._is_known(call)), len(calls))

    def _is_known(self, call: Part) -> bool:
        return _is_signed(call) and call in self._calls


def count_tokens(usage: Mapping[str, Any] | None) -> int:
    """Return the number of tokens written so far, according to a chunk; 0 if it does not say."""
    said = usage or {}
    return read_count(said.get("candidatesTokenCount", said.get("candidates_token_count"))) or 0


def _is_plain_call(part: Part) -> bool:
    """Return True if a part is a whole call without an id."""
    call = part.get("functionCall", part.get("function_call"))
    return isinstance(call, Mapping) and bool(call.get("name")) and present(call).keys() <= _PLAIN


def _is_signed(part: Part) -> bool:
    signature = part.get("thoughtSignature", part.get("thought_signature"))
    return isinstance(signature, str | bytes) and len(signature) >= _SHORTEST_SIGNATURE


# Arguments that Gemini streams as values at JSON paths.
#
# `{"jsonPath": "$.recipe.steps[0]", "stringValue": "Mix", "willContinue": true}` puts a string at
# its place; the next one for the same path is appended to it, until one comes without
# `willContinue`. Objects and arrays are implied by the paths.
#
# A value that contradicts an earlier one at its place is an error: it would be a guess which of the
# two the model means.


Scalar: TypeAlias = str | int | float | bool | None
_Step: TypeAlias = str | int

# One step of a path: `.name`, `[0]`, `["any name"]` or `['any name']` (RFC 9535). Nothing is
# tried twice: the repetitions are possessive.
_STEP = re.compile(
    r"""\.(?P<name>[^.\[]+)
      | \[(?P<index>\d{1,9})\]
      | \["(?P<double>(?:[^"\\]++|\\.)*+)"\]
      | \['(?P<single>(?:[^'\\]++|\\.)*+)'\]""",
    re.VERBOSE,
)
# A double holds every integer up to here; the API has no other numbers.
_EXACT = 2**53


class GrowingObject:
    """The arguments of one call, as far as they came."""

    __slots__ = ("_growing", "_room", "_root")

    def __init__(self, begun: Mapping[str, Any]) -> None:
        self._root: dict[str, Any] = dict(begun)
        self._growing: dict[tuple[_Step, ...], Pieces] = {}
        self._room = DEFAULT.characters

    @property
    def is_whole(self) -> bool:
        """True if no string is incomplete."""
        return not self._growing

    def put(self, path: str, value: Scalar | UnsetType, *, continues: bool) -> None:
        """Take the value, or the next piece of the string, at a path."""
        self._room -= len(path)
        if self._room < 0:
            raise ProtocolError(f"partial arguments have more than {DEFAULT.characters} characters")
        steps = parse_path(path)
        if steps in self._growing:
            self._append(steps, value, path=path)
        elif continues and (value is UNSET or isinstance(value, str)):
            self._growing[steps] = Pieces(f"the string at {path}")
            self._growing[steps].add(value or "")
            _place(self._root, steps, value=self._growing[steps], path=path)
        elif value is not UNSET:
            _place(self._root, steps, value=_whole_number(value), path=path)
        else:
            raise ProtocolError(f"no value came for {path}")
        if not continues:
            self._growing.pop(steps, None)

    def _append(self, steps: tuple[_Step, ...], value: Scalar | UnsetType, *, path: str) -> None:
        # The last piece may be empty, and the empty value is left out by some clients.
        if isinstance(value, str):
            self._growing[steps].add(value)
        elif value is not UNSET and value is not None:
            raise ProtocolError(f"the string at {path} goes on as {value!r}")

    def encode(self) -> str:
        """The arguments as JSON text."""
        return json.dumps(self._root, default=Pieces.join, ensure_ascii=False)


def parse_path(path: str) -> tuple[_Step, ...]:
    """The names and indices of a JSON path that leads to one value."""
    steps: list[_Step] = []
    at = 1
    while at < len(path) and len(steps) < DEFAULT.depth:
        step = _STEP.match(path, at)
        if step is None:
            break
        steps.append(_read_step(step))
        at = step.end()
    if not path.startswith("$") or at < len(path) or not steps:
        raise ProtocolError(f"JSON path {path[:200]!r} cannot be followed")
    return tuple(steps)


def _read_step(step: re.Match[str]) -> _Step:
    if step["index"] is not None:
        return int(step["index"])
    if step["name"] is not None:
        return step["name"]
    quoted = step["double"]
    if quoted is None:
        quoted = step["single"].replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{quoted}"', strict=False))
    except ValueError:
        raise ProtocolError(f"JSON path holds a name that cannot be read: {quoted!r}") from None


def _place(root: dict[str, Any], steps: tuple[_Step, ...], *, value: Any, path: str) -> None:
    node: Any = root
    for step, following in pairwise((*steps, None)):
        if not _can_hold(node, step):
            raise ProtocolError(f"{path} contradicts the arguments that came before")
        if following is None and _has(node, step):
            raise ProtocolError(f"a second value came for {path}")
        new = value if following is None else [] if isinstance(following, int) else {}
        node = _get_or_set(node, step, new=new)


def _can_hold(node: Any, step: _Step | None) -> bool:
    if isinstance(step, str):
        return isinstance(node, dict)
    # An array grows at its end: an index beyond it would leave a hole.
    return isinstance(node, list) and step is not None and step <= len(node)


def _has(node: Any, step: Any) -> bool:
    return step in node if isinstance(node, dict) else step < len(node)


def _get_or_set(node: Any, step: Any, *, new: Any) -> Any:
    if not _has(node, step):
        if isinstance(node, dict):
            node[step] = new
        else:
            node.append(new)
    return node[step]


def _whole_number(value: Scalar | UnsetType) -> Scalar | UnsetType:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


# Google's generateContent, of the Gemini API and of Vertex AI.
#
# A chunk holds candidates, each with parts of its content. A call is a part, whole in one chunk,
# its arguments an object. Vertex can stream the arguments: the first part has the name and
# `willContinue`, further ones have values at JSON paths, the last is without `willContinue`. They
# are handed on as `{` when the call opens and the rest when it is finished, so that a call that was
# cut is an open object and never `{}`. A whole call that a chunk only brings again is read once.
#
# Google's JSON is written in camelCase, and its Python objects in snake_case; both are read.


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
