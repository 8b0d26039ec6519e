"""Answers as OpenAI's chat completions.

A stream is a list of chunks that all begin alike, so that beginning is written once. A call takes
one entry in one chunk: id, name and the whole text of its arguments. Progress is in chunks without
choices, as the usage is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wholecall.events import JSON, Call, Opened, Reasoning, Text, Usage
from wholecall.messages import Native, Part, PastCall, ToolKind
from wholecall.protocols.decoder import DECLINED
from wholecall.protocols.history import NOTES
from wholecall.protocols.openai_chat.request import (
    CALL_EXTRAS,
    DETAILS,
    knows_only_functions,
    write_call,
)
from wholecall.protocols.request_fields import pick, without
from wholecall.protocols.response_base import (
    DONE,
    END,
    KEEP_ALIVE,
    PRIVATE,
    SERVER,
    ChoiceWriter,
    Failure,
    FinishReason,
    ResponseHead,
    ResponseStyle,
    dump,
    frame,
    is_for_client,
    quote,
    read_figures,
    write_past,
    write_request_id,
)
from wholecall.protocols.response_encoder import GatheredAnswer, GatheredChoice

_NOTHING = b""
_ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
*_LISTS, _AUDIO, _LOGPROBS = NOTES
_FUNCTION = "function_call"


def read_style(body: Mapping[str, Any]) -> ResponseStyle:
    """Read the style: the usage closes a stream only if the client requested it, because others
    fail at that chunk; and a client that offers `functions` reads its call as a `function_call`."""
    options = body.get("stream_options")
    wanted = isinstance(options, Mapping) and bool(options.get("include_usage"))
    return ResponseStyle(usage=wanted, functions=knows_only_functions(body))


# ── Streams ─────────────────────────────────────────────────────────────────────────


class ChatWriter:
    """Writes one chat completion as a stream."""

    def __init__(self, head: ResponseHead, style: ResponseStyle) -> None:
        fields = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }
        kept = without(head.complete(fields), ("choices", "usage"))
        self._before = b"data: " + dump(kept)[:-1] + b',"choices":['
        # A client that requested the usage gets the field in every chunk, null until it is known.
        self._after = (b'],"usage":null}' if style.usage else b"]}") + END
        self._tells_usage = style.usage
        self._make_choice = _FunctionChoice if style.functions else _ChatChoice
        self._kinds = head.kinds

    def begin(self, _: Usage | None) -> bytes:
        """Nothing: the first choice begins the stream."""
        return _NOTHING

    def choice(self, index: int) -> ChoiceWriter:
        """The writer of a choice."""
        return self._make_choice(index, self._before, after=self._after, kinds=self._kinds)

    def finish(self, finishes: Mapping[int, FinishReason], usage: Usage | None) -> bytes:
        """A finish for each choice, the usage, and the terminator."""
        chunks = [self._finish(index, finish) for index, finish in finishes.items()]
        if usage is not None and self._tells_usage:
            chunks.append(self._before + b'],"usage":' + dump(write_usage(usage)) + b"}" + END)
        return b"".join([*chunks, DONE])

    def fail(self, failure: Failure) -> bytes:
        """An error in place of a chunk."""
        return frame(encode_error(failure))

    def keep_alive(self) -> bytes:
        """A comment."""
        return KEEP_ALIVE

    def report(self, progress: JSON) -> bytes:
        """A chunk without choices, and the progress beside them."""
        key = f'],"{PRIVATE}":'.encode()
        return self._before + key + dump(progress) + b"}" + END

    def _finish(self, index: int, finish: FinishReason) -> bytes:
        choice = {"index": index, "delta": {}, **_write_finish(finish)}
        if self._make_choice is _FunctionChoice:
            choice = _with_function(choice)
        return self._before + dump(choice) + self._after


class _ChatChoice:
    """Writes the deltas of one choice."""

    def __init__(
        self, index: int, before: bytes, *, after: bytes, kinds: Mapping[str, ToolKind]
    ) -> None:
        self._kinds = kinds
        self._before = before + f'{{"index":{index},"delta":'.encode()
        self._after = b',"finish_reason":null}' + after
        # The frames around a piece of text, of reasoning, of arguments.
        self._say = self._before + b'{"content":'
        self._think = self._before + b'{"reasoning_content":'
        self._words_end = b"}" + self._after
        self._call_end = b"}}]}" + self._after
        self._calls = 0
        self._places: dict[int, tuple[int, bytes]] = {}
        """The calls that are being shown as they grow: index, and how their pieces begin."""
        # The role comes first, and alone.
        self.opening = self._delta({"role": "assistant", "content": None})

    def say(self, text: str) -> bytes:
        """A piece of the content."""
        return self._say + quote(text) + self._words_end

    def think(self, event: Reasoning) -> bytes:
        """Reasoning as DeepSeek and most others send it; this protocol's details with it."""
        frames = self._think + quote(event.text) + self._words_end if event.text else _NOTHING
        if event.extras:
            fields = (*DETAILS, *_LISTS)
            details = {key: event.extras[key] for key in fields if key in event.extras}
            frames += self._delta(details) if details else _NOTHING
            if DECLINED in event.extras:
                self._say = self._before + b'{"refusal":'
            for sound in event.extras.get(_AUDIO, ()):
                frames += self._delta({_AUDIO: sound})
            for likely in event.extras.get(_LOGPROBS, ()):
                frames += self._before + b'{},"logprobs":' + dump(likely) + self._after
        return frames

    def add_block(self, native: Mapping[str, Any]) -> bytes:
        """A call of a custom tool. The protocol has no place for anything else."""
        return self._entry(self._take_place(), native) if is_for_client(native) else _NOTHING

    def add_call(self, call: Call, arguments: str) -> bytes:
        """One entry with all that there is."""
        entry = write_call(call, arguments, kind=self._kinds.get(call.name))
        return self._entry(self._take_place(), entry)

    def open_call(self, opened: Opened) -> bytes:
        """The first entry of a call: id and name, which are not sent again. Free text comes
        whole."""
        if opened.name in self._kinds:
            return _NOTHING
        place = self._take_place()
        grow = b'{"tool_calls":[{"index":%d,"function":{"arguments":' % place
        self._places[opened.number] = place, self._before + grow
        function = {"name": opened.name, "arguments": ""}
        return self._entry(place, {"id": opened.id, "type": "function", "function": function})

    def grow_call(self, number: int, text: str) -> bytes:
        """A further entry of a call: more of its arguments."""
        place = self._places.get(number)
        return _NOTHING if place is None else place[1] + quote(text) + self._call_end

    def close_call(self, call: Call, arguments: str) -> bytes:
        """The protocol has no word for it. What goes back with the call is known only now."""
        if call.number not in self._places:
            return self.add_call(call, arguments)
        (place, _), extras = self._places.pop(call.number), pick(call.extras, CALL_EXTRAS)
        return self._entry(place, extras) if extras else _NOTHING

    def _take_place(self) -> int:
        self._calls += 1
        return self._calls - 1

    def _entry(self, place: int, fields: Mapping[str, Any]) -> bytes:
        return self._delta({"tool_calls": [{"index": place, **fields}]})

    def _delta(self, fields: Mapping[str, Any]) -> bytes:
        return self._before + dump(fields) + self._after


