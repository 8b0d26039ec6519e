from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

from protocols.forms import Row, decode, in_every_form
from wholecall.arguments.limits import DEFAULT
from wholecall.events import (
    CallDelta,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    OfChoice,
    Reasoning,
    Terminated,
    Text,
    Usage,
)
from wholecall.protocols.decoder import decline
from wholecall.protocols.openai_chat.stream import Decoder


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def calls(*entries: Any) -> dict[str, Any]:
    return delta(tool_calls=list(entries))


def finish(reason: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def legacy(name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    return delta(function_call={"name": name, "arguments": arguments})


UPSTREAM = FaultKind.UPSTREAM_ERROR
PIECE = {"index": 0, "function": {"arguments": "{"}}
STOP = HintGiven(Hint.STOP, "stop")
LEGACY = "function_call"

CALLS = [
    Row(
        "the first entry of a call has its id and name",
        [calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}})],
        [CallDelta(0, "", "f", "a")],
    ),
    Row("further ones have pieces of its arguments", [calls(PIECE)], [CallDelta(0, "{")]),
    Row(
        "one chunk may have several entries",
        [calls({"index": 0, "id": "a"}, None, {"index": 1, "id": "b"})],
        [CallDelta(0, id="a"), CallDelta(1, id="b")],
    ),
    Row("the index may be missing", [calls({"id": "a"})], [CallDelta(None, id="a")]),
    Row("the index may be text", [calls({"index": "1", "id": "a"})], [CallDelta(1, id="a")]),
    Row("the index may be a float", [calls({"index": 1.0, "id": "a"})], [CallDelta(1, id="a")]),
    Row("the index may be a word", [calls({"index": "x", "id": "a"})], [CallDelta("x", id="a")]),
    Row("the id may be a number", [calls({"index": 0, "id": 7})], [CallDelta(0, id="7")]),
    Row(
        "arguments may be an object",
        [calls({"index": 0, "function": {"name": "f", "arguments": {"a": 1}}})],
        [CallDelta(0, {"a": 1}, "f")],
    ),
    Row(
        "arguments that are a list become text",
        [calls({"index": 0, "function": {"name": "f", "arguments": [1]}})],
        [CallDelta(0, "[1]", "f")],
    ),
    Row(
        "name and arguments may stand without `function`",
        [calls({"id": "a", "name": "f", "arguments": "{}"})],
        [CallDelta(None, "{}", "f", "a")],
    ),
    Row(
        "an empty name is none",
        [calls({"index": 0, "id": "a", "function": {"name": "", "arguments": "{"}})],
        [CallDelta(0, "{", None, "a")],
    ),
    Row(
        "an entry that says nothing is skipped",
        [calls({"index": 0, "id": "", "function": {"name": "", "arguments": ""}}, {"index": 1})],
        [],
    ),
    Row("no calls are no calls", [calls(), delta(tool_calls=None), delta()], []),
    Row(
        "what the provider wants back is kept",
        [
            calls({"id": "a", "extra_content": {"google": {"thought_signature": "s"}}}),
            calls({"id": "b", "thought_signature": "s"}),
            calls({"id": "c", "provider_specific_fields": {"thought_signature": "s"}}),
        ],
        [
            CallDelta(id="a", extras={"extra_content": {"google": {"thought_signature": "s"}}}),
            CallDelta(id="b", extras={"thought_signature": "s"}),
            CallDelta(id="c", extras={"provider_specific_fields": {"thought_signature": "s"}}),
        ],
    ),
]

