"""From the arguments of a call as they came to arguments that a tool may run with."""

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest

from wholecall.arguments.argument_reader import Arguments, RefusedArguments, read_arguments
from wholecall.arguments.coerce import CoercionOptions
from wholecall.arguments.limits import Limits
from wholecall.arguments.parse import Parsed, Unparsed, parse
from wholecall.events import Coercion, Reason, Repair
from wholecall.messages import ToolSpec


def tool(*required: str, **properties: Any) -> ToolSpec:
    """A tool with parameters; a word for a parameter is its type."""
    schemas = {
        name: {"type": schema} if isinstance(schema, str) else schema
        for name, schema in properties.items()
    }
    return ToolSpec("exec", {"type": "object", "properties": schemas, "required": list(required)})


PATH = tool("path", path="string")
COMMAND = tool("command", command="string", name={"type": "string"})
NOTHING = tool()
ANYTHING = ToolSpec("exec")
OPTIONAL = tool(path="string")
FREE = ToolSpec("exec", {"properties": {}, "additionalProperties": {"type": "string"}})
CLOSED = ToolSpec("exec", {**PATH.parameters, "additionalProperties": False})


# what holds, the arguments as they came, the tool, the arguments read, the kinds of repair
READ: list[tuple[str, str | Mapping[str, Any], ToolSpec | None, dict[str, Any], list[str]]] = [
    ("a text", '{"path": "a"}', PATH, {"path": "a"}, []),
    ("a text without a tool", '{"x": [1]}', None, {"x": [1]}, []),
    ("a tool that takes anything", '{"x": [1]}', ANYTHING, {"x": [1]}, []),
    # https://github.com/NousResearch/hermes-agent/pull/1440
    ("an object", {"path": "a"}, PATH, {"path": "a"}, []),
    ("an object of another make", MappingProxyType({"path": "a"}), PATH, {"path": "a"}, []),
    ("half a pair in an object", {"path": "\ud800"}, PATH, {"path": "\ufffd"}, ["lone_surrogate"]),
    # https://github.com/simonw/llm/pull/1164
    ("nothing, where nothing is needed", "", NOTHING, {}, []),
    ("white space, where nothing is needed", " \n", NOTHING, {}, []),
    # https://github.com/vercel/ai/pull/4755
    ("null, where nothing is taken", "null", NOTHING, {}, ["empty_arguments"]),
    ("a word for it", "None", NOTHING, {}, ["python_literal", "empty_arguments"]),
    ("an empty array, where nothing is taken", "[]", NOTHING, {}, ["empty_arguments"]),
    ("an empty string, where nothing is taken", '""', NOTHING, {}, ["empty_arguments"]),
    # https://github.com/openclaw/openclaw/pull/115536
    ("a pair of escapes", '{"path":"hi \\ud83d\\ude00!"}', PATH, {"path": "hi 😀!"}, []),
    ("half a pair", '{"path":"\\ud83d"}', PATH, {"path": "\ufffd"}, ["lone_surrogate"]),
    # https://github.com/langchain-ai/deepagents/issues/2956
    ("entities are text", '{"path": "a &amp;&amp; b"}', PATH, {"path": "a &amp;&amp; b"}, []),
    # https://github.com/NousResearch/hermes-agent/pull/79333
    ("a fence", '```json\n{"path": "a"}\n```', PATH, {"path": "a"}, ["strip_fence"]),
    ("a repair, and half a pair", "{'path': '\\ud83d'}", PATH, {"path": "\ufffd"},
     ["python_literal", "lone_surrogate"]),
    # https://github.com/oracle/langchain-oracle/issues/52
    # https://github.com/vllm-project/vllm/issues/35266
    ("nothing without a name", '{"path": "a", "": ""}', PATH, {"path": "a"}, []),
    ("a name of no letters", '{"": 3}', tool(**{"": "integer"}), {"": 3}, []),
    ("a lost brace", '"path": "a"}', PATH, {"path": "a"}, ["restore_head"]),
    ("a lost brace and quote", 'path": "a"}', PATH, {"path": "a"}, ["restore_head"]),
    ("an object in a string", '"{\\"path\\": \\"a\\"}"', PATH, {"path": "a"}, ["double_decode"]),
    ("an empty object in a string", '"{}"', NOTHING, {}, ["double_decode"]),
    ("an object that lost the quotes around it", '{\\"path\\": \\"a\\"}', PATH, {"path": "a"},
     ["double_decode"]),
    ("Python in a string", '"{\'path\': \'a\'}"', PATH, {"path": "a"},
     ["double_decode", "python_literal"]),
    ("a string in Python's quotes", "'{\"path\": \"a\"}'", PATH, {"path": "a"},
     ["python_literal", "double_decode"]),
    # https://github.com/vllm-project/vllm/pull/41531
    ("all parameters in one, as text", '{"arguments": "{\\"command\\":\\"echo hello\\"}"}', COMMAND,
     {"command": "echo hello"}, ["unwrap_arguments"]),
    ("all parameters in one", '{"input": {"command": "ls"}}', COMMAND, {"command": "ls"},
     ["unwrap_arguments"]),
    ("all parameters in one, where none is required", '{"args": {"path": "a"}}', OPTIONAL,
     {"path": "a"}, ["unwrap_arguments"]),
    ("all parameters in one, where no other is allowed", '{"parameters": {"path": "a"}}', CLOSED,
     {"path": "a"}, ["unwrap_arguments"]),
    ("all parameters in one, where none is described", '{"args": {"path": "a"}}',
     ToolSpec("exec", {"properties": None, "required": ["path"]}), {"path": "a"},
     ["unwrap_arguments"]),
    ("all parameters under the word of the schema", '{"properties": {"command": "ls"}}', COMMAND,
     {"command": "ls"}, ["unwrap_arguments"]),
    ("all parameters in one, as Python writes them", '{"args": "{\'command\': \'ls\'}"}', COMMAND,
     {"command": "ls"}, ["unwrap_arguments", "python_literal"]),
    ("no parameters in one", '{"arguments": {}}', OPTIONAL, {}, ["unwrap_arguments"]),
    ("half a pair in the one", '{"arguments": "{\\"path\\": \\"\\\\ud800\\"}"}', PATH,
     {"path": "\ufffd"}, ["unwrap_arguments", "lone_surrogate"]),
    ("the whole call in its arguments", '{"name": "exec", "arguments": {"path": "a"}}', PATH,
     {"path": "a"}, ["unwrap_arguments"]),
    # https://github.com/ollama/ollama/issues/11805
    ("the whole call in its arguments, where the tool has a name to be given",
     '{"name": "exec", "arguments": {"name": "a"}}', tool("name", name="string"), {"name": "a"},
     ["unwrap_arguments"]),
    ("the same of a name that is not required", '{"name": "exec", "arguments": {"command": "ls"}}',
     COMMAND, {"command": "ls"}, ["unwrap_arguments"]),
    ("the whole call under another word", '{"tool": "exec", "args": {"path": "a"}}', PATH,
     {"path": "a"}, ["unwrap_arguments"]),
    ("the same parameters in one and beside it", '{"path": "a", "args": {"path": "a"}}', PATH,
     {"path": "a"}, []),
    ("others in one", '{"path": "a", "args": {"x": 1}}', PATH, {"path": "a"}, []),
    ("no object beside them", '{"path": "a", "args": "{"}', PATH, {"path": "a"}, []),
    ("a fence around all in one", '```\n{"kwargs": {"path": "a"}}\n```', PATH, {"path": "a"},
     ["strip_fence", "unwrap_arguments"]),
    # https://github.com/AstrBotDevs/AstrBot/pull/10076
    ("the tool has such a parameter", '{"arguments": {"a": 1}}',
     tool("arguments", arguments="object"), {"arguments": {"a": 1}}, []),
    ("a tool that takes anything takes this", '{"arguments": {"a": 1}}', ANYTHING,
     {"arguments": {"a": 1}}, []),
    ("as long as the limit", '{"path": "' + "x" * 88 + '"}', PATH, {"path": "x" * 88}, []),
    ("an object as long as the limit", {"path": "é" * 88}, PATH, {"path": "é" * 88}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "spec", "value", "kinds"), [r[1:] for r in READ], ids=[r[0] for r in READ]
)
def test_arguments_that_fit_are_read(
    raw: str | Mapping[str, Any], spec: ToolSpec | None, *, value: dict[str, Any], kinds: list[str]
) -> None:
    read = read_arguments(raw, spec, whole=True, limits=Limits(characters=100))

    assert isinstance(read, Arguments), read
    assert read.value == value
    assert [repair.kind for repair in read.repairs] == kinds


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


