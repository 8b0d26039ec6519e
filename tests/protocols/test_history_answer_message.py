import json
from typing import Any

import pytest

from wholecall.events import (
    Call,
    Event,
    Evidence,
    Grew,
    OfChoice,
    Opened,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
    Usage,
)
from wholecall.messages import Message, Native, PastCall, Request, Role
from wholecall.protocols.history import answer_message, past_call
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import encode_request

CALL = Call(
    id="a",
    name="f",
    arguments={"x": 1},
    raw='{"x":1}',
    evidence=Evidence.CLOSED,
    provider_id="p",
    extras={"k": "v"},
)
PAST = PastCall(id="a", name="f", arguments={"x": 1}, provider_id="p", extras={"k": "v"})
CUT = Rejected(reason=Reason.TRUNCATED, detail="cut", name="g", id="b", raw='{"y":', number=1)
PAST_CUT = PastCall(id="b", name="g", arguments={})


def parts(*events: Event) -> tuple[Any, ...]:
    message = answer_message(events, "p")
    assert message.role is Role.ASSISTANT
    assert message.native is None
    return message.parts


@pytest.mark.parametrize(
    ("verdict", "past"),
    [
        (CALL, PAST),
        (CUT, PAST_CUT),
        (
            Rejected(reason=Reason.SCHEMA, detail="", name="g", id="b", raw='{"y":1}'),
            PastCall(id="b", name="g", arguments={"y": 1}),
        ),
        (
            Rejected(reason=Reason.NOT_OBJECT, detail="", name="g", id="b", raw="[1]"),
            PastCall(id="b", name="g", arguments={}),
        ),
        (
            Rejected(reason=Reason.NO_NAME, detail="", number=3),
            PastCall(id="nameless_3", name="", arguments={}),
        ),
        (
            Rejected(reason=Reason.NO_NAME, detail="", provider_id="p"),
            PastCall(id="p", name="", arguments={}, provider_id="p"),
        ),
    ],
)
def test_calls_and_rejections_become_past_calls(verdict: Call | Rejected, past: PastCall) -> None:
    assert past_call(verdict) == past


EVENTS: list[tuple[str, list[Event], list[Any]]] = [
    ("nothing is nothing", [Usage(1, 2)], []),
    ("pieces of a text are one text", [Text("a"), Text(""), Text("b")], [Text("ab")]),
    (
        "reasoning, text and reasoning stay in order",
        [Reasoning("a"), Reasoning("b"), Text("c"), Reasoning("d")],
        [Reasoning("ab"), Text("c"), Reasoning("d")],
    ),
    (
        "a call stands where it was opened, however late it was released",
        [
            Text("a"),
            Opened(0, "a", "f"),
            Text("b"),
            Grew(0, "{"),
            Opened(1, "b", "g"),
            Released(CALL),
            CUT,
        ],
        [Text("a"), PAST, Text("b"), PAST_CUT],
    ),
    (
        "a rejection that was never opened has its place, too",
        [CUT, Text("a")],
        [PAST_CUT, Text("a")],
    ),
    ("a call that was never settled is none", [Opened(0, "a", "f")], []),
    (
        "a call sent again is one call",
        [Opened(0, "a", "f"), Released(CALL), Opened(1, "c", "f"), Repeated(1, 0)],
        [PAST],
    ),
    ("another choice is another answer", [OfChoice(1, Text("b")), Text("a")], [Text("a")]),
    (
        "what the provider did is kept in its form",
        [Text("a"), ProviderBlock({"type": "x"}), Text("b")],
        [Text("a"), Native("p", {"type": "x"}), Text("b")],
    ),
    (
        "a signature ends its reasoning",
        [
            Reasoning("a"),
            Reasoning("", {"signature": "1"}),
            Reasoning("b"),
            Reasoning("", {"signature": "2"}),
            Reasoning("", {"redacted_thinking": "r"}),
        ],
        [
            Reasoning("a", {"signature": "1"}),
            Reasoning("b", {"signature": "2"}),
            Reasoning("", {"redacted_thinking": "r"}),
        ],
    ),
    (
        "reasoning that is not shown does not part the text before it",
        [Text("a"), Text("b"), Reasoning("", {"signature": "1"})],
        [Text("ab"), Reasoning("", {"signature": "1"})],
    ),
    (
        "an item comes with the reasoning that was told before it",
        [Reasoning("a"), Reasoning("", {"item": {"id": "rs"}})],
        [Reasoning("a", {"item": {"id": "rs"}})],
    ),
    (
        "or brings it",
        [Reasoning("a", {"item": {"id": "rs"}})],
        [Reasoning("a", {"item": {"id": "rs"}})],
    ),
    (
        "only the signed piece of a text is signed",
        [Text("a"), Text("b"), Text("c"), Reasoning("", {"thought_signature": "s"})],
        [Text("ab"), Text("c"), Reasoning("", {"thought_signature": "s"})],
    ),
    (
        "details grow beside the reasoning and do not part it",
        [
            Reasoning("a"),
            Reasoning("", {"reasoning_details": [{"type": "t", "index": 0, "text": "a"}]}),
            Reasoning("b"),
            Reasoning("", {"reasoning_details": [{"type": "t", "index": 0, "text": "b"}]}),
            Text("c"),
        ],
        [
            Reasoning("", {"reasoning_details": [{"type": "t", "index": 0, "text": "ab"}]}),
            Reasoning("ab"),
            Text("c"),
        ],
    ),
]


@pytest.mark.parametrize(("events", "expected"), [pytest.param(e, x, id=i) for i, e, x in EVENTS])
def test_an_answer_keeps_its_order(events: list[Event], expected: list[Any]) -> None:
    assert parts(*events) == tuple(expected)


