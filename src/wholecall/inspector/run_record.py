"""Record one run while it is running; read it as it is stored, with its summary.

Most stored runs are never viewed. So a run is stored as its events, and figures such as refusals
per tool are counted when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import getrandbits
from typing import Any, NamedTuple

import msgspec

from wholecall.agent.run_events import TurnStarted
from wholecall.events import Ended, Grew, Reasoning, Text
from wholecall.inspector.captured_answer import CapturedAnswer
from wholecall.inspector.page_encoder import (
    ENCODERS,
    Encoders,
    Fields,
    Quoting,
    SecretFilter,
    encode_request,
)
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.upstreams.replay import describe_request


class StoredRun(msgspec.Struct, array_like=True, gc=False):
    """The events of a run that does not change any more."""

    events: Sequence[Fields]
    """All of them: the first tells how it began, the last how it ended."""
    key: str = ""
    """Whose it is: the id of a client's key."""
    dropped: int = 0
    """Events that were left out."""

    @property
    def head(self) -> Fields:
        """The first event."""
        return self.events[0]

    @property
    def over(self) -> Fields:
        """The last event."""
        return self.events[-1]


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Runs that are over, for the file: they are written together, and go together."""

    began: float
    """The start of the latest of them, in seconds since 1970."""
    content: bytes
    """The runs as a JSON array."""
    runs: int = 1
    answers: Sequence[bytes] = ()
    """The upstreams' answers, as `CapturedAnswer.write` writes them. A run that has any is alone in
    its batch."""


_DECODER = msgspec.json.Decoder(list[StoredRun])


def write_run(run: StoredRun, answers: Sequence[bytes] = ()) -> Batch:
    """Return the batch of one run. `TypeError`, `ValueError` and the like if it cannot be
    written."""
    return Batch(run.head["began"], msgspec.json.encode([run]), answers=answers)


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Return one batch with all of these runs."""
    began, runs = max(batch.began for batch in batches), sum(batch.runs for batch in batches)
    return Batch(began, b"[%b]" % b",".join([batch.content[1:-1] for batch in batches]), runs)


def read_runs(content: bytes) -> list[StoredRun]:
    """Read the runs of a batch."""
    return _DECODER.decode(content)


# ── The summary ─────────────────────────────────────────────────────────────────────

_PLACE = frozenset({"type", "n", "at"})
"""Fields that only give an event's position among the others."""
_SUCCESSES = frozenset({"", "done"})
"""Statuses of calls that need no mention; an empty one did not run here."""
_ANSWERED = "answer"
_SHOWN, _READ = 160, 1000
"""Characters of a question in the list, and those that are read for it."""


class CallTally(msgspec.Struct, kw_only=True):
    """One call of a run. Its fields are the columns of its row."""

    turn: int
    number: int
    name: str = ""
    verdict: str = ""
    """`released`, `repaired` (which is released, too), `rejected`; empty if it never had one."""
    reason: str = ""
    status: str = ""
    """The status of running it here."""
    seconds: float | None = None