# what holds, the arguments as they came, the tool, the reason, words of the detail
REFUSED: list[tuple[str, str | Mapping[str, Any], ToolSpec | None, Reason, str]] = [
    ("a parameter without a name", '{"path": "a", "": 3}', PATH, Reason.BAD_MARKUP, "has no name"),
    ("a cut text", '{"path": "a', PATH, Reason.TRUNCATED,
     "cut off after 11 characters: it ends inside a string"),
    # https://github.com/BerriAI/litellm/pull/22503
    ("a missing brace", '{"path": "a"', PATH, Reason.TRUNCATED, "cut off after 12 characters"),
    ("a broken text", '{"path" "a"}', PATH, Reason.BAD_JSON,
     """not valid JSON: expected ':' at character 9, found '"a"}'"""),
    # https://github.com/BaseIntelligence/bounty-challenge/issues/49580
    ("no JSON", "file_path=foo", PATH, Reason.BAD_JSON, "at character 1, found 'file_path=foo'"),
    # https://github.com/run-llama/llama_index/issues/11921
    ("an assignment", 'query = """a\nb"""', PATH, Reason.BAD_JSON, "character 1, found 'query ="),
    # https://github.com/sgl-project/sglang/pull/36339
    ("bytes missing in the middle", '{"steps": [{"d": "tune it"medium", "m": 5}]}', None,
     Reason.BAD_JSON, "expected ',' or '}'"),
    # https://github.com/vllm-project/vllm/pull/34887
    ("the head missing", 'code": "uptime"}', None, Reason.BAD_JSON, "expected a value"),
    ("the head missing, and maybe more", 'command": "ls"}', COMMAND,
     Reason.BAD_JSON, "expected a value"),
    ("the head missing, and another name", 'file": "a"}', OPTIONAL,
     Reason.BAD_JSON, "expected a value"),
    ("more than the head missing", 'ath": "a"}', PATH, Reason.BAD_JSON, "expected a value"),
    ("the head of an object inside missing", 'path": "a"}}', PATH,
     Reason.BAD_JSON, "expected a value"),
    ("the head missing, of nobody's schema", 'x": "a"}', ANYTHING,
     Reason.BAD_JSON, "expected a value"),
    ("the head missing, of a file", f'path": "{"a" * 70_000}"}}', PATH,
     Reason.BAD_JSON, "expected a value"),
    # https://github.com/GeniePod/genie-claw/pull/469
    ("an expression", '{"seconds": 60*60*12}', None, Reason.BAD_JSON, "found '*60*12}'"),
    # https://github.com/modelcontextprotocol/python-sdk/issues/3385
    ("NaN", '{"scale": NaN}', None, Reason.BAD_JSON, "found 'NaN}'"),
    ("NaN in an object", {"scale": float("nan")}, None, Reason.BAD_JSON, "found 'NaN}'"),
    # https://github.com/NousResearch/hermes-agent/pull/68612
    ("thousands of digits", '{"n": ' + "9" * 5000 + "}", None, Reason.BAD_JSON, "640 digits"),
    ("too many digits in an object", {"n": 10**700}, None, Reason.BAD_JSON, "640 digits"),
    ("bytes in an object", {"n": b"x"}, None, Reason.BAD_JSON, "hold: bytes is no JSON value"),
    ("a date in an object", {"n": [date(2026, 1, 1)]}, None, Reason.BAD_JSON, "date is no JSON"),
    ("a Decimal in an object", {"n": Decimal(1)}, None, Reason.BAD_JSON, "Decimal is no JSON"),
    ("a set of pairs in an object", {"n": {("a", 1)}}, None, Reason.BAD_JSON, "set is no JSON"),
    ("a key that is no text", {("a", 1): 1}, None, Reason.BAD_JSON, "not tuple"),  # type: ignore[dict-item]
    ("thousands of digits in an object", {"n": 10**5000}, None, Reason.BAD_JSON, "too many digits"),
    ("thousands of digits in Python", "{'n': " + "9" * 5000 + "}", None, Reason.BAD_JSON, "640"),
    ("too many", f'{{"a": [{"1," * 65_000}1]}}', None, Reason.LIMIT, "more than 65000 values"),
    ("too many arrays", f'{{"a": [{"[]," * 25_000}1]}}', None, Reason.LIMIT, "25000 objects"),
    ("too deep", "[" * 1000, None, Reason.LIMIT, "nested more than 128 deep"),
    ("too deep after repair", "{'a': " + "[" * 128 + "]" * 128 + "}", None, Reason.LIMIT,
     "128 deep"),
    ("an object that is too deep", deep(129), None, Reason.LIMIT, "nested more than 128 deep"),
    ("a list that is too deep", {"a": [[[deep(126)]]]}, None, Reason.LIMIT, "more than 128 deep"),
    # https://github.com/vllm-project/vllm/pull/54964
    ("a string that only looks like an object", '"{hello world}"', PATH, Reason.NOT_OBJECT,
     "not a string"),
    ("a string", '"a.txt"', PATH, Reason.NOT_OBJECT, "one JSON object, not a string"),
    ("an empty string", '""', OPTIONAL, Reason.NOT_OBJECT, "not a string"),
    ("an empty array", "[]", OPTIONAL, Reason.NOT_OBJECT, "not an array"),
    ("an array where nothing is taken", "[1]", NOTHING, Reason.NOT_OBJECT, "not an array"),
    ("null where nothing is said", "null", ANYTHING, Reason.NOT_OBJECT, "not null"),
    ("null where any name is taken", "null", FREE, Reason.NOT_OBJECT, "not null"),
    ("a string with a cut object", '"{\\"path\\": \\"a\\""', PATH, Reason.NOT_OBJECT,
     "not a string"),
    ("an object encoded three times", json.dumps(json.dumps('{"path": "a"}')), PATH,
     Reason.NOT_OBJECT, "not a string"),
    ("an array", '[{"path": "a"}]', PATH, Reason.NOT_OBJECT, "not an array"),
    ("an array in a string", '"[1]"', PATH, Reason.NOT_OBJECT, "not a string"),
    ("a number", "5", PATH, Reason.NOT_OBJECT, "not a number"),
    ("a fraction", "5.5", PATH, Reason.NOT_OBJECT, "not a number"),
    ("a boolean", "true", PATH, Reason.NOT_OBJECT, "not a boolean"),
    ("null", "null", OPTIONAL, Reason.NOT_OBJECT, "not null"),
    ("a key twice", '{"path": "a", "path": "b"}', PATH, Reason.SCHEMA, "$.path more than once"),
    ("a key twice, without a tool", '{"a": 1, "a": 1}', None, Reason.SCHEMA, "$.a"),
    ("a key twice in a string", '"{\\"path\\": 1, \\"path\\": 2}"', PATH, Reason.SCHEMA, "$.path"),
    ("many keys twice", json.dumps({f"k{n}": 0 for n in range(1000)})[:-1] + ", "
     + json.dumps({f"k{n}": 0 for n in range(1000)})[1:], None, Reason.SCHEMA,
     "$.k6, $.k7 and 24 others more than once"),
    ("a key twice in Python", "{'a': 1, 'a': 2}", None, Reason.SCHEMA, "$.a"),
    # https://github.com/livekit/agents/pull/5846
    ("a parameter missing", "{}", PATH, Reason.SCHEMA, "do not fit the schema"),
    ("nothing, where something is needed", "", PATH, Reason.SCHEMA, "do not fit the schema"),
    # https://github.com/livekit/agents/pull/2500
    ("a parameter by another name", '{"file_path": "a"}', PATH, Reason.SCHEMA, "path"),
    # https://github.com/leohenon/pi-anthropic-oauth/pull/12
    ("a string that swallowed the rest", '{"oldText": "a\\",\\"path\\":\\"f.ts\\"}]"}', CLOSED,
     Reason.SCHEMA, "(and 1 more)"),
    # https://github.com/Avick3110/houseCARL/pull/39
    ("a string that only begins like an array", '{"plugins": "[Bracketed Name.esp"}',
     tool("plugins", plugins={"type": "array", "items": {"type": "string"}}), Reason.SCHEMA, "fit"),
    ("what is inside does not fit either", '{"arguments": {"file": "a"}}', PATH, Reason.SCHEMA,
     "fit"),
    ("two parameters are no wrapper", '{"arguments": {"path": "a"}, "x": 1}', PATH, Reason.SCHEMA,
     "fit"),
    ("another tool's call", '{"name": "other", "arguments": {"path": "a"}}', PATH, Reason.SCHEMA,
     "fit"),
    ("parameters in one and beside it", '{"command": "ls", "args": {"command": "pwd"}}', COMMAND,
     Reason.AMBIGUOUS, "beside"),
    ("a parameter in one that is not beside it", '{"command": "ls", "args": {"name": "a"}}',
     COMMAND, Reason.AMBIGUOUS, "beside"),
    ("a label that may be a parameter", '{"name": "exec", "arguments": {"x": 1}}',
     tool("name", name="string"), Reason.AMBIGUOUS, "beside"),
    ("a word that is no wrapper", '{"file": {"path": "a"}}', PATH, Reason.SCHEMA, "fit"),
    ("a wrapper that the tool knows", '{"input": {"path": "a"}}',
     tool("path", path="string", input="object"), Reason.SCHEMA, "fit"),
    ("a wrapper that the tool knows by reference", '{"input": {"path": "a"}}',
     ToolSpec("exec", {"$ref": "#/$defs/all", "$defs": {"all": tool("path", path="string",
      input="object").parameters}}), Reason.SCHEMA, "fit"),
    ("a wrapper for a tool whose definition is broken", '{"input": {"path": "a"}}',
     ToolSpec("exec", {"properties": 5}), Reason.SCHEMA, "its definition is broken"),
    ("a wrapper around a cut object", '{"arguments": "{\\"path\\": \\"a"}', PATH, Reason.SCHEMA,
     "fit"),
    ("a wrapper around a key twice", '{"arguments": "{\\"path\\":\\"a\\",\\"path\\":\\"b\\"}"}',
     PATH, Reason.SCHEMA, "fit"),
    ("a wrapper around no object", '{"arguments": ["a"]}', PATH, Reason.SCHEMA, "fit"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "spec", "reason", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_arguments_that_cannot_be_trusted_are_refused_with_a_reason(
    raw: str | Mapping[str, Any], spec: ToolSpec | None, *, reason: Reason, words: str
) -> None:
    refused = read_arguments(raw, spec, whole=True)

    assert isinstance(refused, RefusedArguments), refused
    assert refused.reason is reason
    assert words in refused.detail
    assert bool(refused.problems) is (reason is Reason.SCHEMA)


# what holds, the arguments as they came, the reason
NOT_WHOLE = [
    ("no syntax is repaired", '{"path": "a",}', Reason.BAD_JSON),
    ("nothing is dropped", '{"path": "a"} trailing text', Reason.BAD_JSON),
    ("no string is opened", '"{\\"path\\": \\"a\\"}"', Reason.NOT_OBJECT),
    ("a cut text is cut", '{"path": "a"', Reason.TRUNCATED),
]


@pytest.mark.parametrize(
    ("raw", "reason"), [r[1:] for r in NOT_WHOLE], ids=[r[0] for r in NOT_WHOLE]
)
def test_only_a_text_known_to_be_whole_is_repaired(raw: str, reason: Reason) -> None:
    refused = read_arguments(raw, PATH, whole=False)

    assert isinstance(refused, RefusedArguments)
    assert refused.reason is reason


def test_longer_than_the_limit_is_refused() -> None:
    text = '{"path": "' + "x" * 89 + '"}'
    for raw in (text, json.loads(text)):
        refused = read_arguments(raw, PATH, whole=True, limits=Limits(characters=100))

        assert refused == RefusedArguments(
            Reason.LIMIT, "the arguments have more than 100 characters"
        )


def test_as_deep_as_the_limit_is_read() -> None:
    for raw in (deep(128), json.dumps(deep(128))):
        assert read_arguments(raw, None, whole=True) == Arguments(deep(128))


def test_each_key_given_twice_is_a_problem_with_its_path() -> None:
    refused = read_arguments('{"a": {"b": 1, "b": 2}, "c": 1, "c": 2}', None, whole=True)

    assert isinstance(refused, RefusedArguments)
    found = [(problem.path, problem.kind) for problem in refused.problems]
    assert found == [("$.c", "duplicate_key"), ("$.a.b", "duplicate_key")]


def test_a_value_that_is_parsed_already_is_not_parsed_again() -> None:
    parsed = Parsed({"path": "a"}, (Repair("lone_surrogate", "x", "y"),))

    read = read_arguments(parsed, PATH, whole=True)

    assert read == Arguments({"path": "a"}, parsed.changes)


def test_what_the_schema_asks_for_is_done_and_recorded() -> None:
    spec = tool("days", days="integer")

    read = read_arguments('{"days": "5", "unit": "x"}', spec, whole=True)

    assert read == Arguments({"days": 5}, (), (Coercion("$.days", "5", 5),), ("unit",))


def test_options_reach_the_coercion() -> None:
    spec = tool("days", days={"type": "array", "items": {"type": "integer"}})
    options = CoercionOptions(wrap_single=True)

    for text in ('{"days": 5}', '{"args": {"days": 5}}'):
        read = read_arguments(text, spec, whole=True, options=options)

        assert isinstance(read, Arguments)
        assert read.value == {"days": [5]}


def test_what_is_inside_a_wrapper_is_coerced_and_cleared_of_extras_too() -> None:
    spec = tool("days", days="integer")

    read = read_arguments('{"args": {"days": "5", "unit": "x"}}', spec, whole=True)

    assert isinstance(read, Arguments)
    assert (read.value, read.coercions) == ({"days": 5}, (Coercion("$.days", "5", 5),))
    assert read.dropped == ("unit",)


def test_a_wrapper_of_which_nothing_is_left_is_an_extra_parameter_itself() -> None:
    read = read_arguments('{"path": "a", "input": {"unit": "x"}}', OPTIONAL, whole=True)

    assert read == Arguments({"path": "a"}, dropped=("input",))


@pytest.mark.parametrize("spec", [OPTIONAL, NOTHING])
def test_the_definition_of_a_tool_is_no_call_of_it(spec: ToolSpec) -> None:
    # https://github.com/zeroclaw-labs/zeroclaw/pull/9477
    read = read_arguments(dict(spec.parameters), spec, whole=True)

    assert isinstance(read, RefusedArguments)
    assert "definition of the tool" in read.detail


def test_another_definition_is_a_value_like_any_other() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"path": {}}}
    assert read_arguments(schema, ANYTHING, whole=True) == Arguments(schema)


