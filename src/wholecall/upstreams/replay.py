"""Record what an upstream sends as a case, and answer from recordings or a script."""

from __future__ import annotations

import asyncio
import codecs
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Protocol, TypeAlias

import msgspec

from wholecall.arguments.describe import cut
from wholecall.dialects.emulation.emulate import NewAssembler, assembler_of, write_prompted
from wholecall.dialects.provenance import provenance_of_raw, write_messages
from wholecall.dialects.rescue import RescuingAssembler
from wholecall.errors import RunFailed, UpstreamError
from wholecall.messages import Prompted, Request, read_offer
from wholecall.protocols.decoder import read_json
from wholecall.protocols.reader import CUT, Chunk, Tools
from wholecall.protocols.registry import CHAT, upstream_side
from wholecall.upstreams.base import Answer, Upstream, once
from wholecall.upstreams.secrets import hide_keys, hide_known

# An upstream that records another one, as a case that `replay` and `check` read.
#
# One line of JSON for each answer. A stream is kept in whole lines, as text, so that an echoed key
# is found wherever the network cut it.


MOST_BYTES = 64 * 1024 * 1024
"""Of one answer; the longest of models have a few megabytes. `replay` reads files four times as
large, because a recording is longer than what came."""
_LONGEST_TITLE = 80


