"""Check the headers of a request before it is admitted. Values in, values out.

The `Host` check is against DNS rebinding: a website that gives its own name the address of this
machine reaches us through its visitor's browser, but under that name. The `Origin` check is against
websites that call us by our own name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TypeAlias

from starlette.datastructures import QueryParams
from starlette.types import Scope

from wholecall.proxy.config.check import is_loopback
from wholecall.proxy.config.schema import ListenConfig, ServerLimits, matches
from wholecall.proxy.http.api_keys import PREFIX
from wholecall.proxy.http.refusals import RequestRefused

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_PORT = re.compile(r":\d{1,5}$")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9_, -]{0,2000}")
_BEARER = "bearer"
_CHARSET = "latin-1"

Header: TypeAlias = tuple[bytes, bytes]


class Headers(Mapping[str, str]):
    """The headers of a request by their names in lower case.

    Clients send a dozen or two, and few are ever read: each is decoded on access.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._raw[name.encode(_CHARSET)].decode(_CHARSET)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.encode(_CHARSET) in self._raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode(_CHARSET) for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)


class HeaderChecks:
    """The head of a request."""

    __slots__ = ("by_name", "headers", "method", "path", "query", "size")

    def __init__(
        self, method: str, path: str, *, headers: Sequence[Header], query: bytes = b""
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        """Headers with names in lower case, in the order in which they arrived."""
        self.by_name = dict(headers)
        """Of several with one name, the last."""
        self.size = len(path) + len(query) + sum(map(len, chain.from_iterable(headers)))
        """Bytes of the path and all headers."""

    @classmethod
    def of(cls, scope: Scope) -> HeaderChecks:
        """The head, as the server describes it."""
        query: bytes = scope.get("query_string", b"")
        return cls(scope["method"], scope["path"], headers=scope["headers"], query=query)

    def find(self, name: bytes) -> list[str]:
        """Every value of a header."""
        if name not in self.by_name:
            return []
        if len(self.by_name) == len(self.headers):  # no name came twice
            return [self.by_name[name].decode(_CHARSET)]
        return [value.decode(_CHARSET) for each, value in self.headers if each == name]


def wants_stream(query: QueryParams) -> bool:
    """Return True if a request for a stored response wants its stream."""
    return query.get("stream") == "true"


def choose_request_id(arrival: HeaderChecks) -> str:
    """Return the id that the client chose, if it is a plain word; else a new one."""
    given = arrival.find(b"x-request-id")
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return given[0]
    # It identifies a request and is not a secret: the system's random source is not needed.
    return f"req_{random.getrandbits(96):024x}"


def check_size(arrival: HeaderChecks, limits: ServerLimits) -> None:
    """Refuse too many headers, or too large ones."""
    if len(arrival.headers) > limits.header_count:
        raise RequestRefused(
            431, f"more than {limits.header_count} headers were sent", code="headers_too_large"
        )
    if arrival.size > limits.header_bytes:
        raise RequestRefused(
            431, f"the headers have more than {limits.header_bytes} bytes", code="headers_too_large"
        )


def check_host(arrival: HeaderChecks, listen: ListenConfig) -> None:
    """Refuse a request that was sent to a name that is not ours."""
    given = arrival.find(b"host")
    if len(given) != 1:
        raise RequestRefused(400, "exactly one Host header is needed", code="invalid_host")
    if not _is_ours(given[0], listen.hosts):
        raise RequestRefused(
            421,
            "this host is not served here; the operator can add it to listen.hosts",
            code="invalid_host",
        )


@lru_cache(maxsize=256)
def _is_ours(host: str, served: tuple[str, ...]) -> bool:
    """Cached: nearly every request has the same host."""
    name = _PORT.sub("", host).strip("[]").rstrip(".").lower()
    hosts = tuple(each.lower().strip("[]") for each in served)
    return is_loopback(name) or matches(name, hosts)


def check_origin(arrival: HeaderChecks, listen: ListenConfig) -> str | None:
    """The website that calls, if its pages may read the answer; refuse any other website."""
    given = arrival.find(b"origin")
    if not given:
        return None
    if len(given) == 1 and given[0] in listen.origins:
        return given[0]
    # Our own pages call us, too. That the host is ours was checked before.
    ours = {f"{scheme}://{host}" for host in arrival.find(b"host") for scheme in ("http", "https")}
    if len(given) == 1 and given[0] in ours:
        return None
    raise RequestRefused(
        403,
        "pages of this website may not call this proxy; the operator can add it to listen.origins",
        code="invalid_origin",
    )


def is_preflight(arrival: HeaderChecks, origin: str | None) -> bool:
    """Return True for a preflight request from an admitted website. It has no key yet."""
    asks = arrival.method == "OPTIONS" and bool(arrival.find(b"access-control-request-method"))
    return asks and origin is not None


def approve_preflight(arrival: HeaderChecks) -> list[tuple[bytes, bytes]]:
    """The headers that let the page call, with whichever headers it wants to send."""
    wanted = ", ".join(arrival.find(b"access-control-request-headers"))
    allowed = wanted if _HEADER_NAMES.fullmatch(wanted) else ""
    return [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", allowed.encode()),
        (b"access-control-max-age", b"600"),
    ]


def read_key(arrival: HeaderChecks) -> str | None:
    """Return the key that a client sent, in the header of OpenAI's clients or in that of
    Anthropic's.

    SDKs require some key even if none is needed, so a value that cannot be one of our keys is
    ignored.
    """
    given = arrival.find(b"x-api-key")
    for value in arrival.find(b"authorization"):
        scheme, _, credentials = value.partition(" ")
        if scheme.lower() == _BEARER:
            given.append(credentials)
    found = {key.strip() for key in given if key.lstrip().startswith(PREFIX)}
    if len(found) > 1:
        raise refuse_key("two different keys were sent")
    return found.pop() if found else None


def refuse_key(message: str) -> RequestRefused:
    """Turn a request away for its key."""
    return RequestRefused(
        401, message, code="invalid_api_key", headers=((b"www-authenticate", b"Bearer"),)
    )


def check_length(arrival: HeaderChecks, limits: ServerLimits) -> None:
    """Refuse a body that says itself that it is too large. The others are counted as they come."""
    for length in arrival.find(b"content-length"):
        if length.isdecimal() and int(length[:20]) > limits.body_bytes:
            raise refuse_body(limits)


def refuse_body(limits: ServerLimits) -> RequestRefused:
    """Turn a request away for its size."""
    return RequestRefused(
        413,
        f"the request has more than {limits.body_bytes} bytes",
        code="request_too_large",
        headers=((b"connection", b"close"),),
        unread=True,
    )
