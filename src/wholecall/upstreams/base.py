"""What an upstream is: somebody who answers requests in one protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from wholecall.core.conversation import Request
from wholecall.protocols.reader import Chunk

if TYPE_CHECKING:
    from wholecall.dialects.emulate import Constraint


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What a run has to know of an upstream to use it well."""

    emulation: str = "native"
    """How tools are offered where nobody says: `native`, `constrained`, or in a dialect."""
    constraint: Constraint = "json_schema"
    """How it is asked to constrain decoding."""
    forces_natively: bool = True
    """Whether a call can be demanded of it where tools are offered natively."""
    identical: int | None = None
    """The same call this often means that the model will make no other; None: as usual."""


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
