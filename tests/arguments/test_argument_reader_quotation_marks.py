"""Gemma's quoting marks in the strings of a native call."""

from __future__ import annotations

import json

import pytest

from wholecall.arguments.argument_reader import Arguments, RefusedArguments, read_arguments
from wholecall.events import JSON, Reason
from wholecall.messages import ToolSpec

MARK = '<|"|>'
ROME = f"{MARK}Rome{MARK}"
TOOL = ToolSpec("note", {"type": "object", "properties": {"city": {}, "days": {}}})

ROWS: list[tuple[str, dict[str, JSON], dict[str, JSON]]] = [
    ("around a string", {"city": ROME}, {"city": "Rome"}),
    ("around nothing", {"city": MARK * 2}, {"city": ""}),
    ("in a list", {"city": [ROME, 3]}, {"city": ["Rome", 3]}),
    ("in an object", {"city": {"name": ROME}, "days": 3}, {"city": {"name": "Rome"}, "days": 3}),
    ("told of", {"city": f"write {ROME} so"}, {"city": f"write {ROME} so"}),
    ("told of once", {"city": f"a {MARK} is a mark"}, {"city": f"a {MARK} is a mark"}),
]


@pytest.mark.parametrize(
    ("given", "value"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
@pytest.mark.parametrize("spec", [TOOL, None], ids=["a tool", "any tool"])
def test_marks_around_a_whole_string_are_taken_away(
    given: dict[str, JSON], value: dict[str, JSON], *, spec: ToolSpec | None
) -> None:
    read = read_arguments(given, spec, whole=True)
    assert isinstance(read, Arguments)
    assert read.value == value
    assert [each.kind for each in read.repairs] == ["unquote_strings"] * (value != given)


ESCAPED = "".join(f"\\u{ord(each):04x}" for each in MARK)
TEXTS = {
    "as it is": '{"city": "<|\\"|>Rome<|\\"|>"}',
    "escaped": f'{{"city": "{ESCAPED}Rome{ESCAPED}"}}',
    "in a text of its own": json.dumps(json.dumps({"city": ROME})),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_marks_are_found_however_they_are_written(text: str) -> None:
    read = read_arguments(text, TOOL, whole=True)
    assert isinstance(read, Arguments)
    assert read.value == {"city": "Rome"}


@pytest.mark.parametrize(
    "city",
    [f"{MARK}Rome", f"Rome{MARK}", f"Rome{MARK},days:{MARK}", f"{ROME} and {ROME}", MARK, [MARK]],
)
def test_a_mark_without_the_other_refuses_the_call(city: JSON) -> None:
    refused = read_arguments({"city": city}, TOOL, whole=True)
    assert isinstance(refused, RefusedArguments)
    assert refused.reason is Reason.BAD_MARKUP
