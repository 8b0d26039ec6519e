"""Every problem has its path, its keyword, what was received and what is expected."""

from typing import Any

import pytest
from hypothesis import given

from schema_problems import explain_it, of
from schemas import ARGUMENTS, tool_schemas
from wholecall.arguments.compiled_schema import Compiled, prepare
from wholecall.arguments.schema_cost import Allowance
from wholecall.arguments.validate import PROBLEMS, explain

TAGGED = {
    "oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}},
        {"$ref": "#/$defs/square"},
        {"type": "null"},
    ]
}
SQUARE = {
    "square": {"type": "object", "properties": {"kind": {"enum": ["square"]}, "w": {"minimum": 1}}}
}

# what holds, schema, value, [(path, keyword, received, expected)]
ROWS: list[tuple[str, Any, Any, list[tuple[str, str, str, str]]]] = [
    ("a type", of({"type": "integer"}), {"a": "x"}, [("$.a", "type", '"x"', "an integer")]),
    (
        "a type that is wrong makes other rules moot",
        of({"type": "integer", "minimum": 3, "enum": [3, 4]}),
        {"a": "x"},
        [("$.a", "type", '"x"', "one of 3, 4")],
    ),
    (
        "an option",
        of({"enum": ["x", "y"]}),
        {"a": "z"},
        [("$.a", "enum", '"z"', 'one of "x", "y"')],
    ),
    ("a constant", of({"const": 1}), {"a": 2}, [("$.a", "const", "2", "1")]),
    (
        "limits, all of them",
        of({"minLength": 3, "pattern": "^a"}),
        {"a": "x"},
        [
            ("$.a", "minLength", '"x"', "at least 3 characters long"),
            ("$.a", "pattern", '"x"', 'matching the pattern "^a"'),
        ],
    ),
    ("missing", of({"type": "string"}), {}, [("$.a", "required", "nothing", "a string")]),
    (
        "missing without a description",
        {"required": ["x"]},
        {},
        [("$.x", "required", "nothing", "a value")],
    ),
    (
        "missing because another is there",
        {"dependentRequired": {"a": ["b"], "c": ["d"]}},
        {"a": 1},
        [("$.b", "required", "nothing", "a value")],
    ),
    (
        "several at once, in the order of the schema",
        {"properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "required": ["c"]},
        {"b": 1, "a": 2},
        [
            ("$.c", "required", "nothing", "a value"),
            ("$.a", "type", "2", "null"),
            ("$.b", "type", "1", "null"),
        ],
    ),
    (
        "null for what may be left out",
        {"properties": {"a": {"$ref": "#/$defs/text"}}, "$defs": {"text": {"type": "string"}}},
        {"a": None},
        [("$.a", "type", "null", "a string (or leave it out)")],
    ),
    (
        "inside objects and arrays",
        of({"type": "array", "items": of({"type": "string"})}),
        {"a": [{"a": "x"}, {"a": 1}, {}]},
        [("$.a[1].a", "type", "1", "a string"), ("$.a[2].a", "required", "nothing", "a string")],
    ),
    (
        "an odd name",
        {"properties": {"odd key": {"type": "null"}}, "required": ["odd key"]},
        {"odd key": 1},
        [('$["odd key"]', "type", "1", "null")],
    ),
    (
        "a name that is not allowed",
        {"properties": {"b": {}, "a": {}}, "additionalProperties": False},
        {"x": 1},
        [("$.x", "additionalProperties", "1", 'only "a", "b"')],
    ),
    (
        "no name is allowed",
        {"additionalProperties": False},
        {"x": 1},
        [("$.x", "additionalProperties", "1", "nothing")],
    ),
    (
        "members without a name of their own",
        {
            "properties": {"a": {}},
            "patternProperties": {"^n_": {"type": "number"}},
            "additionalProperties": {"type": "string"},
        },
        {"a": 1, "n_1": 2, "n_2": "x", "b": 3, "c": "x"},
        [
            ("$.n_2", "type", '"x"', "a number"),
            ("$.b", "type", "3", "a string"),
        ],
    ),
    (
        "a name that no part of the schema knows",
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
        {"b": 1},
        [("$.b", "unevaluatedProperties", "1", 'only "a"')],
    ),
    (
        "names of a kind",
        {"propertyNames": {"maxLength": 2}},
        {"abc": 1, "ab": 2},
        [("$.abc", "propertyNames", '"abc"', "a value, at most 2 characters long")],
    ),
    (
        "what another member demands",
        {"dependentSchemas": {"a": {"required": ["b"]}, "x": {"required": ["y"]}}},
        {"a": 1},
        [("$.b", "required", "nothing", "a value")],
    ),
    (
        "places of an array",
        of({"prefixItems": [{"type": "string"}, {"type": "null"}], "items": {"type": "number"}}),
        {"a": ["x", 1, 2, "y"]},
        [("$.a[1]", "type", "1", "null"), ("$.a[3]", "type", '"y"', "a number")],
    ),
    (
        "what an array must contain",
        of({"contains": {"type": "null"}}),
        {"a": [1]},
        [("$.a", "contains", "[1]", "an array in which at least 1 items are null")],
    ),
    (
        "what an array contains beside what it must not be",
        of({"contains": {"type": "null"}, "maxItems": 1}),
        {"a": [None, None]},
        [("$.a", "maxItems", "[null, null]", "an array of at most 1 items")],
    ),
    (
        "how often",
        of({"contains": {"type": "null"}, "minContains": 0, "maxContains": 1}),
        {"a": [None, None]},
        [
            (
                "$.a",
                "contains",
                "[null, null]",
                "an array in which at least 0 and at most 1 items are null",
            )
        ],
    ),
    (
        "a definition",
        {"$ref": "#/$defs/x", "$defs": {"x": of({"type": "null"})}},
        {"a": 1},
        [("$.a", "type", "1", "null")],
    ),
    (
        "a definition behind an anchor",
        {"$ref": "#x", "$defs": {"x": {"$anchor": "x", **of({})}}},
        {},
        [("$.a", "required", "nothing", "a value")],
    ),
    (
        "all of several",
        of({"allOf": [{"minimum": 3}, {"maximum": 9}, {"multipleOf": 2}]}),
        {"a": 1},
        [("$.a", "minimum", "1", "at least 3"), ("$.a", "multipleOf", "1", "a multiple of 2")],
    ),
    (
        "none of several types",
        of({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        {"a": 1},
        [("$.a", "anyOf", "1", "a string or null")],
    ),
    (
        "the one of several that has the type",
        of({"anyOf": [{"minimum": 3, "type": "number"}, {"const": "x"}]}),
        {"a": 1},
        [("$.a", "minimum", "1", "at least 3")],
    ),
    (
        "the one of several that may be a string",
        of({"anyOf": [{"type": "number"}, {"enum": ["x"]}]}),
        {"a": "y"},
        [("$.a", "enum", '"y"', '"x"')],
    ),
    (
        "some of several that have the type",
        of({"anyOf": [{"minimum": 3}, {"maximum": 0}, {"type": "null"}]}),
        {"a": 1},
        [("$.a", "anyOf", "1", "a value, at least 3 or a value, at most 0")],
    ),
    (
        "the one of several that is tagged",
        {**of(TAGGED), "$defs": SQUARE},
        {"a": {"kind": "square", "w": 0}},
        [("$.a.w", "minimum", "0", "at least 1")],
    ),
    (
        "an unknown tag",
        {**of(TAGGED), "$defs": SQUARE},
        {"a": {"kind": "line"}},
        [("$.a", "oneOf", '{"kind": "line"}', "an object or null")],
    ),
    (
        "more than one of one",
        of({"oneOf": [{"minimum": 1}, {"maximum": 9}]}),
        {"a": 5},
        [("$.a", "oneOf", "5", "one alternative only; this fits 2 of them")],
    ),
    (
        "an alternative that fits beside a rule that does not",
        of({"anyOf": [{"type": "integer"}], "oneOf": [{"type": "integer"}], "minimum": 3}),
        {"a": 1},
        [("$.a", "minimum", "1", "at least 3")],
    ),
    (
        "what it must not be",
        of({"not": {"type": "null"}}),
        {"a": None},
        [("$.a", "not", "null", "anything but null")],
    ),
    (
        "what may not be there",
        {"properties": {"a": False}},
        {"a": 1},
        [("$.a", "not", "1", "left out")],
    ),
    (
        "not what it must not be",
        of({"not": {"type": "null"}, "minimum": 3}),
        {"a": 1},
        [("$.a", "minimum", "1", "at least 3")],
    ),
    (
        "a condition that holds",
        of({"if": {"type": "string"}, "then": {"minLength": 2}}),
        {"a": "x"},
        [("$.a", "minLength", '"x"', "at least 2 characters long")],
    ),
    (
        "a condition that does not",
        of({"if": {"type": "string"}, "else": {"type": "null"}}),
        {"a": 1},
        [("$.a", "type", "1", "null")],
    ),
    (
        "a condition without consequence",
        of({"if": {"type": "string"}, "minimum": 3}),
        {"a": 1},
        [("$.a", "minimum", "1", "at least 3")],
    ),
    (
        "a rule without words",
        of({"prefixItems": [{}], "unevaluatedItems": False}),
        {"a": [1, 2]},
        [("$.a", "schema", "[1, 2]", "something that fits the schema of this tool")],
    ),
    (
        "a rule on names without words",
        {"unevaluatedProperties": {"type": "null"}},
        {"a": 1},
        [("$", "schema", '{"a": 1}', "something that fits the schema of this tool")],
    ),
    (
        "a circle",
        {"allOf": [{"$ref": "#"}], "required": ["a"]},
        {},
        [("$.a", "required", "nothing", "a value")],
    ),
    (
        "object rules do not speak about others",
        of({"anyOf": [{"type": "array", "required": ["x"]}], "properties": {"y": {}}}),
        {"a": 1},
        [("$.a", "anyOf", "1", "an array")],
    ),
]


@pytest.mark.parametrize(
    ("schema", "value", "problems"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_a_problem_says_where_and_what(
    schema: Any, value: Any, *, problems: list[tuple[str, str, str, str]]
) -> None:
    found = explain_it(schema, value)

    assert [(p.path, p.kind, p.received, p.expected) for p in found] == problems
    assert all(problem.path in problem.message for problem in found)


PATH = {"properties": {"path": {}}, "required": ["path"]}
NEAR = "was received, and is no parameter): it must be a value"
DRY_RUN = {"properties": {"dry_run": {}}, "additionalProperties": False}

# what holds, schema, value, unknown names, message
MESSAGES: list[tuple[str, Any, Any, tuple[str, ...], str]] = [
    ("received and expected", of({"type": "null"}), {"a": 1}, (), "$.a must be null; received 1"),
    ("missing", of({"type": "null"}), {}, (), "$.a is missing: it must be null"),
    ("a name nearby that is kept", {**PATH, "additionalProperties": True}, {"paht": 1}, (),
     f'$.path is missing ("paht" {NEAR}'),
    ("a name nearby that was dropped", PATH, {}, ("file_path",),
     f'$.path is missing ("file_path" {NEAR}'),
    ("a dropped name has nothing to do with what is inside", of({"required": ["path"]}),
     {"a": {}}, ("file_path",), "$.a.path is missing: it must be a value"),
    ("a name nearby that is known", {**PATH, "properties": {"path": {}, "paht": {}}}, {"paht": 1},
     (), "$.path is missing: it must be a value"),
    ("what a forbidden name may have meant", DRY_RUN, {"dryRun": 1}, (),
     '$.dryRun is not allowed here; did you mean "dry_run"?'),
    ("a forbidden name like one that is there", DRY_RUN, {"dryRun": 1, "dry_run": 1}, (),
     "$.dryRun is not allowed here"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "value", "unknown", "message"),
    [r[1:] for r in MESSAGES],
    ids=[r[0] for r in MESSAGES],
)
def test_a_message_is_a_sentence_that_can_stand_alone(
    schema: Any, value: Any, *, unknown: tuple[str, ...], message: str
) -> None:
    assert [problem.message for problem in explain_it(schema, value, unknown=unknown)] == [message]


@given(tool_schemas(), ARGUMENTS)
def test_what_does_not_fit_has_a_problem_that_says_more_than_that(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    compiled = prepare(schema)
    assert isinstance(compiled, Compiled)
    if not compiled.fits(compiled.root, value):
        problems = explain(compiled, value, allowance=Allowance(compiled.cost))
        assert problems
        assert all(problem.kind != "schema" for problem in problems)


# ── How much is looked into, and how many problems are told ─────────────────────────────


def test_after_many_problems_nobody_reads_on() -> None:
    many = explain_it(of({"items": {"type": "null"}}), {"a": [1] * 1000})
    wide = explain_it({"required": [f"p{number}" for number in range(100)]}, {})

    assert len(many) == len(wide) == PROBLEMS
    assert many[-1].path == f"$.a[{PROBLEMS - 1}]"


def test_for_the_first_few_names_the_ones_that_were_meant_are_sought() -> None:
    names = [f"parameter_{letter * 5}" for letter in "abcdefghijkl"]
    problems = explain_it({"required": names}, {f"{name}s": 1 for name in names})

    guessed = ["was received" in problem.message for problem in problems]
    assert guessed == [True] * 8 + [False] * 4


def test_what_takes_too_long_to_explain_is_reported_as_far_as_it_was_looked_into() -> None:
    schema = of({"$ref": "#"})
    value: dict[str, Any] = {}
    for _ in range(60):
        value = {"a": value}
    heavy: dict[str, Any] = {"a": {"a": {"a": {"b": [1] * 2000}}}}
    for _ in range(10):
        heavy = {"a": heavy}

    [near] = explain_it(schema, heavy)
    [exact] = explain_it(schema, value)

    assert near.path == "$" + ".a" * 4
    assert near.kind == "schema"
    assert exact.path == "$" + ".a" * 61
    assert exact.kind == "required"


def test_many_patterns_for_many_names_are_looked_into_as_far_as_time_allows() -> None:
    patterns: dict[str, Any] = {f"^{n}x": {} for n in range(150)}
    schema = of({"patternProperties": {**patterns, "^k": {"type": "null"}}})
    value = {"a": {f"k{n}": 1 for n in range(200)}}

    [problem] = explain_it(schema, value)

    assert (problem.path, problem.kind) == ("$.a", "schema")
