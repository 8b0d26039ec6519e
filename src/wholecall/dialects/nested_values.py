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
from typing import Any

from wholecall.dialects.jsontext import escape
from wholecall.dialects.source import BLANKS
from wholecall.dialects.writing import Trim, shape_of, types_of, write_value

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
