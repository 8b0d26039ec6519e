"""A call as each protocol prescribes it: nothing about it is odd."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.events import Oddity, collect
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import NAMES

ARGUMENTS = {"city": "Oslo"}
TEXT = '{"city": "Oslo"}'
FUNCTION = {"name": "weather", "arguments": TEXT}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "c_1", **FUNCTION}
RESPONSE = {"status": "completed", "output": [ITEM]}
BARE = {"name": "weather", "arguments": ARGUMENTS}
CANDIDATE = {
    "content": {"parts": [{"functionCall": {"name": "weather", "args": ARGUMENTS}}]},
    "finishReason": "STOP",
}
USE = {"type": "tool_use", "id": "t_1", "name": "weather"}
STEP = {"type": "function_call", "id": "c_1", "name": "weather"}
CONVERSE_USE = {"toolUseId": "t_1", "name": "weather"}


def say(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


STREAMS: dict[str, list[Any]] = {
    "openai-chat": [
        say(tool_calls=[{"index": 0, "id": "c_1", "function": {**FUNCTION, "arguments": ""}}]),
        say(tool_calls=[{"index": 0, "function": {"arguments": TEXT}}]),
        say("tool_calls"),
        "data: [DONE]\n\n",
    ],
    "openai-responses": [
        event("response.output_item.added", output_index=0, item={**ITEM, "arguments": ""}),
        event("response.function_call_arguments.delta", output_index=0, delta=TEXT),
        event("response.function_call_arguments.done", output_index=0, arguments=TEXT),
        event("response.output_item.done", output_index=0, item=ITEM),
        event("response.completed", response=RESPONSE),
    ],
    "anthropic": [
        event("content_block_start", index=0, content_block={**USE, "input": {}}),
        event("content_block_delta", index=0, delta={"partial_json": TEXT}),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use"}),
        event("message_stop"),
    ],
    "ollama": [
        {"message": {"tool_calls": [{"function": BARE}]}, "done": False},
        {"message": {"content": ""}, "done": True, "done_reason": "stop"},
    ],
    "gemini": [{"candidates": [CANDIDATE]}],
    "bedrock-converse": [
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": CONVERSE_USE}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": TEXT}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
    ],
    "bedrock-invoke": [
        {"chunk": {"bytes": json.dumps(each).encode()}}
        for each in (
            event("content_block_start", index=0, content_block={**USE, "input": {}}),
            event("content_block_delta", index=0, delta={"partial_json": TEXT}),
            event("content_block_stop", index=0),
            event("message_delta", delta={"stop_reason": "tool_use"}),
            event("message_stop"),
        )
    ],
    "cohere": [
        event(
            "tool-call-start",
            index=0,
            delta={
                "message": {"tool_calls": {"id": "c_1", "function": {**FUNCTION, "arguments": ""}}}
            },
        ),
        event(
            "tool-call-delta",
            index=0,
            delta={"message": {"tool_calls": {"function": {"arguments": TEXT}}}},
        ),
        event("tool-call-end", index=0),
        event("message-end", delta={"finish_reason": "TOOL_CALL"}),
    ],
    "gemini-interactions": [
        {"event_type": "step.start", "index": 0, "step": {**STEP, "arguments": {}}},
        {
            "event_type": "step.delta",
            "index": 0,
            "delta": {"type": "arguments_delta", "arguments": TEXT},
        },
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": {"status": "requires_action"}},
    ],
}
WHOLE: dict[str, Any] = {
    "openai-chat": {
        "choices": [
            {
                "message": {"tool_calls": [{"id": "c_1", "function": FUNCTION}]},
                "finish_reason": "tool_calls",
            }
        ]
    },
    "openai-responses": RESPONSE,
    "anthropic": {"content": [{**USE, "input": ARGUMENTS}], "stop_reason": "tool_use"},
    "ollama": {
        "message": {"tool_calls": [{"function": BARE}]},
        "done": True,
        "done_reason": "stop",
    },
    "gemini": {"candidates": [CANDIDATE]},
    "bedrock-converse": {
        "output": {"message": {"content": [{"toolUse": {**CONVERSE_USE, "input": ARGUMENTS}}]}},
        "stopReason": "tool_use",
    },
    "bedrock-invoke": {"content": [{**USE, "input": ARGUMENTS}], "stop_reason": "tool_use"},
    "cohere": {
        "message": {"tool_calls": [{"id": "c_1", "function": FUNCTION}]},
        "finish_reason": "TOOL_CALL",
    },
    "gemini-interactions": {
        "status": "requires_action",
        "steps": [{**STEP, "arguments": ARGUMENTS}],
    },
}


@pytest.mark.parametrize("protocol", NAMES)
def test_a_stream_as_it_should_be_is_not_odd(protocol: str) -> None:
    reader = Reader(protocol)
    events = [event for chunk in STREAMS[protocol] for event in reader.feed(chunk)]
    outcome = collect([*events, *reader.end()])
    assert [call.arguments for call in outcome.calls] == [ARGUMENTS]
    assert not outcome.inconsistencies


@pytest.mark.parametrize("protocol", NAMES)
def test_a_whole_answer_as_it_should_be_is_not_odd(protocol: str) -> None:
    reader = Reader(protocol)
    outcome = collect([*reader.feed_response(WHOLE[protocol]), *reader.end()])
    assert [call.arguments for call in outcome.calls] == [ARGUMENTS]
    assert not outcome.inconsistencies


def test_the_same_is_odd_where_it_is_not_prescribed() -> None:
    reader = Reader("openai-chat")
    called = say("stop", tool_calls=[{"index": 0, "function": BARE}])
    outcome = collect([*reader.feed(called), *reader.feed("data: [DONE]\n\n"), *reader.end()])
    assert {each.oddity for each in outcome.inconsistencies} == {
        Oddity.ARGUMENTS_OBJECT,
        Oddity.ID_MISSING,
        Oddity.CALLS_WITH_OTHER_HINT,
    }
