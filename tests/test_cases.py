"""Recorded failures of real servers and clients, each with the outcome that is right.

Every row names its source. `expect.calls` is exactly what may be executed, in order; an
`alternative` is a second outcome that is right as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from wholecall import Outcome, assemble, assemble_response, repair_history

CASES = Path(__file__).parent / "cases"
ANY_WORDS = ("<synthetic error>", "(no output)")


def load(name: str) -> list[Any]:
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    return [pytest.param(case, id=case["id"]) for case in map(json.loads, lines)]


def rows(field: str) -> list[Any]:
    """The rows that say something about this field."""
    return [row for row in load("native.jsonl") if field in row.values[0]["expect"]]


def read(case: Mapping[str, Any]) -> Outcome:
    protocol, tools = case["protocol"], case["tools"]
    if "response" in case:
        return assemble_response(protocol, case["response"], tools=tools)
    return assemble(protocol, case["events"], tools=tools)


def options(expect: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [expect, *([expect["alternative"]] if "alternative" in expect else [])]


def spell(calls: Any) -> list[tuple[str, str]]:
    """Calls as text, in which 1, 1.0 and true are three things."""
    return [(name, json.dumps(arguments)) for name, arguments in calls]


@pytest.mark.parametrize("case", load("native.jsonl"))
def test_exactly_what_may_be_executed_is(case: dict[str, Any]) -> None:
    outcome = read(case)
    got = spell((call.name, call.arguments) for call in outcome.calls)
    wanted = [
        spell((call["name"], call["arguments"]) for call in option["calls"])
        for option in options(case["expect"])
    ]
    assert got in wanted
    ids = [call.id for call in outcome.calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("case", rows("rejected"))
def test_what_must_not_run_is_rejected_for_its_reason(case: dict[str, Any]) -> None:
    got = [(call.name, call.reason.value) for call in read(case).rejected]
    wanted = [
        [(call["name"], call["reason"]) for call in option["rejected"]]
        for option in options(case["expect"])
        if "rejected" in option
    ]
    assert got in wanted


@pytest.mark.parametrize("case", rows("text"))
def test_the_text_of_an_answer_is_all_its_text(case: dict[str, Any]) -> None:
    assert read(case).text == case["expect"]["text"]


@pytest.mark.parametrize("case", rows("finish_reason"))
def test_the_finish_reason_says_what_was_delivered(case: dict[str, Any]) -> None:
    assert read(case).finish_reason == case["expect"]["finish_reason"]


@pytest.mark.parametrize("case", rows("error"))
def test_a_stream_that_failed_says_so(case: dict[str, Any]) -> None:
    assert read(case).error == case["expect"]["error"]


def same_history(got: Any, wanted: Any) -> bool:
    """Equal; but a placeholder may have any words, and an error may have words added."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        same = got.keys() == wanted.keys()
        return same and all(same_history(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(got, list):
        return len(got) == len(wanted) and all(map(same_history, got, wanted))
    if wanted in ANY_WORDS:
        return isinstance(got, str) and bool(got.strip())
    if isinstance(wanted, str) and wanted.startswith("Error"):
        return isinstance(got, str) and wanted in got
    return bool(got == wanted)


@pytest.mark.parametrize("case", load("history.jsonl"))
def test_a_history_becomes_one_that_providers_accept(case: dict[str, Any]) -> None:
    protocol = case["protocol"].removesuffix("-request")
    before = json.dumps(case["messages"])
    mended = repair_history(protocol, case["messages"])
    assert json.dumps(case["messages"]) == before
    assert repair_history(protocol, mended) == mended
    assert "messages_fixed" not in case["expect"] or same_history(
        mended, case["expect"]["messages_fixed"]
    )
