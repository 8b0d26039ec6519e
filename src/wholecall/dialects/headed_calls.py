"""The name of a call in a header, and behind it the JSON of its arguments.

<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{"query": "x"}<|tool_call_end|>
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass

from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.jsontext import BROKEN_JSON, read_value
from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.source import Steps, ignore

_FENCE = marks_of(("```json", "```"))
_LINE_END = marks_of(("\n",))


# ── Headers ─────────────────────────────────────────────────────────────────────────


class Header(enum.Enum):
    """What a header holds."""

    NAME = "name"
    COUNTED = "counted"  # `functions.search:0`, which is the id, too
    RECIPIENT = "recipient"  # `functions.search <|constrain|>json`


_COUNTED = re.compile(r"(.*?)\s*:\s*\d++\Z", re.DOTALL)
_RECIPIENT = re.compile(r"[^\s<]*+")


def _name(text: str) -> tuple[str, str | None]:
    return text, None


def _counted(text: str) -> tuple[str, str | None]:
    """The name stands between namespace and counter."""
    counted = _COUNTED.match(text)
    return (counted[1] if counted else text), text


def _recipient(text: str) -> tuple[str, str | None]:
    """A plan in the analysis channel calls nobody."""
    found = _RECIPIENT.match(text)
    return ("" if found is None or "<|channel|>analysis" in text else found.group()), None


_HEADS: dict[Header, Callable[[str], tuple[str, str | None]]] = {
    Header.NAME: _name,
    Header.COUNTED: _counted,
    Header.RECIPIENT: _recipient,
}

# ── Calls ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class HeadedCalls:
    """Calls whose name stands before their arguments."""

    calls: tuple[str, ...]
    """What begins a call."""
    head_end: tuple[str, ...]
    call_close: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    section_close: tuple[str, ...] = ()
    head: Header = Header.NAME
    id_mark: str = ""
    """After the name: an id, up to the header's end."""
    kind: str = ""
    """A word that may stand in the place of the name, which then follows in its own line."""
    whole_objects: bool = False
    """The markers may be followed by whole call objects, too."""

    def read(self, machine: Machine, opener: str, /) -> Steps[bool]:
        """Read the calls from an opener on; False if none follows."""
        return (yield from _Reading(machine, self).calls(opener))


class _Reading:
    def __init__(self, machine: Machine, grammar: HeadedCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grammar = grammar
        self._call_begin = marks_of(grammar.calls)
        self._section_close = marks_of(grammar.section_close)
        self._closers = marks_of(grammar.call_close)
        ends = (*grammar.head_end, *((grammar.id_mark,) if grammar.id_mark else ()))
        stops = (*grammar.calls, *grammar.call_close, *grammar.section_close)
        self._head_end = marks_of((*ends, *(stop for stop in stops if stop not in ends)))

    def calls(self, opener: str) -> Steps[bool]:
        """One call, and those that follow it."""
        begun = opener in self._call_begin
        if begun and not (yield from self._call()):
            return False
        while True:
            follows = yield from self._source.sees_ahead(
                marks_of(self._grammar.calls + self._grammar.section_close)
            )
            if not follows:
                return begun
            yield from self._source.skip()
            self._source.at += len(follows)
            if follows in self._section_close:
                return True
            if not (yield from self._call()):
                return begun
            begun = True

    def _call(self) -> Steps[bool]:
        """One call, from behind its marker; False if there is none."""
        first = yield from self._source.skip()
        if self._grammar.whole_objects and first and first in "[{":
            return (yield from JsonCalls(self._grammar.call_close).read(self._machine))
        text, end = yield from self._source.header(self._head_end, LONGEST_NAME)
        if end not in self._grammar.head_end and end != self._grammar.id_mark:
            return False
        id: str | None = None
        if end == self._grammar.id_mark:
            id, end = yield from self._source.header(marks_of(self._grammar.head_end), LONGEST_NAME)
        if end == "{":
            self._source.at -= 1
        if self._grammar.kind and text.strip() == self._grammar.kind:
            text, _ = yield from self._source.header(_LINE_END, LONGEST_NAME)
        spelled, own_id = _HEADS[self._grammar.head](text.strip())
        name = self._machine.admit(spelled)
        return name is not None and (yield from self._arguments(name, own_id or id))

    def _arguments(self, name: str, id: str | None) -> Steps[bool]:
        yield from self._source.skip()
        fenced = bool((yield from self._source.accept(_FENCE)))
        first = yield from self._source.skip()
        if first != "{":
            return (yield from self._without_object(name, id))
        self._output.open(name, id)
        whole = yield from read_value(self._source, self._output.grow)
        if not whole:
            self._machine.spoil(BROKEN_JSON)
            if self._grammar.call_close:
                yield from self._source.flow(self._closers, ignore)
            return True
        self._output.seal()
        if fenced:
            yield from self._source.accept_ahead(_FENCE)
        yield from self._source.accept_ahead(self._closers)
        return True

    def _without_object(self, name: str, id: str | None) -> Steps[bool]:
        """No arguments, then the end of the call; or no call."""
        if (yield from self._source.accept(self._closers)):
            self._output.open(name, id, arguments="{}")
            self._output.seal()
            return True
        if self._source.ended and not (yield from self._source.peek()):
            self._output.open(name, id, arguments="{")
            return True
        return False
