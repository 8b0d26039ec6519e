"""What a failure means, and what headers say."""

from __future__ import annotations

import ssl

import pytest

from wholecall.upstreams.http_connection import (
    ConnectTimeout,
    NotHttp,
    PoolClosed,
    ProxyRefused,
    ResponseHeaders,
    Unsafe,
    find_media_type,
    judge,
)


@pytest.mark.parametrize(
    ("error", "code", "repeatable"),
    [
        (ConnectTimeout("none within 10 s"), "connection", True),
        (TimeoutError("nothing came for 10 s"), "timeout", False),
        (ProxyRefused(407, "no"), "connection", False),
        (ProxyRefused(503, "busy"), "connection", True),
        (Unsafe("verify failed"), "certificate", False),
        (NotHttp("Expected HTTP/"), "connection", False),
        (PoolClosed("on this side"), "connection", False),
        (ConnectionResetError("cut"), "connection", True),
        (ssl.SSLError("in the middle of an answer"), "connection", True),
        (OSError(113, "No route to host"), "connection", True),
    ],
    ids=repr,
)
def test_what_a_failure_means(*, error: OSError, code: str, repeatable: bool) -> None:
    assert judge(error) == (code, repeatable)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"text/Event-Stream; charset=utf-8", "text/event-stream"),
        (b" application/json ", "application/json"),
        (b"", "application/octet-stream"),
        (b"; charset=utf-8", "application/octet-stream"),
    ],
)
def test_the_type_of_a_body(given: bytes, expected: str) -> None:
    assert find_media_type([(b"content-type", given), (b"content-type", b"other/one")]) == expected
    assert find_media_type([]) == "application/octet-stream"


def test_headers_are_found_in_any_case_and_of_several_the_first() -> None:
    headers = ResponseHeaders(
        [(b"retry-after", b"1"), (b"x-a", "é".encode()), (b"retry-after", b"2")]
    )
    assert headers["Retry-After"] == "1"
    assert headers.get("X-A") == "é"
    assert headers.get("x-b") is None
