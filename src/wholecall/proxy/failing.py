"""The failure that a client sees, and what it never sees."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from wholecall.errors import RunFailed, UpstreamError, WholecallError
from wholecall.files.database import CODE, StoreFailed
from wholecall.protocols.answers import Failure, is_about_request, read_failure
from wholecall.proxy.sinks import RawHeaders
from wholecall.proxy.taps import CLIENT_GONE
from wholecall.upstreams.retry import is_repeatable

_LOG = logging.getLogger(__name__)
LONGEST_RETRY_AFTER = 60.0
"""Seconds. SDKs wait as long as they are told, and no one waits an hour for an answer."""
NEVER_AGAIN: RawHeaders = ((b"x-should-retry", b"false"),)
"""Official SDKs send a failed request again by themselves. After a tool ran they must not, and
where a model got its call wrong although it was told what was wrong, it is of no use."""
BAD_CALL = "bad_call"
"""The code of answers whose calls were wrong."""
BROKEN_OFF = "broken_off"
"""The code of answers that ended after a tool had begun."""
SHUTTING_DOWN = "shutting_down"
"""The code of answers that the end of the server broke off."""
_BUG = "the proxy failed; its log says why under this request's id"
_CLOSING = "the proxy is shutting down"
_LEFT = "the client that asked for this answer hung up before it was over"
_NOT_AGAIN = "this request was broken off after tools had begun to run; they are not run again"
_CREDENTIALS = (
    "the upstream of this model refuses the proxy's own credentials; it is not your key that is "
    "wrong, and whoever runs the proxy has to mend it"
)
_ABOUT_CREDENTIALS = frozenset({401, 403})
_UNAVAILABLE = 503
_CONFLICT = 409
_BAD_GATEWAY = 502


def explain(error: WholecallError, *, place: str, request_id: str) -> tuple[Failure, RawHeaders]:
    """A failure in words for the client, without the upstream's address."""
    failure = read_failure(error, request_id=request_id)
    if isinstance(error, StoreFailed):
        _LOG.error("request %s: %s", request_id, error.why)
        failure = replace(failure, status=_UNAVAILABLE, code=CODE)
    if isinstance(error, RunFailed):
        failure = replace(failure, status=_BAD_GATEWAY, code="run_failed")
    refusal = _find_refusal(error)
    if refusal and refusal.status in _ABOUT_CREDENTIALS and not is_about_request(refusal):
        # Some upstreams repeat a part of the key in their words.
        failure = replace(failure, message=_CREDENTIALS, code="upstream_credentials")
    hidden = failure.message.replace(place, "the upstream") if place else failure.message
    told = replace(failure, message=hidden)
    return told, _headers(error, told.status, refusal=refusal)


def explain_bug(request_id: str) -> Failure:
    """Return the failure for our own bug. Its message could hold anything, so it stays here."""
    return Failure(message=_BUG, code="internal_error", request_id=request_id)


def explain_break(request_id: str, *, ran: bool, gone: bool) -> Failure:
    """Return the failure for a cancelled answer: the server stops, or the client disconnected.

    A disconnected client does not read it, but a resend may.
    """
    if ran:
        return Failure(message=_NOT_AGAIN, status=_CONFLICT, code=BROKEN_OFF, request_id=request_id)
    message, code = (_LEFT, CLIENT_GONE) if gone else (_CLOSING, SHUTTING_DOWN)
    return Failure(message=message, status=_UNAVAILABLE, code=code, request_id=request_id)


def _find_refusal(error: BaseException | None) -> UpstreamError | None:
    """Return the refusal of an upstream, also as the cause of a failed run."""
    if isinstance(error, RunFailed):
        return _find_refusal(error.__cause__)
    return error if isinstance(error, UpstreamError) else None


def _headers(error: WholecallError, told: int, *, refusal: UpstreamError | None) -> RawHeaders:
    if isinstance(error, RunFailed) and error.ran:
        return NEVER_AGAIN
    if isinstance(error, UpstreamError) and error.status is None and error.code == BAD_CALL:
        return NEVER_AGAIN
    refused = refusal.status if refusal else None
    if told == _BAD_GATEWAY and refused is not None and not is_repeatable(refused, {}):
        # Its key, its address: SDKs would take it for a passing failure.
        return NEVER_AGAIN
    if isinstance(error, UpstreamError) and error.retry_after is not None:
        seconds = math.ceil(min(error.retry_after, LONGEST_RETRY_AFTER))
        return ((b"retry-after", str(seconds).encode()),)
    return ()
