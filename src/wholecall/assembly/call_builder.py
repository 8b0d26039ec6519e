"""The draft: one call being built. It never leaves the assembler.

A stream hands over a call in pieces and may stop after any of them. What is whole and what only
looks whole cannot be seen in the last piece alone, so a draft keeps two things apart:

*What the text is so far* (`TextForm`). The arguments of a call are one JSON object. While the
scanner is inside that object, the text may be cut, and nothing in it says so. The brace that closes
it is a proof: no proper prefix of JSON ends with its root object closed (`json_scanner` has the
argument). There are two exceptions. `{}` proves nothing, because some servers send it first, as a
placeholder, and others send it for arguments that they lost. And a text that is not a JSON object
(Python's quotes, a bare word, a bracket that does not fit) has no brace to trust: it is judged as a
whole, and only after the turn has ended well.

*How far the call has come* (`State`). It is built, perhaps sealed by its protocol, and then settled
once: released to be run, or rejected with a reason. Text may still arrive after that, because a
call of a fast tool starts on its closing brace. It is kept and compared when the turn is over.

Both are in the table below. A step that the table does not have is an error that names the step and
the state. The assembler asks it before it adds text: a step for each piece would cost too much.
Three rows that are missing carry the guarantees of this library:

- `OPEN` has no `RELEASE`: arguments that stop inside their object never run. If a repair or another
  reading made sense of the whole text, `REREAD` says so first, and that needs a turn that ended
  well.
- `SEALED` has no `TEXT`: arguments that arrive after the protocol ended their call are an error of
  the stream. They are never joined to the call.
- `RELEASED` and `REJECTED` have neither `RELEASE` nor `REJECT`: no call is settled twice.

Evidence is what a draft has gained by then: `CLOSED` by its brace, `SEALED` by its protocol or by
the next call, `CONFIRMED` by a turn that ended well. Evidence only grows. How much of it a call
needs is for the tool to say (`Start`), and what the end of the turn makes of a draft without it is
in the table of `verdict`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, TypeVar, cast

from wholecall.arguments.limits import Limits
from wholecall.arguments.parse import Parsed, Unparsed, parse
from wholecall.arguments.repair import is_repairable
from wholecall.assembly.json_scanner import (
    MOST_REPEATS,
    ObjectScanner,
    Scan,
    Tail,
    TailText,
    merge_objects,
    write_json,
)
from wholecall.errors import ProtocolError
from wholecall.events import (
    JSON,
    Call,
    Event,
    Evidence,
    Grew,
    Inconsistent,
    Oddity,
    Proved,
    Reason,
    Rejected,
    Released,
    Repeated,
    Slot,
)


class TextForm(enum.Enum):
    """The form of the text of the arguments."""

    BLANK = "blank"
    """Nothing but white space."""
    OPEN = "open"
    """Inside the root object: it may be cut anywhere."""
    EMPTY = "empty"
    """`{}`, which proves nothing."""
    CLOSED = "closed"
    """The root object is closed and not empty: a proof."""
    FOREIGN = "foreign"
    """Not a JSON object. Only the whole text can tell what it is."""


class State(enum.Enum):
    """The state of a call."""

    BUILDING = "building"
    SEALED = "sealed"
    """Its protocol has ended it."""
    RELEASED = "released"
    REJECTED = "rejected"


class BuildStep(enum.Enum):
    """An event in the life of a draft."""

    OPEN = "open"
    EMPTY = "empty"
    CLOSE = "close"
    STRAY = "stray"
    """The text turns out not to be a JSON object."""
    REREAD = "reread"
    """A repair, or another reading, made sense of the text as a whole."""
    TEXT = "text"
    SEAL = "seal"
    RELEASE = "release"
    REJECT = "reject"


TRANSITIONS: dict[tuple[TextForm | State, BuildStep], TextForm | State] = {
    # The text.
    (TextForm.BLANK, BuildStep.OPEN): TextForm.OPEN,
    (TextForm.BLANK, BuildStep.STRAY): TextForm.FOREIGN,
    (TextForm.BLANK, BuildStep.RELEASE): TextForm.BLANK,
    (TextForm.OPEN, BuildStep.EMPTY): TextForm.EMPTY,
    (TextForm.OPEN, BuildStep.CLOSE): TextForm.CLOSED,
    (TextForm.OPEN, BuildStep.STRAY): TextForm.FOREIGN,
    (TextForm.OPEN, BuildStep.REREAD): TextForm.FOREIGN,
    (TextForm.EMPTY, BuildStep.OPEN): TextForm.OPEN,
    (TextForm.EMPTY, BuildStep.STRAY): TextForm.FOREIGN,
    (TextForm.EMPTY, BuildStep.RELEASE): TextForm.EMPTY,
    (TextForm.CLOSED, BuildStep.RELEASE): TextForm.CLOSED,
    (TextForm.FOREIGN, BuildStep.RELEASE): TextForm.FOREIGN,
    # The call.
    (State.BUILDING, BuildStep.TEXT): State.BUILDING,
    (State.BUILDING, BuildStep.SEAL): State.SEALED,
    (State.BUILDING, BuildStep.RELEASE): State.RELEASED,
    (State.BUILDING, BuildStep.REJECT): State.REJECTED,
    (State.SEALED, BuildStep.SEAL): State.SEALED,
    (State.SEALED, BuildStep.RELEASE): State.RELEASED,
    (State.SEALED, BuildStep.REJECT): State.REJECTED,
    (State.RELEASED, BuildStep.TEXT): State.RELEASED,
    (State.RELEASED, BuildStep.SEAL): State.RELEASED,
    (State.REJECTED, BuildStep.TEXT): State.REJECTED,
    (State.REJECTED, BuildStep.SEAL): State.REJECTED,
}

UNSETTLED = frozenset({State.BUILDING, State.SEALED})

_Stage = TypeVar("_Stage", TextForm, State)


def advance(stage: _Stage, step: BuildStep) -> _Stage:
    """Return the next form or state, by the table."""
    try:
        return cast("_Stage", TRANSITIONS[stage, step])
    except KeyError:
        sides = f"{step.value!r} is not legal for a call that is {stage.value!r}"
        raise ProtocolError(sides) from None


_LOOSE = 256
"""Pieces that are not in a block."""


class TextBuffer:
    """A text that grows by pieces and is shown as it grows.

    A piece costs about fifty bytes in addition to its characters, and many have four. So pieces
    that were shown are joined to blocks: a long call takes the memory of its text, and appending
    stays linear, because no block is touched again.
    """

    __slots__ = ("_blocks", "_pieces", "_shown")

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._pieces: list[str] = []
        self._shown = 0
        """The number of pieces that were shown; the blocks were shown as well."""

    def __bool__(self) -> bool:
        return bool(self._pieces or self._blocks)

    @property
    def is_joined(self) -> bool:
        """True if it has more than one piece."""
        return len(self._pieces) > 1 or bool(self._blocks)

    @property
    def last(self) -> str:
        """The piece that was added last."""
        return self._pieces[-1]

    @last.setter
    def last(self, text: str) -> None:
        self._pieces[-1] = text

    def append(self, text: str) -> None:
        """Add a piece."""
        pieces = self._pieces
        if len(pieces) >= _LOOSE and self._shown == len(pieces):
            self._blocks.append("".join(pieces))
            pieces.clear()
            self._shown = 0
        pieces.append(text)

    def clear(self) -> None:
        """Begin anew. Nothing of it was shown."""
        self._pieces.clear()

    def join(self) -> str:
        """All of it."""
        return "".join((*self._blocks, *self._pieces))

    def fresh(self) -> str:
        """Return the text that was not shown yet."""
        pieces = self._pieces
        shown, self._shown = self._shown, len(pieces)
        return pieces[shown] if self._shown - shown == 1 else "".join(pieces[shown:])


@dataclass(slots=True, eq=False)
class Oddities:
    """The irregularities of one call, each kind once."""

    _number: int
    notes: list[Inconsistent] = field(default_factory=list)
    """Those that were not taken yet."""
    _kinds: set[Oddity] = field(default_factory=set)

    def note(self, oddity: Oddity, detail: str = "") -> None:
        """Remember that something was strange, once per kind."""
        if oddity not in self._kinds:
            self._kinds.add(oddity)
            self.notes.append(Inconsistent(oddity, detail, self._number))

    def __contains__(self, oddity: Oddity) -> bool:
        return oddity in self._kinds

    def take(self) -> list[Inconsistent]:
        """Return the notes since the last call."""
        notes, self.notes = self.notes, []
        return notes


_EXCESS: dict[Scan, tuple[Reason, str]] = {
    Scan.TOO_DEEP: (Reason.LIMIT, "the arguments are nested too deep"),
    Scan.TOO_MANY: (Reason.LIMIT, "the arguments hold too many values"),
    Scan.BLANK_FLOOD: (Reason.DEGENERATE, "the arguments ran into endless white space"),
}


# Looked up for each piece. In Python 3.11 a member of an enum costs a call, a global does not.
_OPEN, _EMPTY, _CLOSED = TextForm.OPEN, TextForm.EMPTY, TextForm.CLOSED
_INSIDE = Scan.INSIDE


@dataclass(slots=True, eq=False)
class DraftArguments:
    """The arguments of a draft: the text up to its closing brace, what follows, or objects."""

    _limits: Limits
    _oddities: Oddities
    form: TextForm = TextForm.BLANK
    excess: tuple[Reason, str] | None = None
    """The limit that they exceed, which ends the call."""
    flowing: bool = False
    """New text is shown at once: the call is open and cannot be `{}`."""
    _scanner: ObjectScanner = field(init=False)
    _text: TextBuffer = field(default_factory=TextBuffer)
    _parse: Parsed | Unparsed | None = None
    """Of the closed root object, unless it is empty. Its text is parsed once, here."""
    _tail: TailText | None = None
    _objects: list[Mapping[str, Any]] = field(default_factory=list)
    _size: int = 0
    _placeholders: int = 0
    _snapshot: str | None = ""

    def __post_init__(self) -> None:
        self._scanner = ObjectScanner(self._limits)

    # ── Growing ─────────────────────────────────────────────────────────────────────

    def append(self, text: str) -> None:
        """Add a piece of the text."""
        self._size += len(text)
        excess = self._size - self._limits.characters
        if excess > 0:
            # What still fits is read first, so that the cut into pieces decides nothing.
            text = text[:-excess]
        form = self.form
        if form is _CLOSED:
            self._tail_text().append(text)
        elif form is _EMPTY:
            self._follow_placeholder(text)
        else:
            self._read(text)
        if excess > 0:
            self._refuse_excess()

    def _tail_text(self) -> TailText:
        """The text after the object. Hardly any call has one."""
        if self._tail is None:
            self._tail = TailText()
        return self._tail

    def _refuse_excess(self) -> None:
        if self.form is TextForm.CLOSED:
            self._tail_text().overrun()
        else:
            limit = self._limits.characters
            detail = f"the arguments have more than {limit} characters"
            self.excess = self.excess or (Reason.LIMIT, detail)

    def _read(self, text: str) -> None:
        if self._snapshot is not None:
            # Some servers send all there is, again and again, instead of what is new.
            self._snapshot = text if text.startswith(self._snapshot) else None
        self._text.append(text)
        scanner = self._scanner
        read = scanner.feed(text)
        if scanner.state is not _INSIDE or self.form is not _OPEN:
            self._change_form(read)

    def _change_form(self, read: int) -> None:
        """Follow the scanner, which has entered the object, left it, or found none."""
        found = self._scanner.state
        if self.form is TextForm.FOREIGN:
            self._parse = None  # the text is longer than the one that was parsed
            return
        if found in _IN_OBJECT and self.form is not TextForm.OPEN:
            self.step(BuildStep.OPEN)
        if found is Scan.CLOSED:
            self._close(read)
        elif found not in _UNDECIDED:
            self.excess = self.excess or _EXCESS.get(found)
            self.step(BuildStep.STRAY)

    def _close(self, read: int) -> None:
        last = self._text.last
        self._text.last, rest = last[:read], last[read:]
        parsed = parse(self.text, limits=self._limits)
        if not isinstance(parsed, Parsed):
            # Braces, but no JSON. It may be another syntax: judged as a whole in the end.
            self._text.last = last
            self._parse = None if rest else parsed
            self.step(BuildStep.STRAY)
        elif parsed.value:
            self._parse = parsed
            self.step(BuildStep.CLOSE)
            if rest:
                self._tail_text().append(rest)
        else:
            self.step(BuildStep.EMPTY)
            if rest:
                self._follow_placeholder(rest)

    def _follow_placeholder(self, text: str) -> None:
        """Continue after `{}`: some providers send it before the real object."""
        body = text.lstrip()
        if body.startswith("{") and self._placeholders < MOST_REPEATS:
            self._placeholders += 1
            self._oddities.note(Oddity.ARGUMENTS_PLACEHOLDER)
            self._text.clear()  # never shown: a placeholder does not flow
            self._scanner = ObjectScanner(self._limits)
            self._snapshot = ""
            self._read(body)
            return
        self._text.append(text)
        if body:
            self.step(BuildStep.STRAY)

    def merge(self, arguments: Mapping[str, Any]) -> None:
        """Add arguments that the provider sends as an object."""
        if self._objects:
            self._measure(arguments)
        if self._size > self._limits.characters:
            self._refuse_excess()
        else:
            self._objects.append(arguments)

    def _measure(self, arguments: Mapping[str, Any]) -> None:
        """Count an object by the size of its text; the first one when a second one arrives.

        A single object is measured where it is read, so that the usual call is serialised once.
        """
        unmeasured = self._objects if len(self._objects) == 1 else ()
        self._size += sum(len(write_json(each)) for each in (*unmeasured, arguments))

    def compare(self, whole: str, *, growing: bool) -> None:
        """Compare them with the whole text that the protocol sends once more at the end."""
        text = self.text
        if growing and whole.startswith(text):
            rest = whole[len(text) :]
            if rest:
                self.append(rest)
        elif growing and self.is_empty:
            self.append(whole)
        elif whole.strip() not in (text.strip(), (self._snapshot or text).strip()):
            self._tail_text().append_whole(whole)

    def step(self, step: BuildStep) -> None:
        """Go from form to form by the table."""
        self.form = advance(self.form, step)

    # ── Looking at them ─────────────────────────────────────────────────────────────

    @property
    def text(self) -> str:
        """The text up to the brace that closed it, or all of it."""
        return self._text.join()

    @property
    def parsed(self) -> Parsed | None:
        """The closed root object, unless it is empty."""
        return self._parse if isinstance(self._parse, Parsed) else None

    @property
    def flaw(self) -> Unparsed | None:
        """The reason why the text is not JSON, if it is known and no repair could change it."""
        known = self._parse
        return known if isinstance(known, Unparsed) and not is_repairable(self.text) else None

    @property
    def raw(self) -> str:
        """All that came, as text. Objects are written out, as one if they fit together."""
        if not self._objects:
            return self.text
        merged = self.object()
        if merged is not None:
            return write_json(merged)
        return self.text + "".join(map(write_json, self._objects))

    @property
    def is_object(self) -> bool:
        """True if the provider sent an object instead of text."""
        return bool(self._objects)

    @property
    def is_empty(self) -> bool:
        """True if nothing came, or nothing but `{}`."""
        if self._objects or self.form in (TextForm.OPEN, TextForm.CLOSED):
            return False
        return self.form is TextForm.EMPTY or not self.text.strip()

    @property
    def is_open(self) -> bool:
        """True if the text stops inside the root object."""
        return self.form is TextForm.OPEN

    @property
    def have_begun(self) -> bool:
        """True if anything arrived."""
        return bool(self._text or self._objects)

    @property
    def may_repeat(self) -> bool:
        """True if each piece so far began with the previous one."""
        return self._snapshot is not None

    def may_flow(self) -> bool:
        """Return True if the text can no longer be a placeholder."""
        return self.text.strip() not in ("", "{", "{}") and not self.is_empty

    def fresh(self) -> str:
        """Return the text that was not shown yet, once the call flows."""
        return self._text.fresh()

    def object(self) -> dict[str, Any] | None:
        """Return the objects sent so far as one; None if they contradict each other."""
        return merge_objects(self._objects)

    def snapshot(self) -> str | None:
        """Return the last of several pieces, if each began with the previous one."""
        return self._snapshot if self._text.is_joined else None

    @property
    def value(self) -> JSON | dict[str, Any]:
        """The arguments so far as a value, if they are one."""
        if self._objects:
            return self.object()
        return None if self.parsed is None else self.parsed.value

    @property
    def is_overrun(self) -> bool:
        """True if so much followed the object that nothing of it is kept any more."""
        return self._tail is not None and self._tail.is_overrun

    def tail(self) -> Tail:
        """Return what followed the closed object."""
        if self._tail is None:
            return NO_TAIL
        value = self.parsed.value if self.parsed is not None else None
        return self._tail.read(value, limits=self._limits)


_IN_OBJECT = frozenset({Scan.INSIDE, Scan.CLOSED})
_UNDECIDED = frozenset({Scan.BLANK, Scan.INSIDE})
NO_TAIL = Tail()


@dataclass(slots=True)
class Boundary:
    """The marks of the end that a call has, or lacks."""

    seals: bool = False
    """The protocol itself marks the end of this call."""
    written: bool = False
    """It is part of a text, which may be cut anywhere."""
    guessed: bool = False
    """Only the end of a text shows that it is a call, or that it is whole."""


@dataclass(slots=True)
class Relations:
    """The other calls of the answer, as far as this one depends on them."""

    repeat_of: list[int] = field(default_factory=list)
    """The numbers of the calls that this one may turn out to be, sent again."""
    rival: Draft | None = None
    """A call of the same tool that was still open when this one took its place."""
    announced: tuple[str | None, str] | None = None
    """Id and name of another call, sent to this one's place without arguments yet."""
    is_last: bool = True
    """The answer may have ended with it: nothing is known to come after it."""
    wrapper: Call | None = None
    """The whole wrapper that it was an element of."""


