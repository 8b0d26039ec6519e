"""Law 5 on the way out: what a client gets does not depend on how the upstream's bytes arrived."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asgi_calls import ask
from example_counts import examples
from wholecall.messages import Request
from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.schema import Config, KeysConfig
from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.upstreams.base import Answer

# A text that ends with what may become a call is held back until that is known.
ENDINGS = ["it", "it <", "it <tool", "it [", "it {", '{"na', "it ```", "<|", "it <fun", "f(", ""]
PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}}


def sse(*payloads: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in payloads)


def named(*payloads: Any) -> bytes:
    """Events whose names are their types."""
    return b"".join(f"event: {each['type']}\n".encode() + sse(each) for each in payloads)


def pieces(text: str) -> Iterable[str]:
    return (text[at : at + 4] for at in range(0, len(text), 4))


# ── One answer in the words of each upstream ────────────────────────────────────────


def write_chat(text: str, *, calls: bool) -> bytes:
    def chunk(delta: Any, finish: str | None = None) -> Any:
        return {
            "id": "chatcmpl-a",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    function = {"name": "search", "arguments": '{"q": "x"}'}
    call = {"tool_calls": [{"index": 0, "id": "c0", "type": "function", "function": function}]}
    said = [chunk({"reasoning_content": "Hm."}), *(chunk({"content": p}) for p in pieces(text))]
    end = [chunk(call), chunk({}, "tool_calls")] if calls else [chunk({}, "stop")]
    return sse(*said, *end) + b"data: [DONE]\n\n"


def write_responses(text: str, *, calls: bool) -> bytes:
    def item(number: int, ends: tuple[Any, Any], *inside: Any) -> list[Any]:
        (before, after), where = ends, {"output_index": number}
        return [
            {"type": "response.output_item.added", **where, "item": before},
            *({**each, **where, "item_id": before["id"]} for each in inside),
            {"type": "response.output_item.done", **where, "item": after},
        ]

    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m1", "type": "message", "role": "assistant", "status": "completed"}
    deltas = ({"type": "response.output_text.delta", "delta": p} for p in pieces(text))
    done = {"type": "response.output_text.done", "text": text}
    said = {**message, "content": [part]}
    items = item(0, ({**message, "content": []}, said), *deltas, done) if text else []
    call = {"id": "f1", "type": "function_call", "call_id": "c1", "name": "search"}
    whole = {**call, "arguments": '{"q": "x"}', "status": "completed"}
    grown = {"type": "response.function_call_arguments.delta", "delta": '{"q": "x"}'}
    if calls:
        items += item(1, ({**call, "arguments": ""}, whole), grown)
    output = [*([said] if text else []), *([whole] if calls else [])]
    response = {"id": "resp_1", "status": "completed", "output": output}
    created = {"type": "response.created", "response": {"id": "resp_1", "output": []}}
    return named(created, *items, {"type": "response.completed", "response": response})


def write_messages(text: str, *, calls: bool) -> bytes:
    def block(number: int, start: Any, *deltas: Any) -> list[Any]:
        return [
            {"type": "content_block_start", "index": number, "content_block": start},
            *({"type": "content_block_delta", "index": number, "delta": each} for each in deltas),
            {"type": "content_block_stop", "index": number},
        ]

    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    said = block(
        0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": p} for p in pieces(text))
    )
    use = {"type": "tool_use", "id": "t1", "name": "search", "input": {}}
    called = block(1, use, {"type": "input_json_delta", "partial_json": '{"q": "x"}'})
    reason = "tool_use" if calls else "end_turn"
    return named(
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1}}},
        *(said if text else []),
        *(called if calls else []),
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def write_ollama(text: str, *, calls: bool) -> bytes:
    call = {"function": {"name": "search", "arguments": {"q": "x"}}}
    lines: list[Any] = [{"message": {"role": "assistant", "content": p}} for p in pieces(text)]
    if calls:
        lines.append({"message": {"role": "assistant", "content": "", "tool_calls": [call]}})
    end = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return b"".join(
        json.dumps({"model": "x", "done": False, **each}).encode() + b"\n" for each in [*lines, end]
    )


def write_gemini(text: str, *, calls: bool) -> bytes:
    def chunk(*parts: Any, **more: Any) -> Any:
        return {"candidates": [{"content": {"role": "model", "parts": parts}, **more}]}

    call = [chunk({"functionCall": {"name": "search", "args": {"q": "x"}}})] if calls else []
    said = (chunk({"text": piece}) for piece in pieces(text))
    return sse(*said, *call, chunk({"text": ""}, finishReason="STOP"))


UPSTREAMS: dict[str, Callable[..., bytes]] = {
    "openai-chat": write_chat,
    "openai-responses": write_responses,
    "anthropic": write_messages,
    "ollama": write_ollama,
    "gemini": write_gemini,
}
FUNCTION = {"name": "search", "parameters": PARAMETERS}
HI = [{"role": "user", "content": "hi"}]
CLIENTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": HI,
        "tools": [{"type": "function", "function": FUNCTION}],
    },
    "/v1/responses": {"input": HI, "tools": [{"type": "function", **FUNCTION}]},
    "/v1/messages": {
        "messages": HI,
        "max_tokens": 99,
        "tools": [{"name": "search", "input_schema": PARAMETERS}],
    },
}


class CutUpstream:
    """Sends the bytes that it is given."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.chunks: list[bytes] = []

    @asynccontextmanager
    async def answer(self, _: Request) -> AsyncIterator[Answer]:
        async def chunks() -> AsyncIterator[bytes]:
            for each in self.chunks:
                yield each

        yield Answer(protocol=self.protocol, chunks=chunks())

    async def close(self) -> None:
        """There is nothing to close."""


