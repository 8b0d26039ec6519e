"""A look at arguments that are still being written: for display, never for execution."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_texts import OBJECTS
from wholecall.arguments.limits import Limits
from wholecall.arguments.parse import Preview, preview
from wholecall.events import Call, Evidence, Repair

OBJECT, ARRAY, STRING = "close_object", "close_array", "close_string"
DROP = "drop_unfinished"

# what holds, text, value, the kinds of repair
PREVIEWS = [
    ("a whole object is shown as it is", '{"a": 1}', {"a": 1}, []),
    ("nothing shows nothing", "", {}, []),
    ("a brace is an object", "{", {}, [OBJECT]),
    ("a string is shown as far as it goes", '{"a": "hel', {"a": "hel"}, [STRING, OBJECT]),
    ("half an escape is left out", '{"a": "x\\u00', {"a": "x"}, [DROP, STRING, OBJECT]),
    ("a number is shown as far as it goes", '{"a": 12', {"a": 12}, [OBJECT]),
    ("half a number is left out", '{"a": 1, "b": -', {"a": 1}, [DROP, OBJECT]),
    ("half a word is left out", '{"a": [tru', {"a": []}, [DROP, ARRAY, OBJECT]),
    ("a key without a value is left out", '{"a": 1, "b":', {"a": 1}, [DROP, OBJECT]),
    ("half a key is left out", '{"a": 1, "b', {"a": 1}, [DROP, OBJECT]),
    ("a comma is left out", '{"a": [1,', {"a": [1]}, [DROP, ARRAY, OBJECT]),
    ("each closing is told once", '{"a": [{"b": [', {"a": [{"b": []}]}, [ARRAY, OBJECT]),
    ("what is broken is left out", '{"a": 1, b: 2}', {"a": 1}, [DROP, OBJECT]),
    ("what is too deep is left out", '{"a": [[1', {"a": []}, [DROP, ARRAY, OBJECT]),
    ("text behind the object is left out", '{"a": 1} done', {"a": 1}, [DROP]),
    ("half a pair is shown as one unknown", '{"a": "\\ud83d', {"a": "\ufffd"},
     ["lone_surrogate", STRING, OBJECT]),
    ("what is no object shows nothing", "[1, 2", {}, []),
    ("what is no JSON shows nothing", "hello", {}, []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "kinds"), [r[1:] for r in PREVIEWS], ids=[r[0] for r in PREVIEWS]
)
def test_what_is_open_is_closed_and_what_is_half_left_out(
    text: str, value: dict[str, Any], *, kinds: list[str]
) -> None:
    shown = preview(text, limits=Limits(depth=4 if "[{" in text else 2))

    assert shown.value == value
    assert [repair.kind for repair in shown.repairs] == kinds


def test_a_preview_says_what_it_invented_and_left_out() -> None:
    assert preview('{"a": "x", "b') == Preview(
        {"a": "x"},
        (
            Repair(DROP, ', "b', "", safe=False),
            Repair(OBJECT, "", "}", safe=False),
        ),
    )


def test_no_call_can_be_built_on_a_preview() -> None:
    shown = preview('{"path": "/')

    with pytest.raises(ValueError, match="unsafe repair"):
        Call(
            id="call_1",
            name="delete",
            arguments=shown.value,
            raw="",
            evidence=Evidence.CONFIRMED,
            repairs=shown.repairs,
        )


@given(OBJECTS, st.data())
def test_every_prefix_can_be_shown_and_every_proper_one_is_unsafe(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    end = data.draw(st.integers(1, len(text)))
    shown = preview(text[:end])

    assert set(shown.value) <= set(value)
    assert all(repair.safe for repair in shown.repairs) is (end == len(text))
    assert end < len(text) or shown == Preview(value)
