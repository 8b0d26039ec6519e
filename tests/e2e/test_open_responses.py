"""The proxy in front of any upstream keeps to the Open Responses specification: what its compliance
suite asks for without an account, over HTTP and over a WebSocket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

from any_upstream import UPSTREAMS, AnyUpstream, Said, in_front_of
from open_responses import breaches, check_stream
from proxy_server import Served, in_loop

PATH = "/v1/responses"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjEKJSVFT0Y="
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather now.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    },
}
CALLED = Said("", (("get_weather", {"location": "San Francisco"}),))
THOUGHT = Said("Hello there.", reasoning="A greeting will do.")
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def user(*content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(content)}


def text(said: str) -> dict[str, Any]:
    return {"type": "input_text", "text": said}


class Row(NamedTuple):
    """A request of the suite."""

    fields: dict[str, Any]
    says: Said = Said("Hello there.")
    echo: Mapping[str, Any] = MappingProxyType({})
    """What the response repeats; of `tools` and `text` with what was left out."""


FULL = {**WEATHER, "strict": None}
ROWS: dict[str, Row] = {
    "a text": Row({"input": "Say hello."}),
    "a message": Row({"input": [user(text("Say hello."))]}),
    "a system prompt": Row(
        {"input": [{"type": "message", "role": "system", "content": "Be brief."}, user(text("Hi"))]}
    ),
    "a conversation": Row(
        {
            "input": [
                {"type": "message", "role": "user", "content": "I am Alice."},
                {"type": "message", "role": "assistant", "content": "Hello Alice!"},
                {"type": "message", "role": "user", "content": "Who am I?"},
            ]
        }
    ),
    "an image": Row(
        {"input": [user(text("What is it?"), {"type": "input_image", "image_url": PIXEL})]}
    ),
    "a file": Row(
        {
            "input": [
                user(
                    text("Read it."),
                    {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
                )
            ]
        }
    ),
    "reasoning": Row({"input": "Hi"}, THOUGHT),
    "a tool": Row({"input": "Weather?", "tools": [WEATHER]}, CALLED, {"tools": [FULL]}),
    "a demanded tool": Row(
        {
            "input": "Weather?",
            "tools": [WEATHER],
            "tool_choice": {"type": "function", "name": "get_weather"},
            "parallel_tool_calls": False,
        },
        CALLED,
        {
            "tool_choice": {"type": "function", "name": "get_weather"},
            "parallel_tool_calls": False,
        },
    ),
    "a choice of tools": Row(
        {
            "input": "Weather?",
            "tools": [WEATHER],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "get_weather"}],
            },
        },
        CALLED,
    ),
    "a format": Row(
        {
            "input": "Hi",
            "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
        },
        Said('{"a": "b"}'),
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "n",
                    "schema": SCHEMA,
                    "description": None,
                    "strict": False,
                }
            }
        },
    ),
    "any object": Row(
        {"input": "Hi, in JSON", "text": {"format": {"type": "json_object"}}},
        Said('{"a": "b"}'),
        {"text": {"format": {"type": "json_object"}}},
    ),
    "all settings": Row(
        {
            "input": "Hi",
            "instructions": "Be brief.",
            "temperature": 0.5,
            "top_p": 0.5,
            "max_output_tokens": 99,
            "max_tool_calls": 3,
            "metadata": {"topic": "a"},
            "store": False,
            "truncation": "auto",
            "service_tier": "auto",
            "safety_identifier": "u",
            "prompt_cache_key": "k",
            "top_logprobs": 0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "reasoning": {"effort": "low"},
        },
        echo={"reasoning": {"effort": "low", "summary": None}},
    ),
}


def expect_echo(row: Row) -> dict[str, Any]:
    asked = {name: value for name, value in row.fields.items() if name != "input"}
    return {**asked, **({"tools": [FULL]} if "tools" in asked else {}), **row.echo}


def read_stream(stream: str) -> list[Any]:
    blocks = [block.split("\n") for block in stream.split("\n\n") if block]
    events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert [name for name, _ in blocks] == [f"event: {event['type']}" for event in events]
    return events


WITHOUT_A_FORM = {("ollama", "a file")}
"""What the protocol of an upstream cannot say; it is refused by name."""


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_every_response_has_every_field_whole_and_streamed(prefix: str) -> None:
    async with in_front_of(prefix) as it:
        for name, row in ROWS.items():
            it.says = row.says
            status, whole, headers = await it.served.post(PATH, {"model": "m", **row.fields})
            if (prefix, name) in WITHOUT_A_FORM:
                assert (status, whole["error"]["param"]) == (400, "input")
                continue
            assert (name, status) == (name, 200)
            assert headers["content-type"].startswith("application/json")
            body = {"model": "m", "stream": True, **row.fields}
            _, stream, headers = await it.served.post(PATH, body)
            assert headers["content-type"].startswith("text/event-stream")
            for response in (whole, check_stream(read_stream(stream))):
                assert (name, breaches("response", response)) == (name, [])
                assert (name, response["status"]) == (name, "completed")
                kinds = [item["type"] for item in response["output"]]
                assert kinds[-1] == ("function_call" if row.says.calls else "message")
                # Without tools, Responses pass through: it is the upstream that repeats the fields.
                wanted = expect_echo(row) if prefix != "responses" or row.says.calls else {}
                assert (name, {field: response[field] for field in wanted}) == (name, wanted)


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_a_function_is_called_and_the_conversation_continued(prefix: str) -> None:
    async with in_front_of(prefix) as it:
        it.says = CALLED
        asked = {"model": "m", "input": "Weather?", "tools": [WEATHER]}
        _, first, _ = await it.served.post(PATH, asked)
        output = {
            "type": "function_call_output",
            "call_id": first["output"][-1]["call_id"],
            "output": "64 degrees and clear",
        }
        it.says = Said("It is clear.")
        status, second, _ = await it.served.post(
            PATH, {"model": "m", "previous_response_id": first["id"], "input": [output]}
        )
        assert (status, breaches("response", second)) == (200, [])
        assert second["previous_response_id"] == first["id"]
        told = json.dumps(it.sent[-1])
        assert "64 degrees and clear" in told
        assert "San Francisco" in told or prefix == "responses"


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_a_compacted_conversation_has_every_field(prefix: str) -> None:
    async with in_front_of(prefix) as it:
        it.says, it.lacks = Said("Summary of the conversation so far: hello."), "/compact"
        asked = {"model": "m", "input": [user(text("Hi"))], "instructions": "Keep the goals."}
        status, made, _ = await it.served.post(f"{PATH}/compact", asked)
        assert (status, breaches("compaction", made)) == (200, [])


LENGTH: dict[str, Any] = {
    "message": {"role": "assistant", "content": "Hello th"},
    "finish_reason": "length",
    "index": 0,
}
CUT = f"data: {json.dumps({'choices': [{**LENGTH, 'delta': LENGTH['message']}]})}\n\n"


@pytest.mark.parametrize("stream", [True, False])
@in_loop
async def test_an_answer_that_was_cut_is_incomplete_and_so_is_its_last_item(
    *, stream: bool
) -> None:
    async with in_front_of("openai") as it:
        it.says = (
            web.Response(text=f"{CUT}data: [DONE]\n\n", content_type="text/event-stream")
            if stream
            else web.json_response({"choices": [LENGTH]})
        )
        _, answer, _ = await it.served.post(PATH, {"model": "m", "input": "Hi", "stream": stream})
        response = check_stream(read_stream(answer)) if stream else answer
        assert breaches("response", response) == []
        assert (response["status"], response["completed_at"]) == ("incomplete", None)
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert [item["status"] for item in response["output"]] == ["incomplete"]


@in_loop
async def test_an_error_in_a_stream_is_followed_by_the_failed_response() -> None:
    begun = {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    broken = {"error": {"message": "overloaded", "type": "server_error"}}
    async with in_front_of("openai") as it:
        text = f"data: {json.dumps(begun)}\n\ndata: {json.dumps(broken)}\n\n"
        it.says = web.Response(text=text, content_type="text/event-stream")
        _, answer, _ = await it.served.post(PATH, {"model": "m", "input": "Hi", "stream": True})
        events = read_stream(answer)
        assert [each["type"] for each in events[-2:]] == ["error", "response.failed"]
        assert [each for event in events for each in breaches("event", event)] == []
        assert events[-1]["response"]["error"]["message"] == events[-2]["error"]["message"]


# ── Over a WebSocket ────────────────────────────────────────────────────────────────


@asynccontextmanager
async def connecting(served: Served) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with served.http.ws_connect(served.url + PATH) as socket:
        yield socket


async def create(socket: aiohttp.ClientWebSocketResponse, **fields: Any) -> list[Any]:
    await socket.send_json({"type": "response.create", "model": "m", **fields})
    events: list[Any] = []
    ends = ("error", "response.completed", "response.failed", "response.incomplete")
    while not events or events[-1]["type"] not in ends:
        events.append(await socket.receive_json())
    return events


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_turns_follow_each_other_on_one_connection(prefix: str) -> None:
    async with in_front_of(prefix) as it, connecting(it.served) as socket:
        it.says, it.lacks = CALLED, "/compact"
        asked: dict[str, Any] = {"tools": [WEATHER], "store": False}
        first = check_stream(await create(socket, input=[user(text("Weather?"))], **asked))
        output = {
            "type": "function_call_output",
            "call_id": first["output"][-1]["call_id"],
            "output": "clear",
        }
        it.says = Said("It is clear.")
        second = check_stream(
            await create(socket, input=[output], previous_response_id=first["id"], **asked)
        )
        assert second["previous_response_id"] == first["id"]
        told = json.dumps(it.sent[-1])
        assert told.index("Weather?") < told.index("San Francisco") < told.index('"clear')
        # What is compacted begins a new chain.
        it.says = Said("Summary of the conversation so far: it is clear.")
        window = [user(text("Weather?")), *first["output"], output, *second["output"]]
        _, made, _ = await it.served.post(f"{PATH}/compact", {"model": "m", "input": window})
        fresh = [*made["output"], user(text("And now?"))]
        third = check_stream(await create(socket, input=fresh, **asked))
        assert third["previous_response_id"] is None
        assert it.says.text in json.dumps(it.sent[-1])


async def lose(it: AnyUpstream, *, store: bool) -> str:
    """The id of a response whose connection is lost."""
    async with connecting(it.served) as socket:
        events = await create(socket, input="one", store=store)
    made: str = check_stream(events)["id"]
    return made


@pytest.mark.parametrize("prefix", [prefix for prefix in UPSTREAMS if prefix != "responses"])
@in_loop
async def test_only_what_is_stored_outlives_its_connection(prefix: str) -> None:
    async with in_front_of(prefix) as it:
        kept, gone = [await lose(it, store=store) for store in (True, False)]
        async with connecting(it.served) as socket:
            check_stream(await create(socket, input="two", previous_response_id=kept))
            [error] = await create(socket, input="two", previous_response_id=gone)
            assert breaches("socket error", error) == []
            assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
            assert error["error"]["param"] == "previous_response_id"
            # The connection is as good as before.
            check_stream(await create(socket, input="three"))


@in_loop
async def test_errors_on_a_connection_have_a_code_and_a_status() -> None:
    async with in_front_of("openai") as it, connecting(it.served) as socket:
        rows: list[tuple[Any, int]] = [
            ({"type": "response.create", "input": "x"}, 400),
            ({"type": "response.create", "model": "none", "input": "x"}, 404),
            ({"type": "response.cancel"}, 400),
            ({"type": "response.create", "model": "m", "input": [{"role": "robot"}]}, 400),
        ]
        for message, status in rows:
            await socket.send_json(message)
            error = await socket.receive_json()
            assert (message, breaches("socket error", error)) == (message, [])
            assert error["status"] == status
        it.says = web.json_response({"error": {"message": "busy"}}, status=429)
        [error] = await create(socket, input="x")
        assert (error["status"], breaches("socket error", error)) == (429, [])
