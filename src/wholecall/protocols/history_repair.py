"""Repair the history of a request so that its upstream accepts it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise, takewhile
from typing import Any, TypeGuard

from wholecall.events import Text
from wholecall.messages import CallResult, Message, PastCall, Result, Role
from wholecall.protocols.history import (
    UNRECORDED,
    Aside,
    Change,
    ChangeKind,
    HistoryForm,
    IdRule,
    Mending,
    Piece,
    StoredCall,
    StoredResult,
    StoredTurn,
    System,
    Target,
    Wire,
    explain,
)
from wholecall.protocols.registry import find_part

_SYSTEM_ROLES = frozenset({"system", "developer"})
_NAMELESS = "call_0"
_DIGITS = "0123456789"
# Digits at the end are a counter only if they are few; a longer run is part of a random id.
_LONGEST_COUNTER = 9
_DIGEST = 32


@dataclass(frozen=True, slots=True)
class Mended:
    """A history that can be sent, and what was changed to make it so."""

    messages: list[Any]
    changes: tuple[Change, ...] = ()
    system: tuple[Any, ...] = ()
    """System messages that may not stand among the others: the request holds them elsewhere."""


def mend(
    protocol: str | HistoryForm,
    messages: Sequence[Any],
    *,
    target: Target | None = None,
    continues: bool = False,
) -> Mended:
    """Mend a history and report each change. What comes in is not touched.

    `protocol` is a name, or the form of histories in one.
    `continues` says that the upstream holds earlier messages (`previous_response_id`): a result
    whose call is not here stays.
    """
    form = protocol
    if isinstance(form, str):
        form = find_part(form, lambda record: record.history)
    mending = Mending(target or form.target, continues)
    pieces = form.split(messages, mending)
    pieces, system = _place_system(pieces, mending)
    joined = form.join(settle(pieces, form, mending=mending), mending)
    return Mended(joined, tuple(mending.changes), system)


def repair_history(protocol: str, messages: Sequence[Any]) -> list[Any]:
    """The same history as the protocol's upstreams accept it: `mend` without the report.

    ```python
    import wholecall

    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    call = {"id": "c1", "type": "function", "function": function}
    history = [{"role": "assistant", "tool_calls": [call]}]
    print(wholecall.repair_history("openai-chat", history)[1]["content"])
    ```

    ```text
    Error: no result was recorded for this call. It may or may not have run.
    ```
    """
    return mend(protocol, messages).messages


def _place_system(pieces: list[Piece], mending: Mending) -> tuple[list[Piece], tuple[Any, ...]]:
    """Put system messages where the target wants them."""
    where = mending.target.system
    if where is System.ANYWHERE:
        return pieces, ()
    system = [piece for piece in pieces if _is_system(piece)]
    others = [piece for piece in pieces if not _is_system(piece)]
    leading = len(list(takewhile(_is_system, pieces))) if where is not System.APART else 0
    for piece in system[leading:]:
        mending.note(ChangeKind.SYSTEM_MOVED, piece.at)
    if where is System.APART:
        return others, tuple(piece.native for piece in system)
    return [*(_fold(system) if where is System.FIRST else system), *others], ()


def _fold(system: list[Aside]) -> list[Aside]:
    """One system message with the text of all; one that is so already stays as it is."""
    if all(map(_is_one_text, system)) and not system[1:]:
        return system
    texts = [text for piece in system for text in _texts(piece.native.get("content"))]
    if not texts:
        return system
    return [Aside(system[0].at, {"role": "system", "content": "\n\n".join(texts)})]


def _is_one_text(piece: Aside) -> bool:
    return piece.native["role"] == "system" and isinstance(piece.native.get("content"), str)


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [str(part["text"]) for part in parts if isinstance(part, Mapping) and part.get("text")]


def _is_system(piece: Piece) -> TypeGuard[Aside]:
    if not isinstance(piece, Aside) or piece.opaque:
        return False
    role, kind = piece.native.get("role"), piece.native.get("type", "message")
    return kind == "message" and isinstance(role, str) and role in _SYSTEM_ROLES


# ── Ids ─────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Ids:
    """The ids of one conversation."""

    rule: IdRule
    _taken: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)
    """The next free number for each stem: every number is tried once."""

    def claim(self, id: str) -> str:
        """Return the id for this call: its own if it is accepted and free."""
        wanted = _fit(id or _NAMELESS, self.rule)
        if wanted in self._taken:
            wanted = self._renumber(wanted)
        self._taken.add(wanted)
        return wanted

    def reserve(self, id: str) -> None:
        """Keep an id for a call that is not in this history."""
        self._taken.add(id)

    def _renumber(self, id: str) -> str:
        """Count on where an id ends in a number, as `list_dir:0` does in every turn of Kimi's."""
        stem = id.rstrip(_DIGITS)
        digits = id[len(stem) :]
        number = 2
        if digits and len(digits) <= _LONGEST_COUNTER:
            number = int(digits) + 1
        else:
            stem = f"{id}_"
        tried = count(max(number, self._next.get(stem, 0)))
        free = next(n for n in tried if _fit(f"{stem}{n}", self.rule) not in self._taken)
        self._next[stem] = free + 1
        return _fit(f"{stem}{free}", self.rule)


def _fit(id: str, rule: IdRule) -> str:
    """An id that the rule accepts, the same for the same id."""
    if rule.accepts(id):
        return id
    if rule.characters is not None and "_" in rule.characters:
        readable = "".join(letter if letter in rule.characters else "_" for letter in id)
        if rule.accepts(readable):
            return readable
    longest = rule.longest or max(rule.shortest, _DIGEST)
    return hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[:longest]


# Pair results with calls, in the order that every upstream accepts.
#
# The law: every call has exactly one result, in call order, directly after its turn.
#
# A result answers the latest calls that have its id. Some providers restart their ids in every turn
# (`list_dir:0`), so an id alone does not name a call; its position does. Within one *exchange*, a
# run of turns and results that nothing else interrupts, the first unanswered call is answered
# first. A result without an id answers the only unanswered call; with several it would be a guess.
#
# Of two results of one call the first stays: it is the one that the model has read and built on.
# (The second comes from a guard that refused what had already been started:
# https://github.com/tetsuo-ai/agenc-core/pull/2184.)


def settle(pieces: Sequence[Piece], form: HistoryForm, *, mending: Mending) -> list[Piece]:
    """The same pieces, lawful."""
    if all(isinstance(piece, Aside) for piece in pieces):
        return list(pieces)  # there is no call yet
    once = [_make_unique(piece, mending) for piece in pieces]
    pairs = _pair(once, blind=mending.continues)
    for result, kind in pairs.dropped.items():
        mending.note(kind, result.at, detail=result.id)
    _note_moves(once, pairs, mending=mending)
    ids = Ids(mending.target.ids)
    for piece in once:
        if isinstance(piece, StoredResult) and not pairs.leaves(piece):
            ids.reserve(piece.id)  # its call is somewhere else
    return list(_Writer(form, mending, pairs, ids).write(once))


def _make_unique(piece: Piece, mending: Mending) -> Piece:
    if not isinstance(piece, StoredTurn):
        return piece
    return replace(piece, entries=tuple(drop_repeated(piece.entries, mending)))


def drop_repeated(
    entries: Iterable[StoredCall | Wire], mending: Mending
) -> list[StoredCall | Wire]:
    """Merge a call that occurs twice in one turn with the same id and arguments."""
    first: dict[str, StoredCall] = {}
    kept: list[StoredCall | Wire] = []
    for entry in entries:
        if isinstance(entry, StoredCall) and entry.id:
            earlier = first.setdefault(entry.id, entry)
            if earlier is not entry and _is_same(earlier, entry):
                mending.note(ChangeKind.CALL_REPEATED, entry.at, detail=entry.id)
                continue
        kept.append(entry)
    return kept


def _is_same(first: StoredCall, second: StoredCall) -> bool:
    return first.native == second.native and first.lost == second.lost


# ── Pairing ─────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Pairs:
    """Calls and their results."""

    blind: bool
    """True if something unread came before, which may hold the call of an unknown result."""
    results: dict[StoredCall, StoredResult] = field(default_factory=dict)
    dropped: dict[StoredResult, ChangeKind] = field(default_factory=dict)
    _waiting: dict[str, tuple[int, deque[StoredCall]]] = field(default_factory=dict)
    """The calls of each id without a result, and the exchange in which they stand."""
    _exchange: int = 0
    _here: dict[StoredCall, None] = field(default_factory=dict)
    """Those of them that stand in this exchange."""
    _strays: dict[str, StoredResult] = field(default_factory=dict)
    """Results without a call that stand directly before the next turn."""
    _early: dict[StoredCall, StoredResult] = field(default_factory=dict)
    _leaving: set[StoredResult] = field(default_factory=set)

    def add_turn(self, turn: StoredTurn) -> None:
        for call in turn.calls:
            exchange, waiting = self._waiting.get(call.id, (self._exchange, deque()))
            if exchange != self._exchange:
                waiting = deque()
            waiting.append(call)
            self._waiting[call.id] = self._exchange, waiting
            self._here[call] = None
            if call.id in self._strays:
                self._early[call] = self._strays[call.id]
        self._strays = {}

    def add_result(self, result: StoredResult) -> None:
        waiting = self._queue(result.id)
        if waiting:
            call = waiting.popleft()
            self.results[call] = result
            self._here.pop(call, None)
        elif waiting is not None:
            self.dropped[result] = ChangeKind.RESULT_REPEATED
        else:
            self._strays[result.id] = result
            if not self.blind:
                self.dropped[result] = ChangeKind.RESULT_ORPHANED

    def _queue(self, id: str) -> deque[StoredCall] | None:
        """The calls that a result of this id may answer; None if there never was one."""
        if id in self._waiting:
            return self._waiting[id][1]
        if id or len(self._here) != 1:
            return None
        [sole] = self._here
        return self._waiting[sole.id][1]

    def add_aside(self, aside: Aside) -> None:
        self._exchange += 1
        self._here = {}
        self._strays = {}
        self.blind = self.blind or aside.opaque

    def finish(self, uses: Counter[str]) -> None:
        """Give a call the result directly before it, if nothing else has its id."""
        for call, result in self._early.items():
            if call not in self.results and uses[call.id] == 1:
                self.results[call] = result
                self.dropped.pop(result, None)
        self._leaving = {*self.results.values(), *self.dropped}

    def leaves(self, piece: Piece) -> bool:
        """Tell whether a piece leaves its place, for its call's side or for good."""
        return isinstance(piece, StoredResult) and piece in self._leaving


