"""Values between tags that hold tags of their own, read as their schema says.

    <files><file><path>a</path></file><file><path>b</path></file></files>

An object's tags are its members. The tags of a list are its elements, whatever they are called,
if all are called the same or are counted from zero; or they are the members of its only element.
A text stays a text, whatever it looks like;
and tags where a schema says nothing may be a text, too, so that nothing is read out of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wholecall.dialects.char_stream import BLANKS, Sink, Steps, ignore, markers_of
from wholecall.dialects.grammars.json_values import (
    Shape,
    Trim,
    ValueWriter,
    escape,
    read_value,
    shape_of,
    types_of,
    write_value,
)
from wholecall.dialects.grammars.tag_values import Tag, came_twice, head_of
from wholecall.dialects.parser_context import LONGEST_NAME, ParserContext, Tags

CONTAINERS = frozenset({"array", "object"})
_OPENS = re.compile(r"\s*+<([\w.\-]{1,64})>")
_DEEPEST = 16
"""Levels of nested tags. Each level is read once more."""


class _Unclear(Exception):
    """The text can be read in two ways, or in none."""


def write_nested(texts: Sequence[str], schema: Any) -> str:
    """The text between the tags of one parameter as JSON; of several, as a list.

    What cannot be read is written as a string, which fits no schema of a list or an object.
    """
    try:
        return _several(texts, schema, depth=0)
    except _Unclear:
        return f'"{escape("".join(texts))}"'


def may_nest(schema: Any) -> bool:
    """Return True if tags in a value are certainly not text."""
    types = types_of(schema)
    return bool(types & CONTAINERS) and "string" not in types


def choice_with(schema: Any, key: str) -> Mapping[str, Any]:
    """The schema, or that of its alternatives, that has this key."""
    own = schema if isinstance(schema, Mapping) else {}
    alternatives = (*(own.get("anyOf") or ()), *(own.get("oneOf") or ()))
    for choice in (own, *alternatives):
        if isinstance(choice, Mapping) and key in choice:
            return choice
    return {}


def _several(texts: Sequence[str], schema: Any, *, depth: int) -> str:
    if len(texts) == 1:
        return _write(texts[0], schema, depth=depth)
    if "array" not in types_of(schema):
        raise _Unclear
    return _list(texts, schema, depth=depth)


def _list(texts: Sequence[str], schema: Any, *, depth: int) -> str:
    items = choice_with(schema, "items").get("items")
    return f"[{', '.join(_write(text, items, depth=depth) for text in texts)}]"


def _write(text: str, schema: Any, *, depth: int) -> str:
    """As tags, if it holds some, else as any raw value."""
    types = types_of(schema)
    children = [] if types == {"string"} else _children(text.rstrip(BLANKS))
    if not children:
        return write_value(text, shape_of(types), types=types, trim=Trim.BLANKS)
    if not may_nest(schema) or depth >= _DEEPEST:
        raise _Unclear
    elements = _elements(children, schema, whole=text) if "array" in types else []
    if elements:
        return _list(elements, schema, depth=depth + 1)
    if "object" in types:
        return _members(children, schema, depth=depth + 1)
    raise _Unclear


def _elements(children: list[tuple[str, str]], schema: Any, *, whole: str) -> list[str]:
    """Return the elements of a list: the content of its tags, or all of it as one; none if it is
    not a list."""
    names = [name for name, _ in children]
    items = choice_with(schema, "items").get("items")
    if set(names) <= (choice_with(items, "properties").get("properties") or {}).keys():
        return [whole]
    counted = names == [str(number) for number in range(len(names))]
    return [inside for _, inside in children] if counted or len(set(names)) == 1 else []


def _children(text: str) -> list[tuple[str, str]]:
    """Names and insides of the elements that a text is made of; none if there is more in it."""
    children: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        opened = _OPENS.match(text, at)
        end = -1 if opened is None else text.find(f"</{opened[1]}>", opened.end())
        if opened is None or end < 0 or f"<{opened[1]}>" in text[opened.end() : end]:
            return []
        children.append((opened[1], text[opened.end() : end]))
        at = end + len(f"</{opened[1]}>")
    return children


def _members(children: list[tuple[str, str]], schema: Any, *, depth: int) -> str:
    schemas = choice_with(schema, "properties").get("properties") or {}
    members: dict[str, list[str]] = {}
    for name, text in children:
        if schemas and name not in schemas:
            raise _Unclear
        members.setdefault(name, []).append(text)
    written = (
        f'"{escape(name)}": {_several(texts, schemas.get(name), depth=depth)}'
        for name, texts in members.items()
    )
    return f"{{{', '.join(written)}}}"


# Calls as tags, where the name of a parameter is a tag of its own.
#
#     <search><query>x</query></search>          the tool's name is a tag, too
#     <function=search><query>x</query>          it is inside one, as in other formats
#     <invoke name="search"><query>x</query>     MiniMax-M3, each tag after a mark of its own
#
# With marks before the tags, values may nest: tags inside a value are an object, or a list if all
# of them are `<item>`. Without marks they nest if a schema says so
# (`dialects/grammars/nested_tag_calls.py`).


_TAG = re.compile(r"[A-Za-z_][\w.\-]*\Z")
_TAG_END = markers_of((">", "<", "\n"))
_ITEM = "item"
AROUND = ("arguments", "parameters", "input", "args", "params")
"""Tags in which models put all parameters of a call."""


class _Broken(Exception):
    """A tag that does not fit."""


@dataclass(frozen=True, slots=True)
class NamedTagCalls:
    """`<search><query>x</query></search>`, of one tool."""

    name: str

    @property
    def openers(self) -> tuple[str, ...]:
        """The tag of the tool."""
        return (f"<{self.name}>",)

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the call after its opening tag; False if it is not one."""
        source, own = machine.source, machine.properties(self.name)
        around = markers_of(tuple(f"<{tag}>" for tag in AROUND if tag not in own))
        tag = yield from source.sees_ahead(around)
        if not tag:
            return (yield from _Named(machine, self.name).call())
        yield from source.accept_ahead(around)
        if not (yield from _Named(machine, self.name, closers=(f"</{tag[1:]}",)).call()):
            return False
        yield from source.accept_ahead(markers_of((f"</{self.name}>",)))
        return True


