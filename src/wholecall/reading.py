"""Read answers that somebody else fetched: recorded, whole, or as they stream in.

Shells of a few lines around the same core. None of them opens a connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from wholecall.core.outcome import Outcome, collect
from wholecall.core.values import Event
from wholecall.protocols.reader import Chunk, Reader, Tools

_CUT = "!EOF"


def assemble(protocol: str, events: Iterable[Chunk], *, tools: Tools | None = None) -> Outcome:
    """What a recorded stream delivers.

    `events` are decoded payloads (dicts), raw lines of the stream, or its raw bytes;
    the line `!EOF` says that the connection closed there.
    """
    return collect(events_sync(_until_cut(events), protocol=protocol, tools=tools))


def assemble_response(
    protocol: str, body: Mapping[str, Any] | bytes | str | object, *, tools: Tools | None = None
) -> Outcome:
    """What a whole, not streamed answer delivers. It goes through the same assembler."""
    reader = Reader(protocol, tools)
    return collect([*reader.feed_response(body), *reader.end()])


def events_sync(
    chunks: Iterable[Chunk], *, protocol: str, tools: Tools | None = None
) -> Iterator[Event]:
    """The events of a stream that you read yourself."""
    reader = Reader(protocol, tools)
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.end()


async def events(
    chunks: AsyncIterable[Chunk], *, protocol: str, tools: Tools | None = None
) -> AsyncIterator[Event]:
    """The events of a stream that you read yourself, asynchronously."""
    reader = Reader(protocol, tools)
    async for chunk in chunks:
        for event in reader.feed(chunk):
            yield event
    for event in reader.end():
        yield event


def should_execute_tool_calls(response: object) -> bool:
    """Whether a chat completion holds a call that may run, whatever its finish reason says."""
    return bool(assemble_response("openai-chat", response).calls)


def _until_cut(events: Iterable[Chunk]) -> Iterator[Chunk]:
    for event in events:
        if isinstance(event, str) and event == _CUT:
            return
        yield event
