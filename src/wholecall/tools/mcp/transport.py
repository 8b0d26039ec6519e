"""The two ways to reach a server, and how we notice that it is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from wholecall.tools.mcp.server import McpServer
from wholecall.tools.mcp.stderr import StderrTail

if TYPE_CHECKING:
    # The types of the SDK's transports have no public name.
    from mcp.client._transport import ReadStream, TransportStreams

_REFUSALS = 400
"""HTTP statuses from here on say that a request was refused."""


@dataclass(slots=True)
class Signs:
    """Signs of a server other than its messages: they may explain why there are none."""

    stderr: StderrTail = field(default_factory=StderrTail)
    refusal: int | None = None
    """The HTTP status of the last request that was refused."""


@asynccontextmanager
async def open_transport(
    server: McpServer, signs: Signs, *, on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Start a server's process, or connect to its endpoint.

    The SDK has no event for a lost server; its stream of messages just ends. So the messages pass
    through here, and `on_end` is called before any waiting call learns about it.
    """
    way = _start_process(server, signs) if server.command else _reach_endpoint(server, signs)
    async with way as (messages, writing), anyio.create_task_group() as tasks:
        # A stream without a buffer: the SDK's own pace is kept.
        sending, receiving = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        tasks.start_soon(partial(_pass_on, messages, sending, on_end=on_end))
        try:
            yield receiving, writing
        finally:
            tasks.cancel_scope.cancel()
            receiving.close()
            sending.close()


async def _pass_on(
    messages: ReadStream[SessionMessage | Exception],
    sending: MemoryObjectSendStream[SessionMessage | Exception],
    *,
    on_end: Callable[[], None],
) -> None:
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for message in messages:
                await sending.send(message)
    finally:
        on_end()
        sending.close()


@asynccontextmanager
async def _start_process(server: McpServer, signs: Signs) -> AsyncIterator[TransportStreams]:
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env=dict(server.env),
        cwd=server.cwd,
        encoding_error_handler="replace",
    )
    async with AsyncExitStack() as stack:
        with signs.stderr.open() as stderr:
            process = stdio_client(parameters, errlog=stderr)
            streams = await stack.enter_async_context(process)
        yield streams


@asynccontextmanager
async def _reach_endpoint(server: McpServer, signs: Signs) -> AsyncIterator[TransportStreams]:
    async def note(response: httpx2.Response) -> None:
        if response.status_code >= _REFUSALS:
            signs.refusal = response.status_code

    client = httpx2.AsyncClient(
        headers=dict(server.headers),
        # A call may take long, and a subscription is silent for days: both have limits elsewhere.
        timeout=httpx2.Timeout(server.start_timeout, read=None),
        event_hooks={"response": [note]},
    )
    async with client, streamable_http_client(server.url, http_client=client) as streams:
        yield streams
