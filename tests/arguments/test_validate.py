"""Arguments that pass the check fit their tool; tools that pass admission can be checked."""

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import ARGUMENTS, tool_schemas
from wholecall.arguments.coerce import CoercionOptions
from wholecall.arguments.limits import DEFAULT
from wholecall.arguments.schema_cost import WORK
from wholecall.arguments.validate import PROBLEMS, TOOLS, Checked, admit, check, require_admissible
from wholecall.errors import InadmissibleTools
from wholecall.events import Coercion
from wholecall.messages import ToolSpec


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}

# what holds, schema, value, what comes out
FITTING: list[tuple[str, Any, Any, Checked]] = [
    ("arguments that fit", of(a=STRING), {"a": "5"}, Checked({"a": "5"})),
    ("a tool that says nothing", {}, {"a": {"b": 1}}, Checked({"a": {"b": 1}})),
    ("nothing for a tool without parameters", of(), {}, Checked({})),
    ("what nobody described is kept", of(), {"a": 1}, Checked({"a": 1})),
    (
        "a coercion is recorded",
        of(a=INTEGER),
        {"a": "5"},
        Checked({"a": 5}, (Coercion("$.a", "5", 5),)),
    ),
    (
        "a float that is whole",
        of(a=INTEGER, b={"type": "number"}),
        {"a": 5.0, "b": 5.0},
        Checked({"a": 5, "b": 5.0}, (Coercion("$.a", 5.0, 5),)),
    ),
    ("a float where nothing must be whole", of(a={}), {"a": 5.0}, Checked({"a": 5.0})),
    (
        "a parameter that the tool does not have",
        of(a=STRING),
        {"why": "so", "a": "x"},
        Checked({"a": "x"}, dropped=("why",)),
    ),
    (
        "it is dropped before anything is checked",
        of(a=INTEGER),
        {"why": "so", "a": "5"},
        Checked({"a": 5}, (Coercion("$.a", "5", 5),), ("why",)),
    ),
    (
        "a parameter that is allowed",
        {**of(a=STRING), "additionalProperties": True},
        {"why": 1},
        Checked({"why": 1}),
    ),
    (
        "a parameter inside a parameter is not dropped",
        of(a=of(b=STRING)),
        {"a": {"why": 1}},
        Checked({"a": {"why": 1}}),
    ),
    (
        "a parameter of another alternative",
        {"anyOf": [of(a=STRING), of(b=STRING)]},
        {"a": "x", "b": "y", "c": "z"},
        Checked({"a": "x", "b": "y"}, dropped=("c",)),
    ),
    (
        "a misspelling of what is given, too",
        of(path=STRING),
        {"path": "a", "Path": "a"},
        Checked({"path": "a"}, dropped=("Path",)),
    ),
    (
        "OpenAPI's null",
        of(a={"type": "string", "nullable": True}),
        {"a": None},
        Checked({"a": None}),
    ),
    ("OpenAI's strict null", of(a={"type": ["string", "null"]}), {"a": None}, Checked({"a": None})),
    (
        "Gemini's capitals",
        {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}},
        {"a": 1},
        Checked({"a": 1}),
    ),
    ("as deep as allowed", of(a={}), {"a": nested(127)}, Checked({"a": nested(127)})),
    (
        "a text as long as allowed",
        of(a=STRING),
        {"a": "x" * 4_000_000},
        Checked({"a": "x" * 4_000_000}),
    ),
]


@pytest.mark.parametrize(
    ("schema", "value", "checked"), [r[1:] for r in FITTING], ids=[r[0] for r in FITTING]
)
def test_arguments_that_fit_come_out_ready(schema: Any, value: Any, *, checked: Checked) -> None:
    before = copy.deepcopy(value)

    assert repr(check(value, ToolSpec("t", schema))) == repr(checked)
    assert value == before


