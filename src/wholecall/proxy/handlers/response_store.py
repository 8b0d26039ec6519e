"""Store responses by id, in memory or shared by several processes, with their owners.

A request says with `store`, `background` and `previous_response_id` what is stored and continued.
For a response that is stored here, the earlier conversation, its answer and the new input are
joined for any upstream. Others are left to an upstream that speaks the same protocol.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import msgspec

from wholecall.errors import UnreadableRequest
from wholecall.proxy.config.schema import ResponsesConfig
from wholecall.proxy.http.client_connection import RawHeaders, ResponseBody, ResponseSink
from wholecall.storage import BlobStore, StoreFailed

MOST_HELD = 10_000
"""Responses that are over."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a passed-through body, which may be anything."""
_MEGABYTE = 1024 * 1024
_LOG = logging.getLogger(__name__)


class _Identified(msgspec.Struct):
    id: str = ""


_IDENTIFIED = msgspec.json.Decoder(_Identified)


def read_id(response: bytes) -> str:
    """The id of a response; empty if it has none."""
    try:
        return _IDENTIFIED.decode(response).id
    except UNREADABLE:
        return ""


class ResponseWork(Protocol):
    """The work that makes, or made, a response."""

    @property
    def is_over(self) -> bool:
        """True if it does not change any more."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""

    def show(self) -> bytes:
        """The response as it is now, as JSON."""


@dataclass(frozen=True, slots=True)
class FinishedResponse:
    """A response as its client got it."""

    response: bytes
    is_over: bool = True
    """False if it was read from a journal before its end."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.response)

    def show(self) -> bytes:
        """The response as JSON."""
        return self.response


@dataclass(slots=True, kw_only=True)
class StoredResponse:
    """A response, whose it is, and what it answers."""

    id: str
    key_id: str
    items: bytes
    """All items of the conversation before it, as a JSON array."""
    work: ResponseWork
    is_background: bool = False
    """True if it has a stream that can be resumed."""
    weight: int = field(default=0, init=False)
    """Bytes that are counted for it."""
    settled_at: float = field(default=0.0, init=False)

    @property
    def is_conversation(self) -> bool:
        """True if it is a conversation that responses are added to (see `ConversationItem`)."""
        return self.id.startswith(CONVERSATION_PREFIX)


# Whose the responses are that an upstream holds in its own account.
#
# All keys of the proxy share that account, and an id alone does not say whose it is. So it is kept
# which key was given which id, and to any other key the id does not exist. Without keys there is
# but one client, and nothing is kept.


