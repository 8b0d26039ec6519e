"""Stored responses, conversations, and the compaction of a conversation."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.datastructures import QueryParams
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from wholecall.errors import UnreadableRequest, WholecallError
from wholecall.protocols.registry import decode_request, encode_failure
from wholecall.protocols.response_base import Failure, dump
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.handlers.passthrough import read_below
from wholecall.proxy.handlers.request_plan import read_fields, read_name
from wholecall.proxy.handlers.response_store import (
    CONVERSATION_NOT_FOUND,
    CONVERSATION_PREFIX,
    NO_CONVERSATION,
    UNREADABLE,
    ConversationItem,
    FinishedResponse,
    ResponseStore,
    StoredResponse,
    add_items,
    number_item,
    number_items,
    read_conversation,
    read_items,
    replace_items,
    write_compaction,
)
from wholecall.proxy.http.client_connection import (
    ClientConnections,
    ClientSink,
    ResponseBody,
    read_body,
)
from wholecall.proxy.http.client_request import (
    CALLER,
    TOOLS_HEADER,
    Caller,
    ClientRequest,
    wants_stream,
)
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.observe.taps import Fate
from wholecall.proxy.routes.client_route import RESPONSES_CLIENT, ClientRoute, describe_forwarded

USUAL_LIMIT = 20
MOST_LIMIT = 100
"""Items on one page."""
_LONGEST = len(str(MOST_LIMIT))
_ORDERS = ("asc", "desc")
_NEWEST_FIRST = "desc"
_MESSAGE = "message"


def list_items(held: StoredResponse, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page: `limit` items after the item `after`, the newest first unless `order` is
    `asc`."""
    limit, order = _read_limit(query), _read_order(query)
    items = _read_listed(held)
    if order == _NEWEST_FIRST:
        items.reverse()
    begin = _find_begin(items, query.get("after"))
    return _write_page(items[begin : begin + limit], has_more=begin + limit < len(items))


def _write_page(page: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": has_more,
    }


def _read_listed(held: StoredResponse) -> list[dict[str, Any]]:
    """Return the items in full. Those of a response have ids by their places."""
    if held.is_conversation:
        return [_complete(item) for item in read_conversation(held)]
    own = held.id.removeprefix("resp_")
    said = enumerate(msgspec.json.decode(held.items))
    return [_complete(number_item(item, f"{own}_{number}")) for number, item in said]


def _complete(numbered: ConversationItem) -> dict[str, Any]:
    """Return an item in full. Its type was checked with the request."""
    item = numbered.value
    given = item if isinstance(item, Mapping) else {"role": "user", "content": item}
    kind = str(given.get("type") or _MESSAGE)
    whole = {"status": "completed", **given, "id": numbered.id, "type": kind}
    content = given.get("content")
    if kind == _MESSAGE and isinstance(content, str):
        whole["content"] = [_write_text(content, str(given.get("role")))]
    return whole


def _write_text(text: str, role: str) -> dict[str, Any]:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _find_begin(items: list[dict[str, Any]], after: str | None) -> int:
    if not after:
        return 0
    for number, item in enumerate(items):
        if item["id"] == after:
            return number + 1
    raise _refuse("after: there is no item of this id here")


def _read_limit(query: Mapping[str, str]) -> int:
    given = query.get("limit", str(USUAL_LIMIT))
    if not given.isdecimal() or len(given) > _LONGEST or not 1 <= int(given) <= MOST_LIMIT:
        raise _refuse(f"limit: it is no whole number from 1 to {MOST_LIMIT}")
    return int(given)


def _read_order(query: Mapping[str, str]) -> str:
    given = query.get("order", _NEWEST_FIRST)
    if given not in _ORDERS:
        raise _refuse(f"order: it is neither {' nor '.join(_ORDERS)}")
    return given


def _refuse(why: str) -> RequestRefused:
    return RequestRefused(400, why, code="invalid_value")


