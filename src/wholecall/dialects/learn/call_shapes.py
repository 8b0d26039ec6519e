"""Probes and shapes: the conversations that a chat template is asked to render, and the shapes of
calls found in the renderings (JSON, literals, tags)."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product, takewhile
from typing import TypeAlias

from wholecall.dialects.dialect import Grammar, GrammarWithOpeners, Notation, Template
from wholecall.dialects.grammars.headed_calls import HeadedCalls, Header
from wholecall.dialects.grammars.json_calls import JsonCalls
from wholecall.dialects.grammars.json_values import Shape, Trim
from wholecall.dialects.grammars.literal_calls import GemmaCalls
from wholecall.dialects.grammars.python_calls import PythonCalls
from wholecall.dialects.grammars.tag_calls import TagCalls
from wholecall.dialects.grammars.tag_values import Tag
from wholecall.errors import UnusableDialect
from wholecall.events import JSON

_MARK = re.compile(r"<[^<>\n]{1,64}>|\[/?[A-Z_]{2,32}\]")
_WORD = re.compile(rf"{_MARK.pattern}|.", re.DOTALL)


def words_of(text: str) -> list[str]:
    """The text in words: marks, and single characters."""
    return _WORD.findall(text)


def marks_in(text: str) -> list[str]:
    """The marks that stand in a text."""
    return _MARK.findall(text)


def common_prefix(first: str, second: str) -> str:
    """Return the common prefix of two texts."""
    pairs = zip(words_of(first), words_of(second), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def common_suffix(first: str, second: str) -> str:
    """Return the common suffix of two texts."""
    pairs = zip(reversed(words_of(first)), reversed(words_of(second)), strict=False)
    same = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "".join(reversed(same))


def split_at(text: str, *words: str) -> list[str]:
    """The text before, between and after words that stand in it in this order."""
    pieces = []
    for word in words:
        before, found, text = text.partition(word)
        if not found:
            raise UnusableDialect(f"the template does not write {word!r} where a call stands")
        pieces.append(before)
    return [*pieces, text]


def between_calls(head: str, tail: str, *, middle: str) -> tuple[str, str, str]:
    """Return what opens each call, what closes each, and what separates two.

    `head` precedes the first call, `middle` separates two, `tail` follows the last: the common
    suffix of `middle` and `head` opens every call, the common prefix of `middle` and `tail` closes
    it.
    """
    opening = common_suffix(head, middle)
    rest = middle[: len(middle) - len(opening)]
    closing = common_prefix(rest, tail)
    return opening, closing, rest[len(closing) :]


# The result of learning a family: how calls are read, and how they are written.


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """The part of a dialect that is about calls."""

    template: Template
    written: tuple[GrammarWithOpeners, ...] = ()
    bare: tuple[Grammar, ...] = ()
    dropped: tuple[str, ...] = ()


def present(*marks: str) -> tuple[str, ...]:
    """Those marks that are more than white space, without the space around them."""
    return tuple(mark.strip() for mark in marks if mark.strip())


# The conversations that a chat template renders, and the words that are searched in the result.
#
# All words are made up, so that each occurs in a rendering only where it was put.


Message: TypeAlias = dict[str, JSON]

NAMES = ("zqfind", "zqsend")
KEYS = ("zqplace", "zqtopic")
VALUES = ("zqparis", "zqriver")
OTHER_VALUE = "zqlisbon"
CALLS: tuple[tuple[str, dict[str, JSON]], ...] = (
    (NAMES[0], dict(zip(KEYS, VALUES, strict=True))),
    (NAMES[1], {KEYS[0]: OTHER_VALUE}),
)
IDS = ("zqid00001", "zqid00002")  # nine letters and digits, as Mistral's templates demand
TEXT = "¤zqtext¤"
THOUGHT = "¤zqthought¤"
OUTPUT = "¤zqoutput¤"
TOOLS: list[JSON] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string", "description": "A text."} for key in KEYS},
                "required": [],
            },
        },
    }
    for name in NAMES
]


class Probe(enum.Enum):
    """One conversation."""

    QUESTION = "a question"
    PROMPT = "a question that is to be answered"
    TEXT = "an answer in words"
    THOUGHT = "an answer after reasoning"
    ONE = "an answer that calls a tool"
    TWO = "an answer that calls two tools"
    RESULT = "a call and its result"
    TOLD = "a call, and a user who tells its result"


@dataclass(frozen=True, slots=True)
class Manner:
    """The form in which calls are handed to a template: templates differ in what they expect."""

    as_text: bool = False
    """Arguments as JSON text instead of an object."""
    empty: str | None = ""
    """The content of a message that only calls."""
    counted: bool = False
    """Ids like `functions.zqfind:0`, which some templates write in the place of the name."""


MANNERS = tuple(
    Manner(as_text, empty, counted)
    for counted, as_text, empty in product((False, True), (False, True), ("", None))
)


def conversations(manner: Manner) -> dict[Probe, list[Message]]:
    """Return the conversations to render."""
    user: Message = {"role": "user", "content": "zqhello"}
    answer: Message = {"role": "assistant", "content": TEXT}
    one, two = _calling(manner, 1), _calling(manner, 2)
    thought = {**answer, "reasoning_content": THOUGHT, "reasoning": THOUGHT, "thinking": THOUGHT}
    id = _id(manner, 0)
    result: Message = {"role": "tool", "content": OUTPUT, "name": NAMES[0], "tool_call_id": id}
    return {
        Probe.QUESTION: [user],
        Probe.PROMPT: [user],
        Probe.TEXT: [user, answer],
        Probe.THOUGHT: [user, {**thought}],
        Probe.ONE: [user, one],
        Probe.TWO: [user, two],
        Probe.RESULT: [user, one, result],
        Probe.TOLD: [user, one, {"role": "user", "content": OUTPUT}],
    }


def _calling(manner: Manner, count: int) -> Message:
    calls: list[JSON] = [
        {
            "id": _id(manner, index),
            "type": "function",
            "function": {"name": name, "arguments": _arguments(manner, arguments)},
        }
        for index, (name, arguments) in enumerate(CALLS[:count])
    ]
    return {"role": "assistant", "content": manner.empty, "tool_calls": calls}


def _id(manner: Manner, index: int) -> str:
    return f"functions.{NAMES[index]}:{index}" if manner.counted else IDS[index]


def _arguments(manner: Manner, arguments: Mapping[str, JSON]) -> JSON:
    return json.dumps(arguments) if manner.as_text else dict(arguments)


_DECODER = json.JSONDecoder()
_COUNTER = re.compile(r":\d+")
_FENCE = "```"
_Found: TypeAlias = tuple[int, int, tuple[str, str]]
"""The start and end of an object, and the keys of its name and its arguments."""


def learn_objects(one: str, two: str | None) -> CallShape | None:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`"""
    found = _find_object(one, 0)
    if found is None:
        return None
    begin, end, keys = found
    head, tail = one[:begin], one[end:]
    call = _object_template(one[begin:end], keys)
    opener = head.strip().removesuffix("[").strip()
    closers = present(tail.strip().removeprefix("]"))
    if keys == ("", ""):
        grammar = JsonCalls(closers, name_is_key=True)
    else:
        grammar = JsonCalls(
            closers, marked=bool(opener), name_keys=(keys[0],), argument_keys=(keys[1],)
        )
    return CallShape(
        written=(GrammarWithOpeners((opener,), grammar),) if opener else (),
        bare=() if opener else (grammar,),
        dropped=closers,
        template=_objects_template(call, (head, tail), two=two),
    )


