"""JSON from a rendering: call objects in marks, or a name in a header before its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

from wholecall.core.values import JSON
from wholecall.dialects.declaration import Written
from wholecall.dialects.encoding import Template
from wholecall.dialects.headed_calls import HeadedCalls, Header
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.learned.comparing import between_calls, marks_in
from wholecall.dialects.learned.probes import CALLS, IDS
from wholecall.dialects.learned.shape import CallShape, present
from wholecall.errors import UnusableDialect

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
        written=(Written((opener,), grammar),) if opener else (),
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
        written=(Written((*grammar.sections, *calls), grammar),),
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
