"""Refusals in the shape of the client's protocol."""

import json

import pytest

from wholecall.proxy.http.refusals import (
    RequestRefused,
    encode_refusal,
    refuse_for_now,
    request_id_header,
)

OPENAI = ["/v1/chat/completions", "/v1/responses", "/v1/models", "/nowhere", "/v1/messagesx"]
ANTHROPIC = ["/v1/messages", "/v1/messages/count_tokens"]
REFUSED = RequestRefused(401, "no key", code="invalid_api_key")


@pytest.mark.parametrize("path", OPENAI)
def test_openais_shape(path: str) -> None:
    assert json.loads(encode_refusal(path, REFUSED, request_id="req_1")) == {
        "error": {
            "message": "no key",
            "type": "authentication_error",
            "param": None,
            "code": "invalid_api_key",
        },
        "request_id": "req_1",
    }
    assert request_id_header(path) == b"x-request-id"


@pytest.mark.parametrize("path", ANTHROPIC)
def test_anthropics_shape(path: str) -> None:
    assert json.loads(encode_refusal(path, REFUSED, request_id="req_1")) == {
        "type": "error",
        "error": {"type": "authentication_error", "message": "no key"},
        "request_id": "req_1",
    }
    assert request_id_header(path) == b"request-id"


@pytest.mark.parametrize(
    ("seconds", "header"), [(0.0, b"1"), (0.2, b"1"), (1.0, b"1"), (1.1, b"2"), (59.5, b"60")]
)
def test_who_may_come_again_is_told_when_in_whole_seconds(seconds: float, header: bytes) -> None:
    refused = refuse_for_now(429, "later", code="rate_limit_exceeded", seconds=seconds)
    assert refused.headers == ((b"retry-after", header),)
    assert (refused.status, str(refused)) == (429, "later")
