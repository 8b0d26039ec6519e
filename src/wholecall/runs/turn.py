"""One turn: the model is asked, and its answer is read while calls already start.

The stream is read on whatever the tools do. A call that is released before the stream's
end starts at once; what is released by the end itself waits until the loop has seen the
whole answer, because a bad end is a reason to ask again instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from wholecall.core.conversation import Message
from wholecall.core.outcome import Outcome, collect
from wholecall.core.values import Call, Event, Grew, Proved, Rejected, Released, Text
from wholecall.protocols.requests import answer_message
from wholecall.runs.events import copy_call
from wholecall.runs.sending import Sent
from wholecall.upstreams.base import Answer, Upstream
from wholecall.upstreams.ending import EndOfStream

# They show a call being built; what they say is in the call that it becomes.
PASSING = (Grew, Proved)


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """An answer, read to its end."""

    outcome: Outcome
    message: Message
    waiting: tuple[Call, ...]
    """Released by the end of the answer, and not started yet."""


class Turn:
    """Reads one answer."""

    def __init__(
        self,
        *,
        emit: Callable[[Event], None],
        start: Callable[[Call], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._emit = emit
        self._start = start
        self._room = room
        self._events: list[Event] = []

    async def read(self, upstream: Upstream, sent: Sent) -> ReadAnswer:
        """Ask, and read until the answer is over."""
        async with upstream.answer(sent.request) as answer:
            rest = await self._read_chunks(answer, sent)
        waiting = []
        for event in rest:
            self._take(event)
            if isinstance(event, Released):
                waiting.append(event.call)
        message = answer_message(map(_as_said, self._events), answer.protocol)
        return ReadAnswer(collect(self._events), message, tuple(waiting))

    async def _read_chunks(self, answer: Answer, sent: Sent) -> list[Event]:
        """Take what comes; return what the end of the answer brought about."""
        reader = sent.make_reader(answer)
        if not answer.streamed:
            whole = [
                event async for chunk in answer.chunks for event in reader.feed_response(chunk)
            ]
            return whole + reader.end()
        with EndOfStream() as end:
            async for chunk in answer.chunks:
                self._take_now(reader.feed(chunk))
                await self._room()
                end.look(reader)
        return reader.end()

    def _take_now(self, events: list[Event]) -> None:
        for event in events:
            self._take(event)
            if isinstance(event, Released):
                self._start(event.call)

    def _take(self, event: Event) -> None:
        if not isinstance(event, PASSING):
            self._events.append(event)
        # Whatever is done to what is shown must not change what runs, nor the history.
        shown = Released(copy_call(event.call)) if isinstance(event, Released) else event
        self._emit(shown)


def _as_said(event: Event) -> Event:
    """Return a rejected text without a name and an id as what it was: text."""
    return Text(event.raw) if isinstance(event, Rejected) and not event.id else event
