"""Answers that no model gave."""

from __future__ import annotations

import pytest

from wholecall.upstreams.endpoint import find_stranger

PAGE = "a web page"
PROSE = "plain text"
EMPTY = "an empty body"
ROWS: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("application/json", b"", EMPTY),
    "blanks": ("text/event-stream", b" \r\n\n", EMPTY),
    "a byte order mark alone": ("application/json", b"\xef\xbb\xbf", EMPTY),
    "a page": ("text/html", b"<!doctype html><title>Sign in</title>", PAGE),
    "a page under another name": ("application/json", b"\n <html>", PAGE),
    "a page as a stream": ("text/event-stream", b"<html>", PAGE),
    "XML": ("application/xml", b"<?xml version='1.0'?><Error/>", PAGE),
    "prose": ("text/plain", b"upstream connect error", PROSE),
    "a word that begins as a field does": ("text/plain", b"dating", PROSE),
    "events as plain text": ("text/plain", b"data: {}\n\n", ""),
    "a part of a field": ("text/plain", b"da", ""),
    "a named event": ("text/plain", b"event: ping\n", ""),
    "a comment": ("text/plain", b": waiting\n\n", ""),
    "JSON as plain text": ("text/plain", b' {"choices": []}', ""),
    "JSON as a page": ("text/html", b'\xef\xbb\xbf{"choices": []}', ""),
    "events": ("text/event-stream", b"data: {}\n\n", ""),
    "an unknown field in front": ("text/event-stream", b"x-y: z\n", ""),
    "something else": ("application/octet-stream", b"\x00\x00\x00", ""),
}


@pytest.mark.parametrize(("kind", "start", "said"), ROWS.values(), ids=ROWS)
def test_a_stranger_is_known_by_how_it_begins(kind: str, start: bytes, *, said: str) -> None:
    found = find_stranger(200, kind, start=start)
    assert said in found
    assert bool(said) is bool(found)


def test_a_status_without_a_body_is_told() -> None:
    assert "status 204" in find_stranger(204, "application/octet-stream", start=b"")
