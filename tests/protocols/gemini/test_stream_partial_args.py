import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from wholecall.arguments.limits import DEFAULT
from wholecall.errors import ProtocolError
from wholecall.protocols.gemini.stream import GrowingObject, parse_path

PATHS = [
    ("$.a", ("a",)),
    ("$.a.b", ("a", "b")),
    ("$.a[0].b", ("a", 0, "b")),
    ("$.a[0][12]", ("a", 0, 12)),
    ("$['a b']", ("a b",)),
    ('$["a.b"].c', ("a.b", "c")),
    (r"$['it\'s']", ("it's",)),
    ("$['say \"x\"']", ('say "x"',)),
    (r'$["a\"b\u00e9"]', ('a"bé',)),
    ("$.größe", ("größe",)),
    ("$.a-b", ("a-b",)),
]


@pytest.mark.parametrize(("path", "steps"), PATHS)
def test_a_path_is_read(path: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path",
    [
        *("", "$", "a", ".a", "$a", "$.", "$..a", "$.a[", "$.a['b", "$.a['b]"),
        *("$.a[-1]", "$.a[*]", "$.a[1:2]", "$.a[1234567890]"),
        "$" + ".a" * (DEFAULT.depth + 1),
    ],
)
def test_a_path_that_leads_to_no_one_value_is_an_error(path: str) -> None:
    with pytest.raises(ProtocolError, match="cannot be followed"):
        parse_path(path)


def test_a_name_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="a name that cannot be read"):
        parse_path(r"$['\x']")


def grown(*values: tuple[Any, ...], begun: dict[str, Any] | None = None) -> GrowingObject:
    growing = GrowingObject(begun or {})
    for path, value, *continues in values:
        growing.put(path, value, continues=bool(continues))
    return growing


GROWS: list[tuple[str, list[Any], Any]] = [
    ("nothing is an empty object", [], {}),
    (
        "a value is put at its path",
        [("$.a", 1), ("$.b", True), ("$.c", None)],
        {"a": 1, "b": True, "c": None},
    ),
    ("a string is whole", [("$.a", "x")], {"a": "x"}),
    ("or goes on", [("$.a", "x", 1), ("$.a", "y", 1), ("$.a", "z")], {"a": "xyz"}),
    ("its last piece may be empty", [("$.a", "x", 1), ("$.a", "")], {"a": "x"}),
    ("or left out", [("$.a", "x", 1), ("$.a", UNSET)], {"a": "x"}),
    ("or null", [("$.a", "x", 1), ("$.a", None)], {"a": "x"}),
    ("so may its first", [("$.a", UNSET, 1), ("$.a", "x")], {"a": "x"}),
    (
        "strings may be interleaved",
        [("$.a", "x", 1), ("$.b", "y", 1), ("$.a", "z"), ("$.b", "")],
        {"a": "xz", "b": "y"},
    ),
    ("a path may be spelled in two ways", [("$.a", "x", 1), ("$['a']", "y")], {"a": "xy"}),
    (
        "objects and arrays are implied",
        [("$.a[0].b", 1), ("$.a[0].c", 2), ("$.a[1].b", 3)],
        {"a": [{"b": 1, "c": 2}, {"b": 3}]},
    ),
    ("arrays may be nested", [("$.a[0][0]", 1), ("$.a[0][1]", 2)], {"a": [[1, 2]]}),
    ("a double that is whole is an integer", [("$.a", 50.0), ("$.b", 0.5)], {"a": 50, "b": 0.5}),
    ("unless it is beyond its precision", [("$.a", 1e300)], {"a": 1e300}),
]


@pytest.mark.parametrize(("values", "whole"), [row[1:] for row in GROWS], ids=[r[0] for r in GROWS])
def test_arguments_grow(values: list[Any], whole: Any) -> None:
    growing = grown(*values)
    assert growing.is_whole
    assert json.loads(growing.encode()) == whole


def test_they_may_have_begun() -> None:
    begun: dict[str, Any] = {"a": [1]}
    assert json.loads(grown(("$.b", 2), begun=begun).encode()) == {"a": [1], "b": 2}
    assert begun == {"a": [1]}


def test_a_string_that_goes_on_is_not_whole() -> None:
    assert not grown(("$.a", "x", 1)).is_whole


ERRORS: list[tuple[str, list[Any], str]] = [
    ("a second value", [("$.a", 1), ("$.a", 1)], r"a second value came for \$\.a"),
    ("a string after its end", [("$.a", "x"), ("$.a", "y")], r"a second value came for \$\.a"),
    ("a string that begins twice", [("$.a", "x"), ("$.a", "y", 1)], "a second value"),
    ("a string that goes on as a number", [("$.a", "x", 1), ("$.a", 1)], "goes on as 1"),
    ("no value", [("$.a", UNSET)], r"no value came for \$\.a"),
    ("a value inside a value", [("$.a", 1), ("$.a.b", 1)], r"\$\.a\.b contradicts"),
    ("a value inside a string", [("$.a", "x", 1), ("$.a.b", 1)], r"\$\.a\.b contradicts"),
    ("a name in an array", [("$.a[0]", 1), ("$.a.b", 1)], r"\$\.a\.b contradicts"),
    ("an index in an object", [("$.a.b", 1), ("$.a[0]", 1)], r"\$\.a\[0\] contradicts"),
    ("an index at the root", [("$[0]", 1)], r"\$\[0\] contradicts"),
    ("a hole in an array", [("$.a[1]", 1)], r"\$\.a\[1\] contradicts"),
    ("a container as a value", [("$.a.b", 1), ("$.a", 1)], "a second value"),
]


@pytest.mark.parametrize(
    ("values", "message"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS]
)
def test_what_contradicts_itself_is_an_error(values: list[Any], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        grown(*values)


def test_the_paths_have_a_limit() -> None:
    growing = GrowingObject({})
    path = "$['" + "a" * (DEFAULT.characters // 2) + "']"
    growing.put(path, "x", continues=True)
    with pytest.raises(ProtocolError, match="partial arguments have more than 4194304 characters"):
        growing.put(path, "y", continues=True)


def test_and_so_has_a_string() -> None:
    with pytest.raises(ProtocolError, match=r"the string at \$\.a has more than"):
        grown(("$.a", "x" * DEFAULT.characters, 1), ("$.a", "y"))


def leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        inner = [(f"{path}[{json.dumps(name)}]", each) for name, each in value.items()]
    elif isinstance(value, list):
        inner = [(f"{path}[{index}]", each) for index, each in enumerate(value)]
    else:
        return [(path, value)]
    return [leaf for place, each in inner for leaf in leaves(each, place)]


TEXT = st.text(max_size=4)
SCALARS = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(TEXT, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=3))
def test_any_object_that_is_taken_apart_is_put_together_again(value: dict[str, Any]) -> None:
    growing = GrowingObject({})
    for path, leaf in leaves(value, "$"):
        for piece in leaf if isinstance(leaf, str) else ():
            growing.put(path, piece, continues=True)
        growing.put(path, "" if isinstance(leaf, str) else leaf, continues=False)
    assert json.loads(growing.encode()) == value
