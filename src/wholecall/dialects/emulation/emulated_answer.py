"""Read the answer to an emulated request as if it were native."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import msgspec

from wholecall.dialects.char_stream import BLANKS
from wholecall.dialects.dialect import Template, encode_calls
from wholecall.dialects.dialect_registry import explain_unread
from wholecall.dialects.engine import IN_A_SENTENCE, Engine
from wholecall.dialects.parser_context import Found, Given, Retracted
from wholecall.dialects.provenance import FoundCall, Provenance, calls_in, quoted
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Event,
    Fault,
    Inconsistent,
    Oddity,
    Opened,
    Reason,
    Rejected,
    Slot,
    Terminated,
    Text,
)
from wholecall.messages import Offer
from wholecall.protocols.reader import PLANNED, ChoiceGate, ChoiceRefusal, TurnAssembler

_HOLE = re.compile(r"\{(name|name_json|index)\}")
_NAME = re.compile(r"\{name(_json)?\}")


def opening(template: Template, offer: Offer) -> str:
    """Return the beginning of a call: up to the name, or up to the arguments if there is one tool.

    White space at its end is left to the model, which writes it as part of the continuation.
    """
    text = template.before + template.call
    names = list(offer)
    if len(names) == 1 and _can_write(template, names[0]):
        text = text.partition("{arguments}")[0]
    else:
        named = _NAME.search(text)
        text, names = text[: named.start() if named else 0], [""]
    holes = {"name": names[0], "name_json": json.dumps(names[0]), "index": "0"}
    return _HOLE.sub(lambda hole: holes[hole[1]], text).rstrip()


def _can_write(template: Template, name: str) -> bool:
    try:
        encode_calls(template, [(name, {})])
    except ValueError:
        return False
    return True


class Prefilled:
    """Puts the beginning before an answer that does not repeat it."""

    __slots__ = ("_beginning", "_decided", "_held")

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._decided = not beginning
        self._held = ""

    def take(self, piece: str) -> str:
        """Return the text to read for a piece of the answer; nothing while it may be a
        repetition."""
        if self._decided:
            return piece
        self._held += piece
        if len(self._held) < len(self._beginning) and self._beginning.startswith(self._held):
            return ""
        self._decided = True
        repeats = self._held.startswith(self._beginning)
        return self._held if repeats else self._beginning + self._held

    def end(self) -> str:
        """Return the rest: an answer shorter than the beginning is read as it came."""
        if self._decided:
            return ""
        self._decided = True
        return self._held


# The answer to an emulated request: text in a dialect, read as if it were native.
#
#     deltas of the upstream's protocol ──text──▶ engine ──calls, text──▶ assembler ──▶ gate
#                                       ──all else──────────────────────▶
#
# A call is held until the rest of its line is known: words there make prose of it, and so does a
# conversation that holds it already. A native call wins: an upstream that parses calls itself sends
# them so, and what is left in the text is an echo.


MOST_BLANKS = 1024
"""White space that is held back because a call may follow it."""

_ECHO = ChoiceRefusal(
    Reason.AMBIGUOUS, "the answer holds the same calls twice, natively and as text; one kind ran"
)
# A prompted model gives no ids, and its upstream knows nothing of calls.
_EXPECTED = frozenset({Oddity.ID_MISSING, Oddity.CALLS_WITH_OTHER_HINT})


class EmulatedAssembler:
    """Assembles one turn of a model that writes its calls as text.

    Without an engine nothing is parsed: if no tool may be called, everything is text.
    """

    def __init__(
        self,
        assembler: TurnAssembler,
        gate: ChoiceGate,
        *,
        engine: Engine | None,
        beginning: str = "",
        provenance: Provenance | None = None,
    ) -> None:
        """`beginning` is what the answer was begun with; `provenance` knows what was said before
        it."""
        self._assembler = assembler
        self._gate = gate
        self._engine = engine
        self._prefilled = Prefilled(beginning)
        self._provenance = provenance
        self._held: list[CallDelta | CallSealed] = []
        """The deltas of calls whose text is not over."""
        self._written: dict[Slot, int | None] = {}
        """The calls that stand in the text: their numbers, once they are known, by their slots."""
        self._text_refusal: ChoiceRefusal | None = None
        """The reason why calls found in the text from now on are refused."""
        self._native_refusal: ChoiceRefusal | None = None
        self._met_native = False
        self._blanks = ""

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta; return the events that it caused."""
        if isinstance(delta, Text) and self._engine is not None:
            return self._read(self._engine.feed(self._prefilled.take(delta.text)))
        meets = isinstance(delta, CallDelta) and not self._met_native
        ended = self._meet_native() if meets else []
        ended += self._finish() if _is_end(delta) else []
        return ended + self._tell(self._assembler.feed(delta))

    def end(self) -> list[Event]:
        """End the stream, with or without a terminator, and settle every draft."""
        return self._finish() + self._tell(self._assembler.end())

    # ── Text ────────────────────────────────────────────────────────────────────────

    def _read(self, given: list[Given]) -> list[Event]:
        """Assemble what the engine found."""
        events: list[Event] = []
        for each in self._weigh(given):
            if isinstance(each, Rejected | Inconsistent):
                events.append(each)
            elif isinstance(each, Retracted):
                events += self._refuse(PLANNED)
            elif isinstance(each, CallDelta | CallSealed):
                events += self._build(each)
            elif isinstance(each, Text):
                events += self._hold_blanks(each.text)
            else:
                events += self._assembler.feed(each)
        return events

    def _weigh(
        self, given: Iterable[Given]
    ) -> Iterator[Delta | Rejected | Retracted | Inconsistent]:
        """Hold calls back until their text is known; what is quoted is text."""
        for each in given:
            if isinstance(each, CallDelta | CallSealed):
                self._held.append(each)
            elif isinstance(each, Found):
                held, self._held = self._held, []
                yield from self._decide(held, each)
            else:
                yield each

    def _is_quoted(self, found: Found, calls: list[FoundCall]) -> bool:
        said = self._provenance
        return said is not None and said.quotes(found.call, calls, by_arguments=False)

    def _decide(
        self, held: list[CallDelta | CallSealed], found: Found
    ) -> list[Delta | Rejected | Retracted | Inconsistent]:
        """Decide what becomes of held calls, now that their text is known."""
        # A call whose arguments were cut off never runs, so it need not be checked for a quotation.
        calls = [call for call in calls_in(held) if call.is_whole]
        spoken_of = any(
            isinstance(each, CallSealed) and each.flaw == IN_A_SENTENCE for each in held
        )
        if not calls or not (spoken_of or self._is_quoted(found, calls)):
            return [*held]
        return [quoted(calls), found.prose]

    def _build(self, delta: CallDelta | CallSealed) -> list[Event]:
        """Go on with a call of the text, in a slot that no native call has."""
        slot = f"text {delta.slot}"
        events = self._assembler.feed(msgspec.structs.replace(delta, slot=slot))
        if slot not in self._written:
            self._written[slot] = None
            self._blanks = ""
            told = self._tell(events, slot=slot)
            return told + (self._refuse(self._text_refusal, slot) if self._text_refusal else [])
        return self._tell(events, slot=slot)

    def _finish(self) -> list[Event]:
        """The text is over: read what was held back until then."""
        engine, self._engine = self._engine, None
        if engine is None:
            return []
        events = self._read(engine.feed(self._prefilled.end()))
        events += self._read(engine.end())
        unread = explain_unread(engine.unread, announced=engine.name)
        events += [unread] if unread is not None else []
        return events if self._written or not self._blanks else [*events, Text(self._blanks)]

    def _hold_blanks(self, text: str) -> list[Event]:
        """White space around calls belongs to them; elsewhere it belongs to the text."""
        body = self._blanks + text
        shown = max(len(body.rstrip(BLANKS)), len(body) - MOST_BLANKS)
        self._blanks = body[shown:]
        return [Text(body[:shown])] if shown else []

    # ── Calls of two kinds ──────────────────────────────────────────────────────────

    def _meet_native(self) -> list[Event]:
        """A native call wins, unless one in the text runs already: nothing is run twice."""
        self._met_native = True
        if self._gate.passed:
            self._native_refusal = _ECHO
            return []
        self._text_refusal = _ECHO
        return self._refuse(_ECHO)

    def _refuse(self, refusal: ChoiceRefusal, *slots: Slot) -> list[Event]:
        """Refuse these calls of the text, or all so far; what is released stays so."""
        events: list[Event] = []
        for slot in slots or self._written:
            flaw = CallSealed(slot, flaw=refusal.detail, reason=refusal.reason, written=True)
            events += self._tell(self._assembler.feed(flaw), slot=slot)
        return events

    def _tell(self, events: list[Event], *, slot: Slot | None = None) -> list[Event]:
        """Filter the events for the client. `slot` is that of a call in the text, if the events are
        its."""
        told: list[Event] = []
        for event in events:
            if isinstance(event, Opened):
                self._open(event.number, slot)
            if not self._is_expected(event):
                told.append(self._gate.judge(event))
        return told

    def _open(self, number: int, slot: Slot | None) -> None:
        refusal = self._native_refusal if slot is None else self._text_refusal
        if slot is not None:
            self._written[slot] = number
        if refusal is not None:
            self._gate.refuse(number, refusal)

    def _is_expected(self, event: Event) -> bool:
        """Return True for an oddity that every emulated answer shows."""
        if not isinstance(event, Inconsistent) or event.oddity not in _EXPECTED:
            return False
        if event.number is None:
            return bool(self._written)
        return event.number in self._written.values()


def _is_end(delta: Delta) -> bool:
    """Return True if no text follows. A finish reason is not an end: some servers continue after
    it."""
    return isinstance(delta, Fault) or (isinstance(delta, Terminated) and delta.closes)