def test_a_tool_may_take_a_definition() -> None:
    spec = tool(type="string", properties="object")
    read = read_arguments('{"type": "object", "properties": {"path": {}}}', spec, whole=True)

    assert read == Arguments({"type": "object", "properties": {"path": {}}})


def test_arguments_of_which_nothing_is_left_were_not_meant_for_the_tool() -> None:
    read = read_arguments('{"file": "a", "unit": 5}', OPTIONAL, whole=True)

    assert isinstance(read, RefusedArguments)
    assert [(each.path, each.expected) for each in read.problems] == [
        ("$.file", 'only "path"'),
        ("$.unit", 'only "path"'),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"arguments": {"city": "Oslo"}}', {"city": "Oslo"}),
        ('{"arguments": {"other": 1}}', {"arguments": {"other": 1}}),
        ('{"city": "Oslo", "other": 1}', {"city": "Oslo", "other": 1}),
    ],
)
def test_where_unknown_parameters_are_kept_a_wrapper_is_still_opened(
    text: str, value: dict[str, Any]
) -> None:
    spec = ToolSpec("weather", {"type": "object", "properties": {"city": {"type": "string"}}})
    read = read_arguments(text, spec, whole=True, options=CoercionOptions(keep_unknown=True))
    assert isinstance(read, Arguments)
    assert read.value == value


def test_what_was_found_to_be_no_json_is_not_read_again() -> None:
    unparsed = parse('{"a" 1}')

    assert isinstance(unparsed, Unparsed)
    assert read_arguments(unparsed, None, whole=True) == RefusedArguments(
        Reason.BAD_JSON, unparsed.detail
    )
