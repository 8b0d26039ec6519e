"""Chunks with the deltas and events that were made of them."""

from __future__ import annotations

import json
from typing import Any

from scripted import calls, chunk, ending, growing, opening
from wholecall.inspector.captured_answer import MOST_DECODED_CHUNKS, decode_case

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def decode(*events: Any, **fields: Any) -> list[dict[str, Any]]:
    case = {"protocol": "openai-chat", "events": events, "tools": TOOLS, **fields}
    return list(decode_case(json.dumps(case))["chunks"])


def test_each_chunk_stands_beside_its_deltas_and_events() -> None:
    call = calls(("look", {"what": "up"}))
    told = decode(*call.chunks, pauses=[0.5, 0.25])
    assert [chunk["at"] for chunk in told[:3]] == [0.5, 0.75, 0.75]
    assert told[0]["deltas"] == ["CallDelta slot=0 arguments='{\"w' name='look' id='c0'"]
    assert told[0]["events"] == [
        "Opened number=0 id='c0' name='look'",
        "Grew number=0 text='{\"w'",
    ]
    assert told[1]["events"][0].startswith("Grew number=0")
    assert told[-1]["end"]
    said = [line for chunk in told for line in chunk["events"]]
    assert 'Released look {"what": "up"}' in said
    assert said[-1].startswith("Ended finish_reason='tool_calls'")


def test_what_stands_in_a_dialect_is_decoded_by_it() -> None:
    said = ('{"calls": [{"name": "look", "arguments": {"what": "up"}}]}', '{"reply": "Sky."}')
    fields = {"dialect": "constrained", "parallel_tool_calls": False}
    told = [decode(chunk({"content": each}), *ending(), **fields) for each in said]
    assert told[1][0]["deltas"] == ['Text text=\'{"reply": "Sky."}\'']
    assert told[1][0]["events"] == ["Text text='Sky.'"]
    made = [line for part in told[0] for line in part["events"]]
    assert any(line.startswith("Opened number=0") for line in made)


def test_what_was_rejected_has_its_reason() -> None:
    told = decode(opening(0, "look", arguments='{"a'), growing(0, '": "'), *ending("length"))
    said = [line for chunk in told for line in chunk["events"]]
    assert any(line.startswith("Rejected look truncated: ") for line in said)


def test_an_answer_that_used_all_its_tokens_is_decoded_as_cut() -> None:
    """As the run did, which knew the limit of its request."""
    empty = opening(0, "look", arguments="")
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 9}}
    verdicts = {
        limit: [line.split()[0] for part in told for line in part["events"] if "look" in line][1:]
        for limit in (9, 10, None)
        for told in [decode(empty, *ending("tool_calls")[:1], usage, "[DONE]", max_tokens=limit)]
    }
    assert verdicts == {9: ["Rejected"], 10: ["Released"], None: ["Released"]}


def test_words_after_a_call_make_text_of_it_as_in_the_run() -> None:
    call = '<tool_call>{"name": "look", "arguments": {"what": "up"}}</tool_call>'
    told = decode(chunk({"content": f"{call}, it says."}), *ending(), dialect="hermes")
    said = [line for part in told for line in part["events"]]
    assert any(line.startswith("Text ") and "tool_call" in line for line in said)
    assert not any(line.startswith("Released") for line in said)


def test_other_choices_are_told_as_such() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "b"}}]}
    assert "choice 1: Text text='b'" in decode(other)[0]["events"]


def test_a_whole_answer_is_one_chunk() -> None:
    body = '{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "n": 1e400}'
    case = f'{{"protocol": "openai-chat", "response": {body}}}'
    told = decode_case(case)["chunks"]
    assert told[0]["text"] == body
    assert "Text text='a'" in told[0]["events"]


def test_a_body_that_is_no_answer_is_told_as_such() -> None:
    [chunk, end] = decode_case('{"protocol": "openai-chat", "response": [1]}')["chunks"]
    assert chunk["events"]
    assert end["end"]


def test_of_a_long_answer_the_beginning_is_shown() -> None:
    case = {"protocol": "openai-chat", "events": ["\n"] * (MOST_DECODED_CHUNKS + 7)}
    told = decode_case(json.dumps(case))
    assert (len(told["chunks"]), told["left_out"]) == (MOST_DECODED_CHUNKS, 7)
