"""Read what an upstream says when it refuses, and recognise answers that come from no API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec

from wholecall.arguments.describe import cut
from wholecall.errors import MODERATION, WORDLESS, UpstreamError
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.http_connection import HttpResponse, read_some
from wholecall.upstreams.retry import FailedAttempt, is_repeatable, read_retry_after

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MARKUP = b"<"
# The beginnings of JSON and events. Anything else of type plain text is prose.
_BEGINNINGS = (b"{", b"[", b":", b"data:", b"event:", b"id:", b"retry:")
_PROSE = "text/plain"


def find_stranger(status: int, media_type: str, *, start: bytes) -> str:
    """Describe an answer that is not from a model, if its first bytes show it."""
    said = start.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if not said:
        return f"answered with status {status} and an empty body"
    if said.startswith(_MARKUP):
        return "answered with a web page instead of a model's answer; is its address right?"
    if media_type == _PROSE and not _may_begin(said):
        return "answered with plain text instead of a model's answer; is its address right?"
    return ""


def _may_begin(said: bytes) -> bool:
    return any(said.startswith(each) or each.startswith(said) for each in _BEGINNINGS)


# Error bodies of upstreams: one error type for all their formats.
#
#     {"error": {"message", "type", "code"}}          OpenAI and most others
#     {"type": "error", "error": {"type", "message"}} Anthropic
#     [{"error": {"message", "status"}}]              Gemini, if a stream was requested
#     {"error": "…"}                                  Ollama
#     {"error": {"message", "code": 403, "metadata"}} OpenRouter
#     {"detail": "…"} or {"detail": [{"msg", "loc"}]} servers made with FastAPI
#     {"message": "…"}, {"errors": [{"message"}]}     gateways


MOST_BYTES = 64 * 1024
"""Bytes of a refusal that are read; a page of HTML may go on for long."""
MOST_SECONDS = 5.0
"""Seconds for the body of a refusal. Its status has come before."""
_LONGEST_MESSAGE = 500
_LONGEST_BODY = 2000
# Where the words stand, and the wrappers around them, in the order in which they are tried.
_WORDS = ("message", "msg", "error_description", "title")
_WRAPPERS = ("error", "detail", "errors")
_CODES = ("code", "type", "status")
_NOT_FOUND = 404
# Messages lie two or three levels deep.
_DEEPEST = 4


async def read_refusal(endpoint: Endpoint, response: HttpResponse) -> FailedAttempt:
    """Read an answer without a success status. Its body may come slowly, or be cut."""
    with closing(response):
        try:
            async with asyncio.timeout(MOST_SECONDS):
                body = await read_some(response, MOST_BYTES)
        except OSError:
            body = b""  # the status says enough
    return refuse(endpoint, response.status, headers=response.headers, body=body)


def refuse(
    endpoint: Endpoint, status: int, *, headers: Mapping[str, str], body: bytes
) -> FailedAttempt:
    """Return the failed attempt for a status that is not a success."""
    text = endpoint.hide_secrets(body.decode("utf-8", "replace")).strip()
    said = _parse(text)
    message = (
        _first(_find_messages(said))
        or (text if _is_prose(text) else "")
        or endpoint.hide_secrets(_redirect(headers))
    )
    answered = f"{endpoint.place} answered with status {status}"
    error = UpstreamError(
        f"{answered}: {cut(message, _LONGEST_MESSAGE)}" if message else answered,
        status=status,
        retry_after=read_retry_after(headers),
        code=_first(_find_codes(said)) or _name(status, said),
        body=cut(text, _LONGEST_BODY),
    )
    return FailedAttempt(error, repeatable=is_repeatable(status, headers))


def _redirect(headers: Mapping[str, str]) -> str:
    """Describe a redirect. Redirects are not followed: the key would go to the host that the
    upstream names."""
    target = headers.get("location")
    if target is None:
        return ""
    return f"it redirects to {target!r}, which is not followed; give that as the base URL"


def _parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None


def _is_prose(text: str) -> bool:
    return not text.startswith(("<", "{", "["))


def _find_messages(said: Any, depth: int = 0) -> Iterator[str]:
    """Every text that may be the message, the likeliest first."""
    match said:
        case str():
            yield said.strip()
        case list() if depth < _DEEPEST:
            for one in said:
                yield from _find_messages(one, depth + 1)
        case dict() if depth < _DEEPEST:
            for name in _WRAPPERS:
                yield from _find_messages(said.get(name), depth + 1)
            for name in _WORDS:
                yield from (value for value in (said.get(name),) if isinstance(value, str))


def _find_codes(said: Any) -> Iterator[str]:
    """The upstream's own word for what happened."""
    match said:
        case {"error": {"metadata": {"reasons": [_, *_]}}}:  # OpenRouter, which has only numbers
            yield MODERATION
        case [first, *_]:
            yield from _find_codes(first)
        case {"error": dict(error)}:
            yield from _find_codes(error)
        case dict():
            yield from (str(said[name]) for name in _CODES if isinstance(said.get(name), str))


def _name(status: int, said: Any) -> str:
    """A word for a refusal that has none of its own."""
    match said:
        case {"error": str() | dict()} if status == _NOT_FOUND:
            return "not_found"  # of a model that is not there: no other server has this shape
    return WORDLESS


def _first(texts: Iterator[str]) -> str:
    return next(filter(None, texts), "")
