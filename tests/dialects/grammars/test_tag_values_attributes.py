"""The attributes of a tag."""

from __future__ import annotations

import pytest

from wholecall.dialects.grammars.tag_values import read_attributes

ROWS = [
    ("double quotes", ' name="a b"', {"name": "a b"}),
    ("single quotes", " name='a\"b'", {"name": 'a"b'}),
    ("typographic quotes", " name=\u201ca b\u201d", {"name": "a b"}),
    ("no quotes", " name=a key=b/", {"name": "a", "key": "b"}),
    ("nothing", ' name=""', {"name": ""}),
    ("blanks around the sign", ' name = "a"', {"name": "a"}),
    ("what the tokenizer left", 'Ġname="a"', {"name": "a"}),
    ("no value", " name", {}),
    ("a word without a value", ' name="a" required', {"name": "a"}),
    ("a quote too many", ' name="a""', {"name": "a"}),
    ("a quote that is lost", ' name="a type="b"', {}),
    ("a sign too many", ' name=="a"', {}),
    ("a sign that is lost", ' name="a" type"b"', {}),
    ("words behind a quote", ' name="a"b', {}),
    ("entities", ' name="a&amp;b"', {"name": "a&b"}),
]


@pytest.mark.parametrize(
    ("text", "attributes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_attributes_are_read(text: str, attributes: dict[str, str]) -> None:
    assert read_attributes(text, ("Ġ",), escapes=True) == attributes


def test_entities_may_be_text() -> None:
    assert read_attributes(' name="a&amp;b"', (), escapes=False) == {"name": "a&amp;b"}