@dataclass(slots=True, eq=False)
class Draft:
    """One call being built: its address, its name, its arguments and its evidence."""

    number: int
    limits: InitVar[Limits]
    state: State = State.BUILDING
    shown: Evidence = Evidence.NONE
    """The evidence that was reported already."""
    id: str = ""
    """Ours, unique; given when the call is opened towards the outside."""
    provider_id: str | None = None
    name: str = ""
    slot: Slot | None = None
    extras: dict[str, Any] = field(default_factory=dict)
    boundary: Boundary = field(default_factory=Boundary)
    relations: Relations = field(default_factory=Relations)
    oddities: Oddities = field(init=False)
    arguments: DraftArguments = field(init=False)
    _gained: Evidence = Evidence.NONE
    _refusal: tuple[Reason, str] | None = None

    def __post_init__(self, limits: Limits) -> None:
        self.oddities = Oddities(self.number)
        self.arguments = DraftArguments(limits, self.oddities)

    # ── Growing ─────────────────────────────────────────────────────────────────────

    def add(self, arguments: Any) -> None:
        """Add what a provider sent as arguments: text, an object, or neither of them."""
        if arguments is None or arguments == "":
            return
        if isinstance(arguments, Mapping):
            self.oddities.note(Oddity.ARGUMENTS_OBJECT)
            if arguments and self.state is not State.REJECTED:
                self.arguments.merge(arguments)
        else:
            # A list, a number: no object, and it must not look like a call without any.
            self.append(arguments if isinstance(arguments, str) else write_json(arguments))

    def append(self, text: str) -> None:
        """Add a piece of the arguments' text."""
        if self.state is not State.REJECTED:
            self.arguments.append(text)

    def seal(self, arguments: str | None = None) -> None:
        """The protocol says that the call is over, and may say its whole text once more."""
        settled = self.state is State.REJECTED or self.arguments.is_overrun
        if arguments and arguments.strip() and not settled:
            self.arguments.compare(arguments, growing=self.is_growing)
        self.gain(Evidence.SEALED)
        self.step(BuildStep.SEAL)

    def gain(self, evidence: Evidence) -> None:
        """Add evidence. That of the brace follows from the text."""
        self._gained |= evidence

    def refuse(self, reason: Reason, detail: str) -> None:
        """Reject the call whatever its arguments are. The first reason counts."""
        self._refusal = self.early_end or (reason, detail)

    def settle(
        self, verdict: Call | Rejected, original: Call | Rejected | None = None
    ) -> list[Event]:
        """Release or reject the call, once: the table has no way back.

        `original` is the settled call that this one only repeats.
        """
        if isinstance(verdict, Rejected):
            self.step(BuildStep.REJECT)
        else:
            self._release(verdict)
        events: list[Event] = [*self.oddities.take()]
        if original is not None:
            return [*events, Repeated(self.number, original.number)]
        if isinstance(verdict, Rejected):
            return [*events, verdict]
        if self.arguments.is_object:
            events.append(Grew(self.number, verdict.raw))
        return [*events, *self._show_evidence(), Released(verdict)]

    def _release(self, call: Call) -> None:
        if self.arguments.is_open and (
            call.repairs or Oddity.ARGUMENTS_CUMULATIVE in self.oddities
        ):
            self.arguments.step(BuildStep.REREAD)
        self.arguments.step(BuildStep.RELEASE)
        self.step(BuildStep.RELEASE)

    def step(self, step: BuildStep) -> None:
        """Go from state to state by the table."""
        self.state = advance(self.state, step)

    def allows(self, step: BuildStep) -> bool:
        """Return True if the table has this step from the current state."""
        return (self.state, step) in TRANSITIONS

    # ── Looking at it ───────────────────────────────────────────────────────────────

    def show(self) -> list[Event]:
        """Return what is new: text, as soon as the call flows, and evidence."""
        arguments = self.arguments
        if self.id and not arguments.flowing:
            arguments.flowing = arguments.may_flow()
        text = arguments.fresh() if arguments.flowing else ""
        grew: list[Event] = [Grew(self.number, text)] if text else []
        return grew + self._show_evidence()

    def _show_evidence(self) -> list[Event]:
        evidence = self.evidence
        if evidence is self.shown:
            return []
        self.shown = evidence
        return [Proved(self.number, evidence)]

    @property
    def evidence(self) -> Evidence:
        """The evidence so far that the call is whole."""
        is_closed = self.arguments.form is TextForm.CLOSED
        return self._gained | Evidence.CLOSED if is_closed else self._gained

    @property
    def early_end(self) -> tuple[Reason, str] | None:
        """The reason why it is rejected before its end, and in words."""
        return self._refusal or self.arguments.excess

    @property
    def is_growing(self) -> bool:
        """True if more text would add to its arguments."""
        return self.state is State.BUILDING and self.arguments.form is not TextForm.CLOSED

    @property
    def is_closed(self) -> bool:
        """True if its brace has come, and its protocol has not ended it."""
        return self.state is State.BUILDING and self.arguments.form is TextForm.CLOSED

    @property
    def is_contested(self) -> bool:
        """True if this may be a piece of another call that was never closed."""
        rival = self.relations.rival
        return rival is not None and rival.arguments.is_open

    @property
    def has_begun(self) -> bool:
        """True if arguments arrived, so that the name is complete."""
        return self.arguments.have_begun or self.state is not State.BUILDING

    @property
    def has_ended(self) -> bool:
        """True if the next piece for this slot must be another call, or a repeat."""
        return not self.is_growing or self.arguments.is_object

    @property
    def only_grows(self) -> bool:
        """True if the next pieces can be joined: none can repeat an earlier one."""
        return self.arguments.flowing and self.is_growing and not self.arguments.may_repeat

    def snapshot(self) -> str | None:
        """Return the last piece, if each piece so far began with the previous one.

        None if the call has an explicit end that did not come, and if it is part of a text.
        """
        open_end = self.boundary.seals and Evidence.SEALED not in self.evidence
        return None if open_end or self.boundary.written else self.arguments.snapshot()
