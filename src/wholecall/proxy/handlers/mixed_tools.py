"""Tools of both sides in one conversation, and the messages kept between its requests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any, TypeAlias

import msgspec

from wholecall.agent.run import RunResult
from wholecall.events import Call, Reasoning, Text
from wholecall.messages import CallResult, Media, Message, Native, Part, PastCall, Result, Role
from wholecall.protocols.decoder import plain
from wholecall.storage import BlobStore

_Wire: TypeAlias = Mapping[str, Any]


def write_messages(messages: Iterable[Message]) -> bytes:
    """Messages as JSON. What they were read from is not kept: they are written anew."""
    return msgspec.json.encode(
        [
            {"role": message.role.value, "parts": [_write(part) for part in message.parts]}
            for message in messages
        ]
    )


def read_messages(text: bytes) -> tuple[Message, ...]:
    """Messages as they were before."""
    return tuple(
        Message(Role(wire["role"]), tuple(_read(part) for part in wire["parts"]))
        for wire in msgspec.json.decode(text)
    )


# ── Writing ─────────────────────────────────────────────────────────────────────────


def _write(part: Part) -> dict[str, Any]:
    kind, write = _WRITERS[type(part)]
    return {"kind": kind, **write(part)}


def _write_text(part: Text) -> _Wire:
    return {"text": part.text}


def _write_reasoning(part: Reasoning) -> _Wire:
    return {"text": part.text, "extras": plain(part.extras)}


def _write_media(part: Media) -> _Wire:
    return {
        "of": part.kind,
        "media_type": part.media_type,
        "data": part.data,
        "url": part.url,
        "name": part.name,
    }


def _write_native(part: Native) -> _Wire:
    return {"protocol": part.protocol, "value": plain(part.value)}


def _write_call(part: PastCall) -> _Wire:
    return {
        "id": part.id,
        "name": part.name,
        "arguments": plain(part.arguments),
        "provider_id": part.provider_id,
        "extras": plain(part.extras),
    }


def _write_result(part: CallResult) -> _Wire:
    result = part.result
    return {
        "call_id": part.call_id,
        "name": part.name,
        "failed": result.failed,
        "content": [_write(piece) for piece in result.content],
    }


_WRITERS: dict[type[Part], tuple[str, Callable[[Any], _Wire]]] = {
    Text: ("text", _write_text),
    Reasoning: ("reasoning", _write_reasoning),
    Media: ("media", _write_media),
    Native: ("native", _write_native),
    PastCall: ("call", _write_call),
    CallResult: ("result", _write_result),
}

# ── Reading ─────────────────────────────────────────────────────────────────────────


def _read(wire: _Wire) -> Part:
    return _READERS[wire["kind"]](wire)


def _read_text(wire: _Wire) -> Text:
    return Text(wire["text"])


def _read_reasoning(wire: _Wire) -> Reasoning:
    return Reasoning(wire["text"], wire["extras"])


def _read_media(wire: _Wire) -> Media:
    return Media(
        kind=wire["of"],
        media_type=wire["media_type"],
        data=wire["data"],
        url=wire["url"],
        name=wire["name"],
    )


def _read_native(wire: _Wire) -> Native:
    return Native(wire["protocol"], wire["value"])


def _read_call(wire: _Wire) -> PastCall:
    return PastCall(
        id=wire["id"],
        name=wire["name"],
        arguments=wire["arguments"],
        provider_id=wire["provider_id"],
        extras=wire["extras"],
    )


def _read_result(wire: _Wire) -> CallResult:
    pieces = (_CONTENT[piece["kind"]](piece) for piece in wire["content"])
    result = Result(tuple(pieces), failed=wire["failed"])
    return CallResult(call_id=wire["call_id"], name=wire["name"], result=result)


_CONTENT: dict[str, Callable[[_Wire], Text | Media]] = {"text": _read_text, "media": _read_media}
_READERS: dict[str, Callable[[_Wire], Part]] = {
    **_CONTENT,
    "reasoning": _read_reasoning,
    "native": _read_native,
    "call": _read_call,
    "result": _read_result,
}


# Tools of both sides in one conversation.
#
# In one answer a model may call tools that run here and tools that only the client can run. Ours
# run at once; the client gets only its own calls, and comes back with their results and a history
# in which ours do not occur. Then the history is put together again:
#
#     what the client sends             what the model gets
#     ─────────────────────             ───────────────────
#     user                              user
#                                       assistant  calls of earlier turns    ┐
#                                       tool       their results             │ kept
#     assistant  the client's calls     assistant  all calls of this turn    ┘
#     tool       the client's results   tool       all results, in call order
#     user …                            user …
#
# What is kept is found by the ids of the client's calls, which clients send back as they got them.
# They are made here, random and long: a provider counts its ids (`call_0`) and gives the same ones
# to others. It must also be the same key that asks.
#
# It is kept in a file, because the client may come back after a restart, and because several
# processes may serve one conversation. Results can be large (a quarter of a megabyte each), so they
# cannot travel in the ids themselves.


_PREFIX = "call_wc_"


def make_call_id() -> str:
    """An id by which a call of the client's is recognised when it comes back."""
    return f"{_PREFIX}{secrets.token_hex(16)}"


