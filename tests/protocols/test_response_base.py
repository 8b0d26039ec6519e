from typing import Any

import pytest

from wholecall.errors import (
    InadmissibleTools,
    InvalidChoice,
    RunFailed,
    UnknownModel,
    UnreadableRequest,
    UpstreamError,
    WholecallError,
)
from wholecall.protocols.anthropic.response import encode_error as anthropic_error
from wholecall.protocols.openai_chat.response import encode_error as openai_error
from wholecall.protocols.response_base import (
    NO_THREADS,
    Failure,
    read_failure,
    waits_for_client,
)


@pytest.mark.parametrize(
    ("status", "openai", "anthropic"),
    [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (403, "permission_error", "permission_error"),
        (404, "invalid_request_error", "not_found_error"),
        (408, "invalid_request_error", "timeout_error"),
        (409, "invalid_request_error", "invalid_request_error"),
        (413, "invalid_request_error", "request_too_large"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (502, "server_error", "api_error"),
        (504, "server_error", "timeout_error"),
        (529, "server_error", "overloaded_error"),
    ],
)
def test_the_type_follows_the_status(status: int, openai: str, *, anthropic: str) -> None:
    failure = Failure(message="no", status=status)
    assert openai_error(failure)["error"]["type"] == openai
    assert anthropic_error(failure)["error"]["type"] == anthropic


def test_openais_shape() -> None:
    failure = Failure(message="no", status=400, code="c", param="tools", request_id="req_1")
    error = {"message": "no", "type": "invalid_request_error", "param": "tools", "code": "c"}
    assert openai_error(failure) == {"error": error, "request_id": "req_1"}
    assert openai_error(Failure(message="no")).keys() == {"error"}


def test_anthropics_shape_names_the_field_in_the_message() -> None:
    failure = Failure(message="is no list", status=400, param="tools", request_id="req_1")
    assert anthropic_error(failure) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "tools: is no list"},
        "request_id": "req_1",
    }
    said = anthropic_error(Failure(message="tools: is no list", status=400, param="tools"))
    assert said["error"]["message"] == "tools: is no list"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            UnreadableRequest("messages: expected a list", param="messages"),
            {"status": 400, "code": "invalid_value", "param": "messages"},
        ),
        (UnreadableRequest("the body: …", param=""), {"status": 400, "code": "invalid_value"}),
        (
            InvalidChoice("no such tool", param="tool_choice"),
            {"status": 400, "code": "invalid_value", "param": "tool_choice"},
        ),
        (
            InadmissibleTools("too many", ()),
            {"status": 400, "code": "invalid_value", "param": "tools"},
        ),
        (UnknownModel("who?"), {"status": 404, "code": "model_not_found", "param": "model"}),
        (UpstreamError("slow down", status=429, code="rate"), {"status": 429, "code": "rate"}),
        (UpstreamError("bad key", status=401), {"status": 502}),
        (
            UpstreamError("no x", status=404, code="model_not_found"),
            {"status": 404, "code": "model_not_found"},
        ),
        (UpstreamError("what?", status=404, code="status"), {"status": 502, "code": "status"}),
        (UpstreamError("no", status=403, code="forbidden"), {"status": 502, "code": "forbidden"}),
        (UpstreamError("no", status=403, code="moderation"), {"status": 403, "code": "moderation"}),
        (UpstreamError("silent", code="timeout"), {"status": 504, "code": "timeout"}),
        (UpstreamError("gone", code="connection"), {"status": 502, "code": "connection"}),
        (RunFailed("gave up"), {"status": 500}),
    ],
)
def test_what_a_client_is_told_of_an_exception(
    error: WholecallError, expected: dict[str, Any]
) -> None:
    failure = read_failure(error, request_id="req_1")
    assert failure == Failure(message=str(error), request_id="req_1", **expected)


def test_anthropics_clients_are_told_to_do_without_threads() -> None:
    error = UnreadableRequest("no threads", param="thread", code=NO_THREADS)
    told = anthropic_error(read_failure(error))["error"]
    assert told["details"] == {"error_code": "thread_unsupported_request"}
    assert "details" not in anthropic_error(Failure(message="no", status=400))["error"]


@pytest.mark.parametrize(
    ("native", "waits"),
    [
        ({"type": "mcp_approval_request"}, True),
        ({"type": "tool_search_call", "execution": "client"}, True),
        ({"type": "tool_search_call", "execution": "server"}, False),
        ({"type": "web_search_call"}, False),
        ({"type": ["custom"]}, False),
    ],
)
def test_some_blocks_wait_for_the_client(native: dict[str, Any], *, waits: bool) -> None:
    assert waits_for_client(native) == waits
