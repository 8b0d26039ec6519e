"""From a tool's schema to a compiled one, or to the reason why not."""

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given

from schemas import tool_schemas
from wholecall.arguments.compiled_schema import (
    CHAIN,
    CONTAINERS,
    EXPANSION,
    SCHEMA_BYTES,
    SCHEMA_DEPTH,
    Compiled,
    is_deeper,
    prepare,
)
from wholecall.events import Problem


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def doubled(levels: int) -> dict[str, Any]:
    """Each definition refers twice to the next."""
    definitions: dict[str, Any] = {
        f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/a0", "$defs": definitions | {f"a{levels}": {}}}


def chained(links: int) -> dict[str, Any]:
    """Each definition refers to the next."""
    definitions: dict[str, Any] = {
        f"a{link}": {"$ref": f"#/$defs/a{link + 1}"} for link in range(links)
    }
    return {"$ref": "#/$defs/a0", "$defs": definitions | {f"a{links}": {}}}


# what holds, schema, path, kind, what the message says
REFUSED: list[tuple[str, Any, str, str, str]] = [
    ("what is no JSON", {"a": object()}, "$", "json", "object is no JSON value"),
    ("half a surrogate pair", {"a": "\ud800"}, "$", "json", "cannot be written as JSON"),
    ("too deep to be written", nested(5000), "$", "json", "recursion"),
    ("too large", {"title": "x" * SCHEMA_BYTES}, "$", "limit", f"at most {SCHEMA_BYTES}"),
    ("too deep", nested(SCHEMA_DEPTH), "$", "limit", f"more than {SCHEMA_DEPTH} deep"),
    (
        "too many parts",
        {"anyOf": [{}] * CONTAINERS},
        "$",
        "limit",
        f"more than {CONTAINERS} objects and arrays",
    ),
    ("too many references", doubled(20), "$", "limit", f"more than {EXPANSION} schemas"),
    ("too long a chain", chained(CHAIN + 1), "$", "limit", f"more than {CHAIN} schemas"),
    (
        "an unknown type",
        {"properties": {"a": {"type": "x"}}},
        "$.properties.a.type",
        "anyOf",
        '"x"',
    ),
    ("a wrong keyword", {"items": {"enum": 5}}, "$.items.enum", "type", "5 is not of type"),
    (
        "a remote reference",
        {"properties": {"odd key": {"$ref": "https://example.com/a.json"}}},
        '$.properties["odd key"]["$ref"]',
        "$ref",
        "nothing outside the schema is fetched",
    ),
    ("a local file", {"$ref": "file:///etc/passwd"}, '$["$ref"]', "$ref", "$defs"),
    ("a relative reference", {"$ref": "other.json"}, '$["$ref"]', "$ref", '"other.json"'),
    ("a reference to nothing", {"$ref": "#/$defs/a"}, '$["$ref"]', "$ref", "no schema stands"),
    (
        "a reference to no schema",
        {"$ref": "#/enum/0", "enum": [{}]},
        '$["$ref"]',
        "$ref",
        "no schema",
    ),
    ("a broken escape", {"$ref": "#/$defs/%zz"}, '$["$ref"]', "$ref", "no schema stands"),
    ("an unknown anchor", {"$ref": "#a"}, '$["$ref"]', "$ref", "no schema stands"),
    ("a dynamic reference", {"$dynamicRef": "#a"}, '$["$dynamicRef"]', "$dynamicRef", "use $ref"),
    ("look-ahead", {"items": {"pattern": "(?=a)"}}, "$.items.pattern", "pattern", "look-around"),
    ("a backreference", {"pattern": r"(a)\1"}, "$.pattern", "pattern", "backreferences"),
    ("a pattern too large", {"pattern": "(.{1,64}){1,64}x"}, "$.pattern", "pattern", "maxLength"),
    (
        "a pattern of names",
        {"patternProperties": {"(?!a)": {}}},
        '$.patternProperties["(?!a)"]',
        "pattern",
        "linear time",
    ),
]


@pytest.mark.parametrize(
    ("schema", "path", "kind", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_schema_that_cannot_be_used_is_refused_by_name(
    schema: Any, path: str, *, kind: str, message: str
) -> None:
    refused = prepare(schema)

    assert isinstance(refused, Problem)
    assert (refused.path, refused.kind) == (path, kind)
    assert message in refused.message
    assert refused.message.startswith("the schema ")


# what holds, schema, a value that fits, one that does not
USED: list[tuple[str, Any, Any, Any]] = [
    ("nothing is said", {}, {"a": 1}, None),
    ("a frozen mapping", MappingProxyType({"required": ["a"]}), {"a": 1}, {}),
    ("a local reference", {"$ref": "#/$defs/a", "$defs": {"a": {"required": ["x"]}}}, {"x": 1}, {}),
    (
        "an escaped one",
        {"items": {"$ref": "#/$defs/a%20b"}, "$defs": {"a b": {"type": "null"}}},
        [None],
        [1],
    ),
    (
        "one that should be",
        {"items": {"$ref": "#/$defs/P<Ü>"}, "$defs": {"P<Ü>": {"type": "null"}}},
        [None],
        [1],
    ),
    (
        "older definitions",
        {"$ref": "#/definitions/a", "definitions": {"a": {"required": ["x"]}}},
        {"x": 1},
        {},
    ),
    (
        "an anchor",
        {"items": {"$ref": "#a"}, "$defs": {"x": {"$anchor": "a", "type": "null"}}},
        [None],
        [1],
    ),
    (
        "itself",
        {"properties": {"a": {"$ref": "#"}}, "required": ["b"]},
        {"b": 1, "a": {"b": 2}},
        {"b": 1, "a": {}},
    ),
    ("a circle that says nothing", {"$ref": "#"}, {}, None),
    ("as deep as allowed", nested(SCHEMA_DEPTH - 2), {}, None),
    ("references as many as allowed", doubled(9), {}, None),
    ("no format is a rule", {"items": {"format": "date"}}, ["tomorrow"], None),
    ("digits are ASCII", {"items": {"pattern": r"^\d$"}}, ["3"], ["٣"]),
]


@pytest.mark.parametrize(
    ("schema", "fitting", "other"), [r[1:] for r in USED], ids=[r[0] for r in USED]
)
def test_a_schema_that_can_be_used_judges(schema: Any, fitting: Any, *, other: Any) -> None:
    compiled = prepare(schema)

    assert isinstance(compiled, Compiled)
    assert compiled.fits(compiled.root, fitting)
    assert other is None or not compiled.fits(compiled.root, other)


def test_a_schema_is_compiled_once_by_what_it_says() -> None:
    schema = {"properties": {"a": {"enum": [1]}}}
    first = prepare(schema)

    assert prepare({"properties": {"a": {"enum": [1]}}}) is first
    schema["properties"]["a"]["enum"].append(2)
    changed = prepare(schema)
    assert isinstance(changed, Compiled)
    assert changed.fits(changed.root, {"a": 2})


def test_integers_are_looked_for() -> None:
    with_integers, without = prepare({"items": {"type": "integer"}}), prepare({"type": "number"})

    assert isinstance(with_integers, Compiled)
    assert isinstance(without, Compiled)
    assert (with_integers.integers, without.integers) == (True, False)


def test_depth_is_counted_in_objects_and_arrays() -> None:
    assert not is_deeper({"a": [1]}, 2)
    assert is_deeper({"a": [[]]}, 2)


@given(tool_schemas())
def test_an_ordinary_schema_can_be_used(schema: dict[str, Any]) -> None:
    assert isinstance(prepare(schema), Compiled)
