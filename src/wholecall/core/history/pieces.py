"""A history as the mender sees it, whatever its protocol: turns, results, and all the rest.

Each protocol splits its messages into these pieces and joins them again. What lies between,
which result belongs to which call and where it must stand, is the same for all of them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wholecall.core.history.target import Target

Wire: TypeAlias = Mapping[str, Any]
"""A message, an item or a block in the protocol's own shape. It is copied, never changed."""

UNRECORDED = "Error: no result was recorded for this call. It may or may not have run."
"""The words of a missing result. They must not make the model repeat what did run, nor
believe that the user stopped it."""


class ChangeKind(enum.Enum):
    """The kind of a change in a history."""

    RESULT_ORPHANED = "result_orphaned"
    """A result without a call was dropped."""
    RESULT_REPEATED = "result_repeated"
    """A second result of one call was dropped."""
    RESULT_FILLED = "result_filled"
    """A call without a result got one that says so."""
    RESULT_MOVED = "result_moved"
    """A result was moved directly after its call, in call order."""
    RESULT_BLANK = "result_blank"
    """A result without content got words that say so."""
    RESULT_ENCODED = "result_encoded"
    """A result that was neither text nor parts became its JSON text."""
    CALL_REPEATED = "call_repeated"
    """A call that stood twice in one message was dropped once."""
    ID_REWRITTEN = "id_rewritten"
    ARGUMENTS_EMPTIED = "arguments_emptied"
    """Arguments that were no JSON object became `{}`; their text went to the result."""
    ARGUMENTS_ENCODED = "arguments_encoded"
    """Arguments that were missing, or of the wrong type, became what the protocol wants."""
    TYPE_ADDED = "type_added"
    """A call that did not say what it calls is one of a function."""
    BLANK_DROPPED = "blank_dropped"
    """A text that says nothing, a message without content or an empty list of calls was dropped."""
    TURNS_MERGED = "turns_merged"
    """Calls in two messages without a result between became one turn."""
    REASONING_DROPPED = "reasoning_dropped"
    REASONING_RESTORED = "reasoning_restored"
    SIGNATURE_DROPPED = "signature_dropped"
    SYSTEM_MOVED = "system_moved"
    BRIDGE_ADDED = "bridge_added"
    """Words of the assistant were put between results and the user."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was changed in a history."""

    kind: ChangeKind
    where: str
    """The message as it came in, as a JSON path: `$[3]`."""
    detail: str = ""


@dataclass(slots=True)
class Mending:
    """One history being mended: what its reader wants, and what was changed so far."""

    target: Target
    continues: bool = False
    """True if the upstream holds earlier messages, which may hold a result's call."""
    remembered: Mapping[str, Wire] = field(default_factory=dict)
    """Fields of the message that carried a call, by the call's id."""
    changes: list[Change] = field(default_factory=list)

    def note(self, kind: ChangeKind, at: int, *, detail: str = "") -> None:
        """Record a change of the message in this place."""
        self.changes.append(Change(kind, f"$[{at}]", detail))


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of one message in a history being mended."""

    at: int
    mending: Mending

    @property
    def target(self) -> Target:
        """The target of the history."""
        return self.mending.target

    def note(self, kind: ChangeKind, detail: str = "") -> None:
        """Record a change of this message."""
        self.mending.note(kind, self.at, detail=detail)


# Pieces are compared by identity: two equal results are still two results.
@dataclass(frozen=True, slots=True, eq=False)
class StoredCall:
    """A call in the history."""

    at: int
    id: str
    """Empty where the client sent none."""
    native: Wire
    lost: str = ""
    """The text of arguments that could not be kept; the result will tell it."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredTurn:
    """An answer of the model that holds calls."""

    at: int
    entries: tuple[StoredCall | Any, ...]
    """Its calls, and in their places the content between them."""
    frame: Wire = field(default_factory=dict)
    """The message around the entries."""

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        """Its calls alone."""
        return tuple(entry for entry in self.entries if isinstance(entry, StoredCall))

    @property
    def natives(self) -> list[Any]:
        """Its entries in the protocol's own shape."""
        return [entry.native if isinstance(entry, StoredCall) else entry for entry in self.entries]


@dataclass(frozen=True, slots=True, eq=False)
class StoredResult:
    """The result of a call."""

    at: int
    id: str
    native: Wire


@dataclass(frozen=True, slots=True, eq=False)
class Aside:
    """Anything else."""

    at: int
    native: Any
    opaque: bool = False
    """Unreadable content may hold the calls of the results that follow."""


Piece: TypeAlias = StoredTurn | StoredResult | Aside


@dataclass(frozen=True, slots=True)
class Form:
    """The form in which one protocol writes a history."""

    split: Callable[[Sequence[Any], Mending], list[Piece]]
    join: Callable[[Sequence[Piece], Mending], list[Any]]
    call_id: str
    """The key of a call that holds its id."""
    result_id: str
    """The key of a result that holds its call's id."""
    fill: Callable[[StoredCall, str], Wire]
    """A result for a call that has none, with these words."""
    annotate: Callable[[Wire, str], Wire]
    """A result with words added to it."""


def read_id(native: Wire, key: str) -> str:
    """An id as the client sent it, empty if it sent none. Some send numbers."""
    id = native.get(key)
    return str(id) if isinstance(id, str | int) else ""
