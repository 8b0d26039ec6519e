"""Answers that are begun for the model."""

from __future__ import annotations

import pytest

from emulated_requests import NOW, PROMPTED, WEATHER
from recut import every_cutting
from wholecall.dialects.dialect import Template, encode_calls, template_of
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.emulated_answer import Prefilled, opening
from wholecall.messages import ToolSpec

BOTH = {"weather": WEATHER, "now": NOW}
OPENINGS: list[tuple[str, str, str]] = [
    ("hermes", '<tool_call>\n{"name":', '<tool_call>\n{"name": "now", "arguments":'),
    ("qwen3_xml", "<tool_call>\n<function=", "<tool_call>\n<function=now>"),
    ("pythonic", "[", "[now("),
    ("kimi_k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>"),
    ("cohere_cmd3", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name":',
     '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters":'),
    ("constrained", '{"calls": [{"name":', '{"calls": [{"name": "now", "arguments":'),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "openings"), [(row[0], row[1:]) for row in OPENINGS])
def test_a_call_begins_up_to_where_it_is_free(dialect: str, openings: tuple[str, str]) -> None:
    template = template_of(DIALECTS[dialect])
    assert (opening(template, BOTH), opening(template, {"now": NOW})) == openings


@pytest.mark.parametrize("dialect", PROMPTED)
def test_every_call_begins_like_this(dialect: str) -> None:
    template = template_of(DIALECTS[dialect])
    call = encode_calls(template, [("weather", {"city": "Oslo"})])
    assert call.startswith(opening(template, BOTH))
    assert call.startswith(opening(template, {"weather": WEATHER}))


def test_a_name_that_cannot_be_written_is_left_to_the_model() -> None:
    template = template_of(DIALECTS["qwen3_xml"])
    assert opening(template, {"a b": ToolSpec("a b")}) == "<tool_call>\n<function="


def test_without_a_name_in_the_form_there_is_nothing_to_begin_with() -> None:
    assert opening(Template("{arguments}"), BOTH) == ""


BEGINNING = '{"name":'
READ: list[tuple[str, str, str]] = [
    ("what follows is put behind the beginning", ' "now"}', '{"name": "now"}'),
    ("a beginning that comes again is not read twice", '{"name": "now"}', '{"name": "now"}'),
    ("another beginning is none", '{"no', '{"name":{"no'),
    ("an answer that breaks off in the repetition is read as it came", '{"na', '{"na'),
    ("an empty answer is empty", "", ""),
]


@pytest.mark.parametrize(("said", "read"), [row[1:] for row in READ], ids=[row[0] for row in READ])
def test_the_beginning_is_read_once(said: str, read: str) -> None:
    for pieces in every_cutting(said) if said else [[""]]:
        prefilled = Prefilled(BEGINNING)
        assert "".join([*map(prefilled.take, pieces), prefilled.end()]) == read


def test_without_a_beginning_everything_is_as_it_was() -> None:
    prefilled = Prefilled("")
    assert [prefilled.take("a"), prefilled.end()] == ["a", ""]
