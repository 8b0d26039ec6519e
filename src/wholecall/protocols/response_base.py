"""What every response encoder uses: SSE frames, ids, usage fields, error bodies and the writer's
interface.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from wholecall.arguments.compiled_schema import write_mapping
from wholecall.arguments.parse import join_halves
from wholecall.errors import (
    MODERATION,
    WORDLESS,
    InadmissibleTools,
    InvalidChoice,
    UnknownModel,
    UnreadableRequest,
    UpstreamError,
    WholecallError,
)
from wholecall.events import JSON, Call, Opened, Reasoning, Usage, Value
from wholecall.messages import PastCall, ToolKind
from wholecall.protocols.decoder import CUSTOM, count_reasoning, plain

SERVER = 500
# What an upstream says of the request concerns the client. That it refuses the key, or does
# not know its own address, is between it and us.
_HANDED_ON = frozenset({400, 408, 409, 413, 422, 429, 503, 504, 529})
_FORBIDDEN = 403
_NOT_FOUND = 404
_BAD_GATEWAY = 502
_TIMEOUT = 504
NO_THREADS = "thread_unsupported_request"
"""Anthropic's own word; its clients then send the whole conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why a request failed, in words for the client."""

    message: str
    status: int = SERVER
    """Of HTTP. In a stream that has begun it only says what kind of failure it is."""
    code: str | None = None
    param: str | None = None
    """The field of the request that is at fault."""
    request_id: str = ""


def write_request_id(failure: Failure) -> dict[str, str]:
    """Return the field that names the request, if its id is known."""
    return {"request_id": failure.request_id} if failure.request_id else {}


# ── Exceptions ──────────────────────────────────────────────────────────────────────


def read_failure(error: WholecallError, *, request_id: str = "") -> Failure:
    """Return the failure that a client sees of an exception."""
    for kind, read in _READERS:
        if isinstance(error, kind):
            return Failure(message=str(error), request_id=request_id, **read(error))
    return Failure(message=str(error), request_id=request_id)


def _read_field(error: InvalidChoice) -> dict[str, Any]:
    return {"status": 400, "code": "invalid_value", "param": error.param or None}


def _read_request(error: UnreadableRequest) -> dict[str, Any]:
    return {"status": 400, "code": error.code, "param": error.param or None}


def _read_tools(_: InadmissibleTools) -> dict[str, Any]:
    return {"status": 400, "code": "invalid_value", "param": "tools"}


def _read_model(_: UnknownModel) -> dict[str, Any]:
    return {"status": 404, "code": "model_not_found", "param": "model"}


def is_about_request(error: UpstreamError) -> bool:
    """Return True if an upstream refuses because of the client's request."""
    if error.status == _NOT_FOUND:  # the model, as a rule
        return error.code != WORDLESS
    if error.status == _FORBIDDEN:
        return error.code == MODERATION
    return error.status in _HANDED_ON


def _read_upstream(error: UpstreamError) -> dict[str, Any]:
    if is_about_request(error):
        return {"status": error.status, "code": error.code or None}
    late = error.status is None and error.code == "timeout"
    return {"status": _TIMEOUT if late else _BAD_GATEWAY, "code": error.code or None}


_READERS: tuple[tuple[type[WholecallError], Callable[[Any], dict[str, Any]]], ...] = (
    (UnreadableRequest, _read_request),
    (InvalidChoice, _read_field),
    (InadmissibleTools, _read_tools),
    (UnknownModel, _read_model),
    (UpstreamError, _read_upstream),
)


# Server-sent events, written.
#
# Text and arguments arrive in thousands of small pieces, so a frame around them is prepared once
# and only the piece itself is encoded (`quote`). Everything else is written by `dump`.


KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: every client reads over it, at any place of a stream."""
DONE = b"data: [DONE]\n\n"
END = b"\n\n"

_ENCODER = msgspec.json.Encoder(enc_hook=write_mapping)
_encode = _ENCODER.encode


def quote(text: str) -> bytes:
    """A piece of text as JSON."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        # Halves of surrogate pairs, as providers send them that cut inside a character.
        return _encode(join_halves(text))


def dump(value: Any) -> bytes:
    """A value as JSON, on one line."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
        return join_halves(text).encode()


def write_past(call: PastCall) -> str:
    """The arguments of a past call as text."""
    return call.raw or dump(call.arguments).decode()


def frame(payload: Any, name: str = "") -> bytes:
    """One event of a stream."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + dump(payload) + END


def comment(word: str, value: Any) -> bytes:
    """A value that only those read who look into comments."""
    return f": {word} ".encode() + dump(value) + END


# The metadata of an answer, and the client's preferences for its stream.


PRIVATE = "wholecall"
"""The name for progress: a key, a type of event, the first word of a comment."""