def _objects_template(call: str, around: tuple[str, str], *, two: str | None) -> Template:
    """The marks around every call, or around all of them."""
    head, tail = around
    first = None if two is None else _find_object(two, 0)
    second = None if first is None or two is None else _find_object(two, 1, start=first[1])
    if two is None or first is None or second is None:
        return Template(f"{head}{call}{tail}", between="\n")
    middle = two[first[1] : second[0]]
    opening, closing, between = between_calls(head, two[second[1] :], middle=middle)
    return Template(
        f"{opening}{call}{closing}",
        before=head.removesuffix(opening),
        between=between,
        after=tail.removeprefix(closing),
    )


def _find_object(text: str, index: int, *, start: int = 0) -> _Found | None:
    """The outermost object that holds a call."""
    at = text.find("{", start)
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except ValueError:
            value, end = None, at
        keys = _keys_of(value, CALLS[index]) if isinstance(value, dict) else None
        if keys is not None:
            return at, end, keys
        at = text.find("{", at + 1)
    return None


def _keys_of(value: Mapping[str, JSON], call: tuple[str, JSON]) -> tuple[str, str] | None:
    """The keys of name and arguments; empty ones where the name is the key."""
    name, arguments = call
    if value == {name: arguments}:
        return "", ""
    names = [key for key, each in value.items() if each == name]
    bodies = [key for key, each in value.items() if each in (arguments, json.dumps(arguments))]
    if names and bodies:
        return names[0], bodies[0]
    inner = (each for each in value.values() if isinstance(each, dict))
    return next((keys for each in inner if (keys := _keys_of(each, call))), None)


