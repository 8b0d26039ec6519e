"""What a class has: fields, attributes, members of an enumeration, methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from definitions import Definition, Function, Module, describe, name_of

_PROPERTIES = frozenset({"property", "cached_property"})
_EMPTY = {"dict": "{}", "list": "[]"}
_UNSAID = "…"


class Member(NamedTuple):
    """One of them: its name, how it is written, and its docstring."""

    name: str
    text: str
    doc: str


def find_members(definition: Definition) -> list[Member]:
    """The public ones, those of our own bases first; what a class overrides it says itself."""
    if not isinstance(definition.node, ast.ClassDef):
        return []
    found: dict[str, Member] = {}
    for base in filter(None, map(definition.module.resolve, definition.node.bases)):
        found |= {member.name: member for member in find_members(base)}
    own = (*_data(definition.module, definition.node), *_methods(definition))
    found |= {member.name: member for member in own if _is_public(member.name)}
    return list(found.values())


def _is_public(name: str) -> bool:
    return bool(name) and not name.startswith("_")


def _data(module: Module, node: ast.ClassDef) -> Iterator[Member]:
    """Fields, attributes that `__init__` sets, and properties."""
    for statement, doc in describe(node.body):
        match statement:
            case ast.AnnAssign() | ast.Assign():
                yield Member(name_of(statement), _write_field(module, statement), doc)
            case ast.FunctionDef(name="__init__"):
                yield from _attributes(module, statement)
            case ast.FunctionDef(name=name, returns=ast.expr() as returns) if _is_data(statement):
                yield Member(name, f"{name}: {module.text(returns)}", doc)


def _methods(definition: Definition) -> Iterator[Member]:
    node = definition.node
    for statement, doc in describe(node.body if isinstance(node, ast.ClassDef) else ()):
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not _is_data(statement):
                yield Member(statement.name, sign(definition.module, statement), doc)


def _is_data(node: Function) -> bool:
    names = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
    return bool(names & _PROPERTIES)


# ── Fields ──────────────────────────────────────────────────────────────────────────


def _write_field(module: Module, statement: ast.AnnAssign | ast.Assign) -> str:
    name = name_of(statement)
    typed = f": {module.text(statement.annotation)}" if isinstance(statement, ast.AnnAssign) else ""
    default = "" if statement.value is None else _write_default(module, statement.value)
    return f"{name}{typed} = {default}" if default else f"{name}{typed}"


def _write_default(module: Module, value: ast.expr) -> str:
    """What a field is if nothing is given; empty if it must be, or if that says nothing."""
    match value:
        case ast.Call(func=ast.Attribute(attr="auto")):
            return ""
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field"), keywords=given):
            settings = {each.arg: each.value for each in given}
            if "default" in settings:
                return module.text(settings["default"])
            return _write_made(module, settings["default_factory"])
    return module.text(value)


def _write_made(module: Module, factory: ast.expr) -> str:
    written = module.text(factory)
    return _UNSAID if isinstance(factory, ast.Lambda) else _EMPTY.get(written, f"{written}()")


def _attributes(module: Module, made: ast.FunctionDef) -> Iterator[Member]:
    """What `__init__` sets on `self`; the type may stand at the parameter of the same name."""
    arguments = [*made.args.args, *made.args.kwonlyargs]
    types = {each.arg: each.annotation for each in arguments if each.annotation is not None}
    for statement, doc in describe(made.body):
        match statement:
            case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield Member(name, f"{name}: {module.text(statement.annotation)}", doc)
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                typed = f": {module.text(types[name])}" if name in types else ""
                yield Member(name, f"{name}{typed}", doc)


# ── Signatures ──────────────────────────────────────────────────────────────────────


def sign(module: Module, node: Function, *, longest: int | None = None, name: str = "") -> str:
    """A signature as it was written, without `self`.

    Above `longest` characters each parameter has its own line. Under another name it is that
    of a class, which has no `->`.
    """
    parameters = list(_parameters(module, node.args))
    head = ("async " if isinstance(node, ast.AsyncFunctionDef) else "") + (name or node.name)
    tail = f" -> {module.text(node.returns)}" if node.returns is not None and not name else ""
    line = f"{head}({', '.join(parameters)}){tail}"
    if longest is None or len(line) <= longest:
        return line
    inner = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{head}(\n{inner}){tail}"


def _parameters(module: Module, arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    required = len(positional) - len(arguments.defaults)
    defaults = [*([None] * required), *arguments.defaults]
    for number, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        if argument.arg not in {"self", "cls"}:
            yield _parameter(module, argument, default=default)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield f"*{module.text(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(module, argument, default=default)
    if arguments.kwarg is not None:
        yield f"**{module.text(arguments.kwarg)}"


def _parameter(module: Module, argument: ast.arg, *, default: ast.expr | None) -> str:
    written = module.text(argument)
    if default is None:
        return written
    equals = " = " if argument.annotation is not None else "="
    return f"{written}{equals}{module.text(default)}"
