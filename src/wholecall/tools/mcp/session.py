"""One MCP server: its transport, requests and results, and the keeper that restarts it."""

from __future__ import annotations

import asyncio
import base64
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp import MCPError
from mcp.client import Client, IncomingMessage
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from wholecall.arguments.coerce import CoercionOptions
from wholecall.arguments.describe import cut
from wholecall.arguments.validate import check
from wholecall.assembly.json_scanner import write_json
from wholecall.errors import ToolServerFailed
from wholecall.events import JSON, Text
from wholecall.messages import Content, Media, Result, ToolSpec
from wholecall.tools.mcp.server_config import McpServer, Restart, is_http
from wholecall.tools.mcp.stdio_transport import StderrTail, open_process
from wholecall.tools.mcp.tool_definitions import (
    Definition,
    McpEvent,
    ServerLost,
    ServerNoise,
    ServerStarted,
    ToolListing,
    choose,
    read_definition,
)
from wholecall.tools.tool import (
    MEDIA_BYTES,
    NO_OUTPUT,
    STRUCTURED_BYTES,
    Elicit,
    Elicitation,
    add_note,
    cancel_elicitation,
    to_result,
)

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams

# The two ways to reach a server, and how we notice that it is gone.


_REFUSALS = 400
"""HTTP statuses from here on say that a request was refused."""


@dataclass(slots=True)
class Signs:
    """Signs of a server other than its messages. They may explain why messages are missing."""

    stderr: StderrTail = field(default_factory=StderrTail)
    refusal: int | None = None
    """The HTTP status of the last request that was refused."""
    on_noise: Callable[[str], None] = lambda _: None
    """Called with the first line that is not a message of the protocol."""
    heard_noise: bool = False

    def note_noise(self, received: SessionMessage | Exception) -> None:
        """Report the first line that the SDK could not read."""
        if isinstance(received, Exception) and not self.heard_noise:
            self.heard_noise = True
            self.on_noise(_find_line(received))


def _find_line(error: Exception) -> str:
    """Return the text that could not be read, as far as the error has it."""
    if isinstance(error, ValidationError):
        error_input = error.errors(include_url=False, include_context=False)[0]["input"]
        return cut(str(error_input).strip())
    return cut(str(error))


@asynccontextmanager
async def open_transport(
    server: McpServer, signs: Signs, *, on_end: Callable[[], None]
) -> AsyncIterator[TransportStreams]:
    """Start a server's process, or connect to its endpoint.

    The SDK has no event for a lost server; its stream of messages just ends. So the messages pass
    through here, and `on_end` is called before any waiting call learns about it.
    """
    is_local = bool(server.command)
    way = open_process(server, signs.stderr) if is_local else _reach_endpoint(server, signs)
    async with way as (messages, writing), anyio.create_task_group() as tasks:
        # A stream without a buffer: the SDK's own pace is kept.
        sending, receiving = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        tasks.start_soon(partial(_pass_on, messages, sending, signs=signs, on_end=on_end))
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
    signs: Signs,
    on_end: Callable[[], None],
) -> None:
    try:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for message in messages:
                signs.note_noise(message)
                await sending.send(message)
    finally:
        on_end()
        sending.close()


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
    most = server.message_bytes
    way = streamable_http_client(server.url, http_client=client, max_sse_event_size=most)
    async with client, way as streams:
        yield streams


# Convert a server's answer to a result for the model.


SILENT_FAILURE = "the tool failed and did not say why"
_UNFIT = "[The structured output does not fit the schema that the tool declares; it was left out.]"
_KINDS = {"image": "image", "audio": "audio", "application/pdf": "document"}
"""Content that a model can see or hear, by media type or by the first half of it."""
_CHARSET = re.compile(r"charset=\"?([\w.:-]+)", re.IGNORECASE)
_CODEC = re.compile(
    r"(?i)utf-?(8|16|32)(-?[bl]e|-sig)?|(us-)?ascii|iso-?8859-\d{1,2}|latin-?1|(windows-|cp)125\d"
    r"|koi8-[ru]|shift[-_]jis|euc-(jp|kr)|gb(k|2312|18030)|big5"
)
"""Those that decode in linear time; punycode, for one, does not."""
_BASE64_CHARACTERS = MEDIA_BYTES // 3 * 4 + 4


