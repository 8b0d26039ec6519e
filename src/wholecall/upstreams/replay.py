"""An upstream that answers from recordings, or from a script of turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Protocol, TypeAlias

from wholecall.core.conversation import Request
from wholecall.errors import UpstreamError
from wholecall.protocols.reader import CUT, Chunk
from wholecall.upstreams.base import Answer, once


class Recorded(Protocol):
    """One recorded answer; `wholecall.recording.load` reads such from files."""

    @property
    def protocol(self) -> str:
        """The protocol that the answer is written in."""

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks in order."""

    @property
    def body(self) -> Mapping[str, Any] | None:
        """The whole answer, if it was not streamed."""

    @property
    def pauses(self) -> Sequence[float]:
        """Seconds before each chunk; missing ones are zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """An answer that was written and not recorded."""

    protocol: str = "openai-chat"
    chunks: Sequence[Chunk] = ()
    body: Mapping[str, Any] | None = None
    pauses: Sequence[float] = ()


Reaction: TypeAlias = Recorded | UpstreamError
"""An upstream's reaction to a request: an answer, or a refusal."""


class ReplayUpstream:
    """Answers each request with the next of its turns, whatever the request says."""

    def __init__(
        self,
        turns: Iterable[Reaction],
        *,
        protocol: str = "openai-chat",
        pace: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`pace` 1.0 takes the recorded time between chunks, 2.0 twice as long, 0.0 none."""
        self._turns = list(turns)
        self._protocol = protocol
        self._pace = pace
        self._sleep = sleep
        self.requests: list[Request] = []
        """The requests so far."""

    @property
    def protocol(self) -> str:
        """The protocol of the next answer; each answer names its own, too."""
        following = self._turns[len(self.requests) :]
        return next(
            (turn.protocol for turn in following if not isinstance(turn, UpstreamError)),
            self._protocol,
        )

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Take the next turn."""
        turn = self._next_turn(request)
        if isinstance(turn, UpstreamError):
            raise turn
        streamed = turn.body is None
        chunks = self._play(turn) if turn.body is None else once(turn.body)
        yield Answer(protocol=turn.protocol, chunks=chunks, streamed=streamed)

    async def close(self) -> None:
        """There is nothing to give back."""

    def _next_turn(self, request: Request) -> Reaction:
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self._turns):
            raise UpstreamError(
                f"answer {number + 1} was asked for, and the recording has {len(self._turns)}",
                code="replay_over",
            )
        return self._turns[number]

    async def _play(self, turn: Recorded) -> AsyncIterator[Chunk]:
        for chunk, pause in zip(turn.chunks, chain(turn.pauses, repeat(0.0)), strict=False):
            if isinstance(chunk, str) and chunk == CUT:
                return
            if self._pace and pause:
                await self._sleep(pause * self._pace)
            yield chunk
