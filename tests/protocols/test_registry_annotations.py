"""What is said of a text besides reaches clients of the same protocol, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from wholecall.events import Event, Reasoning, Text
from wholecall.protocols.history import answer_message
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import encode_answer, make_encoder
from wholecall.protocols.response_base import ResponseHead, ResponseStyle

HEAD = ResponseHead(id="resp_1", model="m")
CITED = [{"type": "char_location", "cited_text": "green"}, {"type": "page_location"}]
FOUND = [{"type": "url_citation", "url": "https://example.org", "start_index": 0}]
SHOWN: dict[str, Any] = {
    "images": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}],
    "audio": {"id": "a", "data": "AA==", "transcript": "example.org"},
}
LIKELY = [{"token": "A", "logprob": -0.5}, {"token": "B", "logprob": -1.5}]


# ── Answers ─────────────────────────────────────────────────────────────────────────


def said(text: str, *citations: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **({"citations": list(citations)} if citations else {})}


def block(index: int, text: str, *citations: Any) -> list[dict[str, Any]]:
    deltas = [{"type": "text_delta", "text": text}]
    deltas += [{"type": "citations_delta", "citation": citation} for citation in citations]
    place = {"index": index}
    return [
        {"type": "content_block_start", **place, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", **place, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **place},
    ]


def say(finish: str | None = None, *, logprobs: Any = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
    return {"choices": [choice]}


MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [
        {"type": "output_text", "text": "AB", "annotations": FOUND, "logprobs": LIKELY},
    ],
}
STOPPED = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
WHOLE: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "AB", "annotations": FOUND, **SHOWN},
                "logprobs": {"content": LIKELY, "refusal": None},
                "finish_reason": "stop",
            }
        ]
    },
    "openai-responses": {"status": "completed", "output": [MESSAGE]},
    "anthropic": {"content": [said("The "), said("grass", *CITED), said(".")], **STOPPED},
}
STREAMS: dict[str, list[Any]] = {
    "openai-chat": [
        say(role="assistant", content=""),
        say(content="A", logprobs={"content": LIKELY[:1], "refusal": None}),
        say(content="B", logprobs={"content": LIKELY[1:], "refusal": None}),
        say(annotations=FOUND),
        say(images=SHOWN["images"]),
        say(audio={"id": "a"}),
        say(audio={"data": "AA==", "transcript": "example.org"}),
        say("stop"),
        "data: [DONE]\n\n",
    ],
    "openai-responses": [
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": "AB"},
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        {"type": "response.completed", "response": WHOLE["openai-responses"]},
    ],
    "anthropic": [
        *block(0, "The "),
        *block(1, "grass", *CITED),
        *block(2, "."),
        {"type": "message_delta", "delta": STOPPED},
        {"type": "message_stop"},
    ],
}


def read_stream(protocol: str, chunks: Iterable[Any]) -> list[Event]:
    reader = Reader(protocol)
    return [*(event for chunk in chunks for event in reader.feed(chunk)), *reader.end()]


def read_whole(protocol: str, body: Any) -> list[Event]:
    reader = Reader(protocol)
    return [*reader.feed_response(body), *reader.end()]


def write_stream(protocol: str, events: Iterable[Event], *, upstream: str) -> bytes:
    encoder = make_encoder(protocol, HEAD, style=ResponseStyle(upstream=upstream))
    return b"".join([*map(encoder.encode, events), encoder.finish()])


def list_notes(events: Iterable[Event]) -> list[Any]:
    """Each text, and behind it all that is said of it."""
    told: list[Any] = []
    for event in events:
        if isinstance(event, Text):
            told += [] if told and isinstance(told[-1], str) else [""]
            told[-1] += event.text
        elif isinstance(event, Reasoning):
            told += [] if told and isinstance(told[-1], dict) else [{}]
            for key in event.extras.keys() - {"message"}:
                told[-1].setdefault(key, []).extend(event.extras[key])
    return told


# ── The same protocol ───────────────────────────────────────────────────────────────

READ = {
    **{f"{name} streamed": (name, read_stream(name, chunks)) for name, chunks in STREAMS.items()},
    **{f"{name} whole": (name, read_whole(name, body)) for name, body in WHOLE.items()},
}


@pytest.mark.parametrize(("protocol", "events"), READ.values(), ids=READ)
def test_notes_reach_a_whole_answer(protocol: str, events: list[Event]) -> None:
    body = encode_answer(protocol, events, head=HEAD, upstream=protocol)
    told = json.loads(json.dumps(body))
    for field in ("choices", "output", "content", *STOPPED):
        assert told.get(field) == _without_finish(WHOLE[protocol]).get(field, told.get(field))


def _without_finish(body: dict[str, Any]) -> dict[str, Any]:
    """As we write it: the upstream's own word for the end stands beside ours."""
    choices = [{**each, "native_finish_reason": "stop"} for each in body.get("choices", ())]
    return {**body, **({"choices": choices} if choices else {})}


