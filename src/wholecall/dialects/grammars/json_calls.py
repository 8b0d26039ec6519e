"""The state of a call object while it is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wholecall.assembly.verdict import ARGUMENTS, IDS, NAMES, OTHERS, WRAPPER, is_wrapper
from wholecall.dialects.char_stream import Sink, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_values import (
    BROKEN_JSON,
    accept_end,
    escape,
    has_more_members,
    read_string,
    read_value,
)
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext, plausible
from wholecall.events import Reason

_TAIL = 64
_NO_PROOF = re.compile(r"""\}["']?\s*+\}\s*+\Z""")
"""Before the brace that closes the arguments is another one: that of a nested object, which may be
the missing one, or one inside a string."""


class AllButLast:
    """Hands arguments on, but for their last character: the brace that closes them.

    The first is never kept: a call without any arguments would look like one with none.
    """

    __slots__ = ("_begun", "_grow", "_kept")

    def __init__(self, grow: Callable[[str], None]) -> None:
        self._grow = grow
        self._kept = ""
        self._begun = False

    def put(self, piece: str) -> None:
        """Take a piece of the arguments."""
        body = self._kept + piece
        end = len(body) - (self._begun or len(body) > 1)
        self._kept = body[end:]
        self._begun = True
        if end:
            self._grow(body[:end])

    def release(self) -> None:
        """Hand on what was kept."""
        self._grow(self._kept)
        self._kept = ""


class CallObject:
    """The state of one call object so far."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.id: str | None = None
        self.early: list[str] | None = None
        """Arguments that came before the name."""
        self.beside: list[str] = []
        """Parameters that stand where the name does, as members of an object."""
        self.behind = False
        """True if anything else follows the arguments."""
        self.keys: set[str] = set()
        self.opened = False
        self.last: AllButLast | None = None
        self.span = (0, 0)
        """The position of the arguments in the text."""

    def end(self) -> None:
        """The object that holds name and arguments is closed: nothing of them is cut off."""
        if self.last is not None:
            self.last.release()
            self.last = None


def may_lack_brace(arguments: str) -> bool:
    """Return True if a missing brace may be missing in these arguments."""
    return _NO_PROOF.search(arguments.rstrip()[-_TAIL:]) is not None


# Calls as JSON objects, alone, in lists, on lines, in wrappers.
#
# >     {"name": "search", "arguments": {"query": "x"}}
#
# The keys may come in any order. A call is opened as soon as its name is known and its arguments
# begin, and its arguments are handed on while they arrive, but for their last brace: it follows
# when the object around them is closed, too. So a cut between the two braces leaves an open object,
# which the assembler rejects.
#
#     {"name": "search", "arguments": {"query": "x"}      ← cut here, it is not a call
#
# Models also write the arguments beside the name. That is a call where the object is closed and
# holds nothing else, and no word in it could mean two things:
#
# >     {"name": "search", "query": "x"}


WRAPPERS = frozenset({"function", "tool_call", "function_call", "functionCall", "toolCall"})
LISTS = frozenset({"tool_calls", "toolCalls", "function_calls", "calls", "tool_uses"})
BRACE = "{"
_AFTER_SEPARATOR = markers_of(("{", "]"))
_NOTHING = ("null", '""')
_EMPTY = (*_NOTHING, "{}")
# An opened call must get at least one character: none at all would mean no arguments.
_NO_VALUE = frozenset({"", ",", ":", "}", "]"})
_MOST_WRAPPERS = 8
"""Wrappers in each other. Honest ones are two deep; each costs a level of recursion."""
_FENCE = markers_of(("```json", "```"))
_BRACE_TOO_MANY = markers_of(("}",))
_BESIDE = "parameters stand beside its arguments"
_KNOWN = NAMES | ARGUMENTS | IDS | WRAPPERS | LISTS | OTHERS


@dataclass(frozen=True, slots=True)
class JsonCalls:
    """JSON objects, one or many, up to one of the closers."""

    closers: tuple[str, ...] = ()
    marked: bool = True
    """True if a marker identifies calls; without one, only an offered name does."""
    name_is_key: bool = False
    """`{"search": {"query": "x"}}` (Apertus)."""
    name_keys: tuple[str, ...] = ()
    argument_keys: tuple[str, ...] = ()
    """Words of this format for `name` and `arguments`, in addition to the usual ones."""
    head_end: str = ""
    """The mark that ends a header between the opener and the objects."""

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read all calls that stand here; False if none does.

        The opener may be the first brace itself, where objects stand in prose.
        """
        if self.head_end:
            _, end = yield from machine.source.header(markers_of((self.head_end,)), LONGEST_NAME)
            if not end:
                return False
        if opener == BRACE:
            return not machine.output.amid_json and (
                yield from _Reading(machine, self).behind_brace()
            )
        return (yield from _Reading(machine, self, opener=opener).sequence())


