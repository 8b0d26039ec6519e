"""Answers of OpenAI's chat protocol that are not streamed."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from protocols.forms import Row, in_every_form
from wholecall.events import (
    CallDelta,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    OfChoice,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.openai_chat.stream import Decoder

UPSTREAM = FaultKind.UPSTREAM_ERROR
STOP = HintGiven(Hint.STOP, "stop")
LEGACY = "function_call"

RESPONSES = [
    Row(
        "a message is a delta that is whole",
        [
            {
                "object": "chat.completion",
                "choices": [
                    {
                        "message": {
                            "content": "a",
                            "tool_calls": [
                                {"id": "x", "function": {"name": "f", "arguments": "{}"}}
                            ],
                        },
                        "finish_reason": "tool_calls",
                    }
                ],
                "usage": {"prompt_tokens": 1},
            }
        ],
        [
            Text("a"),
            CallDelta(0, "{}", "f", "x"),
            HintGiven(Hint.TOOL_CALLS, "tool_calls"),
            Usage(1, None, {"prompt_tokens": 1}),
            Terminated(),
        ],
    ),
    Row(
        "choices without an index are numbered by their place",
        [{"choices": [{"message": {"content": "a"}}, None, {"message": {"content": "c"}}]}],
        [Text("a"), OfChoice(2, Text("c")), Terminated()],
    ),
    Row(
        "a function_call needs no finish reason",
        [{"choices": [{"message": {"function_call": {"name": "f", "arguments": "{}"}}}]}],
        [CallDelta(LEGACY, "{}", "f"), Terminated()],
    ),
    Row(
        "an error is a fault",
        [{"error": {"message": "broken"}}],
        [Fault(UPSTREAM, "broken", {"message": "broken"}), Terminated()],
    ),
    Row(
        "it may stand in an envelope",
        [
            {
                "success": True,
                "data": {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]},
            }
        ],
        [Text("a"), HintGiven(Hint.STOP, "stop"), Terminated()],
    ),
    Row(
        "an envelope of something else is none",
        [{"success": False, "data": {"id": 1}}],
        [
            Fault(FaultKind.PROTOCOL, "the answer has neither choices nor an error"),
            Terminated(),
        ],
    ),
    Row(
        "an answer without an answer is one too",
        [{"choices": []}],
        [
            Fault(FaultKind.PROTOCOL, "the answer has neither choices nor an error"),
            Terminated(),
        ],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(Decoder().decode_response(body[0])) == deltas


def test_an_answer_of_the_openai_library() -> None:
    body = ChatCompletion.model_validate(
        {
            "id": "c",
            "created": 1,
            "model": "m",
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "x",
                                "type": "function",
                                "function": {"name": "f", "arguments": "{}"},
                            }
                        ],
                    },
                }
            ],
        }
    )
    assert list(Decoder().decode_response(body)) == [
        CallDelta(0, "{}", "f", "x"),
        STOP,
        Terminated(),
    ]


def test_the_calls_of_a_whole_answer_are_numbered_where_no_index_says_otherwise() -> None:
    entries = [None, {"id": "a", "function": {"name": "f"}}, {"id": "b", "index": 7}]
    body = {"choices": [{"message": {"tool_calls": entries}}, {"finish_reason": "stop"}]}
    deltas = list(Decoder().decode_response(body))
    assert [delta.slot for delta in deltas if isinstance(delta, CallDelta)] == [1, 7]
