from typing import Any

import pytest
from anthropic.types import (
    Message,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
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
from wholecall.protocols.anthropic.stream import Decoder


def start(index: int | None, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def tool(index: int | None, id: str = "x", **fields: Any) -> dict[str, Any]:
    return start(index, **{"type": "tool_use", "id": id, "name": "f", "input": {}, **fields})


def grow(index: int | None, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def piece(index: int | None, text: Any) -> dict[str, Any]:
    return grow(index, "input_json_delta", partial_json=text)


def stop(index: int | None) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


TOOL_USE = HintGiven(Hint.TOOL_CALLS, "tool_use")
OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}
OVERLOAD = Fault(FaultKind.UPSTREAM_ERROR, "Overloaded", OVERLOADED)


def opened(slot: int, id: str = "x") -> CallDelta:
    return CallDelta(slot, None, "f", id, opens=True)


def orphaned(index: int) -> Fault:
    return Fault(FaultKind.PROTOCOL, f"input for content block {index}, which is no tool_use")


CALLS = [
    Row(
        "a tool_use opens, grows and is sealed",
        [tool(0), piece(0, ""), piece(0, '{"a"'), piece(0, ":1}"), stop(0)],
        [opened(0), CallDelta(0, '{"a"'), CallDelta(0, ":1}"), CallSealed(0)],
    ),
    Row(
        "calls may be interleaved",
        [tool(0), tool(1, "y"), piece(0, "{"), piece(1, "["), stop(1), stop(0)],
        [
            opened(0),
            opened(1, "y"),
            CallDelta(0, "{"),
            CallDelta(1, "["),
            CallSealed(1),
            CallSealed(0),
        ],
    ),
    Row(
        "the input may come with the start",
        [tool(0, input={"a": 1}), stop(0)],
        [CallDelta(0, {"a": 1}, "f", "x", opens=True), CallSealed(0)],
    ),
    Row(
        "it may come as an object, too",
        [tool(0), piece(0, {"a": 1}), stop(0)],
        [opened(0), CallDelta(0, {"a": 1}), CallSealed(0)],
    ),
    Row(
        "what is no object is for the assembler to reject",
        [tool(0), piece(0, [1]), stop(0)],
        [opened(0), CallDelta(0, "[1]"), CallSealed(0)],
    ),
    Row(
        "who calls is kept",
        [tool(0, caller={"type": "direct"}, toolset_name="t")],
        [
            CallDelta(
                0,
                None,
                "f",
                "x",
                opens=True,
                extras={"caller": {"type": "direct"}, "toolset_name": "t"},
            )
        ],
    ),
    Row(
        "the index may be missing",
        [tool(None), piece(None, "{"), stop(None), tool(None, "y"), stop(None)],
        [opened(0), CallDelta(0, "{"), CallSealed(0), opened(1, "y"), CallSealed(1)],
    ),
    Row(
        "an index may be used again",
        [tool(0), stop(0), tool(0, "y"), piece(0, "{"), stop(0)],
        [opened(0), CallSealed(0), opened(0, "y"), CallDelta(0, "{"), CallSealed(0)],
    ),
    Row(
        "input for a block that never started is a fault, and a call without a name",
        [piece(1, "{"), piece(1, "}"), stop(1)],
        [orphaned(1), CallDelta(1, "{", opens=True), CallDelta(1, "}"), CallSealed(1)],
    ),
    Row(
        "and so is input for a block of text",
        [tool(0), stop(0), start(0, type="text", text=""), piece(0, "{")],
        [opened(0), CallSealed(0), orphaned(0), CallDelta(0, "{", opens=True)],
    ),
    Row("the stop of a block that never started is nothing", [stop(0)], []),
]

WORDS = [
    Row(
        "text comes in deltas",
        [start(0, type="text", text=""), grow(0, "text_delta", text="a"), stop(0)],
        [Text("a")],
    ),
    Row("or with the start", [start(0, type="text", text="a"), stop(0)], [Text("a")]),
    Row("or for a block that never started", [grow(3, "text_delta", text="a")], [Text("a")]),
    Row(
        "thinking is reasoning, and its signature is kept",
        [
            start(0, type="thinking", thinking="", signature=""),
            grow(0, "thinking_delta", thinking="hm"),
            grow(0, "signature_delta", signature="s"),
            stop(0),
        ],
        [Reasoning("hm"), Reasoning("", {"signature": "s"})],
    ),
    Row(
        "redacted thinking is kept",
        [start(0, type="redacted_thinking", data="zzz"), stop(0)],
        [Reasoning("", {"redacted_thinking": "zzz"})],
    ),
    Row(
        "citations belong to the text before them",
        [grow(0, "citations_delta", citation={"title": "t"})],
        [Reasoning("", {"citations": [{"title": "t"}]})],
    ),
    Row("what is no citation is none", [grow(0, "citations_delta", citation=None)], []),
    Row("a delta may be missing", [{"type": "content_block_delta", "index": 0}], []),
]

BLOCKS = [
    Row(
        "a server tool is no call of ours; its input is put together",
        [
            start(0, type="server_tool_use", id="s", name="web_search", input={}),
            piece(0, '{"query":'),
            piece(0, '"x"}'),
            stop(0),
        ],
        [
            ProviderBlock(
                {
                    "type": "server_tool_use",
                    "id": "s",
                    "name": "web_search",
                    "input": {"query": "x"},
                }
            )
        ],
    ),
    Row(
        "its input as an object",
        [start(0, type="mcp_tool_use", input={}), piece(0, {"q": 1}), stop(0)],
        [ProviderBlock({"type": "mcp_tool_use", "input": {"q": 1}})],
    ),
    Row(
        "an input that was cut is kept as text",
        [start(0, type="mcp_tool_use", input={}), piece(0, '{"q'), stop(0)],
        [ProviderBlock({"type": "mcp_tool_use", "input": {}, "partial_json": '{"q'})],
    ),
    Row(
        "a result is kept as it came",
        [start(0, type="web_search_tool_result", content=[{"url": "u"}]), stop(0)],
        [ProviderBlock({"type": "web_search_tool_result", "content": [{"url": "u"}]})],
    ),
    Row(
        "so is a block that nobody knows, with what its deltas add",
        [
            start(0, type="compaction", content=None),
            grow(0, "compaction_delta", content="short", encrypted_content="zzz"),
            stop(0),
            stop(0),
        ],
        [ProviderBlock({"type": "compaction", "content": "short", "encrypted_content": "zzz"})],
    ),
    Row("a block that does not stop is not whole", [start(0, type="new")], []),
]

MESSAGE = [
    Row(
        "usage comes at the start and at the end",
        [
            {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 3}}},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 5},
            },
            {"type": "message_stop"},
        ],
        [
            Usage(3, None, {"input_tokens": 3}),
            TOOL_USE,
            Usage(None, 5, {"output_tokens": 5}),
            Terminated(),
        ],
    ),
    Row(
        "all of it may be missing",
        [
            {"type": "message_start"},
            {"type": "message_start", "message": {"content": ""}},
            {"type": "message_delta"},
            {"type": "message_delta", "delta": {"stop_reason": None}},
        ],
        [],
    ),
    Row("a ping is nothing", [{"type": "ping"}, {"type": "of_a_later_version"}, {}, "[DONE]"], []),
    Row(
        "an error is a fault, whether it says so or not",
        [{"type": "error", "error": OVERLOADED}, {"error": OVERLOADED}, {"type": "error"}],
        [OVERLOAD, OVERLOAD, Fault(FaultKind.UPSTREAM_ERROR, "error")],
    ),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(CALLS + WORDS + BLOCKS + MESSAGE))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(Decoder(), chunks) == deltas