# Stored responses: retrieve, stream, cancel, list input items, delete.
#
#     GET    /v1/responses/{id}                               the response
#     GET    /v1/responses/{id}?stream=true&starting_after=7  the stream after its event 7
#     POST   /v1/responses/{id}/cancel                        ends work in the background
#     GET    /v1/responses/{id}/input_items                   its input, page by page
#     DELETE /v1/responses/{id}                               deletes it
#
# Only responses that are stored here are found (see `responses/response_store`), and each only by
# its own key. An upstream's own responses are not retrieved: an id does not say whose it is.


_OK = 200
_Answer = Callable[[StoredResponse, QueryParams, ClientSink], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ResponseRoute:
    """Answers requests for one response. A plain ASGI application."""

    responses: ResponseStore
    connections: ClientConnections
    answer: _Answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        caller: Caller = scope[CALLER]
        id = scope["path_params"]["id"]
        await self.responses.fetch(id)
        held = self.responses.find(caller.key.id, id)
        if held is None or held.is_conversation:
            raise RequestRefused(404, _NOT_FOUND, code="response_not_found")
        request = ClientRequest.read(RESPONSES_CLIENT, scope, body=b"")
        with self.connections.open(send) as sink:
            sink.beat_seconds = request.shorten(sink.beat_seconds)
            with self.connections.watch(receive, sink):
                await self.answer(held, QueryParams(scope["query_string"]), sink)


def make_response_routes(
    responses: ResponseStore, connections: ClientConnections, *, background: BackgroundResponses
) -> list[Route]:
    """The routes below that of responses."""

    async def show(held: StoredResponse, query: QueryParams, sink: ClientSink) -> None:  # noqa: PLR0917 - one form for all
        if not wants_stream(query):
            await sink.send_body(ResponseBody(_OK, held.work.show()))
            return
        if not held.is_background:
            raise RequestRefused(400, _NO_STREAM, code="invalid_value")
        after = _read_start(query)
        sink.start_beating()
        await background.copy(held.id, sink, after=after)

    async def cancel(held: StoredResponse, _: QueryParams, sink: ClientSink) -> None:
        if not held.is_background:
            raise RequestRefused(400, _NOT_CANCELLABLE, code="invalid_value")
        await background.cancel(held.id)
        await sink.send_body(ResponseBody(_OK, await background.show(held.id)))

    async def delete(held: StoredResponse, _: QueryParams, sink: ClientSink) -> None:
        if held.is_background:
            await background.delete(held.id)
        await responses.withdraw(held)
        told = {"id": held.id, "object": "response", "deleted": True}
        await sink.send_body(ResponseBody(_OK, msgspec.json.encode(told)))

    one = f"{RESPONSES_CLIENT.path}/{{id}}"
    answers = [
        (one, show, "GET"),
        (one, delete, "DELETE"),
        (f"{one}/input_items", _list_items, "GET"),
        (f"{one}/cancel", cancel, "POST"),
    ]
    return [
        Route(path, ResponseRoute(responses, connections, answer), methods=[method])
        for path, answer, method in answers
    ]


def _read_start(query: QueryParams) -> int:
    """The number of the last event that the client has seen; -1: none."""
    given = query.get("starting_after", "-1")
    if not given.removeprefix("-").isdecimal() or len(given) > _LONGEST_NUMBER:
        raise RequestRefused(400, "starting_after is no whole number", code="invalid_value")
    return int(given)


async def _list_items(held: StoredResponse, query: QueryParams, sink: ClientSink) -> None:  # noqa: PLR0917 - one form for all
    await sink.send_body(ResponseBody(_OK, dump(list_items(held, query))))


_LONGEST_NUMBER = 18
_NOT_FOUND = (
    "no response of this id is held here: it is not yours, was sent with `store: false`, or is "
    "older than responses.kept_seconds"
)
_NO_STREAM = "stream: only a response that was made with `background: true` has a stream to resume"
_NOT_CANCELLABLE = "only a response that was made with `background: true` can be cancelled"


# ── Conversations ───────────────────────────────────────────────────────────────────
#
#     POST   /v1/conversations                    a new one, with `items` and `metadata`
#     GET    /v1/conversations/{id}               the conversation, without its items
#     POST   /v1/conversations/{id}               other `metadata`
#     DELETE /v1/conversations/{id}               deletes it, with its items
#     GET    /v1/conversations/{id}/items         its items, page by page
#     POST   /v1/conversations/{id}/items         more `items`
#     GET    /v1/conversations/{id}/items/{item}  one item
#     DELETE /v1/conversations/{id}/items/{item}  deletes it
#
# They are held as responses are, each for its own key. `conversation` in a request for a response
# has the items put before its input, and its input and answer added to them.

CONVERSATIONS = "/v1/conversations"
MOST_ADDED = 20
"""Items that are added at once."""
_NO_ITEM = "this conversation has no item of this id"
_NOT_KEPT = "no conversations are held here: the operator can set responses.kept_seconds"

_Metadata = Annotated[
    dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]],
    Meta(max_length=16),
]


