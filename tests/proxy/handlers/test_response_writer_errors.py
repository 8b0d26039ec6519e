"""What clients are told, and what not."""

from __future__ import annotations

import pytest

from wholecall.errors import MODERATION, RunFailed, UnknownModel, UpstreamError, WholecallError
from wholecall.events import Call, Evidence
from wholecall.proxy.handlers.response_writer import (
    BAD_CALL,
    NEVER_AGAIN,
    explain,
    explain_break,
    explain_bug,
)
from wholecall.proxy.http.client_connection import RawHeaders

PLACE = "http://internal:8000/v1/chat/completions"
CALL = Call(id="c", name="dig", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)

ROWS: dict[str, tuple[WholecallError, int, RawHeaders]] = {
    "a model that does not exist": (UnknownModel("no"), 404, ()),
    "an upstream that asks to wait for an hour": (
        UpstreamError(f"{PLACE} is busy", status=429, retry_after=3600),
        429,
        ((b"retry-after", b"60"),),
    ),
    "an upstream that asks to wait for a moment": (
        UpstreamError(f"{PLACE} is busy", status=503, retry_after=0.2),
        503,
        ((b"retry-after", b"1"),),
    ),
    "an upstream that fails": (UpstreamError(f"{PLACE} failed", status=500), 502, ()),
    "an upstream that does not know the key": (
        UpstreamError(f"{PLACE} says: sk-pr***9a is no key", status=401, code="invalid_api_key"),
        502,
        NEVER_AGAIN,
    ),
    "an upstream that does not know its model": (
        UpstreamError(f"{PLACE} has no x", status=404, code="model_not_found"),
        404,
        (),
    ),
    "an upstream that has nothing under its address": (
        UpstreamError(f"{PLACE} answered with status 404", status=404, code="status"),
        502,
        NEVER_AGAIN,
    ),
    "an upstream with a lock that was not free": (UpstreamError("later", status=409), 409, ()),
    "a request that the upstream cannot read": (UpstreamError("no", status=400), 400, ()),
    "a model whose calls are wrong": (UpstreamError("dig: no", code=BAD_CALL), 502, NEVER_AGAIN),
    "an upstream that uses our word": (UpstreamError("no", status=500, code=BAD_CALL), 502, ()),
    "a run without tools": (RunFailed("the answer broke off"), 502, ()),
    "a run in which a tool began": (RunFailed("it broke off", ran=(CALL,)), 502, NEVER_AGAIN),
}


@pytest.mark.parametrize(("error", "status", "headers"), ROWS.values(), ids=ROWS)
def test_a_failure_is_told_without_the_upstreams_address(
    error: WholecallError, status: int, *, headers: RawHeaders
) -> None:
    failure, given = explain(error, place=PLACE, request_id="req_1")
    assert (failure.status, given, failure.request_id) == (status, headers, "req_1")
    assert PLACE not in failure.message


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("in_a_run", [False, True])
def test_it_is_the_proxys_own_key_that_an_upstream_refuses(status: int, in_a_run: bool) -> None:
    refused = UpstreamError("Incorrect API key provided: sk-ab***yz", status=status)
    error: WholecallError = refused
    if in_a_run:
        error = RunFailed(f"the upstream failed: {refused}", ran=(CALL,))
        error.__cause__ = refused
    failure, headers = explain(error, place=PLACE, request_id="r")
    assert (failure.status, failure.code, headers) == (502, "upstream_credentials", NEVER_AGAIN)
    assert "sk-" not in failure.message
    assert "the proxy's own credentials" in failure.message


@pytest.mark.parametrize("in_a_run", [False, True])
def test_a_question_that_an_upstream_forbids_is_not_about_credentials(in_a_run: bool) -> None:
    refused = UpstreamError("the input was flagged", status=403, code=MODERATION)
    error: WholecallError = refused
    if in_a_run:
        error = RunFailed(f"the upstream failed: {refused}", ran=(CALL,))
        error.__cause__ = refused
    failure, headers = explain(error, place=PLACE, request_id="r")
    told = (502, "run_failed", NEVER_AGAIN) if in_a_run else (403, MODERATION, ())
    assert (failure.status, failure.code, headers) == told
    assert "the input was flagged" in failure.message


def test_without_an_address_the_words_stay_as_they_are() -> None:
    failure, _ = explain(UnknownModel("the model 'x' does not exist"), place="", request_id="r")
    assert failure.message == "the model 'x' does not exist"


def test_a_bug_keeps_its_words_for_the_log() -> None:
    failure = explain_bug("req_1")
    assert (failure.status, failure.code) == (500, "internal_error")


BREAKS = {
    "the server ends": (False, False, (503, "shutting_down")),
    "the client left": (False, True, (503, "client_gone")),
    "the server ends after a tool began": (True, False, (503, "shutting_down")),
    "the client left after a tool began": (True, True, (503, "client_gone")),
}


@pytest.mark.parametrize(("ran", "gone", "told"), BREAKS.values(), ids=BREAKS)
def test_what_is_broken_off_says_why_and_whether_something_was_done(
    ran: bool, gone: bool, *, told: tuple[int, str]
) -> None:
    failure = explain_break("r", ran=ran, gone=gone)
    assert (failure.status, failure.code) == told