def read_answer(answer: types.CallToolResult, *, output: Mapping[str, Any] | None) -> Result:
    """Read a `tools/call` answer; `output` is the schema of the tool's structured output."""
    content = tuple(_read_block(block) for block in answer.content)
    if answer.is_error:
        return Result(content or (Text(SILENT_FAILURE),), failed=True)
    if answer.structured_content is None:
        return Result(content or (Text(NO_OUTPUT),))
    structured = answer.structured_content
    written = to_result(structured)
    # Servers should write the value as text, too. If one did not, the model would not see it.
    result = Result(content or written.content, structured=_keep(structured, written))
    fits = output is None or _fits(structured, output)
    return result if fits else add_note(Result(result.content), _UNFIT)


def _keep(structured: JSON, written: Result) -> JSON:
    """The value as it can be passed on: what is too large is left out, NaN is written out."""
    small = isinstance(structured, str) and len(structured) <= STRUCTURED_BYTES
    return structured if small else written.structured


def _fits(structured: JSON, output: Mapping[str, Any]) -> bool:
    """Return True if a value fits the tool's output schema. Only objects are checked, as most
    versions of the protocol allow no others. The SDK's check uses backtracking patterns: a
    hostile one would block the event loop."""
    if not isinstance(structured, dict):
        return True
    options = CoercionOptions(keep_unknown=True)
    return not check(structured, ToolSpec("output", output), options=options).problems


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_block(block: types.ContentBlock) -> Content:
    match block:
        case types.TextContent():
            return Text(block.text)
        case types.ImageContent() | types.AudioContent():
            return _read_media(block.data, block.mime_type, name=f"[{block.type}]")
        case types.ResourceLink():
            return Text(_describe_link(block))
        case _:
            return _read_resource(block.resource)


def _read_resource(resource: types.TextResourceContents | types.BlobResourceContents) -> Content:
    if isinstance(resource, types.TextResourceContents):
        return Text(f"[{resource.uri}]\n{resource.text}")
    name, media_type = f"[{resource.uri}]", resource.mime_type or ""
    text = None if _find_kind(media_type) else _decode_text(resource.blob, media_type)
    if text is not None:
        return Text(f"{name}\n{text}")
    return _read_media(resource.blob, media_type, name=name)


def _decode_text(blob: str, media_type: str) -> str | None:
    """Decode bytes that are a text, whatever their server calls them; None if they are not."""
    charset = _CHARSET.search(media_type)
    codec = charset[1] if charset else "utf-8-sig"
    if len(blob) > _BASE64_CHARACTERS or not _CODEC.fullmatch(codec):
        return None
    try:
        text = base64.b64decode(blob, validate=True).decode(codec)
    except (ValueError, LookupError):
        return None
    return None if "\0" in text else text


def _describe_link(link: types.ResourceLink) -> str:
    about = "; ".join(part for part in (link.mime_type, link.description) if part)
    return f"[{link.title or link.name}]({link.uri})" + (f" {about}" if about else "")


def _read_media(data: str, media_type: str, *, name: str) -> Content:
    """Read an image or a sound. An upstream would refuse the whole conversation because of an
    invalid or oversized one."""
    kind = _find_kind(media_type)
    if len(data) > _BASE64_CHARACTERS:
        return Text(f"{name} (not shown: more than {MEDIA_BYTES} bytes)")
    if kind is None:
        return Text(f"{name} (not shown: {cut(media_type) or 'of an unknown type'})")
    if not _is_base64(data):
        return Text(f"{name} (not shown: its bytes are not in base64)")
    return Media(kind=kind, media_type=media_type, data=data)


def _find_kind(media_type: str) -> str | None:
    """Return the kind of media; None also for SVG, which is a text and no model takes as image."""
    if media_type.endswith("+xml"):
        return None
    return _KINDS.get(media_type) or _KINDS.get(media_type.partition("/")[0])


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except ValueError:
        return False


# One connection to a server, from its first word to its end.
#
# The SDK keeps task groups, which must be left in the task that entered them. So a connection lives
# in the task of its keeper; only single requests are sent from other tasks.


Report: TypeAlias = Callable[[JSON], None]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

