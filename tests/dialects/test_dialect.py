"""What is written in a dialect is read back as it was, however it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from example_counts import ends, examples
from recut import cut_text
from wholecall.dialects.dialect import Notation
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.rescue import encode, encode_output, parse_text

WRITTEN = sorted(name for name, dialect in DIALECTS.items() if dialect.template is not None)
TYPES = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}
KEYS = st.one_of(
    st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True),
    st.sampled_from(["item", "name", "arguments", "id", "type"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
)
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text("<>/{}[]\"'`\\|=\n\r :,;&toalcrpme_"),
    st.sampled_from(
        ["007", "true", "null", "", "\n", "{}", "</x>", "```", "<tool_call", "1e5", '"a"']
    ),
)
SCALARS = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
CALLS = st.lists(st.tuples(st.sampled_from(["find_it", "go"]), ARGUMENTS), min_size=1, max_size=3)


def tools_for(calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Schemas that tell the types of all values, as tags need it."""
    schemas: dict[str, dict[str, set[str]]] = {"find_it": {}, "go": {}}
    for name, arguments in calls:
        for key, value in arguments.items():
            schemas[name].setdefault(key, set()).add(TYPES.get(type(value), "null"))
    return [
        {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": sorted(types)} for key, types in properties.items()},
            },
        }
        for name, properties in schemas.items()
    ]


def is_typed_twice(calls: list[tuple[str, dict[str, Any]]]) -> bool:
    """Whether two calls give one parameter values of two types: then no schema tells them apart."""
    return any(
        len(schema["type"]) > 1
        for tool in tools_for(calls)
        for schema in tool["parameters"]["properties"].values()
    )


@pytest.mark.parametrize("dialect", WRITTEN)
@settings(max_examples=examples(25))
@given(calls=CALLS, seed=st.integers(0, 9))
def test_calls_come_back(
    dialect: str, calls: list[tuple[str, dict[str, Any]]], *, seed: int
) -> None:
    template = DIALECTS[dialect].template
    assert template is not None
    if template.notation is Notation.TAGS and is_typed_twice(calls):
        return
    # A string that begins or ends with Gemma's quoting mark was cut by a server, and is refused.
    assume('<|"|>' not in str(calls))
    try:
        text = encode(dialect, calls)
    except ValueError:
        return  # the format cannot carry it, and says so
    pieces = cut_text(text, seed) if seed else list(text)
    outcome = parse_text(dialect, pieces, tools=tools_for(calls))
    assert [(call.name, dict(call.arguments)) for call in outcome.calls] == calls
    assert not outcome.rejected


REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("qwen3_xml", "find", {"a": "x</parameter>"}, "which would end it"),
    ("qwen3_xml", "find", {"a": ["</function>"]}, "which would end it"),
    ("qwen3_xml", "find", {"a": "x\r"}, "ends in a carriage return"),
    ("qwen3_xml", "find", {"a b": "x"}, "cannot be written in a tag"),
    ("qwen3_xml", "find it", {}, "cannot be written here"),
    ("morph_xml", "find", {"a": "x</a>"}, "holds '</a>', which would end it"),
    ("morph_xml", "find", {"a": " x"}, "white space around it, which would be lost"),
    ("yaml_xml", "find it", {}, "cannot be written here"),
    ("pythonic", "find", {"a-b": 1}, "is no identifier"),
    ("gemma4", "find", {"a": '<|"|>'}, "which would end it"),
    ("gemma4", "find", {"a": {"b c": 1}}, "cannot be written here"),
    ("auto", "find", {}, "nothing is written"),
    ("klingon", "find", {}, "there is no dialect 'klingon'"),
]


@pytest.mark.parametrize(("dialect", "name", "arguments", "why"), REFUSED)
def test_what_cannot_be_carried_is_refused(
    dialect: str, name: str, *, arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        encode(dialect, [(name, arguments)])


def test_a_result_is_told_with_its_name() -> None:
    assert encode_output("hermes", "find", output='a "b" {name}') == (
        '<tool_response>\n{"name": "find", "content": "a \\"b\\" {name}"}\n</tool_response>'
    )


TWO: list[tuple[str, dict[str, Any]]] = [
    ("find_it", {"query": "a b", "limit": 3, "where": {"kinds": ["x", {"y": None}]}}),
    ("go", {"fast": True, "note": "line\nline"}),
]


@pytest.mark.parametrize("dialect", WRITTEN)
def test_what_is_cut_delivers_nothing_that_the_whole_does_not(dialect: str) -> None:
    text = encode(dialect, TWO)
    tools = tools_for(TWO)
    delivered = []
    for end in (*ends(len(text)), len(text)):
        outcome = parse_text(dialect, text[:end], tools=tools)
        delivered = [(call.name, dict(call.arguments)) for call in outcome.calls]
        assert delivered == TWO[: len(delivered)], text[:end]
    assert delivered == TWO
