"""One run while it is running, and what is stored of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import getrandbits
from typing import Any, NamedTuple, cast

import msgspec

from wholecall.core.conversation import Request
from wholecall.core.values import Ended, Grew, Reasoning, Text
from wholecall.inspector import shown
from wholecall.inspector.encoding import ENCODERS, Encoders, Quoting, encode_request
from wholecall.inspector.kept import Batch, KeptRun, write_runs
from wholecall.inspector.raw import RawAnswer
from wholecall.inspector.shown import AnyShown, Shown
from wholecall.inspector.texts import MOST_GROWN, REASONING, TEXT, GrowingTexts, Grown, Place
from wholecall.protocols.reader import Chunk
from wholecall.runs.events import TurnStarted
from wholecall.upstreams.recorder import describe_offer

MOST_EVENTS = 20_000
"""Of one run. Texts that grow are joined before they count."""


class About(msgspec.Struct, frozen=True, gc=False):
    """Facts about a run at its beginning."""

    head: shown.Run
    key: str
    """Whose it is: the id of a client's key."""
    started: float
    """By the clock of the events."""


def make_id(began: float) -> str:
    """An id for a run that began at this time."""
    # It begins with the time, so that neighbours are adjacent in the file. It is not a secret, and
    # reading the system's random source would release the interpreter lock.
    return f"run_{int(began * 1000) << 32 | getrandbits(32):x}"


class Asked(NamedTuple):
    """A request goes to the upstream; None if its bytes pass through unread."""

    request: Request | None


class Form(NamedTuple):
    """The form of the chunks that follow."""

    protocol: str
    """The upstream's."""
    streamed: bool = True
    """Otherwise there is one: the whole answer."""


class Received(NamedTuple):
    """A chunk that is not bytes. All others come as they are."""

    chunk: Chunk


