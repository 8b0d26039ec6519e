"""Calls of OpenAI's custom tools, which take any text instead of arguments.

No schema says what such a text should be, and nothing in it shows where it ends. So a call is
handed on as it is, to clients that know such tools, when its choice has ended well; of one that the
output limit ended, without the last. It is never run here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar

import msgspec

from wholecall.core.limits import DEFAULT
from wholecall.core.values import Hint, ProviderBlock
from wholecall.errors import ProtocolError
from wholecall.protocols.pieces import Pieces

CUSTOM = "custom"
"""The type of such a call."""


class CustomCall(msgspec.Struct):
    """A piece of a custom call, as in an entry of `tool_calls`."""

    name: str | None = None
    input: str | None = None


class _Entry(Protocol):
    """An entry of `tool_calls`."""

    index: int | float | str | None
    id: str | int | None
    function: Any
    custom: CustomCall | None


_AnEntry = TypeVar("_AnEntry", bound=_Entry)
_CUT = frozenset({Hint.LENGTH})
_VOID = frozenset({Hint.CONTENT_FILTER, Hint.MALFORMED, Hint.ERROR})


class _Draft:
    __slots__ = ("id", "input", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.input = Pieces("the input of a custom tool")


class CustomCalls:
    """Those of one answer, being built."""

    __slots__ = ("_drafts",)

    def __init__(self) -> None:
        self._drafts: dict[int, dict[Any, _Draft]] = {}
        """By the choice, and by the index in it."""

    def sift(self, choice: int, entries: Iterable[_AnEntry | None]) -> Iterator[_AnEntry]:
        """Take what belongs to such calls; what is left are other calls."""
        for entry in entries:
            if entry is None:
                continue
            if entry.custom is not None and self._is_custom(choice, entry, piece=entry.custom):
                self._add(choice, entry, piece=entry.custom)
            else:
                yield entry

    def _is_custom(self, choice: int, entry: _Entry, *, piece: CustomCall) -> bool:
        """Return whether an entry is a piece of a custom call.

        Snowflake puts an empty `custom` beside the `function` of every call.
        """
        if piece.name or piece.input or entry.function is None:
            return True
        says = entry.function.name or entry.function.arguments
        return not says and entry.index in self._drafts.get(choice, {})

    def _add(self, choice: int, entry: _Entry, *, piece: CustomCall) -> None:
        drafts, slot = self._drafts.setdefault(choice, {}), entry.index
        if slot not in drafts and len(drafts) >= DEFAULT.blocks:
            raise ProtocolError(f"the answer has more than {DEFAULT.blocks} custom calls")
        draft = drafts.setdefault(slot, _Draft())
        draft.id = draft.id or (None if entry.id is None else str(entry.id))
        draft.name = draft.name or piece.name or ""
        draft.input.add(piece.input or "")

    def release(self, choice: int, hint: Hint | None = None) -> Iterator[ProviderBlock]:
        """A choice is over, and so are those of its calls that came whole."""
        drafts = list(self._drafts.pop(choice, {}).values())
        if not drafts or hint in _VOID:
            return
        for draft in drafts[:-1] if hint in _CUT else drafts:
            called = {"name": draft.name, "input": draft.input.join()}
            yield ProviderBlock({"id": draft.id, "type": CUSTOM, CUSTOM: called})

    @property
    def choices(self) -> tuple[int, ...]:
        """The choices that have some."""
        return tuple(self._drafts)
