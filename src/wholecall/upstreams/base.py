"""What an upstream is: somebody who answers requests in one protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from wholecall.core.conversation import Request
from wholecall.protocols.reader import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is coming in."""

    protocol: str
    chunks: AsyncIterator[Chunk]
    """What `Reader.feed` takes; or, not streamed, one body for `Reader.feed_response`."""
    streamed: bool = True
    hides_truncation: bool = False
    """Whether a cut answer may look like a finished one (LiteLLM)."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Upstream(Protocol):
    """Answers one request after the other, or many at a time.

    `answer` opens the connection and waits for the answer to begin. Leaving the context
    closes it, whether or not the answer was read to its end. What keeps an answer from
    beginning or breaks it off is an `UpstreamError`.
    """

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""

    def answer(self, request: Request) -> AbstractAsyncContextManager[Answer]:
        """Ask, and read the answer inside of the context."""

    async def close(self) -> None:
        """Give back connections and processes. Closing twice does no harm."""


async def once(body: Chunk) -> AsyncIterator[Chunk]:
    """The chunks of an answer that is not streamed: its one body."""
    yield body
