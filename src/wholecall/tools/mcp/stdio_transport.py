"""The process of an MCP server: messages over its standard streams, and the end of its stderr.

The SDK's transport reads a line of any length, and copies all that it has of it with each piece
that comes. Here a message has a limit, and each byte is copied once.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, TextIO, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from wholecall.tools.mcp.server_config import McpServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

KEPT = 8_192
"""Bytes of stderr. A traceback has its message at its end."""
_PATIENCE = 0.5
"""Seconds to wait for the rest of it, once the process has ended."""
_PIECE = 65_536
_LARGE = 262_144
"""Bytes of a message that is parsed in a thread, so that other requests do not wait for it."""
_END_SECONDS = 2.0
"""Seconds for a process to end by itself, and then by a signal."""
_HEAD = 512
_ID = re.compile(rb'"id"\s*:\s*(?:"(?P<text>[^"\\]{1,64})"|(?P<number>\d{1,18}))')
_CONTENT = re.compile(rb'"(?:result|error|params)"\s*:')
_TOO_LARGE = -32_050
_BANNER = re.compile(r"[^\"'{}]*")
_BAR = re.compile(r"[^\"'{}\r]*\r[^\"'{}]*")

Incoming = SessionMessage | Exception


class StderrTail:
    """Keeps the last bytes of one process."""

    def __init__(self) -> None:
        self._kept = b""
        self._reader: threading.Thread | None = None

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """Return a file for the process. We close our own end of it: when the process has ended, no
        one holds it open any more, and the thread ends."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as file:
            yield file

    def _read(self, pipe: int) -> None:
        with open(pipe, "rb", buffering=0) as file:
            while piece := file.read(KEPT):
                self._kept = (self._kept + piece)[-KEPT:]

    async def finish(self) -> str:
        """All that is kept, once the process has ended."""
        if self._reader is not None:
            # A grandchild may hold the pipe open for ever: it is not waited for.
            await asyncio.to_thread(self._reader.join, _PATIENCE)
        return self._kept.decode("utf-8", "replace").strip()


# ── Lines ───────────────────────────────────────────────────────────────────────────


class LongLine(NamedTuple):
    """A line over the limit. The rest of it is skipped."""

    head: bytes

    @property
    def id(self) -> int | str | None:
        """The id of the request that it answers; None if it does not begin with one."""
        content = _CONTENT.search(self.head)
        found = _ID.search(self.head, 0, content.start() if content else len(self.head))
        if found is None:
            return None
        return int(found["number"]) if found["number"] else found["text"].decode()


class MessageLines:
    """Splits bytes into lines of at most `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes | LongLine]:
        """Yield the lines that end here; one that is too long as soon as it is."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            yield from self._add(piece)
            if self._size <= self._most:
                yield b"".join(self._pieces)
            self._pieces, self._size = [], 0
        yield from self._add(rest)

    def _add(self, piece: bytes) -> Iterator[LongLine]:
        was_long = self._size > self._most
        self._size += len(piece)
        if self._size <= self._most:
            self._pieces.append(piece)
        elif not was_long:
            yield LongLine(b"".join((*self._pieces, piece))[:_HEAD])
            self._pieces = []


def _parse(line: bytes, noise: re.Pattern[str]) -> list[Incoming]:
    text = line.decode("utf-8", "replace")
    try:
        return [SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))]
    except ValueError as error:
        return [error, *_find_answer(text, noise)]


def _find_answer(text: str, noise: re.Pattern[str]) -> Iterator[SessionMessage]:
    """Yield the answer after a banner or a progress bar without a line end. A banner comes before
    the first call, and a bar has a carriage return, which is as good as a line end. Any other line
    is a log line: a web page may have written what it holds. A request may always be logged."""
    rest = noise.sub("", text, count=1) if noise.match(text) else ""
    with suppress(ValueError):
        message = types.jsonrpc_message_adapter.validate_json(rest, by_name=False)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            yield SessionMessage(message)


