"""Answers that an upstream only quotes in its error."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from wholecall.dialects.rescue import RescuingAssembler
from wholecall.events import Event, Fault, Outcome, Reason, collect
from wholecall.protocols.reader import Reader, quoted_answer

TOOLS = [{"name": "weather", "parameters": {"type": "object"}}]
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
LLAMA = {"code": 500, "message": f"Failed to parse input at pos 3: {CALL}", "type": "server_error"}
OLLAMA = f"error parsing tool call: raw='{CALL}', err=invalid character"
GROQ = {"message": "Failed to call a function.", "code": "tool_use_failed"}
QUOTING = {**GROQ, "failed_generation": CALL}
WRAPPED = json.dumps({"error": QUOTING})
DEEP: Any = QUOTING
for _ in range(7):
    DEEP = {"error": DEEP}
UNQUOTED = Reason.MALFORMED_BY_PROVIDER
ROWS: list[tuple[str, Any, str | None]] = [
    ("openai-chat", LLAMA, CALL),
    ("openai-chat", QUOTING, CALL),
    ("openai-chat", {"message": OLLAMA}, CALL),
    ("ollama", OLLAMA, CALL),
    # What gateways pass on: as a field, and after words of their own.
    ("openai-chat", {"message": "Provider returned error", "metadata": {"raw": WRAPPED}}, CALL),
    ("openai-chat", {"message": f"GroqException - {WRAPPED}\nModel Group=m"}, CALL),
    # The model's answer was at fault, and is not quoted.
    ("openai-chat", {"message": "Failed to parse input at pos 3: "}, ""),
    ("openai-chat", {"message": "error parsing tool call: raw='', err=unexpected end"}, ""),
    ("openai-chat", {**GROQ, "failed_generation": " "}, ""),
    ("openai-chat", {**GROQ, "failed_generation": 7}, ""),
    ("openai-chat", {**GROQ, "failed_generation": "Tool use failed: no match"}, ""),
    ("openai-chat", {"message": "failed_generation {"}, None),
    # The error is about something else.
    ("openai-chat", {"message": "out of memory"}, None),
    ("openai-chat", {"message": "Failed to parse tool call arguments as JSON: …"}, None),
    ("openai-chat", {"message": "busy", "metadata": DEEP}, None),
    ("openai-chat", {"message": "busy", "code": []}, None),
    ("openai-chat", {"message": "invalid tool call id 'x'"}, None),
]
UNREADABLE = (
    "The model produced output that does not match the expected peg-native format",
    "XML syntax error on line 8: element <function> closed by </parameter>",
    "failed to parse XML: XML syntax error on line 1: element <tool_call> closed by </arg_value>",
    "expected element type <function> but have <parameter>",
    "error parsing tool call: invalid character 'c' looking for beginning of value",
    'llama-server returned invalid tool call arguments for "f": unexpected end of JSON input',
    "incomplete GLM tool call: EOF",
    "invalid tool call: no matching closing parenthesis",
    "failed to parse Laguna JSON tool call: EOF",
    'failed to parse function call "f(": invalid function call format',
    "mismatched arg_key and arg_value counts: 2 keys, 1 values",
    "tool call validation failed: parameters for tool f did not match schema: errors: [`/d`: …]",
)


def read(protocol: str, *payloads: Any, tools: Any = TOOLS) -> list[Event]:
    make = partial(RescuingAssembler, may_start=None)
    reader = Reader(protocol, tools, new_assembler=make)
    events = [event for payload in payloads for event in reader.feed(payload)]
    return events + reader.end()


def outcome(*payloads: Any, tools: Any = TOOLS) -> Outcome:
    return collect(read("openai-chat", *payloads, tools=tools))


@pytest.mark.parametrize(("protocol", "error", "said"), ROWS)
def test_a_quoted_answer_is_found(*, protocol: str, error: Any, said: str | None) -> None:
    message = error if isinstance(error, str) else error["message"]
    assert quoted_answer(message, error) == said
    ended = collect(read(protocol, {"error": error}))
    assert [call.name for call in ended.calls] == (["weather"] if said else [])
    assert [each.reason for each in ended.rejected] == ([UNQUOTED] if said == "" else [])
    assert (ended.error is None) == bool(said)


@pytest.mark.parametrize("message", UNREADABLE)
def test_what_servers_say_of_an_answer_that_they_cannot_read(message: str) -> None:
    (rejected,) = outcome({"error": {"message": message, "code": 500}}).rejected
    assert (rejected.reason, rejected.detail, rejected.raw) == (UNQUOTED, message, "")


@pytest.mark.parametrize(("error", "said"), [({}, None), (GROQ, ""), (QUOTING, CALL)])
def test_words_do_not_show_that_a_refused_request_was_answered(
    error: dict[str, Any], said: str | None
) -> None:
    for message in UNREADABLE:
        assert quoted_answer(message, {**error, "message": message}, blames_request=True) == said


def test_nothing_after_a_quoted_answer_counts() -> None:
    more = {"choices": [{"index": 0, "delta": {"content": "more"}}]}
    ended = outcome({"error": LLAMA}, more)
    assert len(ended.calls) == 1
    assert ended.text == ""
    lines = f"data: {json.dumps({'error': LLAMA})}\n\ndata: {json.dumps(more)}\n\n"
    (call,) = outcome(lines.encode()).calls
    assert call.arguments == {"city": "Oslo"}


def test_half_a_call_is_a_bad_call() -> None:
    half = CALL[:40]
    ended = outcome({"error": {"message": f"Failed to parse input at pos 0: {half}"}})
    assert not ended.calls
    assert ended.text == ""
    assert ended.error is None
    assert ended.rejected


def test_words_are_a_bad_call_and_are_not_shown() -> None:
    ended = outcome({"error": {**GROQ, "failed_generation": "I would call weather."}})
    (rejected,) = ended.rejected
    assert (rejected.reason, rejected.raw) == (Reason.BAD_MARKUP, "I would call weather.")
    assert rejected.detail == "Failed to call a function."
    assert ended.text == ""


def test_an_error_after_a_call_or_without_tools_stays_an_error() -> None:
    function = {"name": "weather", "arguments": "{}"}
    call = {"index": 0, "id": "a", "type": "function", "function": function}
    begun = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    assert outcome(begun, {"error": LLAMA}).error is not None
    assert any(
        isinstance(event, Fault) for event in read("openai-chat", {"error": LLAMA}, tools=())
    )