LEGACY_CALLS = [
    Row(
        "a function_call is handed on when nothing can repeat it any more",
        [legacy("f", '{"a"'), legacy(None, ":1}"), finish("function_call")],
        [
            CallDelta(LEGACY, '{"a"', "f"),
            CallDelta(LEGACY, ":1}"),
            HintGiven(Hint.TOOL_CALLS, "function_call"),
        ],
    ),
    Row(
        "at the latest at the end",
        [legacy("f", {"a": 1}), "[DONE]"],
        [CallDelta(LEGACY, {"a": 1}, "f"), Terminated()],
    ),
    Row("until then it is held", [legacy("f", "{}")], []),
    Row("an empty one is none", [legacy("", ""), "[DONE]"], [Terminated()]),
    Row(
        "of two in one chunk the newer form wins",
        [delta(function_call={"name": "f"}, tool_calls=[PIECE]), "[DONE]"],
        [CallDelta(0, "{"), Terminated()],
    ),
    Row(
        "and in one stream, whichever is first",
        [legacy("f", "{}"), calls(PIECE), legacy("f", "{}"), finish("stop"), "[DONE]"],
        [CallDelta(0, "{"), STOP, Terminated()],
    ),
    Row(
        "each choice holds its own",
        [
            {"choices": [{"index": 1, "delta": {"function_call": {"name": "f"}}}]},
            calls(PIECE),
            "[DONE]",
        ],
        [CallDelta(0, "{"), OfChoice(1, CallDelta(LEGACY, None, "f")), Terminated()],
    ),
    Row(
        "more than the limit is a fault",
        [legacy("f", "a" * DEFAULT.characters), legacy(None, "a")],
        [Fault(FaultKind.PROTOCOL, "a function_call has more than 4194304 characters")],
    ),
]

WORDS = [
    Row("content is text", [delta(role="assistant", content="a")], [Text("a")]),
    Row("empty content is nothing", [delta(content=""), delta(content=None)], []),
    Row("a refusal is text, and marked", [delta(refusal="no")], [*decline("no")]),
    Row("reasoning_content is reasoning", [delta(reasoning_content="a")], [Reasoning("a")]),
    Row("so is reasoning", [delta(reasoning="a")], [Reasoning("a")]),
    Row("not twice", [delta(reasoning_content="a", reasoning="a")], [Reasoning("a")]),
    Row("if it is text", [delta(reasoning={"effort": "high"})], []),
    Row(
        "details that are no list of objects are nobody's",
        [
            delta(content="a", reasoning_details={"data": "x"}),
            delta(reasoning_details="x", thinking_blocks=["y", {"type": "thinking"}, None]),
        ],
        [Text("a"), Reasoning("", {"thinking_blocks": [{"type": "thinking"}]})],
    ),
    Row(
        "its details are kept",
        [delta(reasoning="a", reasoning_details=[{"data": "x"}])],
        [Reasoning("a"), Reasoning("", {"reasoning_details": [{"data": "x"}]})],
    ),
    Row(
        "and its signatures",
        [delta(thinking_blocks=[{"signature": "s"}])],
        [Reasoning("", {"thinking_blocks": [{"signature": "s"}]})],
    ),
    Row(
        "content may be a list of parts",
        [
            delta(
                content=[
                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, {}]},
                    {"type": "thinking", "thinking": "so"},
                    {"type": "text", "text": "a"},
                    {"type": "refusal", "refusal": "no"},
                    "b",
                    None,
                    {"type": "image_url"},
                ]
            )
        ],
        [Reasoning("hm"), Reasoning("so"), Text("a"), *decline("no"), Text("b")],
    ),
    Row(
        "text and a call may come in one chunk",
        [delta(content="a", tool_calls=[PIECE])],
        [Text("a"), CallDelta(0, "{")],
    ),
]

ENDS = [
    Row("the finish reason is a hint", [finish("length")], [HintGiven(Hint.LENGTH, "length")]),
    Row("none is none", [finish(None), finish("")], []),
    Row("one that is no word is still told", [finish(3)], [HintGiven(Hint.UNKNOWN, "3")]),
    Row("[DONE] terminates", ["[DONE]", " [DONE] \r\n"], [Terminated(), Terminated()]),
    Row("a blank payload keeps the connection alive", ["", " "], []),
    Row(
        "usage may come without choices",
        [{"usage": {"prompt_tokens": 1, "completion_tokens": 2}}],
        [Usage(1, 2, {"prompt_tokens": 1, "completion_tokens": 2})],
    ),
    Row("choices may be null, empty, or hold null", [{"choices": None}, {"choices": [None]}], []),
    Row(
        "another choice says which",
        [{"choices": [{"index": 2, "delta": {"content": "a"}, "finish_reason": "stop"}]}],
        [OfChoice(2, Text("a")), OfChoice(2, STOP)],
    ),
]