@pytest.mark.parametrize(("protocol", "events"), READ.values(), ids=READ)
def test_notes_reach_a_stream(protocol: str, events: list[Event]) -> None:
    written = write_stream(protocol, events, upstream=protocol)
    assert list_notes(read_stream(protocol, [written])) == list_notes(events)


def test_a_response_tells_annotations_one_by_one() -> None:
    protocol = "openai-responses"
    events = read_whole(protocol, WHOLE[protocol])
    stream = write_stream(protocol, events, upstream=protocol).decode()
    frames = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    by_type = {frame["type"]: frame for frame in frames}
    added = by_type["response.output_text.annotation.added"]
    assert (added["annotation"], added["annotation_index"]) == (FOUND[0], 0)
    assert by_type["response.output_text.done"]["logprobs"] == LIKELY
    assert by_type["response.content_part.done"]["part"] == MESSAGE["content"][0]
    assert by_type["response.completed"]["response"]["output"][0]["content"] == MESSAGE["content"]


# ── Others ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("upstream", STREAMS)
@pytest.mark.parametrize("client", STREAMS)
def test_other_protocols_get_the_text_alone(client: str, upstream: str) -> None:
    if client == upstream:
        return
    events = read_stream(upstream, STREAMS[upstream])
    stream = write_stream(client, events, upstream=upstream)
    body = json.dumps(encode_answer(client, events, head=HEAD, upstream=upstream))
    for word in (b"cited_text", b"example.org", b"-0.5", b"END"):
        assert word not in stream
        assert word.decode() not in body


@pytest.mark.parametrize(("protocol", "texts"), [("openai-chat", ["AB"]), ("anthropic", None)])
def test_the_next_request_is_not_made_longer_by_them(
    protocol: str, texts: list[str] | None
) -> None:
    events = read_stream(protocol, STREAMS[protocol])
    parts = answer_message(events, protocol).parts
    assert [part.text for part in parts if isinstance(part, Text)] == (
        texts or ["The ", "grass", "."]
    )
    noted = [part.extras for part in parts if isinstance(part, Reasoning)]
    assert all(extras.keys() == {"citations"} for extras in noted)


# ── What is odd ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("odd", [True, [1], "x", {"content": None}])
def test_logprobs_in_another_form_do_no_harm(odd: Any) -> None:
    events = read_stream(
        "openai-chat", [say(content="A", logprobs=odd, annotations=odd), say("stop")]
    )
    assert Text("A") in events
    body = encode_answer("openai-chat", events, head=HEAD)
    assert body["choices"][0]["message"]["content"] == "A"
    assert "annotations" not in body["choices"][0]["message"]


def test_the_text_of_several_parts_has_no_notes() -> None:
    part = MESSAGE["content"][0]
    message = {**MESSAGE, "content": [part, part]}
    events = read_whole("openai-responses", {"status": "completed", "output": [message]})
    assert list_notes(events) == ["ABAB", {}]