class _Reading:
    """Reads the calls at one place."""

    def __init__(self, machine: ParserContext, grammar: JsonCalls, *, opener: str = "") -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._closers = markers_of(grammar.closers)
        begins = (opener,) if opener else ()
        self._begins = markers_of(begins)
        """The beginnings of another call: an object holds them only inside a string."""
        ends = grammar.closers + begins
        self._ends = markers_of(ends) if ends else None
        self._admit = machine.admit if grammar.marked else machine.find
        self._names = NAMES.union(grammar.name_keys)
        self._argument_keys = ARGUMENTS.union(grammar.argument_keys)
        self._known = _KNOWN | self._names | self._argument_keys
        self._grammar = grammar
        self._depth = 0
        self._begun = False
        """True if a call was opened: from there on nothing is given back as text."""
        self._listed = False
        """True if other calls precede this object: it is not prose."""

    def sequence(self) -> Steps[bool]:
        """All calls, in a code fence or not, up to a closer."""
        fenced = self._grammar.marked and (yield from self._fence())
        yield from self._objects()
        if fenced:
            yield from self._source.accept_ahead(_FENCE)
        closed = yield from accept_end(self._source, self._closers)
        if self._begun and self._grammar.marked and not closed:
            yield from self._report_rest()
        return self._begun

    def _report_rest(self) -> Steps[None]:
        """Report objects that words part from the calls before the closer. They stay text."""
        place = self._source.bookmark()
        marks = self._closers if self._ends is None else self._ends
        text, end = yield from self._source.header(marks, LONGEST_NAME)
        self._source.rewind(place)
        self._source.forget()
        if end in self._closers and "{" in text:
            self._output.reject(Reason.BAD_MARKUP, "text stands between the calls")

    def behind_brace(self) -> Steps[bool]:
        """The same, where the brace of the first object is read."""
        if (yield from self._object_rest()):
            yield from self._objects()
        return self._begun

    def _objects(self) -> Steps[None]:
        """Objects with brackets, commas, semicolons and white space between them."""
        inside, separated, goes_on = 0, False, True
        while goes_on:
            first = yield from self._source.skip()
            if first == "{":
                self._listed = self._begun
                goes_on = yield from self._object()
            elif first == "[" and not self._begun:
                inside += 1
                self._source.at += 1
            elif first == "]" and inside:
                inside -= 1
                self._source.at += 1
            elif first and first in ",;" and self._begun:
                goes_on = yield from self._goes_on(listed=inside > 0)
            else:
                goes_on = separated and (yield from self._foreign())
            separated = first == "," and inside > 0

    def _foreign(self) -> Steps[bool]:
        """Report an element of a list that is not a call; return True if others may follow."""
        ended = not (yield from self._source.peek())
        whole = yield from read_value(self._source, ignore, ends=self._ends)
        if ended or (not whole and self._source.ended):
            self._output.reject(Reason.TRUNCATED, "the list of calls is cut off")
        else:
            self._output.reject(Reason.BAD_MARKUP, "an element of the list of calls is not a call")
        if not whole and self._grammar.closers:
            yield from self._source.flow(self._closers, ignore)
        return whole

    def _fence(self) -> Steps[bool]:
        """Return True if a code fence is between the marker and the calls; read it."""
        yield from self._source.skip()
        return bool((yield from self._source.accept(_FENCE)))

    def _goes_on(self, *, listed: bool) -> Steps[bool]:
        """Return True if another call, not prose, follows a separator."""
        if listed:
            self._source.at += 1
            return True
        follows = yield from self._source.sees_ahead(_AFTER_SEPARATOR, 1)
        self._source.at += 1 if follows else 0
        return bool(follows)

    # ── One object ──────────────────────────────────────────────────────────────────

    def _object(self) -> Steps[bool]:
        before, place = self._output.calls, self._source.bookmark()
        self._source.at += 1
        others = yield from self._object_rest()
        if self._listed and self._output.calls == before:
            self._source.rewind(place)
            others = yield from self._foreign()
        self._source.forget()
        return others

    def _object_rest(self) -> Steps[bool]:
        """Read an object after its brace; return True if others may follow."""
        found = CallObject()
        self._source.bookmark()
        whole = yield from self._members(found)
        self._source.forget()
        if found.opened:
            if not whole:
                yield from self._broken()
            else:
                yield from self._conclude(found, twice=bool(found.beside))
            return whole
        if whole and found.name is not None and self._open_late(found):
            yield from self._conclude(found, twice=bool(found.beside and found.early))
            return True
        if not whole and self._source.ended:
            self._cut_off(found)
        # An object without a call is skipped between others; as the first it is not a call at all.
        return whole and self._begun

    def _conclude(self, found: CallObject, *, twice: bool) -> Steps[None]:
        """Conclude a closed object. Arguments in two places are ambiguous."""
        if twice:
            self._machine.spoil(_BESIDE)
        elif (yield from self._was_closed_early(found)):
            yield from self._broken()
        else:
            found.end()
            self._output.seal()

    def _was_closed_early(self, found: CallObject) -> Steps[bool]:
        """Return True if a surplus bracket closed the arguments early."""
        if found.behind and (yield from self._source.sees_ahead(_BRACE_TOO_MANY)):
            return True
        return (yield from has_more_members(self._source))

    def _broken(self) -> Steps[None]:
        """Skip the rest of a broken call up to its marked end, except another call that begins
        right here. Farther on it may be part of a string."""
        self._machine.spoil(BROKEN_JSON)
        if self._grammar.closers and not (yield from self._source.sees_ahead(self._begins)):
            yield from self._source.flow(self._closers, ignore)

    def _members(self, found: CallObject) -> Steps[bool]:
        """All members of an object that is open; whether it was closed."""
        separated = True
        while True:
            first = yield from self._source.skip()
            if first == "}":
                self._source.at += 1
                return True
            if first == ",":
                self._source.at += 1
                separated = True
            elif found.opened and (yield from self._ends_here(first)):
                # A brace was left out; what follows is surely not in this object.
                return not self._may_lack_brace(found)
            elif not separated or not (yield from self._member(found)):
                return False
            else:
                separated = False

    def _may_lack_brace(self, found: CallObject) -> bool:
        begin, end = found.span
        return may_lack_brace(self._source.since(begin)[: end - begin])

    def _ends_here(self, first: str) -> Steps[bool]:
        """Return True if the list ends here, or the call, after closed arguments."""
        return first == "]" or bool((yield from self._source.sees(self._closers)))

    def _member(self, found: CallObject) -> Steps[bool]:
        key = yield from read_string(self._source)
        if key is None or (yield from self._source.skip()) != ":":
            return False
        self._source.at += 1
        first = yield from self._source.skip()
        if self._grammar.name_is_key and (key not in self._known or self._machine.find(key)):
            return (yield from self._named_by_key(found, key))
        if key not in self._known and found.name is None:
            return False
        found.keys.add(key)
        if first == "{" and key in WRAPPERS and self._depth < _MOST_WRAPPERS:
            return (yield from self._wrapper(found))
        if first == "[" and key in LISTS and self._depth < _MOST_WRAPPERS:
            return (yield from self._list())
        return (yield from self._value(found, key, first=first))

    def _admitted(self, name: str) -> str | None:
        """The name under which a call is opened. In a list of calls an unknown one is reported."""
        wrapper = WRAPPER.name if is_wrapper(name, self._machine.offer) else None
        return self._admit(name) or wrapper or (plausible(name) if self._listed else None)

    def _list(self) -> Steps[bool]:
        self._depth += 1
        yield from self._objects()
        self._depth -= 1
        return self._begun

    def _wrapper(self, found: CallObject) -> Steps[bool]:
        self._source.at += 1
        self._depth += 1
        whole = yield from self._members(found)
        self._depth -= 1
        if whole:
            found.end()
        return whole

    def _named_by_key(self, found: CallObject, key: str) -> Steps[bool]:
        if found.name is not None:  # another key, another call: nothing of the last is cut off
            if key in self._machine.properties(found.name):
                return False  # unless a brace too many closed its arguments
            self._finish(found)
        found.name = self._admit(key)
        return found.name is not None and (yield from self._arguments(found))

    def _finish(self, found: CallObject) -> None:
        """Seal the call so far; the object continues with another one."""
        if not found.opened:
            self._open_late(found)
        found.end()
        self._output.seal()
        found.opened, found.early = False, None

    def _value(self, found: CallObject, key: str, *, first: str) -> Steps[bool]:
        if key in self._argument_keys and not found.opened and found.early is None:
            return (yield from self._arguments(found))
        if key in self._names and found.name is None and first in ('"', "'"):
            name = yield from read_string(self._source)
            found.name = None if name is None else self._admitted(name)
            return found.name is not None
        if key not in self._known and key in self._machine.properties(found.name or ""):
            return (yield from self._beside(found, key))
        if key in self._argument_keys:
            return (yield from self._again(found))
        found.behind = found.behind or (found.opened and key not in self._known)
        pieces: list[str] = []
        wanted = key in IDS and found.id is None
        whole = yield from read_value(
            self._source, pieces.append if wanted else ignore, ends=self._ends
        )
        if wanted and whole:
            found.id = "".join(pieces).strip("\"'")
        return whole

    # ── Arguments ───────────────────────────────────────────────────────────────────

    def _arguments(self, found: CallObject) -> Steps[bool]:
        if found.name is None:
            found.early = []
            return (yield from read_value(self._source, found.early.append, ends=self._ends))
        ahead = yield from self._source.peek(4)
        for nothing in _NOTHING:
            if ahead.startswith(nothing):
                self._source.at += len(nothing)
                found.early = ["{}"]
                return True
        if ahead[:1] in _NO_VALUE:
            return False
        self._open(found, found.name)
        last = found.last = AllButLast(self._output.grow)
        begin = self._source.place
        whole = yield from read_value(self._source, last.put, ends=self._ends)
        found.span = (begin, self._source.place)
        return whole

    def _again(self, found: CallObject) -> Steps[bool]:
        """Read arguments a second time: empty, or ambiguous."""
        pieces: list[str] = []
        whole = yield from read_value(self._source, pieces.append, ends=self._ends)
        if "".join(pieces) not in _EMPTY:
            found.beside.append("")
        return whole

    def _beside(self, found: CallObject, key: str) -> Steps[bool]:
        """Read a parameter beside the name."""
        pieces = [f'"{escape(key)}": ']
        whole = yield from read_value(self._source, pieces.append, ends=self._ends)
        found.beside.append("".join(pieces))
        return whole

    def _are_beside(self, found: CallObject, name: str) -> bool:
        """Return True if the object holds the name and the parameters of the call, and nothing
        else."""
        properties = self._machine.properties(name).keys()
        words = found.keys & self._known
        clear = found.keys - words <= properties and not words & properties
        return clear and (self._grammar.marked or found.keys >= self._machine.required(name))

    def _open(self, found: CallObject, name: str, *, arguments: str = "") -> None:
        found.opened = self._begun = True
        self._output.open(name, found.id, arguments=arguments)

    def _open_late(self, found: CallObject) -> bool:
        """The object is closed and no call was opened yet: the name came last, or alone."""
        name = found.name or ""
        if found.early is not None:
            # With parameters beside them they are not all: `{` can never run.
            self._open(found, name, arguments="{" if found.beside else "".join(found.early))
        elif found.beside and self._are_beside(found, name):
            self._open(found, name, arguments=f"{{{', '.join(found.beside)}}}")
        elif self._machine.takes_nothing(name):
            self._open(found, name, arguments="{}")
        return found.opened

    def _cut_off(self, found: CallObject) -> None:
        """Report a call without its end as a call, not as text: `{` can never run."""
        if found.name is not None and self._grammar.marked and not self._machine.rescues:
            self._open(found, found.name, arguments="{")