PAGES = 100
"""Of a server's list of tools. A server could name a next page for ever."""
_SUBSCRIBE_AGAIN = 5.0
"""Seconds before a lost subscription is opened again."""
_ASKS_BACK = "the server wants to ask something that is not possible here"
_ROUNDS = 10
"""Of questions in one call. A server could ask for ever."""
_ROUND_PAUSE = 0.1
"""Seconds before a call is continued that only waits for its server."""
_QUESTION_CHARACTERS = 4096
"""Of the message and of the form of a question; a longer one is not shown."""
_Answer: TypeAlias = types.CallToolResult | types.InputRequiredResult
_ANSWER: TypeAdapter[_Answer] = TypeAdapter(_Answer)
# The answer did not come, which says nothing about what the tool did.
_UNANSWERED = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})
# Nor does an error of the server itself, or of a gateway before it (HTTP 502).
_UNKNOWN = _UNANSWERED | {types.INTERNAL_ERROR}
_OUTCOME = "what it had done is unknown"


class ServerNews:
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


class McpSession:
    """Asks a server, and reads what it answers."""

    def __init__(
        self, client: Client, server: McpServer, *, news: ServerNews, questions: Questions
    ) -> None:
        self._session = client.session
        self._server = server
        self._news = news
        self._questions = questions
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
        self,
        definition: Definition,
        arguments: Mapping[str, JSON],
        *,
        report: Report,
        elicit: Elicit = cancel_elicitation,
    ) -> Result:
        """Run a tool. A cancellation is passed on to the server.

        Raise `ToolServerFailed` if there was no answer.
        """
        params = types.CallToolRequestParams(name=definition.name, arguments=dict(arguments))
        try:
            with self._questions.asked_of(elicit):
                answer = await self._call_repeatedly(params, report, elicit=elicit)
        except MCPError as error:
            return self._read_refusal(error)
        except ValidationError as error:
            raise self._lose("its answer was no result of a tool") from error
        if answer is None:
            return Result((Text(_ASKS_BACK),), failed=True)
        return read_answer(answer, output=definition.output)

    async def _call_repeatedly(
        self, params: types.CallToolRequestParams, report: Report, *, elicit: Elicit
    ) -> types.CallToolResult | None:
        """Call a tool, and continue the call with the answers to what its server asks.

        Since 2026 a question is the result of a call, which is then sent again with the answer.
        Return None if the server asks what cannot be answered here, or asks too often.
        """
        for _ in range(_ROUNDS):
            answer = await self._session.send_request(
                types.CallToolRequest(params=params), _ANSWER, progress_callback=_forward(report)
            )
            if isinstance(answer, types.CallToolResult):
                return answer
            asked = answer.input_requests or {}
            if not asked:
                await asyncio.sleep(_ROUND_PAUSE)
            given: types.InputResponses = {}
            for key, request in asked.items():
                if not isinstance(request, types.ElicitRequest):
                    return None
                given[key] = await self._questions.ask(elicit, request.params)
            update = {"input_responses": given or None, "request_state": answer.request_state}
            params = params.model_copy(update=update)
        return None

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
        """Return the error for a call that was sent and whose outcome is unknown."""
        return self._fail(f"{why}; {_OUTCOME}", outcome_unknown=True)

    def _fail(self, why: str, *, outcome_unknown: bool = False) -> ToolServerFailed:
        name = self._server.name
        message = f"MCP server {name!r}: {why}"
        return ToolServerFailed(message, server=name, outcome_unknown=outcome_unknown)


@asynccontextmanager
async def connect(
    server: McpServer, news: ServerNews, *, signs: Signs, sleep: Sleep
) -> AsyncIterator[McpSession]:
    """Reach a server and agree with it on a version of the protocol."""

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            news.change_tools()

    questions = Questions(server)
    client = Client(
        open_transport(server, signs, on_end=news.end),
        message_handler=hear,
        elicitation_callback=questions.answer if server.elicitation else None,
        client_info=types.Implementation(name="wholecall", version=metadata.version("wholecall")),
        # A caller that lists the tools wants their current state.
        cache=None,
    )
    async with client, anyio.create_task_group() as tasks:
        if _announces_changes(client):
            tasks.start_soon(partial(_subscribe, client, news, sleep=sleep))
        yield McpSession(client, server, news=news, questions=questions)
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


# ── Questions to the user ───────────────────────────────────────────────────────────