class _ConversationBody(msgspec.Struct):
    """The fields of a request for a conversation, or for its items."""

    items: Annotated[list[Any], Meta(max_length=MOST_ADDED)] | None = None
    metadata: _Metadata | None = None


_BODY = msgspec.json.Decoder(_ConversationBody)


@dataclass(frozen=True, slots=True)
class ConversationRoute:
    """Answers one kind of request for a conversation. A plain ASGI application."""

    responses: ResponseStore
    connections: ClientConnections
    answer: Callable[[ConversationRoute, Scope, _ConversationBody], Awaitable[dict[str, Any]]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        with self.connections.open(send) as sink:
            body = _read_body(await read_body(receive))
            if not self.responses.enabled:
                raise RequestRefused(404, _NOT_KEPT, code=CONVERSATION_NOT_FOUND)
            told = await self.answer(self, scope, body)
            await sink.send_body(ResponseBody(_OK, dump(told)))

    async def create(self, scope: Scope, body: _ConversationBody) -> dict[str, Any]:
        """Begin a conversation."""
        told = {
            "id": f"{CONVERSATION_PREFIX}{uuid.uuid4().hex}",
            "object": "conversation",
            "created_at": int(time.time()),
            "metadata": body.metadata or {},
        }
        items = msgspec.json.encode(number_items(body.items or ()))
        await self.responses.share(dump(told), key_id=scope[CALLER].key.id, items=items)
        return told

    async def show(self, scope: Scope, _: _ConversationBody) -> dict[str, Any]:
        """Return a conversation without its items."""
        return _show(await self._find(scope))

    async def update(self, scope: Scope, body: _ConversationBody) -> dict[str, Any]:
        """Replace the metadata."""
        metadata = body.metadata or {}

        def change(held: StoredResponse) -> StoredResponse:
            return replace(held, work=FinishedResponse(dump({**_show(held), "metadata": metadata})))

        return _show(await self._edit(scope, change))

    async def delete(self, scope: Scope, _: _ConversationBody) -> dict[str, Any]:
        """Forget a conversation and its items."""
        held = await self._find(scope)
        await self.responses.withdraw(held)
        return {"id": held.id, "object": "conversation.deleted", "deleted": True}

    async def list_items(self, scope: Scope, _: _ConversationBody) -> dict[str, Any]:
        """Return a page of items."""
        return list_items(await self._find(scope), QueryParams(scope["query_string"]))

    async def add(self, scope: Scope, body: _ConversationBody) -> dict[str, Any]:
        """Add items, and return them."""
        items = number_items(body.items or ())
        await self._edit(scope, lambda held: add_items(held, items))
        return _write_page([_complete(item) for item in items], has_more=False)

    async def show_item(self, scope: Scope, _: _ConversationBody) -> dict[str, Any]:
        """Return one item."""
        held, id = await self._find(scope), scope["path_params"]["item"]
        for item in read_conversation(held):
            if item.id == id:
                return _complete(item)
        raise RequestRefused(404, _NO_ITEM, code="item_not_found")

    async def delete_item(self, scope: Scope, body: _ConversationBody) -> dict[str, Any]:
        """Forget one item, and return the conversation."""
        await self.show_item(scope, body)
        id = scope["path_params"]["item"]

        def change(held: StoredResponse) -> StoredResponse:
            kept = (item for item in read_conversation(held) if item.id != id)
            return replace_items(held, kept)

        return _show(await self._edit(scope, change))

    async def _find(self, scope: Scope) -> StoredResponse:
        caller: Caller = scope[CALLER]
        id = scope["path_params"]["id"]
        await self.responses.fetch(id)
        held = self.responses.find(caller.key.id, id)
        if held is None or not held.is_conversation:
            raise RequestRefused(404, NO_CONVERSATION, code=CONVERSATION_NOT_FOUND)
        return held

    async def _edit(
        self, scope: Scope, change: Callable[[StoredResponse], StoredResponse]
    ) -> StoredResponse:
        held = await self._find(scope)
        edited = await self.responses.edit(held.key_id, held.id, change=change)
        if edited is None:  # it was deleted meanwhile
            raise RequestRefused(404, NO_CONVERSATION, code=CONVERSATION_NOT_FOUND)
        return edited


def make_conversation_routes(
    responses: ResponseStore, connections: ClientConnections
) -> list[Route]:
    """The routes of conversations."""
    one = f"{CONVERSATIONS}/{{id}}"
    item = f"{one}/items/{{item}}"
    answers = [
        (CONVERSATIONS, ConversationRoute.create, "POST"),
        (one, ConversationRoute.show, "GET"),
        (one, ConversationRoute.update, "POST"),
        (one, ConversationRoute.delete, "DELETE"),
        (f"{one}/items", ConversationRoute.list_items, "GET"),
        (f"{one}/items", ConversationRoute.add, "POST"),
        (item, ConversationRoute.show_item, "GET"),
        (item, ConversationRoute.delete_item, "DELETE"),
    ]
    return [
        Route(path, ConversationRoute(responses, connections, answer), methods=[method])
        for path, answer, method in answers
    ]


def _show(held: StoredResponse) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.json.decode(held.work.show())
    return shown


def _read_body(body: bytes) -> _ConversationBody:
    """Read and check a body; one that is missing asks for nothing."""
    if not body:
        return _ConversationBody()
    try:
        read = _BODY.decode(body)
        decode_request(RESPONSES_CLIENT.protocol, {"model": "any", "input": read.items or []})
    except UNREADABLE as error:
        raise _refuse(f"the body cannot be read: {error}") from None
    except UnreadableRequest as error:
        raise _refuse(str(error).replace("input", "items", 1)) from None
    return read


# ── Compaction ──────────────────────────────────────────────────────────────────────
#
#     POST   /v1/responses/compact    a shorter conversation to continue from
#
# An upstream that has this route does it. For any other one its model writes a summary. The answer
# has the messages of the user, and one item in the place of all that the model said and did. It is
# understood wherever it comes back (`restore_items`), whichever upstream answers then.

COMPACT = "compact"
_KEPT_ROLES = frozenset({"user", "system", "developer"})
# What the request for a summary has in common with that for compaction.
_KEPT_FIELDS = (
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "service_tier",
)
_ASK = (
    "Summarize our conversation so that the work can be continued from your summary: all but my "
    "own messages will be removed. Say what I want, what was done and what came of it, what was "
    "decided and why, and what remains to be done. Repeat exactly the names, paths, identifiers, "
    "figures and errors that are still needed. Do not call a tool. Answer with the summary only, "
    "and begin it with the words: Summary of the conversation so far."
)
_CUT = "the model did not write a whole summary of the conversation"
_BAD_GATEWAY = 502
_NO_USAGE = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


class _SummaryPart(msgspec.Struct):
    text: str = ""


class _SummaryItem(msgspec.Struct):
    type: str = ""
    content: list[_SummaryPart] | None = None


class _Summary(msgspec.Struct):
    """The response that holds a summary."""

    created_at: int
    status: str
    output: list[_SummaryItem]
    usage: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The summary; empty if it is not whole."""
        said = [item.content or () for item in self.output if item.type == _MESSAGE]
        parts = [part for content in said for part in content]
        text = "".join(part.text for part in parts) if self.status == "completed" else ""
        return text.strip()


@dataclass(frozen=True, slots=True)
class Compactor:
    """Makes conversations shorter. A plain ASGI application."""

    route: ClientRoute
    """Answers the request for a summary."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        connections = self.route.connections
        content = None
        with connections.open(send) as sink:
            request = ClientRequest.read(self.route.client, scope, body=await read_body(receive))
            with connections.watch(receive, sink):
                content = await self._pass_on(request, sink)
        if content is not None:
            await self._summarize(request, scope, content=content, around=(receive, send))

    async def _pass_on(self, request: ClientRequest, sink: ClientSink) -> bytes | None:
        """Let the upstream answer; return the request for the upstream if it cannot."""
        try:
            route, outgoing = await self.route.planner.find_route(request)
            if route.upstream.protocol != request.client.protocol:
                return outgoing.content
            answer = await read_below(route.pipe, outgoing, below=COMPACT)
            if answer is None:
                return outgoing.content
        except WholecallError as error:
            await self.route.refuse(request, error, sink=sink)
            return None
        watch = self.route.handlers.watch(describe_forwarded(request, route))
        sink.on_begin = watch.begin
        await sink.send_body(ResponseBody(_OK, answer))
        watch.end(Fate.DONE)
        return None

    async def _summarize(
        self, request: ClientRequest, scope: Scope, *, content: bytes, around: tuple[Receive, Send]
    ) -> None:
        fields = read_fields(content)
        items = read_items(fields)
        ask = {"type": _MESSAGE, "role": "user", "content": _ASK}
        body = {name: fields[name] for name in _KEPT_FIELDS if name in fields} | {
            "model": read_name(request),
            "input": [*items, ask],
            "tool_choice": "none",
            "store": False,
        }
        caller: Caller = scope[CALLER]
        # The tools that run here are not offered.
        headers = {**caller.headers, TOOLS_HEADER: ""}
        asked = {**scope, CALLER: msgspec.structs.replace(caller, headers=headers)}
        receive, send = around
        sender = SummarySender(send, items, request_id=request.request_id)
        await self.route(asked, _replay(dump(body), receive), sender)


def make_compact_routes(routes: Iterable[ClientRoute]) -> list[Route]:
    """The route of compaction, for those client protocols whose responses are held."""
    held = [route for route in routes if route.client.holds]
    below = [replace(each.client, path=f"{each.client.path}/{COMPACT}") for each in held]
    return [
        Route(client.path, Compactor(replace(route, client=client)), methods=["POST"])
        for route, client in zip(held, below, strict=True)
    ]


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what receives this body, and then whether the client leaves."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_next() -> Message:
        return left.pop() if left else await receive()

    return receive_next


class SummarySender:
    """Takes the response that holds a summary, and sends the shorter conversation instead."""

    def __init__(self, send: Send, items: Sequence[Any], *, request_id: str) -> None:
        self._send = send
        self._items = items
        self._request_id = request_id
        self._start: Message = {}

    async def __call__(self, message: Message) -> None:
        """Take a part of the response, which comes in one piece."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, content = self._start, message["body"]
        if start["status"] == _OK:
            start, content = self._compact(msgspec.json.decode(content, type=_Summary))
        await self._send(start)
        await self._send({**message, "body": content})

    def _compact(self, summary: _Summary) -> tuple[Message, bytes]:
        status, text = _OK, summary.text
        if text:
            content = dump(_write_compacted(summary, self._items))
        else:
            status = _BAD_GATEWAY
            failure = Failure(
                message=_CUT, status=status, code="no_summary", request_id=self._request_id
            )
            content = dump(encode_failure(RESPONSES_CLIENT.protocol, failure))
        length = (b"content-length", str(len(content)).encode())
        others = (each for each in self._start["headers"] if each[0] != length[0])
        return {**self._start, "status": status, "headers": [*others, length]}, content


def _write_compacted(summary: _Summary, items: Sequence[Any]) -> dict[str, Any]:
    own = uuid.uuid4().hex
    decoded = (msgspec.json.decode(dump(item)) for item in items)
    listed = [_complete(number_item(item, f"{own}_{at}")) for at, item in enumerate(decoded)]
    kept = [item for item in listed if item["type"] == _MESSAGE and item["role"] in _KEPT_ROLES]
    return {
        "id": f"resp_{own}",
        "object": "response.compaction",
        "created_at": summary.created_at,
        "output": [*kept, write_compaction(f"cmp_{own}", summary.text)],
        "usage": summary.usage or _NO_USAGE,
    }