def test_the_fields_of_a_message_without_text_are_not_those_of_a_call() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    empty = {**MESSAGE, "content": [{"type": "output_text", "text": ""}]}
    answer = {"status": "completed", "output": [call, empty]}
    protocol = "openai-responses"
    body = encode_answer(protocol, read_whole(protocol, answer), head=HEAD, upstream=protocol)
    assert [item["id"] for item in body["output"]] == ["fc_1"]


def test_citations_of_no_text_are_left_out() -> None:
    own = {"type": "web_fetch", "content": 1}
    cited = {"type": "content_block_delta", "index": 0, "delta": {"citation": CITED[0]}}
    chunks = [{"type": "content_block_start", "index": 0, "content_block": own}, cited]
    chunks += [{"type": "content_block_stop", "index": 0}, *STREAMS["anthropic"][-2:]]
    events = read_stream("anthropic", chunks)
    events.insert(1, Reasoning("", {"citations": CITED}))
    body = encode_answer("anthropic", events, head=HEAD, upstream="anthropic")
    assert body["content"] == [own]


# ── A model that will not answer ────────────────────────────────────────────────────

NO = "I cannot."
DECLINING_ITEM = {**MESSAGE, "content": [{"type": "refusal", "refusal": NO}]}
DECLINED: dict[str, list[Event]] = {
    "openai-chat streamed": read_stream(
        "openai-chat", [say(refusal=""), say(refusal="I "), say(refusal="cannot."), say("stop")]
    ),
    "openai-chat whole": read_whole(
        "openai-chat",
        {"choices": [{"message": {"content": None, "refusal": NO}, "finish_reason": "stop"}]},
    ),
    "openai-chat in parts": read_whole(
        "openai-chat",
        {"choices": [{"message": {"content": [{"refusal": NO}]}, "finish_reason": "stop"}]},
    ),
    "openai-responses streamed": read_stream(
        "openai-responses",
        [
            {"type": "response.refusal.delta", "output_index": 0, "delta": ""},
            {"type": "response.refusal.delta", "output_index": 0, "delta": NO},
            {"type": "response.output_item.done", "output_index": 0, "item": DECLINING_ITEM},
            {"type": "response.completed", "response": {"output": [DECLINING_ITEM]}},
        ],
    ),
    "openai-responses whole": read_whole("openai-responses", {"output": [DECLINING_ITEM]}),
}
OF_OPENAI = ("openai-chat", "openai-responses")


@pytest.mark.parametrize("events", DECLINED.values(), ids=DECLINED)
def test_a_refusal_is_no_content_for_clients_of_openai(events: list[Event]) -> None:
    chat = encode_answer("openai-chat", events, head=HEAD)
    message = chat["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == (None, NO)
    response = encode_answer("openai-responses", events, head=HEAD)
    assert response["output"][-1]["content"] == [{"type": "refusal", "refusal": NO}]


@pytest.mark.parametrize("client", OF_OPENAI)
@pytest.mark.parametrize("events", DECLINED.values(), ids=DECLINED)
def test_a_refusal_is_one_in_a_stream(client: str, events: list[Event]) -> None:
    again = read_stream(client, [write_stream(client, events, upstream=client)])
    assert "".join(event.text for event in again if isinstance(event, Text)) == NO
    assert Reasoning("", {"refusal": True}) in again
    written = encode_answer(client, again, head=HEAD)
    assert '"refusal": "I cannot."' in json.dumps(written)


@pytest.mark.parametrize("events", DECLINED.values(), ids=DECLINED)
def test_a_refusal_is_text_for_all_others(events: list[Event]) -> None:
    body = encode_answer("anthropic", events, head=HEAD)
    assert body["content"] == [{"type": "text", "text": NO}]
    assert answer_message(events, "openai-chat").text == NO


def test_what_is_no_message_is_not_declined() -> None:
    own = {"type": "web_search_call", "id": "ws_1"}
    events = read_whole("openai-responses", {"output": [own, DECLINING_ITEM]})
    body = encode_answer("openai-responses", events, head=HEAD, upstream="openai-responses")
    assert [item["type"] for item in body["output"]] == ["web_search_call", "message"]
    assert body["output"][0] == own
