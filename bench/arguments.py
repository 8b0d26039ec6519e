"""CPU per call of checking and coercing arguments, against three validators, in one run.

    .venv/bin/python bench/arguments.py            print the table
    .venv/bin/python bench/arguments.py --write    and put it into docs/performance.md

Five tools, from one parameter to twenty with objects in arrays. Everyone has compiled
the schema before; we look ours up by the schema's text at each call, and that is counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Optional

import fastjsonschema
import jsonschema
from pydantic import BaseModel, create_model

from tables import markdown, write_section
from wholecall.arguments.validate import check
from wholecall.messages import ToolSpec

RUNS = 5
SECONDS_A_RUN = 0.05


class Tool(NamedTuple):
    """A tool, a call that fits, and changes that make it need coercion, or fail."""

    name: str
    schema: dict[str, Any]
    fitting: dict[str, Any]
    coercible: dict[str, Any]
    broken: dict[str, Any]


def parameters(required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": required.split()}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
NUMBER, BOOLEAN = {"type": "number"}, {"type": "boolean"}
MAYBE_INTEGER = {"anyOf": [INTEGER, {"type": "null"}], "default": None}


def strings(*names: str) -> dict[str, Any]:
    """Several parameters that are strings."""
    return dict.fromkeys(names, STRING)


ITEM = parameters("sku count price", sku=STRING, count=INTEGER, price=NUMBER, gift=BOOLEAN)
ADDRESS = parameters("street city", **strings("street", "city", "zip", "country"))
ORDER = parameters(
    "customer items address",
    items={"type": "array", "items": {"$ref": "#/$defs/item"}},
    address={"$ref": "#/$defs/address"},
    priority={"type": "integer", "minimum": 1, "maximum": 5},
    discount=NUMBER,
    express=BOOLEAN,
    retries=MAYBE_INTEGER,
    tags={"type": "array", "items": STRING},
    status={"type": "string", "enum": ["draft", "open", "closed"]},
    **strings("customer", "email", "phone", "note", "coupon", "currency", "language"),
    **strings("channel", "source", "campaign", "manager", "reference"),
)
ITEMS = [{"sku": f"A-{n}", "count": n, "price": 9.5, "gift": False} for n in range(1, 5)]

TOOLS = [
    Tool(
        "get_weather: 1 parameter",
        parameters("city", city=STRING),
        {"city": "Paris"},
        {},
        {"city": 5},
    ),
    Tool(
        "search: 3, an enum",
        parameters("query", query=STRING, limit=INTEGER, sort={"enum": ["date", "rank"]}),
        {"query": "tool calls", "limit": 10, "sort": "date"},
        {"limit": "10"},
        {"sort": "size"},
    ),
    Tool(
        "write_file: 2, one of 4 KB",
        parameters("path content", path=STRING, content=STRING, mode=INTEGER),
        {"path": "a.py", "content": "x = 1\n" * 700, "mode": 420},
        {"mode": "420"},
        {"path": None},
    ),
    Tool(
        "create_event: 8, nested",
        parameters(
            "title start",
            **strings("title", "start", "end", "place"),
            guests={"type": "array", "items": STRING},
            reminder=MAYBE_INTEGER,
            repeat=parameters("every", every=INTEGER, unit={"enum": ["day", "week"]}),
            all_day=BOOLEAN,
        ),
        {
            "title": "Review",
            "start": "2026-01-31T10:00",
            "guests": ["ann", "bob"],
            "reminder": 15,
            "repeat": {"every": 2, "unit": "week"},
            "all_day": False,
        },
        {"reminder": "15", "all_day": "false", "repeat": '{"every": "2", "unit": "week"}'},
        {"repeat": {"unit": "year"}},
    ),
    Tool(
        "create_order: 20, objects in arrays",
        {**ORDER, "$defs": {"item": ITEM, "address": ADDRESS}},
        {
            "customer": "Ann",
            "items": ITEMS,
            "address": {"street": "Main 1", "city": "Rome", "zip": "00100"},
            "priority": 2,
            "express": True,
            "tags": ["a", "b"],
            "status": "open",
            **dict.fromkeys(ORDER["required"][:1], "Ann"),
            **{name: "x" for name in ORDER["properties"] if ORDER["properties"][name] is STRING},
        },
        {"priority": "2", "express": "true", "items": [{**item, "count": "3"} for item in ITEMS]},
        {"priority": 9, "status": "lost"},
    ),
]


# ── Peers ───────────────────────────────────────────────────────────────────────────


def make_model(schema: dict[str, Any], definitions: dict[str, Any]) -> type[BaseModel]:
    """The model that a Python programmer would have written for a schema."""
    required = schema["required"]
    fields: dict[str, Any] = {
        name: (read_type(child, definitions), ...)
        if name in required
        else (Optional[read_type(child, definitions)], None)  # noqa: UP045  # the type is a value
        for name, child in schema["properties"].items()
    }
    return create_model("Arguments", **fields)


_PLAIN: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}


def read_type(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """The Python type that a schema of the tools above stands for."""
    if "$ref" in schema:
        return make_model(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        return Optional[read_type(schema["anyOf"][0], definitions)]  # noqa: UP045  # as above
    if schema["type"] == "array":
        return list[read_type(schema["items"], definitions)]  # type: ignore[misc]  # a value, too
    if schema["type"] == "object":
        return make_model(schema, definitions)
    return _PLAIN[schema["type"]]


# ── Measuring ───────────────────────────────────────────────────────────────────────


def cost(run: Callable[[], object]) -> float:
    """Microseconds of CPU a call, the best of several runs."""
    run()
    calls, best = 1, float("inf")
    for _ in range(RUNS):
        spent = 0.0
        while spent < SECONDS_A_RUN:
            begin = time.process_time()
            for _ in range(calls):
                run()
            spent = time.process_time() - begin
            calls = calls * 2 if spent < SECONDS_A_RUN else calls
        best = min(best, spent / calls)
    return best * 1e6


def measure(tool: Tool) -> dict[str, float]:
    """The cost of each way for one tool."""
    spec = ToolSpec("tool", tool.schema)
    coercible, broken = tool.fitting | tool.coercible, tool.fitting | tool.broken
    slow = jsonschema.Draft202012Validator(tool.schema)
    fast = fastjsonschema.compile(tool.schema)
    model = make_model(tool.schema, tool.schema.get("$defs", {}))
    assert check(tool.fitting, spec).value == tool.fitting
    assert bool(check(coercible, spec).coercions) == bool(tool.coercible)
    assert not check(coercible, spec).problems
    assert check(broken, spec).problems
    assert slow.is_valid(tool.fitting)
    return {
        "wholecall": cost(lambda: check(tool.fitting, spec)),
        "jsonschema": cost(lambda: slow.is_valid(tool.fitting)),
        "fastjsonschema": cost(lambda: fast(tool.fitting)),
        "pydantic": cost(lambda: model.model_validate(tool.fitting)),
        "wholecall, coerced": cost(lambda: check(coercible, spec)),
        "wholecall, problems in words": cost(lambda: check(broken, spec)),
        "jsonschema, its errors": cost(lambda: list(slow.iter_errors(broken))),
    }


def report(found: dict[str, dict[str, float]]) -> str:
    """Microseconds, and for the others how many times ours."""
    ways = list(next(iter(found.values())))
    header = ["µs per call", *ways]
    rows = [[name, *(_cell(costs, way) for way in ways)] for name, costs in found.items()]
    return markdown(header, rows)


_COMPARED = {
    "jsonschema": "wholecall",
    "fastjsonschema": "wholecall",
    "pydantic": "wholecall",
    "jsonschema, its errors": "wholecall, problems in words",
}


def _cell(costs: dict[str, float], way: str) -> str:
    if way not in _COMPARED:
        return f"{costs[way]:.1f}"
    return f"{costs[way]:.1f} ({costs[way] / costs[_COMPARED[way]]:.1f} ×)"


def main() -> None:
    """Print the table, and write it where the docs show it."""
    table = report({tool.name: measure(tool) for tool in TOOLS})
    print(table)
    if "--write" in sys.argv:
        write_section("arguments", table)


if __name__ == "__main__":
    main()
