"""What users say in forms that only one provider can read, in front of other upstreams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from any_upstream import UPSTREAMS, in_front_of
from proxy_server import in_loop

HI = {"type": "text", "text": "Hi"}
ROWS: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "a file that OpenAI holds",
        "/v1/responses",
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Hi"},
                        {"type": "input_file", "file_id": "file-1"},
                    ],
                }
            ]
        },
        "input_file",
    ),
    (
        "an approval for a tool of the provider",
        "/v1/responses",
        {
            "input": [
                {"role": "user", "content": "Hi"},
                {"type": "mcp_approval_response", "approve": True, "approval_request_id": "a"},
            ]
        },
        "mcp_approval_response",
    ),
    (
        "a file of chat completions",
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": [HI, {"type": "file", "file": {"file_id": "f"}}]}
            ]
        },
        "file",
    ),
    (
        "a file that Anthropic holds",
        "/v1/messages",
        {
            "max_tokens": 9,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        HI,
                        {"type": "document", "source": {"type": "file", "file_id": "f"}},
                    ],
                }
            ],
        },
        "document",
    ),
]
HOMES = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "openai",
    "/v1/messages": "anthropic",
}


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_it_is_refused_or_left_out_and_nothing_is_said_in_its_place(prefix: str) -> None:
    async with in_front_of(prefix) as strict, in_front_of(prefix, unsupported_tools="drop") as it:
        for says, path, fields, kind in ROWS:
            body = {"model": "m", **fields}
            status, answer, _ = await strict.served.post(path, body)
            if HOMES[path] == prefix:
                assert (says, status) == (says, 200)
                continue
            assert (says, status) == (says, 400)
            assert repr(kind) in answer["error"]["message"]
            status, _, headers = await it.served.post(path, body)
            assert (says, status) == (says, 200)
            assert headers["x-wholecall-unsupported-tools"] == kind
            sent = json.dumps(it.sent[-1])
            assert ("Hi" in sent, "left out" in sent.lower()) == (True, False)


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_a_search_result_is_its_text(prefix: str) -> None:
    found = {
        "type": "search_result",
        "source": "https://example.org/a",
        "title": "Guide",
        "content": [{"type": "text", "text": "Press the button."}],
    }
    messages = [{"role": "user", "content": [found, HI]}]
    async with in_front_of(prefix) as it:
        body = {"model": "m", "max_tokens": 9, "messages": messages}
        status, answer, _ = await it.served.post("/v1/messages", body)
        assert status == 200, answer
        sent = json.dumps(it.sent[-1])
        assert all(word in sent for word in ("example.org/a", "Guide", "Press the button."))


TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"type": "object", "properties": {}}},
}


@in_loop
async def test_a_model_that_is_asked_again_is_not_shown_the_address_of_its_server() -> None:
    quoted = {"message": 'Failed to parse input at pos 0: <tool_call>\n{"name": "f", "argu'}
    async with in_front_of("openai", reask=1) as it:
        it.says = web.json_response({"error": quoted}, status=500)
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL]}
        status, _, _ = await it.served.post("/v1/chat/completions", body)
        told = json.dumps(it.sent[-1])
        assert (status, len(it.sent), "Failed to parse" in told) == (502, 2, True)
        assert "127.0.0.1" not in told