@pytest.mark.parametrize(
    ("key", "pieces", "joined"),
    [
        (
            "thinking_blocks",
            [
                {"type": "thinking", "thinking": "a", "signature": None},
                {"type": "thinking", "thinking": "b", "signature": None},
                {"type": "thinking", "thinking": "", "signature": "s"},
                {"type": "thinking", "thinking": "c", "signature": None},
            ],
            [
                {"type": "thinking", "thinking": "ab", "signature": "s"},
                {"type": "thinking", "thinking": "c", "signature": None},
            ],
        ),
        (
            "reasoning_details",
            [
                {"type": "t", "id": ["odd"], "text": "a", "data": 1},
                {"type": "t", "id": ["odd"], "text": {"odd": 2}, "data": 3},
            ],
            [{"type": "t", "id": ["odd"], "text": "a", "data": 3}],
        ),
        (
            "reasoning_details",
            [
                {"type": "reasoning.summary", "summary": "a", "index": 0},
                {"type": "reasoning.summary", "summary": "b", "index": 1},
                {"type": "reasoning.encrypted", "data": "x", "id": "1", "index": 1},
                {"type": "reasoning.encrypted", "data": "y", "id": "2", "index": 1},
            ],
            [
                {"type": "reasoning.summary", "summary": "a", "index": 0},
                {"type": "reasoning.summary", "summary": "b", "index": 1},
                {"type": "reasoning.encrypted", "data": "x", "id": "1", "index": 1},
                {"type": "reasoning.encrypted", "data": "y", "id": "2", "index": 1},
            ],
        ),
    ],
)
def test_details_in_pieces_are_joined(key: str, pieces: list[Any], *, joined: list[Any]) -> None:
    assert parts(*(Reasoning("", {key: [piece]}) for piece in pieces)) == (
        Reasoning("", {key: joined}),
    )


# ── What each provider demands back ─────────────────────────────────────────────────


def read(protocol: str, *chunks: dict[str, Any]) -> Message:
    reader = Reader(protocol)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return answer_message([*events, *reader.end()], protocol)


def history(protocol: str, answer: Message, **fields: Any) -> dict[str, Any]:
    user = Message(Role.USER, (Text("go"),))
    request = Request(**{"model": "m", **fields}, messages=(user, answer))
    return encode_request(protocol, request)


def test_anthropic_gets_its_blocks_back() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "redacted_thinking", "data": "zzz"},
        {"type": "text", "text": "I search."},
        {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"q": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv", "content": []},
        {"type": "thinking", "thinking": "", "signature": "s2"},
        {
            "type": "tool_use",
            "id": "t1",
            "name": "f",
            "input": {"a": 1},
            "caller": {"type": "direct"},
        },
    ]
    body = {"content": blocks, "stop_reason": "tool_use"}
    reader = Reader("anthropic")
    events = [*reader.feed_response(body), *reader.end()]
    written = history("anthropic", answer_message(events, "anthropic"), model="claude-sonnet-4-5")
    assert written["messages"][1] == {"role": "assistant", "content": blocks}


def test_responses_get_their_items_back() -> None:
    items: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zz"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
    ]
    reader = Reader("openai-responses")
    events = reader.feed_response({"status": "completed", "output": items})
    answer = answer_message([*events, *reader.end()], "openai-responses")
    assert history("openai-responses", answer)["input"][1:-1] == items


def test_gemini_gets_its_signatures_back() -> None:
    chunks: list[list[dict[str, Any]]] = [
        [{"text": "plan", "thought": True}],
        [{"text": "a"}],
        [{"text": "b", "thoughtSignature": "s1"}],
        [{"executableCode": {"code": "1"}, "thoughtSignature": "s2"}],
        [
            {"functionCall": {"name": "f", "args": {"x": 1}, "id": "i"}, "thoughtSignature": "s3"},
            {"functionCall": {"name": "g", "args": {}}},
        ],
    ]
    payloads = [{"candidates": [{"content": {"parts": parts}}]} for parts in chunks]
    end = {"candidates": [{"finishReason": "STOP"}]}
    answer = read("gemini", *payloads, end)
    [_, model, results] = history("gemini", answer, model="gemini-3-pro")["contents"]
    assert model["parts"] == [part for parts in chunks[1:] for part in parts]
    assert [part["functionResponse"]["name"] for part in results["parts"]] == ["f", "g"]
    assert results["parts"][0]["functionResponse"]["id"] == "i"


def test_chat_gets_its_reasoning_back() -> None:
    def delta(**fields: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": fields}]}

    signature = {"google": {"thought_signature": "s"}}
    call = {"id": "c1", "type": "function", "extra_content": signature}
    answer = read(
        "openai-chat",
        delta(reasoning_content="h", reasoning_details=[{"type": "t", "text": "h"}]),
        delta(reasoning_content="m", reasoning_details=[{"type": "t", "text": "m"}]),
        delta(content="I look."),
        delta(tool_calls=[{"index": 0, **call, "function": {"name": "f", "arguments": '{"a":1}'}}]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    )
    assert history("openai-chat", answer)["messages"][1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "hm",
        "reasoning_details": [{"type": "t", "text": "hm"}],
        "tool_calls": [{**call, "function": {"name": "f", "arguments": '{"a":1}'}}],
    }


def test_ollama_gets_its_thinking_back() -> None:
    message = {
        "thinking": "hm",
        "content": "I look.",
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}],
    }
    answer = read("ollama", {"message": message, "done": True, "done_reason": "stop"})
    assert history("ollama", answer)["messages"][1] == {"role": "assistant", **message}


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
def test_a_cut_call_stays_in_the_history_and_is_answered(protocol: str) -> None:
    written = json.dumps(history(protocol, answer_message([CUT], protocol)))
    assert written.count('"b"') == 2