def _object_template(text: str, keys: tuple[str, str]) -> str:
    """The object with places. One with an id is written without it: the id is not the model's."""
    if keys == ("", ""):
        return "{{name_json}: {arguments}}"
    plain = f'{{"{keys[0]}": {{name_json}}, "{keys[1]}": {{arguments}}}}'
    name, arguments = CALLS[0]
    at = text.find("{", 1)
    while at >= 0:
        try:
            value, end = _DECODER.raw_decode(text, at)
        except ValueError:
            break
        if value == arguments and IDS[0] not in text:
            return (text[:at] + "{arguments}" + text[end:]).replace(f'"{name}"', "{name_json}")
        at = text.find("{", at + 1)
    return plain


# ── A name in a header ──────────────────────────────────────────────────────────────


def learn_headed(one: str, two: str | None) -> CallShape | None:
    """`<|call_begin|>functions.search:0<|args|>{…}<|call_end|>`"""
    first = _find_arguments(one, 0)
    if first is None:
        return None
    head, spacer, end = first
    tail = one[end:]
    opening, closing, between = head, tail, ""
    second = None if two is None else _find_arguments(two, 1, start=end)
    if two is not None and second is not None:
        middle = second[0][end:]
        opening, closing, between = between_calls(head, two[second[2] :], middle=middle)
    return _headed(
        (opening, spacer, closing),
        before=head.removesuffix(opening),
        between=between,
        after=tail.removeprefix(closing),
    )


def _find_arguments(text: str, index: int, *, start: int = 0) -> tuple[str, str, int] | None:
    """The text before the name, that between it and its JSON, and where that ends."""
    name, arguments = CALLS[index]
    at = text.find(name, start)
    brace = text.find("{", at)
    if at < 0 or brace < 0:
        return None
    try:
        value, end = _DECODER.raw_decode(text, brace)
    except ValueError:
        return None
    return (text[:at], text[at + len(name) : brace], end) if value == arguments else None


