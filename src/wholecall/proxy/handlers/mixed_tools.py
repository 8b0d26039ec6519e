"""Tools of both sides in one conversation, and the messages kept between its requests."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any

import msgspec

from wholecall.agent.run import RunResult
from wholecall.events import Call, Reasoning, Text
from wholecall.messages import CallResult, Media, Message, Native, Part, PastCall, Result, Role
from wholecall.protocols.decoder import plain
from wholecall.storage import BlobStore

# The fields of each kind of part that are stored.
_FIELDS: Mapping[type[Part], tuple[str, ...]] = {
    Text: ("text",),
    Reasoning: ("text", "extras"),
    Media: ("kind", "media_type", "data", "url", "name"),
    Native: ("protocol", "value"),
    PastCall: ("id", "name", "arguments", "provider_id", "extras"),
}
_KINDS: Mapping[str, Callable[..., Part]] = {kind.__name__: kind for kind in _FIELDS}


def write_messages(messages: Iterable[Message]) -> bytes:
    """Write messages as JSON. What they were read from is not kept: they are written anew."""
    rows = [(message.role.value, [_write(part) for part in message.parts]) for message in messages]
    return msgspec.json.encode(rows)


def read_messages(text: bytes) -> tuple[Message, ...]:
    """Read what `write_messages` wrote."""
    return tuple(
        Message(Role(role), tuple(_read(*part) for part in parts))
        for role, parts in msgspec.json.decode(text)
    )


def _write(part: Part) -> tuple[str, Any]:
    if isinstance(part, CallResult):
        content = [_write(piece) for piece in part.result.content]
        return "CallResult", (part.call_id, part.name, part.result.failed, content)
    fields = {name: plain(getattr(part, name)) for name in _FIELDS[type(part)]}
    return type(part).__name__, fields


def _read(kind: str, fields: Any) -> Any:
    if kind != "CallResult":
        return _KINDS[kind](**fields)
    call_id, name, failed, pieces = fields
    result = Result(tuple(_read(*piece) for piece in pieces), failed=failed)
    return CallResult(call_id=call_id, name=name, result=result)


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

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def keep(self, key_id: str, result: RunResult) -> tuple[Call, ...]:
        """Keep the turns of a run; the client's calls under the ids that it gets to see."""
        ids = {call.id: make_call_id() for call in result.pending}
        text = write_messages(_rename(result.messages, ids))
        names = tuple(f"{key_id} {id}" for id in ids.values())
        await asyncio.to_thread(self._blobs.put, names, text)
        return tuple(replace(call, id=ids[call.id]) for call in result.pending)

    async def restore(self, key_id: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the history with the stored turns. Other messages stay as they came.

        Raise `StoreFailed` if that is unknown: without it a tool could run a second time.
        """
        wanted = {id: f"{key_id} {id}" for message in messages for id in _own_ids(message)}
        if not wanted:
            return messages
        kept = await asyncio.to_thread(self._blobs.find, tuple(wanted.values()))
        with self._blobs.decoding():
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
