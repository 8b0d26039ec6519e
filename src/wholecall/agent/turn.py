"""One turn: offer the tools, ask the model, and read its answer while calls already start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol

from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.dialects.dialect import Dialect
from wholecall.dialects.dialect_registry import AUTO, Means, way_for
from wholecall.dialects.emulation.emulate import Constraint, emulate, with_unmarked
from wholecall.dialects.engine import has_vocabulary, vocabulary_of
from wholecall.dialects.provenance import provenance_of
from wholecall.dialects.rescue import Rescue, RescuingAssembler
from wholecall.errors import UpstreamError
from wholecall.events import (
    Call,
    Event,
    Grew,
    Outcome,
    Proved,
    Rejected,
    Released,
    Text,
    Value,
    collect,
    copy_call,
)
from wholecall.messages import Message, Mode, Offer, Part, PastCall, ReadOffer, Request
from wholecall.protocols.history import answer_message
from wholecall.protocols.reader import Chunk, EnforcingAssembler, Reader, Tools, TurnAssembler
from wholecall.protocols.registry import limit_of
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Answer, EndOfStream, Upstream, once, traits_of

MANY_PARTS = 1_000
"""Parts and tools of a large conversation."""
MANY_CHARACTERS = 400_000
"""Characters of one. To search them for a quoted call takes some 30 ms."""


def is_large(request: Request) -> bool:
    """Return True if work on the whole conversation goes into a thread, so that no other request
    waits for it."""
    parts = [part for message in request.messages for part in message.parts]
    if len(parts) + len(request.tools) > MANY_PARTS:
        return True
    return sum(len(part.text) for part in parts if isinstance(part, Text)) > MANY_CHARACTERS


def _preparation(dialect: Dialect, offer: Offer) -> Callable[[], object] | None:
    """Return what builds the vocabulary of these tools; None if it was built before."""
    names = tuple(offer)
    is_ready = not names or has_vocabulary(dialect, names)
    return None if is_ready else partial(vocabulary_of, dialect, names)


class Sent(Value, frozen=True):
    """A request as it goes to the upstream, and what reads the answer to it."""

    request: Request
    make_reader: Callable[[Answer], Reader]
    prepare: Callable[[], object] | None = None
    """Takes some time before the answer can be read, and is done while the model is asked."""


class Sender(Protocol):
    """Offers the tools of a request in one way or another."""

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Return what is sent, and what reads the answer.

        With `silent` the answer must be words: no tool may be called any more, and a call that
        is written as text is rejected instead of shown.
        """


class RescueRule(Value, frozen=True):
    """The rule that decides which calls are started although they were written as text."""

    toolbox: Toolbox
    rescue: Rescue | None = None
    """None: the default, `read_only` for tools that run here and `all` for the client's."""

    def may_start(self, name: str) -> bool:
        """Return True if a call of this tool may be started."""
        tool = self.toolbox.find(name)
        if self.rescue is None and not self.toolbox.runs(name):
            return True  # the client decides what to run
        return self.rescue is Rescue.ALL or (tool is not None and tool.read_only)


class NativeSender:
    """The upstream takes tools. A call that it left in the text is rescued, by a rule."""

    def __init__(self, ids: CallIds, rule: RescueRule) -> None:
        self._ids = ids
        self._rule = rule

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Send the request as it is."""
        # Where no tool may be called, what looks like a call in the text is text. A model that has
        # called tools and may not any more means it as a call, though.
        rescues = silent or (
            request.choice.mode is not Mode.NONE and self._rule.rescue is not Rescue.OFF
        )
        offer = ReadOffer((spec.name, spec) for spec in request.tools)

        def make_reader(answer: Answer) -> Reader:
            def new_assembler(tools: Tools | None) -> TurnAssembler:
                hides = answer.hides_truncation
                make = partial(Assembler, hides_truncation=hides, ids=self._ids)
                if not rescues:
                    return EnforcingAssembler(request.choice, make(tools))
                return RescuingAssembler(
                    tools,
                    provenance=provenance_of(request.messages, offer),
                    may_start=self._rule.may_start,
                    choice=request.choice,
                    make=make,
                )

            limit = limit_of(answer.protocol, request)
            return Reader(answer.protocol, offer, new_assembler=new_assembler, max_tokens=limit)

        return Sent(request, make_reader, _preparation(AUTO, offer) if rescues else None)


class EmulatedSender:
    """The upstream takes no tools: they are written into the prompt, in a dialect."""

    def __init__(
        self, ids: CallIds, dialect: str | Dialect, *, constrain: Constraint | None = None
    ) -> None:
        self._ids = ids
        self._dialect = dialect
        self._constrain = constrain

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Send the request without tools."""
        emulated = emulate(request, self._dialect, constrain=self._constrain, silent=silent)

        def make_reader(answer: Answer) -> Reader:
            # A `{}` in the text was written by the model: no upstream puts it there for nothing.
            return emulated.reader(answer.protocol, within=partial(Assembler, ids=self._ids))

        dialect = with_unmarked(emulated.dialect)
        return Sent(emulated.request, make_reader, _preparation(dialect, emulated.known))


class UnforcedSender:
    """The upstream takes tools, but no demand to call one: that is put to it by constraining."""

    def __init__(self, native: NativeSender, constrained: EmulatedSender) -> None:
        self._native = native
        self._constrained = constrained

    def __call__(self, request: Request, *, silent: bool = False) -> Sent:
        """Send the request in one way or the other."""
        forced = request.choice.mode is Mode.REQUIRED
        return (self._constrained if forced else self._native)(request, silent=silent)