# One object that holds calls or a reply: the answer of a model whose decoding is constrained.


CALLS, REPLY = "calls", "reply"
_LIST = JsonCalls()
_ALL = markers_of(())
_CUT_OFF = "the answer ended before its first call was whole"


@dataclass(frozen=True, slots=True)
class ReplyOrCalls:
    """One object with the member `calls` or `reply`."""

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the object; False if it is another one."""
        source = machine.source
        if (yield from source.skip()) != "{":
            return False
        source.at += 1
        key = yield from read_string(source)
        if key not in _MEMBERS:
            return False
        while key is not None and (yield from source.skip()) == ":":
            source.at += 1
            yield from _MEMBERS.get(key, _skip_member)(machine)
            if (yield from source.skip()) != ",":
                break
            source.at += 1
            key = yield from read_string(source)
        yield from _close(machine)
        return True


def _close(machine: ParserContext) -> Steps[None]:
    """Read the brace. If it is missing, the rest cannot be trusted."""
    source = machine.source
    if (yield from source.skip()) == "}":
        source.at += 1
        yield from source.skip()
    else:
        yield from source.flow(_ALL, ignore)


def _read_calls(machine: ParserContext) -> Steps[None]:
    begun = yield from _LIST.read(machine)
    follows = yield from machine.source.skip()
    if not follows and not begun:
        machine.output.reject(Reason.TRUNCATED, _CUT_OFF)
    elif not begun and follows != "}":
        machine.output.reject(Reason.BAD_MARKUP, BROKEN_JSON)


def _read_reply(machine: ParserContext) -> Steps[None]:
    first = yield from machine.source.skip()
    text = machine.output.text
    yield from read_value(machine.source, StringDecoder(text).put if first == '"' else text)


def _skip_member(machine: ParserContext) -> Steps[None]:
    yield from read_value(machine.source, ignore)


_MEMBERS: dict[str, Callable[[ParserContext], Steps[None]]] = {
    CALLS: _read_calls,
    REPLY: _read_reply,
}


# ── A string, decoded while it arrives ──────────────────────────────────────────────

_PIECE = re.compile(
    r"""(?P<plain>[^"\\]++)
      | (?P<quote>")
      | \\u(?P<unit>[0-9a-fA-F]{4})
      | \\(?P<short>["\\/bfnrt])
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_LOST = "\ufffd"


class StringDecoder:
    """Decodes the pieces of one JSON string, quotes included; an escape may be cut anywhere."""

    __slots__ = ("_high", "_rest", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rest = ""
        """The beginning of an escape."""
        self._high = 0
        """The first half of a surrogate pair."""

    def put(self, piece: str) -> None:
        """Take a piece of the string as it is written."""
        raw, at = self._rest + piece, 0
        decoded: list[str] = []
        while at < len(raw) and not _UNFINISHED.match(raw, at):
            found = _PIECE.match(raw, at)
            # A backslash before an unknown character is literal.
            decoded.append(self._decode(found) if found else self._pair("\\"))
            at = found.end() if found else at + 1
        self._rest = raw[at:]
        text = "".join(decoded)
        if text:
            self._sink(text)

    def _decode(self, found: re.Match[str]) -> str:
        if found["unit"]:
            return self._unit(int(found["unit"], 16))
        if found["quote"]:
            return self._pair("")
        short = found["short"]
        return self._pair(_SHORT.get(short, short) if short else found["plain"])

    def _unit(self, unit: int) -> str:
        """A UTF-16 code unit: half of a pair waits for the other half."""
        if self._high and unit in _LOW:
            high, self._high = self._high, 0
            return chr(0x10000 + ((high - _HIGH.start) << 10) + (unit - _LOW.start))
        if unit in _HIGH:
            lost = self._pair("")
            self._high = unit
            return lost
        return self._pair(_LOST if unit in _LOW else chr(unit))

    def _pair(self, text: str) -> str:
        """Return the character after the first surrogate of a pair; if it is not the second one,
        the first is lost."""
        lost, self._high = _LOST if self._high else "", 0
        return lost + text
