"""A client's request: its protocol, its caller, its headers, and the checks on its head."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.datastructures import QueryParams
from starlette.types import Scope

from wholecall.errors import UnreadableRequest
from wholecall.events import Value
from wholecall.protocols.response_base import ResponseStyle
from wholecall.proxy.config.check import is_loopback
from wholecall.proxy.config.schema import Config, ListenConfig, ServerLimits, matches
from wholecall.proxy.http.api_keys import ANONYMOUS, PREFIX, Key
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.upstreams.endpoint import TRACE_HEADERS

CALLER = "wholecall"
"""The key of the `Caller` in the scope of a request."""
BODY_CAME = "wholecall.body_came"
"""The key in a request's scope that says that its whole body is here. Our own server sets it; under
another one a body is always awaited."""
ADMISSION = "wholecall.admission"
"""The key in a WebSocket's scope of a function that admits one of its requests: a context manager
that has the caller's key, and that takes the request's place among those under way."""
ANSWERING = "wholecall.answering"
"""The key in a WebSocket's scope that says that a request is being answered."""
CONTINUED = "wholecall.continued"
"""The key in a request's scope of the response that it continues, if its body has the whole
conversation already."""
TOOLS_HEADER = "x-wholecall-tools"
"""Names of the server's tools that a request wants, separated by commas; without it, all."""
_PATIENCE = "x-stainless-read-timeout"
"""Seconds after which OpenAI's and Anthropic's SDKs give up if they hear nothing."""
_PROGRESS = "x-wholecall-events"
_YES = frozenset({"1", "true", "yes"})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_TRACE = re.compile(r"[\x20-\x7e]{1,512}")
_SHORTEST_SILENCE = 1.0
"""Seconds between two keep-alives, at least."""


class UnsupportedField(NamedTuple):
    """The reason why a field cannot be obeyed."""

    why: str
    code: str = "invalid_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProtocol:
    """One API that clients speak."""

    protocol: str
    """Its name in the registries: `openai-chat`, …"""
    path: str
    only_there: Mapping[str, UnsupportedField] = field(default_factory=dict)
    """Fields that name what only an upstream of this protocol knows: no other can obey them."""
    held_items: Mapping[str, UnsupportedField] = field(default_factory=dict)
    """Types of items whose content only the provider has: no other upstream can be given them."""
    tool_items: tuple[str, ...] = ()
    """The types of items of a conversation that bring tools along."""
    beta: str = ""
    """The header in which its clients ask for features that are not for everybody yet."""
    holds: bool = False
    """True if its answers can be retrieved by their ids."""
    read_style: Callable[[Mapping[str, Any]], ResponseStyle] | None = None
    """Reads the client's preferences for its stream from a request's body; None if it has none."""


def _forget(_: RequestRefused) -> None:
    """Do nothing: no one is listening."""


class Caller(Value, frozen=True, eq=False):
    """The sender of an admitted request."""

    key: Key
    request_id: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By their names in lower case; of several with one name, the last."""
    refuse: Callable[[RequestRefused], None] = _forget
    """Tells those who look after the proxy that a route turned the request away."""


class ClientRequest(Value, frozen=True, kw_only=True, eq=False):
    """A request as it came, before its conversation is read."""

    client: ClientProtocol
    body: bytes
    headers: Mapping[str, str]
    request_id: str
    key: Key = ANONYMOUS
    """The rights of the client."""
    continued: str = ""
    """The id of the response whose conversation is a part of the body already."""
    came: float = msgspec.field(default_factory=time.perf_counter)
    """The time at which all of it had come, by the clock of the taps."""
    wants_progress: bool = False
    """True if the client wants to see what happens between the turns."""
    trace_headers: Mapping[str, str] = _NO_HEADERS
    """The headers that continue the client's trace."""

    @classmethod
    def read(cls, client: ClientProtocol, scope: Scope, *, body: bytes) -> ClientRequest:
        """Read the headers, and what the middleware found out about the caller."""
        caller: Caller = scope[CALLER]
        headers = caller.headers
        return cls(
            client=client,
            body=body,
            headers=headers,
            request_id=caller.request_id,
            key=caller.key,
            continued=scope.get(CONTINUED, ""),
            wants_progress=_PROGRESS in headers and headers[_PROGRESS].strip().lower() in _YES,
            trace_headers=_read_trace(headers),
        )

    def shorten(self, silence: float) -> float:
        """Return the longest silence for this client: it gives up after its SDK's timeout."""
        if _PATIENCE not in self.headers:
            return silence
        patience = self.headers[_PATIENCE]
        if not patience.replace(".", "", 1).isdecimal():
            return silence
        return min(silence, max(float(patience) / 2, _SHORTEST_SILENCE))

    @property
    def passed_headers(self) -> Mapping[str, str]:
        """The headers that go on to an upstream: those of its own protocol, and of a trace.

        All others are ours.
        """
        traced = self.trace_headers
        name = self.client.beta
        features = self.headers.get(name, "").strip() if name else ""
        if not features:
            return traced
        if not (features.isascii() and features.isprintable()):
            raise UnreadableRequest("its value is a list of words, with commas between", param=name)
        return {**traced, name: features}

    @property
    def wanted_tools(self) -> tuple[str, ...] | None:
        """The server's tools that the client wants in this run; None: all that it may use."""
        given = self.headers.get(TOOLS_HEADER)
        if given is None:
            return None
        return tuple(name for each in given.split(",") if (name := each.strip()))


