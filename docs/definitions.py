"""Where public names are defined, and what their source says of them.

It reads the source and imports nothing: types and defaults stand in the reference as they
were written, on every version of Python, and the docstrings of fields are only there.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "wholecall"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Described(NamedTuple):
    """A statement and its docstring: its own, or, of an assignment, the string below it."""

    statement: ast.stmt
    doc: str


class Definition(NamedTuple):
    """Where and how a name is defined."""

    module: Module
    name: str
    node: ast.stmt
    doc: str
    overloads: tuple[Function, ...] = ()


class Module:
    """One source file."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source
        tree = ast.parse(source)
        self._described = tuple(describe(tree.body))
        self._origins = dict(_find_origins(tree))
        """Names that come from elsewhere in the package, and from where."""

    def text(self, node: ast.AST) -> str:
        """The source of a node, in one line."""
        return " ".join((ast.get_source_segment(self._source, node) or "").split())

    def find(self, name: str) -> Definition | None:
        """The definition of a name that is known here; None if it is none of the package's."""
        found = [each for each in self._described if name_of(each.statement) == name]
        if found:
            overloads = tuple(
                each.statement
                for each in found[:-1]
                if isinstance(each.statement, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            return Definition(self, name, found[-1].statement, found[-1].doc, overloads)
        if name not in self._origins:
            return None
        module, _, original = self._origins[name].rpartition(".")
        return _open(module).find(original)

    def resolve(self, expression: ast.expr) -> Definition | None:
        """The definition that `ResendName` or `module.Name` stands for."""
        match expression:
            case ast.Name(id=name):
                return self.find(name)
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in self._origins:
                return _open(self._origins[module]).find(name)
            case ast.Subscript(value=inner):
                return self.resolve(inner)
        return None


def _find_origins(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


@cache
def _open(name: str) -> Module:
    path = SOURCE.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return Module(name, file.read_text("utf-8"))


def demand(module: str, name: str) -> Definition:
    """Return the definition of a name that a module shows."""
    definition = _open(module).find(name)
    if definition is None:
        raise LookupError(f"{module!r} does not define {name!r}")
    return definition


def describe(body: Sequence[ast.stmt]) -> Iterator[Described]:
    """The statements of a module, a class or a function, with their docstrings."""
    for statement, following in pairwise([*body, ast.Pass()]):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Described(statement, ast.get_docstring(statement) or "")
            continue
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield Described(statement, inspect.cleandoc(text))
            case _:
                yield Described(statement, "")


def name_of(statement: ast.stmt) -> str:
    """The name that a statement defines; of `self.name = …` the last part."""
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
            return _name_of_target(target)
    return ""


def _name_of_target(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""
