"""Tags from a rendering: one for each parameter."""

from __future__ import annotations

import re

from wholecall.dialects.declaration import Written
from wholecall.dialects.encoding import Notation, Template
from wholecall.dialects.learned.comparing import (
    between_calls,
    common_prefix,
    common_suffix,
    marks_in,
    split_at,
    words_of,
)
from wholecall.dialects.learned.probes import KEYS, NAMES, OTHER_VALUE, VALUES
from wholecall.dialects.learned.shape import CallShape, present
from wholecall.dialects.tag_calls import TagCalls
from wholecall.dialects.tag_heads import Tag
from wholecall.dialects.writing import Shape, Trim
from wholecall.errors import UnusableDialect

_ATTRIBUTE = re.compile(r"(<[^\s<>=]+)\s+(\w+)=\"\Z")
_TYPE = re.compile(r"\"\s+(\w+)=\"(true|string)\"\s*>\s*\Z")
_TYPE_PLACES = {"true": "{string}", "string": "{type}"}


def learn_tags(one: str, two: str | None) -> CallShape | None:
    """`<function=search><parameter=query>x</parameter></function>`"""
    words = (NAMES[0], KEYS[0], VALUES[0], KEYS[1], VALUES[1])
    head, first, middle, next_, again, tail = split_at(one, *words)
    if middle != again or not marks_in(tail):
        return None
    begin = common_suffix(first, next_)
    close = common_prefix(next_[: len(next_) - len(begin)], tail)
    if not begin.strip() or not close.strip():
        return None
    value = _Value(begin, middle, close=close)
    rest = tail[len(close) :]
    opening, closing, between = head, rest, ""
    if two is not None:
        pieces = split_at(two, *words, NAMES[1], KEYS[0], OTHER_VALUE)
        last = pieces[8].removeprefix(close)
        opening, closing, between = between_calls(head, last, middle=pieces[5].removeprefix(close))
    grammar = _grammar(value, head, ender=first[: len(first) - len(begin)], rest=rest)
    return CallShape(
        written=(Written((*grammar.sections, grammar.call.begin), grammar),),
        dropped=(*grammar.call_close, *grammar.section_close, *grammar.value_close),
        template=Template(
            f"{opening}{{name}}{first[: len(first) - len(begin)]}{{arguments}}{closing}",
            before=head.removesuffix(opening),
            between=between,
            after=rest.removeprefix(closing),
            notation=Notation.TAGS,
            value=value.template,
            marks=grammar.value_ends,
        ),
    )


class _Value:
    """The tag of a parameter, from the text before its key, before and after its value."""

    def __init__(self, begin: str, middle: str, *, close: str) -> None:
        self.close = close.strip()
        self.typed = _TYPE.search(middle)
        newlines = middle.endswith("\n") and close.startswith("\n")
        self.trim = Trim.NEWLINE if newlines else Trim.NOTHING
        self.tag = _tag(begin, middle)
        if self.typed:
            at = self.typed.start(2)
            place = _TYPE_PLACES[self.typed[2]]
            middle = middle[:at] + place + middle[self.typed.end(2) :]
        self.template = f"{begin}{{key}}{middle}{{value}}{close}"


def _tag(begin: str, ender: str) -> Tag:
    """A tag with its name in an attribute, or between two marks."""
    attribute = _ATTRIBUTE.search(begin)
    if attribute:
        return Tag(attribute[1], attribute=attribute[2])
    end, *then = present(*_marks_and_rest(ender.strip())) or ("\n",)
    return Tag(begin.strip(), end=(end,), then="".join(then))


def _marks_and_rest(text: str) -> list[str]:
    """`</arg_key>\\n<arg_value>` in its two marks; anything else as it is."""
    return marks_in(text) if text.startswith("<") else [text]


def _grammar(value: _Value, head: str, *, ender: str, rest: str) -> TagCalls:
    section, call = _last_mark(head)
    closers = marks_in(rest)
    if not call or not closers:
        raise UnusableDialect("no tags stand around the parameters of a call")
    tag = _tag(call, ender)
    if not tag.attribute:
        tag = Tag(call, end=tag.end, keeps=(value.tag.begin, *closers))
    return TagCalls(
        sections=present(section),
        section_close=(closers[-1],) if section.strip() else (),
        call=tag,
        call_close=(closers[0],),
        value=value.tag,
        value_close=(value.close,),
        trim=value.trim,
        untyped=Shape.TEXT,
        type_attribute=value.typed[1] if value.typed else "",
    )


def _last_mark(head: str) -> tuple[str, str]:
    """Split the text before the name into the section's marker and the call's."""
    text = head.rstrip()
    last = words_of(text)[-1] if text else ""
    begin = len(text) - len(last) if len(last) > 1 else text.rfind("<")
    return (text[:begin], text[begin:]) if begin >= 0 else ("", "")
