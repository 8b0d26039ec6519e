"""A compiled schema judges at every place and knows what may stand there."""

from typing import Any

import jsonschema_rs
import pytest

from wholecall.arguments.compiled_schema import (
    ANY_TYPE,
    LISTED,
    Compiled,
    SchemaPlace,
    SizedCache,
    matches,
    prepare,
    type_of,
)


def compile_it(schema: dict[str, Any]) -> Compiled:
    compiled = prepare(schema)
    assert isinstance(compiled, Compiled), compiled
    return compiled


class Words(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.0, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
        (Words("a"), "string"),
    ],
)
def test_every_value_has_a_type(value: Any, kind: str) -> None:
    assert type_of(value) == kind


def test_every_place_is_judged_under_its_own_schema() -> None:
    names = ["a", "a/b", "~", "%41", "ü b", ""]
    compiled = compile_it({"properties": {name: {"const": name} for name in names}})

    for name in names:
        place = compiled.root.inside("properties", name)
        assert compiled.fits(place, name)
        assert not compiled.fits(place, "other")


def test_a_reference_inside_is_still_known_at_its_place() -> None:
    definition = {"type": "object", "properties": {"deep": {"$ref": "#/$defs/tree"}}}
    compiled = compile_it({"items": {"$ref": "#/$defs/tree"}, "$defs": {"tree": definition}})
    items = compiled.root.inside("items")

    assert compiled.fits(items, {"deep": {"deep": {}}})
    assert not compiled.fits(items, {"deep": {"deep": 1}})


# what holds, schema, the names that are required
REQUIRED: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("nothing", {"properties": {"a": {}}}, ()),
    ("what the schema says", {"required": ["b", "a"]}, ("b", "a")),
    ("what a reference says", {"$ref": "#/$defs/x", "$defs": {"x": {"required": ["a"]}}}, ("a",)),
    ("what all say, once", {"required": ["a"], "allOf": [{"required": ["a", "b"]}]}, ("a", "b")),
    ("not what one alternative says", {"anyOf": [{"required": ["a"]}, {}]}, ()),
    ("a circle adds nothing", {"required": ["a"], "allOf": [{"$ref": "#"}]}, ("a",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "names"), [r[1:] for r in REQUIRED], ids=[r[0] for r in REQUIRED]
)
def test_the_required_parameters(schema: dict[str, Any], names: tuple[str, ...]) -> None:
    assert compile_it(schema).required == names


def test_what_the_validator_cannot_read_does_not_fit() -> None:
    compiled = compile_it({"items": {"pattern": "^a"}})

    assert compiled.fits(compiled.root, ["a"])
    assert not compiled.fits(compiled.root, ["a\ud800"])


# what holds, schema, types
TYPES: list[tuple[str, Any, set[str]]] = [
    ("nothing said", {}, {*ANY_TYPE}),
    ("a type", {"type": "array"}, {"array"}),
    ("every integer is a number", {"type": "number"}, {"number", "integer"}),
    ("but not every number an integer", {"type": ["integer", "null"]}, {"integer", "null"}),
    ("any string", {"type": "string"}, {"string", LISTED}),
    ("listed strings", {"enum": ["a", 1, None]}, {LISTED, "integer", "null"}),
    ("a listed string of its type", {"type": ["string"], "enum": ["a", 1]}, {LISTED}),
    ("a constant", {"const": True}, {"boolean"}),
    ("a constant that is whole", {"const": 2.0}, {"number", "integer"}),
    ("a constant that is not", {"const": 2.5}, {"number"}),
    ("alternatives add up", {"anyOf": [{"type": "null"}, {"type": "array"}]}, {"null", "array"}),
    ("one of them, too", {"oneOf": [{"type": "null"}, {"const": 1}]}, {"null", "integer"}),
    (
        "demands do not",
        {"type": ["null", "array"], "allOf": [{"type": ["array", "string"]}]},
        {"array"},
    ),
    ("a reference", {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, {"object"}),
    ("a circle adds nothing", {"type": "object", "allOf": [{"$ref": "#"}]}, {"object"}),
]


@pytest.mark.parametrize(("schema", "types"), [r[1:] for r in TYPES], ids=[r[0] for r in TYPES])
def test_the_types_that_may_stand_at_a_place(schema: Any, types: set[str]) -> None:
    compiled = compile_it(schema)

    assert compiled.types(compiled.root) == types
    assert compiled.types(compiled.root) == types  # remembered


def test_a_listed_string_is_of_an_allowed_type_like_any_other() -> None:
    compiled = compile_it({"enum": ["a", 1]})

    assert compiled.allows_type(compiled.root, "b")
    assert compiled.allows_type(compiled.root, 2)
    assert not compiled.allows_type(compiled.root, None)


# what holds, schema, names, whether others are dropped
PARAMETERS: list[tuple[str, Any, set[str], bool]] = [
    ("named", {"properties": {"a": {}}}, {"a"}, True),
    ("none named", {"type": "object"}, set(), False),
    ("none", {"type": "object", "properties": {}}, set(), False),
    ("others forbidden", {"properties": {"a": {}}, "additionalProperties": False}, {"a"}, False),
    ("others allowed", {"properties": {"a": {}}, "additionalProperties": True}, {"a"}, False),
    ("patterns", {"properties": {"a": {}}, "patternProperties": {"x": {}}}, {"a"}, False),
    ("unevaluated", {"properties": {"a": {}}, "unevaluatedProperties": False}, {"a"}, False),
    (
        "in alternatives and behind references",
        {
            "properties": {"a": {}},
            "anyOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/c"}, {"$ref": "#/$defs/c"}],
            "then": {"properties": {"d": {"properties": {"inside": {}}}}},
            "$defs": {"c": {"properties": {"c": {}}, "allOf": [{"$ref": "#"}]}},
        },
        {"a", "b", "c", "d"},
        True,
    ),
]