class RecordingUpstream:
    """Asks another upstream and writes down what it answers."""

    def __init__(
        self,
        upstream: Upstream,
        write: Callable[[str], object],
        *,
        secrets: Iterable[str] = (),
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`write` takes one line for each answer, when it is over.

        An answer of more than `most_bytes` is broken off there with a `RunFailed`: it is in memory
        until it is over. What came before is kept, as a stream that was cut.
        """
        self._upstream = upstream
        self._write = write
        self._secrets = tuple(filter(None, secrets))
        self._most_bytes = most_bytes
        self._clock = clock

    @property
    def protocol(self) -> str:
        """The protocol of the recorded upstream."""
        return self._upstream.protocol

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Ask, and write down what was read of the answer, even if that is not all of it."""
        async with self._upstream.answer(request) as answer:
            tape = Tape(self._clock, most_bytes=self._most_bytes)
            try:
                yield msgspec.structs.replace(
                    answer, chunks=tape.keep(answer.chunks, streamed=answer.streamed)
                )
            finally:
                if answer.streamed or not tape.full:
                    contents = tape.contents(streamed=answer.streamed)
                    self._save(request, {"protocol": answer.protocol, **contents})

    async def close(self) -> None:
        """Close the recorded upstream."""
        await self._upstream.close()

    def _save(self, request: Request, answered: Mapping[str, Any]) -> None:
        case = {"title": _title(request), **describe_request(request), **answered}
        self._write(self._hide_secrets(_write_json(case)) + "\n")

    def _hide_secrets(self, text: str) -> str:
        return hide_keys(hide_known(text, self._secrets))


class Tape:
    """The chunks of one answer, and when they came."""

    def __init__(self, clock: Callable[[], float], *, most_bytes: int = MOST_BYTES) -> None:
        self._clock = clock
        self._most_bytes = most_bytes
        self._bytes = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line: list[str] = []
        """The incomplete line."""
        self._events: list[Any] = []
        self._pauses: list[float] = []
        self._last = clock()

    @property
    def full(self) -> bool:
        """True if more came than it may keep."""
        return self._bytes > self._most_bytes

    async def keep(
        self, chunks: AsyncIterator[Chunk], *, streamed: bool = True
    ) -> AsyncIterator[Chunk]:
        """The same chunks, as far as there is room for them; then a `RunFailed` says so."""
        self._last = self._clock()
        async for chunk in chunks:
            kept = chunk if isinstance(chunk, bytes | str) else read_json(chunk)
            self._bytes += _weigh(kept)
            if self.full:
                raise RunFailed(self._tell(streamed=streamed))
            self.take(kept)
            yield chunk

    def _tell(self, *, streamed: bool) -> str:
        kept = "what came before is kept, as a stream that was cut"
        return (
            f"the answer has more than {self._most_bytes} bytes, the most that is recorded of one: "
            f"it was interrupted, and {kept if streamed else 'nothing of it is kept'}"
        )

    def contents(self, *, streamed: bool) -> dict[str, Any]:
        """Return the fields of a case."""
        self._add(self._rest(streamed=streamed))
        if streamed:
            return {"events": self._events, "pauses": self._pauses}
        if all(isinstance(event, str) for event in self._events):
            # Bodies with several lines were taken line by line.
            return {"response": read_json("".join(self._events) or "{}")}
        return {"response": self._events[0]}

    def _rest(self, *, streamed: bool) -> str:
        """Return the text after the last line."""
        rest = "".join([*self._line, self._decoder.decode(b"", final=True)])
        # A lone text without a newline would be read as a line without its end, and this is
        # the piece of one. A blank line before it says so, and nothing else.
        return f"\n{rest}" if streamed and rest and not self._events else rest

    def take(self, chunk: Chunk) -> None:
        """The next chunk."""
        if not isinstance(chunk, bytes | str):
            self._add(read_json(chunk))
            return
        ended = chunk.endswith("\n") if isinstance(chunk, str) else chunk.endswith(b"\n")
        if ended and not self._line:  # whole lines, as nearly always
            self._add(chunk if isinstance(chunk, str) else chunk.decode("utf-8", "replace"))
            return
        text = chunk if isinstance(chunk, str) else self._decoder.decode(chunk)
        whole, end, rest = text.rpartition("\n")
        if end:
            self._add("".join([*self._line, whole, end]))
            self._line.clear()
        if not ended:  # an empty rest, too: the decoder may hold a part of a character
            self._line.append(rest)

    def _add(self, event: Any) -> None:
        if not event:
            return
        now = self._clock()
        self._events.append(event)
        self._pauses.append(round(now - self._last, 4))
        self._last = now


def _weigh(chunk: Any) -> int:
    if isinstance(chunk, bytes):
        return len(chunk)
    text = chunk if isinstance(chunk, str) else _write_json(chunk)
    return len(text.encode("utf-8", "surrogatepass"))


def _write_json(case: Any) -> str:
    try:
        return msgspec.json.encode(case).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can write
        return json.dumps(case)


def _title(request: Request) -> str:
    words = " ".join(request.messages[-1].text.split()) if request.messages else ""
    said = cut(words, _LONGEST_TITLE)
    return f"{request.model}: {said}" if said else request.model


def describe_request(request: Request | None) -> dict[str, Any]:
    """Return what a case has to say of the request, so that its answer is read as it was at first:
    the tools, natively offered or in the prompt, None if unknown; the limit of output tokens, if
    there is one; and the conversation, because what is quoted from it is not a call."""
    if request is None:
        return {"tools": None}
    prompted = request.prompted
    tools = request.tools if prompted is None else prompted.tools
    messages = request.messages if prompted is None else prompted.history
    offering = Request(model="", messages=(), tools=tuple(tools))
    return {
        "tools": upstream_side(CHAT).encode(offering, None).get("tools"),
        **({} if prompted is None else write_prompted(prompted)),
        **({} if request.max_tokens is None else {"max_tokens": request.max_tokens}),
        **({"messages": write_messages(messages)} if tools else {}),
    }


def case_assembler(prompted: Prompted | None, messages: object) -> NewAssembler:
    """Return what decides about the calls of a recorded answer as it was decided at first;
    `Reader` takes it as `new_assembler`. Only `rescue`, a setting of the operator's, is not known:
    it counts as `all`."""
    if prompted is not None:
        return assembler_of(prompted, messages)

    def new_assembler(tools: Tools | None) -> RescuingAssembler:
        offer = read_offer(tools or ())
        return RescuingAssembler(tools, provenance=provenance_of_raw(messages, offer))

    return new_assembler


class Recorded(Protocol):
    """One recorded answer; `wholecall.cli.recordings.load` reads such from files."""

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

    protocol: str = CHAT
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
        protocol: str = CHAT,
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
