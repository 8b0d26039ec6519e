"""Values that hold tags of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.dialects.grammars.nested_tag_calls import write_nested

TEXT = {"type": "string"}
NUMBERS = {"type": "array", "items": {"type": "number"}}
FILE = {"type": "object", "properties": {"path": TEXT, "lines": NUMBERS}}
FILES = {"type": "array", "items": FILE}
ARGS = {"type": "object", "properties": {"file": FILES, "all": {"type": "boolean"}}}
OPEN = {"type": "object"}
LOOSE = {"type": "object", "properties": {"a": {"type": ["string", "object"]}}}
EITHER = {"oneOf": [NUMBERS, FILE]}

ROWS: list[tuple[str, list[str], Any, Any]] = [
    ("elements", ["<item>1</item>\n<item>2.5</item>\n"], NUMBERS, [1, 2.5]),
    ("elements of another name", ["<n>1</n>"], NUMBERS, [1]),
    ("elements that are counted", ["<0>1</0><1>2</1>"], NUMBERS, [1, 2]),
    ("several tags", ["1", " 2 "], NUMBERS, [1, 2]),
    ("JSON", ["[1, 2]"], NUMBERS, [1, 2]),
    ("members", ["<path> a </path><lines>[1]</lines>"], FILE, {"path": "a", "lines": [1]}),
    ("a text that looks like tags", ["<path><b>a</b></path>"], FILE, {"path": "<b>a</b>"}),
    ("objects", ["<file><path>a</path></file><file><path>b</path></file>"], FILES,
     [{"path": "a"}, {"path": "b"}]),
    ("one object", ["<path>a</path>"], FILES, [{"path": "a"}]),
    ("a list in an object", ["<file><path>a</path></file>"], ARGS, {"file": [{"path": "a"}]}),
    ("a list in an object, a tag for each",
     ["<file><path>a</path></file><all>true</all><file><path>b</path></file>"], ARGS,
     {"file": [{"path": "a"}, {"path": "b"}], "all": True}),
    ("any members", ["<a>1</a><b>x</b>"], OPEN, {"a": 1, "b": "x"}),
    ("an alternative", ["<path>a</path><lines>1</lines><lines>2</lines>"], EITHER,
     {"path": "a", "lines": [1, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "schema", "value"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_tags_are_read_as_their_schema_says(texts: list[str], schema: Any, *, value: Any) -> None:
    assert json.loads(write_nested(texts, schema)) == value


DEEP: dict[str, Any] = {"type": "array", "items": TEXT}
OPENED = "".join(f"<a{depth}>" for depth in range(20))
CLOSED = "".join(f"</a{depth}>" for depth in reversed(range(20)))
for _ in range(20):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    ("texts", "schema"),
    [
        (["<0>1</0><2>2</2>"], NUMBERS),
        (["<a>1</a><b>2</b>"], NUMBERS),
        (["<a>1</a>so"], NUMBERS),
        (["<a>1"], NUMBERS),
        (["<a><a>1</a></a>"], NUMBERS),
        (["<path>a</path><size>1</size>"], FILE),
        (["<path>a</path><path>b</path>"], FILE),
        (["<a><b>1</b></a>"], OPEN),
        (["<a><b>1</b></a>"], LOOSE),
        (["{}", "{}"], FILE),
        ([OPENED + CLOSED], DEEP),
    ],
    ids=[
        "gap",
        "names",
        "text",
        "cut",
        "twice",
        "unknown",
        "repeated",
        "unclear",
        "text or object",
        "objects",
        "deep",
    ],
)
def test_what_is_unclear_is_a_string_which_fits_nothing(texts: list[str], schema: Any) -> None:
    assert json.loads(write_nested(texts, schema)) == "".join(texts)
