import enum
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from protocols.forms import Row, decode, in_every_form
from wholecall.events import (
    CallDelta,
    CallSealed,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    OfChoice,
    ProviderBlock,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.gemini.stream import Decoder


def parts(*each: Any, **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(each)}, **fields}]}


def call(**fields: Any) -> dict[str, Any]:
    return parts({"functionCall": fields})


def partial(path: str, more: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def piece(*partials: Any, **fields: Any) -> dict[str, Any]:
    return call(**{"partialArgs": list(partials), "willContinue": True, **fields})


BEGIN = call(name="f", willContinue=True)
END = call()
OPENED = CallDelta(0, "{", "f", opens=True)
SIGNED = {"thought_signature": "s"}
# There is no terminator: the finish reason stands for it, and may come with every chunk.
ENDED = Terminated(closes=False)
STOP = [HintGiven(Hint.STOP, "STOP"), ENDED]

PARTS = [
    Row("text is text", [parts({"text": "a"}, {"text": ""}, None, {})], [Text("a")]),
    Row("a thought is reasoning", [parts({"text": "hm", "thought": True})], [Reasoning("hm")]),
    Row(
        "the signature of a part is kept",
        [
            parts({"text": "a", "thoughtSignature": "s"}),
            parts({"text": "", "thoughtSignature": "s"}),
            parts({"thoughtSignature": "s"}),
        ],
        [Text("a"), Reasoning("", SIGNED), Reasoning("", SIGNED), Reasoning("", SIGNED)],
    ),
    Row(
        "a call is whole, its arguments an object",
        [parts({"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "s"})],
        [CallDelta(0, {"a": 1}, "f", opens=True, extras=SIGNED), CallSealed(0)],
    ),
    Row(
        "it may have an id, and no arguments",
        [parts({"functionCall": {"name": "f", "id": "x"}}, {"functionCall": {"name": "g"}})],
        [
            CallDelta(0, None, "f", "x", opens=True),
            CallSealed(0),
            CallDelta(1, None, "g", opens=True),
            CallSealed(1),
        ],
    ),
    Row(
        "or no name",
        [call(args={"a": 1})],
        [CallDelta(0, {"a": 1}, opens=True), CallSealed(0)],
    ),
    Row(
        "what is neither text nor a call is kept",
        [parts({"executableCode": {"code": "1+1"}}, {"codeExecutionResult": {"output": "2"}})],
        [
            ProviderBlock({"executableCode": {"code": "1+1"}}),
            ProviderBlock({"codeExecutionResult": {"output": "2"}}),
        ],
    ),
    Row(
        "with its signature",
        [parts({"inlineData": {"data": "zz"}, "thoughtSignature": "s", "text": None})],
        [
            ProviderBlock({"inlineData": {"data": "zz"}, "thoughtSignature": "s"}),
            Reasoning("", SIGNED),
        ],
    ),
    Row(
        "names are read in snake_case too",
        [
            parts({"function_call": {"name": "f", "args": {"willContinue": 1}}}),
            parts({"text": "", "thought_signature": "s"}, finish_reason="STOP"),
            {"usage_metadata": {"prompt_token_count": 1, "candidates_token_count": 2}},
        ],
        [
            CallDelta(0, {"willContinue": 1}, "f", opens=True),
            CallSealed(0),
            Reasoning("", SIGNED),
            *STOP,
            Usage(1, 2, {"prompt_token_count": 1, "candidates_token_count": 2}),
        ],
    ),
]

STREAMED = [
    Row(
        "arguments may be streamed; they are given when they are whole",
        [
            parts({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": "s"}),
            piece(partial("$.title", stringValue="T")),
            piece(partial("$.body", more=True, stringValue="Hello ")),
            call(willContinue=True),
            piece(partial("$.body", stringValue="world"), partial("$.n[0]", numberValue=5.0)),
            piece(partial("$.on", boolValue=False), partial("$.no", nullValue="NULL_VALUE")),
            piece(partial("$.nil", nullValue=None)),
            END,
        ],
        [
            CallDelta(0, "{", "f", opens=True, extras=SIGNED),
            CallDelta(
                0,
                '"title": "T", "body": "Hello world", "n": [5], "on": false, "no": null,'
                ' "nil": null}',
            ),
            CallSealed(0),
        ],
    ),
    Row("nothing may come of them", [BEGIN, END], [OPENED, CallDelta(0, "}"), CallSealed(0)]),
    Row(
        "the last part may bring some",
        [BEGIN, piece(partial("$.a", numberValue=1), willContinue=False)],
        [OPENED, CallDelta(0, '"a": 1}'), CallSealed(0)],
    ),
    Row(
        "and the first part too",
        [piece(partial("$.a", numberValue=1), name="f", id="x"), END],
        [CallDelta(0, "{", "f", "x", opens=True), CallDelta(0, '"a": 1}'), CallSealed(0)],
    ),
    Row(
        "which may be the only one",
        [piece(partial("$.a", numberValue=1), name="f", willContinue=None)],
        [OPENED, CallDelta(0, '"a": 1}'), CallSealed(0)],
    ),
    Row(
        "or have begun with an object",
        [call(name="f", args={"a": 1}, willContinue=True), END],
        [OPENED, CallDelta(0, '"a": 1}'), CallSealed(0)],
    ),
    Row(
        "the name and the id may be repeated",
        [
            call(name="f", id="x", willContinue=True),
            piece(partial("$.a", numberValue=1), name="f", id="x"),
            call(id="x"),
        ],
        [CallDelta(0, "{", "f", "x", opens=True), CallDelta(0, '"a": 1}'), CallSealed(0)],
    ),
    Row(
        "a signature may come later",
        [BEGIN, parts({"functionCall": {}, "thoughtSignature": "s"})],
        [OPENED, CallDelta(0, extras=SIGNED), CallDelta(0, "}"), CallSealed(0)],
    ),
    Row(
        "calls follow each other",
        [BEGIN, END, BEGIN, END],
        [
            OPENED,
            CallDelta(0, "}"),
            CallSealed(0),
            CallDelta(1, "{", "f", opens=True),
            CallDelta(1, "}"),
            CallSealed(1),
        ],
    ),
    Row(
        "a call that is not finished stays open",
        [BEGIN, piece(partial("$.a", stringValue="T")), parts(finishReason="MAX_TOKENS")],
        [OPENED, HintGiven(Hint.LENGTH, "MAX_TOKENS"), ENDED],
    ),
    Row(
        "so does one whose string was cut",
        [BEGIN, piece(partial("$.a", more=True, stringValue="T")), END, *[END]],
        [OPENED],
    ),
    Row("the end of a call that never began is nothing", [END], []),
    Row(
        "pieces of a call that never began are a call without a name",
        [piece(partial("$.a", numberValue=1)), END],
        [CallDelta(0, "{", opens=True), CallDelta(0, '"a": 1}'), CallSealed(0)],
    ),
    Row(
        "a call that begins inside another is a fault",
        [BEGIN, BEGIN, END, BEGIN, call(name="g")],
        [
            OPENED,
            Fault(FaultKind.PROTOCOL, "call of 'f' began before that of 'f' was finished"),
            CallDelta(1, "{", "f", opens=True),
            CallDelta(1, "}"),
            CallSealed(1),
            CallDelta(2, "{", "f", opens=True),
            Fault(FaultKind.PROTOCOL, "call of 'g' began before that of 'f' was finished"),
            CallDelta(3, None, "g", opens=True),
            CallSealed(3),
        ],
    ),
    Row(
        "even if only its id says so",
        [call(name="f", id="x", willContinue=True), piece(name="f", id="y"), call(id="y")],
        [
            CallDelta(0, "{", "f", "x", opens=True),
            Fault(FaultKind.PROTOCOL, "call of 'f' began before that of 'f' was finished"),
            CallDelta(1, "{", "f", "y", opens=True),
            CallDelta(1, "}"),
            CallSealed(1),
        ],
    ),
    Row(
        "arguments that contradict each other are a fault",
        [BEGIN, piece(partial("$.a", stringValue="x")), piece(partial("$.a", stringValue="y"))],
        [OPENED, Fault(FaultKind.PROTOCOL, "a second value came for $.a")],
    ),
    Row(
        "so is a value that is none",
        [BEGIN, piece({"jsonPath": "$.a"})],
        [OPENED, Fault(FaultKind.PROTOCOL, "no value came for $.a")],
    ),
]

CHUNKS = [
    Row("the finish reason ends the answer", [parts(finishReason="STOP")], STOP),
    Row("it may be a number", [parts(finishReason=1)], STOP),
    Row("the number 0 is none", [parts(finishReason=0)], []),
    Row(
        "no unknown number lets a call run",
        [parts(finishReason=12)],
        [HintGiven(Hint.MALFORMED, "MALFORMED_FUNCTION_CALL"), Terminated(closes=False)],
    ),
    Row(
        "another candidate says which, and streams its own call",
        [
            {"candidates": [{"content": None}, {"index": 1, **BEGIN["candidates"][0]}]},
            BEGIN,
            {"candidates": [{"index": 1, "finishReason": "STOP", **END["candidates"][0]}]},
            END,
        ],
        [
            OfChoice(1, OPENED),
            CallDelta(1, "{", "f", opens=True),
            OfChoice(1, CallDelta(0, "}")),
            OfChoice(1, CallSealed(0)),
            *(OfChoice(1, each) for each in STOP),
            CallDelta(1, "}"),
            CallSealed(1),
        ],
    ),
    Row(
        "a prompt may be blocked",
        [{"promptFeedback": {"blockReason": "OTHER"}}, {"promptFeedback": {}}],
        [HintGiven(Hint.CONTENT_FILTER, "OTHER"), Terminated()],
    ),
    Row(
        "thoughts are tokens that were written",
        [
            {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}},
            {"usageMetadata": {"candidatesTokenCount": 4, "thoughtsTokenCount": 5}},
            {"usageMetadata": {"trafficType": "ON_DEMAND"}},
            {"usageMetadata": {"candidatesTokenCount": "4", "thoughtsTokenCount": 5}},
            {"usageMetadata": {"promptTokenCount": "3"}},
        ],
        [
            Usage(3, 4, {"promptTokenCount": 3, "candidatesTokenCount": 4}),
            Usage(None, 9, {"candidatesTokenCount": 4, "thoughtsTokenCount": 5}),
            Usage(None, None, {"trafficType": "ON_DEMAND"}),
            Usage(None, 5, {"candidatesTokenCount": "4", "thoughtsTokenCount": 5}),
            Usage(None, None, {"promptTokenCount": "3"}),
        ],
    ),
    Row(
        "an error is a fault",
        [{"error": {"code": 429, "message": "quota"}}],
        [Fault(FaultKind.UPSTREAM_ERROR, "quota", {"code": 429, "message": "quota"})],
    ),
    Row("chunks may come as one list", [[parts({"text": "a"}), {}]], [Text("a")]),
    Row("a blank payload says nothing", ["", "[DONE]"], []),
]


@pytest.mark.parametrize(("chunks", "deltas"), in_every_form(PARTS + STREAMED + CHUNKS))
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(Decoder(), chunks) == deltas


RESPONSES = [
    Row(
        "it is one chunk",
        [parts({"text": "a"}, finishReason="STOP")],
        [Text("a"), STOP[0], Terminated()],
    ),
    Row(
        "it may be blocked",
        [{"promptFeedback": {"blockReason": "SAFETY"}}],
        [HintGiven(Hint.CONTENT_FILTER, "SAFETY"), Terminated()],
    ),
    Row(
        "an error is a fault",
        [[{"error": {"message": "quota"}}]],
        [Fault(FaultKind.UPSTREAM_ERROR, "quota", {"message": "quota"}), Terminated()],
    ),
    Row(
        "and so is an answer without candidates",
        [{"candidates": []}],
        [Fault(FaultKind.PROTOCOL, "the answer has neither candidates nor an error"), Terminated()],
    ),
]


@pytest.mark.parametrize(("body", "deltas"), in_every_form(RESPONSES))
def test_response(body: list[Any], deltas: list[Any]) -> None:
    assert list(Decoder().decode_response(body[0])) == deltas


@pytest.mark.parametrize(
    "payload",
    ["{", 5, {"candidates": 5}, parts(5), call(name=5), call(args=[1], willContinue=True)],
)
def test_what_cannot_be_read_is_a_fault(payload: Any) -> None:
    (fault,) = Decoder().decode(payload)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL


def test_depth_beyond_the_stack_is_a_fault() -> None:
    deep = '{"content":' * 800 + "1" + "}" * 800
    (fault,) = Decoder().decode('{"candidates":' + deep + "}")
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL


class FinishReason(enum.Enum):
    STOP = "STOP"


class Model(BaseModel):
    """The google-genai library's models are made like this: snake_case, camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class Part(Model):
    thought_signature: bytes | None = None


class Candidate(Model):
    finish_reason: FinishReason | None = None
    content: dict[str, list[Part]] | None = None


class Chunk(Model):
    candidates: list[Candidate]


def chunk_of_a_library() -> Chunk:
    part = Part.model_validate(
        {"function_call": {"name": "f", "args": {"a": 1}}, "thought_signature": b"s"}
    )
    candidate = Candidate(content={"parts": [part]}, finish_reason=FinishReason.STOP)
    return Chunk(candidates=[candidate])


WHOLE_CALL = [CallDelta(0, {"a": 1}, "f", opens=True, extras=SIGNED), CallSealed(0)]


def test_objects_of_a_client_library() -> None:
    assert list(Decoder().decode(chunk_of_a_library())) == [*WHOLE_CALL, *STOP]


def test_what_a_client_library_dumps() -> None:
    dumped = chunk_of_a_library().model_dump()
    signed = CallDelta(0, {"a": 1}, "f", opens=True, extras={"thought_signature": "cw=="})
    assert list(Decoder().decode(dumped)) == [signed, CallSealed(0), *STOP]