def _headed(parts: tuple[str, str, str], *, before: str, between: str, after: str) -> CallShape:
    opening, spacer, closing = parts
    counter = _COUNTER.match(spacer)
    head = _head_of(spacer)
    namespace = "functions." if counter and opening.endswith("functions.") else ""
    calls = present(opening.removesuffix(namespace))
    if not calls:
        raise UnusableDialect("nothing marks where a call begins")
    ends = present(_COUNTER.sub("", spacer, count=1) if counter else spacer)
    if head is Header.RECIPIENT:
        ends = tuple(marks_in(spacer)[-1:])
    elif _FENCE in spacer:
        ends = ("\n",)
    closers = present(closing.replace(_FENCE, ""))
    grammar = HeadedCalls(
        sections=present(before),
        section_close=present(after.replace(_FENCE, "")),
        calls=calls,
        call_close=closers,
        head_end=ends or ("{",),
        head=head,
    )
    name = "{name}:{index}" if counter else "{name}"
    spacer = spacer[counter.end() :] if counter else spacer
    return CallShape(
        written=(GrammarWithOpeners((*grammar.sections, *calls), grammar),),
        dropped=(*closers, *grammar.section_close),
        template=Template(
            f"{opening}{name}{spacer}{{arguments}}{closing}",
            before=before,
            between=between,
            after=after,
        ),
    )


def _head_of(spacer: str) -> Header:
    if _COUNTER.match(spacer):
        return Header.COUNTED
    return Header.RECIPIENT if len(marks_in(spacer)) > 1 else Header.NAME


# Literals from a rendering: Gemma's literals, and Python's calls.


_WORDS = (NAMES[0], KEYS[0], VALUES[0], KEYS[1], VALUES[1])
_OTHER = (NAMES[1], KEYS[0], OTHER_VALUE)
_QUOTES = ("'", '"')


def learn_gemma(one: str, two: str | None) -> CallShape | None:
    """`<|tool_call>call:search{query:<|"|>x<|"|>}<tool_call|>`"""
    head, first, middle, _, _, tail = split_at(one, *_WORDS)
    quote = middle.removeprefix(":").strip()
    if first != "{" or not middle.startswith(":") or not quote or not tail.startswith(f"{quote}}}"):
        return None
    end = f"{quote}}}"
    tail = tail.removeprefix(end)
    opening, closing, between = head, tail, ""
    if two is not None:
        pieces = split_at(two, *_WORDS, *_OTHER)
        opening, closing, between = between_calls(
            head, pieces[8].removeprefix(end), middle=pieces[5].removeprefix(end)
        )
    opener, closers = opening.strip(), present(closing)
    if not opener:
        return None
    return CallShape(
        written=(GrammarWithOpeners((opener,), GemmaCalls(quote, closers, begin="")),),
        dropped=closers,
        template=Template(
            f"{opening}{{name}}{{arguments}}{closing}",
            before=head.removesuffix(opening),
            between=between,
            after=tail.removeprefix(closing),
            notation=Notation.GEMMA,
            quote=quote,
        ),
    )


def learn_python(one: str, two: str | None) -> CallShape | None:
    """`<|tool_call_start|>[search(query="x")]<|tool_call_end|>`"""
    head, first, middle, _, _, tail = split_at(one, *_WORDS)
    quote = middle.removeprefix("=")
    end = f"{quote})"
    if first != "(" or quote not in _QUOTES or not tail.startswith(end):
        return None
    tail = tail.removeprefix(end)
    brackets = head.rstrip().endswith("[")
    opener = head.strip().removesuffix("[").strip()
    closers = present(tail.strip().removeprefix("]") if brackets else tail)
    between = ", " if brackets else "\n"
    if two is not None:
        pieces = split_at(two, *_WORDS, *_OTHER)
        between = pieces[5].removeprefix(end)
    if opener:
        written = GrammarWithOpeners((opener,), PythonCalls(closers, brackets=brackets))
    else:
        written = GrammarWithOpeners(("[",), PythonCalls(closers, marked=False))
    if not opener and not brackets:
        return None
    return CallShape(
        written=(written,),
        dropped=closers,
        template=Template(
            "{name}({arguments})",
            before=head,
            between=between,
            after=tail,
            notation=Notation.PYTHON,
        ),
    )


# Tags from a rendering: one for each parameter.


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
        written=(GrammarWithOpeners((*grammar.sections, grammar.call.begin), grammar),),
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