class Questions:
    """What a server asks the user while it runs calls.

    Before 2026 a question did not say which call it belongs to. It is put to the user only if one
    call runs in this connection: what one user is asked must not be answered by another.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._callers: dict[object, tuple[Elicit, set[asyncio.Task[types.ElicitResult]]]] = {}

    @contextmanager
    def asked_of(self, elicit: Elicit) -> Iterator[None]:
        """Let a call be the one whose user is asked. Its questions end with it."""
        place, tasks = object(), set[asyncio.Task[types.ElicitResult]]()
        self._callers[place] = (elicit, tasks)
        try:
            yield
        finally:
            del self._callers[place]
            for task in tasks:
                task.cancel()

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        """Answer a question that came as a request of its own."""
        del context  # it does not say which call asks
        if len(self._callers) != 1:
            return types.ElicitResult(action="cancel")
        [(elicit, tasks)] = self._callers.values()
        task = asyncio.create_task(self.ask(elicit, params))
        tasks.add(task)
        try:
            await asyncio.wait([task])
        finally:
            tasks.discard(task)
            task.cancel()
        return types.ElicitResult(action="cancel") if task.cancelled() else task.result()

    async def ask(self, elicit: Elicit, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Put a question to the user of a call."""
        asked = self._read(params) if self._server.elicitation else None
        if asked is None:
            return types.ElicitResult(action="cancel")
        given = await elicit(asked)
        has_form = given.action == "accept" and not asked.url
        # The SDK's own types of form fields are narrower than JSON; the schema was checked.
        content: Any = dict(given.content) if has_form else None
        return types.ElicitResult(action=given.action, content=content)

    def _read(self, params: types.ElicitRequestParams) -> Elicitation | None:
        """Return a question that can be shown."""
        server, message = self._server.name, params.message
        if isinstance(params, types.ElicitRequestURLParams):
            asked = Elicitation(server=server, message=message, url=params.url)
            shown = is_http(params.url) and len(message) + len(params.url) <= _QUESTION_CHARACTERS
        else:
            schema = params.requested_schema
            asked = Elicitation(server=server, message=message, schema=schema)
            size = len(message) + len(write_json(schema))
            shown = size <= _QUESTION_CHARACTERS
        return asked if shown else None


# ── Changes of the list, since the protocol of 2026 ─────────────────────────────────


def _announces_changes(client: Client) -> bool:
    """Return True if changes must be subscribed to. Before 2026 they were sent to everyone."""
    tools = client.server_capabilities.tools
    announced = tools is not None and tools.list_changed is True
    return announced and client.protocol_version in MODERN_PROTOCOL_VERSIONS


async def _subscribe(client: Client, news: ServerNews, *, sleep: Sleep) -> None:
    """Hear of changes for as long as the connection lives."""
    while await _listen(client, news):
        await sleep(_SUBSCRIBE_AGAIN)


async def _listen(client: Client, news: ServerNews) -> bool:
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


# ── The keeper of one server ──────────────────────────────────────────────────────────


CLOSING_SECONDS = 5.0
"""For a server to hear that we are leaving. A process has its own times: it is asked to end
by closing its input, then terminated, then killed, two seconds apart."""
_REASON = 500
"""Characters of an error that are passed on."""
# What the SDK and its transports raise when a server cannot be started or reached, or speaks
# in no way that they understand. Task groups wrap it.
_TROUBLE = (OSError, ValueError, RuntimeError, MCPError, httpx2.HTTPError, ExceptionGroup)


OnListed: TypeAlias = Callable[[str, ToolListing], None]


