"""Names are found where they are defined, with the words that stand at them."""

import ast

import pytest

import wholecall
from definitions import Module, demand, describe, name_of

SAMPLE = Module(
    "wholecall.sample",
    '''\
"""A sample."""
from typing import TypeAlias

from wholecall.assembly import json_scanner as scanner
from wholecall.messages import Choice as Wish

Size: TypeAlias = (
    int
    | str
)
"""How large."""
LIMIT = 3


class Box:
    """Holds things."""


@overload
def pack(box: Box) -> Box: ...


@overload
def pack(*, size: Size) -> Box: ...


def pack(box=None, *, size=None):
    """Put things in."""
''',
)


@pytest.mark.parametrize(
    ("name", "doc"), [("Size", "How large."), ("LIMIT", ""), ("Box", "Holds things.")]
)
def test_a_definition_has_its_docstring(name: str, doc: str) -> None:
    found = SAMPLE.find(name)
    assert found is not None
    assert (found.module, found.name, found.doc) == (SAMPLE, name, doc)


def test_a_function_has_its_overloads_and_the_docstring_of_the_last() -> None:
    found = SAMPLE.find("pack")
    assert found is not None
    assert [len(each.args.args) for each in found.overloads] == [1, 0]
    assert found.doc == "Put things in."


def test_source_stands_in_one_line() -> None:
    found = SAMPLE.find("Size")
    assert found is not None
    assert isinstance(found.node, ast.AnnAssign)
    assert SAMPLE.text(found.node).startswith("Size: TypeAlias = ( int | str )")


def test_a_name_is_followed_to_where_it_is_defined() -> None:
    found = SAMPLE.find("Wish")
    assert found is not None
    assert (found.module.name, found.name) == ("wholecall.messages", "Choice")


@pytest.mark.parametrize("name", ["TypeAlias", "missing"])
def test_what_is_not_the_packages_is_not_found(name: str) -> None:
    assert SAMPLE.find(name) is None


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("Box", "wholecall.sample.Box"),
        ("Box[int]", "wholecall.sample.Box"),
        ("scanner.ObjectScanner", "wholecall.assembly.json_scanner.ObjectScanner"),
        ("enum.Enum", None),
        ("'Box'", None),
    ],
)
def test_an_expression_is_resolved(written: str, place: str | None) -> None:
    found = SAMPLE.resolve(ast.parse(written, mode="eval").body)
    assert (found and f"{found.module.name}.{found.name}") == place


def test_every_public_name_is_defined_somewhere() -> None:
    assert all(demand("wholecall", name).name == name for name in wholecall.__all__)


@pytest.mark.parametrize("module", ["wholecall", "wholecall.events"])
def test_a_public_name_that_is_not_defined_is_an_error(module: str) -> None:
    with pytest.raises(LookupError, match=f"{module!r} does not define 'nothing'"):
        demand(module, "nothing")


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("class Box: ...", "Box"),
        ("def pack(): ...", "pack"),
        ("async def pack(): ...", "pack"),
        ("size = 1", "size"),
        ("size: int", "size"),
        ("self.size = 1", "size"),
        ("self.size: int = 1", "size"),
        ("other.size = 1", ""),
        ("one, two = 1, 2", ""),
        ("pass", ""),
    ],
)
def test_a_statement_has_a_name(statement: str, name: str) -> None:
    [described] = describe(ast.parse(statement).body)
    assert name_of(described.statement) == name