class Sums(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The sums of a run for its line in the list. Empty fields are omitted."""

    turns: int
    calls: int
    question: str = ""
    """The beginning of what was asked, where bodies are kept."""
    stop: str = ""
    """Why the run ended, if not with an answer."""
    tools: Sequence[str] = ()
    verdicts: Mapping[str, int] = {}
    reasons: Sequence[str] = ()
    statuses: Mapping[str, int] = {}
    """Calls that did not succeed, by their status."""
    oddities: Mapping[str, int] = {}
    faults: Mapping[str, int] = {}
    input_tokens: int
    output_tokens: int
    dropped: int
    """Events that were left out."""


class RunSummary:
    """Counts the events of one run."""

    def __init__(self, events: Iterable[Fields] = ()) -> None:
        self.turns = 0
        self.calls: dict[tuple[int, int], CallTally] = {}
        self.oddities: dict[str, int] = {}
        self._faults: dict[str, int] = {}
        self.question = ""
        self.stop = ""
        self._ids: dict[str, CallTally] = {}
        self._tokens = {"input_tokens": 0, "output_tokens": 0}
        self._usage: dict[str, int] = {}
        """Of the current turn."""
        for event in events:
            count = _COUNTS.get(event["type"])
            if count is not None:
                count(self, event)

    def sum_up(self, *, dropped: int = 0) -> Sums:
        """Return the sums of all events."""
        calls = self.calls.values()
        return Sums(
            turns=self.turns or 1,
            calls=len(calls),
            question=self.question,
            stop=self.stop,
            tools=tuple(sorted({call.name for call in calls if call.name})),
            verdicts=_count(call.verdict for call in calls if call.verdict),
            reasons=tuple(sorted({call.reason for call in calls if call.reason})),
            statuses=_count(call.status for call in calls if call.status not in _SUCCESSES),
            oddities=self.oddities,
            faults=self._faults,
            dropped=dropped,
            **self._tokens,
        )

    def _ask(self, event: Fields) -> None:
        """Take the question: the user's last words in the first request."""
        asked = [message for message in event.get("messages", ()) if message["role"] == "user"]
        words = next((message["text"] for message in reversed(asked) if message.get("text")), "")
        self.question = self.question or " ".join(words[:_READ].split())[:_SHOWN]

    def _stop(self, event: Fields) -> None:
        self.stop = "" if event["stop"] == _ANSWERED else event["stop"]

    def _call(self, number: int) -> CallTally:
        tally = CallTally(turn=self.turns, number=number)
        return self.calls.setdefault((self.turns, number), tally)

    def _begin_turn(self, _: Fields) -> None:
        self.turns += 1

    def _open(self, event: Fields) -> None:
        self._call(event["number"]).name = event.get("name", "")

    def _release(self, event: Fields) -> None:
        shown = event["call"]
        call = self._ids[shown.get("id", "")] = self._call(shown["number"])
        call.name = shown.get("name", "")
        call.verdict = "repaired" if "repairs" in shown else "released"

    def _reject(self, event: Fields) -> None:
        call = self._call(event["number"])
        call.name = event.get("name", call.name)
        call.verdict, call.reason = "rejected", event["reason"]

    def _drop_repeated(self, event: Fields) -> None:
        self.calls.pop((self.turns, event["number"]), None)

    def _end_tool(self, event: Fields) -> None:
        call = self._ids.get(event["call"]["id"])
        if call is not None:
            call.status, call.seconds = event["status"], event["seconds"]

    def _take_oddity(self, event: Fields) -> None:
        _count_one(self.oddities, event["oddity"])

    def _take_fault(self, event: Fields) -> None:
        _count_one(self._faults, event["kind"])

    def _take_usage(self, event: Fields) -> None:
        """Take usage, which is reported repeatedly and in parts during a turn; the last value of
        each counts."""
        self._usage |= {name: event[name] for name in self._tokens if name in event}

    def _end_turn(self, _: Fields) -> None:
        for name, count in self._usage.items():
            self._tokens[name] += count
        self._usage.clear()


def _count(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        _count_one(counts, word)
    return counts


# A `Counter` takes ten times as long to make as a dict, and nearly all of them stay empty.
def _count_one(counts: dict[str, int], word: str) -> None:
    counts[word] = counts.get(word, 0) + 1


_COUNTS: Mapping[str, Callable[[RunSummary, Fields], None]] = {
    "UpstreamAsked": RunSummary._ask,
    "RunEnded": RunSummary._stop,
    "TurnStarted": RunSummary._begin_turn,
    "Opened": RunSummary._open,
    "Released": RunSummary._release,
    "Rejected": RunSummary._reject,
    "Repeated": RunSummary._drop_repeated,
    "ToolEnded": RunSummary._end_tool,
    "Inconsistent": RunSummary._take_oddity,
    "Fault": RunSummary._take_fault,
    "Usage": RunSummary._take_usage,
    "Ended": RunSummary._end_turn,
}
"""The counter for each type of event; others are not counted."""


class Digest(NamedTuple):
    """All that is counted of a run: its rows in the tables of the index."""

    line: tuple[object, ...]
    """Its id, key, beginning, model, end, code and stop, and its line in the list: the beginning,
    the sums and the end, as a JSON array."""
    calls: Sequence[tuple[object, ...]]
    oddities: Sequence[tuple[str, int]]


def digest(run: StoredRun) -> Digest:
    """Count what happened in a run."""
    head, over, tally = run.head, run.over, RunSummary(run.events)
    summary = msgspec.json.encode((head, tally.sum_up(dropped=run.dropped), over)).decode()
    ended = over["fate"], over.get("code", ""), tally.stop
    line = (head["id"], run.key, head["began"], head.get("model", ""), *ended, summary)
    calls = tuple([msgspec.structs.astuple(call) for call in tally.calls.values()])
    return Digest(line, calls, tuple(tally.oddities.items()))


def read_summary(summary: str) -> Fields:
    """A run in a line of the list."""
    parts: Any = msgspec.json.decode(summary)
    return {name: value for part in parts for name, value in part.items() if name not in _PLACE}


STEP = 0.1
"""Seconds in which pieces of a text are joined. A replay shows them one by one."""
MOST_GROWN = 4 * 1024 * 1024
"""Characters of texts and arguments of one run that are shown while they grow."""


class Piece(NamedTuple):
    """The next piece of a text to show."""

    text: str
    whole: bool = False
    """It takes the place of all that was shown before."""


class GrowingText:
    """One text, as far as it has come."""

    __slots__ = ("_hides", "_pieces", "_tail", "has_secrets")

    def __init__(self, hides: SecretFilter) -> None:
        self._hides = hides
        self._pieces: list[str] = []
        self._tail = ""
        self.has_secrets = False

    def add(self, text: str) -> Piece | None:
        """Take a piece. After a secret nothing more is shown until the end."""
        self._pieces.append(text)
        if self.has_secrets:
            return None
        seen = self._tail + text
        self._tail = self._hides.tail(seen)
        self.has_secrets = self._hides.hide(seen) != seen
        return self.end() if self.has_secrets else Piece(text)

    def end(self) -> Piece:
        """The whole text; it takes the place of what was shown if that is another."""
        text = "".join(self._pieces)
        return Piece(self._hides.hide(text), whole=True) if self.has_secrets else Piece(text)


class TextPlace(NamedTuple):
    """One of the texts of a turn."""

    type: str
    """Of the events by which it grows."""
    number: int = 0
    """Of the call, if the text is its arguments."""


TEXT = TextPlace("Text")
REASONING = TextPlace("Reasoning")


class Grown(NamedTuple):
    """The next piece to show, and where."""

    at: float
    place: TextPlace
    text: str
    whole: bool = False
    """It takes the place of all that was shown of this text before."""


class _Step(NamedTuple):
    """Pieces of a text that came at about the same time."""

    at: float
    pieces: list[str]


class GrowingTexts:
    """What the model says, what it thinks, and the arguments of its calls, turn after turn.

    Pieces that came at about the same time are joined before anything is made of them.
    """

    def __init__(self, hides: SecretFilter, *, most: int = MOST_GROWN) -> None:
        self._hides = hides
        self._room = most
        self.left_out = 0
        """Pieces for which there was no room."""
        self._growing: dict[TextPlace, GrowingText] = {}
        self.fresh: dict[TextPlace, list[_Step]] = {}
        """Pieces that are not shown yet."""
        self._calls: dict[int, TextPlace] = {}
        # Where the last piece went: nearly always the next one goes there, too.
        self._last_place: TextPlace | None = None
        self._last_until = 0.0
        self._last_pieces: list[str] = []

    def find_call(self, number: int) -> TextPlace:
        """Return the text of a call's arguments."""
        place = self._calls.get(number)
        if place is None:
            place = self._calls[number] = TextPlace("Grew", number)
        return place

    def add(self, now: float, place: TextPlace, *, text: str) -> None:
        """The next piece of a text."""
        self._room -= len(text)
        if self._room < 0:
            self._room = 0
            self.left_out += 1
            return
        if place is self._last_place and now < self._last_until:
            self._last_pieces.append(text)
            return
        steps = self.fresh.setdefault(place, [])
        if not steps or now - steps[-1].at >= STEP:
            steps.append(_Step(now, []))
        at, self._last_pieces = steps[-1]
        self._last_place, self._last_until = place, at + STEP
        self._last_pieces.append(text)

    def join(self, now: float) -> list[Grown]:
        """Return the text since the last call, in the order of its times; replaced text first."""
        fresh, self.fresh, self._last_place = self.fresh, {}, None
        replaced: list[Grown] = []
        shown: list[Grown] = []
        for place, steps in fresh.items():
            texts = [_clean("".join(step.pieces)) for step in steps]
            growing = self._growing.get(place)
            if growing is None:
                growing = self._growing[place] = GrowingText(self._hides)
            piece = growing.add(texts[0] if len(texts) == 1 else "".join(texts))
            if piece is not None and piece.whole:
                replaced.append(Grown(now, place, piece.text, whole=True))
            elif piece is not None:
                times = zip(steps, texts, strict=True)
                shown += (Grown(step.at, place, text) for step, text in times)
        return [*replaced, *(sorted(shown) if len(fresh) > 1 else shown)]

    def end(self, now: float) -> Iterator[Grown]:
        """The texts of a turn are over: each as it came, or anew and without its secrets."""
        for place, growing in self._growing.items():
            piece = growing.end()
            yield Grown(now, place, piece.text, whole=piece.whole)
        self._growing.clear()


def _clean(text: str) -> str:
    """A text without halves of characters, which UTF-8 does not have."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


MOST_EVENTS = 20_000
"""Of one run. Texts that grow are joined before they count."""
END = "ExchangeEnded"
"""The type of the last event of a run."""
_TICKS = 10_000
"""Per second: a browser does not return all digits of a position in a run."""


class About(msgspec.Struct, frozen=True, gc=False):
    """Facts about a run at its beginning."""

    head: Fields
    """Its first event, with `id` and `began`."""
    key: str
    """Whose it is: the id of a client's key."""
    started: float
    """By the clock of the events."""


def make_id(began: float) -> str:
    """An id for a run that began at this time."""
    # It begins with the time, so that neighbours are adjacent in the file. It is not a secret, and
    # reading the system's random source would release the interpreter lock.
    return f"run_{int(began * 1000) << 32 | getrandbits(32):x}"


class RecordedRequest(NamedTuple):
    """A request goes to the upstream; None if its bytes pass through unread."""

    request: Request | None


class RecordedForm(NamedTuple):
    """The form of the chunks that follow."""

    protocol: str
    """The upstream's."""
    streamed: bool = True
    """Otherwise there is one: the whole answer."""


class RecordedChunk(NamedTuple):
    """A chunk that is not bytes. All others come as they are."""

    chunk: Chunk


class RecordLimits(NamedTuple):
    """Limits of what is recorded of one run."""

    events: int = MOST_EVENTS
    grown: int = MOST_GROWN


USUAL_LIMITS = RecordLimits()


class Record:
    """Takes the events of one run, in one thread."""

    def __init__(
        self,
        about: About,
        quoting: Quoting,
        *,
        encoders: Encoders = ENCODERS,
        limits: RecordLimits = USUAL_LIMITS,
    ) -> None:
        self.about = about
        self.events: list[Fields] = []
        """The events so far, for the page. It only grows."""
        self.dropped = 0
        """Events that came faster than they could be written down."""
        self.is_over = False
        """True if nothing more comes."""
        self._quoting = quoting
        self._encoders = encoders
        self._limits = limits
        self._texts: GrowingTexts | None = None
        """Made when there is one."""
        self._answers: list[CapturedAnswer] = []
        self._left_out = 0
        self._told = 0
        """Messages of the last request."""
        self._now = 0.0
        self._published = 0
        self._add(about.head, 0.0)

    @property
    def id(self) -> str:
        """The id of the run."""
        id: str = self.about.head["id"]
        return id

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
        if answers:
            answers[-1].limit()

    def _take_encoded(self, event: Fields) -> None:
        self._add(event, self._now)

    def publish(self) -> list[Fields]:
        """The events since the last time."""
        fresh = self.events[self._published :]
        self._published = len(self.events)
        return fresh

    def _add(self, event: Fields, at: float) -> None:
        if self.is_over:
            return  # what comes now is about the client's connection
        if event["type"] == END:
            self._end()
        number = len(self.events)
        if number >= self._limits.events and not self.is_over:
            self._left_out += 1
            return
        event["n"], event["at"] = number, int(at * _TICKS + 0.5) / _TICKS
        self.events.append(event)

    def _end(self) -> None:
        if self._texts is not None:
            self._end_texts(self._texts)
        if self._lost:
            self._add({"type": "Dropped", "events": self._lost}, self._now)
        self.is_over = True

    @property
    def _lost(self) -> int:
        left_out = 0 if self._texts is None else self._texts.left_out
        return self.dropped + self._left_out + left_out

    # ── Texts that grow ─────────────────────────────────────────────────────────────

    def _take_grew(self, event: Grew) -> None:
        texts = self._begin_texts()
        texts.add(self._now, texts.find_call(event.number), text=event.text)

    def _take_text(self, event: Text) -> None:
        self._begin_texts().add(self._now, TEXT, text=event.text)

    def _take_reasoning(self, event: Reasoning) -> None:
        self._begin_texts().add(self._now, REASONING, text=event.text)

    def _begin_texts(self) -> GrowingTexts:
        if self._texts is None:
            self._texts = GrowingTexts(self._quoting.hides, most=self._limits.grown)
        return self._texts

    def join(self) -> None:
        """Make events of the pieces of texts that came since the last one."""
        if self._texts is not None and self._texts.fresh:
            for grown in self._texts.join(self._now):
                self._show(grown)

    def _interrupt_texts(self, kind: type) -> None:
        self.join()
        if kind in _ENDS_OF_TEXTS and self._texts is not None:
            self._end_texts(self._texts)

    def _show(self, grown: Grown) -> None:
        event: Fields = {**grown.place._asdict(), "text": grown.text}
        if grown.whole:
            # It is shown anew, without what should not have been seen of it.
            self._take_back(grown.place)
            event["whole"] = True
        self._add(event, grown.at)

    def _take_back(self, place: TextPlace) -> None:
        """Calls of earlier turns have the same numbers, and nothing to do with it."""
        for event in reversed(self.events):
            if event["type"] == "TurnStarted":
                return
            if (event["type"], event.get("number")) == place:
                event["text"] = ""

    def _end_texts(self, texts: GrowingTexts) -> None:
        for grown in texts.end(self._now):
            if grown.whole:
                self._show(grown)
            if self._answers:
                self._answers[-1].hear(grown.text, is_clean=not grown.whole)

    # ── Answers ─────────────────────────────────────────────────────────────────────

    def _take_asked(self, asked: RecordedRequest) -> None:
        self.join()
        request = asked.request
        if self._quoting.bodies:
            title = f"{self.id}, answer {len(self._answers) + 1}"
            self._answers.append(CapturedAnswer(title, describe_request(request), began=self._now))
        if request is not None:
            self._add(encode_request(request, self._quoting, told=self._told), self._now)
            self._told = len(request.messages)

    def _take_form(self, form: RecordedForm) -> None:
        if self._answers:
            self._answers[-1].describe(form.protocol, streamed=form.streamed)

    def _take_received(self, received: RecordedChunk) -> None:
        if self._answers:
            self._answers[-1].take(self._now, received.chunk)

    def keep(self) -> Batch:
        """Return the batch for the file, when the run is over: its events, and all answers that
        were received whole."""
        answers = () if self.dropped else self._answers
        written = [answer.write(self._quoting.hides) for answer in answers]
        run = StoredRun(self.events, self.about.key, self._lost)
        return write_run(run, tuple(filter(None, written)))


_ENDS_OF_TEXTS = frozenset({TurnStarted, Ended})
_TAKES: Mapping[type, Callable[[Record, Any], None]] = {
    dict: Record._take_encoded,
    Grew: Record._take_grew,
    Text: Record._take_text,
    Reasoning: Record._take_reasoning,
    RecordedRequest: Record._take_asked,
    RecordedForm: Record._take_form,
    RecordedChunk: Record._take_received,
}
