"""What upstreams say when they refuse, in everybody's shape."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from upstreams.fake_endpoint import in_loop
from upstreams.http_peer import HEADERS, Talk, listening, pooling
from wholecall.upstreams.endpoint import Endpoint, read_refusal, refuse
from wholecall.upstreams.retry import FailedAttempt

ENDPOINT = Endpoint("openai-chat", "http://h", api_key="sk-secret-key")
PLACE = "http://h/v1/chat/completions"


def answer(
    body: bytes | object, status: int = 400, *, headers: dict[str, str] | None = None
) -> FailedAttempt:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return refuse(ENDPOINT, status, headers=headers or {}, body=raw)


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "no", "type": "t", "code": "c"}}, "no", "c"),
        ({"error": {"message": "no", "type": "t", "code": None}}, "no", "t"),
        ({"type": "error", "error": {"type": "overloaded", "message": "no"}}, "no", "overloaded"),
        ([{"error": {"code": 400, "message": "no", "status": "INVALID"}}], "no", "INVALID"),
        ({"error": {"code": 400, "message": "no", "status": "INVALID"}}, "no", "INVALID"),
        ({"error": "no"}, "no", "status"),
        ({"error": {"error": {"message": "no"}}}, "no", "status"),
        ({"detail": "no"}, "no", "status"),
        ({"detail": [{"loc": ["body"], "msg": "no", "type": "missing"}]}, "no", "status"),
        ({"object": "error", "message": "no", "type": "bad"}, "no", "bad"),
        ({"errors": [{"message": "no"}, {"message": "never"}]}, "no", "status"),
        ({"error": "", "message": "no"}, "no", "status"),
        ({"error": {"message": 5}, "error_description": "no"}, "no", "status"),
        ("no", "no", "status"),
        (b"  no \n", "no", "status"),
        (b"no \xff", "no \N{REPLACEMENT CHARACTER}", "status"),
    ],
)
def test_the_message_is_found(*, body: object, message: str, code: str) -> None:
    error = answer(body).error
    assert str(error) == f"{PLACE} answered with status 400: {message}"
    assert error.code == code
    assert error.status == 400


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": "model 'x' not found"}, "not_found"),
        ({"error": {"message": "no endpoints found", "code": 404}}, "not_found"),
        ({"error": {"message": "no", "type": "not_found_error"}}, "not_found_error"),
        ({"detail": "Not Found"}, "status"),
        (b"404 page not found", "status"),
        (b"", "status"),
        ({"error": None}, "status"),
        ({"status": 404, "error": ["no"]}, "status"),
    ],
)
def test_a_404_of_an_api_is_told_from_one_of_an_address_that_is_wrong(
    *, body: object, code: str
) -> None:
    assert answer(body, 404).error.code == code


@pytest.mark.parametrize(
    ("metadata", "code"),
    [({"reasons": ["violence"]}, "moderation"), ({"reasons": []}, "status"), (None, "status")],
)
def test_what_was_flagged_is_told_from_a_key_that_is_refused(metadata: object, code: str) -> None:
    error = {"code": 403, "message": "no", "metadata": metadata}
    assert answer({"error": error}, 403).error.code == code


def nest(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = {"error": value}
    return value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>nginx</body></html>",
        b'{"error": {"mess',
        {"unknown": "shape"},
        [],
        [7],
        {"error": None},
        {"message": ["no"]},
        nest(50),
        b"[" * 100_000,
    ],
)
def test_without_a_message_the_status_is_said(body: object) -> None:
    assert str(answer(body, 502).error) == f"{PLACE} answered with status 502"


def test_the_body_is_kept_for_whoever_wants_more() -> None:
    assert answer(b"<html>nginx</html>").error.body == "<html>nginx</html>"


def test_long_words_are_cut() -> None:
    error = answer({"error": {"message": "x" * 100_000}}).error
    assert str(error).endswith("x…")
    assert len(str(error)) < 600
    assert len(error.body) < 2100


def test_an_echoed_key_is_hidden_in_message_and_body() -> None:
    error = answer({"error": {"message": "Incorrect key: sk-secret-key"}}, 401).error
    assert str(error).endswith("Incorrect key: ***")
    assert "sk-secret-key" not in error.body


@pytest.mark.parametrize(
    ("headers", "status", "retry_after", "repeatable"),
    [
        ({"retry-after": "4"}, 429, 4.0, True),
        ({}, 500, None, True),
        ({}, 404, None, False),
        ({"x-should-retry": "false"}, 529, None, False),
    ],
)
def test_it_says_whether_and_when_to_ask_again(
    *, headers: dict[str, str], status: int, retry_after: float | None, repeatable: bool
) -> None:
    failure = answer(b"", status, headers=headers)
    assert failure.error.retry_after == retry_after
    assert failure.repeatable == repeatable


def test_a_redirect_says_where_it_leads() -> None:
    failure = answer(b"", 308, headers={"location": "https://h/v1"})
    assert "redirects to 'https://h/v1'" in str(failure.error)
    assert not failure.repeatable


def test_a_redirect_gives_no_secret_away() -> None:
    failure = answer(b"", 302, headers={"location": "https://h/?key=sk-secret-key"})
    assert "sk-secret-key" not in str(failure.error)


@in_loop
async def test_who_leaves_in_the_midst_of_a_refusal_closes_its_connection() -> None:
    gone = asyncio.Event()

    async def refuse_slowly(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 500 Broken\r\ncontent-length: 100\r\n\r\n{")
        await talk.wait_for_silence()
        gone.set()

    async with listening(refuse_slowly) as server, pooling(server.url) as pool:
        response = await pool.post(server.url, body=b"", headers=HEADERS)
        reading = asyncio.create_task(read_refusal(ENDPOINT, response))
        await asyncio.sleep(0)
        reading.cancel()
        await gone.wait()