class ResponseOwners:
    """Remembers ids in a file, which several processes share."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    async def bind(self, key_id: str, response: bytes) -> None:
        """Record that this key owns this response. One without an id cannot be retrieved."""
        id = read_id(response)
        if not key_id or not id:
            return
        try:
            await asyncio.to_thread(self._blobs.put, (_name(id),), key_id.encode())
        except StoreFailed as error:  # the answer is good: it only cannot be continued there
            _LOG.warning("the owner of a response cannot be saved: %s", error.why)

    async def is_of(self, key_id: str, id: str) -> bool:
        """Return True if this key may continue from the response of this id; raise `StoreFailed` if
        unknown."""
        if not key_id:
            return True
        found = await asyncio.to_thread(self._blobs.find, (_name(id),))
        return found.get(_name(id)) == key_id.encode()


def _name(id: str) -> str:
    return f"response {id}"


async def _find_nothing(_: str) -> None:
    """Return None: nothing is made in the background."""


# ── The store ───────────────────────────────────────────────────────────────────────


class _Kept(msgspec.Struct):
    key_id: str
    items: bytes
    response: bytes


_KEPT = msgspec.msgpack.Decoder(_Kept)
Edit: TypeAlias = Callable[[StoredResponse], StoredResponse]
"""Makes what is to be stored of what is."""


class ResponseStore:
    """Responses in memory, and in a file if several processes serve the same clients.

    The next request may reach another process than the one that made the response. So a response
    that a client names is read from the file before it is looked up in memory, and a finished one
    is written there before its client knows its end. One that is being made cannot be shared.
    """

    def __init__(
        self,
        settings: ResponsesConfig | None = None,
        *,
        blobs: BlobStore | None = None,
        owners: ResponseOwners | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`blobs`: the file that several processes share."""
        self.settings = settings or ResponsesConfig()
        self.load_background: Callable[[str], Awaitable[StoredResponse | None]] = _find_nothing
        """Finds a response that was made in the background, by any process."""
        self._blobs = blobs
        self.owners = owners or ResponseOwners(BlobStore())
        """The keys that own the responses that upstreams hold."""
        self._clock = clock
        self._live: dict[str, StoredResponse] = {}
        """Responses that are being made, as they were when a client named them last."""
        self._over: OrderedDict[str, StoredResponse] = OrderedDict()
        self._bytes = 0

    @property
    def enabled(self) -> bool:
        """True if anything is stored at all."""
        return self.settings.kept_seconds > 0

    def find(self, key_id: str, id: str) -> StoredResponse | None:
        """The response of this id, if it is this key's."""
        held = self._look_up(id)
        return held if held is not None and held.key_id == key_id else None

    def holds(self, id: str) -> bool:
        """Return True if it is stored for any key."""
        return self._look_up(id) is not None

    def is_of_another(self, key_id: str, id: str) -> bool:
        """Return True if it is stored for another key."""
        held = self._look_up(id)
        return held is not None and held.key_id != key_id

    def put(self, held: StoredResponse) -> None:
        """Store a response. An id that another key's response has stays with it."""
        if not self.enabled or self.is_of_another(held.key_id, held.id):
            return
        if held.work.is_over:
            self._settle(held)
        else:
            self._live[held.id] = held

    def keep(self, response: bytes, *, key_id: str, items: bytes) -> None:
        """Store a response that its client got whole; one without an id cannot be retrieved."""
        id = read_id(response)
        if id:
            self.put(
                StoredResponse(id=id, key_id=key_id, items=items, work=FinishedResponse(response))
            )

    def forget(self, id: str) -> None:
        """A response that is over is held no more."""
        held = self._over.get(id)
        if held is not None:
            self.drop(held)

    def drop(self, held: StoredResponse) -> None:
        """Forget a response."""
        self._live.pop(held.id, None)
        before = self._over.pop(held.id, None)
        if before is not None:
            self._bytes -= before.weight

    # ── Every process ───────────────────────────────────────────────────────────────

    async def fetch(self, id: str) -> None:
        """Hold the response of this id as the file has it: another process may have dropped it.

        `StoreFailed` if the file fails, and this process does not hold it either.
        """
        found = await self.load_background(id) if id else None
        if found is not None:
            self.put(found)
            return
        blobs = self._open_blobs()
        if blobs is None or not id:
            return
        try:
            text = (await asyncio.to_thread(blobs.find, (id,))).get(id)
            if text is None:
                self.forget(id)
                return
            with blobs.decoding():
                kept = _KEPT.decode(text)
        except StoreFailed as error:
            if not self.holds(id):
                raise
            _LOG.warning("the file of responses cannot be read: %s", error.why)
            return
        work = FinishedResponse(kept.response)
        self.put(StoredResponse(id=id, key_id=kept.key_id, items=kept.items, work=work))

    async def share(self, response: bytes, *, key_id: str, items: bytes) -> None:
        """Store a response that its client got whole, for every process."""
        self.keep(response, key_id=key_id, items=items)
        blobs, id = self._open_blobs(), read_id(response)
        if blobs is None or self.find(key_id, id) is None:
            return
        text = msgspec.msgpack.encode(_Kept(key_id, items, response))
        try:
            await asyncio.to_thread(blobs.put, (id,), text)
        except StoreFailed as error:  # the answer itself is good
            _LOG.warning("the file of responses cannot be written: %s", error.why)

    async def edit(self, key_id: str, id: str, *, change: Edit) -> StoredResponse | None:
        """Replace what is stored under an id in one step, for every process, and return it; None if
        this key has nothing under this id. `StoreFailed`: it stays as it was."""
        blobs = self._open_blobs()
        if blobs is None:
            found = self.find(key_id, id)
            edited = None if found is None else change(found)
        else:
            edited = await asyncio.to_thread(_edit_kept, blobs, (key_id, id), change=change)
        if edited is not None:
            self.put(edited)
        return edited

    async def withdraw(self, held: StoredResponse) -> None:
        """Forget a response, in every process; `StoreFailed`: the others still hold it."""
        blobs = self._open_blobs()
        if blobs is not None:
            await asyncio.to_thread(blobs.drop, (held.id,))
        self.drop(held)

    def close(self) -> None:
        """Close the file."""
        if self._blobs is not None:
            self._blobs.close()

    def _open_blobs(self) -> BlobStore | None:
        """Return the file, with the current limits."""
        if self._blobs is not None:
            self._blobs.seconds = self.settings.kept_seconds
            self._blobs.most_bytes = self.settings.megabytes * _MEGABYTE
        return self._blobs

    # ── This process ────────────────────────────────────────────────────────────────

    def _settle(self, held: StoredResponse) -> None:
        self.drop(held)
        held.weight = held.work.size + len(held.items)
        held.settled_at = self._clock()
        self._over[held.id] = held
        self._bytes += held.weight
        self._make_room()

    def _look_up(self, id: str) -> StoredResponse | None:
        self._make_room()
        return self._live.get(id) or self._over.get(id)

    def _make_room(self) -> None:
        most, seconds = self.settings.megabytes * _MEGABYTE, self.settings.kept_seconds
        oldest = self._clock() - seconds
        while self._over:
            first = next(iter(self._over.values()))
            fits = self._bytes <= most and len(self._over) <= MOST_HELD
            if fits and first.settled_at > oldest:
                return
            self.drop(first)


