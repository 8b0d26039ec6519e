"""Events as Google documents them (https://ai.google.dev/gemini-api/docs/interactions)."""

from typing import Any

import pytest

from protocols.forms import Row, decode, in_every_form
from wholecall.events import (
    CallDelta,
    CallSealed,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    ProviderBlock,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.gemini_interactions import InteractionDecoder
from wholecall.stream import assemble, assemble_response

CALL = {"type": "function_call", "id": "x", "name": "f"}
COUNTS = {"total_input_tokens": 3, "total_output_tokens": 4, "total_thought_tokens": 5}


def start(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.start", "index": index, "step": {"type": kind, **fields}}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "step.delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"event_type": "step.stop", "index": index}


def end(status: str, **fields: Any) -> dict[str, Any]:
    return {"event_type": "interaction.completed", "interaction": {"status": status, **fields}}


CALLED = [
    {"event_type": "interaction.created", "interaction": {"status": "in_progress"}},
    {"event_type": "interaction.status_update", "status": "in_progress"},
    start(0, "function_call", id="x", name="f", arguments={}, signature=""),
    delta(0, "arguments_delta", arguments='{"a"'),
    delta(0, "arguments_delta", arguments=": 1}"),
    stop(0),
    end("requires_action"),
]
ENDED = [HintGiven(Hint.TOOL_CALLS, "requires_action"), Terminated()]
ROWS = [
    Row(
        "a call comes in pieces of text",
        CALLED,
        [
            CallDelta(0, None, "f", "x", opens=True),
            CallDelta(0, '{"a"'),
            CallDelta(0, ": 1}"),
            CallSealed(0),
            *ENDED,
        ],
    ),
    Row(
        "a signature belongs to its call",
        [
            start(1, "function_call", id="x", name="f", signature="s"),
            delta(1, "arguments_delta", arguments="{}", signature="t"),
        ],
        [
            CallDelta(1, None, "f", "x", opens=True, extras={"thought_signature": "s"}),
            CallDelta(1, "{}"),
            CallDelta(1, extras={"thought_signature": "t"}),
        ],
    ),
    Row(
        "a thought is a summary with a signature",
        [
            start(0, "thought"),
            delta(0, "thought_summary", content={"type": "text", "text": "hm"}),
            delta(0, "thought_signature", signature="s"),
            delta(0, "thought_signature", signature=""),
            stop(0),
        ],
        [Reasoning("hm"), Reasoning("", {"thought_signature": "s"})],
    ),
    Row(
        "output is text, and what is not",
        [
            start(0, "model_output", content=[{"type": "text", "text": "a"}]),
            delta(0, "text", text="b"),
            delta(0, "text", text=""),
            delta(0, "text_annotation_delta", annotations=[{"url": "u"}]),
            delta(0, "image", data="AA"),
            stop(0),
        ],
        [Text("a"), Text("b"), ProviderBlock({"type": "image", "data": "AA"})],
    ),
    Row(
        "a step of Google's own tools is one block",
        [
            start(2, "google_search_call", id="y"),
            delta(2, "google_search_call", arguments={"queries": ["q"]}),
            {"event_type": "step.delta", "index": 2},
            stop(2),
        ],
        [ProviderBlock({"type": "google_search_call", "id": "y", "arguments": {"queries": ["q"]}})],
    ),
    Row(
        "arguments without a call begin one, with a fault",
        [delta(3, "arguments_delta", arguments="{}")],
        [
            Fault(FaultKind.PROTOCOL, "input for content block 3, which is no function_call"),
            CallDelta(3, "{}", opens=True),
        ],
    ),
    Row(
        "until June 2026 a call came in one delta",
        [
            {"event_type": "content.start", "index": 0, "content": {"type": "function_call"}},
            {"event_type": "content.delta", "index": 0, "delta": {**CALL, "arguments": {"a": 1}}},
            {"event_type": "content.stop", "index": 0},
            {"event_type": "content.start", "index": 1},
            {"event_type": "content.delta", "index": 1, "delta": {"type": "text", "text": "t"}},
            {"event_type": "content.delta", "index": 2, "delta": CALL},
            {"event_type": "interaction.complete", "interaction": {"status": "requires_action"}},
        ],
        [
            CallDelta(0, None, opens=True),
            CallDelta(0, {"a": 1}, "f", "x"),
            CallSealed(0),
            Text("t"),
            CallDelta(2, None, "f", "x", opens=True),
            *ENDED,
        ],
    ),
    Row(
        "thoughts are counted with what was written",
        [end("completed", usage=COUNTS)],
        [Usage(3, 9, COUNTS), HintGiven(Hint.STOP, "completed"), Terminated()],
    ),
    Row(
        "usage without counts",
        [end("incomplete", usage={})],
        [Usage(None, None, {}), HintGiven(Hint.LENGTH, "incomplete"), Terminated()],
    ),
    Row(
        "an error is a fault",
        [{"event_type": "error", "error": {"code": "1", "message": "no"}}],
        [Fault(FaultKind.UPSTREAM_ERROR, "no", {"code": "1", "message": "no"})],
    ),
    Row(
        "an answer that failed says why",
        [end("failed", error={"message": "no"})],
        [
            Fault(FaultKind.UPSTREAM_ERROR, "no", {"message": "no"}),
            HintGiven(Hint.ERROR, "failed"),
            Terminated(),
        ],
    ),
    Row("an end without words", [{"event_type": "interaction.completed"}], [Terminated()]),
    Row("a mark and an unknown event say nothing", ["[DONE]", {"event_type": "later"}], []),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(ROWS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(InteractionDecoder(), chunks) == deltas


def test_no_event_is_a_piece() -> None:
    assert InteractionDecoder().read_piece(b"{}") is None  # type: ignore[func-returns-value]


STEPS = [
    {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
    {"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "hm"}]},
    {"type": "model_output", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
    {**CALL, "arguments": {"a": 1}},
    {"type": "google_search_result", "call_id": "y"},
    {"type": "model_output"},
]
READ = [
    Reasoning("hm"),
    Reasoning("", {"thought_signature": "s"}),
    Text("a"),
    ProviderBlock({"type": "image"}),
    CallDelta(3, {"a": 1}, "f", "x", opens=True),
    CallSealed(3),
    ProviderBlock({"type": "google_search_result", "call_id": "y"}),
]


@pytest.mark.parametrize("field", ["steps", "outputs"])
def test_a_whole_answer(field: str) -> None:
    body = {"object": "interaction", "status": "requires_action", field: STEPS}
    assert list(InteractionDecoder().decode_response(body)) == [*READ, *ENDED]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"status": "in_progress", "steps": [CALL]}, FaultKind.PROTOCOL),
        ({}, FaultKind.PROTOCOL),
        ({"steps": 5}, FaultKind.PROTOCOL),
        ({"error": {"message": "no"}}, FaultKind.UPSTREAM_ERROR),
    ],
)
def test_an_answer_that_is_none_is_a_fault(body: dict[str, Any], kind: FaultKind) -> None:
    fault, ended = InteractionDecoder().decode_response(body)
    assert isinstance(fault, Fault)
    assert fault.kind is kind
    assert ended == Terminated()


def test_an_answer_without_steps_is_empty() -> None:
    deltas = list(InteractionDecoder().decode_response({"status": "completed"}))
    assert deltas == [HintGiven(Hint.STOP, "completed"), Terminated()]


TOOLS = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]


def test_calls_are_read_from_a_stream_and_from_a_whole_answer() -> None:
    streamed = assemble("gemini-interactions", CALLED, tools=TOOLS)
    assert [each.arguments for each in streamed.calls] == [{"a": 1}]
    body = {"status": "requires_action", "steps": [{**CALL, "arguments": {"a": 1}}]}
    whole = assemble_response("gemini-interactions", body, tools=TOOLS)
    assert [each.arguments for each in whole.calls] == [{"a": 1}]


@pytest.mark.parametrize("count", range(len(CALLED) - 1))
def test_a_cut_stream_runs_nothing(count: int) -> None:
    outcome = assemble("gemini-interactions", [*CALLED[:count], "!EOF"], tools=TOOLS)
    assert outcome.calls == ()
    assert outcome.error