class MixedTools:
    """Keeps what clients do not see, and puts their histories together again."""

    def __init__(self, shelf: BlobStore) -> None:
        self._shelf = shelf

    async def keep(self, key_id: str, result: RunResult) -> tuple[Call, ...]:
        """Keep the turns of a run; the client's calls under the ids that it gets to see."""
        ids = {call.id: make_call_id() for call in result.pending}
        text = write_messages(_rename(result.messages, ids))
        names = tuple(f"{key_id} {id}" for id in ids.values())
        await asyncio.to_thread(self._shelf.put, names, text)
        return tuple(replace(call, id=ids[call.id]) for call in result.pending)

    async def restore(self, key_id: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the history with the stored turns. Other messages stay as they came.

        Raise `StoreFailed` if that is unknown: without it a tool could run a second time.
        """
        wanted = {id: f"{key_id} {id}" for message in messages for id in _own_ids(message)}
        if not wanted:
            return messages
        kept = await asyncio.to_thread(self._shelf.find, tuple(wanted.values()))
        with self._shelf.decoding():
            turns = {text: read_messages(text) for text in kept.values()}
        found = {id: turns[kept[name]] for id, name in wanted.items() if name in kept}
        return tuple(_splice(messages, found))


def _rename(messages: Iterable[Message], ids: Mapping[str, str]) -> Iterator[Message]:
    for message in messages:
        parts = (_rename_part(part, ids) for part in message.parts)
        yield replace(message, parts=tuple(parts), native=None)


def _rename_part(part: Part, ids: Mapping[str, str]) -> Part:
    if isinstance(part, PastCall) and part.id in ids:
        return replace(part, id=ids[part.id])
    return part


def _own_ids(message: Message) -> list[str]:
    calls = (part for part in message.parts if isinstance(part, PastCall))
    return [call.id for call in calls if call.id.startswith(_PREFIX)]


# ── Putting together ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Said:
    """Consecutive messages of one side."""

    role: Role
    messages: tuple[Message, ...]


def _splice(
    messages: tuple[Message, ...], found: Mapping[str, tuple[Message, ...]]
) -> Iterator[Message]:
    said = [_Said(role, tuple(group)) for role, group in groupby(messages, lambda m: m.role)]
    place = 0
    while place < len(said):
        here = said[place]
        place += 1
        kept = _find_kept(here, found)
        if kept is None:
            yield from here.messages
            continue
        follows = said[place] if place < len(said) else None
        results: tuple[Message, ...] = ()
        if follows is not None and follows.role is Role.TOOL:
            results = follows.messages
            place += 1
        yield from _join(kept, results)


def _find_kept(said: _Said, found: Mapping[str, tuple[Message, ...]]) -> tuple[Message, ...] | None:
    if said.role is not Role.ASSISTANT:
        return None
    ids = (id for message in said.messages for id in _own_ids(message))
    return next((found[id] for id in ids if id in found), None)


def _join(kept: tuple[Message, ...], brought: tuple[Message, ...]) -> Iterator[Message]:
    """Return all stored turns; after the last one, the results of both sides in call order."""
    ours = tuple(takewhile(lambda m: m.role is not Role.ASSISTANT, reversed(kept)))
    turns = kept[: len(kept) - len(ours)]
    yield from turns
    results = {
        part.call_id: part
        for message in (*ours, *brought)
        for part in message.parts
        if isinstance(part, CallResult)
    }
    calls = [part.id for part in turns[-1].parts if isinstance(part, PastCall)]
    in_order = tuple(results[id] for id in calls if id in results)
    if in_order:
        yield Message(Role.TOOL, in_order)
    yield from (message for message in reversed(ours) if message.role is not Role.TOOL)
