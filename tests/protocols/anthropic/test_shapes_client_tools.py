"""Anthropic's tools that the client runs have the documented schemas."""

from __future__ import annotations

from typing import Any

import pytest

from tool_rows import BASH, COMPUTER, EDITOR, MEMORY
from wholecall.arguments.validate import check
from wholecall.protocols.anthropic.shapes import read_kinds

CALLS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    (BASH, {"command": "ls"}, True),
    (BASH, {"restart": True}, True),
    (BASH, {"command": ["ls"]}, False),
    (EDITOR, {"command": "view", "path": "/a", "view_range": [1, -1]}, True),
    (EDITOR, {"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "x"}, True),
    (EDITOR, {"command": "view"}, False),
    (EDITOR, {"command": "shred", "path": "/a"}, False),
    (COMPUTER, {"action": "screenshot"}, True),
    (COMPUTER, {"action": "left_click", "coordinate": [1, 2]}, True),
    (COMPUTER, {"action": "left_click", "coordinate": [1]}, False),
    (COMPUTER, {"action": "zoom", "region": [0, 0, 9, 9]}, True),
    (MEMORY, {"command": "rename", "old_path": "/a", "new_path": "/b"}, True),
    (MEMORY, {"path": "/a"}, False),
    ({**MEMORY, "type": "memory_20990101"}, {"command": "archive", "path": "/a"}, True),
]


@pytest.mark.parametrize(("tool", "arguments", "fits"), CALLS)
def test_calls(tool: dict[str, Any], arguments: dict[str, Any], *, fits: bool) -> None:
    [spec] = read_kinds(tool, "tools[0]") or ()
    assert (not check(arguments, spec).problems) == fits


def test_a_parameter_of_a_later_version_is_kept() -> None:
    [spec] = read_kinds(BASH, "tools[0]") or ()
    assert check({"command": "ls", "new": 1}, spec).value == {"command": "ls", "new": 1}


def test_what_the_definition_sets_is_said() -> None:
    [spec] = read_kinds(COMPUTER, "tools[0]") or ()
    assert spec.description.endswith("The screen is 800 pixels wide. It is 600 pixels high.")
    assert spec.kind is not None
    assert spec.kind.type == "computer_20251124"


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search_20250305", "name": "web_search"},
        {"name": "bash", "input_schema": {}},
        {"type": "bash_20250124"},
        {"type": "computer_toolset_20260801"},
        "bash",
    ],
)
def test_others_are_not_in_the_table(tool: Any) -> None:
    assert read_kinds(tool, "tools[0]") is None
