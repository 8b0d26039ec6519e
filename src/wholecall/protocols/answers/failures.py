"""Failures, as each protocol tells them to its clients.

OpenAI:    {"error": {"message", "type", "param", "code"}}
Anthropic: {"type": "error", "error": {"type", "message"}, "request_id"}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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

_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_SERVER = 500
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
    status: int = _SERVER
    """Of HTTP. In a stream that has begun it only says what kind of failure it is."""
    code: str | None = None
    param: str | None = None
    """The field of the request that is at fault."""
    request_id: str = ""


def openai_error(failure: Failure) -> dict[str, Any]:
    """The body of an error in OpenAI's shape, for chat completions and responses."""
    other = "server_error" if failure.status >= _SERVER else "invalid_request_error"
    error = {
        "message": failure.message,
        "type": _OPENAI_TYPES.get(failure.status, other),
        "param": failure.param,
        "code": failure.code,
    }
    return {"error": error, **_request_id(failure)}


def anthropic_error(failure: Failure) -> dict[str, Any]:
    """The body of an error in Anthropic's shape, which has no place for a field."""
    other = "api_error" if failure.status >= _SERVER else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(failure.status, other)
    message = failure.message
    if failure.param and failure.param not in message:
        message = f"{failure.param}: {message}"
    error: dict[str, Any] = {"type": kind, "message": message}
    if failure.code == NO_THREADS:
        error["details"] = {"error_code": NO_THREADS}
    return {"type": "error", "error": error, **_request_id(failure)}


def _request_id(failure: Failure) -> dict[str, str]:
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
