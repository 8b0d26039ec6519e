"""Ordinary tool schemas and values for them, as strategies."""

from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "city", "max_items", "odd key"])
TEXTS = st.sampled_from(
    ["", "x", "5", "-1.5", "5.0", "00501", "true", "False", "null", "[1]", '{"a": "5"}', '["5"]']
) | st.text(max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 20)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | st.sampled_from([5.0, 1e300])
    | TEXTS
)


def containers(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3)


VALUES: st.SearchStrategy[Any] = st.recursive(SCALARS, containers, max_leaves=8)
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(NAMES, VALUES, max_size=4)

TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]
LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(TYPES[:5])
            | st.lists(st.sampled_from(TYPES), min_size=1, unique=True)
        }
    ),
    st.fixed_dictionaries({"type": st.just("integer"), "minimum": st.integers(-3, 6)}),
    st.fixed_dictionaries({"type": st.just("number"), "exclusiveMaximum": st.integers(-3, 6)}),
    st.fixed_dictionaries({"type": st.just("string"), "minLength": st.integers(0, 4)}),
    st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr)}),
    st.fixed_dictionaries({"const": SCALARS}),
    st.just({"$ref": "#/$defs/shared"}),
)


def _objects(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inside, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inside,
        },
    )


def _schemas(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inside, min_size=1, max_size=3)
    array = {"type": st.just("array"), "items": inside}
    return st.one_of(
        _objects(inside),
        st.fixed_dictionaries(array, optional={"minItems": st.integers(0, 2)}),
        st.fixed_dictionaries({"anyOf": several}),
        st.fixed_dictionaries({"oneOf": several}),
        st.fixed_dictionaries({"allOf": several}),
    )


SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(LEAVES, _schemas, max_leaves=6)


@st.composite
def tool_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of a tool's arguments: an object, with one definition that others refer to."""
    shared = draw(
        st.recursive(LEAVES.filter(lambda leaf: "$ref" not in leaf), _objects, max_leaves=2)
    )
    return {**draw(_objects(SCHEMAS)), "$defs": {"shared": shared}}
