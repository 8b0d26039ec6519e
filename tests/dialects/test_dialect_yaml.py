"""Arguments written as YAML."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.dialects.dialect import write_yaml

# what holds, the arguments, the lines
ROWS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("nothing", {}, []),
    ("scalars", {"a": 1, "b": None, "c": True, "d": "x"}, ["a: 1", "b: null", "c: true", 'd: "x"']),
    ("empty containers", {"a": {}, "b": [], "c": ()}, ["a: {}", "b: []", "c: []"]),
    ("containers", {"a": {"b": [1, {"c": 2}]}}, ["a:", "  b:", "    - 1", "    -", "      c: 2"]),
    ("a tuple", {"a": (1, [2])}, ["a:", "  - 1", "  -", "    - 2"]),
    ("keys that are no words", {"a b": 1, "": 2}, ['"a b": 1', '"": 2']),
    ("a text of lines", {"a": "x\n\n  y: z"}, ["a: |-", "  x", "", "    y: z"]),
    ("lines in a list", {"a": ["x\ny"]}, ["a:", "  - |-", "    x", "    y"]),
    ("lines that begin with a blank", {"a": " x\ny"}, ['a: " x\\ny"']),
    ("lines that end with an empty one", {"a": "x\n"}, ['a: "x\\n"']),
    ("lines with carriage returns", {"a": "x\r\ny"}, ['a: "x\\r\\ny"']),
    ("one line", {"a": "x: # y"}, ['a: "x: # y"']),
]


@pytest.mark.parametrize(
    ("arguments", "lines"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_written(arguments: dict[str, Any], lines: list[str]) -> None:
    assert write_yaml(arguments) == "".join(f"{line}\n" for line in lines)
