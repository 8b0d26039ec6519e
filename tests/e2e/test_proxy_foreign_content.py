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


IMAGE = "iVBORw0KGgo="
SOUND = "UklGRg=="
PDF = "JVBERi0="
PICTURE_URL = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
PICTURE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
INPUT_AUDIO = {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}}
FILE = {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"}
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PDF}
TEXT_SOURCE = {"type": "text", "media_type": "text/plain", "data": "Press the button."}
BLOCKS = {"type": "content", "content": [{"type": "text", "text": "Press the button."}]}
IMAGE_SOURCE = {"type": "url", "url": "https://example.org/a.png"}
CHAT_PATH, MESSAGES_PATH, RESPONSES_PATH = "/v1/chat/completions", "/v1/messages", "/v1/responses"
# A part of a user's message, the upstreams that have a form for it, what arrives there, and how it
# is named to the client of another.
MEDIA: list[tuple[str, dict[str, Any], set[str], str, str]] = [
    (CHAT_PATH, PICTURE, {*UPSTREAMS}, IMAGE, ""),
    (CHAT_PATH, PICTURE_URL, {*UPSTREAMS} - {"ollama"}, "a.png", "image_url"),
    (CHAT_PATH, INPUT_AUDIO, {"openai", "gemini"}, SOUND, "audio"),
    (CHAT_PATH, {"type": "file", "file": FILE}, {*UPSTREAMS} - {"ollama"}, PDF, "document"),
    (MESSAGES_PATH, {"type": "document", "source": TEXT_SOURCE}, {*UPSTREAMS}, "", ""),
    (MESSAGES_PATH, {"type": "document", "source": BLOCKS}, {*UPSTREAMS}, "", ""),
    (
        MESSAGES_PATH,
        {"type": "document", "source": {"type": "content", "content": "Press the button."}},
        {*UPSTREAMS},
        "",
        "",
    ),
    (
        MESSAGES_PATH,
        {"type": "document", "source": {**BLOCKS, "content": [HI, {"type": "image"}]}},
        {"anthropic"},
        "image",
        "document",
    ),
    (
        MESSAGES_PATH,
        {"type": "document", "source": SOURCE},
        {*UPSTREAMS} - {"ollama"},
        PDF,
        "document",
    ),
    (
        MESSAGES_PATH,
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        {"anthropic", "responses", "gemini"},
        "a.pdf",
        "document_url",
    ),
    (
        MESSAGES_PATH,
        {"type": "image", "source": IMAGE_SOURCE},
        {*UPSTREAMS} - {"ollama"},
        "a.png",
        "image_url",
    ),
    (
        RESPONSES_PATH,
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        {"anthropic", "responses", "gemini"},
        "a.pdf",
        "document_url",
    ),
    (
        RESPONSES_PATH,
        {"type": "input_image", "image_url": "https://example.org/a.png"},
        {*UPSTREAMS} - {"ollama"},
        "a.png",
        "image_url",
    ),
]


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_media_arrive_or_are_refused_or_left_out_by_name(prefix: str) -> None:
    async with in_front_of(prefix) as strict, in_front_of(prefix, unsupported_tools="drop") as it:
        for path, part, takers, mark, named in MEDIA:
            kind = "document" if prefix == "ollama" and named.startswith("doc") else named
            where = (path, part["type"], kind)
            words = {"type": "input_text" if path == RESPONSES_PATH else "text", "text": "Hi"}
            messages = [{"role": "user", "content": [words, part]}]
            field = "input" if path == RESPONSES_PATH else "messages"
            body = {"model": "m", "max_tokens": 99, field: messages}
            if path == RESPONSES_PATH:
                del body["max_tokens"]
            status, answer, _ = await strict.served.post(path, body)
            if prefix in takers:
                assert (where, status) == (where, 200)
                sent = json.dumps(strict.sent[-1])
                assert (where, mark in sent) == (where, True)
                assert mark or any(text in sent for text in ("Press the button.", "UHJlc3Mg"))
                continue
            assert (where, status, repr(kind) in str(answer)) == (where, 400, True)
            status, _, headers = await it.served.post(path, body)
            assert (where, status) == (where, 200)
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


@in_loop
async def test_a_model_that_thinks_is_not_asked_for_a_temperature() -> None:
    hi = [{"role": "user", "content": "Hi"}]
    body = {"model": "m", "max_tokens": 9, "temperature": 0.2, "top_p": 0.5, "messages": hi}
    async with in_front_of("openai", "gpt-5") as it:
        status, _, headers = await it.served.post("/v1/messages", body)
        assert (status, headers["x-wholecall-dropped"]) == (200, "temperature, top_p")
        assert it.sent[-1].keys().isdisjoint(("temperature", "top_p", "max_tokens"))
        status, _, headers = await it.served.post("/v1/chat/completions", {**body, "tools": [TOOL]})
        assert (status, "x-wholecall-dropped" in headers) == (200, False)
        assert (it.sent[-1]["temperature"], it.sent[-1]["top_p"]) == (0.2, 0.5)
