"""What holds for any arguments, however they are written or cut."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from json_texts import FULL_OBJECTS, STYLES, VALUES, Style, write
from wholecall.arguments.argument_reader import Arguments, RefusedArguments, read_arguments
from wholecall.arguments.parse import Parsed, parse


@given(FULL_OBJECTS)
def test_an_object_is_read_like_its_text_and_never_changed(value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    read = read_arguments(value, None, whole=True)

    assert read == read_arguments(json.dumps(value), None, whole=False) == Arguments(value)
    assert isinstance(read, Arguments)
    for member in read.value.values():
        if isinstance(member, list):
            member.append("changed by the tool")
    assert value == before


@given(VALUES, STYLES)
def test_only_an_object_becomes_arguments(value: Any, style: Style) -> None:
    read = read_arguments(write(value, style), None, whole=True)

    if isinstance(value, dict):
        assert isinstance(read, Arguments)
        assert read.value == value
    elif not isinstance(value, str):
        assert isinstance(read, RefusedArguments)


@given(value=FULL_OBJECTS, style=STYLES, twice=st.booleans(), data=st.data())
def test_a_cut_call_never_becomes_arguments(
    value: dict[str, Any], style: Style, *, twice: bool, data: st.DataObject
) -> None:
    text = write(value, style)
    if twice:
        text = json.dumps(text)[1 : data.draw(st.sampled_from([None, -1]))]
    last = text.rindex("}")
    end = data.draw(st.integers(0, last))

    read = read_arguments(text[:end], None, whole=True)

    assert isinstance(read, RefusedArguments) or not text[:end].strip()


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    read = read_arguments(text, None, whole=True)

    if isinstance(read, Arguments) and not read.repairs and text.strip():
        assert parse(text) == Parsed(read.value)
