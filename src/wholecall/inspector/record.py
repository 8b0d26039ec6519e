"""One run while it goes on, and what is kept of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
    """A chunk as the upstream sent it."""

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
        self._growing: dict[tuple[str, int], GrowingText] = {}
        self._fresh: dict[tuple[str, int], list[str]] = {}
        """Pieces that are not events yet."""
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

    def take(self, at: float, item: object) -> None:
        """Take what happened at a time."""
        self._now = at - self.about.started
        take = _TAKES.get(type(item))
        if take is not None:
            take(self, item)
            return
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

    def _add(self, event: Fields) -> None:
        if len(self.events) >= self._most_events and event["kind"] != "over":
            self._left_out += 1
            return
        self._tally.take(event)
        self.events.append({"n": len(self.events), "at": round(self._now, 4), **event})

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
        self._grow(("grew", event.number), event.text)

    def _take_text(self, event: Text) -> None:
        self._grow(("text", 0), event.text)

    def _take_reasoning(self, event: Reasoning) -> None:
        self._grow(("reasoning", 0), event.text)

    def _grow(self, place: tuple[str, int], text: str) -> None:
        if len(text) > self._room:
            self._room = 0
            self._left_out += 1
            return
        self._room -= len(text)
        self._fresh.setdefault(place, []).append(text)

    def _join(self) -> None:
        """Make events of the pieces that came since the last one."""
        for place, pieces in self._fresh.items():
            text = "".join(pieces).encode("utf-8", "replace").decode()
            growing = self._growing.setdefault(place, GrowingText(self._quoting.hide))
            self._show(place, growing.add(text))
        self._fresh.clear()

    def _show(self, place: tuple[str, int], piece: Piece | None) -> None:
        if piece is None:
            return
        kind, number = place
        if piece.whole:
            self._take_back(kind, number)
        whole = {"whole": True} if piece.whole else {}
        self._add({"kind": kind, "number": number, "text": piece.text, **whole})

    def _take_back(self, kind: str, number: int) -> None:
        """Calls of earlier turns have the same numbers, and nothing to do with it."""
        for event in reversed(self.events):
            if event["kind"] == "turn":
                return
            if event["kind"] == kind and event["number"] == number:
                event["text"] = ""

    def _end_texts(self) -> None:
        for place, growing in self._growing.items():
            self._show(place, growing.end())
            if growing.has_secrets and self._answers:
                self._answers[-1].withhold()
        self._growing.clear()

    # ── Answers ───────────────────────────────────────────────────────────────────────

    def _take_asked(self, asked: Asked) -> None:
        self._join()
        request = asked.request
        title = f"{self.id}, answer {len(self._answers) + 1}"
        tools = () if request is None else request.tools
        self._answers.append(RawAnswer(title, tools, clock=lambda: self._now))
        if request is not None:
            self._add(encode_request(request, self._quoting, told=self._told))
            self._told = len(request.messages)

    def _take_received(self, received: Received) -> None:
        if self._answers:
            self._answers[-1].take(received.protocol, received.chunk, streamed=received.streamed)

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
        cases = [answer.write(self._quoting.hide) for answer in self._answers]
        return [case for case in cases if case]


_TAKES: Mapping[type, Callable[[Record, Any], None]] = {
    Grew: Record._take_grew,
    Text: Record._take_text,
    Reasoning: Record._take_reasoning,
    Note: Record._take_note,
    Asked: Record._take_asked,
    Received: Record._take_received,
}
