"""One entry of the reference: signature, docstring, fields and methods, and the types in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from definitions import Definition, Function, Module
from members import Member, find_members, sign

LONGEST_LINE = 88
# Bases that say how a class is made, not what it is.
_FORMS = frozenset({"Value", "Protocol", "NamedTuple", "TypedDict", "Generic", "Enum", "Flag"})
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """What is told of a name; the parts that there are stand below each other."""

    code: str = ""
    docs: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    modules: tuple[Module, ...] = ()
    """Where the names in code and members have their meaning."""


def write_entry(definition: Definition, public: Mapping[str, Definition]) -> str:
    """The entry of one public name, as Markdown."""
    entry = _make_entry(definition, public)
    aliases = _list(_find_aliases(entry, public))
    blocks = [
        f"### {definition.name}",
        f"```\n{entry.code}\n```" if entry.code else "",
        *entry.docs,
        _list(entry.members),
        f"In these types:\n\n{aliases}" if aliases else "",
    ]
    return "\n\n".join(filter(None, blocks))


def _make_entry(definition: Definition, public: Mapping[str, Definition]) -> _Entry:
    match definition.node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() as node:
            return _describe_function(definition, node, public=public)
        case ast.ClassDef() as node:
            return _describe_class(definition, node)
        case ast.AnnAssign(value=ast.expr() as value):
            code = f"{definition.name} = {_spell(definition.module, value)}"
            return _Entry(code=code, docs=(definition.doc,), modules=(definition.module,))
    raise LookupError(f"{definition.name!r} is not a function, class or type")


# ── Functions ───────────────────────────────────────────────────────────────────────


def _describe_function(
    definition: Definition, node: Function, *, public: Mapping[str, Definition]
) -> _Entry:
    module = definition.module
    shown = definition.overloads or (node,)
    code = "\n".join(sign(module, each, longest=LONGEST_LINE) for each in shown)
    options = _find_options(definition)
    if options is None:
        return _Entry(code=code, docs=(definition.doc,), modules=(module,))
    first = next(each for each in _by_line(public.values()) if _find_options(each) == options)
    if first != definition:
        told = f"Its options are those of `{first.name}`."
        return _Entry(code=code, docs=(definition.doc, told), modules=(module,))
    return _Entry(
        code=code,
        docs=(definition.doc, " ".join(each.doc for each in _lineage(options))),
        members=tuple(find_members(options)),
        modules=(module, *(each.module for each in _lineage(options))),
    )


def _find_options(definition: Definition) -> Definition | None:
    """What `**options: Unpack[Options]` of a function stands for."""
    match definition.node:
        case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
            match arguments.kwarg:
                case ast.arg(annotation=ast.Subscript(value=ast.Name(id="Unpack"), slice=options)):
                    return definition.module.resolve(options)
    return None


def _by_line(definitions: Iterable[Definition]) -> list[Definition]:
    return sorted(definitions, key=lambda each: (each.module.name, each.node.lineno))


# ── Classes ─────────────────────────────────────────────────────────────────────────


def _describe_class(definition: Definition, node: ast.ClassDef) -> _Entry:
    module = definition.module
    code, doc = "", ""
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name="__init__"):
                code = sign(module, statement, longest=LONGEST_LINE, name=definition.name)
                doc = ast.get_docstring(statement) or ""
    return _Entry(
        code=code,
        docs=(definition.doc, doc, _tell_bases(definition, node)),
        members=tuple(find_members(definition)),
        modules=tuple(each.module for each in _lineage(definition)),
    )


def _tell_bases(definition: Definition, node: ast.ClassDef) -> str:
    named = [definition.module.text(base).partition("[")[0] for base in node.bases]
    hidden = {*_FORMS, definition.name}
    told = [f"`{name}`" for name in named if name.rpartition(".")[2] not in hidden]
    return f"Bases: {', '.join(told)}." if told else ""


def _lineage(definition: Definition) -> Iterator[Definition]:
    """A class and those of its bases that are ours."""
    yield definition
    bases = definition.node.bases if isinstance(definition.node, ast.ClassDef) else ()
    for base in filter(None, map(definition.module.resolve, bases)):
        yield from _lineage(base)


# ── Types ───────────────────────────────────────────────────────────────────────────


def _find_aliases(entry: _Entry, public: Mapping[str, Definition]) -> Iterator[Member]:
    """The types of an entry that have a name only inside of the package."""
    written = "\n".join([entry.code, *(member.text for member in entry.members)])
    for word in dict.fromkeys(_WORD.findall(written)):
        known = (module.find(word) for module in entry.modules)
        found = next(filter(None, known), None)
        if found is None or found in public.values():
            continue
        match found.node:
            case ast.AnnAssign(annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value):
                yield Member(word, f"{word} = {_spell(found.module, value)}", found.doc)


def _spell(module: Module, value: ast.expr) -> str:
    """A type as it was written; one that names itself is written as a string."""
    match value:
        case ast.Constant(value=str(text)):
            return text
    return module.text(value)


def _list(members: Iterable[Member]) -> str:
    """One line for each; its docstring in one paragraph behind it."""
    return "\n".join(
        f"- `{member.text}`" + (f": {' '.join(member.doc.split())}" if member.doc else "")
        for member in members
    )
