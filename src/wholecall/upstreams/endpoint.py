"""An HTTP endpoint: its address, headers and keys, and the error bodies that it answers with."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote

import msgspec
from yarl import URL

from wholecall.arguments.describe import cut
from wholecall.errors import MODERATION, WORDLESS, UpstreamError
from wholecall.protocols.reader import quoted_answer
from wholecall.protocols.registry import UpstreamSide, upstream_side
from wholecall.upstreams.http_connection import HttpResponse, read_some
from wholecall.upstreams.retry import SERVER_FAULTS, FailedAttempt, is_repeatable, read_retry_after
from wholecall.upstreams.secrets import HIDDEN, SHORTEST, hide_known, names_secret

# Addresses and headers that can be sent, and what to write where one cannot.


_EXAMPLE = "write it as in http://127.0.0.1:8000/v1"
_PORTS = range(1, 65536)
# What a parser lets through, and no name of a machine holds.
_NO_HOST = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")
# RFC 9110, chapter 5.6.2: a token.
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
# Lone surrogates, which come from environment variables that are not UTF-8.
_HALF = re.compile(r"[\ud800-\udfff]")
# The sender of a body gives its length; given twice, the next request could begin anywhere.
_OF_THE_BODY = ("content-length", "transfer-encoding")


def parse_address(text: str) -> URL:
    """Parse an http:// or https:// address; raise `ValueError` with the reason if it is not one."""
    why = f"{text.rpartition('@')[2]!r} is not an http:// or https:// address"  # without a password
    try:
        url = URL(text.strip())
        host, port = url.host or "", url.port
        (url.raw_host or "").encode("idna")  # as a resolver does; an empty label is invalid
    except ValueError as error:
        raise ValueError(f"{why} ({error}): {_EXAMPLE}") from None
    if url.scheme not in ("http", "https") or not host or _NO_HOST.search(host):
        raise ValueError(f"{why}: {_EXAMPLE}")
    if port not in _PORTS:
        raise ValueError(f"{why} (ports go from 1 to 65535): {_EXAMPLE}")
    return url


def check_header(name: str, value: str) -> None:
    """`ValueError` says why a header cannot be sent; its value, which may be a key, is not shown.

    What came with a line break, from a file or a variable, would only fail when it is sent.
    """
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a header name: write it with letters, digits and '-' only"
        )
    if name.lower() in _OF_THE_BODY:
        raise ValueError(f"the header {name!r} is set by who sends the body: leave it out")
    if _HALF.search(value):
        raise ValueError(f"the key or value for the header {name!r} is not UTF-8: write it again")
    if _CONTROL.search(value):
        raise ValueError(
            f"the key or value for the header {name!r} holds a control character: "
            "write it in one line"
        )