def _edit_kept(blobs: BlobStore, own: tuple[str, str], *, change: Edit) -> StoredResponse | None:
    key_id, id = own
    edited: StoredResponse | None = None

    def rewrite(text: bytes) -> bytes | None:
        nonlocal edited
        with blobs.decoding():
            kept = _KEPT.decode(text)
        if kept.key_id != key_id:
            return None
        work = FinishedResponse(kept.response)
        edited = change(StoredResponse(id=id, key_id=key_id, items=kept.items, work=work))
        return msgspec.msgpack.encode(_Kept(key_id, edited.items, edited.work.show()))

    blobs.edit(id, rewrite)
    return edited


# A sink that remembers how the answer that passed through it ended.


_OK = 200
_DATA = b"data:"
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_GOOD_ENDS = (b"response.completed", b"response.incomplete")


class _Event(msgspec.Struct):
    type: str = ""
    response: msgspec.Raw = msgspec.Raw(b"")


_EVENT = msgspec.json.Decoder(_Event)


def find_response(frames: bytes) -> bytes | None:
    """The response that the last events of a stream tell whole; None if it has no such end."""
    for line in reversed(frames.splitlines()):
        if line.startswith(_DATA):
            event = _read_event(line[len(_DATA) :])
            if event is not None and event.type in _ENDS:
                return bytes(event.response)
    return None


def find_end(event: bytes) -> bytes | None:
    """Return the response, if this event says that it ended well."""
    return find_response(_DATA + event) if any(end in event for end in _GOOD_ENDS) else None


def _read_event(text: bytes) -> _Event | None:
    try:
        return _EVENT.decode(text)
    except UNREADABLE:
        return None


class CaptureSink:
    """Passes an answer on. A response that ended well is kept before its client knows its end."""

    def __init__(self, sink: ResponseSink, keep: Callable[[bytes], Awaitable[None]]) -> None:
        self._sink = sink
        self._keep = keep
        self._end = b""

    @property
    def beat(self) -> Callable[[], bytes]:
        """Makes a sign of life."""
        return self._sink.beat

    @beat.setter
    def beat(self, beat: Callable[[], bytes]) -> None:
        self._sink.beat = beat

    @property
    def gone(self) -> bool:
        """True if the client disconnected."""
        return self._sink.gone

    @property
    def begun(self) -> bool:
        """True if a part of the answer was sent."""
        return self._sink.begun

    def add_headers(self, headers: RawHeaders) -> None:
        """More headers."""
        self._sink.add_headers(headers)

    def put(self, frames: bytes) -> None:
        """Add to the stream."""
        # A model may say these words, too; what they were is found out at the end.
        if any(end in frames for end in _GOOD_ENDS):
            self._end = frames
        self._sink.put(frames)

    async def flush(self) -> None:
        """Send what was added."""
        await self._sink.flush()

    def wake(self) -> None:
        """Send soon what was added."""
        self._sink.wake()

    async def close(self) -> None:
        """The stream is over."""
        response = find_response(self._end)
        if response:
            await self._keep(response)
        await self._sink.close()

    async def send_body(self, body: ResponseBody) -> None:
        """Answer in one piece."""
        if body.status == _OK:
            await self._keep(body.content)
        await self._sink.send_body(body)


