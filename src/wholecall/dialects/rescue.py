"""Find calls that a native upstream left in the text of its answer."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from wholecall.arguments.coerce import CoercionOptions
from wholecall.assembly.assembler import Assembler
from wholecall.dialects.char_stream import BLANKS, MOST_BLANKS, Markers, markers_of
from wholecall.dialects.dialect import Dialect, encode_calls, encode_result, template_of
from wholecall.dialects.dialect_registry import AUTO, dialect_named, explain_unread
from wholecall.dialects.engine import FENCE, CallPosition, Engine, vocabulary_of
from wholecall.dialects.parser_context import Found, Given, Retracted
from wholecall.dialects.provenance import (
    RESCUED,
    Provenance,
    any_format,
    calls_in,
    quoted,
    rescued_id,
)
from wholecall.events import (
    JSON,
    CallDelta,
    CallSealed,
    Delta,
    Event,
    Fault,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    Opened,
    Outcome,
    Reason,
    Reasoning,
    Rejected,
    Terminated,
    Text,
    collect,
)
from wholecall.messages import Choice, Offer, ReadOffer, ToolSpec, read_offer
from wholecall.protocols.reader import JUDGED, PLANNED, ChoiceGate, ChoiceRefusal

# The remains of a format's markers in the text after a native call.
#
# Servers that take a call out of a model's answer forget the tag that ends it, and the text
# continues with `</tool_call>` (https://github.com/Rose22/openlumara/issues/92). Directly after a
# native call such markers are not text.


class StrayMarkers:
    """Reads the text after a native call until something other than markers begins."""

    __slots__ = ("_held", "_marks")

    def __init__(self, marks: Markers) -> None:
        self._marks = marks
        self._held = ""

    def feed(self, text: str) -> str | None:
        """Take a piece; return the text from where it begins, None while it has not."""
        self._held += text
        while True:
            said = self._held.lstrip(BLANKS)
            if len(self._held) - len(said) > MOST_BLANKS:
                return self._held
            if self._marks.may_begin(said, 0):
                return None
            mark = self._marks.match(said, 0)
            if not mark:
                return self._held
            self._held = said[len(mark) :]

    def end(self) -> str:
        """The answer is over: what is held, unless it is a mark that was cut off."""
        return "" if len(self._held.strip(BLANKS)) > 1 else self._held


Told: TypeAlias = Delta | Rejected | Inconsistent
_WELL = frozenset({Hint.STOP, Hint.TOOL_CALLS})
MOST_THOUGHTS = 1_000_000
"""Characters of reasoning that are kept until the end."""
LONGEST_LEAD_IN = 200
"""The longest paragraph that may precede a call, in characters: "Let me look that up." is one."""


class Rescuer:
    """A search for calls in the text of one answer."""

    def __init__(self, offer: Offer, provenance: Provenance | None = None) -> None:
        self._offer = offer
        self._provenance = provenance or Provenance((), offer)
        # A model that has made native calls need not write them as text.
        self._reading = CallPosition.APART if self._provenance.native else CallPosition.LED_IN
        self._engine: Engine | None = None
        self._held: list[Given] = []
        """The calls at the end of the text, and the white space between them."""
        self._lead = _LeadIn()
        self._native = False
        self._remains: StrayMarkers | None = None
        """The text after a native call, while it may be a remnant of its marks."""
        self._over = False
        self._well: bool | None = None
        """True if all signs of the end are good; None without a sign."""
        self._said = False
        self._thoughts: list[str] = []
        self._room = MOST_THOUGHTS
        self._item_ends: list[Told] = []
        """What a protocol says at the end of an item, while some of the item's text is held back:
        that text belongs before it."""

    def feed(self, delta: Delta) -> list[Told]:
        """Process a delta of the protocol; return what to assemble instead."""
        if isinstance(delta, Text) and not self._over:
            text = delta.text if self._remains is None else self._remains.feed(delta.text)
            read = [] if text is None else self._read(text)
            return [*self._leave_item(), *read] if self._item_ends else read
        if isinstance(delta, Reasoning):
            return self._think(delta)
        if isinstance(delta, CallDelta):
            return [*self._begin_call(delta), delta]
        if isinstance(delta, HintGiven):
            self._well = delta.hint in _WELL and self._well is not False
        elif isinstance(delta, Fault):
            self._well = False
            return [*self.end(), delta]
        elif isinstance(delta, Terminated) and delta.closes:
            return [*self.end(), delta]
        return [delta]

    def _think(self, delta: Reasoning) -> list[Told]:
        if not delta.text and self._engine is not None and not self._over:
            self._item_ends.append(delta)
            return []
        self._room -= len(delta.text)
        self._thoughts += [delta.text] if self._room >= 0 else []
        return [*self._leave_item(), delta]

    def _begin_call(self, delta: CallDelta) -> list[Told]:
        """A native call continues. Where it opens, return what leaves before it."""
        self._native = True
        before = self._leave_text() if delta.opens else []
        self._remains = self._remains or StrayMarkers(_remnants())
        return before

    def _read(self, text: str) -> list[Told]:
        self._said = self._said or not text.isspace()
        self._remains = None
        if self._engine is None:
            self._engine = any_format(self._offer, self._reading)
        return self._sort(self._engine.feed(text))

    def _leave_text(self) -> list[Told]:
        """Return the text that is held back before a native call: in protocols with items, it
        belongs to the item before the call."""
        if self._engine is None or self._held:
            return self._leave_item()
        given = self._sort(self._engine.end())
        self._engine = None
        return [*([] if _is_opener(given) else given), *self._leave_item()]

    def _leave_item(self) -> list[Told]:
        ends, self._item_ends = self._item_ends, []
        return ends

    def end(self) -> list[Told]:
        """End the answer; return the rescued calls, unless it had native ones."""
        if self._over:
            return []
        self._over = True
        rest = "" if self._remains is None else self._remains.end()
        given = self._read(rest) if rest else []
        if self._engine is not None:
            given += self._sort(self._engine.end())
        if self._native and _is_opener(given):
            given = []  # the opener of the native call
        elif not self._native and self._engine is not None and self._engine.unread:
            unread = explain_unread(self._engine.unread)
            given += [unread] if unread is not None else []
        if self._well and not self._said and not self._native and self._room >= 0:
            thoughts = self._decide(self._last_thoughts())
            said = (each for each in thoughts if not isinstance(each, Text))
            return [*given, *self._leave_item(), *said]
        held, self._held = self._held, []
        decided = self._decide(held)
        return [*given, *decided, *self._leave_item()]

    def _decide(self, held: list[Given]) -> list[Told]:
        """Decide what becomes of the calls at the end of the answer."""
        calls = calls_in(held) if held else []
        if not calls:
            return list(_as_prose(held))
        if self._is_prose(held):
            return [quoted(calls), *_as_prose(held)]
        if self._native:
            return [_refuse(call.name) for call in calls]
        return [each for each in held if isinstance(each, CallDelta | CallSealed)]

    def _is_prose(self, held: list[Given]) -> bool:
        """Return True if the model quotes the calls, or has said too much before them."""
        if self._provenance.native and not self._lead.is_short:
            return True
        calls: list[Given] = []
        for each in held:
            calls.append(each)
            if isinstance(each, Found):
                if self._provenance.quotes(each.call, calls_in(calls)):
                    return True
                calls = []
        return False

    def _last_thoughts(self) -> list[Given]:
        """Return the calls at the end of the reasoning."""
        engine = any_format(self._offer, self._reading)
        calls: list[Given] = []
        for each in [*engine.feed("".join(self._thoughts)), *engine.end()]:
            if isinstance(each, CallDelta):
                # Only the end of the thoughts shows that this is a call.
                calls.append(msgspec.structs.replace(_apart(each, "thought"), guessed=True))
            elif isinstance(each, CallSealed):
                calls.append(_apart(each, "thought"))
            elif isinstance(each, Found):
                calls.append(each)
            elif not isinstance(each, Text) or not each.text.isspace():
                calls.clear()
        return calls

    def _sort(self, given: list[Given]) -> list[Told]:
        """Hold calls back until words follow; pass on everything else."""
        passed: list[Told] = []
        for each in given:
            if type(each) is Text and not self._held:  # nearly always
                passed.append(each)
                if self._lead.is_short:
                    self._lead.add(each)
            elif isinstance(each, CallDelta | CallSealed):
                self._held.append(_apart(each, "text"))
            elif isinstance(each, Found):
                self._held.append(each)
            elif isinstance(each, Retracted):
                self._held.clear()
            else:
                passed += self._pass(each)
        return passed

    def _pass(self, said: Delta | Rejected) -> list[Told]:
        """Pass on text or reasoning: what was held before it was not a call."""
        if not isinstance(said, Text | Reasoning):
            return [said]
        if self._held and said.text.isspace():
            self._held.append(said)
            return []
        prose, self._held = self._held, []
        words = [*_as_prose(prose), said]
        for each in words:
            self._lead.add(each)
        return [*words]


class _LeadIn:
    """The text of an answer before its calls."""

    __slots__ = ("_text", "is_short")

    def __init__(self) -> None:
        self._text = ""
        self.is_short = True
        """True if it is one short paragraph, or empty."""

    def add(self, said: Text | Reasoning) -> None:
        """Add the next words."""
        if self.is_short and isinstance(said, Text):
            self._text += said.text
            body = self._text.strip()
            self.is_short = len(body) <= LONGEST_LEAD_IN and "\n" not in body


def _as_prose(held: Iterable[Given]) -> Iterator[Text | Reasoning]:
    """Yield the text in which calls were found."""
    for each in held:
        said = each.prose if isinstance(each, Found) else each
        if isinstance(said, Text | Reasoning) and said.text:
            yield said


def _apart(delta: CallDelta | CallSealed, place: str) -> CallDelta | CallSealed:
    """Return a delta of a call in a slot that no native call has, with an id that shows where it
    was found."""
    apart = msgspec.structs.replace(delta, slot=f"{place} {delta.slot}")
    if isinstance(apart, CallDelta) and apart.opens:
        return msgspec.structs.replace(apart, id=rescued_id())
    return apart


@lru_cache(maxsize=1)
def _remnants() -> Markers:
    return markers_of(tuple(vocabulary_of(AUTO, ()).remnants - {FENCE}))


def _is_opener(given: list[Told]) -> bool:
    """Return True if this is the marker of a call and nothing else."""
    said = "".join(each.text if isinstance(each, Text) else FENCE for each in given).strip()
    return said.startswith("<") and said in vocabulary_of(AUTO, ()).openers


def _refuse(name: str) -> Rejected:
    detail = "the answer holds calls of its own, so the one written in its text was not run"
    return Rejected(reason=Reason.AMBIGUOUS, detail=detail, name=name)


# An assembler that also searches the text of an answer for calls.


class Rescue(enum.Enum):
    """The treatment of a call that an upstream left in the text of its answer."""

    OFF = "off"
    """It stays text."""
    READ_ONLY = "read_only"
    """It is started if its tool changes nothing; otherwise feedback asks the model to make the call
    through the tool interface."""
    ALL = "all"
    """It is started."""


MayStart: TypeAlias = Callable[[str], bool]
"""A predicate: True if a call of the tool of this name may be started although it was written as
text."""

WRITTEN = ChoiceRefusal(Reason.WRITTEN_AS_TEXT, "")


_ANY = Choice()


class RescuingAssembler:
    """An assembler of one turn that rescues calls from its text.

    It searches for offered tools only. Without any, it rescues nothing.
    """

    def __init__(
        self,
        tools: Iterable[ToolSpec | Mapping[str, Any]] | ReadOffer | None = None,
        *,
        provenance: Provenance | None = None,
        may_start: MayStart | None = None,
        choice: Choice = _ANY,
        make: Callable[[ReadOffer | None], Assembler] = Assembler,
    ) -> None:
        """`provenance` holds what was said before. Without `may_start`, every call may start.
        Calls that the `choice` forbids are rejected. `make` makes the assembler of all calls."""
        offer = tools if isinstance(tools, ReadOffer) else read_offer(tools or ())
        self._assembler = make(None if tools is None else offer)
        self._rescuer = Rescuer(offer, provenance) if offer else None
        self._may_start = may_start
        self._gate = ChoiceGate(choice)

    def feed(self, delta: Delta) -> list[Event]:
        """Process one delta; return the events that it caused."""
        if self._rescuer is None:
            return self._judge(self._assembler.feed(delta))
        return self._assemble(self._rescuer.feed(delta))

    def end(self) -> list[Event]:
        """End the stream, with or without a terminator, and settle every draft."""
        rest = self._rescuer.end() if self._rescuer is not None else []
        return self._assemble(rest) + self._judge(self._assembler.end())

    def _assemble(self, given: list[Told]) -> list[Event]:
        events: list[Event] = []
        for each in given:
            if isinstance(each, Rejected | Inconsistent):
                events.append(each)
            else:
                events += self._judge(self._assembler.feed(each))
        return events

    def _judge(self, events: list[Event]) -> list[Event]:
        """Report each call that was rescued, and refuse those that may not be started."""
        if len(events) == 1 and type(events[0]) is Text:  # the usual case
            return events
        judged: list[Event] = []
        for event in events:
            judged.append(self._gate.judge(event) if type(event) in JUDGED else event)
            if isinstance(event, Opened) and event.id.startswith(RESCUED):
                judged.append(self._report(event))
        return judged

    def _report(self, opened: Opened) -> Inconsistent:
        detail = f"the call of {opened.name!r} was written as text"
        if self._may_start is not None and not self._may_start(opened.name):
            self._gate.refuse(opened.number, WRITTEN)
            detail += "; the setting `rescue: all` would have run it"
        return Inconsistent(Oddity.CALL_AS_TEXT, detail, opened.number)


# ── Whole texts ────────────────────────────────────────────────────────────────────────


def parse_text(
    dialect: str | Dialect,
    text: str | Iterable[str],
    *,
    tools: Iterable[ToolSpec | Mapping[str, Any]] | None = None,
) -> Outcome:
    """Return what an answer written as text delivers: a whole text, or its pieces.

    ```python
    from wholecall import parse_text

    text = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
    for call in parse_text("hermes", text).calls:
        print(call.name, call.arguments)
    ```

    ```text
    weather {'city': 'Oslo'}
    ```
    """
    reader = TextReader(dialect, tools)
    events: list[Event] = []
    for piece in [text] if isinstance(text, str) else text:
        events += reader.feed(piece)
    events += reader.end()
    before = events[: reader.thoughts]
    thoughts = (Reasoning(each.text) if isinstance(each, Text) else each for each in before)
    return collect([*thoughts, *events[reader.thoughts :]])


def encode(dialect: str | Dialect, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> str:
    """Calls as a model would write them in this dialect; ValueError if it cannot."""
    return encode_calls(template_of(_declared(dialect)), calls)


def encode_output(dialect: str | Dialect, name: str, *, output: str, id: str = "") -> str:
    """Write the result of a call for a model, in this dialect."""
    return encode_result(template_of(_declared(dialect)), name, output=output, id=id)


def _declared(dialect: str | Dialect) -> Dialect:
    """A dialect by its name, or one that was loaded or learned."""
    return dialect_named(dialect) if isinstance(dialect, str) else dialect


class TextReader:
    """Turns pieces of text into events, by the engine and the assembler."""

    def __init__(
        self, dialect: str | Dialect, tools: Iterable[ToolSpec | Mapping[str, Any]] | None = None
    ) -> None:
        offer = None if tools is None else read_offer(tools)
        declared = _declared(dialect)
        self._engine = Engine(declared, offer)
        # A text is read as it was written: no model would get feedback on what was dropped.
        self._assembler = Assembler(
            None if offer is None else offer.values(),
            coercion=CoercionOptions(keep_unknown=not declared.drops_unknown),
        )
        self._written = self._retracted = 0
        """The calls that the text holds so far, and those of them that were only planned."""
        self._given = 0
        self.thoughts = 0
        """The number of events before it was known that the prompt had opened the reasoning: their
        text is part of it."""

    def feed(self, text: str) -> list[Event]:
        """Take a piece; return what it brought about."""
        events = self._assemble(self._engine.feed(text))
        self._given += len(events)
        return events

    def end(self) -> list[Event]:
        """The text is over, and it ended well."""
        events = self._assemble(self._engine.end())
        self._assembler.feed(Terminated())
        unread = explain_unread(self._engine.unread, announced=self._engine.name)
        events += [unread] if unread is not None else []
        return events + self._assembler.end()

    def _assemble(self, given: list[Given]) -> list[Event]:
        events: list[Event] = []
        for each in given:
            if isinstance(each, Rejected):
                events.append(each)
            elif isinstance(each, Retracted):
                self.thoughts = self._given + len(events) if each.texts else self.thoughts
                events += self._retract()
            elif not isinstance(each, Found):
                self._written += isinstance(each, CallDelta) and each.opens
                events += self._assembler.feed(each)
        return events

    def _retract(self) -> list[Event]:
        """Refuse the calls so far, unless they are released: they were only planned."""
        planned = range(self._retracted + 1, self._written + 1)
        self._retracted = self._written
        refusals = (CallSealed(slot, flaw=PLANNED.detail, written=True) for slot in planned)
        return [event for refusal in refusals for event in self._assembler.feed(refusal)]