@cache
def make_proxy(protocol: str) -> tuple[Proxy, CutUpstream]:
    upstream = CutUpstream(protocol)
    config = Config(keys=KeysConfig(path="/nonexistent/keys.sqlite"))
    return make_app(config, models=[ModelRoute(name="m", upstream=upstream, model="x")]), upstream


# ── What a client gets, but for ids, times, and how a text is cut ───────────────────

IDS = re.compile(r"(?:resp|msg|fc|rs|call|toolu|chatcmpl|req)[_-][A-Za-z0-9_-]+")
TIMES = re.compile(r'"(created|created_at|completed_at)":\d+')
GROWING = ("delta", "text", "thinking", "partial_json", "content", "reasoning_content", "reasoning")


def read_events(client: str, protocol: str, *, chunks: list[bytes]) -> list[Any]:
    proxy, upstream = make_proxy(protocol)
    upstream.chunks = chunks
    asked = json.dumps({"model": "m", "stream": True, **CLIENTS[client]})
    answered = ask(proxy, client, method="POST", pieces=[asked.encode()])
    assert answered.status == 200, answered.body
    known: dict[str, str] = {}
    text = IDS.sub(lambda id: known.setdefault(id[0], f"id{len(known)}"), answered.body.decode())
    lines = [line[6:] for line in TIMES.sub(r'"\1":0', text).splitlines() if line[:6] == "data: "]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    numbers = [each.pop("sequence_number") for each in events if "sequence_number" in each]
    assert numbers == list(range(len(numbers)))
    return join(events)


def join(events: list[Any]) -> list[Any]:
    """Join the pieces of one text that follow each other."""
    joined: list[Any] = []
    last = None
    for event in events:
        form, texts = split(event)
        if last is not None and texts and form == last[0]:
            last[1][:] = [a + b for a, b in zip(last[1], texts, strict=True)]
            continue
        last = (form, texts) if texts else None
        joined.append((form, texts))
    return joined


def split(event: Any) -> tuple[Any, list[str]]:
    """Return an event without the text that it adds, and that text."""
    grows = event.get("type", "choices").endswith(("delta", "choices"))
    texts: list[str] = []

    def take(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {each: take(inner, each) for each, inner in value.items()}
        if isinstance(value, list):
            return [take(inner) for inner in value]
        if name in GROWING and isinstance(value, str):
            texts.append(value)
            return "…"
        return value

    return (take(event), texts) if grows else (event, [])


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", UPSTREAMS)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_a_client_gets_the_same_however_the_bytes_arrived(
    protocol: str, client: str, *, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from(["found ", ""])) + data.draw(st.sampled_from(ENDINGS))
    calls = data.draw(st.booleans())
    stream = UPSTREAMS[protocol](text, calls=calls)
    places = st.lists(st.integers(min_value=1, max_value=len(stream) - 1), max_size=12)
    cuts = [0, *sorted(set(data.draw(places))), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(cuts)]
    whole = read_events(client, protocol, chunks=[stream])
    assert read_events(client, protocol, chunks=chunks) == whole
    said = "".join(each for form, texts in whole if "delta" in str(form) for each in texts)
    assert text in said


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS if ending])
@pytest.mark.parametrize("protocol", UPSTREAMS)
def test_what_is_held_back_of_a_text_leaves_inside_its_item(protocol: str, ending: str) -> None:
    written = UPSTREAMS[protocol](ending, calls=True)
    events = read_events("/v1/responses", protocol, chunks=[written])
    output = events[-1][0]["response"]["output"]
    messages = [item for item in output if item["type"] == "message"]
    assert [part["text"] for item in messages for part in item["content"]] == [ending]
    assert [item["type"] for item in output if item["type"] != "reasoning"] == [
        "message",
        "function_call",
    ]