def _read_trace(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers that continue the client's trace. What cannot be one is ignored."""
    if TRACE_HEADERS[0] not in headers:
        return _NO_HEADERS
    found = {name: headers[name] for name in TRACE_HEADERS if name in headers}
    return {name: value for name, value in found.items() if _TRACE.fullmatch(value)}


# ── The head, checked before a request is admitted ──────────────────────────────────
#
# The `Host` check is against DNS rebinding: a website that gives its own name the address of this
# machine reaches us through its visitor's browser, but under that name. The `Origin` check is
# against websites that call us by our own name.

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


class RequestHead:
    """The head of a request."""

    __slots__ = ("by_name", "headers", "method", "named", "path", "query", "size")

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
        self.named = Headers(self.by_name)
        """The same as text."""
        self.size = len(path) + len(query) + sum(map(len, chain.from_iterable(headers)))
        """Bytes of the path and all headers."""

    @classmethod
    def of(cls, scope: Scope) -> RequestHead:
        """The head, as the server describes it."""
        query: bytes = scope.get("query_string", b"")
        method = scope.get("method", "GET")  # a WebSocket begins with one
        return cls(method, scope["path"], headers=scope["headers"], query=query)

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


def choose_request_id(head: RequestHead) -> str:
    """Return the id that the client chose, if it is a plain word; else a new one."""
    given = head.find(b"x-request-id") if b"x-request-id" in head.by_name else ()
    if len(given) == 1 and _REQUEST_ID.fullmatch(given[0]):
        return given[0]
    # It identifies a request and is not a secret: the system's random source is not needed.
    return f"req_{random.getrandbits(96):024x}"


def check_head(head: RequestHead, config: Config, *, public: bool = False) -> str | None:
    """Refuse a head that is not admitted; return the website whose pages may read the answer.

    A `public` path is served under every name, to every website.
    """
    check_size(head, config.limits)
    check_length(head, config.limits)
    if public:
        return None
    check_host(head, config.listen)
    return check_origin(head, config.listen)


def check_size(head: RequestHead, limits: ServerLimits) -> None:
    """Refuse too many headers, or too large ones."""
    if len(head.headers) > limits.header_count:
        raise RequestRefused(
            431, f"more than {limits.header_count} headers were sent", code="headers_too_large"
        )
    if head.size > limits.header_bytes:
        raise RequestRefused(
            431, f"the headers have more than {limits.header_bytes} bytes", code="headers_too_large"
        )


def check_host(head: RequestHead, listen: ListenConfig) -> None:
    """Refuse a request that was sent to a name that is not ours."""
    given = head.find(b"host")
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


def check_origin(head: RequestHead, listen: ListenConfig) -> str | None:
    """The website that calls, if its pages may read the answer; refuse any other website."""
    if b"origin" not in head.by_name:
        return None
    given = head.find(b"origin")
    if len(given) == 1 and given[0] in listen.origins:
        return given[0]
    # Our own pages call us, too. That the host is ours was checked before.
    ours = {f"{scheme}://{host}" for host in head.find(b"host") for scheme in ("http", "https")}
    if len(given) == 1 and given[0] in ours:
        return None
    raise RequestRefused(
        403,
        "pages of this website may not call this proxy; the operator can add it to listen.origins",
        code="invalid_origin",
    )


def is_preflight(head: RequestHead, origin: str | None) -> bool:
    """Return True for a preflight request from an admitted website. It has no key yet."""
    asks = head.method == "OPTIONS" and bool(head.find(b"access-control-request-method"))
    return asks and origin is not None


def approve_preflight(head: RequestHead) -> list[tuple[bytes, bytes]]:
    """The headers that let the page call, with whichever headers it wants to send."""
    wanted = ", ".join(head.find(b"access-control-request-headers"))
    allowed = wanted if _HEADER_NAMES.fullmatch(wanted) else ""
    return [
        (b"access-control-allow-methods", b"GET, POST, DELETE"),
        (b"access-control-allow-headers", allowed.encode()),
        (b"access-control-max-age", b"600"),
    ]


def read_key(head: RequestHead) -> str | None:
    """Return the key that a client sent, in the header of OpenAI's clients or in that of
    Anthropic's.

    SDKs require some key even if none is needed, so a value that cannot be one of our keys is
    ignored.
    """
    given = head.find(b"x-api-key")
    for value in head.find(b"authorization"):
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


def check_length(head: RequestHead, limits: ServerLimits) -> None:
    """Refuse a body that says itself that it is too large. The others are counted as they come."""
    for length in head.find(b"content-length"):
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
