from typing import Any

import pytest
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseErrorEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseTextDeltaEvent,
)

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
from wholecall.protocols.decoder import decline
from wholecall.protocols.openai_responses.stream import Decoder

CALL = {
    "type": "function_call",
    "id": "fc",
    "call_id": "x",
    "name": "f",
    "arguments": '{"a":1}',
}
SAYING = {
    "type": "message",
    "id": "msg",
    "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"}],
}
THINKING = {
    "type": "reasoning",
    "id": "rs",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "zzz",
}
SEARCH = {"type": "web_search_call", "id": "ws", "status": "completed"}
# What the text of `SAYING` goes back with.
SAID = Reasoning("", {"message": {"id": "msg"}})
USAGE = {"input_tokens": 1, "output_tokens": 2}

COMPLETED = [HintGiven(Hint.STOP, "completed"), Terminated()]
WHOLE = CallDelta(0, '{"a":1}', "f", "x", opens=True, extras={"item_id": "fc"})
UPSTREAM = FaultKind.UPSTREAM_ERROR


def event(kind: str, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **fields}


def added(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return event("output_item.added", index, item=item)


def done(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return event("output_item.done", index, item=item)


def end(kind: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": response}


DELTA = "response.function_call_arguments.delta"
ITEMS = [
    Row(
        "a call is opened, grows, is sealed, and not repeated",
        [
            {"type": "response.created", "response": {"status": "in_progress"}},
            added({**CALL, "arguments": ""}),
            event("function_call_arguments.delta", item_id="fc", delta='{"a":1}'),
            event("function_call_arguments.done", item_id="fc", arguments='{"a":1}'),
            done(CALL),
            end(status="completed", output=[CALL], usage=USAGE),
            "[DONE]",
        ],
        [
            CallDelta(0, None, "f", "x", opens=True, extras={"item_id": "fc"}),
            CallDelta(0, '{"a":1}'),
            CallSealed(0, '{"a":1}'),
            Usage(1, 2, USAGE),
            *COMPLETED,
        ],
    ),
    Row(
        "pieces may bear the id of the call",
        [
            added({**CALL, "arguments": ""}),
            added({**CALL, "id": "fd", "call_id": "z", "arguments": ""}, 1),
            {"type": DELTA, "call_id": "x", "delta": '{"a":'},
            {"type": DELTA, "call_id": "z", "delta": '{"b":'},
            {"type": DELTA, "call_id": "x", "delta": "1}"},
        ],
        [
            CallDelta(0, None, "f", "x", opens=True, extras={"item_id": "fc"}),
            CallDelta(1, None, "f", "z", opens=True, extras={"item_id": "fd"}),
            CallDelta(0, '{"a":'),
            CallDelta(1, '{"b":'),
            CallDelta(0, "1}"),
        ],
    ),
    Row(
        "the name may come with the arguments only",
        [
            event("function_call_arguments.delta", delta='{"a":1}'),
            event("function_call_arguments.done", name="f", arguments='{"a":1}'),
        ],
        [CallDelta(0, '{"a":1}', "f", opens=True), CallSealed(0, '{"a":1}')],
    ),
    Row(
        "two calls are not repeated under ids that were made up for the end",
        [
            done(CALL),
            done({**CALL, "id": "fd", "call_id": "z"}, 1),
            end(
                output=[
                    THINKING,
                    {**CALL, "id": "m", "call_id": "n"},
                    {**CALL, "id": "o", "call_id": "p"},
                ]
            ),
        ],
        [
            WHOLE,
            CallSealed(0, '{"a":1}'),
            CallDelta(1, '{"a":1}', "f", "z", opens=True, extras={"item_id": "fd"}),
            CallSealed(1, '{"a":1}'),
            *COMPLETED,
        ],
    ),
    Row(
        "an incomplete call is not sealed",
        [done({**CALL, "status": "incomplete"})],
        [WHOLE],
    ),
    Row(
        "without an index the item's id is the slot",
        [event("function_call_arguments.delta", None, item_id="fc", delta="{"), done(CALL, None)],
        [
            CallDelta("fc", "{", "f", "x", opens=True, extras={"item_id": "fc"}),
            CallSealed("fc", '{"a":1}'),
        ],
    ),
    Row(
        "text and refusals are text, and the latter marked",
        [
            added(SAYING),
            event("output_text.delta", delta="a"),
            event("output_text.delta", delta=""),
            event("refusal.delta", delta="no"),
            done(SAYING),
            end(output=[SAYING]),
        ],
        [Text("a"), *decline("no"), SAID, *COMPLETED],
    ),
    Row(
        "text that did not come in deltas comes with its item",
        [done(SAYING), end(output=[SAYING])],
        [Text("a"), *decline("no"), SAID, *COMPLETED],
    ),
    Row("a message may be empty", [done({"type": "message"})], []),
    Row(
        "its phase is kept with its id",
        [
            done(
                {**SAYING, "phase": "commentary", "content": [{"type": "output_text", "text": "a"}]}
            )
        ],
        [Text("a"), Reasoning("", {"message": {"id": "msg", "phase": "commentary"}})],
    ),
    Row(
        "a message without an id is known by nothing",
        [done({"type": "message", "content": [{"type": "output_text", "text": "a"}]})],
        [Text("a")],
    ),
    Row(
        "reasoning comes in deltas, and its item is kept",
        [
            event("reasoning_summary_text.delta", delta="h"),
            event("reasoning_text.delta", delta="m"),
            event("reasoning_text.delta", delta=None),
            done(THINKING),
            end(output=[THINKING]),
        ],
        [Reasoning("h"), Reasoning("m"), Reasoning("", {"item": THINKING}), *COMPLETED],
    ),
    Row(
        "reasoning that did not come in deltas comes with its item",
        [done(THINKING)],
        [Reasoning("hm", {"item": THINKING})],
    ),
    Row(
        "an item of reasoning is kept for its id alone: the call behind it is refused without it",
        [done({"type": "reasoning", "id": "rs"})],
        [Reasoning("", {"item": {"type": "reasoning", "id": "rs"}})],
    ),
    Row("reasoning that holds nothing is nothing", [done({"type": "reasoning"})], []),
    Row(
        "what OpenAI's own tools did is kept when it is done",
        [added(SEARCH), event("web_search_call.searching"), done(SEARCH), end(output=[SEARCH])],
        [ProviderBlock(SEARCH), *COMPLETED],
    ),
]

ENDS = [
    Row("the end may say nothing", [{"type": "response.completed"}], COMPLETED),
    Row(
        "it tells what the stream did not",
        [end(output=[THINKING, CALL, SEARCH, SAYING])],
        [
            Reasoning("hm", {"item": THINKING}),
            CallDelta("fc", '{"a":1}', "f", "x", opens=True, extras={"item_id": "fc"}),
            CallSealed("fc", '{"a":1}'),
            ProviderBlock(SEARCH),
            Text("a"),
            *decline("no"),
            SAID,
            *COMPLETED,
        ],
    ),
    Row(
        "and only that",
        [
            event("output_text.delta", delta="a"),
            event("reasoning_text.delta", delta="hm"),
            end(output=[THINKING, SAYING]),
        ],
        [Text("a"), Reasoning("hm"), Reasoning("", {"item": THINKING}), *COMPLETED],
    ),
    Row(
        "a call whose name never came has none",
        [event("function_call_arguments.delta", delta="{"), end()],
        [CallDelta(0, "{", opens=True), *COMPLETED],
    ),
    Row(
        "the reason of an incomplete response is its hint",
        [end("incomplete", incomplete_details={"reason": "max_output_tokens"})],
        [HintGiven(Hint.LENGTH, "max_output_tokens"), Terminated()],
    ),
    Row(
        "one that nobody knows did not end well either",
        [end("incomplete", incomplete_details={"reason": "steered"}), end("incomplete")],
        [
            HintGiven(Hint.LENGTH, "steered"),
            Terminated(),
            HintGiven(Hint.LENGTH, "incomplete"),
            Terminated(),
        ],
    ),
    Row("some gateways end with response.done", [end("done")], COMPLETED),
    Row(
        "whose status decides",
        [end("done", status="incomplete", incomplete_details={"reason": "content_filter"})],
        [HintGiven(Hint.CONTENT_FILTER, "content_filter"), Terminated()],
    ),
    Row(
        "a server that waits for the results of its calls ended well",
        [end(status="requires_action"), end("requires_action")],
        [HintGiven(Hint.TOOL_CALLS, "requires_action"), Terminated()] * 2,
    ),
    Row("a status left over from the beginning does not", [end(status="in_progress")], COMPLETED),
    Row(
        "a failure is a fault",
        [end("failed", error={"code": "server_error", "message": "broken"}), end("failed")],
        [
            Fault(UPSTREAM, "broken", {"code": "server_error", "message": "broken"}),
            Fault(UPSTREAM, "the response is failed"),
        ],
    ),
    Row(
        "so is a cancelled response",
        [end("cancelled", status="completed")],
        [Fault(UPSTREAM, "the response is cancelled")],
    ),
    Row(
        "and an error, in any of its shapes",
        [
            {"type": "error", "code": "c", "message": "broken", "param": None},
            {"type": "error", "error": {"message": "broken"}},
            {"error": {"message": "broken"}},
        ],
        [
            Fault(UPSTREAM, "broken", {"code": "c", "message": "broken"}),
            Fault(UPSTREAM, "broken", {"message": "broken"}),
            Fault(UPSTREAM, "broken", {"message": "broken"}),
        ],
    ),
    Row("other events say nothing", [event("content_part.added"), {"type": "keepalive"}, ""], []),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(ITEMS + ENDS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(Decoder(), chunks) == deltas


RESPONSES = [
    Row(
        "its items come in order",
        [{"status": "completed", "output": [SAYING, CALL], "usage": USAGE}],
        [
            Text("a"),
            *decline("no"),
            SAID,
            CallDelta("fc", '{"a":1}', "f", "x", opens=True, extras={"item_id": "fc"}),
            CallSealed("fc", '{"a":1}'),
            Usage(1, 2, USAGE),
            *COMPLETED,
        ],
    ),
    Row("the status may be missing", [{"output": []}], COMPLETED),
    Row(
        "or say that the server waits for the results",
        [{"status": "requires_action", "output": []}],
        [HintGiven(Hint.TOOL_CALLS, "requires_action"), Terminated()],
    ),
    Row(
        "an answer that is not there yet is a fault",
        [{"status": "queued", "output": []}],
        [Fault(UPSTREAM, "the response is not finished, it is 'queued'"), Terminated()],
    ),
    Row(
        "and so is a failed one",
        [{"status": "failed", "error": {"message": "broken"}}],
        [Fault(UPSTREAM, "broken", {"message": "broken"}), Terminated()],
    ),
    Row(
        "and an error that is no response",
        [{"error": {"message": "broken"}}],
        [Fault(UPSTREAM, "broken", {"message": "broken"}), Terminated()],
    ),
    Row(
        "and what is nothing of it",
        [{"detail": "not found"}],
        [Fault(FaultKind.PROTOCOL, "the answer has neither output nor an error"), Terminated()],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(Decoder().decode_response(body[0])) == deltas


@pytest.mark.parametrize("payload", ["{", 5, added({"type": 5}), done({**CALL, "name": 5})])
def test_what_cannot_be_read_is_a_fault(payload: Any) -> None:
    (fault,) = Decoder().decode(payload)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL


def body(**fields: Any) -> dict[str, Any]:
    return {
        "id": "r",
        "created_at": 1,
        "model": "m",
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "completed",
        **fields,
    }


def test_events_of_the_openai_library() -> None:
    place = {"output_index": 0, "item_id": "fc", "sequence_number": 1}
    events = [
        ResponseOutputItemAddedEvent.model_validate(
            {**added({**CALL, "arguments": ""}), "sequence_number": 0}
        ),
        ResponseFunctionCallArgumentsDeltaEvent.model_validate(
            {**event("function_call_arguments.delta", delta='{"a":1}'), **place}
        ),
        ResponseFunctionCallArgumentsDoneEvent.model_validate(
            {**event("function_call_arguments.done", name="f", arguments='{"a":1}'), **place}
        ),
        ResponseOutputItemDoneEvent.model_validate({**done(CALL), "sequence_number": 2}),
        ResponseOutputItemDoneEvent.model_validate({**done(THINKING, 1), "sequence_number": 3}),
        ResponseTextDeltaEvent.model_validate(
            {
                **event("output_text.delta", 2, delta="a", item_id="msg"),
                "content_index": 0,
                "logprobs": [],
                "sequence_number": 4,
            }
        ),
        ResponseCompletedEvent.model_validate(
            {**end(**body(output=[CALL, THINKING])), "sequence_number": 5}
        ),
    ]
    assert decode(Decoder(), events) == [
        CallDelta(0, None, "f", "x", opens=True, extras={"item_id": "fc"}),
        CallDelta(0, '{"a":1}'),
        CallSealed(0, '{"a":1}'),
        Reasoning("hm", {"item": THINKING}),
        Text("a"),
        *COMPLETED,
    ]


def test_an_error_of_the_openai_library() -> None:
    error = {"type": "error", "code": "c", "message": "broken", "sequence_number": 1}
    (fault,) = Decoder().decode(ResponseErrorEvent.model_validate(error))
    assert fault == Fault(UPSTREAM, "broken", {"code": "c", "message": "broken"})


def test_an_answer_of_the_openai_library() -> None:
    usage = {
        **USAGE,
        "total_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    answer = Response.model_construct(None, **body(usage=usage, output=[CALL]))
    assert list(Decoder().decode_response(answer)) == [
        CallDelta("fc", '{"a":1}', "f", "x", opens=True, extras={"item_id": "fc"}),
        CallSealed("fc", '{"a":1}'),
        Usage(1, 2, usage),
        *COMPLETED,
    ]
