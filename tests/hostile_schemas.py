"""Schemas that are small to write and large to use."""

from __future__ import annotations

from typing import Any

from hostile import FITS, LIMIT, REFUSED, STRING, UNFIT, Row, Schema, defs, items, nested, of, ref

NAMED = [f"parameter_number_{n}" for n in range(1000)]


def doubling(keyword: str, levels: int) -> Schema:
    bombs = {f"d{n}": {keyword: [ref(f"d{n + 1}"), ref(f"d{n + 1}")]} for n in range(levels)}
    return defs("d0", bombs | {f"d{levels}": {"type": "string"}})


def doubling_below(levels: int, *, ring: bool) -> Schema:
    """Each level has two ways to say the same about the level below."""
    last = "d0" if ring else "end"
    bombs: Schema = {"end": {"type": "string"}}
    for n in range(levels):
        below = ref(f"d{n + 1}" if n + 1 < levels else last)
        bombs[f"d{n}"] = {"properties": {"a": {"anyOf": [below, below]}}, "required": ["a"]}
    return defs("d0", bombs)


def everyone_refers_to_everyone(count: int) -> Schema:
    everyone = {"anyOf": [ref(f"d{n}") for n in range(count)]}
    return defs("d0", {f"d{n}": {"properties": {"a": everyone}} for n in range(count)})


def tree(keyword: str) -> Schema:
    branches = [{"type": "object", "properties": {"a": ref("t")}, "required": [n]} for n in "abcd"]
    return defs("t", {"t": {keyword: [*branches, {"type": "integer"}]}})


def nested_schema(keyword: str, levels: int) -> Schema:
    schema: Schema = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: schema}
    return of(schema)


def branching(keyword: str, levels: int, *, width: int) -> Schema:
    schema: Schema = {"type": "null"}
    for _ in range(levels):
        schema = {keyword: [schema] * width}
    return of(schema)


def unevaluated(levels: int) -> Schema:
    schema: Schema = {"properties": {"z": {}}}
    for n in range(levels):
        other = {"properties": {f"p{n}": {}}, "required": [f"p{n}"]}
        schema = {"anyOf": [schema, other], "unevaluatedProperties": False}
    return of(schema)


def demanding(count: int) -> Schema:
    """Each of many parameters must be given, and be given in one of several ways."""
    way = {"anyOf": [{"type": "string", "minLength": n} for n in range(8)]}
    return {"type": "object", "properties": dict.fromkeys(NAMED, way), "required": NAMED[:count]}


def of_many_choices(count: int) -> Schema:
    """Eight ways, so many times."""
    choices = [{"anyOf": [{"required": [f"k{n}{m}"]} for m in range(8)]} for n in range(count)]
    return of({"type": "object", "allOf": choices})


CHAIN: Any = {f"d{n}": ref(f"d{n + 1}") for n in range(1500)} | {"d1500": {}}

