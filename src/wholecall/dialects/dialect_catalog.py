"""Dialects as JSON, and their descriptions for the command line and the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any

import msgspec

from wholecall.dialects.dialect import Dialect, Grammar, Named, Notation, Template, encode_calls
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.grammars.headed_calls import HeadedCalls, LineCalls
from wholecall.dialects.grammars.json_calls import JsonCalls, ReplyOrCalls
from wholecall.dialects.grammars.literal_calls import ArrowCalls, AttributeCalls, GemmaCalls
from wholecall.dialects.grammars.nested_tag_calls import (
    ChildTagCalls,
    MarkedTagCalls,
    NamedTagCalls,
)
from wholecall.dialects.grammars.python_calls import PythonCalls
from wholecall.dialects.grammars.tag_calls import RoutedCalls, TagCalls
from wholecall.dialects.grammars.yaml_calls import NamedYamlCalls
from wholecall.errors import UnusableDialect
from wholecall.events import JSON

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
    "attributes": AttributeCalls,
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
        if field.compare
        and (field.default is MISSING or getattr(value, field.name) != field.default)
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
    unknown = described.keys() - {field.name for field in fields(Dialect) if field.compare}
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


# All dialects, described: for the command line and for docs/dialects.md.


SAMPLE_TOOL: Mapping[str, JSON] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the library.",
        "parameters": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer", "description": "How many books at most."},
            },
            "required": ["query"],
        },
    },
}
SAMPLE_CALL: tuple[str, Mapping[str, JSON]] = ("search", {"query": "tea", "limit": 3})
SAMPLE_OUTPUT = "The Book of Tea"

_FAMILIES = {
    "json": "JSON objects",
    "headed": "a name, then JSON",
    "tags": "tags",
    "marked_tags": "tags, nested",
    "routed": "tags in addressed messages",
    "lines": "lines",
    "python": "Python calls",
    "gemma": "Gemma's literals",
    "arrows": "hashes with arrows",
    "reply": "JSON objects",
}
_NAMED = {Named.TAGS: "tags with the names of tools", Named.YAML: "YAML"}
_CANNOT: Mapping[Notation, str] = {
    Notation.JSON: "",
    Notation.TAGS: "a value that holds one of its tags; keys that are not words; types that no "
    "schema tells",
    Notation.PYTHON: "keys that are not identifiers",
    Notation.GEMMA: "a string that holds its quoting mark; keys that are not words",
    Notation.YAML: "",
}


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One dialect, in words."""

    name: str
    family: str
    models: str
    sample: str
    """One call in it; empty if it can only be read."""
    cannot: str
    """The calls that cannot be written in it; empty if all can."""


def entries() -> Iterator[CatalogEntry]:
    """Every dialect, by name."""
    for name in sorted(DIALECTS):
        yield describe(DIALECTS[name])


def describe(dialect: Dialect) -> CatalogEntry:
    """One dialect, in words."""
    template = dialect.template
    return CatalogEntry(
        name=dialect.name,
        family=_family(dialect),
        models=dialect.models,
        sample="" if template is None else encode_calls(template, [SAMPLE_CALL]).strip(),
        cannot="" if template is None else _cannot(template),
    )


def _family(dialect: Dialect) -> str:
    if dialect.rescues:
        return "every family"
    grammars: tuple[Grammar, ...] = (*(each.grammar for each in dialect.written), *dialect.bare)
    if grammars:
        return _FAMILIES[family_of(grammars[0])]
    return _NAMED[dialect.named[0]] if dialect.named else "no calls"


def _cannot(template: Template) -> str:
    typed = "{string}" in template.value or "{type}" in template.value
    cannot = _CANNOT[template.notation]
    if typed:
        cannot = cannot.rpartition("; ")[0]
    if template.trims:
        cannot += "; white space around a value"
    return cannot


def table() -> str:
    """The table of docs/dialects.md."""
    lines = [
        "| dialect | family | written by | one call | what it cannot carry |",
        "|---|---|---|---|---|",
    ]
    for entry in entries():
        sample = f"`` {_one_line(entry.sample)} ``" if entry.sample else "can only be read"
        cells = (f"`{entry.name}`", entry.family, entry.models, sample, entry.cannot)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """A sample in a table's cell: line ends are shown, bars are escaped."""
    return text.replace("\n", "⏎").replace("|", "\\|")
