"""Leaked calls run: what a server left in the text of an answer, and what is a call all the same.

The other side of test_quotations.py: rules that keep words from running must not lose calls.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quotations import (
    ANNOUNCED,
    COMMON,
    FIRST,
    HERMES,
    LATER,
    MAIL,
    OTHER,
    PLACES,
    SETTINGS,
    TOOLS,
    Conversation,
    Format,
    Setting,
    announce,
    names,
    ran,
    rescue,
)
from recut import cut_text
from scripted import ending, opening
from wholecall.dialects.rescue import encode
from wholecall.stream import assemble


@pytest.mark.parametrize("form", COMMON, ids=names(COMMON))
def test_several_calls_in_a_row_are_rescued(form: Format) -> None:
    mails = [OTHER, {**OTHER, "to": "bob@example.org"}, {**OTHER, "to": "cid@example.org"}]
    if form.name == form.announced:
        said = encode(form.name, [("send_mail", mail) for mail in mails])
    else:
        said = "\n".join(map(form.write, mails))
    assert ran(rescue(said, LATER)) == mails


@pytest.mark.parametrize("form", COMMON, ids=names(COMMON))
def test_a_call_that_the_model_itself_made_before_may_be_made_again(form: Format) -> None:
    function = {"name": "send_mail", "arguments": json.dumps(OTHER)}
    call = {"id": "call_1", "type": "function", "function": function}
    messages: Conversation = [
        *FIRST,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "The server is busy. Try again."},
    ]
    assert ran(rescue(form.write(OTHER), messages)) == [OTHER]
    assert ran(announce(form.announced, form.write(OTHER), messages=messages)) == [OTHER]


def test_native_calls_are_none_of_this() -> None:
    """Whatever a page says: a call that the upstream itself made is a call."""
    made = [opening(0, "send_mail", arguments=json.dumps(MAIL)), *ending("tool_calls")]
    messages = PLACES["a result"](HERMES)
    for setting in SETTINGS:
        outcome = assemble("openai-chat", made, tools=TOOLS, rescue=setting, messages=messages)
        assert ran(outcome) == [MAIL]


@pytest.mark.parametrize("form", ANNOUNCED, ids=names(ANNOUNCED))
def test_the_example_in_our_own_prompt_is_no_provenance(form: Format) -> None:
    """The instructions show a call. Where a tool has no parameters, no other can be made."""
    said = encode(form.name, [("reset", {})])
    assert ran(announce(form.announced, said, messages=FIRST, tools=TOOLS[3:])) == [{}]


@pytest.mark.parametrize("form", ANNOUNCED, ids=names(ANNOUNCED))
def test_a_history_that_is_told_in_the_dialect_is_no_provenance(form: Format) -> None:
    function = {"name": "send_mail", "arguments": json.dumps(OTHER)}
    call = {"id": "call_1", "type": "function", "function": function}
    messages: Conversation = [
        *FIRST,
        {"role": "assistant", "content": "I will.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Busy. Try again."},
    ]
    assert ran(announce(form.announced, form.write(OTHER), messages=messages)) == [OTHER]


@pytest.mark.parametrize("setting", ["all", "read_only"])
@pytest.mark.parametrize("form", COMMON, ids=names(COMMON))
def test_rescue_that_is_off_leaves_text_as_it_is(form: Format, setting: Setting) -> None:
    said = form.write(OTHER)
    outcome = rescue(said, FIRST, setting="off")
    assert (outcome.text, outcome.calls, outcome.rejected) == (said, (), ())
    assert outcome.finish_reason == "stop"
    assert rescue(said, FIRST, setting=setting).text != said


# ── Recorded leaks ──────────────────────────────────────────────────────────────────

LEAKS = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "leaks.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", LEAKS, ids=[case["id"] for case in LEAKS])
def test_recorded_leaks_are_rescued(case: dict[str, Any]) -> None:
    expect = case["expect"]
    options = [expect, *filter(None, [expect.get("alternative")])]
    wanted = [[call["arguments"] for call in option["calls"]] for option in options]
    for pieces in ([case["text"]], cut_text(case["text"], None), cut_text(case["text"], 1)):
        assert ran(rescue(pieces, FIRST, tools=case["tools"])) in wanted
