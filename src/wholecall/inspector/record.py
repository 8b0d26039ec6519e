"""One run while it goes on, and what is kept of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import getrandbits
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from wholecall.core.conversation import Request
from wholecall.core.values import Ended, Grew, Reasoning, Text
from wholecall.inspector.encoding import Fields, Quoting, encode_event, encode_request
from wholecall.inspector.raw import RawAnswer
from wholecall.inspector.store import KeptRun
from wholecall.inspector.tally import Tally
from wholecall.inspector.texts import MOST_GROWN, REASONING, TEXT, GrowingTexts, Grown, Place
from wholecall.protocols.reader import Chunk
from wholecall.runs.events import TurnStarted

MOST_EVENTS = 20_000
"""Of one run. Texts that grow are joined before they count."""


@dataclass(slots=True, kw_only=True)
class About:
    """What is known of a run when it begins. It does not change."""

    request_id: str
    model: str = ""
    key: str = ""
    """Whose it is: the id of a client's key."""
    protocol: str = ""
    """The client's."""
    upstream: str = ""
    """The upstream's protocol."""
    upstream_model: str = ""
    way: str = ""
    stream: bool = False
    started: float = field(default_factory=time.perf_counter)
    """By the clock of the events."""
    began: float = field(default_factory=time.time)
    """In seconds since 1970."""


class Asked(NamedTuple):
    """A request goes to the upstream; None if its bytes pass through unread."""

    request: Request | None


Notes: TypeAlias = Mapping[type, Callable[[Any, Quoting], Fields]]
"""What is told of each type of event that others know. One of the kind `over` is the last."""


class Received(NamedTuple):
    """A chunk as the upstream sent it. Further ones of the same answer come as plain bytes."""

    protocol: str
    chunk: Chunk
    streamed: bool = True


class Record:
    """Takes the events of one run, in one thread."""

    def __init__(
        self,
        about: About,
        quoting: Quoting,
        *,
        notes: Notes | None = None,
        most_events: int = MOST_EVENTS,
        most_grown: int = MOST_GROWN,
    ) -> None:
        # It begins with the time: in the file neighbours then stand beside each other. It is no
        # secret, and whoever asks the system for one lets the streams' thread go first.
        self.id = f"run_{int(about.began * 1000):011x}{getrandbits(32):08x}"
        self.about = about
        self.dropped = 0
        """Events that came faster than they could be written down."""
        self._quoting = quoting
        self._notes = notes or {}
        self._most_events = most_events
        self._tally = Tally()
        self._most_grown = most_grown
        self._texts: GrowingTexts | None = None
        """Made when there is one."""
        self._left_out = 0
        self._answers: list[RawAnswer] = []
        self._told = 0
        self._now = 0.0
        self._published = 0
        self.head = self._describe()
        """What does not change any more."""
        self.events: list[Fields] = [{"kind": "run", "n": 0, "at": 0.0, **self.head}]
        """What happened so far, for the page. It only grows."""

    # ── Taking ──────────────────────────────────────────────────────────────────────

    def take_all(self, items: Iterable[object]) -> None:
        """Take what happened; a number is the time of what stands behind it."""
        started, takes = self.about.started, _TAKES
        for item in items:
            kind = type(item)
            if kind is float:
                self._now = cast(float, item) - started
            elif kind is bytes and self._answers:
                self._answers[-1].take(self._now, cast(bytes, item))
            elif kind in takes:
                takes[kind](self, item)
            else:
                self._take_event(kind, item)

    def _take_event(self, kind: type, item: object) -> None:
        if self._texts is not None:
            self.join()
        if kind in _ENDS_OF_TEXTS:
            self._end_texts()
        note = self._notes.get(kind)
        event = encode_event(item, self._quoting) if note is None else note(item, self._quoting)
        if event is None:
            return
        if event["kind"] == "over":
            self._end()
        self._add(event, self._now)

    def _end(self) -> None:
        self._end_texts()
        if self._lost:
            self._add({"kind": "dropped", "events": self._lost}, self._now)

    def publish(self) -> list[Fields]:
        """The events since the last time."""
        fresh = self.events[self._published :]
        self._published = len(self.events)
        return fresh

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._tally.over is not None

    def _add(self, event: Fields, at: float) -> None:
        number = len(self.events)
        if number >= self._most_events and event["kind"] != "over":
            self._left_out += 1
            return
        self._tally.take(event)
        event["n"], event["at"] = number, round(at, 4)
        self.events.append(event)

    @property
    def _lost(self) -> int:
        left_out = 0 if self._texts is None else self._texts.left_out
        return self.dropped + self._left_out + left_out

    # ── Texts that grow ─────────────────────────────────────────────────────────────

    def _take_grew(self, event: Grew) -> None:
        texts = self._texts or self._begin_texts()
        texts.add_arguments(self._now, event.number, text=event.text)

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
        event: Fields = {"kind": kind, "number": number, "text": grown.text}
        if grown.whole:
            # It is shown anew, without what should not have been seen of it.
            self._take_back(grown.place)
            event["whole"] = True
        self._add(event, grown.at)

    def _take_back(self, place: Place) -> None:
        """Calls of earlier turns have the same numbers, and nothing to do with it."""
        for event in reversed(self.events):
            if event["kind"] == "turn":
                return
            if event["kind"] == place.kind and event["number"] == place.number:
                event["text"] = ""

    def _end_texts(self) -> None:
        for grown in () if self._texts is None else self._texts.end(self._now):
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
            tools = () if request is None else request.tools
            self._answers.append(RawAnswer(title, tools, began=self._now))
        if request is not None:
            self._add(encode_request(request, self._quoting, told=self._told), self._now)
            self._told = len(request.messages)

    def _take_received(self, received: Received) -> None:
        if self._answers:
            self._answers[-1].describe(received.protocol, streamed=received.streamed)
            self._answers[-1].take(self._now, received.chunk)

    # ── Keeping ─────────────────────────────────────────────────────────────────────

    def _describe(self) -> Fields:
        about, quoting = self.about, self._quoting
        return {
            "id": self.id,
            "began": about.began,
            "request_id": about.request_id,
            "model": quoting.name(about.model),
            "protocol": about.protocol,
            "upstream": about.upstream,
            "upstream_model": quoting.name(about.upstream_model),
            "way": about.way,
            "stream": about.stream,
            "bodies": quoting.bodies,
        }

    def keep(self) -> KeptRun:
        """What goes into the file."""
        return KeptRun(
            id=self.id,
            began=self.about.began,
            key=self.about.key,
            model=self.head["model"],
            summary={**self.head, **self._tally.summarise(), "dropped": self._lost},
            calls=tuple(self._tally.calls.values()),
            oddities=self._tally.oddities,
            events=msgspec.json.encode(self.events),
            answers=tuple(self._write_answers()),
        )

    def _write_answers(self) -> Iterator[bytes]:
        """All answers, as far as they were received whole."""
        if not self.dropped:
            written = (answer.write(self._quoting.hides) for answer in self._answers)
            yield from filter(None, written)


_ENDS_OF_TEXTS = frozenset({TurnStarted, Ended})
_TAKES: Mapping[type, Callable[[Record, Any], None]] = {
    Grew: Record._take_grew,
    Text: Record._take_text,
    Reasoning: Record._take_reasoning,
    Asked: Record._take_asked,
    Received: Record._take_received,
}