FAULTS = [
    Row(
        "an error may stand in place of choices",
        [{"error": {"message": "broken", "code": 502}, "choices": []}],
        [Fault(UPSTREAM, "broken", {"message": "broken", "code": 502})],
    ),
    Row("it may be text", [{"error": "broken"}], [Fault(UPSTREAM, "broken")]),
    Row("an empty one is none", [{"error": {}}, {"error": None}, {"error": False}], []),
    Row(
        "vLLM has an object for it",
        [{"object": "error", "message": "broken"}, {"object": "error"}],
        [Fault(UPSTREAM, "broken"), Fault(UPSTREAM, "error")],
    ),
    Row(
        "OpenRouter has it in the choice",
        [{"choices": [{"finish_reason": "error", "error": {"message": "broken"}}]}],
        [Fault(UPSTREAM, "broken", {"message": "broken"}), HintGiven(Hint.ERROR, "error")],
    ),
]


@pytest.mark.parametrize(
    ("chunks", "deltas"), in_every_form(CALLS + LEGACY_CALLS + WORDS + ENDS + FAULTS)
)
def test_stream(chunks: list[Any], deltas: list[Any]) -> None:
    assert decode(Decoder(), chunks) == deltas


@pytest.mark.parametrize("payload", ["{", b"\xff", 5, None, {"choices": 5}, calls({"id": []})])
def test_what_cannot_be_read_is_a_fault(payload: Any) -> None:
    (fault,) = Decoder().decode(payload)
    assert isinstance(fault, Fault)
    assert fault.kind is FaultKind.PROTOCOL


def test_the_deltas_before_a_broken_one_are_kept() -> None:
    decoder = Decoder()
    first, second = decode(decoder, [delta(content="a"), "{"])
    assert first == Text("a")
    assert isinstance(second, Fault)


def test_chunks_of_the_openai_library() -> None:
    chunk = ChatCompletionChunk.model_validate(
        {
            "id": "c",
            "created": 1,
            "model": "m",
            "object": "chat.completion.chunk",
            "choices": [
                {
                    "index": 1,
                    "delta": {
                        "content": "a",
                        "reasoning_content": "hm",
                        "tool_calls": [
                            {"index": 0, "id": "x", "function": {"name": "f", "arguments": "{"}}
                        ],
                    },
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        }
    )
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert list(Decoder().decode(chunk)) == [
        OfChoice(1, Reasoning("hm")),
        OfChoice(1, Text("a")),
        OfChoice(1, CallDelta(0, "{", "f", "x")),
        OfChoice(1, STOP),
        Usage(1, 2, usage),
    ]


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ({"detail": "Internal Server Error"}, "Internal Server Error"),
        ({"code": 500, "message": "upstream failed"}, "upstream failed"),
        ({"code": 500}, "500"),
    ],
)
def test_a_chunk_that_tells_of_a_failure_is_a_fault(chunk: dict[str, Any], message: str) -> None:
    assert list(Decoder().decode(chunk)) == [Fault(FaultKind.UPSTREAM_ERROR, message)]


@pytest.mark.parametrize("chunk", [{}, {"id": "x"}, {"object": "ping", "message": "hello"}])
def test_a_chunk_that_says_nothing_is_nothing(chunk: dict[str, Any]) -> None:
    assert list(Decoder().decode(chunk)) == []


def test_a_refusal_that_is_no_text_is_nothing() -> None:
    assert list(Decoder().decode({"choices": [{"delta": {"refusal": False}}]})) == []
