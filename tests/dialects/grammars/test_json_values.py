"""Raw values of tags, written as JSON."""

from __future__ import annotations

import pytest

from wholecall.dialects.grammars.json_values import Shape, Trim, write_value

ROWS = [
    ("a number where one is allowed", "5", {"integer"}, "5"),
    ("a number where none is allowed is text", "5", {"boolean"}, '"5"'),
    ("digits where a string is allowed as well", "5", {"integer", "string"}, "5"),
    ("a quoted text where a string is allowed keeps its quotes", '"a"', {"string"}, r'"\"a\""'),
    ("zeros before a digit", "007", {"integer"}, "7"),
    ("zeros before a number that is not octal", "-0089", {"number"}, "-89"),
    ("zeros before what may be octal", "0755", {"integer"}, '"0755"'),
    ("zeros where a string is allowed", "007", {"integer", "string"}, '"007"'),
    ("zero", "0", {"integer"}, "0"),
    ("what is no JSON is text", "a b", {"integer"}, '"a b"'),
    ("nothing is an empty text", " ", {"integer"}, '" "'),
]


@pytest.mark.parametrize(
    ("text", "types", "written"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_value_is_written_by_its_types(text: str, types: set[str], *, written: str) -> None:
    types_ = frozenset(types)
    assert write_value(text, Shape.TYPED, types=types_, trim=Trim.NOTHING) == written
