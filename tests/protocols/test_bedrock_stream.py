from types import SimpleNamespace
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
from wholecall.protocols.bedrock import ConverseDecoder


def start(index: int, **start: Any) -> dict[str, Any]:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start}}


def grow(index: int, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


def stop(index: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


TOOL = {"toolUseId": "x", "name": "f"}
SERVER_TOOL = {"toolUseId": "s", "name": "nova_grounding", "type": "server_tool_use"}
OPENED = CallDelta(0, None, "f", "x", opens=True)
TOOL_USE = HintGiven(Hint.TOOL_CALLS, "tool_use")
USAGE = {"inputTokens": 1, "outputTokens": 2}

ROWS = [
    Row(
        "a toolUse opens, grows and is sealed",
        [
            {"messageStart": {"role": "assistant"}},
            start(0, toolUse=TOOL),
            grow(0, toolUse={"input": '{"a"'}),
            grow(0, toolUse={"input": ":1}"}),
            stop(0),
        ],
        [OPENED, CallDelta(0, '{"a"'), CallDelta(0, ":1}"), CallSealed(0)],
    ),
    Row(
        "it may say that it is one",
        [start(0, toolUse={**TOOL, "type": "tool_use"})],
        [OPENED],
    ),
    Row(
        "input for a block that never started is a fault, and a call without a name",
        [grow(1, toolUse={"input": "{"}), grow(1, toolUse={"input": "}"}), stop(1)],
        [
            Fault(FaultKind.PROTOCOL, "input for content block 1, which is no toolUse"),
            CallDelta(1, "{", opens=True),
            CallDelta(1, "}"),
            CallSealed(1),
        ],
    ),
    Row("text is text", [grow(0, text="a"), grow(0, text=""), stop(0)], [Text("a")]),
    Row(
        "reasoning comes with its signature",
        [
            grow(0, reasoningContent={"text": "hm"}),
            grow(0, reasoningContent={"signature": "s"}),
            grow(0, reasoningContent={"redactedContent": "zz"}),
        ],
        [
            Reasoning("hm"),
            Reasoning("", {"signature": "s"}),
            Reasoning("", {"redacted_content": "zz"}),
        ],
    ),
    Row("citations are skipped", [grow(0, citation={"title": "t"})], []),
    Row(
        "a server tool is no call of ours, and neither is its result",
        [
            start(0, toolUse=SERVER_TOOL),
            grow(0, toolUse={"input": '{"q":'}),
            grow(0, toolUse={"input": "1}"}),
            stop(0),
            start(1, toolResult={"toolUseId": "s"}),
            grow(1, toolResult=[{"text": "a"}]),
            grow(1, toolResult=[{"json": {}}]),
            stop(1),
        ],
        [
            ProviderBlock({"toolUse": {**SERVER_TOOL, "input": {"q": 1}}}),
            ProviderBlock(
                {"toolResult": {"toolUseId": "s", "content": [{"text": "a"}, {"json": {}}]}}
            ),
        ],
    ),
    Row(
        "a picture is kept",
        [start(0, image={"format": "png"}), grow(0, image={"source": {"bytes": "zz"}}), stop(0)],
        [ProviderBlock({"image": {"format": "png", "source": {"bytes": "zz"}}})],
    ),
    Row(
        "usage comes after the end",
        [{"messageStop": {"stopReason": "tool_use"}}, {"metadata": {"usage": USAGE}}],
        [TOOL_USE, Terminated(), Usage(1, 2, USAGE)],
    ),
    Row("the reason may be missing", [{"messageStop": {}}, {"metadata": {}}], [Terminated()]),
    Row(
        "an exception is a fault that names it",
        [{"throttlingException": {"message": "slow down"}}],
        [
            Fault(
                FaultKind.UPSTREAM_ERROR,
                "throttlingException: slow down",
                {"throttlingException": {"message": "slow down"}},
            )
        ],
    ),
    Row(
        "so is an error",
        [{"error": {"message": "broken"}}],
        [Fault(FaultKind.UPSTREAM_ERROR, "broken", {"message": "broken"})],
    ),
    Row("members that are not set say nothing", [{"messageStop": None, "later": {}}, ""], []),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(ROWS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(ConverseDecoder(), chunks) == deltas


RESPONSES = [
    Row(
        "its blocks are whole",
        [
            {
                "output": {
                    "message": {
                        "role": "assistant",
                        "content": [
                            {
                                "reasoningContent": {
                                    "reasoningText": {"text": "hm", "signature": "s"}
                                }
                            },
                            {"reasoningContent": {"redactedContent": "zz"}},
                            {"text": "a"},
                            {"citationsContent": {"content": [{"text": "b"}, {}], "citations": []}},
                            {"citationsContent": {}},
                            {"toolUse": {**TOOL, "input": {"a": 1}}},
                            {"toolUse": {**TOOL, "toolUseId": "y", "input": {}}},
                            {"toolUse": {**SERVER_TOOL, "input": {"q": 1}}},
                        ],
                    }
                },
                "stopReason": "tool_use",
                "usage": USAGE,
            }
        ],
        [
            Reasoning("hm"),
            Reasoning("", {"signature": "s"}),
            Reasoning("", {"redacted_content": "zz"}),
            Text("a"),
            Text("b"),
            CallDelta(5, {"a": 1}, "f", "x", opens=True),
            CallSealed(5),
            CallDelta(6, None, "f", "y", opens=True),
            CallSealed(6),
            ProviderBlock({"toolUse": {**SERVER_TOOL, "input": {"q": 1}}}),
            Usage(1, 2, USAGE),
            TOOL_USE,
            Terminated(),
        ],
    ),
    Row("it may be empty", [{"output": {"message": {}}}], [Terminated()]),
    Row(
        "an error is a fault",
        [{"message": "broken"}],
        [Fault(FaultKind.UPSTREAM_ERROR, "broken"), Terminated()],
    ),
    Row(
        "and so is an answer without a message",
        [{"output": {}}],
        [
            Fault(FaultKind.PROTOCOL, "the answer has neither a message nor an error"),
            Terminated(),
        ],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(ConverseDecoder().decode_response(body[0])) == deltas


def test_bytes_that_boto3_has_decoded_are_text_again() -> None:
    chunk = grow(0, reasoningContent={"redactedContent": b"ab"})
    assert list(ConverseDecoder().decode(chunk)) == [Reasoning("", {"redacted_content": "YWI="})]


def test_objects_of_a_client_library() -> None:
    chunk = SimpleNamespace(messageStop=SimpleNamespace(stopReason="tool_use"))
    assert list(ConverseDecoder().decode(chunk)) == [TOOL_USE, Terminated()]


@pytest.mark.parametrize(
    "payload",
    [
        "{",
        5,
        [],
        {"contentBlockStart": 5},
        start(0, toolUse={"name": 5}),
        start(0, image=5),
        grow(0, text=5),
    ],
)
def test_what_cannot_be_read_is_a_fault(payload: Any) -> None:
    (fault,) = ConverseDecoder().decode(payload)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL


def test_a_block_that_changes_its_shape_is_a_fault() -> None:
    decoder = ConverseDecoder()
    assert not list(decoder.decode(start(0, toolResult={"content": "a"})))
    (fault,) = decoder.decode(grow(0, toolResult=[{"text": "b"}]))
    assert isinstance(fault, Fault)