class ResponseHead(Value, frozen=True, kw_only=True):
    """The metadata of an answer."""

    id: str
    model: str
    created: int = 0
    """Seconds since 1970."""
    rest: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Other fields that are handed on: `system_fingerprint`, `service_tier`, … They never
    replace what the encoder itself writes."""
    kinds: Mapping[str, ToolKind] = msgspec.field(default_factory=dict)
    """The forms of the client's tools that are not plain functions, by their names."""
    clock: Callable[[], float] | None = None
    """Returns the seconds since 1970, for the time at which the answer is complete."""

    def complete(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of an answer in their order, followed by the others."""
        return {**fields, **self.rest, **fields}


class ResponseStyle(Value, frozen=True, kw_only=True):
    """A client's preferences for its stream."""

    live: bool = False
    """Show arguments as they grow, before they are checked. A call that then turns out to be
    wrong, or is changed, ends the stream with an error: what was sent cannot be taken back."""
    usage: bool = True
    """True if a chat completions stream ends with a usage chunk. Clients request it by
    `stream_options`, and some fail at a chunk without choices."""
    functions: bool = False
    """True if a chat completions client reads its call as the deprecated `function_call`."""
    upstream: str = ""
    """The protocol that the answer came in. What only that one has (blocks of the provider's
    own tools, encrypted reasoning) is handed on to clients that speak it."""
    echo: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """The fields of the request that the answer repeats, where the protocol wants that."""


# The usage of an answer, in each protocol's names.
#
# Figures in the client's own protocol are passed on whole. Those of another are translated: OpenAI
# and Google count cached tokens as part of the input, Anthropic counts them separately.


_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("cache_read_input_tokens",),
    ("cachedContentTokenCount",),
)
_STORED = (
    ("prompt_tokens_details", "cache_write_tokens"),
    ("input_tokens_details", "cache_write_tokens"),
    ("cache_creation_input_tokens",),
)
_BESIDE = ("cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass(frozen=True, slots=True)
class UsageFigures:
    """All tokens of the input and of the output, and what is known of some of them."""

    input: int
    output: int
    cached: int
    stored: int
    reasoning: int


def read_figures(usage: Usage) -> UsageFigures:
    """Return the figures, in whatever protocol's names they are."""
    native = usage.native
    beside = _BESIDE if is_message_usage(native) else ()
    return UsageFigures(
        (usage.input_tokens or 0) + sum(_count(native.get(name)) for name in beside),
        usage.output_tokens or 0,
        _find(native, _CACHED),
        _find(native, _STORED),
        count_reasoning(native),
    )


def is_message_usage(native: Mapping[str, Any]) -> bool:
    """Return True if cached tokens are counted apart; Responses has the same two names."""
    return "input_tokens" in native and "total_tokens" not in native


def _find(native: Mapping[str, Any], paths: tuple[tuple[str, ...], ...]) -> int:
    """The first of the paths that leads to a count."""
    return next((count for path in paths if (count := _follow(native, path))), 0)


def _follow(native: Mapping[str, Any], path: tuple[str, ...]) -> int:
    value: Any = native
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return _count(value)


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


# The interface of a protocol's writer: the shape of its frames, and nothing about when to send
# them.


class FinishReason(Value, frozen=True):
    """The end of a choice: in OpenAI's words, and in the upstream's own."""

    reason: str
    native: str | None = None


# Items of an answer after which it is the client's turn, although they are not calls to check.
_WAITING = frozenset(
    {
        CUSTOM,
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "computer_call",
        "mcp_approval_request",
    }
)


def waits_for_client(native: Mapping[str, Any]) -> bool:
    """Return True if the client has to act on a block before the answer can continue."""
    kind = native.get("type")
    searches = kind == "tool_search_call" and native.get("execution") == "client"
    return searches or (isinstance(kind, str) and kind in _WAITING)


def is_for_client(native: Mapping[str, Any]) -> bool:
    """Return True if a block is a call of a tool that the client runs and that we do not know."""
    return native.get("type") == CUSTOM


class ChoiceWriter(Protocol):
    """Writes the content of one choice.

    A call is written at once (`add_call`); or, while its verdict is open, it is opened, grows, and
    is closed.
    """

    opening: bytes
    """The beginning of the choice; empty where the answer as a whole has begun."""

    def say(self, text: str, /) -> bytes:
        """A piece of text."""

    def think(self, event: Reasoning, /) -> bytes:
        """A piece of reasoning, or what belongs to it."""

    def add_block(self, native: Mapping[str, Any], /) -> bytes:
        """Write the actions of the provider itself."""

    def add_call(self, call: Call, arguments: str, /) -> bytes:
        """A whole call; `arguments` is the text of its checked arguments."""

    def open_call(self, opened: Opened, /) -> bytes:
        """A call begins."""

    def grow_call(self, number: int, text: str, /) -> bytes:
        """The arguments of a call grow."""

    def close_call(self, call: Call, arguments: str, /) -> bytes:
        """A call is over; `arguments` is all the text that it grew to."""


class Writer(Protocol):
    """Writes one answer in one protocol."""

    def begin(self, usage: Usage | None, /) -> bytes:
        """The answer begins; `usage` is what is known of its cost so far."""

    def choice(self, index: int, /) -> ChoiceWriter | None:
        """The writer of a choice; None where the protocol has but one."""

    def finish(self, finishes: Mapping[int, FinishReason], usage: Usage | None, /) -> bytes:
        """The answer is over, and it ended well."""

    def fail(self, failure: Failure, /) -> bytes:
        """The answer failed."""

    def keep_alive(self) -> bytes:
        """Something that says nothing but that the connection lives."""

    def report(self, progress: JSON, /) -> bytes:
        """Write progress, which clients ignore that did not request it."""