@dataclass(frozen=True, slots=True)
class NamedEmptyCalls:
    """`<now/>`, of one tool: a tag that is closed at once has no parameters."""

    name: str

    @property
    def openers(self) -> tuple[str, ...]:
        """The tag, which is all of the call."""
        return (f"<{self.name}/>", f"<{self.name} />")

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """The call that was read with its opener."""
        yield from ()  # nothing has to be waited for
        machine.output.open(self.name, arguments="{}")
        machine.output.seal()
        return True


@dataclass(frozen=True, slots=True)
class ChildTagCalls:
    """`<function=search><query>x</query></function>`, of any tool on offer.

    No format is written so: models make it of two.
    """

    call: Tag
    call_close: tuple[str, ...] = ()
    section: str = ""
    """The text before the tag of the call, and with a slash after it: `tool_call`."""
    around: tuple[str, ...] = ()
    """One of these tags encloses all parameters: `arguments`, `input`."""

    def read(self, machine: ParserContext, opener: str, /) -> Steps[bool]:
        """Read the call from an opener on; False if it is not one."""
        source = machine.source
        yield from source.skip()
        if opener != self.call.begin and not (
            yield from source.accept(markers_of((self.call.begin,)))
        ):
            return False
        name = yield from self._name(machine)
        closers = (yield from self._closers(machine)) if name else ()
        if not closers or not (yield from _Named(machine, name, closers=closers).call()):
            return False
        yield from source.accept_ahead(markers_of((f"</{self.section or name}>",)))
        return True

    def _name(self, machine: ParserContext) -> Steps[str]:
        """The offered name in the tag of the call."""
        text, end = yield from machine.source.header(markers_of(self.call.end), LONGEST_NAME)
        head = head_of(self.call, text) if end else None
        if head is None or head.closed:
            return ""
        return machine.find(head.name) or ""

    def _closers(self, machine: ParserContext) -> Steps[tuple[str, ...]]:
        """Return what ends the parameters; nothing, if the tag around them is missing."""
        if not self.around:
            return self.call_close
        yield from machine.source.skip()
        tags = tuple(f"<{tag}>" for tag in self.around)
        tag = yield from machine.source.accept(markers_of(tags))
        return (f"</{tag[1:]}",) if tag else ()