class _FunctionChoice(_ChatChoice):
    """Writes the one call of a choice for clients that know no `tool_calls`. It has no id."""

    __slots__ = ()

    def __init__(
        self, index: int, before: bytes, *, after: bytes, kinds: Mapping[str, ToolKind]
    ) -> None:
        super().__init__(index, before, after=after, kinds=kinds)
        self._call_end = b"}}" + self._after

    def add_call(self, call: Call, arguments: str) -> bytes:
        """All of it at once."""
        return self._delta({_FUNCTION: {"name": call.name, "arguments": arguments}})

    def open_call(self, opened: Opened) -> bytes:
        """The name, which is not sent again."""
        self._places[opened.number] = 0, self._before + b'{"function_call":{"arguments":'
        return self._delta({_FUNCTION: {"name": opened.name, "arguments": ""}})

    def close_call(self, call: Call, _: str) -> bytes:
        """The protocol has no word for it."""
        self._places.pop(call.number)
        return _NOTHING


# ── Whole answers ───────────────────────────────────────────────────────────────────


def encode_function_answer(whole: GatheredAnswer, head: ResponseHead) -> dict[str, Any]:
    """The body for clients that know no `tool_calls`."""
    body = encode_answer(whole, head)
    return {**body, "choices": [_with_function(choice) for choice in body["choices"]]}


