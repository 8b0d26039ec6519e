import json
from types import MappingProxyType
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
from wholecall.events import Usage
from wholecall.protocols.anthropic.response import encode_error as anthropic_error
from wholecall.protocols.anthropic.response import write_usage as write_message_usage
from wholecall.protocols.openai_chat.response import encode_error as openai_error
from wholecall.protocols.openai_chat.response import write_usage as write_chat_usage
from wholecall.protocols.openai_responses.response import write_usage as write_response_usage
from wholecall.protocols.registry import make_answer_id
from wholecall.protocols.response_base import (
    NO_THREADS,
    Failure,
    ResponseHead,
    comment,
    dump,
    frame,
    quote,
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


# ── Usages ──────────────────────────────────────────────────────────────────────────────

CHAT: dict[str, Any] = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
RESPONSE: dict[str, Any] = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}
MESSAGE: dict[str, Any] = {
    "input_tokens": 40,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 60,
    "output_tokens": 20,
}
GEMINI = {"promptTokenCount": 100, "cachedContentTokenCount": 60, "thoughtsTokenCount": 5}
NO_REASONING = {"reasoning_tokens": 0}
USAGES = {
    "chat": Usage(100, 20, CHAT),
    "response": Usage(100, 20, RESPONSE),
    "message": Usage(40, 20, MESSAGE),
    "gemini": Usage(100, 20, GEMINI),
}


@pytest.mark.parametrize("source", USAGES)
def test_the_same_figures_are_told_in_every_protocol(source: str) -> None:
    usage = USAGES[source]
    # Anthropic does not say how much of its output was thinking.
    unknown = {"output_tokens_details": NO_REASONING} if source == "message" else {}
    hidden = {"completion_tokens_details": NO_REASONING} if source == "message" else {}
    assert write_chat_usage(usage) == CHAT | hidden
    assert write_response_usage(usage) == RESPONSE | unknown
    assert write_message_usage(usage) == MESSAGE


def test_figures_of_the_same_protocol_keep_what_nobody_else_knows() -> None:
    assert write_chat_usage(Usage(1, 2, CHAT | {"cost": 0.1}))["cost"] == 0.1
    assert write_response_usage(Usage(1, 2, RESPONSE | {"cost": 0.1}))["cost"] == 0.1
    assert write_message_usage(Usage(1, 2, MESSAGE | {"speed": "fast"}))["speed"] == "fast"


def test_what_is_unknown_is_nothing() -> None:
    assert write_message_usage(None) == {"input_tokens": 0, "output_tokens": 0}
    assert write_message_usage(Usage(3, None, {"input_tokens": 3}))["output_tokens"] == 0
    assert write_chat_usage(Usage(None, None, {"prompt_tokens_details": None})) == {
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "total_tokens": 0,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": NO_REASONING,
    }


def test_cached_tokens_beside_openais_figures_are_not_counted_twice() -> None:
    both = Usage(100, 20, CHAT | {"cache_read_input_tokens": 60})
    assert write_message_usage(both) == MESSAGE


# ── Frames ──────────────────────────────────────────────────────────────────────────────

HALF = "\ud83d"


@pytest.mark.parametrize(
    ("says", "text", "expected"),
    [
        ("text stays readable", "Grüße", '"Grüße"'.encode()),
        ("a newline cannot end a line of the stream", "a\r\nb", rb'"a\r\nb"'),
        ("half of a pair is no character", f"a{HALF}b", '"a\ufffdb"'.encode()),
        ("two halves are one", HALF + "\ude00", '"😀"'.encode()),
    ],
)
def test_quote(says: str, text: str, *, expected: bytes) -> None:
    assert quote(text) == expected, says


@pytest.mark.parametrize(
    "value",
    [{"a": [1, None, 2.5]}, {"big": 2**80}, {"deep": MappingProxyType({"a": 1})}],
)
def test_dump_writes_every_json_value_on_one_line(value: Any) -> None:
    written = dump(value)
    assert b"\n" not in written
    assert json.loads(written) == json.loads(json.dumps(value, default=dict))


def test_dump_joins_halves_and_replaces_lone_ones() -> None:
    value = {f"a{HALF}": [HALF + "\ude00", MappingProxyType({"b": HALF}), 2**80]}
    written = '{"a\ufffd":["😀",{"b":"\ufffd"},1208925819614629174706176]}'
    assert dump(value) == written.encode()


def test_dump_refuses_what_is_no_json() -> None:
    with pytest.raises(TypeError, match="object is no JSON value"):
        dump(object())


def test_frame() -> None:
    assert frame({"a": 1}) == b'data: {"a":1}\n\n'
    assert frame({"a": 1}, "ping") == b'event: ping\ndata: {"a":1}\n\n'


def test_comment() -> None:
    assert comment("wholecall", {"a": "b\nc"}) == b': wholecall {"a":"b\\nc"}\n\n'


# ── Head ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("protocol", "prefix"),
    [("openai-chat", "chatcmpl-"), ("openai-responses", "resp_"), ("anthropic", "msg_")],
)
def test_an_id_has_its_protocols_form_and_is_new(protocol: str, prefix: str) -> None:
    first, second = make_answer_id(protocol), make_answer_id(protocol)
    assert first.startswith(prefix)
    assert first != second


def test_other_fields_are_kept_and_never_replace_ours() -> None:
    head = ResponseHead(id="a", model="m", rest={"service_tier": "flex", "id": "theirs"})
    fields = head.complete({"id": "a", "model": "m"})
    assert list(fields.items()) == [("id", "a"), ("model", "m"), ("service_tier", "flex")]