class Record:
    """Takes the events of one run, in one thread."""

    __slots__ = (
        *("about", "dropped", "events", "head", "id", "is_over"),
        *("_encoders", "_most_events", "_most_grown", "_quoting"),
        *("_answers", "_left_out", "_now", "_published", "_texts", "_told"),
    )

    def __init__(
        self,
        about: About,
        quoting: Quoting,
        *,
        encoders: Encoders = ENCODERS,
        most_events: int = MOST_EVENTS,
        most_grown: int = MOST_GROWN,
    ) -> None:
        self.about = about
        self.dropped = 0
        """Events that came faster than they could be written down."""
        self.is_over = False
        """True if nothing more comes."""
        self._quoting = quoting
        self._encoders = encoders
        self._most_events = most_events
        self._most_grown = most_grown
        self._texts: GrowingTexts | None = None
        """Made when there is one."""
        self._left_out = 0
        self._answers: list[RawAnswer] = []
        self._told = 0
        self._now = 0.0
        self._published = 0
        self.head = about.head
        """The part that does not change any more."""
        self.id = self.head.id
        self.events: list[Shown] = [self.head]
        """The events so far, for the page. It only grows."""

    # ── Taking ──────────────────────────────────────────────────────────────────────

    def take_all(self, items: Iterable[Any]) -> None:
        """Take events; a number is the time of what follows it. An encoded event may come in the
        place of an event."""
        started, encoders, quoting = self.about.started, self._encoders, self._quoting
        answers = self._answers
        for item in items:
            kind = type(item)
            if kind is float:
                self._now = item - started
            elif encode := encoders.get(kind):
                if self._texts is not None:
                    self._interrupt_texts(kind)
                self._add(encode(item, quoting), self._now)
            elif kind is bytes and answers:
                answers[-1].take(self._now, item)
            elif kind in _TAKES:
                _TAKES[kind](self, item)
            elif isinstance(item, Shown):
                self._add(item, self._now)
        self._limit_answer()

    def _interrupt_texts(self, kind: type) -> None:
        self.join()
        if kind in _ENDS_OF_TEXTS and self._texts is not None:
            self._end_texts(self._texts)

    def _end(self) -> None:
        if self._texts is not None:
            self._end_texts(self._texts)
        if self._lost:
            self._add(shown.Dropped(self._lost), self._now)

    def publish(self) -> list[Shown]:
        """The events since the last time."""
        fresh = self.events[self._published :]
        self._published = len(self.events)
        return fresh

    def _add(self, event: Shown, at: float) -> None:
        if self.is_over:
            return  # what comes now is about the client's connection
        is_end = type(event) is shown.Over
        if is_end:
            self._end()
            self.is_over = True
        number = len(self.events)
        if number >= self._most_events and not is_end:
            self._left_out += 1
            return
        event.n, event.at = number, at
        self.events.append(event)

    @property
    def _lost(self) -> int:
        left_out = 0 if self._texts is None else self._texts.left_out
        return self.dropped + self._left_out + left_out

    # ── Texts that grow ─────────────────────────────────────────────────────────────

    def _take_grew(self, event: Grew) -> None:
        texts = self._texts or self._begin_texts()
        texts.add(self._now, texts.find_call(event.number), text=event.text)

    def _take_text(self, event: Text) -> None:
        texts = self._texts or self._begin_texts()
        texts.add(self._now, TEXT, text=event.text)

    def _take_reasoning(self, event: Reasoning) -> None:
        texts = self._texts or self._begin_texts()
        texts.add(self._now, REASONING, text=event.text)

    def _begin_texts(self) -> GrowingTexts:
        self._texts = GrowingTexts(self._quoting.hides, most=self._most_grown)
        return self._texts

    def join(self) -> None:
        """Make events of the pieces of texts that came since the last one."""
        if self._texts is not None and self._texts.fresh:
            for grown in self._texts.join(self._now):
                self._show(grown)

    def _show(self, grown: Grown) -> None:
        kind, number = grown.place
        if grown.whole:
            # It is shown anew, without what should not have been seen of it.
            self._take_back(grown.place)
        self._add(_GROWING[kind](number, grown.text, whole=grown.whole), grown.at)

    def _take_back(self, place: Place) -> None:
        """Calls of earlier turns have the same numbers, and nothing to do with it."""
        kind = _GROWING[place.kind]
        for event in reversed(self.events):
            if isinstance(event, shown.Turn):
                return
            if isinstance(event, kind) and event.number == place.number:
                event.text = ""

    def _end_texts(self, texts: GrowingTexts) -> None:
        for grown in texts.end(self._now):
            if grown.whole:
                self._show(grown)
            if self._answers:
                self._answers[-1].hear(grown.text, is_clean=not grown.whole)

    # ── Answers ───────────────────────────────────────────────────────────────────────

    def _take_asked(self, asked: Asked) -> None:
        if self._texts is not None:
            self.join()
        request = asked.request
        if self._quoting.bodies:
            title = f"{self.id}, answer {len(self._answers) + 1}"
            self._answers.append(RawAnswer(title, describe_offer(request), began=self._now))
        if request is not None:
            self._add(encode_request(request, self._quoting, told=self._told), self._now)
            self._told = len(request.messages)

    def _limit_answer(self) -> None:
        if self._answers:
            self._answers[-1].limit()

    def _take_form(self, form: Form) -> None:
        if self._answers:
            self._answers[-1].describe(form.protocol, streamed=form.streamed)

    def _take_received(self, received: Received) -> None:
        if self._answers:
            self._answers[-1].take(self._now, received.chunk)

    # ── Keeping ─────────────────────────────────────────────────────────────────────

    def keep(self) -> Batch:
        """Return the batch for the file, when the run is over."""
        events = cast(list[AnyShown], self.events)
        run = KeptRun(events, self.about.key, self._lost)
        answers = self._write_answers() if self._answers else ()
        return Batch(self.head.began, write_runs([run]), answers=answers)

    def _write_answers(self) -> Sequence[bytes]:
        """All answers, as far as they were received whole."""
        if self.dropped:
            return ()
        written = [answer.write(self._quoting.hides) for answer in self._answers]
        return tuple(filter(None, written))


_GROWING: Mapping[str, type[shown.Growing]] = {
    "grew": shown.Grew,
    "text": shown.Text,
    "reasoning": shown.Reasoning,
}
_ENDS_OF_TEXTS = frozenset({TurnStarted, Ended})
_TAKES: Mapping[type, Callable[[Record, Any], None]] = {
    Grew: Record._take_grew,
    Text: Record._take_text,
    Reasoning: Record._take_reasoning,
    Asked: Record._take_asked,
    Form: Record._take_form,
    Received: Record._take_received,
}
