"""Tools that stand in a prompt: an answer is read from its case as it was read at first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from emulated_requests import NOW, WEATHER, ask, says
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.emulate import (
    Constraint,
    assembler_of,
    emulate,
    read_prompted,
    write_prompted,
)
from wholecall.errors import InvalidChoice, UnusableDialect
from wholecall.events import Outcome, collect
from wholecall.messages import Choice, Mode, Role, ToolSpec
from wholecall.protocols.reader import Reader

QUESTION = says(Role.USER, "Weather?")
TWO = (
    '{"calls": [{"name": "weather", "arguments": {"city": "Oslo"}}, '
    '{"name": "now", "arguments": {}}]}'
)
TAGGED = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def read(reader: Reader, text: str) -> Outcome:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return collect([*reader.feed(chunk), *reader.end()])


def summarise(outcome: Outcome) -> Any:
    called = [(call.name, call.arguments) for call in outcome.calls]
    return called, [rejected.reason for rejected in outcome.rejected], outcome.text


ROWS: list[tuple[str, Constraint | None, Choice, str, int]] = [
    ("constrained", "grammar", Choice(), TWO, 2),
    ("constrained", "grammar", Choice(), '{"reply": "Rain."}', 0),
    ("constrained", "grammar", Choice(Mode.REQUIRED, ("now",)), TWO, 1),
    ("constrained", "grammar", Choice(Mode.AUTO, ("now", "weather")), TWO, 2),
    ("constrained", "json_schema", Choice(Mode.REQUIRED, parallel=False), TWO, 1),
    ("hermes", None, Choice(), TAGGED, 1),
    ("hermes", "prefill", Choice(Mode.REQUIRED), TAGGED.removeprefix('<tool_call>\n{"name":'), 1),
    ("hermes", None, Choice(), "Rain.", 0),
]


@pytest.mark.parametrize(("dialect", "constrain", "choice", "text", "count"), ROWS)
def test_what_a_case_says_of_the_prompt_is_enough_to_read_the_answer(
    *, dialect: str, constrain: Constraint | None, choice: Choice, text: str, count: int
) -> None:
    request = replace(ask(QUESTION), choice=choice)
    emulated = emulate(request, dialect, constrain=constrain)
    prompted = emulated.request.prompted
    assert prompted is not None
    case = json.loads(json.dumps(write_prompted(prompted)))
    again = read_prompted(case, prompted.tools)
    assert again == prompted
    reader = Reader("openai-chat", again.tools, new_assembler=assembler_of(again))
    outcome = read(reader, text)
    assert len(outcome.calls) == count
    assert summarise(outcome) == summarise(read(emulated.reader("openai-chat"), text))


def test_tools_that_are_offered_natively_stand_in_no_prompt() -> None:
    assert read_prompted({"tool_choice": "auto"}, [WEATHER]) is None
    assert read_prompted({"dialect": None}, [WEATHER]) is None


def test_a_request_says_nothing_of_what_nobody_else_could_read() -> None:
    request = ask(QUESTION)
    assert emulate(request, replace(DIALECTS["hermes"], name="mine")).request.prompted is None
    assert emulate(replace(request, choice=Choice(Mode.NONE)), "hermes").request.prompted is None
    assert emulate(replace(request, tools=()), "hermes").request.prompted is None


def test_a_request_that_was_emulated_already_still_says_so() -> None:
    once = emulate(ask(QUESTION), "hermes").request
    assert emulate(once, "hermes").request == once


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ({"dialect": "klingon"}, UnusableDialect),
        ({"dialect": "hermes", "tool_choice": "perhaps"}, InvalidChoice),
    ],
)
def test_what_is_not_known_is_refused(case: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        read_prompted(case, [WEATHER, NOW, ToolSpec("other")])