class _Named:
    def __init__(self, machine: ParserContext, name: str, *, closers: tuple[str, ...] = ()) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._name = name
        self._properties = machine.properties(name)
        self._close = markers_of((*closers, f"</{name}>"))
        keys = tuple(f"<{key}>" for key in self._properties)
        self._follows = markers_of((*closers, f"</{name}>", *keys))
        self._tags = Tags(tuple(f"</{key[1:]}" for key in keys), (*closers, f"</{name}>"))

    def call(self) -> Steps[bool]:
        if not (yield from self._source.sees_ahead(self._follows)):
            return (yield from self._json())
        self._output.open(self._name, arguments="{")
        count = 0
        while True:
            yield from self._source.skip()
            mark = yield from self._source.accept(self._follows)
            if mark in self._close:
                self._output.grow("}")
                self._machine.seal(self._tags)
                return True
            if not mark or not (yield from self._value(mark[1:-1], count)):
                self._machine.spoil("text stands between its parameters")
                return True
            count += 1

    def _json(self) -> Steps[bool]:
        """All parameters as one object, up to the closing tag."""
        pieces: list[str] = []
        if (yield from self._source.skip()) != "{":
            return False
        if not (yield from read_value(self._source, pieces.append)):
            return False
        yield from self._source.skip()
        if not (yield from self._source.accept(self._close)):
            return False
        self._output.open(self._name, arguments="".join(pieces))
        self._output.seal()
        return True

    def _value(self, key: str, count: int) -> Steps[bool]:
        self._output.grow(f'{", " if count else ""}"{escape(key)}": ')
        schema = self._properties[key]
        if may_nest(schema):
            return (yield from self._nested(key, schema))
        types = types_of(schema)
        writer = ValueWriter(self._output.grow, shape_of(types), trim=Trim.BLANKS, types=types)
        if (yield from self._text(key, writer.put)) is None:
            return False
        writer.close()
        return True

    def _nested(self, key: str, schema: Any) -> Steps[bool]:
        """A list or an object: JSON, tags, or the elements of a list in a tag each."""
        again = markers_of((f"<{key}>",) if "array" in types_of(schema) else ())
        texts: list[str] = []
        while not texts or (yield from self._source.sees_ahead(again)):
            if texts:
                yield from self._source.accept_ahead(again)
            text = yield from self._text(key, ignore)
            if text is None:
                return False
            texts.append(text)
        self._output.grow(write_nested(texts, schema))
        return True

    def _text(self, key: str, put: Sink) -> Steps[str | None]:
        """The text up to the closing tag of a value; None if that does not come as it should."""
        close = f"</{key}>"
        place = self._source.bookmark()
        whole = yield from self._ends(close, put)
        text = self._source.since(place).removesuffix(close)
        self._source.forget()
        return None if not whole or _is_doubled(key, text) else text

    def _ends(self, close: str, put: Sink) -> Steps[bool]:
        """Return True if a closing tag follows that ends a value; everything before it goes to
        `put`."""
        opens, closes = f"<{self._name}>", f"</{self._name}>"
        marks = markers_of((close, opens, closes))
        nested = 0  # calls in the value that are still open: it explains how one is written
        while mark := (yield from self._source.flow(marks, put)):
            follows = yield from self._source.sees_ahead(self._follows)
            if mark == close and not nested and follows != "":
                return True
            if mark == opens and follows:
                nested += 1
            elif mark == closes:
                nested = max(nested - 1, 0)
            put(mark)
        return False


@dataclass(frozen=True, slots=True)
class MarkedTagCalls:
    """Calls whose every tag follows the same mark."""

    mark: str
    section: str = "tool_call"
    call: str = "invoke"

    def read(self, machine: ParserContext, _opener: str = "", /) -> Steps[bool]:
        """Read the calls of a section; return False without one."""
        return (yield from _Marked(machine, self).calls())