TRACE_HEADERS = ("traceparent", "tracestate")
"""Headers that continue a client's trace. They are for every upstream."""
_VERSION = re.compile(r"v\d+[a-z0-9]*")
_HEADERS = {
    "User-Agent": "wholecall",
    "Accept": "*/*",
    # A compressed stream comes in lumps: the compressor holds it back.
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


class Endpoint:
    """One address that speaks one protocol, and the key for it."""

    def __init__(
        self,
        protocol: str,
        base_url: str,
        *,
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        convention = upstream_side(protocol)
        self.protocol = protocol
        self._convention = convention
        self._url = _join(_parse(base_url), convention)
        self._headers = _merge(_own_headers(convention, api_key.strip()), headers or {})
        for name, value in self._headers.items():
            check_header(name, value)
        self._secrets = _find_secrets(self._headers, self._url)
        self._spelled = tuple(map(str.encode, self._secrets))
        if self._url.user is not None and "authorization" in map(str.lower, self._headers):
            raise ValueError("give a user in the base URL or an Authorization header, not both")

    def url_for(self, model: str, *, stream: bool) -> URL:
        """Return the URL of a request for this model."""
        if self._convention.model_paths is None:
            return self._url
        name = quote(model.removeprefix("models/"), safe="", errors="replace")
        rest, _, query = self._convention.model_paths[stream].partition("?")
        path = f"{self._url.raw_path}/{rest.format(model=name)}"
        url = self._url.with_path(path, encoded=True, keep_query=True)
        return url.update_query(query) if query else url

    @property
    def models_url(self) -> URL:
        """The URL of its list of models."""
        convention = self._convention
        path = self._url.raw_path.removesuffix(convention.path) + convention.models
        return self._url.with_path(path, encoded=True, keep_query=True)

    @property
    def has_siblings(self) -> bool:
        """True if there are other routes beside that of the protocol."""
        return self._convention.has_siblings

    def sibling_url(self, path: str, query: str) -> URL:
        """Return the URL of another route, with a client's query and our own."""
        base = self._url.raw_path.removesuffix(self._convention.path)
        url = self._url.with_path(base + path, encoded=True, keep_query=True)
        return url.extend_query(URL(f"?{query}").query) if query else url

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of a request, the key among them."""
        return self._headers

    def headers_with(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of a request that brings lists of its own; ours of the same name stay."""
        if not given:
            return self._headers
        ours = {name.lower(): name for name in self._headers}
        headers = dict(self._headers)
        for given_name, value in given.items():
            check_header(given_name, value)
            name = ours.get(given_name.lower(), given_name)
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        return headers

    def headers_instead(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """The headers of a request whose own replace ours: its body is not JSON, for instance."""
        for name, value in given.items():
            check_header(name, value)
        return _merge(self._headers, given)

    @property
    def place(self) -> str:
        """Its address for messages: without user, password and query."""
        return str(self._url.with_user(None).with_query(None))

    @property
    def streams_json(self) -> bool:
        """True if a stream begins with JSON, as a whole answer does."""
        return self._convention.streams_json

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must never be shown."""
        return self._secrets

    def hide_secrets(self, text: str) -> str:
        """Return the text without keys that were echoed."""
        return hide_known(text, self._secrets)

    def hide_in(self, chunk: bytes) -> bytes:
        """Return a part of an answer without keys that were echoed."""
        for secret in filter(chunk.__contains__, self._spelled):
            chunk = chunk.replace(secret, HIDDEN.encode())
        return chunk


# ── Addresses ───────────────────────────────────────────────────────────────────────


def _parse(base_url: str) -> URL:
    try:
        return parse_address(base_url)
    except ValueError as error:
        raise ValueError(f"base URL {error}") from None


def _join(base: URL, convention: UpstreamSide) -> URL:
    path = base.raw_path.rstrip("/")
    if not path.endswith(f"/{convention.path}"):
        version = "" if _has_version(path, convention) else f"/{convention.version}"
        path = f"{path}{version}/{convention.path}"
    return base.with_path(path, encoded=True, keep_query=True)


def _has_version(path: str, convention: UpstreamSide) -> bool:
    segments = path.split("/")
    if convention.version in segments or any(map(_VERSION.fullmatch, segments)):
        return True
    return bool(path) and convention.base_has_version


# ── Headers and keys ────────────────────────────────────────────────────────────────


def _own_headers(convention: UpstreamSide, api_key: str) -> dict[str, str]:
    headers = _HEADERS | dict(convention.headers)
    if api_key:
        headers[convention.key_header] = convention.key_form.format(key=api_key)
    return headers


def _merge(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Given headers replace our own, in whatever case they are written."""
    replaced = {name.lower() for name in given}
    kept = {name: value for name, value in own.items() if name.lower() not in replaced}
    return kept | dict(given)


def _find_secrets(headers: Mapping[str, str], url: URL) -> tuple[str, ...]:
    found = [url.password or ""]
    for name, value in headers.items():
        if names_secret(name):
            found += _read_secrets(name, value)
    found += (value for name, value in url.query.items() if names_secret(name))
    # The longest first: a secret may be a part of another.
    long_enough = (secret for secret in found if len(secret) >= SHORTEST)
    return tuple(sorted(long_enough, key=len, reverse=True))


def _read_secrets(name: str, value: str) -> Iterator[str]:
    if name.lower() != "cookie":
        # "Bearer sk-…": the word before the key is not a secret.
        yield value.rsplit(" ", 1)[-1]
        return
    for pair in value.split(";"):
        given, assigns, rest = pair.partition("=")
        yield (rest if assigns else given).strip().strip('"')


# ── Answers that come from no API ────────────────────────────────────────────────────


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
    said = _decode_body(text)
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
    error.words = cut(message, _LONGEST_MESSAGE)
    error.quoted = quoted_answer(message or text, said, blames_request=status < SERVER_FAULTS)
    if error.quoted and len(body) >= MOST_BYTES:
        error.quoted = ""  # the body was cut, and so is what it quotes
    repeatable = error.quoted is None and is_repeatable(status, headers)
    return FailedAttempt(error, repeatable=repeatable)


def _redirect(headers: Mapping[str, str]) -> str:
    """Describe a redirect. Redirects are not followed: the key would go to the host that the
    upstream names."""
    target = headers.get("location")
    if target is None:
        return ""
    return f"it redirects to {target!r}, which is not followed; give that as the base URL"


def _decode_body(text: str) -> Any:
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
