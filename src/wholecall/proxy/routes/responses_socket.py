"""Responses over a WebSocket: one connection, one response after the other.

A client sends `response.create` with the body of a request, and gets the events of its stream as
text messages. Each message is a request of its own: it is admitted, answered, logged and counted as
if it had come by HTTP. The conversation of the last response is held with the connection, also with
`store: false`, so that the next message may name it as `previous_response_id` and send only what is
new. `generate: false` gets a response without asking the model, to be continued from.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from wholecall.errors import UnreadableRequest, WholecallError
from wholecall.protocols.registry import encode_failure
from wholecall.protocols.response_base import Failure, dump
from wholecall.protocols.sse_ndjson import ServerSentEvent, SseParser
from wholecall.proxy.handlers.request_plan import read_fields
from wholecall.proxy.handlers.response_store import (
    CONVERSATION,
    FinishedResponse,
    ResponseStore,
    StoredResponse,
    continue_from,
    find_end,
    read_id,
    read_items,
    read_previous,
)
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_connection import ClientSink, RawHeaders
from wholecall.proxy.http.client_request import (
    ADMISSION,
    ANSWERING,
    CALLER,
    CONTINUED,
    Caller,
    ClientRequest,
)
from wholecall.proxy.http.refusals import RequestRefused, refuse_for_now
from wholecall.proxy.routes.client_route import ClientRoute
from wholecall.upstreams.http import MOST_BODY_BYTES

LONGEST_SECONDS = 3600.0
"""Seconds after which a connection is closed when no response is under way, as OpenAI does."""
MOST_WAITING = 4
"""Messages that wait for the response that is being sent. Few clients send a second one."""
_CREATE = b'"response.create"'
_BUSY_SECONDS = 1.0
_FALSE, _TRUE = b"false", b"true"
_OK = 200
_GOING_AWAY = 1001
_RESTART = 1012
_OFF = "WebSockets are off here (responses.websockets): send the request with POST"
_FULL = "too many WebSockets are open (responses.websockets)"
_NO_TYPE = "the type of a message has to be `response.create`"
_NO_STREAMS = "streams side by side are not served: send one response after the other"
_NO_BACKGROUND = "nothing is made in the background over a WebSocket: send it with POST"
_TOO_MANY = f"{MOST_WAITING} requests wait already for the response that is being sent"
_TOO_OLD = "the connection has been open for an hour: open another one"
_OF_THE_HEAD = frozenset({b"content-type", b"content-length"})


@dataclass(slots=True)
class ResponsesSocket:
    """Serves WebSockets. An ASGI application."""

    route: ClientRoute
    responses: ResponseStore
    is_leaving: Callable[[], bool]
    """Tells whether the server ends."""
    _open: int = field(default=0, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        """Serve one connection."""
        most = self.responses.settings.websockets
        if not most:
            raise RequestRefused(426, _OFF, code="websockets_off")
        if self._open >= most:
            raise refuse_for_now(503, _FULL, code="overloaded", seconds=_BUSY_SECONDS)
        self._open += 1
        try:
            await _Session(self, scope, receive=receive, send=send).run()
        finally:
            self._open -= 1


class _Session:
    """One connection."""

    def __init__(
        self, socket: ResponsesSocket, scope: Scope, *, receive: Receive, send: Send
    ) -> None:
        self._socket = socket
        self._scope = scope
        self._caller: Caller = scope[CALLER]
        self._admit: Callable[[], AbstractContextManager[Key]] = scope[ADMISSION]
        self._receive = receive
        self._send = send
        self._waiting: deque[Message] = deque()
        self._gone = False
        self._count = 0
        self._last: StoredResponse | None = None
        """The response that the next one may continue, whether or not it is stored."""

    async def run(self) -> None:
        """Answer requests until one side leaves."""
        await self._receive()  # that it begins
        await self._send({"type": "websocket.accept"})
        deadline = asyncio.get_running_loop().time() + LONGEST_SECONDS
        try:
            while (message := await self._wait(deadline)) is not None:
                await self._answer(message)
                if self._socket.is_leaving():
                    await self._send({"type": "websocket.close", "code": _RESTART})
        except TimeoutError:
            old = RequestRefused(400, _TOO_OLD, code="websocket_connection_limit_reached")
            await self._tell(old)
            await self._send({"type": "websocket.close", "code": _GOING_AWAY})
        except OSError:  # the server's way to say that the client has left
            return

    async def _wait(self, deadline: float) -> Message | None:
        """Return the next message of the client; None: it has left."""
        if self._waiting:
            return self._waiting.popleft()
        if self._gone:
            return None
        async with asyncio.timeout_at(deadline):
            message = await self._receive()
        return message if message["type"] == "websocket.receive" else None

    async def _answer(self, message: Message) -> None:
        text = message.get("text")
        body = text.encode() if text is not None else message.get("bytes") or b""
        self._scope[ANSWERING] = True
        try:
            with self._admit() as key:
                await self._create(key, body)
        except RequestRefused as refused:
            self._caller.refuse(refused)
            await self._tell(refused)
        finally:
            self._scope[ANSWERING] = False

    async def _create(self, key: Key, body: bytes) -> None:
        events = EventSender(self._send)
        try:
            fields = _read_message(body)
            previous = read_previous(fields)
            before = await self._find(key, previous) if previous else None
            fields = fields if before is None else continue_from(fields, before)
        except WholecallError as error:
            request = ClientRequest.read(
                self._socket.route.client, self._make_scope(key, ""), body=body
            )
            await self._socket.route.refuse(request, error, sink=ClientSink(events))
            return
        generate = bytes(fields.pop("generate", msgspec.Raw(_TRUE))) != _FALSE
        scope = self._make_scope(key, previous if before is not None else "")
        body = msgspec.json.encode({**fields, "stream": True})
        if generate:
            await self._socket.route(scope, self._make_receive(body), events)
        else:
            request = ClientRequest.read(self._socket.route.client, scope, body=body)
            await self._socket.route.warm_up(request, ClientSink(events))
        # Where the upstream or the store has the conversation, it is not a part of the request.
        knows_all = CONVERSATION not in fields and (before is not None or not previous)
        if events.response is not None and knows_all:
            items = msgspec.json.encode(read_items(fields))
            self._last = _hold(events.response, key_id=key.id, items=items)

    async def _find(self, key: Key, previous: str) -> StoredResponse | None:
        if self._last is not None and self._last.id == previous:
            return self._last
        responses = self._socket.responses
        await responses.fetch(previous)
        return responses.find(key.id, previous)

    def _make_scope(self, key: Key, continued: str) -> Scope:
        """Return the scope of the request in a message."""
        self._count += 1
        caller = msgspec.structs.replace(
            self._caller, key=key, request_id=f"{self._caller.request_id}-{self._count}"
        )
        return {
            **self._scope,
            "type": "http",
            "method": "POST",
            CALLER: caller,
            CONTINUED: continued,
        }

    def _make_receive(self, body: bytes) -> Receive:
        left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return left.pop() if left else await self._watch()

        return receive

    async def _watch(self) -> Message:
        """Wait until the client leaves; what it sends meanwhile waits for its turn."""
        while (message := await self._receive())["type"] == "websocket.receive":
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(message)
            else:
                await self._tell(RequestRefused(429, _TOO_MANY, code="response_in_progress"))
        self._gone = True
        self._waiting.clear()
        return {"type": "http.disconnect"}

    async def _tell(self, refused: RequestRefused) -> None:
        failure = Failure(
            message=refused.message,
            status=refused.status,
            code=refused.code,
            request_id=self._caller.request_id,
        )
        error = encode_failure(self._socket.route.client.protocol, failure)
        text = write_error(refused.status, dump(error), headers=refused.headers)
        await self._send({"type": "websocket.send", "text": text})


class EventSender:
    """Takes the answer to a request as ASGI has it, and sends it as messages."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._events = SseParser(limit=MOST_BODY_BYTES)
        self._status = _OK
        self._headers: RawHeaders = ()
        self._body: list[bytes] = []
        self.response: bytes | None = None
        """The response, as the event that ended it well has it."""

    async def __call__(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], tuple(message["headers"])
            return
        body, is_last = message.get("body", b""), not message.get("more_body", False)
        if self._status == _OK:
            ends = self._events.end() if is_last else []
            for event in [*self._events.feed(body), *ends]:
                await self._pass_on(event)
            return
        self._body.append(body)
        if is_last:
            text = write_error(self._status, b"".join(self._body), headers=self._headers)
            await self._send({"type": "websocket.send", "text": text})

    async def _pass_on(self, event: ServerSentEvent) -> None:
        self.response = find_end(event.data.encode()) or self.response
        with suppress(OSError):  # the client has left, which its reader notices
            await self._send({"type": "websocket.send", "text": event.data})


def write_error(status: int, body: bytes, *, headers: RawHeaders) -> str:
    """Return the event for an HTTP error, as OpenAI's WebSockets have it."""
    told = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers
        if name not in _OF_THE_HEAD
    }
    error: dict[str, Any] = msgspec.json.decode(body)
    return dump({"type": "error", "status": status, **error, "headers": told}).decode()


def _read_message(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the fields of the request in a message."""
    fields = read_fields(body)
    if bytes(fields.pop("type", msgspec.Raw(b""))) != _CREATE:
        raise UnreadableRequest(_NO_TYPE, param="type")
    if "stream_id" in fields:
        raise UnreadableRequest(_NO_STREAMS, param="stream_id")
    if bytes(fields.pop("background", msgspec.Raw(_FALSE))) == _TRUE:
        raise UnreadableRequest(_NO_BACKGROUND, param="background")
    return fields


def _hold(response: bytes, *, key_id: str, items: bytes) -> StoredResponse:
    return StoredResponse(
        id=read_id(response), key_id=key_id, items=items, work=FinishedResponse(response)
    )