RESPONSES = [
    Row(
        "its blocks start and stop at once",
        [
            {
                "type": "message",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "a"},
                    {"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}},
                    {"type": "tool_use", "id": "y", "name": "f", "input": {}},
                    {"type": "server_tool_use", "id": "s", "input": {"q": 1}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 3, "output_tokens": 5},
            }
        ],
        [
            Reasoning("hm"),
            Reasoning("", {"signature": "s"}),
            Text("a"),
            CallDelta(2, {"a": 1}, "f", "x", opens=True),
            CallSealed(2),
            opened(3, "y"),
            CallSealed(3),
            ProviderBlock({"type": "server_tool_use", "id": "s", "input": {"q": 1}}),
            Usage(3, 5, {"input_tokens": 3, "output_tokens": 5}),
            TOOL_USE,
            Terminated(),
        ],
    ),
    Row(
        "a plain text is one block of it",
        [{"content": "a", "stop_reason": "end_turn"}],
        [Text("a"), HintGiven(Hint.STOP, "end_turn"), Terminated()],
    ),
    Row("an empty text is an empty answer", [{"content": ""}], [Terminated()]),
    Row(
        "an error is a fault",
        [{"type": "error", "error": OVERLOADED}],
        [OVERLOAD, Terminated()],
    ),
    Row(
        "its content may be a text",
        [{"type": "message", "content": "a", "stop_reason": "tool_use"}],
        [Text("a"), TOOL_USE, Terminated()],
    ),
    Row(
        "and so is an answer without content",
        [{"detail": "not found"}],
        [Fault(FaultKind.PROTOCOL, "the answer has neither content nor an error"), Terminated()],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(Decoder().decode_response(body[0])) == deltas


@pytest.mark.parametrize(
    "payload", ["{", 5, start(0, type=5), tool(0, name=5), grow(0, "text_delta", text=5)]
)
def test_what_cannot_be_read_is_a_fault(payload: Any) -> None:
    (fault,) = Decoder().decode(payload)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL


BODY: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 1},
}


def test_events_of_the_anthropic_library() -> None:
    finish = {"delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}}
    events = [
        RawMessageStartEvent.model_validate({"type": "message_start", "message": BODY}),
        RawContentBlockStartEvent.model_validate(tool(0)),
        RawContentBlockDeltaEvent.model_validate(piece(0, '{"a":1}')),
        RawContentBlockStopEvent.model_validate(stop(0)),
        RawContentBlockStartEvent.model_validate(
            start(1, type="server_tool_use", id="s", name="web_search", input={})
        ),
        RawContentBlockDeltaEvent.model_validate(piece(1, '{"query":"x"}')),
        RawContentBlockStopEvent.model_validate(stop(1)),
        RawMessageDeltaEvent.model_validate({"type": "message_delta", **finish}),
        RawMessageStopEvent.model_validate({"type": "message_stop"}),
    ]
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search"}
    assert decode(Decoder(), events) == [
        Usage(3, 1, {"input_tokens": 3, "output_tokens": 1}),
        opened(0),
        CallDelta(0, '{"a":1}'),
        CallSealed(0),
        ProviderBlock({**searched, "input": {"query": "x"}}),
        TOOL_USE,
        Usage(None, 5, {"output_tokens": 5}),
        Terminated(),
    ]


def test_an_answer_of_the_anthropic_library() -> None:
    call = {"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}
    body = Message.model_validate({**BODY, "content": [call], "stop_reason": "tool_use"})
    assert list(Decoder().decode_response(body)) == [
        CallDelta(0, {"a": 1}, "f", "x", opens=True),
        CallSealed(0),
        Usage(3, 1, {"input_tokens": 3, "output_tokens": 1}),
        TOOL_USE,
        Terminated(),
    ]
