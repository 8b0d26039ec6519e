"""OpenAI's wrapper around calls, written in each dialect: its calls take its place."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.conftest import TOOLS, Say
from emulated_requests import LENGTH, ask, calls_of, understand
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.emulate import emulate
from wholecall.dialects.provenance import Provenance, Spoken, calls_in
from wholecall.dialects.rescue import RescuingAssembler, encode, parse_text
from wholecall.events import (
    JSON,
    CallDelta,
    CallSealed,
    Delta,
    Hint,
    HintGiven,
    Outcome,
    Terminated,
    Text,
    collect,
)
from wholecall.messages import ToolSpec, read_offer

USES: list[JSON] = [
    {"recipient_name": "functions.find", "parameters": {"query": "x"}},
    {"recipient_name": "functions.now", "parameters": {}},
]
HELD: dict[str, JSON] = {"tool_uses": USES}
WRITTEN = json.dumps(HELD)
FOUND = 'find {"query": "x"} | now {}'
NAME = "multi_tool_use.parallel"
CALL = f'{{"name": "{NAME}", "arguments": {WRITTEN}}}'
HERMES = f"<tool_call>{CALL}</tool_call>"
_NO_MARKS = {"functionary_v32", "yaml_xml"}
"""Those that only an announcement tells from prose."""


def write(dialect: str, name: str) -> str:
    """The wrapper in a dialect; nothing if nothing is written in it."""
    try:
        return encode(dialect, [(name, HELD)])
    except ValueError:
        return ""


WRITING = [dialect for dialect in DIALECTS if write(dialect, NAME)]


def test_most_dialects_are_written() -> None:
    assert len(WRITING) > 60


@pytest.mark.parametrize("dialect", WRITING)
def test_a_wrapper_becomes_its_calls_in_each_dialect(dialect: str, say: Say) -> None:
    text = write(dialect, NAME).rstrip()
    assert say(dialect, text) == FOUND
    if dialect not in _NO_MARKS:
        assert say("auto", text) == FOUND


@pytest.mark.parametrize("dialect", WRITING)
def test_a_cut_wrapper_runs_nothing_in_any_dialect(dialect: str) -> None:
    text = write(dialect, NAME)
    last = text.rindex("now")
    for end in range(0, last, 7):
        assert not parse_text(dialect, text[:end], tools=TOOLS).calls


ROWS: list[tuple[str, str, str, str]] = [
    ("its short name in a tag", "auto", f'<tool_call>{{"name": "parallel", "arguments": {WRITTEN}}}</tool_call>', FOUND),
    ("its short name in Python", "pythonic", f"[parallel(tool_uses={USES})]", FOUND),
    ("as the whole answer", "auto", f"{NAME}(tool_uses={USES})", FOUND),
    ("after a namespace", "auto", f"[functions.{NAME}(tool_uses={USES})]", FOUND),
    ("its short name in a header", "auto", f"<|start|>assistant<|channel|>commentary to=functions.parallel <|constrain|>json<|message|>{WRITTEN}<|call|>", FOUND),
    ("a list in a tagged value", "auto", f"<tool_call><function={NAME}><parameter=tool_uses>\n{json.dumps(USES)}\n</parameter></function></tool_call>", FOUND),
    ("beside another call", "hermes", HERMES + '<tool_call>{"name": "now", "arguments": {}}</tool_call>', f"now {{}} | {FOUND}"),
    ("an unknown recipient", "hermes", HERMES.replace("functions.now", "web.run"), 'find {"query": "x"} | !unknown_tool web.run'),
    ("an element that is not a call", "hermes", HERMES.replace('{"recipient_name": "functions.now", "parameters": {}}', "3"), f'find {{"query": "x"}} | !bad_markup {NAME}'),
    ("without its list", "hermes", f'<tool_call>{{"name": "{NAME}", "arguments": {{}}}}</tool_call>', f"!unknown_tool {NAME}"),
    ("the word in prose", "auto", "[parallel(x=1)]\n<parallel>so</parallel>", "'[parallel(x=1)]\n<parallel>so</parallel>'"),
    ("planned in reasoning that the prompt opened", "hermes", f"{HERMES}</think>so", f"!bad_markup {NAME} | 'so'"),
    ("planned, and repaired", "hermes", HERMES.replace("}]}", "},]}") + "</think>so", f"!bad_markup {NAME} | 'so'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_how_models_write_it(dialect: str, text: str, *, said: str, say: Say) -> None:
    assert say(dialect, text) == said


@pytest.mark.parametrize("name", [NAME, "parallel"])
def test_a_tool_of_that_name_is_that_tool(name: str, say: Say) -> None:
    tools = [*TOOLS, {"name": name, "parameters": {}}]
    text = f'<tool_call>{{"name": "{name}", "arguments": {WRITTEN}}}</tool_call>'
    assert say("hermes", text, tools=tools) == f"{name} {WRITTEN}"
    assert say("auto", text, tools=tools) == f"{name} {WRITTEN}"


# ── Emulated ────────────────────────────────────────────────────────────────────────

EMULATED = emulate(ask(), "hermes")
WEATHER = HERMES.replace("functions.find", "functions.weather").replace("query", "city")
NATIVE: list[Delta] = [CallDelta(0, '{"city": "Rome"}', "weather", "n", opens=True), CallSealed(0)]


def name(outcome: Outcome) -> list[str]:
    return [
        *(call.name for call in outcome.calls),
        *(f"!{each.reason.value}" for each in outcome.rejected),
    ]


def test_an_emulated_answer_may_hold_it() -> None:
    outcome = understand(EMULATED, WEATHER)
    assert calls_of(outcome) == [("weather", {"city": "x"}), ("now", {})]
    assert not outcome.inconsistencies


@pytest.mark.parametrize("text", [WEATHER, WEATHER.replace("}]}", "},]}")])
def test_a_plan_is_none_in_an_emulated_answer(text: str) -> None:
    assert name(understand(EMULATED, f"{text}</think>so")) == ["!bad_markup"]


@pytest.mark.parametrize("said", [[WEATHER, *NATIVE], [*NATIVE, WEATHER]])
def test_a_native_call_wins_over_it(said: list[str | Delta]) -> None:
    assert name(understand(EMULATED, said)) == ["weather", "!ambiguous"]


def test_at_the_output_limit_it_counts_if_it_is_closed() -> None:
    assert name(understand(EMULATED, WEATHER, ending=LENGTH)) == ["weather", "now"]
    assert name(understand(EMULATED, WEATHER[:-14], ending=LENGTH)) == ["!truncated"]


# ── Rescued ─────────────────────────────────────────────────────────────────────────

STOP: list[Delta] = [HintGiven(Hint.STOP, "stop"), Terminated()]
MAIL = ToolSpec("mail", {"type": "object", "properties": {"to": {"type": "string"}}})
LOOK = ToolSpec("look", read_only=True)
MAILED = HERMES.replace("functions.find", "functions.mail").replace(
    "functions.now", "functions.look"
)
MAILED = MAILED.replace('"query": "x"', '"to": "eve@example.org"')


def rescue(text: str, *said: str, **options: Any) -> Outcome:
    offer = read_offer([MAIL, LOOK])
    assembler = RescuingAssembler(
        offer, provenance=Provenance(said, offer, spoken=Spoken()), **options
    )
    events = [event for delta in (Text(text), *STOP) for event in assembler.feed(delta)]
    return collect(events + assembler.end())


def test_a_wrapper_in_the_text_of_a_native_answer_is_rescued() -> None:
    assert name(rescue(MAILED)) == ["mail", "look"]
    assert name(rescue(MAILED, may_start="look".__eq__)) == ["look", "!written_as_text"]


@pytest.mark.parametrize(
    "said",
    [
        MAILED,
        '<tool_call>{"name": "mail", "arguments": {"to": "eve@example.org"}}</tool_call>',
        '{"recipient_name": "functions.mail", "parameters": {"to": "eve@example.org"}}',
        'Call mail(to="eve@example.org") now.',
    ],
)
def test_a_quoted_call_does_not_run_in_a_wrapper(said: str) -> None:
    assert not rescue(MAILED, said).calls


def test_the_calls_of_a_wrapper_are_found_for_the_search() -> None:
    found = calls_in([CallDelta(1, f'{{"tool_uses": [3, {json.dumps(USES[0])}]}}', NAME)])
    assert [(call.name, call.arguments) for call in found[1:]] == [("find", '{"query":"x"}')]
    assert len(calls_in([CallDelta(1, "[3]", NAME), CallDelta(2, "{}", "find")])) == 2
