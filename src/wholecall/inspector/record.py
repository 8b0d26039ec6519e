"""One run while it goes on, and what is kept of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import msgspec

from wholecall.core.conversation import Request
from wholecall.core.values import Ended, Grew, Reasoning, Text
from wholecall.inspector.encoding import Fields, Quoting, encode_event, encode_request
from wholecall.inspector.growing import GrowingText, Piece
from wholecall.inspector.raw import RawAnswer
from wholecall.inspector.store import KeptRun
from wholecall.inspector.tally import Tally
from wholecall.protocols.reader import Chunk
from wholecall.runs.events import TurnStarted

MOST_EVENTS = 20_000
"""Of one run. Texts that grow are joined before they count."""
STEP = 0.1
"""Seconds in which pieces of a text are joined. A replay shows them one by one."""
MOST_GROWN = 4 * 1024 * 1024
"""Characters of texts and arguments of one run that are shown while they grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is known of a run when it begins."""

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


class Note(NamedTuple):
    """An event of somebody else's, ready to be shown."""

    fields: Fields


class Asked(NamedTuple):
    """A request goes to the upstream; None if its bytes pass through unread."""

    request: Request | None


class Received(NamedTuple):
    """A chunk as the upstream sent it. Further ones of the same answer come as plain bytes."""

    protocol: str
    chunk: Chunk
    streamed: bool = True


class _Place(NamedTuple):
    """A text that grows."""

    kind: str
    number: int = 0


class _Step(NamedTuple):
    """Pieces of a text that came at about the same time."""

    at: float
    pieces: list[str]