def _with_function(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice whose one call is a `function_call`."""
    told = {**choice}
    if told["finish_reason"] == "tool_calls":
        told["finish_reason"] = _FUNCTION
    message = dict(told.get("message", ()))
    for call in message.pop("tool_calls", ())[:1]:
        message[_FUNCTION] = call["function"]
    return {**told, "message": message} if message else told


def encode_answer(whole: GatheredAnswer, head: ResponseHead) -> dict[str, Any]:
    """The body of a chat completion."""
    fields: dict[str, Any] = {
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [
            _write_choice(index, said, kinds=head.kinds)
            for index, said in sorted(whole.choices.items())
        ],
    }
    if whole.usage is not None:
        fields["usage"] = write_usage(whole.usage)
    return head.complete(fields)


def _write_choice(
    index: int, said: GatheredChoice, *, kinds: Mapping[str, ToolKind]
) -> dict[str, Any]:
    message = _write_message(said.parts, kinds)
    if any(DECLINED in note for note in said.notes):
        message |= {"content": None, DECLINED: message["content"]}
    for name in _LISTS:
        entries = [each for note in said.notes for each in note.get(name, ())]
        message |= {name: entries} if entries else {}
    for sound in (each for note in said.notes for each in note.get(_AUDIO, ())):
        message[_AUDIO] = {**message.get(_AUDIO, {}), **sound}
    likely = [each for note in said.notes for each in note.get(_LOGPROBS, ())]
    logprobs = {_LOGPROBS: _join_logprobs(likely)} if likely else {}
    return {"index": index, "message": message, **logprobs, **_write_finish(said.finish)}


def _join_logprobs(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Each field is a list that grows with the text: `content`, `refusal`."""
    joined: dict[str, Any] = {}
    for piece in pieces:
        for field, entries in piece.items():
            grown = isinstance(entries, list) and isinstance(joined.get(field), list)
            joined[field] = [*joined[field], *entries] if grown else entries or joined.get(field)
    return joined


def _write_message(parts: Iterable[Part], kinds: Mapping[str, ToolKind]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for part in parts:
        match part:
            case Text(text):
                message["content"] = (message["content"] or "") + text
            case Reasoning():
                _add_reasoning(message, part)
            case PastCall():
                call = write_call(part, write_past(part), kind=kinds.get(part.name))
                message.setdefault("tool_calls", []).append(call)
            case Native() if is_for_client(part.value):
                message.setdefault("tool_calls", []).append(part.value)
    return message


def _add_reasoning(message: dict[str, Any], part: Reasoning) -> None:
    if part.text:
        message["reasoning_content"] = message.get("reasoning_content", "") + part.text
    for key in DETAILS:
        if key in part.extras:
            message.setdefault(key, []).extend(part.extras[key])


# ── Both ────────────────────────────────────────────────────────────────────────────


def _write_finish(finish: FinishReason) -> dict[str, Any]:
    native = {} if finish.native is None else {"native_finish_reason": finish.native}
    return {"finish_reason": finish.reason, **native}


def write_usage(usage: Usage) -> dict[str, Any]:
    """`usage` of a chat completion."""
    if {"prompt_tokens", "completion_tokens"} <= usage.native.keys():
        return dict(usage.native)
    figures = read_figures(usage)
    return {
        "prompt_tokens": figures.input,
        "completion_tokens": figures.output,
        "total_tokens": figures.input + figures.output,
        "prompt_tokens_details": {"cached_tokens": figures.cached},
        "completion_tokens_details": {"reasoning_tokens": figures.reasoning},
    }


def encode_error(failure: Failure) -> dict[str, Any]:
    """The body of an error in OpenAI's shape, for chat completions and responses."""
    other = "server_error" if failure.status >= SERVER else "invalid_request_error"
    error = {
        "message": failure.message,
        "type": _ERROR_TYPES.get(failure.status, other),
        "param": failure.param,
        "code": failure.code,
    }
    return {"error": error, **write_request_id(failure)}
