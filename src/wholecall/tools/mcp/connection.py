"""One connection to a server, from its first word to its end.

The SDK keeps task groups, which must be left in the task that entered them. So a connection
lives in the task of its keeper; only single requests are sent from other tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import metadata
from typing import TypeAlias

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client import Client, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from wholecall.core.conversation import Result
from wholecall.core.values import JSON, Text
from wholecall.core.words import cut
from wholecall.errors import ToolServerFailed
from wholecall.tools.mcp.answers import read_answer
from wholecall.tools.mcp.definitions import Definition, read_definition
from wholecall.tools.mcp.server import McpServer
from wholecall.tools.mcp.transport import Signs, open_transport

Report: TypeAlias = Callable[[JSON], None]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

PAGES = 100
"""Of a server's list of tools. A server could name a next page for ever."""
_SUBSCRIBE_AGAIN = 5.0
"""Seconds before a lost subscription is opened again."""
_ASKS_BACK = "the server wants to ask the user something, and nobody can be asked here"
_Answer: TypeAlias = types.CallToolResult | types.InputRequiredResult
_ANSWER: TypeAdapter[_Answer] = TypeAdapter(_Answer)
# The answer did not come, which says nothing about what the tool did.
_UNANSWERED = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})
# Nor does an error of the server itself, or of a gateway before it (HTTP 502).
_UNKNOWN = _UNANSWERED | {types.INTERNAL_ERROR}
_OUTCOME = "what it had done is unknown"


class News:
    """Changes that a connection's keeper must learn about. Many changes are one event."""

    def __init__(self, *, on_end: Callable[[], None]) -> None:
        self._heard = asyncio.Event()
        self._on_end = on_end
        self.ended = False

    def end(self) -> None:
        """The server is gone, or of no more use."""
        self.ended = True
        self._on_end()
        self._heard.set()

    def change_tools(self) -> None:
        """The server's tools are not what they were."""
        self._heard.set()

    async def wait_for_change(self) -> bool:
        """Wait until the tools have changed; False: the connection ended."""
        await self._heard.wait()
        self._heard.clear()
        return not self.ended


class Connection:
    """Asks a server, and reads what it answers."""

    def __init__(self, client: Client, server: McpServer, *, news: News) -> None:
        self._session = client.session
        self._server = server
        self._news = news
        # A session that the server keeps for us, over HTTP. It may forget it.
        self._has_session = bool(server.url) and client.session.initialize_result is not None

    async def list_tools(self) -> tuple[Definition, ...]:
        """All pages of the server's list."""
        found: list[Definition] = []
        cursor: str | None = None
        for _ in range(PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            page = await self._session.list_tools(params=params)
            found += [read_definition(_dump(tool)) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found)

    async def call(
        self, definition: Definition, arguments: Mapping[str, JSON], *, report: Report
    ) -> Result:
        """Run a tool. A cancellation is passed on to the server.

        Raise `ToolServerFailed` if there was no answer.
        """
        params = types.CallToolRequestParams(name=definition.name, arguments=dict(arguments))
        try:
            answer = await self._session.send_request(
                types.CallToolRequest(params=params), _ANSWER, progress_callback=_forward(report)
            )
        except MCPError as error:
            return self._read_refusal(error)
        except ValidationError as error:
            raise self._lose("its answer was no result of a tool") from error
        if isinstance(answer, types.InputRequiredResult):
            return Result((Text(_ASKS_BACK),), failed=True)
        return read_answer(answer, output=definition.output)

    def _read_refusal(self, error: MCPError) -> Result:
        if self._news.ended:
            raise self._lose("it ended before it answered") from error
        if self._has_session and error.code == types.INVALID_REQUEST:
            self._news.end()
            raise self._fail("it had forgotten the session; the call was not run") from error
        if error.code in _UNKNOWN:
            raise self._lose(f"no answer came ({cut(error.message)})") from error
        return Result((Text(f"{cut(error.message)} (MCP error {error.code})"),), failed=True)

    def _lose(self, why: str) -> ToolServerFailed:
        """The call was sent, and nobody knows what came of it."""
        return self._fail(f"{why}; {_OUTCOME}", outcome_unknown=True)

    def _fail(self, why: str, *, outcome_unknown: bool = False) -> ToolServerFailed:
        name = self._server.name
        message = f"MCP server {name!r}: {why}"
        return ToolServerFailed(message, server=name, outcome_unknown=outcome_unknown)


@asynccontextmanager
async def connect(
    server: McpServer, news: News, *, signs: Signs, sleep: Sleep
) -> AsyncIterator[Connection]:
    """Reach a server and agree with it on a version of the protocol."""

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            news.change_tools()

    client = Client(
        open_transport(server, signs, on_end=news.end),
        message_handler=hear,
        client_info=types.Implementation(name="wholecall", version=metadata.version("wholecall")),
        # A caller that lists the tools wants their current state.
        cache=None,
    )
    async with client, anyio.create_task_group() as tasks:
        if _announces_changes(client):
            tasks.start_soon(partial(_subscribe, client, news, sleep=sleep))
        yield Connection(client, server, news=news)
        tasks.cancel_scope.cancel()


def _dump(tool: types.Tool) -> dict[str, JSON]:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def _forward(report: Report) -> ProgressFnT:
    async def forward(  # noqa: PLR0917 - the SDK passes them by place
        progress: float, total: float | None, message: str | None
    ) -> None:
        told: dict[str, JSON] = {"progress": progress, "total": total, "message": message}
        report({key: value for key, value in told.items() if value is not None})

    return forward


# ── Changes of the list, since the protocol of 2026 ─────────────────────────────────


def _announces_changes(client: Client) -> bool:
    """Return True if changes must be subscribed to. Before 2026 they were sent to everyone."""
    tools = client.server_capabilities.tools
    announced = tools is not None and tools.list_changed is True
    return announced and client.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _subscribe(client: Client, news: News, *, sleep: Sleep) -> None:
    """Hear of changes for as long as the connection lives."""
    while await _listen(client, news):
        await sleep(_SUBSCRIBE_AGAIN)


async def _listen(client: Client, news: News) -> bool:
    """Hear of changes until the subscription ends; False: the server has none to offer."""
    try:
        async with client.listen(tools_list_changed=True) as subscription:
            if subscription.honored.tools_list_changed is not True:
                return False
            # Changes before the server agreed were not announced.
            news.change_tools()
            async for _ in subscription:
                news.change_tools()
    except SubscriptionLost:
        return True
    except MCPError as error:
        return error.code in _UNANSWERED
    return True
