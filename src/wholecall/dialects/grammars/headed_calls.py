"""Calls whose name is in a header, followed by the JSON of the arguments.

<|tool_call_begin|>functions.search:0<|tool_call_argument_begin|>{"query": "x"}<|tool_call_end|>
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from wholecall.dialects.char_stream import Markers, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import (
    BROKEN_JSON,
    Shape,
    Trim,
    ValueWriter,
    accept_end,
    escape,
    read_arguments,
    read_text,
    read_value,
    shape_of,
    types_of,
)
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext
from wholecall.events import Reason

_FENCE = markers_of(("```json", "```"))
_KIND_END = markers_of(("\n", "{"))


# ── Headers ─────────────────────────────────────────────────────────────────────────


class Header(enum.Enum):
    """The content of a header."""

    NAME = "name"
    COUNTED = "counted"  # `functions.search:0`, which is the id, too
    RECIPIENT = "recipient"  # `functions.search <|constrain|>json`
    ID_FIRST = "id_first"  # an id, `name_mark`, `search`


_COUNTED = re.compile(r"(.*?)\s*:\s*\d++\Z", re.DOTALL)
_NAMELESS = re.compile(r"(?:\d++|call_\w++)\Z")
_PUNCTUATION = "._:-"
_RECIPIENT = re.compile(
    r"([^\s<]++)\s*+(?:(?:commentary|final)\b\s*+)?(?:<.*|json|code)?\s*+\Z", re.DOTALL
)


def _name(text: str, _: HeadedCalls) -> tuple[str, str | None]:
    return text, None


def _counted(text: str, _: HeadedCalls) -> tuple[str, str | None]:
    """The name is between namespace and counter; a counter or a foreign id is not a name."""
    counted = _COUNTED.match(text)
    nameless = _NAMELESS.match(text)
    return (counted[1] if counted else "" if nameless else text), text


def _recipient(text: str, _: HeadedCalls) -> tuple[str, str | None]:
    """The first word; only tokens and the content type of the message may follow."""
    found = _RECIPIENT.match(text)
    return (found[1] if found else ""), None


def _id_first(text: str, grammar: HeadedCalls) -> tuple[str, str | None]:
    id, _, name = text.rpartition(grammar.name_mark)
    return name.strip(), id.strip() or None


_HEADS: dict[Header, Callable[[str, HeadedCalls], tuple[str, str | None]]] = {
    Header.NAME: _name,
    Header.COUNTED: _counted,
    Header.RECIPIENT: _recipient,
    Header.ID_FIRST: _id_first,
}

# ── Calls ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class HeadedCalls:
    """Calls whose name precedes their arguments."""

    calls: tuple[str, ...]
    """Markers that begin a call."""
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
    text_name: str = ""
    """In the place of a name: what follows is text."""
    name_mark: str = ""
    """The mark between an id and the name, if the id comes first."""
    thoughts: tuple[str, ...] = ()
    """Openers or headers of messages that belong to the reasoning."""
    call_end: str = ""
    """The end of a message that is to be acted on. In reasoning any other end marks a plan; the
    answer may also end there, because servers strip this mark."""

    def __post_init__(self) -> None:
        if self.head is Header.ID_FIRST and not self.name_mark:
            raise ValueError("a header that begins with an id needs a name_mark before the name")

    def read(self, machine: ParserContext, opener: str, /) -> Steps[bool]:
        """Read the calls from an opener on; False if none follows."""
        return (yield from _Reading(machine, self).calls(opener))


_ARGS, _CALL_ID = "[ARGS]", "[CALL_ID]"


@dataclass(frozen=True, slots=True)
class NamedHeadCalls:
    """`search[ARGS]{"query": "x"}`, of one tool: Mistral's, where the mark before it was lost.

    It begins a line, or follows another one.
    """

    name: str

    @property
    def openers(self) -> tuple[str, ...]:
        """The name with what must follow it."""
        return tuple(f"\n{head}" for head in _heads(self.name))

    def read(self, machine: ParserContext, opener: str, /) -> Steps[bool]:
        """Read the call after its opener, and those that follow; return False without one."""
        reading = _Reading(machine, _UNMARKED)
        found = yield from reading.behind_head(opener.strip())
        if found:
            yield from reading.unmarked()
        return found


_UNMARKED = HeadedCalls(calls=(), head_end=(_ARGS,))


def _heads(name: str) -> tuple[str, ...]:
    return (f"{name}{_ARGS}", f"{name}{_CALL_ID}")


@lru_cache(maxsize=64)
def _all_heads(names: tuple[str, ...]) -> Markers:
    return Markers(head for name in names for head in (*_heads(name), f"{name}{{"))


class _Reading:
    def __init__(self, machine: ParserContext, grammar: HeadedCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grammar = grammar
        self._call_begin = markers_of(grammar.calls)
        self._section_close = markers_of(grammar.section_close)
        self._closers = markers_of(grammar.call_close)
        self._ends = markers_of(grammar.call_close or grammar.calls)
        """Text that arguments may hold only inside a string."""
        ends = (*grammar.head_end, *((grammar.id_mark,) if grammar.id_mark else ()))
        stops = (*grammar.calls, *grammar.call_close, *grammar.section_close)
        self._head_end = markers_of((*ends, *(stop for stop in stops if stop not in ends)))

    def calls(self, opener: str) -> Steps[bool]:
        """One call, and those that follow it."""
        begun = not opener or opener in self._call_begin
        if begun and not (yield from self._call(opener)):
            return False
        while True:
            follows = yield from self._source.sees_ahead(
                markers_of(self._grammar.calls + self._grammar.section_close)
            )
            if not follows and begun and self._grammar.id_mark:
                yield from self.unmarked()
                return True
            if not follows:
                # The mark of the first call may be omitted after that of the section.
                return begun or (yield from self._call(opener))
            yield from self._source.skip()
            self._source.at += len(follows)
            if follows in self._section_close:
                return True
            if not (yield from self._call(follows)):
                if begun:
                    self._output.reject(Reason.BAD_MARKUP, f"no call can be read after {follows!r}")
                return begun
            begun = True

    def _call(self, opener: str) -> Steps[bool]:
        """Read one call after its marker; return False without one."""
        first = yield from self._source.skip()
        if self._grammar.whole_objects and first and first in "[{":
            return (yield from JsonCalls(self._grammar.call_close).read(self._machine, opener))
        head = yield from self._header()
        if head is None:
            return False
        text, id = head
        spelled, own_id = _HEADS[self._grammar.head](text, self._grammar)
        if spelled and spelled == self._grammar.text_name:
            return True
        if any(mark in opener + text for mark in self._grammar.thoughts):
            return (yield from self._thought(spelled))
        if not spelled and self._machine.sole:
            return (yield from self._nameless(text))
        if self._grammar.head is Header.COUNTED:
            spelled = self._without_marks(spelled) or spelled
        # Without a marker only an offered name tells a call from prose.
        name = self._machine.admit(spelled or text) if opener else self._machine.find(spelled)
        return name is not None and (yield from self._arguments(name, own_id or id))

    def _without_marks(self, id: str) -> str:
        """The only tool whose counted name this is without its marks, as clients clean ids and
        models repeat them: `functions_search_0`, `functionssearch0`."""
        begin, _, rest = id.partition("functions")
        if begin or self._machine.find(id):
            return ""
        rest = rest.lstrip(_PUNCTUATION)
        offered = (name for name in self._machine.offer or () if rest.startswith(name))
        fitting = [name for name in offered if rest[len(name) :].lstrip(_PUNCTUATION).isdecimal()]
        return fitting[0] if len(fitting) == 1 else ""

    def _header(self) -> Steps[tuple[str, str | None] | None]:
        """Return the text before the arguments, and an id after it; None if this is not a
        header."""
        text, end = yield from self._source.header(self._head_end, LONGEST_NAME)
        if end not in self._grammar.head_end and end != self._grammar.id_mark:
            return None
        id: str | None = None
        if end == self._grammar.id_mark:
            id, end = yield from self._source.header(
                markers_of(self._grammar.head_end), LONGEST_NAME
            )
        if end.endswith("{"):
            self._source.at -= 1
        if self._grammar.kind and text.strip() == self._grammar.kind:
            text, end = yield from self._source.header(_KIND_END, LONGEST_NAME)
            self._source.at -= end == "{"
        return text.strip(), id

    def _arguments(self, name: str, id: str | None) -> Steps[bool]:
        yield from self._source.skip()
        fenced = bool((yield from self._source.accept(_FENCE)))
        first = yield from self._source.skip()
        if first != "{":
            return (yield from self._without_object(name, id))
        self._output.open(name, id)
        if not (yield from read_arguments(self._source, self._output.grow, ends=self._ends)):
            self._machine.spoil(BROKEN_JSON)
            if self._grammar.call_close:
                yield from self._source.flow(self._closers, ignore)
            return True
        self._output.seal()
        if fenced:
            yield from accept_end(self._source, _FENCE)
        yield from accept_end(self._source, self._closers)
        return True

    def unmarked(self) -> Steps[None]:
        """Calls that follow without the mark before their names."""
        heads = _all_heads(tuple(self._machine.offer or ()))
        while head := (yield from self._source.sees_ahead(heads)):
            place = self._source.bookmark()
            yield from self._source.skip()
            self._source.at += len(head)
            found = yield from self.behind_head(head)
            if not found:
                self._source.rewind(place)
            self._source.forget()
            if not found:
                return

    def behind_head(self, head: str) -> Steps[bool]:
        """Read the rest of a call after its name and the mark that follows."""
        id, end = None, _ARGS
        if head.endswith(_CALL_ID):
            id, end = yield from self._source.header(markers_of((_ARGS,)), LONGEST_NAME)
        self._source.at -= head.endswith("{")
        name = head.removesuffix("{").removesuffix(_ARGS).removesuffix(_CALL_ID)
        return bool(end) and (yield from self._arguments(name, id))

    def _thought(self, spelled: str) -> Steps[bool]:
        """A message to a tool among thoughts: a call if it ends as one, else reasoning."""
        name = self._machine.admit(spelled)
        place = self._source.bookmark()
        first = yield from self._source.skip()
        whole = first == "{" and (yield from read_value(self._source, ignore))
        follows = yield from self._source.skip()
        text = self._source.since(place)
        self._source.forget()
        end = yield from self._source.accept(self._closers)
        if name is not None and (end == self._grammar.call_end if follows else first == "{"):
            self._output.open(name, arguments=text)
            if whole:
                self._output.seal()
            return True
        self._output.reasoning(text)
        if not end:
            yield from self._source.flow(self._closers, self._output.reasoning)
        return True

    def _nameless(self, id: str) -> Steps[bool]:
        """Read a call without a name: of the only offered tool, if its parameters match."""
        pieces: list[str] = []
        whole = yield from read_value(self._source, pieces.append)
        parsed = read_text("".join(pieces)) if whole else None
        sole = self._machine.sole
        fits = (
            parsed is not None
            and isinstance(parsed.value, dict)
            and parsed.value
            and parsed.value.keys() <= self._machine.properties(sole).keys()
        )
        name = sole if fits else self._machine.admit(id)
        if name is None:
            return False
        self._output.open(name, id, arguments="".join(pieces) or "{")
        if whole:
            self._output.seal()
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


# Calls with one parameter to a line.
#
#     <tool_call>
#     <function=search>
# >     query: x
# >     limit: 3
#     </tool_call>
#
# Values are raw and end with their line.


@dataclass(frozen=True, slots=True)
class LineCalls:
    """Calls with a header, and lines up to one of the closers."""

    head_end: tuple[str, ...]
    """The marks that end the name."""
    closers: tuple[str, ...]
    begin: str = ""
    """The text between an opener and the name."""
    separator: str = ":"
    untyped: Shape = Shape.TEXT
    """The shape of a value without a schema."""

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the call at this position; return False without one."""
        return (yield from _LineReading(machine, self).call())


