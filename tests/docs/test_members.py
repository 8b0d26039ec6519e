"""What a class has stands in the reference as it was written."""

import ast

import pytest

from definitions import Definition, Module
from members import find_members, sign


def define(source: str, name: str) -> Definition:
    found = Module("wholecall.sample", source).find(name)
    assert found is not None
    return found


def write(source: str, name: str = "Box") -> list[str]:
    members = find_members(define(source, name))
    return [f"{member.text} # {member.doc}" if member.doc else member.text for member in members]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("size: int", "size: int"),
        ("size: int = 3", "size: int = 3"),
        ("size: dict[str, int] = field(default_factory=dict)", "size: dict[str, int] = {}"),
        ("size: list[int] = msgspec.field(default_factory=list)", "size: list[int] = []"),
        ("size: Size = field(default_factory=Size)", "size: Size = Size()"),
        ("size: str = field(default_factory=lambda: make(3))", "size: str = …"),
        ("size: int = field(default=3, repr=False)", "size: int = 3"),
        ('SMALL = "small"', 'SMALL = "small"'),
        ("SMALL = enum.auto()", "SMALL"),
    ],
)
def test_a_field_has_its_type_and_default(written: str, shown: str) -> None:
    assert write(f"class Box:\n    {written}\n    '''How large.'''") == [f"{shown} # How large."]


def test_a_private_field_and_what_is_no_field_are_left_out() -> None:
    assert write("class Box:\n    _size: int\n    __slots__ = ()\n    pass") == []


def test_attributes_come_from_the_constructor() -> None:
    source = '''
class Box:
    def __init__(self, size: int, *, name) -> None:
        self.size = size
        """How large."""
        self.name = name
        self.things: list[str] = []
        self._hidden = 3
        other.size = 4
        print(size)
'''
    assert write(source) == ["size: int # How large.", "name", "things: list[str]"]


def test_properties_stand_among_the_data_and_methods_behind_it() -> None:
    source = '''
class Box:
    def open(self, key: str) -> None:
        """Open it."""

    @property
    def size(self) -> int:
        """How large."""

    @functools.cache
    async def close(self): ...

    def _lock(self) -> None: ...
'''
    assert write(source) == [
        "size: int # How large.",
        "open(key: str) -> None # Open it.",
        "async close()",
    ]


def test_members_of_own_bases_come_first_and_are_overridden() -> None:
    source = """
class Thing:
    name: str
    size: int = 1

class Box(Thing, ValueError):
    size: int = 2
    lid: bool
"""
    assert write(source) == ["name: str", "size: int = 2", "lid: bool"]


def test_what_is_no_class_has_no_members() -> None:
    assert write("def Box() -> None: ...") == []


@pytest.mark.parametrize(
    "written",
    [
        "f()",
        "f(a, b=1, /, c: int = 2)",
        "f(*args: int, d, **rest: str) -> list[str]",
        "f(a, *, d: int = 1, e)",
        "async f(a) -> None",
    ],
)
def test_a_signature_is_as_it_was_written(written: str) -> None:
    source = f"{written.replace('async f', 'async def f').replace('f(', 'def f(', 1)}: ..."
    source = source.replace("def def", "def")
    assert signature(source) == written


def test_self_is_not_shown() -> None:
    assert signature("def f(self, a): ...") == "f(a)"
    assert signature("def f(cls): ...") == "f()"


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    source = "def f(a: int, b: int) -> None: ..."
    assert signature(source, longest=25) == "f(a: int, b: int) -> None"
    assert signature(source, longest=24) == "f(\n    a: int,\n    b: int,\n) -> None"


def test_the_signature_of_a_class_returns_nothing() -> None:
    assert signature("def __init__(self, a) -> None: ...", name="Box") == "Box(a)"


def signature(source: str, *, longest: int | None = None, name: str = "") -> str:
    module = Module("wholecall.sample", source)
    [node] = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return sign(module, node, longest=longest, name=name)
