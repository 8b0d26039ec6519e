"""The interface of an upstream, and what is known of upstreams by the prefix of a model's name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from wholecall.messages import Request
from wholecall.protocols.reader import Chunk

if TYPE_CHECKING:
    from wholecall.dialects.emulation.emulate import Constraint


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of an upstream that a run must know."""

    emulation: str = "native"
    """The default way of offering tools: `native`, `constrained`, or a dialect."""
    constraint: Constraint = "json_schema"
    """The way of constraining its decoding."""
    forces_natively: bool = True
    """True if a call can be required natively."""
    identical: int | None = None
    """The same call this often means that the model will make no other; None: as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is coming in."""

    protocol: str
    chunks: AsyncIterator[Chunk]
    """Chunks for `Reader.feed`; or, not streamed, one body for `Reader.feed_response`."""
    streamed: bool = True
    hides_truncation: bool = False
    """True if a cut answer may look like a finished one (LiteLLM)."""
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


# Traits of local models, which llama.cpp serves.


PREFIX = "local/"
"""Before the name of every such model."""

TRAITS = Traits(
    emulation="constrained",
    # Our own grammar costs llama.cpp a fraction of what a schema does.
    constraint="grammar",
    # Its own template offers tools, but where one must be called it lets the model write newlines
    # until the output limit.
    forces_natively=False,
    # A small model at temperature 0 that makes a call again will make it on and on. Without tools
    # it says what it knows by then.
    identical=2,
)


# Traits of an upstream, by the prefix of the model's name.


_USUAL = Traits()
_BY_PREFIX = {PREFIX: TRAITS}


def traits_of(model: str) -> Traits:
    """Return the traits of a model's upstream; the usual ones if it is unknown."""
    prefix, slash, _ = model.partition("/")
    return _BY_PREFIX.get(prefix + slash, _USUAL)