# what holds, schema, value, [(path, keyword, a part of the message)]
UNFIT: list[tuple[str, Any, Any, list[tuple[str, str, str]]]] = [
    ("a wrong type", of(a=INTEGER), {"a": "x"}, [("$.a", "type", "must be an integer")]),
    (
        "all problems at once",
        {**of(a=INTEGER, b=STRING, c={"enum": [1]}), "required": ["a"]},
        {"b": 1, "c": 2},
        [
            ("$.a", "required", "is missing"),
            ("$.b", "type", "must be a string"),
            ("$.c", "enum", "must be 1"),
        ],
    ),
    (
        "a parameter that is forbidden",
        {**of(path=STRING), "additionalProperties": False},
        {"pth": "a"},
        [("$.pth", "additionalProperties", 'did you mean "path"?')],
    ),
    (
        "a parameter that is missing and one that may be it",
        {**of(path=STRING), "required": ["path"]},
        {"file_path": "a"},
        [("$.path", "required", '"file_path" was received')],
    ),
    (
        "a misspelt parameter, which would change what is run",
        of(path=STRING, dry_run=BOOLEAN),
        {"path": "a", "dryRun": True},
        [("$.dryRun", "unknown_parameter", 'did you mean "dry_run"?')],
    ),
    (
        "a misspelt parameter that is required is told once",
        {**of(path=STRING, dry_run=BOOLEAN), "required": ["path"]},
        {"Path": "a", "dryRun": True},
        [
            ("$.path", "required", '"Path" was received'),
            ("$.dryRun", "unknown_parameter", 'did you mean "dry_run"?'),
        ],
    ),
    (
        "what remains after dropping must fit",
        {**of(a=STRING), "minProperties": 1},
        {"xyz": 1},
        [("$", "minProperties", "at least 1 members")],
    ),
    (
        "a broken definition: unchecked arguments never run",
        of(a={"pattern": "(?=x)"}),
        {"a": "x"},
        [("$", "definition", "tool 't' cannot be called")],
    ),
    ("too deep", of(a={}), {"a": nested(128)}, [("$", "limit", "at most 128 levels")]),
    (
        "too many unknown parameters",
        of(a={}),
        {f"p{n}": n for n in range(1001)},
        [("$", "limit", "more than 1000 parameters")],
    ),
    (
        "too deep after a text was read",
        of(a={"type": "array"}),
        {"a": "[" * 128 + "]" * 128},
        [("$.a", "type", "must be an array")],
    ),
    (
        "too many values for so many rules",
        of(a={"items": {"anyOf": [{"type": "null"} for n in range(999)]}}),
        {"a": [0] * (WORK // 1000)},
        [("$", "limit", "too large to be checked")],
    ),
    (
        "too long a text for so many rules",
        of(a={"anyOf": [{"pattern": f"x{n}"} for n in range(100)]}),
        {"a": "x" * (WORK // 100 * 11)},
        [("$", "limit", "too large to be checked")],
    ),
    (
        "too many values",
        of(a={}),
        {"a": [0] * DEFAULT.values},
        [("$", "limit", f"at most {DEFAULT.values} values")],
    ),
    (
        "too many values after a text was read",
        of(a={"items": {"type": "array"}}),
        {"a": [[0] * 50_000, json.dumps([0] * 50_000)]},
        [("$.a[1]", "type", "must be an array")],
    ),
    ("half a surrogate pair", of(a={"pattern": "^a"}), {"a": "a\ud800"}, [("$.a", "pattern", "a")]),
]


@pytest.mark.parametrize(
    ("schema", "value", "problems"), [r[1:] for r in UNFIT], ids=[r[0] for r in UNFIT]
)
def test_arguments_that_do_not_fit_say_why(
    schema: Any, value: Any, *, problems: list[tuple[str, str, str]]
) -> None:
    found = check(value, ToolSpec("t", schema)).problems

    assert [(problem.path, problem.kind) for problem in found] == [row[:2] for row in problems]
    for problem, (_, _, part) in zip(found, problems, strict=True):
        assert part in problem.message
        assert len(problem.received) <= 200


def test_of_very_many_misspelt_parameters_some_are_told() -> None:
    names = [f"parameter_{number}" for number in range(200)]
    spec = ToolSpec("t", of(**dict.fromkeys(names, STRING)))

    assert len(check({name.upper(): "x" for name in names}, spec).problems) == PROBLEMS


def test_options_reach_the_coercion() -> None:
    spec = ToolSpec("t", of(a={"type": "array", "items": INTEGER}))

    assert check({"a": 5}, spec).problems
    assert check({"a": 5}, spec, options=CoercionOptions(wrap_single=True)).value == {"a": [5]}


@given(tool_schemas(), ARGUMENTS)
def test_what_passes_fits_by_another_validator(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    checked = check(value, ToolSpec("t", schema))
    fits = jsonschema.Draft202012Validator(schema).is_valid(checked.value)

    assert fits or checked.problems
    if fits:
        assert all(problem.kind == "unknown_parameter" for problem in checked.problems)


@given(tool_schemas(), ARGUMENTS)
def test_what_fits_is_not_changed_but_for_what_is_dropped(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    checked = check(value, ToolSpec("t", schema))
    kept = {name: member for name, member in value.items() if name not in checked.dropped}

    if jsonschema.Draft202012Validator(schema).is_valid(kept):
        assert checked.value == kept


@given(schema=tool_schemas(), value=ARGUMENTS, guess=st.booleans())
def test_a_check_of_what_was_checked_finds_nothing_new(
    schema: dict[str, Any], value: dict[str, Any], *, guess: bool
) -> None:
    spec, options = ToolSpec("t", schema), CoercionOptions(wrap_single=guess, enum_case=guess)
    first = check(value, spec, options=options)
    second = check(first.value, spec, options=options)

    assert second.coercions == ()
    assert second.dropped == ()
    assert bool(second.problems) == bool(
        [problem for problem in first.problems if problem.kind != "unknown_parameter"]
    )


# ── Admission ───────────────────────────────────────────────────────────────────────

GOOD = {"type": "function", "function": {"name": "good", "parameters": of(a=STRING)}}


@pytest.mark.parametrize(
    "tools",
    [
        [],
        [GOOD],
        [ToolSpec("a.b-c_D1"), {"name": "x" * 128, "input_schema": {"type": "object"}}],
        [{"type": "web_search"}, {"functionDeclarations": [{"name": "a"}, {"name": "b"}]}],
        [ToolSpec(f"t{number}") for number in range(TOOLS)],
    ],
    ids=["none", "one", "names", "a provider's own, and many in one", "as many as allowed"],
)
def test_good_tools_are_admitted(tools: list[Any]) -> None:
    assert admit(tools) == ()
    require_admissible(tools)


# what holds, tools, [(path, kind, a part of the message)]
REFUSED: list[tuple[str, list[Any], list[tuple[str, str, str]]]] = [
    ("a name with a blank", [ToolSpec("a b")], [("$[0].name", "name", 'tool "a b"')]),
    ("no name", [ToolSpec("")], [("$[0].name", "name", "1 to 128 letters")]),
    ("a name that is too long", [ToolSpec("x" * 129)], [("$[0].name", "name", "x" * 129)]),
    ("a name that ends in a line", [ToolSpec("a\n")], [("$[0].name", "name", "another name")]),
    (
        "a name twice",
        [GOOD, GOOD],
        [("$[1].name", "duplicate_name", 'tool "good" is offered twice')],
    ),
    (
        "a broken schema",
        [GOOD, ToolSpec("bad", of(a={"type": "strange"}))],
        [("$[1].parameters.properties.a.type", "anyOf", 'tool "bad": the schema is not valid')],
    ),
    (
        "a schema that must be fetched",
        [ToolSpec("bad", {"$ref": "https://example.com/a"})],
        [('$[0].parameters["$ref"]', "$ref", '(at $["$ref"] of its schema)')],
    ),
    (
        "a schema that is too large",
        [ToolSpec("bad", {"title": "x" * 70_000})],
        [("$[0].parameters", "limit", "at most 65536")],
    ),
    (
        "a schema of something else than an object",
        [ToolSpec("bad", {"type": "array"})],
        [("$[0].parameters.type", "type", "must describe an object")],
    ),
    ("no definition", [5], [("$[0]", "tool", "tools[0] is 5: write a ToolSpec")]),
    ("a function that is none", [{"function": 5}], [("$[0].function", "tool", "function is 5")]),
    ("a name that is none", [{"name": 5}], [("$[0].name", "tool", "tools[0].name is 5")]),
    ("a name that cannot be one", [{"name": []}], [("$[0].name", "tool", "name is []")]),
    (
        "a schema that is none",
        [GOOD, ToolSpec("t", 5)],  # type: ignore[arg-type]
        [("$[1].parameters", "tool", "tools[1].parameters is 5: write a JSON Schema")],
    ),
    (
        "a name of a spec that is none",
        [ToolSpec([])],  # type: ignore[arg-type]
        [("$[0].name", "tool", "tools[0].name is []")],
    ),
    ("too many", [ToolSpec(f"t{n}") for n in range(1025)], [("$", "limit", "at most 1024 tools")]),
    (
        "every problem of every tool",
        [ToolSpec("a b", {"type": "array"}), 5, ToolSpec("c d")],
        [
            ("$[0].name", "name", "a b"),
            ("$[0].parameters.type", "type", "a b"),
            ("$[1]", "tool", "tools[1] is 5"),
            ("$[2].name", "name", "c d"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("tools", "problems"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_bad_tools_are_refused_by_name(
    tools: list[Any], problems: list[tuple[str, str, str]]
) -> None:
    found = admit(tools)

    assert [(problem.path, problem.kind) for problem in found] == [row[:2] for row in problems]
    for problem, (_, _, part) in zip(found, problems, strict=True):
        assert part in problem.message
    with pytest.raises(InadmissibleTools, match=re.escape(found[0].message)) as raised:
        require_admissible(tools)
    assert raised.value.problems == found


def test_unknown_parameters_can_be_kept() -> None:
    spec = ToolSpec("f", {"type": "object", "properties": {"a": {"type": "integer"}}})
    kept = check({"a": "1", "b": 2}, spec, options=CoercionOptions(keep_unknown=True))
    assert (kept.value, kept.dropped, kept.problems) == ({"a": 1, "b": 2}, (), ())


def test_a_misspelt_parameter_is_not_kept() -> None:
    spec = ToolSpec("f", {"type": "object", "properties": {"dry_run": {}, "path": {}}})
    options = CoercionOptions(keep_unknown=True)
    read = check({"path": "a", "dry_ru": True}, spec, options=options)
    assert [problem.path for problem in read.problems] == ["$.dry_ru"]
