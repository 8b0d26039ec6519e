"""Hostile schemas and arguments end in a refusal, or in a verdict after bounded work.

The whole table runs in one other process, under a limit of CPU time and memory: what
hangs or swells fails, and nothing here looks at a clock.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from wholecall.core.feedback import feedback
from wholecall.core.schema import check
from wholecall.core.spec import ToolSpec

CPU_SECONDS = 60
"""For all rows together, of which each takes milliseconds."""
MEMORY = 3 * 1024**3

REFUSED, LIMIT, FITS, UNFIT = "refused", "limit", "fits", "unfit"


class Row(NamedTuple):
    name: str
    schema: dict[str, Any]
    make: Callable[[], Any]
    """Makes the value of parameter `a`, in the other process."""
    verdict: str


# ── Regular expressions that explode where matching means backtracking ──────────────

# pattern, a text that it almost matches, verdict
PATTERNS: list[tuple[str, str, str]] = [
    (r"^(a+)+$", "a!", UNFIT),
    (r"^(a*)*$", "a!", UNFIT),
    (r"^(a|a)*$", "a!", UNFIT),
    (r"^(a|aa)+$", "a!", UNFIT),
    (r"^(a|a?)+$", "a!", UNFIT),
    (r"^([a-zA-Z]+)*$", "a!", UNFIT),
    (r"^(.*a){20}$", "a!", UNFIT),
    (r"^(\w+\s?)*$", "a!", UNFIT),
    (r"^(\d+)+x$", "1", UNFIT),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a", UNFIT),
    (r"^(x+x+)+y$", "x", UNFIT),
    (r"^((ab)*)*c$", "ab", UNFIT),
    (r"^(a+b?)+$", "a!", UNFIT),
    (r"^(?:a+){2,}$", "a!", UNFIT),
    (r"^([^@]+)+@([^@]+)+$", "a", UNFIT),
    (r"^([a-zA-Z0-9._-]+)+@([a-z]+\.)+[a-z]{2,4}$", "a", UNFIT),
    (r"^(https?://)?([\da-z.-]+)\.([a-z.]{2,6})([/\w .-]*)*/?$", "a", UNFIT),
    (r"^\s+|\s+$|^$", " x", FITS),
    (r"(.*)*!$", "a", UNFIT),
    (r"^(0|[1-9]\d*)*\.$", "1", UNFIT),
    (r"<(\w+)(\s+\w+=\"[^\"]*\")*\s*/?>$", '<a b="', UNFIT),
    (r"^(([^()]*)|(\([^()]*\)))*$", "((", UNFIT),
    (r"^.*(.*)*.*;$", "a", UNFIT),
    (r"^[ab]*a[ab]{200}c$", "ab", UNFIT),
    (r"^(a?){500}a{500}$", "a", UNFIT),
    (r"(.{1,64}){1,64}x", "a", REFUSED),
    (r"^(\w{1,200}){1,200}$", "a!", REFUSED),
    (r"a{100000}", "a", REFUSED),
    (r"^(?=(a+))\1b$", "a", REFUSED),
    (r"^(a+)\1+$", "a!", REFUSED),
    (r"^(?<!a)(a+)+$", "a!", REFUSED),
    (r"^(?!.*(a+)+b).*$", "a", REFUSED),
]


def lengthen(text: str) -> str:
    return text[0] * 50_000 + text[1:]


def of(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], **more}


def defs(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    return of({"$ref": f"#/$defs/{name}"}, **{"$defs": definitions})


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


# ── Schemas ─────────────────────────────────────────────────────────────────────────


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    bombs = {f"d{n}": {keyword: [ref(f"d{n + 1}"), ref(f"d{n + 1}")]} for n in range(levels)}
    return defs("d0", bombs | {f"d{levels}": {"type": "string"}})


def doubling_below(levels: int, *, ring: bool) -> dict[str, Any]:
    """Each level has two ways to say the same about the level below."""
    last = "d0" if ring else "end"
    bombs: dict[str, Any] = {"end": {"type": "string"}}
    for n in range(levels):
        below = ref(f"d{n + 1}" if n + 1 < levels else last)
        bombs[f"d{n}"] = {"properties": {"a": {"anyOf": [below, below]}}, "required": ["a"]}
    return defs("d0", bombs)


def everyone_refers_to_everyone(count: int) -> dict[str, Any]:
    everyone = {"anyOf": [ref(f"d{n}") for n in range(count)]}
    return defs("d0", {f"d{n}": {"properties": {"a": everyone}} for n in range(count)})


def tree(keyword: str) -> dict[str, Any]:
    branches = [{"type": "object", "properties": {"a": ref("t")}, "required": [n]} for n in "abcd"]
    return defs("t", {"t": {keyword: [*branches, {"type": "integer"}]}})


def nested_schema(keyword: str, levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: schema}
    return of(schema)


# ── Values ──────────────────────────────────────────────────────────────────────────


def nested_objects(levels: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(levels):
        value = {"a": value}
    return value


def nested_texts(levels: int) -> Any:
    text = "[]"
    for _ in range(levels):
        text = json.dumps([text])
    return text


def items(schema: dict[str, Any]) -> dict[str, Any]:
    return of({"type": "array", "items": schema})


INTEGER, STRING = {"type": "integer"}, {"type": "string"}
OBJECTS = [{"k": n} for n in range(2000)]
NAMED = [f"parameter_number_{n}" for n in range(1000)]

ROWS: list[Row] = [
    *(
        Row(f"pattern {pattern}", of({"pattern": pattern}), partial(lengthen, text), verdict)
        for pattern, text, verdict in PATTERNS
    ),
    Row("allOf that doubles", doubling("allOf", 40), lambda: 1, REFUSED),
    Row("anyOf that doubles", doubling("anyOf", 40), lambda: 1, REFUSED),
    Row("oneOf that doubles", doubling("oneOf", 40), lambda: 1, REFUSED),
    Row("allOf that doubles a little", doubling("allOf", 10), lambda: 1, UNFIT),
    Row("doubling below", doubling_below(40, ring=False), lambda: nested_objects(60), REFUSED),
    Row("doubling in a ring", doubling_below(24, ring=True), lambda: nested_objects(120), REFUSED),
    Row("all refer to all", everyone_refers_to_everyone(30), lambda: nested_objects(100), REFUSED),
    Row("few refer to all", everyone_refers_to_everyone(5), lambda: nested_objects(100), UNFIT),
    Row("a tree of anyOf", tree("anyOf"), lambda: nested_objects(120, "x"), UNFIT),
    Row("a tree of oneOf", tree("oneOf"), lambda: nested_objects(120, "x"), UNFIT),
    Row("a tree of oneOf to be coerced", tree("oneOf"), lambda: nested_objects(120, "5"), UNFIT),
    Row("a circle", defs("x", {"x": ref("x")}), lambda: 1, FITS),
    Row("two in a circle", defs("x", {"x": ref("y"), "y": ref("x")}), lambda: 1, FITS),
    Row("a circle of alternatives", {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, lambda: 1, FITS),
    Row("a paradox", {"not": {"$ref": "#"}}, lambda: 1, UNFIT),
    Row("not not not", nested_schema("not", 100), lambda: "x", FITS),
    Row("not, deeper", nested_schema("not", 2000), lambda: "x", REFUSED),
    Row("items of items", nested_schema("items", 5000), list, REFUSED),
    Row("a constant that is deep", of({"const": nested_objects(3000)}), lambda: 1, REFUSED),
    Row(
        "a chain",
        defs("d0", {f"d{n}": ref(f"d{n + 1}") for n in range(1500)} | {"d1500": {}}),
        lambda: 1,
        REFUSED,
    ),
    Row(
        "many options",
        items({"enum": [f"v{n}" for n in range(6000)]}),
        lambda: ["v"] * 200_000,
        UNFIT,
    ),
    Row(
        "many options, few items",
        items({"enum": [f"v{n}" for n in range(6000)]}),
        lambda: ["v"] * 50,
        UNFIT,
    ),
    Row("many objects as options", items({"enum": OBJECTS}), lambda: [{"k": -1}] * 50_000, LIMIT),
    Row(
        "many objects as options, few items",
        items({"enum": OBJECTS}),
        lambda: [{"k": -1}] * 50,
        UNFIT,
    ),
    Row(
        "many alternatives",
        items({"oneOf": [{"const": n} for n in range(1500)]}),
        lambda: [-1] * 100_000,
        LIMIT,
    ),
    Row(
        "many alternatives, to be coerced",
        items({"anyOf": [{"type": "object", "required": [f"k{n}"]} for n in range(800)]}),
        lambda: ["{}"] * 100,
        UNFIT,
    ),
    Row(
        "many patterns for names",
        of({"patternProperties": {f"{n}.*b": {} for n in range(1000)}, "maxProperties": 1}),
        lambda: {f"k{n}": 1 for n in range(2000)},
        LIMIT,
    ),
    Row(
        "many patterns for few names",
        of({"patternProperties": {f"{n}.*b": {} for n in range(1000)}, "maxProperties": 1}),
        lambda: {f"k{n}": 1 for n in range(200)},
        UNFIT,
    ),
    Row(
        "many patterns for one text",
        of({"allOf": [{"pattern": f"{n}.*b"} for n in range(1000)]}),
        lambda: "x" * 4_000_000,
        LIMIT,
    ),
    Row("a schema too large", of({"description": "x" * 70_000}), lambda: 1, REFUSED),
    Row("many required names", {"type": "object", "required": NAMED}, lambda: 1, UNFIT),
    Row("a remote schema", of({"$ref": "http://127.0.0.1:9/never"}), lambda: 1, REFUSED),
    Row("a file", of({"$ref": "file:///dev/zero"}), lambda: 1, REFUSED),
    Row(
        "equal items",
        of({"uniqueItems": True}),
        lambda: [[n] for n in range(20_000)] + [[1]],
        UNFIT,
    ),
    Row("values too deep", of({}), lambda: nested_objects(100_000), LIMIT),
    Row("values deep enough", of({}), lambda: nested_objects(126), FITS),
    Row("a million wrong items", items(STRING), lambda: [1] * 1_000_000, UNFIT),
    Row("more than a million items", items(STRING), lambda: [1] * 2_000_000, LIMIT),
    Row("one wrong item of a million", items(INTEGER), lambda: [1] * 1_000_000 + ["x"], UNFIT),
    Row("items to be coerced", items(INTEGER), lambda: ["1"] * 20_000, FITS),
    Row("too many items to be coerced", items(INTEGER), lambda: ["1"] * 500_000, UNFIT),
    Row("floats to be made whole", items(INTEGER), lambda: [1.0] * 100_000, FITS),
    Row(
        "many names",
        of({"type": "object", "additionalProperties": False}),
        lambda: {f"k{n}": 1 for n in range(100_000)},
        UNFIT,
    ),
    Row(
        "many names, and as many missing",
        of({"type": "object", "required": NAMED}),
        lambda: {f"x_{name}s": 1 for name in NAMED},
        UNFIT,
    ),
    Row(
        "a text that is a large array, cut",
        items(INTEGER),
        lambda: "[" + "[]," * 1_000_000,
        UNFIT,
    ),
    Row(
        "long names like each other",
        of({"type": "object", "required": ["x" * 5000]}),
        lambda: {"x" * 4000 + str(n): 1 for n in range(300)},
        UNFIT,
    ),
    Row("a text that is a deep array", of({"type": "array"}), lambda: "[" * 200_000, UNFIT),
    Row(
        "a text that is a deep array, closed",
        of({"type": "array"}),
        lambda: "[" * 20_000 + "]" * 20_000,
        UNFIT,
    ),
    Row("a text that is a large array", items(INTEGER), lambda: json.dumps([1] * 500_000), FITS),
    Row(
        "texts in texts",
        defs("x", {"x": {"type": "array", "items": ref("x")}}),
        lambda: nested_texts(12),
        FITS,
    ),
    Row("an endless number", of(INTEGER), lambda: "9" * 1_000_000, UNFIT),
    Row("an endless exponent", of({"type": "number"}), lambda: "1e" + "9" * 1_000_000, UNFIT),
    Row(
        "an endless text for a boolean",
        of({"type": "boolean"}),
        lambda: " " * 4_000_000 + "true",
        FITS,
    ),
]


def judge(row: Row) -> str:
    """Check, and say the feedback, too: an example is built for it."""
    spec = ToolSpec("tool", row.schema)
    problems = check({"a": row.make()}, spec).problems
    kinds = {problem.kind for problem in problems}
    if not problems:
        return FITS
    assert len(feedback(problems, spec)) < 20_000
    if "definition" in kinds:
        return REFUSED
    return LIMIT if "limit" in kinds else UNFIT


def main() -> None:
    """Write a line for each row as soon as it is judged."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for row in ROWS:
        sys.stdout.write(json.dumps([row.name, judge(row)]) + "\n")
        sys.stdout.flush()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    lines = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, f"after {list(lines)[-1:]}: {done.stderr[-2000:]}"
    return lines


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_hostile_input_ends(row: Row, verdicts: dict[str, str]) -> None:
    assert verdicts[row.name] == row.verdict


def test_there_are_thirty_patterns() -> None:
    assert len(PATTERNS) >= 30


if __name__ == "__main__":
    main()
