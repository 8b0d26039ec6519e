"""What a client says with a request."""

from __future__ import annotations

import pytest

from wholecall.protocols.response_base import ResponseStyle
from wholecall.proxy.http.api_keys import ANONYMOUS
from wholecall.proxy.http.client_request import CALLER, Caller, ClientRequest
from wholecall.proxy.routes.client_route import CHAT_CLIENT, MESSAGES_CLIENT


def asked(**headers: str) -> ClientRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ClientRequest.read(CHAT_CLIENT, {CALLER: Caller(ANONYMOUS, "r", named)}, body=b"")


def test_the_edge_says_who_asks() -> None:
    scope = {CALLER: Caller(ANONYMOUS, "req_1", {"x-one": "1"})}
    read = ClientRequest.read(MESSAGES_CLIENT, scope, body=b"{}")
    assert (read.request_id, read.key, read.headers["x-one"]) == ("req_1", ANONYMOUS, "1")


@pytest.mark.parametrize(
    ("said", "wanted"), [("1", True), ("True", True), ("0", False), ("", False)]
)
def test_progress_is_asked_for_by_a_header(said: str, wanted: bool) -> None:
    assert asked(x_wholecall_events=said).wants_progress is wanted


def test_a_trace_is_continued_by_two_headers() -> None:
    traced = {"traceparent": "00-1", "tracestate": "a=b"}
    assert asked(**traced, x_one="1").trace_headers == traced


ROWS = {"": 15.0, "600": 15.0, "10": 5.0, "0.5": 1.0, "never": 15.0, "nan": 15.0}


@pytest.mark.parametrize(("patience", "silence"), ROWS.items())
def test_an_impatient_client_hears_more_often(patience: str, silence: float) -> None:
    assert asked(x_stainless_read_timeout=patience).shorten(15.0) == silence


def test_the_usage_of_a_stream_is_told_to_those_who_want_it() -> None:
    read_style = CHAT_CLIENT.read_style
    assert read_style is not None
    assert read_style({"stream_options": {"include_usage": True}}).usage
    assert not read_style({"stream_options": None}).usage
    assert not read_style({}).usage
    assert (MESSAGES_CLIENT.read_style, ResponseStyle().usage) == (None, True)
