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
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.ollama import OllamaDecoder


def message(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", **fields}, "done": False}


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **fields}


STOP = HintGiven(Hint.STOP, "stop")

ROWS = [
    Row("content is text", [message(content="a"), message(content="")], [Text("a")]),
    Row("thinking is reasoning", [message(thinking="hm")], [Reasoning("hm")]),
    Row(
        "the completion of a prompt is text, too",
        [{"response": "", "thinking": "hm"}, {"response": "a", "done": False}],
        [Reasoning("hm"), Text("a")],
    ),
    Row(
        "a call is whole, its arguments an object",
        [message(tool_calls=[call("f", {"a": 1})])],
        [CallDelta(0, {"a": 1}, "f", opens=True), CallSealed(0)],
    ),
    Row(
        "every call has a slot of its own",
        [message(tool_calls=[call("f", {}), call("f", {})]), message(tool_calls=[call("g", {})])],
        [
            CallDelta(0, {}, "f", opens=True),
            CallSealed(0),
            CallDelta(1, {}, "f", opens=True),
            CallSealed(1),
            CallDelta(2, {}, "g", opens=True),
            CallSealed(2),
        ],
    ),
    Row(
        "it may have an id, and its arguments may be text",
        [message(tool_calls=[call("f", '{"a":1}', id="x")])],
        [CallDelta(0, '{"a":1}', "f", "x", opens=True), CallSealed(0)],
    ),
    Row(
        "a call without a function has no name",
        [message(tool_calls=[{}])],
        [CallDelta(0, opens=True), CallSealed(0)],
    ),
    Row(
        "the last chunk says so",
        [
            {
                "message": {"content": ""},
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": 1,
                "eval_count": 2,
            }
        ],
        [Usage(1, 2, {"prompt_eval_count": 1, "eval_count": 2}), STOP, Terminated()],
    ),
    Row("it may say nothing else", [{"done": True}], [Terminated()]),
    Row(
        "a count that can be none says nothing",
        [{"done": True, "prompt_eval_count": 10**22, "eval_count": 2}],
        [Usage(None, 2, {"prompt_eval_count": 10**22, "eval_count": 2}), Terminated()],
    ),
    Row("a blank payload says nothing", [""], []),
    Row(
        "an error is a fault",
        [{"error": "model not found"}],
        [Fault(FaultKind.UPSTREAM_ERROR, "model not found")],
    ),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(ROWS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(OllamaDecoder(), chunks) == deltas


RESPONSES = [
    Row(
        "a whole answer is one chunk",
        [{"message": {"content": "a"}, "done": True, "done_reason": "stop"}],
        [Text("a"), STOP, Terminated()],
    ),
    Row(
        "an error is a fault",
        [{"error": "broken"}],
        [Fault(FaultKind.UPSTREAM_ERROR, "broken"), Terminated()],
    ),
    Row(
        "and so is an answer without a message",
        [{"detail": "not found"}],
        [
            Fault(FaultKind.PROTOCOL, "the answer has neither a message nor an error"),
            Terminated(),
        ],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(OllamaDecoder().decode_response(body[0])) == deltas


def test_objects_of_a_client_library() -> None:
    function = SimpleNamespace(name="f", arguments={"a": 1})
    call = SimpleNamespace(function=function)
    chunk = SimpleNamespace(message=SimpleNamespace(content="", tool_calls=[call]), done=False)
    assert list(OllamaDecoder().decode(chunk)) == [
        CallDelta(0, {"a": 1}, "f", opens=True),
        CallSealed(0),
    ]


def test_what_cannot_be_read_is_a_fault() -> None:
    (fault,) = OllamaDecoder().decode('{"message": 5}')
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL
