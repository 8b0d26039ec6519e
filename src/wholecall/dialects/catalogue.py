"""All dialects, described: for the command line and for docs/dialects.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wholecall.core.values import JSON
from wholecall.dialects.declaration import Dialect, Grammar, Named
from wholecall.dialects.encoding import Notation, Template, encode_calls
from wholecall.dialects.registry import DIALECTS
from wholecall.dialects.stored import family_of

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
    Notation.TAGS: "a value that holds one of its tags; keys that are no words; types that no "
    "schema tells",
    Notation.PYTHON: "keys that are no identifiers",
    Notation.GEMMA: "a string that holds its quoting mark; keys that are no words",
    Notation.YAML: "",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One dialect, in words."""

    name: str
    family: str
    models: str
    sample: str
    """One call in it; empty if it can only be read."""
    cannot: str
    """The calls that cannot be written in it; empty if all can."""


def entries() -> Iterator[Entry]:
    """Every dialect, by name."""
    for name in sorted(DIALECTS):
        yield describe(DIALECTS[name])


def describe(dialect: Dialect) -> Entry:
    """One dialect, in words."""
    template = dialect.template
    return Entry(
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