class Record:
    """Takes the events of one run, in one thread."""

    def __init__(
        self,
        about: About,
        quoting: Quoting,
        *,
        most_events: int = MOST_EVENTS,
        most_grown: int = MOST_GROWN,
    ) -> None:
        self.id = f"run_{secrets.token_hex(8)}"
        self.about = about
        self.events: list[Fields] = []
        """What happened so far, for the page. It only grows."""
        self.dropped = 0
        """Events that came faster than they could be written down."""
        self._quoting = quoting
        self._tally = Tally()
        self._growing: dict[_Place, GrowingText] = {}
        self._fresh: dict[_Place, list[_Step]] = {}
        """Pieces that are not events yet."""
        self._calls: dict[int, _Place] = {}
        # Where the last piece went: nearly always the next one goes there, too.
        self._last_place: _Place | None = None
        self._last_until = 0.0
        self._last_pieces: list[str] = []
        self._most_events = most_events
        self._room = most_grown
        self._left_out = 0
        self._answers: list[RawAnswer] = []
        self._told = 0
        self._now = 0.0
        self._published = 0
        self._began = time.time()
        self.head = self._describe()
        """What does not change any more."""
        self._add({"kind": "run", **self.head})

    # ── Taking ──────────────────────────────────────────────────────────────────────

    def take_all(self, items: Iterable[object]) -> None:
        """Take what happened; a number is the time of what stands behind it."""
        started = self.about.started
        for item in items:
            kind = type(item)
            if kind is float:
                self._now = cast(float, item) - started
            elif kind is bytes and self._answers:
                self._answers[-1].take_bytes(self._now, cast(bytes, item))
            else:
                _TAKES.get(kind, Record._take_event)(self, item)

    def _take_event(self, item: object) -> None:
        self._join()
        if isinstance(item, TurnStarted | Ended):
            self._end_texts()
        event = encode_event(item, self._quoting)
        if event is not None:
            self._add(event)

    def publish(self) -> list[Fields]:
        """The events since the last time."""
        self._join()
        fresh = self.events[self._published :]
        self._published = len(self.events)
        return fresh

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._tally.over is not None

    def _add(self, event: Fields, *, at: float | None = None) -> None:
        if len(self.events) >= self._most_events and event["kind"] != "over":
            self._left_out += 1
            return
        self._tally.take(event)
        at = round(self._now if at is None else at, 4)
        self.events.append({"n": len(self.events), "at": at, **event})

    def _take_note(self, note: Note) -> None:
        self._join()
        if note.fields["kind"] == "over":
            self._end_texts()
            if self._lost:
                self._add({"kind": "dropped", "events": self._lost})
        clean = self._quoting.clean
        texts = {name: clean(text) for name, text in note.fields.items() if isinstance(text, str)}
        self._add({**note.fields, **texts})

    @property
    def _lost(self) -> int:
        return self.dropped + self._left_out

    # ── Texts that grow ─────────────────────────────────────────────────────────────

    def _take_grew(self, event: Grew) -> None:
        place = self._calls.get(event.number)
        if place is None:
            place = self._calls[event.number] = _Place("grew", event.number)
        self._grow(place, event.text)

    def _take_text(self, event: Text) -> None:
        self._grow(_TEXT, event.text)

    def _take_reasoning(self, event: Reasoning) -> None:
        self._grow(_REASONING, event.text)

    def _grow(self, place: _Place, text: str) -> None:
        self._room -= len(text)
        if self._room < 0:
            self._room = 0
            self._left_out += 1
            return
        now = self._now
        if place is self._last_place and now < self._last_until:
            self._last_pieces.append(text)
            return
        steps = self._fresh.setdefault(place, [])
        if not steps or now - steps[-1].at >= STEP:
            steps.append(_Step(now, []))
        at, self._last_pieces = steps[-1]
        self._last_place, self._last_until = place, at + STEP
        self._last_pieces.append(text)

    def _join(self) -> None:
        """Make events of the pieces that came since the last one."""
        if not self._fresh:
            return
        fresh, self._fresh, self._last_place = self._fresh, {}, None
        shown: list[tuple[float, _Place, str]] = []
        for place, steps in fresh.items():
            texts = [_clean("".join(step.pieces)) for step in steps]
            growing = self._growing.get(place)
            if growing is None:
                growing = self._growing[place] = GrowingText(self._quoting.hides)
            piece = growing.add(texts[0] if len(texts) == 1 else "".join(texts))
            if piece is not None and piece.whole:
                self._replace(place, piece)
            elif piece is not None:
                shown += ((step.at, place, text) for step, text in zip(steps, texts, strict=True))
        for at, place, text in sorted(shown) if len(fresh) > 1 else shown:
            self._add({"kind": place.kind, "number": place.number, "text": text}, at=at)

    def _replace(self, place: _Place, piece: Piece | None) -> None:
        """Show the whole of a text anew, without what should not have been seen of it."""
        if piece is None:
            return
        self._take_back(place)
        told = {"kind": place.kind, "number": place.number, "text": piece.text, "whole": True}
        self._add(told)

    def _take_back(self, place: _Place) -> None:
        """Calls of earlier turns have the same numbers, and nothing to do with it."""
        for event in reversed(self.events):
            if event["kind"] == "turn":
                return
            if event["kind"] == place.kind and event["number"] == place.number:
                event["text"] = ""

    def _end_texts(self) -> None:
        for place, growing in self._growing.items():
            self._replace(place, growing.end())
            if growing.has_secrets and self._answers:
                self._answers[-1].withhold()
        self._growing.clear()

    # ── Answers ───────────────────────────────────────────────────────────────────────

    def _take_asked(self, asked: Asked) -> None:
        self._join()
        request = asked.request
        title = f"{self.id}, answer {len(self._answers) + 1}"
        tools = () if request is None else request.tools
        self._answers.append(RawAnswer(title, tools, began=self._now))
        if request is not None:
            self._add(encode_request(request, self._quoting, told=self._told))
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
            "began": self._began,
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
            began=self._began,
            key=self.about.key,
            model=self.head["model"],
            summary={**self.head, **self._tally.summarise(), "dropped": self._lost},
            calls=tuple(self._tally.calls.values()),
            oddities=dict(self._tally.oddities),
            events=msgspec.json.encode(self.events).decode(),
            answers=tuple(self._write_answers()),
        )

    def _write_answers(self) -> list[str]:
        """The cases of all answers, as far as they were received whole."""
        if self.dropped:
            return []
        cases = [answer.write(self._quoting.hides) for answer in self._answers]
        return [case for case in cases if case]


def _clean(text: str) -> str:
    """A text without halves of characters, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_TEXT = _Place("text")
_REASONING = _Place("reasoning")
_TAKES: Mapping[type, Callable[[Record, Any], None]] = {
    Grew: Record._take_grew,
    Text: Record._take_text,
    Reasoning: Record._take_reasoning,
    Note: Record._take_note,
    Asked: Record._take_asked,
    Received: Record._take_received,
}