class _Marked:
    def __init__(self, machine: ParserContext, grammar: MarkedTagCalls) -> None:
        self._machine = machine
        self._source = machine.source
        self._output = machine.output
        self._grow: Sink = machine.output.grow
        self._grammar = grammar
        self._mark = markers_of((grammar.mark + "<",))

    def calls(self) -> Steps[bool]:
        begun = False
        while True:
            if not (yield from self._source.sees_ahead(self._mark)):
                return begun
            tag = yield from self._tag()
            if tag == f"/{self._grammar.section}":
                return True
            name = self._called(tag)
            if name is None:
                return begun
            begun = True
            self._output.open(name, arguments="{")
            try:
                yield from self._values(self._machine.properties(name), f"/{self._grammar.call}")
            except _Broken:
                self._machine.spoil("a tag does not fit")
                yield from self._source.flow(markers_of((f"</{self._grammar.section}>",)), ignore)
                return True
            self._output.grow("}")
            self._output.seal()

    def _called(self, tag: str) -> str | None:
        word, _, attribute = tag.partition(" ")
        key, _, name = attribute.partition("=")
        if word != self._grammar.call or key.strip() != "name":
            return None
        return self._machine.admit(name.strip().strip("\"'"))

    def _tag(self) -> Steps[str]:
        """The text between the next mark and its `>`."""
        yield from self._source.skip()
        if not (yield from self._source.accept(self._mark)):
            return ""
        tag, end = yield from self._source.header(_TAG_END, LONGEST_NAME)
        return tag.strip() if end == ">" else ""

    def _values(self, properties: Mapping[str, Any], close: str, *, depth: int = 0) -> Steps[None]:
        """Members up to a closing tag."""
        separator = ""
        while True:
            tag = yield from self._tag()
            if tag == close:
                return
            if not _TAG.match(tag) or depth > self._machine.limits.depth:
                raise _Broken
            self._grow(f'{separator}"{escape(tag)}": ')
            schema = properties.get(tag)
            if "array" in types_of(schema) or (depth and not types_of(schema)):
                yield from self._maybe_several(tag, schema, depth=depth)
            else:
                yield from self._value(tag, schema, depth=depth)
            separator = ", "

    def _maybe_several(self, tag: str, schema: Any, *, depth: int) -> Steps[None]:
        """A value, or a list whose elements have a tag of this name each."""
        outer = self._grow
        again = markers_of((f"{self._grammar.mark}<{tag}>",))
        values: list[str] = []
        while not values or (yield from self._source.sees_ahead(again)):
            if values:
                yield from self._source.accept_ahead(again)
            pieces: list[str] = []
            self._grow = pieces.append
            try:
                yield from self._value(tag, schema, depth=depth)
            except _Broken:
                outer("".join(pieces))  # what it breaks is seen there
                raise
            values.append("".join(pieces))
        self._grow = outer
        self._grow(values[0] if len(values) == 1 else f"[{', '.join(values)}]")

    def _value(self, tag: str, schema: Any, *, depth: int) -> Steps[None]:
        """A text, or more tags, up to the closing tag."""
        if shape_of(types_of(schema)) is Shape.TEXT:
            yield from self._string(tag)
            return
        raw: list[str] = []
        marks = markers_of((self._grammar.mark + "<", self._grammar.mark))
        if (yield from self._source.flow(marks, raw.append)) not in self._mark:
            raise _Broken
        text = "".join(raw)
        self._source.at -= len(self._grammar.mark) + 1
        ahead = yield from self._source.peek(len(self._grammar.mark) + 2)
        types = types_of(schema)
        if ahead.endswith("/") or text.strip(BLANKS):
            yield from self._leaf(tag, text, types=types)
        elif "string" in types:
            raise _Broken  # tags as a text, or an object: both would fit
        else:
            yield from self._nested(tag, schema if isinstance(schema, Mapping) else {}, depth=depth)

    def _string(self, tag: str) -> Steps[None]:
        """A value that streams."""
        writer = ValueWriter(self._grow, Shape.TEXT)
        close = f"{self._grammar.mark}</{tag}>"
        place = self._source.bookmark()
        whole = yield from self._text(close, writer.put)
        text = self._source.since(place).removesuffix(close)
        self._source.forget()
        if not whole or _is_doubled(tag, text):
            raise _Broken
        writer.close()

    def _text(self, close: str, put: Sink) -> Steps[bool]:
        """Return True if a closing tag ends the value. Tags in it are text, if each is closed
        there."""
        nested: list[str] = []
        marks = markers_of((self._grammar.mark,))
        while mark := (yield from self._source.flow(marks, put)):
            self._source.at -= len(mark)
            begin = self._source.place
            tag = yield from self._tag()
            written = self._source.since(begin)
            if not nested and written == close:
                return True
            word = tag.removeprefix("/").partition(" ")[0]
            closes = tag.startswith("/")
            if not word or (closes and nested[-1:] != [word]):
                return False
            if closes:
                nested.pop()
            else:
                nested.append(word)
            put(written)
        return False

    def _leaf(self, tag: str, text: str, *, types: frozenset[str]) -> Steps[None]:
        if (yield from self._tag()) != f"/{tag}" or _is_doubled(tag, text):
            raise _Broken
        self._grow(write_value(text, shape_of(types), types=types, trim=Trim.NOTHING))

    def _nested(self, tag: str, schema: Mapping[str, Any], *, depth: int) -> Steps[None]:
        item = self._grammar.mark + f"<{_ITEM}>"
        if (yield from self._source.sees(markers_of((item,)))):
            yield from self._items(tag, choice_with(schema, "items").get("items"), depth=depth)
            return
        self._grow("{")
        properties = choice_with(schema, "properties").get("properties") or {}
        yield from self._values(properties, f"/{tag}", depth=depth + 1)
        self._grow("}")

    def _items(self, tag: str, schema: Any, *, depth: int) -> Steps[None]:
        self._grow("[")
        separator = ""
        while True:
            inner = yield from self._tag()
            if inner == f"/{tag}":
                self._grow("]")
                return
            if inner != _ITEM or depth > self._machine.limits.depth:
                raise _Broken
            self._grow(separator)
            yield from self._value(_ITEM, schema, depth=depth + 1)
            separator = ", "


def _is_doubled(tag: str, text: str) -> bool:
    """Return True if a value begins or ends with an unpaired tag of its own, or if a piece of it
    came twice."""
    text = text.strip(BLANKS)
    opens, closes = f"<{tag}>", f"</{tag}>"
    if opens in text:
        return text.startswith(opens) and closes not in text
    return text.endswith(closes) or came_twice(text, (closes,))