# ── Parameters of a request about storing ──────────────────────────────────────────────

Fields: TypeAlias = dict[str, msgspec.Raw]
PREVIOUS = "previous_response_id"
NOT_HELD = (
    "no response of this id is held here: it is another key's, was sent with `store: false`, or "
    "is older than responses.kept_seconds; send the whole conversation instead"
)
NOT_FOUND = "previous_response_not_found"
CONVERSATION = "conversation"
CONVERSATION_PREFIX = "conv_"
"""How the id of a conversation begins, and of nothing else that is stored."""
NO_CONVERSATION = (
    "no conversation of this id is held here: it is another key's, was deleted, or has rested "
    "longer than responses.kept_seconds"
)
CONVERSATION_NOT_FOUND = "conversation_not_found"
_TRUE, _FALSE = b"true", b"false"
_GOOD = frozenset({"completed", "incomplete"})
# How the id of an item begins, by its type.
_ID_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}


class _Answer(msgspec.Struct):
    status: str = ""
    output: list[msgspec.Raw] = []


_ANSWER = msgspec.json.Decoder(_Answer)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_INPUT = msgspec.json.Decoder(str | list[msgspec.Raw] | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseParams:
    """The way in which a response is stored."""

    items: bytes
    """The items of the whole conversation that it answers, as a JSON array."""
    background: bool = False
    """True if it is made in the background."""
    streamed: bool = False
    """True if the client wants a stream. In the background it always is one for us."""
    echo: Mapping[str, Any]
    """The parameters that the response repeats."""
    stored: bool = True
    """True if it can be retrieved."""
    conversation: str = ""
    """The id of the conversation that the new input and the answer are added to."""
    added: Sequence[Any] = ()
    """The new input."""


def read_params(
    store: ResponseStore, fields: Fields, *, key_id: str
) -> tuple[ResponseParams | None, Fields]:
    """Return what a request says about its response, and the request without it; None: nothing is
    held of it."""
    background, stored = _says(fields, "background"), is_stored(fields)
    if background:
        _check_background(store, stored=stored)
    added = read_items(fields)
    conversation = _find_conversation(store, fields, key_id=key_id)
    previous = read_previous(fields)
    before = _find(store, previous, key_id=key_id) if previous else None
    if before is not None:
        fields = continue_from(fields, before)
    if conversation is not None:
        fields = _continue_conversation(fields, conversation, background=background)
    elif not (stored and store.enabled):
        return None, fields
    params = ResponseParams(
        items=msgspec.json.encode(read_items(fields)),
        background=background,
        streamed=_says(fields, "stream"),
        echo={"background": True} if background else {},
        stored=stored,
        conversation="" if conversation is None else conversation.id,
        added=added,
    )
    return params, _for_background(fields) if background else fields


def _check_background(store: ResponseStore, *, stored: bool) -> None:
    if not stored:
        why = "what is made in the background has to be stored: leave `store` out"
        raise UnreadableRequest(why, param="store")
    if not store.enabled:
        why = "nothing is made in the background here: the operator can set responses.kept_seconds"
        raise UnreadableRequest(why, param="background")


def _for_background(fields: Fields) -> Fields:
    """The upstream answers at once and as a stream: it is we who work in the background."""
    others = {name: value for name, value in fields.items() if name != "background"}
    return {**others, "stream": msgspec.Raw(_TRUE)}


# ── Going on ────────────────────────────────────────────────────────────────────────


def _find(store: ResponseStore, id: str, *, key_id: str) -> StoredResponse | None:
    held = store.find(key_id, id)
    if held is None and store.is_of_another(key_id, id):
        raise refuse_previous(NOT_HELD)
    return held


def refuse_previous(why: str) -> UnreadableRequest:
    """The request cannot go on from the response that it names."""
    return UnreadableRequest(why, param=PREVIOUS, code=NOT_FOUND)


def continue_from(fields: Fields, before: StoredResponse) -> Fields:
    """The request with the whole conversation in it. Instructions are not carried over."""
    if not before.work.is_over:
        raise refuse_previous("the response of this id is not over yet")
    answer = _read_answer(before.work.show())
    if answer.status not in _GOOD:
        status = answer.status or "not to be read"
        raise refuse_previous(f"the response of this id is {status}: it has no answer")
    items = [*_ITEMS.decode(before.items), *answer.output, *read_items(fields)]
    others = {name: value for name, value in fields.items() if name != PREVIOUS}
    return {**others, "input": msgspec.Raw(msgspec.json.encode(items))}


# ── Items that only name what they say ──────────────────────────────────────────────
#
# A client may send the id of an item instead of the item (`item_reference`), as the AI SDK does
# with all items of responses that are stored. The ids of items that were made here hold the id of
# their response. And a conversation that was compacted here comes back with its summary in the
# field that clients do not look into. Both are replaced by what they stand for, which any upstream
# can be given. What was made elsewhere is left to an upstream that knows it.

REFERENCE = "item_reference"
COMPACTION = "compaction"
_STANDING_FOR_OTHERS = tuple(f'"{kind}"'.encode() for kind in (REFERENCE, COMPACTION))
_SUMMARY = "wholecall-summary:"
"""How the content of a compaction begins that was made here."""


class _Stub(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    encrypted_content: str | None = None


_STUB = msgspec.json.Decoder(_Stub)


def write_compaction(id: str, summary: str) -> dict[str, Any]:
    """Return the item that replaces a conversation from now on."""
    content = _SUMMARY + base64.b64encode(summary.encode()).decode()
    return {"id": id, "type": COMPACTION, "encrypted_content": content}


def _read_compaction(stub: _Stub) -> Any:
    """Return the message of the model that an item holds; None if it was not made here."""
    content = stub.encrypted_content or ""
    if not content.startswith(_SUMMARY):
        return None
    try:
        summary = base64.b64decode(content.removeprefix(_SUMMARY), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        why = "the content of this compaction was changed after it was made here"
        raise UnreadableRequest(why, param="input") from None
    return {"type": "message", "role": "assistant", "content": summary}


async def _find_item(store: ResponseStore, id: str, *, key_id: str) -> Any:
    """Return an item of a stored response; None if no response here has an item of this id."""
    response_id = f"resp_{id.rpartition('_')[0].rpartition('_')[2]}"
    await store.fetch(response_id)
    held = store.find(key_id, response_id)
    output = () if held is None else _read_answer(held.work.show()).output
    return next((item for item in output if read_id(bytes(item)) == id), None)


async def restore_items(store: ResponseStore, fields: Fields, *, key_id: str) -> Fields:
    """Return the request with the items that are stored here in the places of their stubs."""
    given = bytes(fields.get("input", b""))
    if not any(mark in given for mark in _STANDING_FOR_OTHERS):
        return fields
    items = read_items(fields)
    restored = [await _restore(store, item, key_id=key_id) for item in items]
    if all(now is before for now, before in zip(restored, items, strict=True)):
        return fields
    return {**fields, "input": msgspec.Raw(msgspec.json.encode(restored))}


async def _restore(store: ResponseStore, item: Any, *, key_id: str) -> Any:
    try:
        stub = _STUB.decode(item)
    except UNREADABLE:  # an item of another form is checked when it is decoded
        return item
    found = None
    if stub.type == REFERENCE:
        found = await _find_item(store, stub.id or "", key_id=key_id)
    elif stub.type == COMPACTION:
        found = _read_compaction(stub)
    return item if found is None else found


# ── Conversations ───────────────────────────────────────────────────────────────────
#
# A conversation is stored as a response is, with an object of its own and with items that have ids.
# The ids are beside the items: an upstream would look for those that it does not know.


class ConversationItem(msgspec.Struct, frozen=True, array_like=True):
    """An item of a conversation, and the id under which clients find it."""

    id: str
    value: Any


_CONVERSATION_ITEMS = msgspec.json.Decoder(list[ConversationItem])


def read_conversation(held: StoredResponse) -> list[ConversationItem]:
    """Return the items of a conversation."""
    return _CONVERSATION_ITEMS.decode(held.items)


def add_items(held: StoredResponse, items: Iterable[ConversationItem]) -> StoredResponse:
    """Return the conversation with more items. One whose id is taken replaces the earlier one."""
    joined = {item.id: item for item in (*read_conversation(held), *items)}
    return replace_items(held, joined.values())


def replace_items(held: StoredResponse, items: Iterable[ConversationItem]) -> StoredResponse:
    """Return the conversation with these items instead of its own."""
    return replace(held, items=msgspec.json.encode(list(items)))


def number_item(item: Any, own: str) -> ConversationItem:
    """Give an item the id that it has, or one that is made of `own`."""
    given = item if isinstance(item, Mapping) else {}
    kind = str(given.get("type") or "message")
    id = given.get("id") or f"{_ID_PREFIXES.get(kind, 'item')}_{own}"
    return ConversationItem(str(id), item)


def number_items(items: Iterable[Any]) -> list[ConversationItem]:
    """Give items the ids that they have, or new ones."""
    return [number_item(item, uuid.uuid4().hex) for item in items]


async def add_turn(
    store: ResponseStore, response: bytes, *, key_id: str, params: ResponseParams
) -> None:
    """Add a response that ended well, and what it answers, to its conversation."""
    added = [msgspec.json.decode(msgspec.json.encode(item)) for item in params.added]
    said = [msgspec.json.decode(item) for item in _read_answer(response).output]
    items = number_items([*added, *said])
    try:
        await store.edit(key_id, params.conversation, change=lambda held: add_items(held, items))
    except StoreFailed as error:  # the answer itself is good
        _LOG.warning("a conversation cannot be continued: %s", error.why)


def read_conversation_id(fields: Fields) -> str:
    """Return the id of the conversation that a request names; empty without one."""
    if CONVERSATION not in fields:
        return ""
    try:
        given = msgspec.json.decode(fields[CONVERSATION], type=str | _Identified | None)
    except msgspec.DecodeError:
        raise UnreadableRequest("it is not the id of one", param=CONVERSATION) from None
    return given.id if isinstance(given, _Identified) else given or ""


def _find_conversation(
    store: ResponseStore, fields: Fields, *, key_id: str
) -> StoredResponse | None:
    id = read_conversation_id(fields)
    if id and _says_anything(fields, PREVIOUS):
        why = f"`{PREVIOUS}` and `{CONVERSATION}` exclude each other"
        raise UnreadableRequest(why, param=CONVERSATION)
    if not id.startswith(CONVERSATION_PREFIX):
        return None
    if store.is_of_another(key_id, id):
        raise UnreadableRequest(NO_CONVERSATION, param=CONVERSATION, code=CONVERSATION_NOT_FOUND)
    return store.find(key_id, id)


def _continue_conversation(
    fields: Fields, conversation: StoredResponse, *, background: bool
) -> Fields:
    """The request with the items of the conversation before its own."""
    if background:
        why = f"what is made in the background is added to no conversation: use `{PREVIOUS}`"
        raise UnreadableRequest(why, param=CONVERSATION)
    before = [item.value for item in read_conversation(conversation)]
    others = {name: value for name, value in fields.items() if name != CONVERSATION}
    joined = msgspec.json.encode([*before, *read_items(fields)])
    return {**others, "input": msgspec.Raw(joined)}


def _says_anything(fields: Fields, name: str) -> bool:
    return name in fields and bytes(fields[name]) != b"null"


def _read_answer(response: bytes) -> _Answer:
    """Read the answer; return an empty one if a passed-through response has another form."""
    try:
        return _ANSWER.decode(response)
    except UNREADABLE:
        return _Answer()


def read_items(fields: Fields) -> list[Any]:
    """Return the items of the input. The decoder refuses other forms."""
    try:
        given = _INPUT.decode(fields["input"]) if "input" in fields else None
    except msgspec.DecodeError:
        return []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}] if given else []
    return given or []


def read_previous(fields: Fields) -> str:
    """Return the id of the previous response; empty without one."""
    try:
        return msgspec.json.decode(fields[PREVIOUS], type=str) if PREVIOUS in fields else ""
    except msgspec.DecodeError:
        return ""


def _says(fields: Fields, name: str) -> bool:
    return name in fields and bytes(fields[name]) == _TRUE


def is_stored(fields: Fields) -> bool:
    """Return True if a response may be stored."""
    return "store" not in fields or bytes(fields["store"]) != _FALSE
