"""A call being built: the table of its states and the text that it collects. It never leaves the
assembler.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

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
from wholecall.events import JSON, Evidence, Inconsistent, Oddity, Reason, Slot


class State(enum.Enum):
    """The state of a draft."""

    BUILDING = "building"
    CLOSED = "closed"
    SEALED = "sealed"
    RELEASED = "released"
    REJECTED = "rejected"


class BuildStep(enum.Enum):
    """An event in the life of a draft."""

    TEXT = "text"
    CLOSE = "close"
    SEAL = "seal"
    RELEASE = "release"
    REJECT = "reject"


TRANSITIONS: dict[tuple[State, BuildStep], State] = {
    (State.BUILDING, BuildStep.TEXT): State.BUILDING,
    (State.BUILDING, BuildStep.CLOSE): State.CLOSED,
    (State.BUILDING, BuildStep.SEAL): State.SEALED,
    (State.BUILDING, BuildStep.RELEASE): State.RELEASED,
    (State.BUILDING, BuildStep.REJECT): State.REJECTED,
    (State.CLOSED, BuildStep.TEXT): State.CLOSED,
    (State.CLOSED, BuildStep.SEAL): State.SEALED,
    (State.CLOSED, BuildStep.RELEASE): State.RELEASED,
    (State.CLOSED, BuildStep.REJECT): State.REJECTED,
    (State.SEALED, BuildStep.SEAL): State.SEALED,
    (State.SEALED, BuildStep.RELEASE): State.RELEASED,
    (State.SEALED, BuildStep.REJECT): State.REJECTED,
    (State.RELEASED, BuildStep.TEXT): State.RELEASED,
    (State.RELEASED, BuildStep.SEAL): State.RELEASED,
    (State.REJECTED, BuildStep.TEXT): State.REJECTED,
    (State.REJECTED, BuildStep.SEAL): State.REJECTED,
}

OPEN_STATES = frozenset({State.BUILDING, State.CLOSED, State.SEALED})


def advance(state: State, step: BuildStep) -> State:
    """Return the next state, by the table."""
    try:
        return TRANSITIONS[state, step]
    except KeyError:
        sides = f"{step.value!r} is not legal for a call that is {state.value!r}"
        raise ProtocolError(sides) from None


# A text that grows by pieces and is shown as it grows.
#
# A piece costs about fifty bytes in addition to its characters, and many have four. So pieces that
# were shown are joined to blocks: a long call takes the memory of its text, and appending stays
# linear, because no block is touched again.


_LOOSE = 256
"""Pieces that are not in a block."""


class TextBuffer:
    """All pieces so far."""

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


# A call being built. A draft never leaves the assembler; `lifecycle` says what is legal when.


_EARLY_END: dict[Scan, tuple[Reason, str]] = {
    Scan.TOO_DEEP: (Reason.LIMIT, "the arguments are nested too deep"),
    Scan.TOO_MANY: (Reason.LIMIT, "the arguments hold too many values"),
    Scan.BLANK_FLOOD: (Reason.DEGENERATE, "the arguments ran into endless white space"),
}


class Draft:
    """One call being built: its address, its name, its text and its evidence."""

    __slots__ = (
        "_flaw",
        "_limits",
        "_notes",
        "_objects",
        "_odd",
        "_placeholders",
        "_scanner",
        "_size",
        "_snapshot",
        "_tail",
        "_text",
        "announced",
        "early_end",
        "evidence",
        "extras",
        "flowing",
        "guessed",
        "id",
        "is_last",
        "name",
        "number",
        "parsed",
        "provider_id",
        "repeat_of",
        "rival",
        "seals",
        "slot",
        "state",
        "told",
        "written",
    )

    def __init__(self, number: int, limits: Limits) -> None:
        self.number = number
        self.state = State.BUILDING
        self.evidence = Evidence.NONE
        self.told = Evidence.NONE
        """The evidence that was reported already."""
        self.id = ""
        """Ours, unique; given when the call is opened towards the outside."""
        self.provider_id: str | None = None
        self.name = ""
        self.slot: Slot | None = None
        self.extras: dict[str, Any] = {}
        self.parsed: Parsed | None = None
        """The closed, non-empty root object. Its text is parsed once, here."""
        self.repeat_of: list[int] = []
        """The numbers of the calls that this one may turn out to be, sent again."""
        self.rival: Draft | None = None
        """A call of the same tool that was still open when this one took its place."""
        self.seals = False
        """True if the protocol itself marks the end of this call."""
        self.written = False
        """True if it is part of a text, which may be cut anywhere."""
        # Whether only the end of a text shows that it is a call, or that it is whole; and whether
        # the answer may have ended with it: nothing is known to come after it.
        self.guessed, self.is_last = False, True
        self.announced: tuple[str | None, str] | None = None
        """Id and name of another call, sent to this one's place without arguments yet."""
        self.early_end: tuple[Reason, str] | None = None
        self.flowing = False
        """True if new text is shown at once: the call is open and cannot be `{}`."""
        self._limits = limits
        self._scanner = ObjectScanner(limits)
        self._text = TextBuffer()
        self._objects: list[Mapping[str, Any]] = []
        self._tail = TailText()
        self._odd: set[Oddity] = set()
        self._notes: list[Inconsistent] = []
        self._size = 0
        self._placeholders = 0
        self._snapshot: str | None = ""
        self._flaw: Unparsed | None = None

    # ── Growing ─────────────────────────────────────────────────────────────────────

    def add(self, arguments: Any) -> None:
        """Add what a provider sent as arguments: text, an object, or neither of them."""
        if arguments is None or arguments == "":
            return
        if isinstance(arguments, str):
            self.append(arguments)
        elif isinstance(arguments, Mapping):
            self.merge(arguments)
        else:
            # A list, a number: no object, and it must not look like a call without any.
            self.append(write_json(arguments))

    def append(self, text: str) -> None:
        """Add a piece of the arguments' text."""
        self._size += len(text)
        excess = self._size - self._limits.characters
        if excess > 0:
            # What still fits is read first, so that the cut into pieces decides nothing.
            text = text[:-excess]
        if self.state is State.BUILDING:
            self._build(text)
        elif self.state is not State.REJECTED:
            self._tail.append(text)
        if excess > 0:
            self._refuse_excess_text()

    def _refuse_excess_text(self) -> None:
        if self.state is State.BUILDING:
            limit = self._limits.characters
            self.early_end = (Reason.LIMIT, f"the arguments have more than {limit} characters")
        else:
            self._tail.overrun()

    def _build(self, text: str) -> None:
        if self._scanner.state is Scan.CLOSED:  # on `{}`, which proves nothing
            self._go_on_after_placeholder(text)
            return
        if self._snapshot is not None:
            # Some servers send all there is, again and again, instead of what is new.
            self._snapshot = text if text.startswith(self._snapshot) else None
        self._text.append(text)
        self._flaw = None
        read = self._scanner.feed(text)
        if self._scanner.state is not Scan.INSIDE:
            self._leave(read)

    def _leave(self, read: int) -> None:
        """The scanner has left the object, or never entered it."""
        state = self._scanner.state
        self.early_end = self.early_end or _EARLY_END.get(state)
        if state is Scan.CLOSED:
            self._close(read)

    def _close(self, read: int) -> None:
        last = self._text.last
        self._text.last, rest = last[:read], last[read:]
        parsed = parse(self.text, limits=self._limits)
        if not isinstance(parsed, Parsed):
            # Braces, but no JSON. It may be another syntax: judged as a whole in the end.
            self._text.last = last
            self._flaw = None if rest else parsed
            self._scanner.state = Scan.BROKEN
        elif parsed.value:
            self.parsed = parsed
            self.evidence |= Evidence.CLOSED
            self.step(BuildStep.CLOSE)
            self._tail.append(rest)
        elif rest:
            self._go_on_after_placeholder(rest)

    def _go_on_after_placeholder(self, text: str) -> None:
        """Continue after `{}`, which proves nothing: some providers send it before the real
        object."""
        body = text.lstrip()
        if body.startswith("{") and self._placeholders < MOST_REPEATS:
            self._placeholders += 1
            self.note(Oddity.ARGUMENTS_PLACEHOLDER)
            self._text.clear()  # never shown: a placeholder does not flow
            self._scanner = ObjectScanner(self._limits)
            self._snapshot = ""
            self._build(body)
            return
        self._text.append(text)
        if body:
            self._scanner.state = Scan.BROKEN

    def merge(self, arguments: Mapping[str, Any]) -> None:
        """Add arguments that the provider sends as an object."""
        self.note(Oddity.ARGUMENTS_OBJECT)
        if not arguments or self.state is State.REJECTED:
            return
        if self._objects:
            self._measure(arguments)
        if self._size > self._limits.characters:
            self._refuse_excess_text()
        else:
            self._objects.append(arguments)

    def _measure(self, arguments: Mapping[str, Any]) -> None:
        """Count an object by the size of its text; the first one when a second one arrives.

        A single object is measured where it is read, so that the usual call is serialised once.
        """
        unmeasured = self._objects if len(self._objects) == 1 else ()
        self._size += sum(len(write_json(each)) for each in (*unmeasured, arguments))

    def seal(self, arguments: str | None = None) -> None:
        """The protocol says that the call is over, and may say its whole text once more."""
        settled = self.state is State.REJECTED or self._tail.is_overrun
        if arguments and arguments.strip() and not settled:
            self._compare(arguments)
        self.evidence |= Evidence.SEALED
        self.step(BuildStep.SEAL)

    def _compare(self, arguments: str) -> None:
        text = self.text
        if self.state is State.BUILDING and arguments.startswith(text):
            rest = arguments[len(text) :]
            if rest:
                self.append(rest)
        elif self.state is State.BUILDING and self.is_empty:
            self.append(arguments)
        elif arguments.strip() not in (text.strip(), (self._snapshot or text).strip()):
            self._tail.append_whole(arguments)

    def refuse_excess(self) -> None:
        """Reject this draft, which represents every call beyond the limit."""
        limit = self._limits.calls
        self.early_end = (Reason.LIMIT, f"the answer holds more than {limit} calls")

    def refuse_markup(self, flaw: str) -> None:
        """Reject the call: the markup around its arguments is broken, so nothing can end them."""
        self.early_end = self.early_end or (Reason.BAD_MARKUP, flaw)

    def refuse_name(self, longest: int) -> None:
        """The name has no end."""
        detail = f"the name of the tool has more than {longest} characters"
        self.early_end = (Reason.LIMIT, detail)

    def refuse_outgrown(self) -> None:
        """The same call came again with more of it: this one was the beginning."""
        detail = "the call was sent again with more arguments, so this was a part of it"
        self.early_end = self.early_end or (Reason.AMBIGUOUS, detail)

    def step(self, step: BuildStep) -> None:
        """Go from state to state by the table."""
        self.state = advance(self.state, step)

    def allows(self, step: BuildStep) -> bool:
        """Return True if the table has this step from the current state."""
        return (self.state, step) in TRANSITIONS

    def note(self, oddity: Oddity, detail: str = "") -> None:
        """Remember that something was strange, once per kind."""
        if oddity not in self._odd:
            self._odd.add(oddity)
            self._notes.append(Inconsistent(oddity, detail, self.number))

    def is_odd(self, oddity: Oddity) -> bool:
        """Return True if this oddity was noted."""
        return oddity in self._odd

    def take_notes(self) -> list[Inconsistent]:
        """Return the oddities since the last call."""
        notes, self._notes = self._notes, []
        return notes

    # ── Looking at it ───────────────────────────────────────────────────────────────

    @property
    def text(self) -> str:
        """The arguments' text up to the brace that closed them, or all of it."""
        return self._text.join()

    @property
    def flaw(self) -> Unparsed | None:
        """The reason why the text is not JSON, if it is known and no repair could change it."""
        return self._flaw if self._flaw and not is_repairable(self.text) else None

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
        """Nothing came, or nothing but `{}`: alone no proof of anything."""
        if self._objects:
            return False
        placeholder = self._scanner.state is Scan.CLOSED and self.parsed is None
        return placeholder or not self.text.strip()

    @property
    def is_closed_empty(self) -> bool:
        """True if `{}` arrived as text, and nothing else."""
        return self.is_empty and self._scanner.state is Scan.CLOSED

    @property
    def is_open(self) -> bool:
        """True if the text stops inside the root object."""
        return self._scanner.state is Scan.INSIDE

    @property
    def is_contested(self) -> bool:
        """True if this may be a piece of another call that was never closed."""
        return self.rival is not None and self.rival.is_open

    @property
    def has_begun(self) -> bool:
        """True if arguments arrived, so that the name is complete."""
        return bool(self._text or self._objects) or self.state is not State.BUILDING

    @property
    def has_ended(self) -> bool:
        """True if the next piece for this slot must be another call, or a repeat."""
        return self.state is not State.BUILDING or self.is_object

    @property
    def only_grows(self) -> bool:
        """True if the next pieces can be joined: none can repeat an earlier one."""
        return self.flowing and self.state is State.BUILDING and self._snapshot is None

    def fresh(self) -> str:
        """The text that was not shown yet, once the call flows."""
        return self._text.fresh()

    def may_flow(self) -> bool:
        """True if the text can no longer be a placeholder."""
        return self.text.strip() not in ("", "{", "{}") and not self.is_empty

    def object(self) -> dict[str, Any] | None:
        """The objects sent so far as one; None if they contradict each other."""
        return merge_objects(self._objects)

    @property
    def value(self) -> JSON | dict[str, Any]:
        """The arguments so far as a value, if they are one."""
        if self._objects:
            return self.object()
        return None if self.parsed is None else self.parsed.value

    def snapshot(self) -> str | None:
        """The last piece, if each piece so far began with the previous one.

        None if the call has an explicit end that did not come, and if it is part of a text.
        """
        open_end = self.seals and Evidence.SEALED not in self.evidence
        return None if open_end or self.written or not self._text.is_joined else self._snapshot

    def tail(self) -> Tail:
        """The text after the closed object."""
        value = self.parsed.value if self.parsed is not None else None
        return self._tail.read(value, limits=self._limits)
