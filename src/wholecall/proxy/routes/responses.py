"""Retrieve, stream, cancel and delete stored responses, and list their input items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wholecall.protocols.response_base import dump
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.http.client_connection import (
    ClientConnections,
    ClientDisconnected,
    ClientSink,
    ResponseBody,
)
from wholecall.proxy.http.client_request import CALLER, Caller, ClientRequest, wants_stream
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.responses.response_store import ResponseStore, StoredResponse
from wholecall.proxy.routes.client_route import RESPONSES_CLIENT

USUAL_LIMIT = 20
MOST_LIMIT = 100
"""Items on one page."""
_LONGEST = len(str(MOST_LIMIT))
_ORDERS = ("asc", "desc")
_NEWEST_FIRST = "desc"
_MESSAGE = "message"
# How the id of an item begins, by its type.
_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_OTHER_PREFIX = "item"


def list_items(held: StoredResponse, query: Mapping[str, str]) -> dict[str, Any]:
    """Return one page: `limit` items after the item `after`, the newest first unless `order` is
    `asc`."""
    limit, order = _read_limit(query), _read_order(query)
    said: list[Any] = msgspec.json.decode(held.items)
    items = [_complete(item, f"{held.id}_{number}") for number, item in enumerate(said)]
    if order == _NEWEST_FIRST:
        items.reverse()
    begin = _find_begin(items, query.get("after"))
    page = items[begin : begin + limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": begin + limit < len(items),
    }


def _complete(item: Any, own: str) -> dict[str, Any]:
    """Return an item in full. Its type was checked with the request."""
    given = item if isinstance(item, Mapping) else {"role": "user", "content": item}
    kind = str(given.get("type") or _MESSAGE)
    own_id = f"{_PREFIXES.get(kind, _OTHER_PREFIX)}_{own.removeprefix('resp_')}"
    whole = {"status": "completed", **given, "id": str(given.get("id") or own_id), "type": kind}
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
    raise _refuse("after: this response has no input item of this id")


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
        if held is None:
            raise RequestRefused(404, _NOT_FOUND, code="response_not_found")
        sink = self.connections.open(send)
        request = ClientRequest.read(RESPONSES_CLIENT, scope, body=b"")
        sink.beat_seconds = request.shorten(sink.beat_seconds)
        try:
            with self.connections.watch(receive, sink):
                await self.answer(held, QueryParams(scope["query_string"]), sink)
        except ClientDisconnected:
            return
        finally:
            self.connections.close(sink)


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