def sender_for(
    model: str,
    messages: tuple[Message, ...],
    *,
    taken: Iterable[str] = (),
    rule: RescueRule | None = None,
    emulation: str | Dialect | None = None,
) -> Sender:
    """Return the sender that offers tools to this model.

    `emulation` is a dialect, `native`, `constrained` or `auto`, which goes by the model's name;
    None is what suits its upstream. Without a `rule`, every tool is the client's. `taken` are
    ids of calls that are not in the messages.
    """
    ids = ids_of(messages, taken)
    if isinstance(emulation, Dialect):
        return EmulatedSender(ids, emulation)
    traits = traits_of(model)
    way = way_for(model, override=emulation or traits.emulation)
    constrained = EmulatedSender(ids, "constrained", constrain=traits.constraint)
    if way.means is Means.NATIVE:
        native = NativeSender(ids, rule or RescueRule(Toolbox()))
        return native if traits.forces_natively else UnforcedSender(native, constrained)
    if way.means is Means.CONSTRAINED:
        return constrained
    return EmulatedSender(ids, way.dialect)


def ids_of(messages: tuple[Message, ...], taken: Iterable[str] = ()) -> CallIds:
    """The ids that a conversation has used so far."""
    parts = (part for message in messages for part in message.parts)
    return CallIds({*taken, *(part.id for part in parts if isinstance(part, PastCall))})


# One turn: the model is asked, and its answer is read while calls already start.
#
# The stream is read on whatever the tools do. A call that is released before the stream's end
# starts at once; what is released by the end itself waits until the loop has seen the whole answer,
# because a bad end is a reason to ask again instead.


# They show a call being built; what they say is in the call that it becomes.
PASSING = (Grew, Proved)


class ReadAnswer(Value, frozen=True):
    """An answer, read to its end."""

    outcome: Outcome
    waiting: tuple[Call, ...]
    """Released by the end of the answer, and not started yet."""
    make_message: Callable[[], Message]

    @property
    def message(self) -> Message:
        """The answer as a message. No one needs it unless the conversation goes on here."""
        return self.make_message()


class Turn:
    """Reads one answer."""

    def __init__(
        self,
        *,
        emit: Callable[[list[Event]], None],
        start: Callable[[Call], None],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        self._emit = emit
        self._start = start
        self._room = room
        self._events: list[Event] = []
        self._protocol = ""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The answer as far as it is read."""
        return self._make_message().parts

    async def read(self, upstream: Upstream, sent: Sent) -> ReadAnswer:
        """Ask, and read until the answer is over."""
        self._protocol, prepared = upstream.protocol, None
        if sent.prepare is not None:
            prepared = asyncio.get_running_loop().run_in_executor(None, sent.prepare)
        try:
            async with upstream.answer(sent.request) as answer:
                self._protocol = answer.protocol
                if prepared is not None:
                    await prepared
                rest = await self._read_chunks(answer, sent)
        except UpstreamError as error:
            if error.quoted is None or not sent.request.tools:
                raise
            quoting = Answer(protocol=self._protocol, chunks=once(b""), streamed=False)
            rest = sent.make_reader(quoting).read_quoted(error.quoted, error.words)
        self._take(rest)
        waiting = tuple(event.call for event in rest if isinstance(event, Released))
        return ReadAnswer(collect(self._events), waiting, self._make_message)

    def _make_message(self) -> Message:
        return answer_message(map(_as_said, self._events), self._protocol)

    async def _read_chunks(self, answer: Answer, sent: Sent) -> list[Event]:
        """Take what comes; return what the end of the answer brought about."""
        make, large = sent.make_reader, is_large(sent.request)
        reader = await asyncio.to_thread(make, answer) if large else make(answer)
        if not answer.streamed:
            chunks = [chunk async for chunk in answer.chunks]
            read = partial(_read_whole, reader, chunks)
            return await asyncio.to_thread(read) if large else read()
        with EndOfStream(silence=answer.silence) as end:
            async for chunk in answer.chunks:
                feed = reader.feed
                events = await asyncio.to_thread(feed, chunk) if large else feed(chunk)
                self._take_now(events)
                await self._room()
                end.look(reader, events)
        return await asyncio.to_thread(reader.end) if large else reader.end()

    def _take_now(self, events: list[Event]) -> None:
        """Take events, and start each call before what came after it is shown."""
        begin = 0
        for end, event in enumerate(events, 1):
            if isinstance(event, Released):
                self._take(events[begin:end])
                self._start(event.call)
                begin = end
        self._take(events[begin:] if begin else events)

    def _take(self, events: list[Event]) -> None:
        self._events += [event for event in events if not isinstance(event, PASSING)]
        # Whatever is done to what is shown must not change what runs, nor the history.
        self._emit([Released(copy_call(e.call)) if isinstance(e, Released) else e for e in events])


def _read_whole(reader: Reader, chunks: list[Chunk]) -> list[Event]:
    """Read an answer that is not streamed."""
    return [event for chunk in chunks for event in reader.feed_response(chunk)] + reader.end()


def _as_said(event: Event) -> Event:
    """Return a rejected text without a name and an id as what it was: text."""
    return Text(event.raw) if isinstance(event, Rejected) and not event.id else event
