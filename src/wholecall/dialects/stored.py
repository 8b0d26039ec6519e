"""A dialect as JSON: what `wholecall dialects learn` saves, and what is loaded again.

    {"wholecall_dialect": 1, "name": "mine", "written": [{"openers": ["<call>"],
     "grammar": {"family": "json", "closers": ["</call>"]}}], "template": {"call": …}}

The fields are those of `Dialect` and its parts; what is as by default is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

import msgspec

from wholecall.core.values import JSON
from wholecall.dialects.arrow_calls import ArrowCalls
from wholecall.dialects.declaration import Dialect, Grammar
from wholecall.dialects.gemma_calls import GemmaCalls
from wholecall.dialects.headed_calls import HeadedCalls
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.line_calls import LineCalls
from wholecall.dialects.nested_calls import ChildTagCalls, MarkedTagCalls, NamedTagCalls
from wholecall.dialects.python_calls import PythonCalls
from wholecall.dialects.reply_calls import ReplyOrCalls
from wholecall.dialects.routed_calls import RoutedCalls
from wholecall.dialects.tag_calls import TagCalls
from wholecall.dialects.yaml_calls import NamedYamlCalls
from wholecall.errors import UnusableDialect

VERSION_KEY = "wholecall_dialect"
VERSION = 1
FAMILIES: Mapping[str, type[Grammar]] = {
    "json": JsonCalls,
    "headed": HeadedCalls,
    "tags": TagCalls,
    "marked_tags": MarkedTagCalls,
    "named_tags": NamedTagCalls,
    "child_tags": ChildTagCalls,
    "routed": RoutedCalls,
    "lines": LineCalls,
    "python": PythonCalls,
    "gemma": GemmaCalls,
    "arrows": ArrowCalls,
    "reply": ReplyOrCalls,
    "yaml": NamedYamlCalls,
}
_FAMILY_OF = {grammar: family for family, grammar in FAMILIES.items()}


def family_of(grammar: Grammar) -> str:
    """The word for a family of grammars."""
    return _FAMILY_OF[type(grammar)]


# ── Writing ─────────────────────────────────────────────────────────────────────────


def dump_dialect(dialect: Dialect) -> dict[str, JSON]:
    """A dialect as plain JSON values."""
    return {VERSION_KEY: VERSION, **_plain_fields(dialect)}


def _plain_fields(value: Any) -> dict[str, JSON]:
    return {
        field.name: _plain(getattr(value, field.name))
        for field in fields(value)
        if field.default is MISSING or getattr(value, field.name) != field.default
    }


def _plain(value: Any) -> JSON:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    family = _FAMILY_OF.get(type(value))
    return {"family": family, **_plain_fields(value)} if family else _plain_fields(value)


# ── Reading ─────────────────────────────────────────────────────────────────────────


def read_dialect(stored: object) -> Dialect:
    """The dialect that was stored; UnusableDialect says what is wrong with it."""
    if not isinstance(stored, Mapping) or VERSION_KEY not in stored:
        raise UnusableDialect(f"it is no stored dialect: it has no {VERSION_KEY!r}")
    if stored[VERSION_KEY] != VERSION:
        raise UnusableDialect(f"{VERSION_KEY!r} is {stored[VERSION_KEY]!r}; only {VERSION} is read")
    described = {key: value for key, value in stored.items() if key != VERSION_KEY}
    unknown = described.keys() - {field.name for field in fields(Dialect)}
    if unknown:
        raise UnusableDialect(f"a dialect has no field {', '.join(map(repr, sorted(unknown)))}")
    try:
        dialect = msgspec.convert(described, Dialect, dec_hook=_read_grammar)
    except ValueError as error:
        raise UnusableDialect(str(error)) from None
    if "" in _marks_in(described):
        raise UnusableDialect(f"an empty mark in the dialect {dialect.name!r} would be everywhere")
    return dialect


def _read_grammar(_: type, stored: object) -> Grammar:
    """`Grammar` is a protocol; the family says which class is meant."""
    described = dict(stored) if isinstance(stored, Mapping) else {}
    family = described.pop("family", None)
    if family not in FAMILIES:
        known = ", ".join(FAMILIES)
        raise ValueError(f"there is no family of grammars {family!r}; there are {known}")
    return msgspec.convert(described, FAMILIES[family], dec_hook=_read_grammar)


def _marks_in(described: Any) -> Iterator[str]:
    """Every string in a list: all of them are marks."""
    if isinstance(described, Mapping):
        described = [each for each in described.values() if not isinstance(each, str)]
    elif isinstance(described, list):
        yield from (each for each in described if isinstance(each, str))
    if isinstance(described, list):
        for each in described:
            yield from _marks_in(each)