def _refuse(line: LongLine, most_bytes: int) -> Incoming:
    """Return the answer that a request gets instead of one that is too large."""
    if line.id is None:
        raise ValueError(f"a message has no id and more than {most_bytes} bytes")
    said = f"the tool answered, but with more than {most_bytes} bytes; they were not read"
    error = types.ErrorData(code=_TOO_LARGE, message=said)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=line.id, error=error))


# ── The process ─────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def open_process(server: McpServer, stderr: StderrTail) -> AsyncIterator[TransportStreams]:
    """Start a server's process, and end it with all that it started."""
    # A cancelled start would leave its process running.
    with stderr.open() as file, anyio.CancelScope(shield=True):
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            _ServerProtocol,
            server.command,
            *server.args,
            env=get_default_environment() | dict(server.env),
            cwd=server.cwd,
            stderr=file,
            start_new_session=True,
        )
    received, reading = anyio.create_memory_object_stream[Incoming](0)
    writing, sent = anyio.create_memory_object_stream[SessionMessage](0)
    pipes = _Pipes(protocol, most_bytes=server.message_bytes)
    tasks = (
        asyncio.create_task(pipes.read(received)),
        asyncio.create_task(pipes.write(sent, received)),
    )
    try:
        yield reading, writing
    finally:
        reading.close()
        writing.close()
        with anyio.CancelScope(shield=True):  # a process must not outlive its server
            await _end(transport, protocol.exited, tasks=tasks)


class _ServerProtocol(SubprocessStreamProtocol):
    """Tells when the process has exited. What it started may hold its pipes open for longer."""

    def __init__(self) -> None:
        super().__init__(limit=_PIECE, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        """The process has exited."""
        super().process_exited()
        self.exited.set()


class _Pipes:
    """The standard streams of a process."""

    def __init__(self, protocol: _ServerProtocol, *, most_bytes: int) -> None:
        self._stdin = cast(asyncio.StreamWriter, protocol.stdin)
        self._stdout = cast(asyncio.StreamReader, protocol.stdout)
        self._most = most_bytes
        self._noise = _BANNER

    async def read(self, received: MemoryObjectSendStream[Incoming]) -> None:
        """Pass on each message; end after one without an end that answers nothing."""
        with received, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ValueError):
            lines = MessageLines(self._most)
            while data := await self._stdout.read(_PIECE):
                for line in lines.feed(data):
                    await self._pass_on(line, received)
        while await self._stdout.read(_PIECE):
            pass  # a process that cannot write does not end

    async def _pass_on(
        self, line: bytes | LongLine, received: MemoryObjectSendStream[Incoming]
    ) -> None:
        if isinstance(line, LongLine):
            messages = [_refuse(line, self._most)]
        else:
            large, noise = len(line) > _LARGE, self._noise
            messages = (
                await asyncio.to_thread(_parse, line, noise) if large else _parse(line, noise)
            )
        for message in messages:
            await received.send(message)

    async def write(
        self,
        sent: MemoryObjectReceiveStream[SessionMessage],
        received: MemoryObjectSendStream[Incoming],
    ) -> None:
        """Send each message. Where that fails, requests that wait learn that no answer comes."""
        with sent:
            try:
                async for message in sent:
                    calls = getattr(message.message, "method", "") == "tools/call"
                    self._noise = _BAR if calls else self._noise
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    self._stdin.write(text.encode("utf-8", "replace") + b"\n")
                    await self._stdin.drain()
            except OSError:
                received.close()
        self._stdin.close()


async def _end(
    transport: asyncio.SubprocessTransport,
    exited: asyncio.Event,
    *,
    tasks: tuple[asyncio.Task[None], ...],
) -> None:
    """Let a process end; after a while, end it and what it started."""
    for stop in (None, signal.SIGTERM, _KILL):
        if stop is not None:
            _signal(transport.get_pid(), stop)
        with suppress(TimeoutError):
            await asyncio.wait_for(exited.wait(), _END_SECONDS)
            break
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    transport.close()


if sys.platform == "win32":
    _KILL = signal.SIGTERM
    _signal = os.kill
else:
    _KILL = signal.SIGKILL

    def _signal(pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(pid, number)
