"""Chunks of OpenAI's chat completions, as OpenAI and its imitators send them, to deltas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import ProtocolError
from wholecall.events import (
    CallDelta,
    Delta,
    Ended,
    Event,
    Hint,
    HintGiven,
    OfChoice,
    ProviderBlock,
    Reasoning,
    Slot,
    Terminated,
    Text,
    Usage,
)
from wholecall.messages import ToolSpec
from wholecall.protocols.decoder import (
    CUSTOM,
    UNREADABLE,
    Decoded,
    Payload,
    Pieces,
    decline,
    explain,
    fit,
    guard,
    plain,
    present,
    read,
    read_arguments,
    read_error,
    read_json,
    read_mark,
    read_usage,
)
from wholecall.protocols.history import NOTES
from wholecall.protocols.openai_chat import shapes
from wholecall.protocols.openai_chat.request import PROTOCOL
from wholecall.protocols.tool_kinds import INPUT, OwnCall, WireNames

_MESSAGES = ("delta", "message")
_OF_A_CALL = frozenset({"function", "name", "arguments", "custom", "id", "index"})


def mend_lists(chunk: Any) -> Any:
    """Return a chunk in which calls are lists, as far as possible."""
    choices = chunk.get("choices") if isinstance(chunk, Mapping) else None
    if not isinstance(choices, list):
        return chunk
    return {**chunk, "choices": [_mend_choice(choice) for choice in choices]}


def _mend_choice(choice: Any) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    messages = {name: _mend_message(choice[name]) for name in _MESSAGES if name in choice}
    return {**choice, **messages}


def _mend_message(message: Any) -> Any:
    if not isinstance(message, Mapping) or "tool_calls" not in message:
        return message
    return {**message, "tool_calls": _list_calls(message["tool_calls"])}


def _list_calls(calls: Any) -> Any:
    if isinstance(calls, str):
        calls = _parse(calls.strip())
    if not isinstance(calls, Mapping):
        return calls or None
    if not _OF_A_CALL.isdisjoint(calls):
        return [calls]
    return list(calls.values())


def _parse(text: str) -> Any:
    """Return the value of a text; the text itself if it is neither a list nor a call."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text  # an empty one is nothing
    return value if isinstance(value, list | Mapping) else text


# The choices of a whole answer of OpenAI's chat protocol: which is which.
#
# Copilot's gateway sends the words of one answer in one choice and its calls in the next ones
# (https://github.com/SWE-agent/mini-swe-agent/issues/804). The first says that it ended for its
# calls and has none, which no answer of its own would say.


def number(choices: Sequence[shapes.ChatChoice | None]) -> None:
    """In a whole answer the place in the list is the index; nothing is missing there."""
    _number_by_place(choices)
    present = [choice for choice in choices if choice is not None]
    if present and _lacks_calls(present[0]):
        _join(present)
    for choice in present:
        message = _message_of(choice)
        if message is not None:
            _number_by_place(message.tool_calls or [])


def _number_by_place(entries: Sequence[shapes.ChatChoice | shapes.ToolCallEntry | None]) -> None:
    for place, entry in enumerate(entries):
        if entry is not None and entry.index is None:
            entry.index = place


def _lacks_calls(choice: shapes.ChatChoice) -> bool:
    message = _message_of(choice)
    reason = choice.finish_reason
    if message is None or message.tool_calls or message.function_call:
        return False
    return bool(reason) and read_hint(str(reason)) is Hint.TOOL_CALLS


def _join(choices: Sequence[shapes.ChatChoice]) -> None:
    """Choices that are nothing but calls are the calls of the first."""
    calls: list[Any] = []
    for choice in choices[1:]:
        message = _message_of(choice)
        if message is not None and message.tool_calls and not message.content:
            calls += message.tool_calls
            message.tool_calls = None
    _message_of(choices[0]).tool_calls = calls


def _message_of(choice: shapes.ChatChoice) -> Any:
    return choice.message or choice.delta


