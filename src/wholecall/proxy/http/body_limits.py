"""The body of a request as it comes in: counted, and waited for no longer than allowed."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive, Scope

from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.http.header_checks import refuse_body
from wholecall.proxy.http.refusals import HttpReply, RequestRefused

BODY_CAME = "wholecall.body_came"
"""The key in a request's scope that says that its whole body is here. Our own server sets it; under
another one a body is always awaited."""
_GONE: Message = {"type": "http.disconnect"}


class BodyLimit:
    """Wraps `receive` and `send` of one request.

    When a limit is exceeded the client is answered from here, and the application sees a
    disconnect, so that it stops working.
    """

    def __init__(
        self, scope: Scope, receive: Receive, *, limits: ServerLimits, reply: HttpReply
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._limits = limits
        self._reply = reply
        self._bytes = 0
        self._whole = False
        self._deadline: float | None = None

    async def receive(self) -> Message:
        """The next message from the server."""
        if self._whole:
            return _GONE if self._reply.refused else await self._receive()
        try:
            came = BODY_CAME in self._scope
            message = await (self._receive() if came else self._receive_in_time())
        except TimeoutError:
            return await self._turn_away(_refuse_slowness(self._limits))
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._limits.body_bytes:
            return await self._turn_away(refuse_body(self._limits))
        self._whole = not message.get("more_body", False)
        return message

    async def _receive_in_time(self) -> Message:
        async with asyncio.timeout_at(self._find_deadline()):
            return await self._receive()

    def _find_deadline(self) -> float:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._limits.body_seconds
        return self._deadline

    async def _turn_away(self, refused: RequestRefused) -> Message:
        self._whole = True
        await self._reply.refuse(refused)
        return _GONE


def _refuse_slowness(limits: ServerLimits) -> RequestRefused:
    return RequestRefused(
        408,
        f"the request did not come within {limits.body_seconds:g} seconds",
        code="request_timeout",
        headers=((b"connection", b"close"),),
    )