class Keeper:
    """One server, its connection, and the task in which that lives."""

    def __init__(
        self,
        server: McpServer,
        restart: Restart,
        *,
        on_listed: OnListed,
        tap: Callable[[McpEvent], None],
    ) -> None:
        self.server = server
        self._restart = restart
        self._on_listed = on_listed
        self._tap = tap
        self._settled = asyncio.Event()
        self._connection: McpSession | None = None
        self._news = ServerNews(on_end=self._unsettle)
        self._scope = anyio.CancelScope()
        self._stopping = False
        self.failure: ToolServerFailed | None = None
        """The reason why the last start failed."""
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.create_task(self._keep(), name=f"MCP server {server.name}")

    @property
    def is_connected(self) -> bool:
        """True if the server is connected."""
        return self._connection is not None

    async def wait_until_settled(self) -> None:
        """Wait until the server is there, or could not be started."""
        await self._settled.wait()

    async def find_connection(self) -> McpSession:
        """The connection, as soon as there is one.

        A server that has just ended is waited for. One that could not be started is not:
        `ToolServerFailed`.
        """
        await self._settled.wait()
        if self._connection is None:
            # The reason is for the operator. It may tell a model more than it should know.
            why = "cannot be reached at the moment; the call was not run"
            name = self.server.name
            raise ToolServerFailed(f"MCP server {name!r} {why}", server=name)
        return self._connection

    def stop(self) -> None:
        """Let the server end. `task` is done when it has."""
        self._stopping = True
        if self._connection is None:
            self._scope.cancel()
        else:
            self._scope.deadline = anyio.current_time() + CLOSING_SECONDS
            self._news.end()

    def _settle(self, connection: McpSession | None, failure: ToolServerFailed | None) -> None:
        self._connection = connection
        self.failure = failure
        self._settled.set()

    def _unsettle(self) -> None:
        """The server was there and will be again soon: calls that come now wait for it."""
        if self._connection is not None:
            self._connection = None
            self._settled.clear()

    # ── The task ────────────────────────────────────────────────────────────────────

    async def _keep(self) -> None:
        try:
            with self._scope:
                await self._serve_repeatedly()
        finally:
            self._settle(None, self.failure)

    async def _serve_repeatedly(self) -> None:
        failures = 0
        while True:
            began = self.loop.time()
            loss = await self._serve()
            if self._stopping:
                return
            steady = self.loop.time() - began >= self._restart.steady
            failures = 1 if steady else failures + 1
            delay = self._restart.delay(failures)
            name = self.server.name
            self._tap(ServerLost(server=name, reason=loss.reason, stderr=loss.stderr, delay=delay))
            await self._restart.sleep(delay)

    async def _serve(self) -> _Loss:
        """Start the server and serve it until it ends; why it did."""
        signs = Signs(on_noise=self._report_noise)
        news = self._news = ServerNews(on_end=self._unsettle)
        reason, started = "it ended", False
        try:
            with anyio.CancelScope(deadline=self._start_deadline()) as starting:
                async with connect(
                    self.server, news, signs=signs, sleep=self._restart.sleep
                ) as connection:
                    await self._list(connection)
                    starting.deadline = math.inf
                    started = True
                    self._settle(connection, None)
                    self._tap(ServerStarted(self.server.name))
                    await self._watch(connection, news)
            if starting.cancelled_caught:
                reason = f"it did not answer in {self.server.start_timeout:g} seconds"
        except _TROUBLE as error:
            reason = _describe(error, signs)
        self._unsettle()
        loss = _Loss(reason, await signs.stderr.finish())
        if not started:
            self._settle(None, self._complain(loss))
        return loss

    def _report_noise(self, line: str) -> None:
        self._tap(ServerNoise(self.server.name, line))

    def _start_deadline(self) -> float:
        return anyio.current_time() + self.server.start_timeout

    async def _watch(self, connection: McpSession, news: ServerNews) -> None:
        while await news.wait_for_change():
            with anyio.fail_after(self.server.start_timeout):
                await self._list(connection)

    async def _list(self, connection: McpSession) -> None:
        found = await connection.list_tools()
        self._on_listed(self.server.name, choose(self.server, found))

    def _complain(self, loss: _Loss) -> ToolServerFailed:
        name = self.server.name
        wrote = f"\nIt wrote:\n{loss.stderr}" if loss.stderr else ""
        message = f"MCP server {name!r} did not start: {loss.reason}{wrote}"
        return ToolServerFailed(message, server=name, stderr=loss.stderr)


class _Loss(NamedTuple):
    reason: str
    stderr: str


def _describe(error: BaseException, signs: Signs) -> str:
    """Describe the root cause."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    status = f" (HTTP {signs.refusal})" if signs.refusal else ""
    if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
        return "it ended before it had answered" + status
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename!r}; is the command installed, and in the PATH?"
    words = " ".join(str(error).split())
    return cut(f"{type(error).__name__}: {words}", _REASON) + status