def _pair(pieces: Iterable[Piece], *, blind: bool) -> _Pairs:
    pairs = _Pairs(blind)
    uses: Counter[str] = Counter()
    for piece in pieces:
        if isinstance(piece, StoredTurn):
            pairs.add_turn(piece)
            uses.update(call.id for call in piece.calls)
        elif isinstance(piece, StoredResult):
            pairs.add_result(piece)
        else:
            pairs.add_aside(piece)
    pairs.finish(uses)
    return pairs


# ── Order, ids, and missing results ────────────────────────────────


def _order(pieces: Iterable[Piece], pairs: _Pairs) -> Iterator[Piece]:
    for piece in pieces:
        if not pairs.leaves(piece):
            yield piece
        if isinstance(piece, StoredTurn):
            yield from (pairs.results[call] for call in piece.calls if call in pairs.results)


def _note_moves(pieces: Sequence[Piece], pairs: _Pairs, *, mending: Mending) -> None:
    """Note moved results: those that now follow another piece."""
    ordered = list(_order(pieces, pairs))
    kept = set(ordered)
    before = {piece: left for left, piece in pairwise(p for p in pieces if p in kept)}
    for left, piece in pairwise(ordered):
        if isinstance(piece, StoredResult) and before.get(piece) is not left:
            mending.note(ChangeKind.RESULT_MOVED, piece.at, detail=piece.id)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the pieces down again, each turn with the results of its calls."""

    form: HistoryForm
    mending: Mending
    pairs: _Pairs
    ids: Ids

    def write(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if isinstance(piece, StoredTurn):
                yield from self._write_turn(piece)
            elif not self.pairs.leaves(piece):
                yield piece

    def _write_turn(self, turn: StoredTurn) -> Iterator[Piece]:
        renamed = {call: self._rename(call) for call in turn.calls}
        entries = [renamed[e] if isinstance(e, StoredCall) else e for e in turn.entries]
        yield replace(turn, entries=tuple(entries))
        for call in turn.calls:
            result = self.pairs.results.get(call)
            if result is not None and result.id != call.id:  # it had none
                self._note_rewritten(result.at, result.id, id=renamed[call].id)
            yield self._answer(renamed[call], result, turn=turn)

    def _rename(self, call: StoredCall) -> StoredCall:
        id = self.ids.claim(call.id)
        if call.native.get(self.form.call_id) == id:
            return call
        self._note_rewritten(call.at, call.id, id=id)
        return replace(call, id=id, native={**call.native, self.form.call_id: id})

    def _note_rewritten(self, at: int, before: str, *, id: str) -> None:
        self.mending.note(ChangeKind.ID_REWRITTEN, at, detail=f"{before!r} became {id!r}")

    def _answer(
        self, call: StoredCall, result: StoredResult | None, *, turn: StoredTurn
    ) -> StoredResult:
        if result is None:
            self.mending.note(ChangeKind.RESULT_FILLED, call.at, detail=call.id)
            # It follows its turn, at the place of the next message.
            result = StoredResult(turn.at + 1, call.id, self.form.fill(call, UNRECORDED))
        native = result.native
        if native.get(self.form.result_id) != call.id:
            native = {**native, self.form.result_id: call.id}
        if call.lost:
            native = self.form.annotate(native, explain(call.lost))
        return replace(result, id=call.id, native=native)


# Each call with its result, for protocols that have no `HistoryForm`.
#
# Gemini and Ollama go by order and by name: an answer with its calls, then their results, one for
# each call and in the order of the calls.


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A past call and its one result."""

    call: PastCall
    result: Result


@dataclass(frozen=True, slots=True)
class CallExchange:
    """A message, and what became of its calls."""

    message: Message
    answered: tuple[AnsweredCall, ...] = ()


def pair(messages: Sequence[Message]) -> Iterator[CallExchange]:
    """Go through a history, each answer with the results of its calls.

    A call without a result gets one that says so; a result without a call is left out. Where
    an id was used again in a later turn, the first result is the first call's.
    """
    waiting: defaultdict[str, deque[Result]] = defaultdict(deque)
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, CallResult):
            waiting[part.call_id].append(part.result)
    for message in messages:
        if message.role is not Role.TOOL:
            calls = [part for part in message.parts if isinstance(part, PastCall)]
            answered = (AnsweredCall(call, _take(waiting[call.id])) for call in calls)
            yield CallExchange(message, tuple(answered))


def _take(waiting: deque[Result]) -> Result:
    return waiting.popleft() if waiting else Result((Text(UNRECORDED),), failed=True)
