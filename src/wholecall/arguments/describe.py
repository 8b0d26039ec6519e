"""Describe values and schemas in words that a model can act on, and suggest the name that was
probably meant.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from heapq import nsmallest
from itertools import islice
from typing import Any

_NAME = 64
"""Characters of a name that are compared. Comparing takes their square."""
_NAMES = 128
"""Names that one name is compared with, letter by letter. So many tools may be offered."""
_COMPARED = 16
"""Names that are compared so. Each takes milliseconds."""
_ALIKE = 0.6
"""Similarity, of 1, that a suggestion needs."""
_SAME = 0.85
"""Similarity at which names count as one name misspelt."""


def suggest(name: str, known: Iterable[str]) -> str | None:
    """The most similar of the known names, if any is similar."""
    return _pick(_simplify(name), _spell(nsmallest(_NAMES, known)), likeness=_ALIKE)


def name_nearest(name: str, known: Collection[str]) -> str:
    """Return `did you mean …?`, or all the known names if none of them is similar."""
    near = suggest(name, known)
    return f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"


def find_misspelt(names: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """The names that can only be other spellings of known ones: `dryRun` of `dry_run`.

    All that differ in case and separators are found; of the others, the first few are compared.
    """
    spelt = _spell(known)
    found: dict[str, str] = {}
    left = _COMPARED
    for name in names:
        simple = _simplify(name)
        meant = spelt.get(simple)
        if meant is None and left:
            left -= 1
            meant = _pick(simple, spelt, likeness=_SAME)
        if meant is not None:
            found[name] = meant
    return found


def _spell(known: Iterable[str]) -> dict[str, str]:
    """Known names by their simplified form; of two that are alike, the first in order."""
    spelt: dict[str, str] = {}
    for name in sorted(known):
        spelt.setdefault(_simplify(name), name)
    return spelt


def _pick(simple: str, spelt: dict[str, str], *, likeness: float) -> str | None:
    if simple in spelt:
        return spelt[simple]
    others = list(islice(spelt, _NAMES))
    matches = difflib.get_close_matches(simple, others, n=1, cutoff=likeness)
    return spelt[matches[0]] if matches else None


def _simplify(name: str) -> str:
    """Case and separators tell nothing: every framework has its own. Nor do marks that got into
    a name: ` path`, `:path`."""
    name = name[:_NAME].casefold()
    return "".join(filter(str.isalnum, name)) or name


# Values and schemas in words that a model can act on.


RECEIVED = 200
"""Characters of a received value that a problem shows."""
_OPTIONS = 24
"""Options of an `enum`, or names, that a sentence lists."""
_DEPTH = 3
"""Levels of a schema that a sentence describes."""

# What it remembers in order to find circles would outlive a text that is broken off.
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False)

_TYPES = {
    "null": "null",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}


def show(value: Any) -> str:
    """A value as JSON, cut to `RECEIVED` characters. Of a large value only the head is written."""
    if isinstance(value, str):
        return cut(_ENCODER.encode(value[: RECEIVED + 1]))
    text = ""
    for piece in _ENCODER.iterencode(value):
        text += piece
        if len(text) > RECEIVED:
            break
    return cut(text)


def cut(text: str, longest: int = RECEIVED) -> str:
    """The head of a text. Half of a surrogate pair is escaped: it could not be sent to anyone."""
    head = text if len(text) <= longest else text[: longest - 1] + "…"
    return head.encode("utf-8", "backslashreplace").decode()


def show_names(names: Iterable[str]) -> str:
    """Names in a row, in quotes."""
    return list_some(list(names), ", ", word=show)


def describe(node: Any, follow: Callable[[Any], Any], *, depth: int = _DEPTH) -> str:
    """Describe what a schema requires. `follow` returns the schema to which a reference points."""
    node = follow(node)
    if "const" in node or "enum" in node:
        return _describe_options(node.get("enum", [node.get("const")]))
    branches = node.get("anyOf") or node.get("oneOf")
    if branches and depth:
        return list_some(branches, " or ", word=partial(describe, follow=follow, depth=depth - 1))
    return ", ".join([_describe_type(node, follow, depth=depth), *_describe_limits(node)])


def _describe_options(options: list[Any]) -> str:
    words = list_some(options, ", ", word=show)
    return words if len(options) == 1 else f"one of {words}"


def _describe_type(node: Any, follow: Callable[[Any], Any], *, depth: int) -> str:
    types = node.get("type", [])
    types = types if isinstance(types, list) else [types]
    if types == ["array"] and "items" in node and depth:
        return f"an array (each item: {describe(node['items'], follow, depth=depth - 1)})"
    if types == ["object"] and node.get("required"):
        return f"an object with {show_names(node['required'])}"
    return " or ".join(_TYPES[word] for word in types) or "a value"


def _describe_limits(node: Any) -> list[str]:
    return [LIMITS[keyword](argument) for keyword, argument in node.items() if keyword in LIMITS]


# Each keyword that is judged by itself, as a phrase that completes "must be …".
LIMITS: dict[str, Callable[[Any], str]] = {
    "minimum": lambda limit: f"at least {limit}",
    "maximum": lambda limit: f"at most {limit}",
    "exclusiveMinimum": lambda limit: f"more than {limit}",
    "exclusiveMaximum": lambda limit: f"less than {limit}",
    "multipleOf": lambda limit: f"a multiple of {limit}",
    "minLength": lambda limit: f"at least {limit} characters long",
    "maxLength": lambda limit: f"at most {limit} characters long",
    "pattern": lambda pattern: f"matching the pattern {show(pattern)}",
    "minItems": lambda limit: f"an array of at least {limit} items",
    "maxItems": lambda limit: f"an array of at most {limit} items",
    "uniqueItems": lambda _: "without items that are equal",
    "minProperties": lambda limit: f"an object of at least {limit} members",
    "maxProperties": lambda limit: f"an object of at most {limit} members",
}


def list_some(things: Sequence[Any], joint: str, *, word: Callable[[Any], str] = str) -> str:
    """The first of some things in words, each once, and how many more there are."""
    shown = joint.join(dict.fromkeys(map(word, things[:_OPTIONS])))
    more = len(things) - _OPTIONS
    return f"{shown} and {more} more" if more > 0 else shown
