"""Answers of OpenAI's chat protocol that are not streamed."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from protocols.forms import Row, in_every_form
from wholecall.events import (
    CallDelta,
    Event,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    OfChoice,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.openai_chat.stream import Decoder, read_plain
from wholecall.protocols.reader import Reader, read_whole_answer

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


# ── The usual answer, read at once ──────────────────────────────────────────────────

PLAIN: dict[str, Any] = {
    "object": "chat.completion",
    "choices": [
        {"index": 0, "message": {"content": "Hello.", "refusal": None}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}


def _vary(message: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    first = PLAIN["choices"][0]
    said = first["message"] if message is None else {**first["message"], **message}
    return {**PLAIN, "choices": [{**first, "message": said, **choice}]}


def _read_slowly(body: bytes) -> list[Event]:
    reader = Reader("openai-chat")
    return [*reader.feed_response(body), *reader.end()]


@pytest.mark.parametrize(
    "answer",
    [PLAIN, {**PLAIN, "usage": None}, {**PLAIN, "usage": [1]}, _vary(index=None)],
)
def test_a_plain_answer_is_read_at_once(answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    assert read_plain(body) == _read_slowly(body) == read_whole_answer("openai-chat", body)


@pytest.mark.parametrize(
    "answer",
    [
        {**PLAIN, "error": {"message": "no"}},
        {**PLAIN, "choices": []},
        {**PLAIN, "choices": PLAIN["choices"] * 2},
        {**PLAIN, "choices": [None]},
        {"data": PLAIN},
        {**PLAIN, "choices": "none"},
        _vary(index=1),
        _vary(delta={"content": "a"}),
        _vary(error={"message": "no"}),
        _vary(logprobs={"content": []}),
        _vary(finish_reason="length"),
        _vary(finish_reason=None),
        _vary(finish_reason="STOP"),
        _vary({"content": ""}),
        _vary({"content": None}),
        _vary({"content": [{"type": "text", "text": "a"}]}),
        _vary({"refusal": "no"}),
        _vary({"reasoning": "hm"}),
        _vary({"reasoning_content": "hm"}),
        _vary({"annotations": [{"url": "a"}]}),
        _vary({"images": [{"url": "a"}]}),
        _vary({"audio": {"id": "a"}}),
        _vary({"function_call": {"name": "f", "arguments": "{}"}}),
        _vary({"tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}]}),
        {**PLAIN, "choices": [{"index": 0, "finish_reason": "stop"}]},
    ],
)
def test_any_other_answer_is_left_to_the_reader(answer: dict[str, Any]) -> None:
    body = json.dumps(answer).encode()
    assert read_plain(body) is None
    read, slowly = read_whole_answer("openai-chat", body), _read_slowly(body)
    # A call without an id gets a random one.
    assert list(map(type, read)) == list(map(type, slowly))


@pytest.mark.parametrize("body", [b"", b"no", b"\xff", b"[" * 100_000])
def test_what_is_not_an_answer_is_left_to_the_reader(body: bytes) -> None:
    assert read_plain(body) is None
    assert read_whole_answer("openai-chat", body) == _read_slowly(body)


def test_a_protocol_without_a_shortcut_has_a_reader() -> None:
    body = json.dumps({"type": "message", "content": [{"type": "text", "text": "a"}]}).encode()
    assert Text("a") in read_whole_answer("anthropic", body)
