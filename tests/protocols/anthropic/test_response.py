from __future__ import annotations

from typing import Any

import pytest

from encoded_answers import HEAD, LIVE, encode, ended, grown, make_call, payloads, take_apart
from wholecall.events import Event, Grew, Opened, ProviderBlock, Reasoning, Released, Text, Usage
from wholecall.protocols.registry import encode_answer, make_encoder
from wholecall.protocols.response_base import Failure, ResponseStyle

NATIVE = ResponseStyle(upstream="anthropic")
MESSAGE = {
    "id": "resp_7",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "system_fingerprint": "fp",
}
TOOL_USE = {"type": "tool_use", "id": "call_0", "name": "weather"}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
EMPTY_THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def content(*events: Event, style: ResponseStyle | None = None) -> list[str]:
    """The content blocks of a stream in short: what starts, grows and stops, and where."""
    frames = take_apart(encode("anthropic", [*events, ended()], style=style))
    assert all(frame.name == frame.payload["type"] for frame in frames)
    return [_shorten(frame.payload) for frame in frames[1:-2]]


def _shorten(payload: Any) -> str:
    match payload:
        case {"type": "content_block_start", "index": index, "content_block": block}:
            return f"{index} start {block['type']}"
        case {"type": "content_block_delta", "index": index, "delta": {"type": kind, **rest}}:
            [text] = rest.values()
            return f"{index} {kind} {text}"
        case {"type": "content_block_stop", "index": index}:
            return f"{index} stop"
    raise AssertionError(payload)


@pytest.mark.parametrize(
    ("says", "events", "expected"),
    [
        (
            "text is one block until something else comes",
            [Text("a"), Text("b"), Reasoning("c"), Text("d")],
            [
                "0 start text",
                "0 text_delta a",
                "0 text_delta b",
                "0 stop",
                "1 start thinking",
                "1 thinking_delta c",
                "1 stop",
                "2 start text",
                "2 text_delta d",
                "2 stop",
            ],
        ),
        (
            "a signature ends the thinking that it signs",
            [Reasoning("a"), Reasoning("", {"signature": "s"}), Reasoning("b")],
            [
                "0 start thinking",
                "0 thinking_delta a",
                "0 signature_delta s",
                "0 stop",
                "1 start thinking",
                "1 thinking_delta b",
                "1 stop",
            ],
        ),
        (
            "thinking that is not shown has a signature all the same",
            [Reasoning("", {"signature": "s"})],
            ["0 start thinking", "0 signature_delta s", "0 stop"],
        ),
        (
            "redacted thinking is a block of its own",
            [Text("a"), Reasoning("", {"redacted_thinking": "x"})],
            ["0 start text", "0 text_delta a", "0 stop", "1 start redacted_thinking", "1 stop"],
        ),
        ("what belongs to others is dropped", [Reasoning("", {"item": {}})], []),
        (
            "a call is a block with one delta",
            [Text("a"), *grown(make_call()), *grown(make_call(1, {}))],
            [
                "0 start text",
                "0 text_delta a",
                "0 stop",
                "1 start tool_use",
                '1 input_json_delta {"city":"Oslo"}',
                "1 stop",
                "2 start tool_use",
                "2 input_json_delta {}",
                "2 stop",
            ],
        ),
        ("what another provider did is not shown", [ProviderBlock(SEARCH)], []),
    ],
)
def test_blocks(says: str, events: list[Event], *, expected: list[str]) -> None:
    assert content(*events) == expected, says


def test_live_calls_grow_side_by_side() -> None:
    first, second = make_call(0, {"a": 1}), make_call(1, {})
    events: list[Event] = [
        Text("x"),
        Opened(0, "call_0", "weather"),
        Grew(0, '{"a"'),
        Opened(1, "call_1", "weather"),
        Grew(0, ": 1}"),
        Text("y"),
        Released(first),
        Released(second),
    ]
    assert content(*events, style=LIVE) == [
        "0 start text",
        "0 text_delta x",
        "0 stop",
        "1 start tool_use",
        '1 input_json_delta {"a"',
        "2 start tool_use",
        "1 input_json_delta : 1}",
        "3 start text",
        "3 text_delta y",
        "1 stop",
        "2 input_json_delta {}",
        "2 stop",
        "3 stop",
    ]