@pytest.mark.parametrize(
    ("schema", "names", "drops"), [r[1:] for r in PARAMETERS], ids=[r[0] for r in PARAMETERS]
)
def test_the_parameters_that_a_schema_knows(schema: Any, names: set[str], *, drops: bool) -> None:
    compiled = compile_it(schema)

    assert compiled.names == names
    assert compiled.drops is drops


def test_references_are_followed() -> None:
    compiled = compile_it({"$ref": "#/$defs/a", "allOf": [{}], "$defs": {"a": {"type": "null"}}})
    demanding = [place.pointer for place in compiled.demanding(compiled.root)]

    assert demanding == ["/$defs/a", "/allOf/0"]
    assert compiled.follow(compiled.root.node) == {"type": "null"}
    assert compiled.follow({}) == {}
    assert compiled.target(compiled.root.inside("$defs", "a")) is None


def test_nothing_is_fetched_whoever_asks() -> None:
    place = SchemaPlace("", {"$ref": "https://example.com/schema.json"})

    with pytest.raises(jsonschema_rs.ValidationError, match="is not part of the schema"):
        place.fits_alone("$ref", 1)


def test_one_keyword_is_asked_alone() -> None:
    place = SchemaPlace("", {"type": "string", "maxLength": 1})

    assert not place.fits_alone("type", 1)
    assert place.fits_alone("maxLength", 1)
    assert not place.fits_alone("maxLength", "ab")


def test_a_pattern_matches_anywhere_in_a_text() -> None:
    assert matches("b", "abc")
    assert not matches("^b", "abc")


# what holds, items, where those are that are no integers
MISFITS: list[tuple[str, list[Any], list[int]]] = [
    ("none", [], []),
    ("all fit", [1] * 100, []),
    ("none fits", ["x"] * 5, [0, 1, 2, 3, 4]),
    ("the first and the last", ["x", *[1] * 98, "x"], [0, 99]),
    ("one alone", [*[1] * 50_000, "x", *[1] * 20_000], [50_000]),
]


@pytest.mark.parametrize(("items", "places"), [r[1:] for r in MISFITS], ids=[r[0] for r in MISFITS])
def test_the_items_that_do_not_fit_are_found_by_halves(items: list[Any], places: list[int]) -> None:
    compiled = compile_it({"items": {"type": "integer"}})
    place = compiled.root.inside("items")

    assert list(compiled.misfits(place, items)) == places
    assert list(compiled.misfits(place, items, start=1)) == [place for place in places if place]
    assert list(compiled.misfits(place, items, start=len(items) + 1)) == []


def test_a_cache_is_bounded_by_the_bytes_of_its_texts() -> None:
    made: list[str] = []

    def make(text: str) -> int:
        made.append(text)
        return len(text)

    cache: SizedCache[str, int] = SizedCache(most_bytes=1000)
    texts = [f"{number:010}" for number in range(50)]
    for _ in range(20):  # a set that takes half of the room never drives its own members out
        assert [cache.find(text, make) for text in texts] == [10] * 50
    assert made == texts
    for number in range(50, 1000):
        cache.find(f"{number:010}", make)
        assert weigh_all(cache) <= 1000
    assert cache.find(texts[0], make) == 10
    assert made[-1] == texts[0]


def test_a_cache_keeps_what_is_used_again() -> None:
    made: list[str] = []

    def make(text: str) -> int:
        made.append(text)
        return len(text)

    cache: SizedCache[str, int] = SizedCache(most_bytes=40)
    for text in ("a" * 10, "b" * 10, "c" * 10, "a" * 10, "d" * 10, "a" * 10):
        cache.find(text, make)
    assert made == ["a" * 10, "b" * 10, "c" * 10, "d" * 10]


def test_a_cache_weighs_what_is_made_and_not_its_source() -> None:
    cache: SizedCache[str, int] = SizedCache(weigh=lambda text: 10 * len(text), most_bytes=400)
    for text in ("a" * 10, "b" * 10, "c" * 10):
        cache.find(text, len)
        assert cache.has(text)
    assert weigh_all(cache) == 300
    cache.find("d" * 30, len)  # a new generation begins, and the one before the last is dropped
    cache.find("e" * 10, len)
    assert weigh_all(cache) <= 400
    assert not cache.has("a" * 10)


def weigh_all(cache: SizedCache[Any, Any]) -> int:
    """Bytes of all that is kept."""
    return sum(map(cache._weigh, (*cache._young, *cache._old)))
