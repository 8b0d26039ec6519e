"""Calls as tags, their arguments as tags in them.

    <function=search>
    <parameter=query>
    x && y
    </parameter>
    </function>

Values are raw: no entities, no nesting, anything goes but the closing tag. And even that
is a part of the value unless what follows it fits: the next parameter, the end of the
call, or the end of the text. A call is open from the moment its name is known and what
follows the name fits; `{` is written at once, `}` with the closing tag, so a call that was
cut off is an open object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from wholecall.dialects.char_stream import Steps, ignore, markers_of
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import (
    BROKEN_JSON,
    Shape,
    ValueWriter,
    accept_end,
    escape,
    read_arguments,
    shape_of,
    types_of,
)
from wholecall.dialects.grammars.tag_values import (
    BLANKS_IN_JSON,
    COMMENT,
    COMMENT_END,
    RawValues,
    Tag,
    TagHead,
    TagMarkup,
    head_of,
)
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext, Tags
from wholecall.events import Reason

_CDATA = ("<![CDATA[", "]]>")
_ESCAPED_BLANKS = markers_of(BLANKS_IN_JSON)
_TEXTS = frozenset({"true", "string"})
"""Attribute values that declare a text: `string="true"`, `type="string"`."""
_JSON_BEGINS = ("{", "[")
_SUFFIX = re.compile(r"[\w.\-/+@]{1,64}")
_NAMELESS = "a parameter has no name"
_UNOPENED = "a value holds the end of a parameter that has not begun"
_ENDED_IN_VALUE = "its end stands in a value"


@dataclass(frozen=True, slots=True)
class TagCalls(TagMarkup):
    """Calls of one shape, several in a section."""

    def read(self, machine: ParserContext, opener: str, /) -> Steps[bool]:
        """Read the calls from an opener on; False if none follows."""
        return (yield from _Reading(machine, self).calls(opener))


class _Reading:
    """Reads the calls at one place."""

    def __init__(self, machine: ParserContext, grammar: TagCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grammar = grammar
        self._ends = markers_of(grammar.call_close + grammar.section_close)
        begins = (grammar.call.begin, *grammar.sections)
        self._begins = markers_of(begins)
        self._edges = markers_of((*begins, *grammar.call_close, *grammar.section_close))
        comment = (COMMENT,) if grammar.comments else ()
        around = grammar.call_close + grammar.section_close + grammar.sections + comment
        self._after_value = markers_of((grammar.value.begin, grammar.call.begin, *around))
        self._raw = RawValues(machine.source, grammar, around=around)
        self._tags = Tags(grammar.value_close, grammar.call_close + grammar.section_close)
        # Unless the format was announced, another format may begin its parameters in this way.
        self._nameless = markers_of(() if machine.rescues else grammar.value.nameless)
        self._keys: set[str] = set()
        """The parameters of the call so far."""
        self._inside = False  # whether what is read may stand in a value
        self._rested = False  # whether the text ended where the call would

    def calls(self, opener: str) -> Steps[bool]:
        """One call, or the calls of a section."""
        if self._grammar.begins_call(opener):
            return (yield from self._call()) is not None
        section_close, call_begin = (
            markers_of(self._grammar.section_close),
            markers_of((self._grammar.call.begin,)),
        )
        begun = False
        while True:
            yield from self._source.skip()
            if (yield from self._source.accept(section_close)):
                return True
            if not (yield from self._source.accept(call_begin)):
                return begun
            whole = yield from self._call()
            if whole is None and begun:
                begin = self._grammar.call.begin
                self._output.reject(Reason.BAD_MARKUP, f"no call can be read after {begin!r}")
            if whole is None:
                return begun
            begun = True

    # ── One call ────────────────────────────────────────────────────────────────────

    def _call(self) -> Steps[bool | None]:
        """Return True if the call is whole, or None without a call."""
        head = yield from self._head(self._grammar.call)
        if head is not None and head.glued:
            return (yield from self._glued_call(head.name))
        name = None if head is None else self._machine.admit(head.name)
        if head is None or name is None:
            return None
        if head.closed:
            self._output.open(name, arguments="{}")
            self._output.seal()
            return True
        first = yield from self._source.skip()
        if first == "{":
            return (yield from self._json_body(name))
        follows = (yield from self._sees_mark()) or (yield from self._source.sees(self._nameless))
        # Without the tag around the arguments, only an object shows that it was meant.
        if head.unopened or (not follows and not self._source.ended):
            return None
        self._open(name)
        return (yield from self._body(name))

    def _open(self, name: str) -> None:
        self._keys.clear()
        self._raw.begin_call()
        self._output.open(name, arguments="{")

    def _glued_call(self, text: str) -> Steps[bool | None]:
        """The first parameter's opening tag is missing; the offered names show where it began."""
        parts = self._machine.split(text)
        if parts is None or not (yield from self._then(self._grammar.value)):
            return None
        name, key = parts
        self._open(name)
        if not (yield from self._written(name, TagHead(key))):
            return False
        return (yield from self._body(name))

    def _body(self, name: str) -> Steps[bool]:
        """The parameters, and the end."""
        if not (yield from self._values(name)):
            return False
        if self._raw.holds_close and self._may_lack(name):
            self._machine.spoil(_UNOPENED)
            return False
        if self._raw.holds_example and (yield from self._ends_again()):
            self._machine.spoil(_ENDED_IN_VALUE)
            return False
        self._output.grow("}", guessed=self._rested)
        self._machine.seal(self._tags)
        return True

    def _ends_again(self) -> Steps[bool]:
        """Return True if closing tags follow the end of the call: that end may be a part of the
        call that a value holds."""
        place = self._source.bookmark()
        yield from self._source.accept_ahead(markers_of(self._grammar.section_close))
        closers = markers_of((*self._grammar.value_close, *self._grammar.call_close))
        again = yield from self._source.sees_ahead(closers)
        self._source.rewind(place)
        self._source.forget()
        return bool(again)

    def _may_lack(self, name: str) -> bool:
        """Return True if a tag may be missing: there are more parameters, or more that has no
        end."""
        properties = self._machine.properties(name)
        return self._raw.forgets or not properties or not self._keys.issuperset(properties)

    def _json_body(self, name: str) -> Steps[bool]:
        self._output.open(name)
        self._inside = True
        whole = yield from read_arguments(self._source, self._output.grow, ends=self._edges)
        yield from self._source.skip()
        if not whole:
            self._inside = not (yield from self._source.sees(self._begins))
            return (yield from self._broken(BROKEN_JSON))
        # The end of a parameter that never began: the object is its value, and no arguments.
        orphaned = yield from self._source.accept(markers_of(self._grammar.value_close))
        beside = yield from self._source.sees(markers_of((self._grammar.value.begin,)))
        # The `>` of the opening tag may have come too late: `<function=search{…}></function>`.
        closers = self._grammar.call_close
        yield from accept_end(
            self._source, markers_of((*closers, *(f">{each}" for each in closers)))
        )
        if orphaned:
            self._machine.spoil("a parameter ends that has not begun")
        elif beside:
            return (yield from self._broken("parameters stand beside its arguments"))
        else:
            self._output.seal()
        return True

    def _values(self, name: str) -> Steps[bool]:
        """All parameters up to the end of the call; whether the end was seen."""
        while True:
            yield from self._skip()
            mark = yield from self._sees_mark()
            if mark == self._grammar.value.begin:
                self._source.at += len(mark)
                if not (yield from self._value(name)):
                    return (yield from self._broken("a parameter is not written as one"))
            elif mark == COMMENT:
                yield from self._source.flow(markers_of((COMMENT_END,)), ignore)
            elif mark or self._source.ended:
                return self._is_over(mark) if mark else self._rests(name)
            elif not (yield from self._source.accept(markers_of(self._grammar.value_close))):
                nameless = yield from self._source.sees(self._nameless)
                flaw = _NAMELESS if nameless else "text stands between its parameters"
                return (yield from self._broken(flaw))

    def _skip(self) -> Steps[None]:
        """Read over the white space between tags."""
        yield from self._source.skip()
        while self._grammar.escaped_blanks and (yield from self._source.accept(_ESCAPED_BLANKS)):
            yield from self._source.skip()

    def _sees_mark(self) -> Steps[str]:
        """Return the mark at this position, between values."""
        mark = yield from self._source.sees(self._after_value)
        if mark == self._grammar.value.begin and (yield from self._raw.goes_on_as_word(mark)):
            return ""
        return mark

    def _is_over(self, mark: str) -> bool:
        """Return True if a call is whole at its own end, the end of the section or another call."""
        if mark in self._grammar.call_close:
            self._source.at += len(mark)
            return True
        if self._raw.holds_end:
            self._machine.spoil(_ENDED_IN_VALUE)
            return False
        if mark in self._grammar.section_close or self._keys:
            return True
        # It was given up before its first parameter: nothing shows that it was meant.
        self._machine.spoil("another call begins in it")
        return False

    def _broken(self, flaw: str) -> Steps[bool]:
        """Read over the rest of a call that can be none; a value may tell of other calls."""
        self._machine.spoil(flaw)
        mark = yield from self._source.flow(self._ends if self._inside else self._edges, ignore)
        self._source.at -= 0 if mark in self._ends else len(mark)
        return False

    def _rests(self, name: str) -> bool:
        """Return True if no parameter is missing, and nothing follows but the beginning of the
        end."""
        properties = self._machine.properties(name)
        ends = self._ends.may_begin(self._source.text, self._source.at)
        self._source.at = len(self._source.text)
        has_all = bool(properties) and self._keys.issuperset(properties)
        self._rested = self._grammar.stops and has_all and ends and not self._raw.holds_end
        return self._rested

    # ── One value ───────────────────────────────────────────────────────────────────

    def _value(self, name: str) -> Steps[bool]:
        self._inside = False
        head = yield from self._head(self._grammar.value)
        if head is None or not head.name:
            return False
        self._inside = not head.unopened or not (yield from self._source.sees_ahead(self._begins))
        # A tag of no parameter in a value without an end: that is rather what the value holds.
        left_open, self._raw.left_open = self._raw.left_open, False
        stray = left_open and self._is_foreign(name, head.name)
        return not stray and (yield from self._written(name, head))

    def _may_follow(self, name: str, key: str) -> bool:
        """Return True if a parameter of this name may be the next one: nothing is known about the
        tool, or it has the parameter, and the call does not give it yet."""
        known = self._machine.properties(name)
        return not known or (key in known and key not in self._keys)

    def _is_foreign(self, name: str, key: str) -> bool:
        properties = self._machine.properties(name)
        return bool(properties) and key not in properties

    def _written(self, name: str, head: TagHead) -> Steps[bool]:
        """A key and its value, written as a member of the arguments."""
        self._output.grow(f'{", " if self._keys else ""}"{escape(head.name)}": ')
        self._keys.add(head.name)
        if head.closed:
            self._output.grow('""')
            return True
        writer = self._writer(name, head)
        if self._grammar.cdata and (yield from self._cdata()):
            return True
        if head.unopened:
            whole = yield from self._unopened(writer)
        else:
            whole = yield from self._raw.read(
                writer.put, head, may_follow=lambda key: self._may_follow(name, key)
            )
        if not whole:
            return False
        writer.close(left_out=self._raw.left_out and not head.unopened)
        if self._raw.left_open and self._is_foreign(name, head.name):
            return False
        return not (writer.fell_back and self._says_json(name, head))

    def _says_json(self, name: str, head: TagHead) -> bool:
        """Return True if a tag declares that its value is not text, and nothing says that it may
        be."""
        said = head.attributes.get(self._grammar.type_attribute, "").lower()
        types = types_of(self._machine.properties(name).get(head.name))
        return bool(said) and said not in _TEXTS and "string" not in types

    def _writer(self, name: str, head: TagHead) -> ValueWriter:
        properties = self._machine.properties(name)
        types = types_of(properties.get(head.name))
        said = head.attributes.get(self._grammar.type_attribute, "").lower()
        if said:
            text = said in _TEXTS and (not types or "string" in types)
            shape = Shape.TEXT if text else Shape.JSON
        elif head.name in properties:
            shape = shape_of(types)
        else:
            shape = self._grammar.untyped
        return ValueWriter(self._output.grow, shape, trim=self._grammar.trim, types=types)

    def _unopened(self, writer: ValueWriter) -> Steps[bool]:
        """A value without its opening tag; False unless its closing tag is the next mark."""
        grammar = self._grammar
        if (yield from self._raw.is_misspelt(grammar.value.then)):
            return False
        marks = markers_of((*grammar.value_ends, grammar.value.then, grammar.call.begin))
        mark = yield from self._source.flow(marks, writer.put)
        if mark in markers_of(self._grammar.value_close):
            return (yield from self._raw.follows()) != ""
        self._source.at -= len(mark)
        return False

    def _cdata(self) -> Steps[bool]:
        begin, end = _CDATA
        if not (yield from self._source.sees_ahead(markers_of((begin,)))):
            return False
        yield from self._source.skip()
        self._source.at += len(begin)
        whole = ValueWriter(self._output.grow, Shape.TEXT)
        if not (yield from self._source.flow(markers_of((end,)), whole.put)):
            return True
        whole.close()
        yield from self._source.skip()
        closed = yield from self._source.accept(markers_of(self._grammar.value_close))
        self._raw.forgets = self._raw.forgets or not closed
        return True

    # ── Heads ───────────────────────────────────────────────────────────────────────

    def _head(self, tag: Tag) -> Steps[TagHead | None]:
        if tag.begin.endswith(">"):
            yield from self._source.skip()  # the name follows the tag, maybe on its own line
        glued = (tag.glued,) if tag.glued else ()
        ends = markers_of((*tag.end, *tag.keeps, *glued, *tag.stops))
        text, end = yield from self._source.header(ends, LONGEST_NAME)
        if end in tag.stops:
            self._source.at -= len(end)
        if not end or end in tag.stops:
            return None
        if end in glued:
            return TagHead(text.strip(), glued=True)
        if end in tag.keeps:
            self._source.at -= len(end)
        marks = [text.index(mark) for mark in self._grammar.marks if mark in text]
        if marks:
            self._source.at -= len(text) - min(marks) + (0 if end in tag.keeps else len(end))
            return None
        unopened = not (yield from self._then(tag))
        head = head_of(tag, text, remains=self._grammar.glued, unopened=unopened)
        if head is not None:
            head.opening = f"{tag.begin}{text}{end}{tag.then}"
        return head

    def _then(self, tag: Tag) -> Steps[bool]:
        """Read the second tag, where there is one."""
        if not tag.then:
            return True
        yield from self._skip()
        if tag.between and (yield from self._source.accept(markers_of(tag.between[:1]))):
            yield from self._source.header(markers_of(tag.between[1:]), LONGEST_NAME)
            yield from self._skip()
        return bool((yield from self._source.accept(markers_of((tag.then,)))))


