"""The form of the final answer, from each client protocol to each upstream protocol."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.protocols.registry import decode_request, encode_request

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
NAMED = {"name": "n", "schema": SCHEMA, "strict": True}
CLIENTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai-chat": (
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": NAMED}},
    ),
    "openai-responses": (
        {"text": {"format": {"type": "json_object"}}},
        {"text": {"format": {"type": "json_schema", **NAMED}}},
    ),
}
# Where the form is written, for any object and for a schema.
UPSTREAMS: dict[str, tuple[tuple[str, ...], Any, Any]] = {
    "openai-chat": (
        ("response_format",),
        {"type": "json_object"},
        {"type": "json_schema", "json_schema": NAMED},
    ),
    "openai-responses": (
        ("text", "format"),
        {"type": "json_object"},
        {"type": "json_schema", **NAMED},
    ),
    "anthropic": (("output_config", "format"), None, {"type": "json_schema", "schema": SCHEMA}),
    "ollama": (("format",), "json", SCHEMA),
    "gemini": (("generationConfig", "responseMimeType"), "application/json", "application/json"),
}


def make_body(protocol: str, fields: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
    if protocol == "openai-responses":
        said = {"input": "hi"}
    return {"model": "m", **said, **fields}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_form_reaches_every_upstream(client: str, upstream: str) -> None:
    path, *expected = UPSTREAMS[upstream]
    for fields, wanted in zip(CLIENTS[client], expected, strict=True):
        found: Any = encode_request(upstream, decode_request(client, make_body(client, fields)))
        for name in path:
            found = (found or {}).get(name)
        assert found == wanted


def test_other_fields_of_the_form_stay_in_the_same_protocol() -> None:
    body = make_body("openai-responses", {"text": {"format": {"type": "json_object"}, "x": 1}})
    sent = encode_request("openai-responses", decode_request("openai-responses", body))
    assert sent["text"] == body["text"]
    body = make_body("openai-chat", {"response_format": {"type": "json_object", "x": 1}})
    sent = encode_request("openai-chat", decode_request("openai-chat", body))
    assert sent["response_format"] == body["response_format"]