# Calls of OpenAI's custom tools, which take any text instead of arguments.
#
# Nothing in such a text shows where it ends. So a call is whole when its choice has ended well; the
# last of a choice that the output limit ended was cut. If the request does not say that it offers
# such tools, calls of them are handed on as they are.


_CUT = frozenset({Hint.LENGTH})
_VOID = frozenset({Hint.CONTENT_FILTER, Hint.MALFORMED, Hint.ERROR})


class _Draft:
    __slots__ = ("id", "input", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.input = Pieces("the input of a custom tool")


class CustomCalls:
    """Those of one answer, being built."""

    __slots__ = ("_drafts", "_names")

    def __init__(self, names: WireNames) -> None:
        self._names = names
        self._drafts: dict[int, dict[Any, _Draft]] = {}
        """By the choice, and by the index in it."""

    def sift(
        self, choice: int, entries: Iterable[shapes.ToolCallEntry | None]
    ) -> Iterator[shapes.ToolCallEntry]:
        """Take what belongs to such calls; what is left are other calls."""
        for entry in entries:
            if entry is None:
                continue
            if entry.custom is not None and self._is_custom(choice, entry, piece=entry.custom):
                self._add(choice, entry, piece=entry.custom)
            else:
                yield entry

    def _is_custom(
        self, choice: int, entry: shapes.ToolCallEntry, *, piece: shapes.CustomCall
    ) -> bool:
        """Return whether an entry is a piece of a custom call.

        Snowflake puts an empty `custom` beside the `function` of every call.
        """
        if piece.name or piece.input or entry.function is None:
            return True
        says = entry.function.name or entry.function.arguments
        return not says and entry.index in self._drafts.get(choice, {})

    def _add(self, choice: int, entry: shapes.ToolCallEntry, *, piece: shapes.CustomCall) -> None:
        drafts, slot = self._drafts.setdefault(choice, {}), entry.index
        if slot not in drafts and len(drafts) >= DEFAULT.blocks:
            raise ProtocolError(f"the answer has more than {DEFAULT.blocks} custom calls")
        draft = drafts.setdefault(slot, _Draft())
        draft.id = draft.id or (None if entry.id is None else str(entry.id))
        draft.name = draft.name or piece.name or ""
        draft.input.add(piece.input or "")

    def release(self, choice: int, hint: Hint | None = None) -> Iterator[Delta]:
        """A choice is over, and so are those of its calls that came whole."""
        drafts = self._drafts.pop(choice, {})
        if not drafts or hint in _VOID:
            return
        last = list(drafts)[-1]
        for slot, draft in drafts.items():
            cut = hint in _CUT and slot == last
            if self._names.has(CUSTOM):
                yield from self._state(slot, draft, cut=cut)
            elif not cut:
                called = {"name": draft.name, "input": draft.input.join()}
                yield ProviderBlock({"id": draft.id, "type": CUSTOM, CUSTOM: called})

    def _state(self, slot: Any, draft: _Draft, *, cut: bool) -> Iterator[Delta]:
        name = self._names.find(CUSTOM, draft.name)
        arguments = {INPUT: draft.input.join()}
        call = OwnCall(slot=f"{CUSTOM} {slot}", name=name, id=draft.id, arguments=arguments)
        return call.state(cut=cut)

    @property
    def choices(self) -> tuple[int, ...]:
        """The choices that have some."""
        return tuple(self._drafts)


# OpenAI's chat completions, as OpenAI and some forty imitators send them.
#
# The stream is a list of chunks, `data: [DONE]` at the end. A call is addressed by the index of its
# entry in `delta.tool_calls`; id and name come with its first entry, the arguments as text in
# pieces. No message says that a call is over, so all that this file can hand on is pieces: which of
# them belong together is the assembler's work.


_LEGACY_SLOT = "function_call"


_CHUNK = msgspec.json.Decoder(shapes.ChatChunk)
_NO_NAMES = WireNames()
_STOP = "stop"
_STOPPED = HintGiven(Hint.STOP, _STOP)
_ENDED = Ended(_STOP, hint=Hint.STOP, native=_STOP, error=None)


# ── Decoding ────────────────────────────────────────────────────────────────────────


class Decoder:
    """Reads one stream, or one whole answer. `tools` are those of the request."""

    def __init__(self, tools: Iterable[ToolSpec] = ()) -> None:
        self._modern: set[int] = set()
        """The choices that send `tool_calls`; a `function_call` there says the same again."""
        self._held: dict[int, _LegacyCall] = {}
        self._custom = CustomCalls(WireNames(tools, PROTOCOL) if tools else _NO_NAMES)

    def decode(self, payload: Payload) -> Decoded:
        """Turn one chunk into deltas."""
        try:
            chunk = _CHUNK.decode(payload)  # type: ignore[arg-type]  # TypeError: not a text
        except (ValueError, TypeError, RecursionError):
            return self._decode_unusual(payload)
        return self._decode_chunk(chunk)

    def _decode_unusual(self, payload: Payload) -> Decoded:
        """Decode a mark, a client library's object, or what only a lenient parser reads."""
        mark = read_mark(payload)
        if mark is not None:
            return self._end() if mark else ()
        try:
            chunk = read(payload, _CHUNK)
        except UNREADABLE:
            return guard(self._read_mended(payload))
        return self._decode_chunk(chunk)

    def _decode_chunk(self, chunk: shapes.ChatChunk) -> Decoded:
        piece = _only_piece(chunk)
        # The first call takes the slow path: it shows that this is not a `function_call`.
        if piece is None or (type(piece) is CallDelta and 0 not in self._modern):
            return self._read_guarded(chunk)
        return (piece,)

    def _read_guarded(self, chunk: shapes.ChatChunk) -> Decoded:
        """Do as `guard` does, without a call to it for every chunk."""
        deltas: list[Delta | OfChoice[Delta]] = []
        try:
            deltas.extend(self._read(chunk))
        except UNREADABLE as error:  # the deltas before it are kept
            deltas.append(explain(error))
        return deltas

    def read_piece(self, payload: bytes) -> Delta | None:
        """A piece of text or of a call that has begun."""
        try:
            piece = _only_piece(_CHUNK.decode(payload))
        except (ValueError, RecursionError):
            return None
        return None if type(piece) is CallDelta and 0 not in self._modern else piece

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        try:
            yield from self._read(_read_whole(body))
        except UNREADABLE as error:
            yield explain(error)
        yield from self._end()

    def _read_mended(self, payload: Payload) -> Decoded:
        yield from self._read(_mend(payload))

    def _read(self, chunk: shapes.ChatChunk) -> Decoded:
        failure = _failure(chunk)
        if failure:
            yield read_error(failure)
        for choice in chunk.choices or ():
            if choice is None:
                continue
            if choice.index:
                yield from (OfChoice(choice.index, delta) for delta in self._choice(choice))
            else:
                yield from self._choice(choice)
        yield from _count(chunk.usage)

    def _choice(self, choice: shapes.ChatChoice) -> Iterator[Delta]:
        message = choice.delta or choice.message
        index = choice.index or 0
        if message is not None:
            yield from _words(message)
            if choice.logprobs or message.annotations or message.images or message.audio:
                yield from _notes(choice.logprobs, message)
            if message.tool_calls:
                self._modern.add(index)
                yield from _calls(self._custom.sift(index, message.tool_calls))
            elif message.function_call is not None:
                self._held.setdefault(index, _LegacyCall()).add(message.function_call)
        if choice.error:
            yield read_error(choice.error)
        if choice.finish_reason:
            given = HintGiven(read_hint(str(choice.finish_reason)), str(choice.finish_reason))
            yield from (*self._release(index, given.hint), given)

    def _end(self) -> Decoded:
        for index in dict.fromkeys((*self._held, *self._custom.choices)):
            for delta in self._release(index):
                yield OfChoice(index, delta) if index else delta
        yield Terminated()

    def _release(self, index: int, hint: Hint | None = None) -> Iterator[Delta]:
        yield from self._custom.release(index, hint)
        legacy = self._held.pop(index, None)
        yield from legacy.pieces if legacy is not None and index not in self._modern else ()


def _read_whole(body: Payload) -> shapes.ChatChunk:
    try:
        answer = read(body, _CHUNK)
    except ProtocolError:
        answer = _mend(body)
    if not answer.choices and isinstance(answer.data, Mapping):
        answer = fit(answer.data, shapes.ChatChunk)
    if not answer.choices and not _failure(answer):
        raise ProtocolError("the answer has neither choices nor an error")
    number(answer.choices or [])
    return answer


def _count(usage: Any) -> Iterable[Usage]:
    if usage is None:
        return ()
    return read_usage(usage, input_tokens="prompt_tokens", output_tokens="completion_tokens")


def _mend(payload: Payload) -> shapes.ChatChunk:
    return fit(mend_lists(read_json(payload)), shapes.ChatChunk)


# ── The usual whole answer ──────────────────────────────────────────────────────────


def read_plain(body: bytes) -> list[Event] | None:
    """Return the events of a whole answer that is one text and nothing else; None for any other.

    `Reader` gives the same result, at four times the cost.
    """
    try:
        answer = _CHUNK.decode(body)
    except (ValueError, RecursionError):
        return None
    choices = answer.choices
    if not choices or len(choices) > 1 or _failure(answer):
        return None
    content = _only_text(choices[0])
    return [Text(content), _STOPPED, *_count(answer.usage), _ENDED] if content else None


def _only_text(choice: shapes.ChatChoice | None) -> str | None:
    if choice is None or choice.index or choice.delta or choice.error or choice.logprobs:
        return None
    message = choice.message
    if message is None or choice.finish_reason != _STOP or _has_more(message):
        return None
    if message.tool_calls or message.reasoning_content or message.reasoning:
        return None
    return message.content if type(message.content) is str else None


# ── The usual chunk ───────────────────────────────────────────────────────────────────
# Nearly all chunks of a stream are one piece of text or of a call and nothing else, so they are
# tried first. `Decoder._read` gives the same result, at three times the cost.


def _only_piece(chunk: shapes.ChatChunk) -> Text | Reasoning | CallDelta | None:
    message = _only_message(chunk)
    if message is None or _has_more(message):
        return None
    content, entries = message.content, message.tool_calls
    thought = message.reasoning_content or message.reasoning
    if thought:
        alone = isinstance(thought, str) and not content and not entries
        return Reasoning(thought) if alone else None
    if not entries:
        return Text(content) if content and type(content) is str else None
    return None if content or len(entries) > 1 else _only_arguments(entries[0])


def _only_message(chunk: shapes.ChatChunk) -> shapes.ChatDelta | None:
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.usage is not None or _failure(chunk):
        return None
    choice = choices[0]
    if choice is None or choice.index or choice.finish_reason or choice.error or choice.logprobs:
        return None
    return choice.delta


def _has_more(message: shapes.ChatDelta) -> bool:
    """Return True if there is more than content, reasoning and calls."""
    return bool(
        message.reasoning_details
        or message.thinking_blocks
        or message.refusal
        or message.annotations
        or message.images
        or message.audio
        or message.function_call
    )


def _only_arguments(entry: shapes.ToolCallEntry | None) -> CallDelta | None:
    """A piece of a call that has begun: its head has an id or a name."""
    if entry is None or entry.id or _extras(entry) is not None or type(entry.index) is not int:
        return None
    function = entry.function or entry
    arguments = function.arguments
    usual = not function.name and type(arguments) is str and arguments
    return CallDelta(entry.index, arguments) if usual else None


def _failure(chunk: shapes.ChatChunk) -> Any:
    """Return the error of a chunk. Some servers put no `error` around it."""
    if chunk.error or chunk.object == "error":
        return chunk.error or chunk.message or "error"
    if chunk.choices is None and chunk.usage is None and chunk.object is None:
        return chunk.message or chunk.detail or chunk.code
    return None


class _LegacyCall:
    """The pieces of a `function_call`, held until it is certain that no `tool_calls` repeat them:
    some servers send both, and the call would run twice."""

    def __init__(self) -> None:
        self.pieces: list[CallDelta] = []
        self._size = 0

    def add(self, function: shapes.FunctionEntry) -> None:
        if not (function.name or function.arguments):
            return
        arguments = read_arguments(function.arguments)
        self._size += len(arguments or "")
        if self._size > DEFAULT.characters:
            raise ProtocolError(f"a function_call has more than {DEFAULT.characters} characters")
        self.pieces.append(CallDelta(_LEGACY_SLOT, arguments, function.name or None))


# ── Calls ───────────────────────────────────────────────────────────────────────────


def _calls(entries: Iterable[shapes.ToolCallEntry]) -> Iterator[CallDelta]:
    for entry in entries:
        function = entry.function or entry
        arguments = function.arguments
        if type(arguments) is not str:
            arguments = read_arguments(arguments)
        id = entry.id
        if id or function.name or arguments:  # some servers fill every chunk with empty entries
            yield CallDelta(
                entry.index if type(entry.index) is int else _slot(entry.index),
                arguments,
                function.name or None,
                id if type(id) is str or id is None else str(id),
                extras=_extras(entry),
            )


def _slot(index: float | str | None) -> Slot | None:
    try:
        return None if index is None else int(index)
    except (ValueError, OverflowError):
        return str(index)


def _extras(entry: shapes.ToolCallEntry) -> Mapping[str, Any] | None:
    if not (entry.extra_content or entry.thought_signature or entry.provider_specific_fields):
        return None
    return present(
        {
            "extra_content": entry.extra_content,
            "thought_signature": entry.thought_signature,
            "provider_specific_fields": entry.provider_specific_fields,
        }
    )


# ── Words ───────────────────────────────────────────────────────────────────────────


def _words(message: shapes.ChatDelta) -> Iterator[Delta]:
    # Some servers send the same text in both fields.
    thought = message.reasoning_content or message.reasoning
    if thought and isinstance(thought, str):
        yield Reasoning(thought)
    if message.reasoning_details or message.thinking_blocks:
        details = {
            "reasoning_details": _entries(message.reasoning_details),
            "thinking_blocks": _entries(message.thinking_blocks),
        }
        if present(details):
            yield Reasoning("", present(details))
    content = message.content
    if content:
        yield from (Text(content),) if isinstance(content, str) else _parts(content)
    if message.refusal and isinstance(message.refusal, str):
        yield from decline(message.refusal)


def _notes(logprobs: Any, message: shapes.ChatDelta) -> Iterator[Delta]:
    """Yield what stands beside the text, for clients of the same protocol."""
    found = (message.annotations, message.images, [message.audio], [logprobs])
    notes = present(dict(zip(NOTES, map(_entries, found), strict=True)))
    if notes:
        yield Reasoning("", notes)


def _entries(details: Any) -> list[Any] | None:
    """Return the objects of a list. Anything else cannot be joined and is dropped."""
    entries = plain(details) if isinstance(details, list) else ()
    return [entry for entry in entries if isinstance(entry, dict)] or None


def _parts(parts: list[shapes.ContentEntry | str | None]) -> Iterator[Delta]:
    for part in parts:
        if isinstance(part, str):
            yield Text(part)
        elif part is not None:
            yield from (Reasoning(text) for text in _thoughts(part.thinking))
            yield from (Text(part.text),) if part.text else ()
            yield from decline(part.refusal) if part.refusal else ()


def _thoughts(thinking: str | list[shapes.ContentEntry] | None) -> list[str]:
    if isinstance(thinking, str):
        return [thinking]
    return [part.text for part in thinking or () if part.text]