class _LineReading:
    def __init__(self, machine: ParserContext, grammar: LineCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grammar = grammar
        self._closers = markers_of(grammar.closers)
        self._key_end = markers_of((grammar.separator, "\n", *grammar.closers))
        self._line_end = markers_of(("\n", *grammar.closers))

    def call(self) -> Steps[bool]:
        if self._grammar.begin:
            yield from self._source.skip()
            if not (yield from self._source.accept(markers_of((self._grammar.begin,)))):
                return False
        text, end = yield from self._source.header(markers_of(self._grammar.head_end), LONGEST_NAME)
        name = self._machine.admit(text.strip().strip("\"'")) if end else None
        if name is None:
            return False
        key = yield from self._key()
        if key is None:
            return False
        self._output.open(name, arguments="{")
        yield from self._lines(name, key)
        return True

    def _key(self) -> Steps[str | None]:
        """Return the next key; empty at the end of the call, None if there is neither."""
        yield from self._source.skip()
        if (yield from self._source.accept(self._closers)):
            return ""
        text, end = yield from self._source.header(self._key_end, LONGEST_NAME)
        return text.strip() or None if end == self._grammar.separator else None

    def _lines(self, name: str, key: str | None) -> Steps[None]:
        properties = self._machine.properties(name)
        separator = ""
        while key:
            self._output.grow(f'{separator}"{escape(key)}": ')
            types = types_of(properties.get(key))
            shape = shape_of(types) if key in properties else self._grammar.untyped
            writer = ValueWriter(self._output.grow, shape, trim=Trim.BLANKS, types=types)
            mark = yield from self._source.flow(self._line_end, writer.put)
            if not mark:
                return
            writer.close()
            self._source.at -= 0 if mark == "\n" else len(mark)
            separator = ", "
            key = yield from self._key()
        if key is None:
            self._machine.spoil("a line is no parameter and not the end")
            yield from self._source.flow(self._closers, ignore)
            return
        self._output.grow("}")
        self._output.seal()
        yield from self._source.accept_ahead(self._closers)