ROWS: list[Row] = [
    Row("allOf that doubles", doubling("allOf", 40), lambda: 1, REFUSED),
    Row("anyOf that doubles", doubling("anyOf", 40), lambda: 1, REFUSED),
    Row("oneOf that doubles", doubling("oneOf", 40), lambda: 1, REFUSED),
    Row("allOf that doubles a little", doubling("allOf", 9), lambda: 1, UNFIT),
    Row("doubling below", doubling_below(40, ring=False), lambda: nested(60), REFUSED),
    Row("doubling in a ring", doubling_below(24, ring=True), lambda: nested(120), REFUSED),
    Row("all refer to all", everyone_refers_to_everyone(30), lambda: nested(100), REFUSED),
    Row("some refer to all", everyone_refers_to_everyone(5), lambda: nested(100), LIMIT),
    Row("few refer to all", everyone_refers_to_everyone(4), lambda: nested(100), UNFIT),
    Row("alternatives written out", branching("anyOf", 6, width=4), lambda: 1, REFUSED),
    Row("fewer of them", branching("anyOf", 5, width=4), lambda: 1, UNFIT),
    Row("exactly one of many", branching("oneOf", 5, width=4), lambda: None, UNFIT),
    Row("a tree of anyOf", tree("anyOf"), lambda: nested(120, "x"), UNFIT),
    Row("a tree of oneOf", tree("oneOf"), lambda: nested(120, "x"), UNFIT),
    Row("a tree of oneOf to be coerced", tree("oneOf"), lambda: nested(120, "5"), UNFIT),
    Row("a circle", defs("x", {"x": ref("x")}), lambda: 1, FITS),
    Row("two in a circle", defs("x", {"x": ref("y"), "y": ref("x")}), lambda: 1, FITS),
    Row("a circle of alternatives", {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, lambda: 1, FITS),
    Row("a paradox", {"not": {"$ref": "#"}}, lambda: 1, UNFIT),
    Row("not not not", nested_schema("not", 100), lambda: "x", FITS),
    Row("not, deeper", nested_schema("not", 2000), lambda: "x", REFUSED),
    Row("items of items", nested_schema("items", 5000), list, REFUSED),
    Row("a constant that is deep", of({"const": nested(3000)}), lambda: 1, REFUSED),
    Row("a chain", defs("d0", CHAIN), lambda: 1, REFUSED),
    Row("a dynamic reference", of({"$dynamicRef": "#a"}), lambda: 1, REFUSED),
    Row("a recursive reference", of({"$recursiveRef": "#"}), lambda: 1, REFUSED),
    Row("a schema too large", of({"description": "x" * 70_000}), lambda: 1, REFUSED),
    Row("a remote schema", of({"$ref": "http://127.0.0.1:9/never"}), lambda: 1, REFUSED),
    Row("a file", of({"$ref": "file:///dev/zero"}), lambda: 1, REFUSED),
    Row("unevaluated properties in one another", unevaluated(20), lambda: {"z": 1}, REFUSED),
    Row("four of them", unevaluated(4), lambda: {"z": 1, "y": 2}, UNFIT),
    Row("very many schemas", of({"anyOf": [{}] * 15_000}), lambda: 1, REFUSED),
    Row("many schemas", of({"anyOf": [{"type": "null"}] * 2500}), lambda: 1, UNFIT),
    Row("options that are arrays", of({"enum": [[]] * 15_000}), lambda: 1, REFUSED),
    Row("many definitions", defs("x0", {f"x{n}": STRING for n in range(2000)}), lambda: 1, UNFIT),
    Row("many parameters", demanding(0), lambda: 1, REFUSED),
    Row("many required names", {"type": "object", "required": NAMED}, lambda: 1, UNFIT),
    Row("one name, required often", {"required": ["x"] * 10_000}, lambda: 1, UNFIT),
    Row("many types", of({"type": ["string"] * 5000}), lambda: 1, REFUSED),
    Row("a name of many escapes", of({"$ref": "#/$defs/" + "%7E0" * 10_000}), lambda: 1, REFUSED),
    Row("many options, all floats", of({"enum": [n + 0.5 for n in range(4000)]}), list, REFUSED),
    Row("an example without end", defs("x", {"x": of(ref("x"))}), lambda: 1, UNFIT),
    Row("an example of many choices", of_many_choices(30), dict, UNFIT),
    Row(
        "an example of much",
        of({"type": "array", "minItems": 10**9, "items": {"type": "string", "minLength": 10**9}}),
        list,
        UNFIT,
    ),
    Row(
        "an example of many arrays",
        items({"type": "array", "minItems": 16, "items": {"type": "array", "minItems": 16}}),
        lambda: 1,
        UNFIT,
    ),
    Row(
        "alternatives of many members",
        of({"anyOf": [{"required": NAMED[:50], "properties": {}} for _ in range(40)]}),
        dict,
        UNFIT,
    ),
]
