"""Stored responses: retrieve, stream, cancel, list input items, delete.

    GET    /v1/responses/{id}                               the response
    GET    /v1/responses/{id}?stream=true&starting_after=7  the stream after its event 7
    POST   /v1/responses/{id}/cancel                        ends work in the background
    GET    /v1/responses/{id}/input_items                   its input, page by page
    DELETE /v1/responses/{id}                               deletes it

Only responses that are stored here are found (see `holding`), and each only by its own key. An
upstream's own responses are not retrieved: an id does not say which key it belongs to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.datastructures import QueryParams
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from wholecall.protocols.answers import dump
from wholecall.proxy.arrival import wants_stream
from wholecall.proxy.background import BLANK, NUMBER, Background
from wholecall.proxy.client import RawRequest
from wholecall.proxy.departing import ClientGone, UntilGone
from wholecall.proxy.edge import CALLER, Caller
from wholecall.proxy.holding import Held
from wholecall.proxy.input_items import list_items
from wholecall.proxy.refusing import Refused
from wholecall.proxy.responses import RESPONSES
from wholecall.proxy.serving import Service
from wholecall.proxy.sinks import Body, ClientSink

_OK = 200
_Answer = Callable[[Held, QueryParams, ClientSink], Awaitable[None]]


class After:
    """Leaves out the events of a stream up to one of them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, frames: bytes) -> bytes:
        """The rest of some whole events."""
        kept = [frame for frame in frames.split(BLANK) if frame and self._is_behind(frame)]
        return b"".join(frame + BLANK for frame in kept)

    def _is_behind(self, frame: bytes) -> bool:
        found = NUMBER.search(frame)
        return found is None or int(found[1]) > self._number


class Retrieval:
    """Answers requests for one response. A plain ASGI application."""

    def __init__(self, service: Service, answer: _Answer) -> None:
        self._service = service
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Answer one request."""
        caller: Caller = scope[CALLER]
        id = scope["path_params"]["id"]
        await self._service.sharing.fetch(id)
        held = self._service.holding.find(caller.key.id, id)
        if held is None:
            raise Refused(404, _NOT_FOUND, code="response_not_found")
        sink = ClientSink(send)
        sink.beat_seconds = RawRequest.read(RESPONSES, scope, body=b"").shorten(
            self._service.beat_seconds
        )
        try:
            with UntilGone(receive, sink.note_departure, lookout=self._service.lookout):
                await self._answer(held, QueryParams(scope["query_string"]), sink)
        except ClientGone:
            return
        finally:
            sink.stop()


def make_response_routes(service: Service) -> list[Route]:
    """The routes below that of responses."""

    async def delete(held: Held, _: QueryParams, sink: ClientSink) -> None:
        if isinstance(held.work, Background):
            await held.work.cancel()
        await service.sharing.drop(held)
        told = {"id": held.id, "object": "response", "deleted": True}
        await sink.send_body(Body(_OK, msgspec.json.encode(told)))

    one = f"{RESPONSES.path}/{{id}}"
    return [
        Route(one, Retrieval(service, _show), methods=["GET"]),
        Route(one, Retrieval(service, delete), methods=["DELETE"]),
        Route(f"{one}/input_items", Retrieval(service, _list_items), methods=["GET"]),
        Route(f"{one}/cancel", Retrieval(service, _cancel), methods=["POST"]),
    ]


async def _show(held: Held, query: QueryParams, sink: ClientSink) -> None:  # noqa: PLR0917 - one form for all
    if not wants_stream(query):
        await sink.send_body(Body(_OK, held.work.show()))
        return
    if not isinstance(held.work, Background):
        raise Refused(400, _NO_STREAM, code="invalid_value")
    sink.start_beating()
    await held.work.answer.copy_to(sink, trim=After(_read_start(query)))


def _read_start(query: QueryParams) -> int:
    """The number of the last event that the client has seen; -1: none."""
    given = query.get("starting_after", "-1")
    if not given.removeprefix("-").isdecimal() or len(given) > _LONGEST_NUMBER:
        raise Refused(400, "starting_after is no whole number", code="invalid_value")
    return int(given)


async def _list_items(held: Held, query: QueryParams, sink: ClientSink) -> None:  # noqa: PLR0917 - one form for all
    await sink.send_body(Body(_OK, dump(list_items(held, query))))


async def _cancel(held: Held, _: QueryParams, sink: ClientSink) -> None:
    if not isinstance(held.work, Background):
        raise Refused(400, _NOT_CANCELLABLE, code="invalid_value")
    await held.work.cancel()
    await sink.send_body(Body(_OK, held.work.show()))


_LONGEST_NUMBER = 18
_NOT_FOUND = (
    "no response of this id is held here: it is not yours, was sent with `store: false`, or is "
    "older than responses.kept_seconds"
)
_NO_STREAM = "stream: only a response that was made with `background: true` has a stream to resume"
_NOT_CANCELLABLE = "only a response that was made with `background: true` can be cancelled"
