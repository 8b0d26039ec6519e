"""Values that are too much for an honest schema, or for one that helps them."""

from __future__ import annotations

import json
from typing import Any

from hostile import FITS, INTEGER, LIMIT, STRING, UNFIT, Row, defs, items, nested, of, ref
from hostile_schemas import NAMED

OBJECTS = [{"k": n} for n in range(2000)]
WORDS = {"enum": [f"v{n}" for n in range(6000)]}
TAGGED = [
    {"type": "object", "properties": {"t": {"const": f"t{n}"}}, "required": ["t"]}
    for n in range(100)
]
TREE = {"t": {"type": "array", "items": ref("t"), "uniqueItems": True}}
NULL = {"type": "null"}


def nested_texts(levels: int, *, width: int = 1) -> str:
    text = "[]"
    for _ in range(levels):
        text = json.dumps([text] * width)
    return text


def nested_arrays(levels: int, *, width: int) -> Any:
    value: Any = list(range(width))
    for _ in range(levels):
        value = [value]
    return value


ROWS: list[Row] = [
    # ── Options and alternatives ────────────────────────────────────────────────────
    Row("many options", items(WORDS), lambda: ["v"] * 50_000, UNFIT),
    Row("many options, few items", items(WORDS), lambda: ["v"] * 50, UNFIT),
    Row("options that are objects", items({"enum": OBJECTS}), lambda: [{"k": -1}] * 9000, LIMIT),
    Row("a few such items", items({"enum": OBJECTS}), lambda: [{"k": -1}] * 20, UNFIT),
    Row(
        "integers as options, for floats",
        items({"enum": list(range(5000))}),
        lambda: [0.5] * 10_000,
        LIMIT,
    ),
    Row(
        "fewer integers as options, for floats",
        items({"enum": list(range(500))}),
        lambda: [0.5] * 10_000,
        LIMIT,
    ),
    Row(
        "long integers as options",
        items({"enum": [10**60 + n for n in range(100)]}),
        lambda: [10**60] * 1000,
        LIMIT,
    ),
    Row(
        "many alternatives",
        items({"oneOf": [{"const": n} for n in range(1500)]}),
        lambda: [-1] * 50_000,
        LIMIT,
    ),
    Row(
        "many alternatives, to be coerced",
        items({"anyOf": [{"type": "object", "required": [f"k{n}"]} for n in range(800)]}),
        lambda: ["{}"] * 100,
        UNFIT,
    ),
    Row("tagged alternatives", items({"oneOf": TAGGED}), lambda: [{"t": "t99"}] * 10_000, LIMIT),
    Row("fewer tagged ones", items({"oneOf": TAGGED}), lambda: [{"t": "x"}] * 900, UNFIT),
    Row(
        "types to be chosen from",
        items({"anyOf": [INTEGER, {"type": "boolean"}, NULL]}),
        lambda: ["1"] * 20_000,
        UNFIT,
    ),
    Row(
        "conditions",
        of({"allOf": [{"if": {"const": n}, "then": False} for n in range(500)]}),
        lambda: list(range(1000)),
        FITS,
    ),
    Row(
        "negations",
        items({"not": {"anyOf": [{"not": STRING}] * 500}}),
        lambda: [1] * 20_000,
        LIMIT,
    ),
    Row("a deep constant", items({"const": nested(100)}), lambda: [nested(100, 2)] * 200, UNFIT),
    # ── Numbers ─────────────────────────────────────────────────────────────────────
    Row("fine steps", items({"multipleOf": 1e-300}), lambda: [1e300] * 20_000, LIMIT),
    Row("steps", items({"multipleOf": 0.01}), lambda: [1.001] * 8000, UNFIT),
    Row("long numbers", items({"maximum": 10**600}), lambda: [10**601] * 20_000, LIMIT),
    Row("floats to be made whole", items(INTEGER), lambda: [1.0] * 60_000, FITS),
    Row(
        "floats in objects",
        items({"type": "object", "properties": {"n": INTEGER}}),
        lambda: [{"n": 1.0}] * 20_000,
        FITS,
    ),
    Row("an endless number", of(INTEGER), lambda: "9" * 1_000_000, UNFIT),
    Row("an endless exponent", of({"type": "number"}), lambda: "1e" + "9" * 1_000_000, UNFIT),
    # ── Arrays ──────────────────────────────────────────────────────────────────────
    Row("many wrong items", items(STRING), lambda: [1] * 60_000, UNFIT),
    Row("one wrong item of many", items(INTEGER), lambda: [1] * 60_000 + ["x"], UNFIT),
    Row("every other item wrong", items(INTEGER), lambda: [1, "x"] * 30_000, UNFIT),
    Row("more than a million items", items(STRING), lambda: [1] * 2_000_000, LIMIT),
    Row("items to be coerced", items(INTEGER), lambda: ["1"] * 5000, FITS),
    Row("too many items to be coerced", items(INTEGER), lambda: ["1"] * 60_000, UNFIT),
    Row("equal items", of({"uniqueItems": True}), lambda: [[n] for n in range(20_000)] * 2, LIMIT),
    Row("objects that differ", of({"uniqueItems": True}), lambda: OBJECTS * 2, UNFIT),
    Row("equal arrays in arrays", defs("t", TREE), lambda: nested_arrays(100, width=900), UNFIT),
    Row("one item of a kind", of({"contains": NULL}), lambda: [1] * 60_000, UNFIT),
    Row(
        "many items of a kind",
        of({"contains": INTEGER, "minContains": 50_000, "maxContains": 55_000}),
        lambda: [1] * 60_000,
        UNFIT,
    ),
    Row(
        "items that nothing evaluated",
        of({"anyOf": [{"contains": {"const": n}} for n in range(200)], "unevaluatedItems": False}),
        lambda: list(range(2000)),
        LIMIT,
    ),
    Row(
        "items by their place",
        of({"prefixItems": [INTEGER] * 700, "items": False}),
        lambda: ["1"] * 700,
        FITS,
    ),
    Row("values deep and wide", of({}), lambda: [nested_arrays(120, width=1)] * 190, FITS),
    Row(
        "values deep and wide, and wrong",
        items(STRING),
        lambda: [nested_arrays(120, width=1)],
        UNFIT,
    ),
    # ── Objects ─────────────────────────────────────────────────────────────────────
    Row("values too deep", of({}), lambda: nested(100_000), LIMIT),
    Row("values deep enough", of({}), lambda: nested(126), FITS),
    Row(
        "many names, forbidden",
        of({"type": "object", "additionalProperties": False}),
        lambda: {f"k{n}": 1 for n in range(60_000)},
        UNFIT,
    ),
    Row(
        "many names of one kind",
        of({"type": "object", "additionalProperties": STRING}),
        lambda: {f"k{n}": 1 for n in range(60_000)},
        UNFIT,
    ),
    Row(
        "many names to be looked up",
        of({"propertyNames": WORDS}),
        lambda: {f"k{n}": 1 for n in range(60_000)},
        UNFIT,
    ),
    Row(
        "many names that nothing evaluated",
        of({"anyOf": [{"required": ["x"]}, {}], "unevaluatedProperties": False}),
        lambda: {f"k{n}": 1 for n in range(30_000)},
        UNFIT,
    ),
    Row(
        "many names, and as many missing",
        of({"type": "object", "required": NAMED}),
        lambda: {f"x_{name}s": 1 for name in NAMED},
        UNFIT,
    ),
    Row(
        "long names like each other",
        of({"type": "object", "required": ["x" * 5000]}),
        lambda: {"x" * 4000 + str(n): 1 for n in range(300)},
        UNFIT,
    ),
    Row(
        "a chain of names",
        of({"dependentSchemas": {f"k{n}": {"required": [f"k{n + 1}"]} for n in range(1000)}}),
        lambda: {f"k{n}": 1 for n in range(1000)},
        UNFIT,
    ),
    Row(
        "names that none of many objects has",
        items({"dependentRequired": {f"k{n}": ["x"] for n in range(2000)}}),
        lambda: [{}] * 10_000,
        LIMIT,
    ),
    # ── Texts that hold values ──────────────────────────────────────────────────────
    Row("a text that is a large array", items(INTEGER), lambda: json.dumps([1] * 60_000), FITS),
    Row("many such texts", items(items(INTEGER)), lambda: [json.dumps([1] * 9000)] * 50, UNFIT),
    Row("a text that is a larger array", items(INTEGER), lambda: "[" + "1," * 1_000_000, UNFIT),
    Row("a text that is an array, cut", items(INTEGER), lambda: "[" + "[]," * 20_000, UNFIT),
    Row("a text that is a deep array", of({"type": "array"}), lambda: "[" * 200_000, UNFIT),
    Row(
        "a text that is a deep array, closed",
        of({"type": "array"}),
        lambda: "[" * 20_000 + "]" * 20_000,
        UNFIT,
    ),
    Row(
        "texts in texts",
        defs("x", {"x": {"type": "array", "items": ref("x")}}),
        lambda: nested_texts(12),
        FITS,
    ),
    Row(
        "texts in texts, three each",
        defs("x", {"x": {"type": "array", "items": ref("x")}}),
        lambda: nested_texts(7, width=3),
        UNFIT,
    ),
    Row(
        "an endless text for a boolean",
        of({"type": "boolean"}),
        lambda: " " * 4_000_000 + "true",
        UNFIT,
    ),
    Row("the longest text for an object", of({"type": "object"}), lambda: "{" * 4_000_000, UNFIT),
    Row("the longest text for no length", of({"maxLength": 1}), lambda: "é" * 4_000_000, UNFIT),
]