def test_the_starts_of_blocks() -> None:
    events = [
        Text("a"),
        Reasoning("b"),
        *grown(make_call(extras={"caller": {"type": "direct"}, "item_id": "fc_1"})),
        ProviderBlock(SEARCH),
        Reasoning("", {"redacted_thinking": "x"}),
        ended(),
    ]
    starts = [
        payload["content_block"]
        for payload in payloads(encode("anthropic", events, style=NATIVE))
        if payload["type"] == "content_block_start"
    ]
    assert starts == [
        {"type": "text", "text": ""},
        EMPTY_THINKING,
        {**TOOL_USE, "input": {}, "caller": {"type": "direct"}},
        SEARCH,
        {"type": "redacted_thinking", "data": "x"},
    ]
    live = payloads(encode("anthropic", [*grown(make_call()), ended()], style=LIVE))
    assert live[1]["content_block"] == {**TOOL_USE, "input": {}}


def test_the_frame_of_a_message() -> None:
    start, delta, stop = payloads(encode("anthropic", [Usage(3, 4), ended("length")]))
    nothing = {"input_tokens": 0, "output_tokens": 0}
    unknown = {"stop_reason": None, "stop_sequence": None}
    assert start == {
        "type": "message_start",
        "message": {**MESSAGE, "content": [], **unknown, "usage": nothing},
    }
    assert delta["type"] == "message_delta"
    assert delta["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}
    assert delta["usage"].items() >= {"input_tokens": 3, "output_tokens": 4}.items()
    assert stop == {"type": "message_stop"}


@pytest.mark.parametrize(
    ("reason", "native", "expected"),
    [
        ("stop", None, "end_turn"),
        ("stop", "completed", "end_turn"),
        ("stop", "stop_sequence", "stop_sequence"),
        ("stop", "pause_turn", "pause_turn"),
        ("length", "length", "max_tokens"),
        ("length", "model_context_window_exceeded", "model_context_window_exceeded"),
        ("length", "stop_sequence", "max_tokens"),
        ("content_filter", "content_filter", "refusal"),
    ],
)
def test_stop_reasons(reason: str, native: str | None, *, expected: str) -> None:
    delta = payloads(encode("anthropic", [ended(reason, native)]))[-2]
    assert delta["delta"]["stop_reason"] == expected
    body = encode_answer("anthropic", [ended(reason, native)], head=HEAD)
    assert body["stop_reason"] == expected


def test_an_error_is_an_event_and_leaves_blocks_open() -> None:
    encoder = make_encoder("anthropic", HEAD)
    encoder.encode(Text("a"))
    [frame] = take_apart(encoder.fail(Failure(message="busy", status=529)))
    error = {"type": "overloaded_error", "message": "busy"}
    assert frame == ("error", {"type": "error", "error": error})


def test_a_ping_keeps_a_message_alive_and_progress_is_a_comment() -> None:
    encoder = make_encoder("anthropic", HEAD)
    encoder.begin()
    assert take_apart(encoder.keep_alive()) == [("ping", {"type": "ping"})]
    assert encoder.report({"turn": 1}) == b': wholecall {"turn":1}\n\n'


def test_a_body() -> None:
    events = [
        Reasoning("a"),
        Reasoning("", {"signature": "s"}),
        Reasoning("", {"redacted_thinking": "x"}),
        Text("Hi"),
        ProviderBlock(SEARCH),
        *grown(make_call()),
        Reasoning("b"),
        Usage(3, 4, {"input_tokens": 3, "output_tokens": 4}),
        ended("tool_calls"),
    ]
    body = encode_answer("anthropic", events, head=HEAD, upstream="anthropic")
    blocks = [
        {"type": "thinking", "thinking": "a", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "Hi"},
        SEARCH,
        {**TOOL_USE, "input": {"city": "Oslo"}},
        {"type": "thinking", "thinking": "b", "signature": ""},
    ]
    assert body == {
        **MESSAGE,
        "content": blocks,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    elsewhere = encode_answer("anthropic", events, head=HEAD, upstream="gemini")
    assert SEARCH not in elsewhere["content"]
