"""Routing: which delta belongs to which call.

A call arrives in pieces, and pieces of several calls may be interleaved. Protocols have three
addresses for them: the id of the call, the slot (its index in the stream), and the order of
arrival. Servers leave out, repeat, renumber and reuse all three, each in its own way. A piece that
goes to the wrong call is worse than a lost one: two halves of different calls can make valid JSON.

A delta goes to the call with its id, else to the call in its slot, else to the call that the last
piece belonged to. Three principles decide whether it then continues that call or begins another:

- *A name announces a call.* A new id without a name, in a slot whose call is still open, is the
  same call with a changed id. A name without arguments, after a call has ended, announces the next
  one.
- *Arguments begin with a brace.* A new id with the same name, and a piece without a brace, in a
  slot whose call is open: the server invents an id for every piece (vLLM, if the choice names the
  tool).
- *A closed object ends its call.* What comes next for its slot is a repeat or, if a name or a new
  id announced it, another call. It is never joined to the first.

Where these cannot decide, the draft remembers the doubt instead of guessing. A call that took the
place of an open one of the same tool has a *rival*, and does not run while the rival is open: it
may be a piece of it. A call with an id that was seen before may be a *repeat*: it is compared at
the end, runs once if it is the same, and is refused if one is the beginning of the other.

Names have the same troubles. They arrive in pieces, or grow as a whole (`edit`, `edit_file`). The
tools on offer decide which reading is meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from wholecall.arguments.limits import Limits
from wholecall.assembly.call_builder import Boundary, Draft, Relations
from wholecall.events import JSON, Call, CallDelta, Oddity, Reason, Slot
from wholecall.messages import Offer


def join_name(current: str, piece: str, *, offered: Collection[str] | None) -> str | None:
    """The name after one more piece; None if the piece is the name of another call."""
    if piece == current or not piece:
        return current
    if not current:
        return piece
    if offered is None:
        return _join_blindly(current, piece)
    if current in offered and piece in offered:
        return None
    joined = current + piece
    for reading in (joined, piece):
        # `piece` alone is read as a name that grows as a whole: `edit`, `edit_file`.
        if any(name.startswith(reading) for name in offered):
            return reading
    return joined


def _join_blindly(current: str, piece: str) -> str:
    # No tools were given: a longer spelling of the same name replaces it.
    return piece if piece.startswith(current) else current + piece


def is_settled(name: str, offered: Collection[str] | None) -> bool:
    """Return True if no further piece can make another offered name of this one."""
    if not name or offered is None:
        return False
    return name in offered and not any(
        other != name and other.startswith(name) for other in offered
    )


# Some servers fill the id of later pieces with a word instead of leaving it out.
_NO_ID = frozenset({"", "null", "none", "undefined", "nil"})


def read_id(id: str | None) -> str | None:
    """The id of a delta, if it is one."""
    return None if id is None or id.lower() in _NO_ID else id


# Characters of an id, a slot or a name that an oddity shows.
_QUOTED = 64


def _quote(word: Slot | None) -> str:
    return repr(word[:_QUOTED] if isinstance(word, str) else word)


class Router:
    """Finds the draft of a delta, or opens a new one."""

    def __init__(self, offer: Offer | None, limits: Limits) -> None:
        self.drafts: list[Draft] = []
        self.current: Draft | None = None
        """The call being built: the one that the last piece belonged to."""
        self._offer = offer
        self._limits = limits
        self._longest_name = max(limits.name, *map(len, offer or ()), 0)
        self._by_slot: dict[Slot, Draft] = {}
        self._by_id: dict[str, list[Draft]] = {}
        self._overflow: Draft | None = None

    def at(self, slot: Slot | None) -> Draft | None:
        """The draft in a slot; without a slot, the call being built."""
        return self.current if slot is None else self._by_slot.get(slot)

    def route(self, delta: CallDelta) -> Draft:
        """The draft that this delta belongs to, with its id and name taken in."""
        if delta.id is not None and read_id(delta.id) is None:
            delta = replace(delta, id=None)
        if delta.opens:
            opened = self._open(delta)
            opened.boundary.seals = True
            return opened
        draft = self._find(delta)
        if draft is None:
            draft = self._open(delta)
            if delta.slot is None:
                draft.oddities.note(Oddity.SLOT_MISSING, "a call has no index")
            return draft
        if self._is_other_call(draft, delta):
            return self._open(_take_announced(draft, delta), after=draft)
        self._take_in(draft, delta)
        return draft

    def unwrap(
        self, wrapper: Draft, *, whole: Call, uses: Iterable[tuple[str, JSON]]
    ) -> Iterator[Draft]:
        """Open the calls in a wrapper, by name and arguments; what is not a call has no name.

        Their ids follow from that of the wrapper: `c`, `c_2`, `c_3`.
        """
        id = wrapper.provider_id
        self._by_id.pop(id or "", None)
        for place, (name, arguments) in enumerate(uses, 1):
            own_id = f"{id}_{place}" if id and place > 1 else id
            draft = self._open(CallDelta(name=name or wrapper.name, id=own_id))
            draft.boundary = Boundary(seals=True, written=wrapper.boundary.written)
            draft.relations = Relations(is_last=False, wrapper=whole)
            draft.extras = {} if place > 1 else wrapper.extras
            if not name:
                draft.refuse(Reason.BAD_MARKUP, "an element of `tool_uses` is not a call")
            if isinstance(arguments, Mapping) and draft is not self._overflow:
                draft.arguments.merge(arguments)
            else:
                draft.add(arguments)
            draft.seal()
            yield draft

    # ── Finding ─────────────────────────────────────────────────────────────────────

    def _find(self, delta: CallDelta) -> Draft | None:
        slot, id = delta.slot, delta.id
        at_slot = self._by_slot.get(slot) if slot is not None else None
        if at_slot is not None and id is not None and at_slot.provider_id == id:
            return at_slot
        known = self._by_id[id][-1] if id in self._by_id else None
        if known is not None and (
            not delta.name or slot in (None, known.slot) or known.slot is None
        ):
            return known
        if at_slot is not None:
            return at_slot
        if slot is None:
            return self._find_without_slot(id)
        # A tail under an index that no head had belongs to the call being built.
        nameless = id is None and not delta.name
        if nameless and self.current is not None and not self.current.has_ended:
            self.current.oddities.note(Oddity.SLOT_REUSED, f"slot {_quote(slot)} was never opened")
            return self.current
        return None

    def _find_without_slot(self, id: str | None) -> Draft | None:
        # Without slots a new id is an address of its own, unless the call has none yet.
        has_other_id = self.current is not None and self.current.provider_id is not None
        return None if id is not None and has_other_id else self.current

    # ── Is it another call? ─────────────────────────────────────────────────────────

    def _is_other_call(self, draft: Draft, delta: CallDelta) -> bool:
        id, name = delta.id, delta.name or ""
        other_id = id is not None and draft.provider_id is not None and id != draft.provider_id
        if len(draft.name) > self._longest_name:
            return other_id  # what follows a name without an end is more of it
        if (
            draft.arguments.is_object
            and id is not None
            and id == draft.provider_id
            and name == draft.name
        ):
            return False  # an object that grows, with its whole address each time
        if draft.has_ended:
            return self._follows(draft, delta)
        if other_id and name:
            return not _goes_on(draft, delta)
        if not draft.has_begun and name.startswith(draft.name):
            return False  # a name that grows as a whole does so before the arguments begin
        is_new = name not in ("", draft.name)
        return is_new and join_name(draft.name, name, offered=self._offer) is None

    def _follows(self, draft: Draft, delta: CallDelta) -> bool:
        """Return True if this delta begins a call after one whose object is closed."""
        id = delta.id if delta.id != draft.provider_id else None
        name = delta.name or ""
        brings = delta.arguments
        empty = brings is None or (isinstance(brings, str) and not brings.strip())
        if empty and not draft.name and (id is None or draft.provider_id is None):
            return False  # its own name comes late
        if name and draft.name and name != draft.name:
            return True
        if id is not None and name:
            return True
        announces = bool(name) or id is not None
        if not empty:
            return announces or draft.relations.announced is not None
        if announces:
            draft.relations.announced = (id, name)
        return False

    # ── Taking in ───────────────────────────────────────────────────────────────────

    def _take_in(self, draft: Draft, delta: CallDelta) -> None:
        if delta.arguments or not draft.has_ended:
            self.current = draft
        if delta.slot is not None:
            draft.slot = delta.slot
            self._by_slot[delta.slot] = draft
        elif draft.slot is not None:
            draft.oddities.note(Oddity.SLOT_MISSING, "a piece of a call has no index")
        if delta.id is not None and delta.id != draft.provider_id:
            self._take_in_id(draft, delta.id)
        if delta.name and not (draft.name and draft.has_ended):
            self._take_in_name(draft, delta.name)

    def _take_in_id(self, draft: Draft, id: str) -> None:
        if draft.provider_id is None:
            draft.provider_id = id
        elif draft.has_ended:
            return  # it announces another call
        else:
            before = _quote(draft.provider_id)
            draft.oddities.note(Oddity.ID_CHANGED, f"id {_quote(id)} after {before}")
        namesakes = self._by_id.setdefault(id, [])
        if draft not in namesakes:  # the changed id may come with every further piece
            namesakes.append(draft)

    def _take_in_name(self, draft: Draft, name: str) -> None:
        if name == draft.name:
            draft.oddities.note(Oddity.NAME_REPEATED, f"name {_quote(name)} again")
            return
        joined = join_name(draft.name, name, offered=self._offer)
        if draft.name:
            draft.oddities.note(
                Oddity.NAME_SPLIT, f"name {_quote(name)} after {_quote(draft.name)}"
            )
        self._set_name(draft, joined or name)

    def _set_name(self, draft: Draft, name: str) -> None:
        draft.name = name
        if len(name) > self._longest_name:
            draft.name = name[: self._longest_name + 1]
            detail = f"the name of the tool has more than {self._longest_name} characters"
            draft.refuse(Reason.LIMIT, detail)

    # ── Opening ─────────────────────────────────────────────────────────────────────

    def _open(self, delta: CallDelta, *, after: Draft | None = None) -> Draft:
        slot, id, name = delta.slot, delta.id, delta.name or ""
        if len(self.drafts) >= self._limits.calls:
            return self._overflowing(slot)
        draft = Draft(len(self.drafts), self._limits)
        self._set_name(draft, name)
        draft.provider_id = id
        if id in self._by_id:
            draft.oddities.note(Oddity.ID_REUSED, f"id {_quote(id)} again")
            draft.relations.repeat_of = [namesake.number for namesake in self._by_id[id]]
        elif after is not None and id is None:
            draft.relations.repeat_of = [after.number]
        if slot is not None and slot in self._by_slot:
            draft.oddities.note(Oddity.SLOT_REUSED, f"slot {_quote(slot)} again")
        if after is not None and after.name == name:
            draft.relations.rival = after
        self.drafts.append(draft)
        self._bind(draft, delta)
        return draft

    def _overflowing(self, slot: Slot | None) -> Draft:
        """All calls beyond the limit share one draft, which is rejected at once."""
        if self._overflow is None:
            self._overflow = Draft(len(self.drafts), self._limits)
            detail = f"the answer holds more than {self._limits.calls} calls"
            self._overflow.refuse(Reason.LIMIT, detail)
            self.drafts.append(self._overflow)
        self.current = self._overflow
        if slot is not None and slot in self._by_slot:
            self._by_slot[slot] = self._overflow
        return self._overflow

    def _bind(self, draft: Draft, delta: CallDelta) -> None:
        self.current = draft
        if delta.slot is not None:
            draft.slot = delta.slot
            self._by_slot[delta.slot] = draft
        if delta.id is not None:
            self._by_id.setdefault(delta.id, []).append(draft)


def _goes_on(draft: Draft, delta: CallDelta) -> bool:
    """Return True if a piece with a new id and the name of the open call can only continue it."""
    if delta.name != draft.name or delta.slot is None or not draft.arguments.is_open:
        return False
    if Oddity.ID_CHANGED in draft.oddities:
        return True
    piece = delta.arguments.lstrip() if isinstance(delta.arguments, str) else ""
    return bool(piece) and not piece.startswith("{")


def _take_announced(draft: Draft, delta: CallDelta) -> CallDelta:
    """The delta with the id and the name that were announced before its arguments came."""
    if draft.relations.announced is None:
        return delta
    id, name = draft.relations.announced
    draft.relations.announced = None
    return replace(delta, id=delta.id or id, name=delta.name or name)