# Calls in messages that are addressed: `to=weather.get<|message|>` and then the call.
#
# Only a message to a tool may hold calls; the same markup in a message to the user shows how it is
# written.


_PEOPLE = ("self", "user")
"""Recipients that run nothing."""


@dataclass(frozen=True, slots=True)
class RoutedCalls:
    """A recipient, the end of the header, and calls in a grammar of their own."""

    head_end: str
    """Without one the header is missing: a server dropped it. Then only calls that begin the answer
    are not an example."""
    inner: TagCalls

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read the calls of a message after `to=`; False if it holds none."""
        if not self.head_end:
            return not machine.output.texts and (yield from self.inner.read(machine, opener))
        text, end = yield from machine.source.header(markers_of((self.head_end,)), LONGEST_NAME)
        if not end or text.strip() in _PEOPLE:
            return False
        yield from machine.source.skip()
        section = yield from machine.source.accept(markers_of(self.inner.sections))
        return bool(section) and (yield from self.inner.read(machine, section))


# Tags that all carry one suffix, which differs between checkpoints: `<tool_calls:6124c78e>`.


@dataclass(frozen=True, slots=True)
class SuffixedCalls:
    """A grammar of calls, and the suffix of its tags in the text."""

    inner: TagCalls

    @property
    def openers(self) -> tuple[str, ...]:
        """The first tags, up to the suffix."""
        return tuple(f"{each[:-1]}:" for each in (*self.inner.sections, self.inner.call.begin))

    def read(self, machine: ParserContext, opener: str = "", /) -> Steps[bool]:
        """Read the suffix and then the calls with it; return False if no call has it."""
        suffix, end = yield from machine.source.header(markers_of((">",)), LONGEST_NAME)
        if not end or not _SUFFIX.fullmatch(suffix):
            return False
        grammar = _with_suffix(self.inner, f":{suffix}")
        if (yield from machine.source.skip()) in _JSON_BEGINS:
            calls = JsonCalls((*grammar.call_close, *grammar.section_close))
            return (yield from calls.read(machine, f"{opener}{suffix}>"))
        return (yield from grammar.read(machine, f"{opener}{suffix}>"))


@lru_cache(maxsize=16)
def _with_suffix(grammar: TagCalls, suffix: str) -> TagCalls:
    def one(mark: str) -> str:
        tag = mark.startswith("<") and mark.endswith(">")
        return f"{mark[:-1]}{suffix}>" if tag else mark

    def each(marks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(one, marks))

    def tag(plain: Tag) -> Tag:
        return replace(
            plain,
            begin=one(plain.begin),
            end=each(plain.end),
            then=one(plain.then),
            keeps=each(plain.keeps),
            glued=one(plain.glued),
        )

    return replace(
        grammar,
        sections=each(grammar.sections),
        section_close=each(grammar.section_close),
        call=tag(grammar.call),
        call_close=each(grammar.call_close),
        value=tag(grammar.value),
        value_close=each(grammar.value_close),
    )
