"""Values and schemas in words."""

import gc
import weakref
from typing import Any

import pytest
from hypothesis import given

from schemas import SCHEMAS, VALUES
from wholecall.arguments.describe import (
    RECEIVED,
    cut,
    describe,
    find_misspelt,
    list_some,
    name_nearest,
    show,
    show_names,
    suggest,
)

# what holds, value, shown
VALUES_SHOWN = [
    ("a string in quotes", "a", '"a"'),
    ("letters of every script", ["ü日"], '["ü日"]'),
    ("an object", {"a": [1, None, True]}, '{"a": [1, null, true]}'),
    ("half a surrogate pair is escaped", "\ud800", '"\\ud800"'),
    ("a long string is cut", "x" * 500, '"' + "x" * (RECEIVED - 2) + "…"),
    ("a long array is cut", list(range(100)), str(list(range(60)))[: RECEIVED - 1] + "…"),
    ("an endless string inside is cut", ["x" * 10_000], '["' + "x" * (RECEIVED - 3) + "…"),
]


@pytest.mark.parametrize(
    ("value", "shown"), [r[1:] for r in VALUES_SHOWN], ids=[r[0] for r in VALUES_SHOWN]
)
def test_a_value_is_shown_as_json(value: Any, shown: str) -> None:
    assert show(value) == shown


class Held(list[int]):
    """An array that can be watched."""


def test_what_is_not_shown_to_its_end_is_not_held() -> None:
    value = Held(range(10_000))
    watched = weakref.ref(value)
    gc.disable()
    try:
        show(value)
        del value
        assert watched() is None
    finally:
        gc.enable()


@given(VALUES)
def test_nothing_that_is_shown_is_long(value: Any) -> None:
    assert len(show(value)) <= RECEIVED


def test_a_text_is_cut_only_if_it_is_long() -> None:
    assert cut("short") == "short"
    assert cut("x" * (RECEIVED + 1)) == "x" * (RECEIVED - 1) + "…"


def test_names_stand_in_a_row() -> None:
    assert show_names(["a", "b c"]) == '"a", "b c"'


def test_of_many_words_some_are_listed_each_once() -> None:
    assert list_some(["a", "b", "a"], " or ") == "a or b"
    assert list_some([str(number) for number in range(30)], ", ").endswith("23 and 6 more")


def test_a_text_is_cut_to_a_length_of_ones_choice() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"


# what holds, schema, words
SCHEMAS_DESCRIBED = [
    ("a type", {"type": "integer"}, "an integer"),
    ("a boolean by its values", {"type": "boolean"}, "true or false"),
    ("types", {"type": ["string", "null"]}, "a string or null"),
    ("no type", {}, "a value"),
    (
        "limits",
        {"type": "integer", "minimum": 1, "maximum": 9},
        "an integer, at least 1, at most 9",
    ),
    ("a constant", {"const": "a"}, '"a"'),
    ("options", {"type": "string", "enum": ["a", 1]}, 'one of "a", 1'),
    ("alternatives", {"anyOf": [{"type": "string"}, {"type": "null"}]}, "a string or null"),
    ("one of them", {"oneOf": [{"const": 1}, {"const": 2}]}, "1 or 2"),
    ("items", {"type": "array", "items": {"type": "string"}}, "an array (each item: a string)"),
    ("an array of anything", {"type": "array"}, "an array"),
    ("an object", {"type": "object"}, "an object"),
    ("required members", {"type": "object", "required": ["a"]}, 'an object with "a"'),
    ("a reference", {"$ref": "#/$defs/a"}, "an integer"),
    ("more than", {"exclusiveMinimum": 1}, "a value, more than 1"),
    ("less than", {"exclusiveMaximum": 1}, "a value, less than 1"),
    ("a multiple", {"multipleOf": 2}, "a value, a multiple of 2"),
    ("characters at least", {"minLength": 1}, "a value, at least 1 characters long"),
    ("characters at most", {"maxLength": 1}, "a value, at most 1 characters long"),
    ("a pattern", {"pattern": "^a"}, 'a value, matching the pattern "^a"'),
    ("items at least", {"minItems": 2}, "a value, an array of at least 2 items"),
    ("items at most", {"maxItems": 2}, "a value, an array of at most 2 items"),
    ("items that differ", {"uniqueItems": True}, "a value, without items that are equal"),
    ("members at least", {"minProperties": 2}, "a value, an object of at least 2 members"),
    ("members at most", {"maxProperties": 2}, "a value, an object of at most 2 members"),
]


def follow(node: dict[str, Any]) -> dict[str, Any]:
    return {"type": "integer"} if "$ref" in node else node


@pytest.mark.parametrize(
    ("schema", "words"), [r[1:] for r in SCHEMAS_DESCRIBED], ids=[r[0] for r in SCHEMAS_DESCRIBED]
)
def test_a_schema_is_described(schema: Any, words: str) -> None:
    assert describe(schema, follow) == words


def test_a_description_ends_although_its_schema_does_not() -> None:
    endless: dict[str, Any] = {"type": "array"}
    endless["items"] = endless
    both: dict[str, Any] = {}
    both["anyOf"] = [both, endless]

    assert describe(endless, follow).count("each item") == 3
    assert len(describe(both, follow)) < 200


@given(SCHEMAS)
def test_every_ordinary_schema_can_be_described(schema: dict[str, Any]) -> None:
    assert describe(schema, follow)


# ── The name that was probably meant, and when that is beyond doubt ─────────────────────

# what holds, name, known names, nearest, misspelt
ROWS = [
    ("a letter is missing", "get_wether", ["get_weather", "send"], "get_weather", "get_weather"),
    ("another framework's case", "dryRun", ["dry_run"], "dry_run", "dry_run"),
    ("hyphens and dots", "DRY-RUN.", ["dry_run"], "dry_run", "dry_run"),
    ("blanks and marks around it", ' \n":path', ["path"], "path", "path"),
    ("nothing but marks", "@", ["$"], None, None),
    ("a longer name is near, but may be another", "file_path", ["path"], "path", None),
    ("nothing is near", "town", ["path", "content"], None, None),
    ("nothing is known", "town", [], None, None),
    ("of two spellings the first in order", "a_b", ["AB", "a_b"], "AB", "AB"),
    ("only the head of a long name is compared", "x" * 100_000, ["x" * 70], "x" * 70, "x" * 70),
]


@pytest.mark.parametrize(
    ("name", "known", "near", "same"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_the_nearest_name(
    name: str, known: list[str], *, near: str | None, same: str | None
) -> None:
    assert suggest(name, known) == near
    assert find_misspelt([name], known) == ({} if same is None else {name: same})


def test_of_many_names_all_other_cases_and_some_other_letters_are_found() -> None:
    known = [f"parameter_{number}" for number in range(300)]
    in_capitals = {name.upper(): name for name in known}
    with_a_typo = [f"paramter_{number}" for number in range(300)]

    assert find_misspelt([*with_a_typo, *in_capitals], known).keys() == {
        *with_a_typo[:16],
        *in_capitals,
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("opnai", "did you mean 'openai'?"),
        ("OpenAI", "did you mean 'openai'?"),
        ("zzz", "there are openai, ollama"),
        ("", "there are openai, ollama"),
    ],
)
def test_the_nearest_name_is_suggested_or_all_are_listed(name: str, hint: str) -> None:
    assert name_nearest(name, ("openai", "ollama")) == hint
