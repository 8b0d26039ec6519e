"""Decide about an answer that cannot be used as it is: ask again, or fail.

An answer is requested again only while none of its calls has begun. The effects of a tool remain;
asking again would do it twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wholecall.agent.budget import RunLimits
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import Call, FaultKind, Outcome, Reason, Text
from wholecall.messages import Choice, Message, Mode, Request, Role

FIRST_ROOM = 8_192
"""Tokens to request if neither the request nor the upstream named the limit."""
ROOM_RAISES = 2
"""Retries of a turn with twice the room, before the model is asked to be brief."""
_BROKEN = frozenset(kind.value for kind in FaultKind)
_REFUSED = frozenset({400, 422})
_FINISHED_BY_LENGTH = "length"


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """The request with which an answer is retried, and why."""

    why: str
    request: Request


class AnswerRetry:
    """Judges the answers to one turn, one after the other."""

    def __init__(self, limits: RunLimits) -> None:
        self._limits = limits
        self._retries = 0
        self._raises = 0
        self._unforced: UpstreamError | None = None

    def after_answer(
        self, request: Request, outcome: Outcome, *, began: tuple[Call, ...], last: bool = False
    ) -> RetryRequest | None:
        """Return why and how to retry an answer; None: use it.

        The `last` answer of a run may stay empty: then the run says why it was stopped.
        """
        if is_broken(outcome):
            return self._retry(request, f"the answer broke off ({outcome.error})", began=began)
        if _is_empty(outcome) and not (last and self._retries >= self._limits.turn_retries):
            return self._retry(request, "the answer was empty", began=began)
        if not began and was_cut(outcome) and self._raises < ROOM_RAISES:
            self._raises += 1
            more = with_more_room(request, outcome, most=self._limits.output_tokens)
            return (
                RetryRequest("a call was cut off; there is more room now", more) if more else None
            )
        return None

    def after_error(
        self, request: Request, error: UpstreamError, *, began: tuple[Call, ...]
    ) -> RetryRequest | None:
        """Return what to do about an upstream that gave no usable answer; None: its error is final.

        It is not raised here: an error that is stored where it is raised refers to itself.
        """
        if began:
            raise _failed(f"the upstream failed: {error}", began) from error
        if self._unforced is not None and error.status in _REFUSED:
            unforced, self._unforced = self._unforced, None
            try:
                raise unforced
            finally:
                del unforced
        if request.choice.mode is Mode.REQUIRED and error.status in _REFUSED:
            self._unforced = error
            return RetryRequest(f"the forced choice was refused: {error}", _unforced(request))
        if error.status is not None or error.attempts > 1:
            return None  # the upstream's own retries are over
        if self._retries >= self._limits.turn_retries:
            return None
        return self._retry(request, str(error), began=())

    def _retry(self, request: Request, why: str, *, began: tuple[Call, ...]) -> RetryRequest:
        if began or self._retries >= self._limits.turn_retries:
            raise _failed(why, began)
        self._retries += 1
        return RetryRequest(why, request)


def is_broken(outcome: Outcome) -> bool:
    """Return whether the stream of an answer failed before its end.

    An error that says what was wrong with the model's call is the answer: the model can be told.
    """
    told = any(rejected.reason is Reason.MALFORMED_BY_PROVIDER for rejected in outcome.rejected)
    return outcome.error in _BROKEN and not told


def was_cut(outcome: Outcome) -> bool:
    """Return whether the output limit cut off a call."""
    return outcome.finish_reason == _FINISHED_BY_LENGTH and any(
        rejected.reason is Reason.TRUNCATED for rejected in outcome.rejected
    )


def with_more_room(request: Request, outcome: Outcome, *, most: int) -> Request | None:
    """Return the request with twice the output limit, up to `most`; None if it cannot be raised."""
    spent = outcome.usage.output_tokens if outcome.usage is not None else None
    had = request.max_tokens or spent or FIRST_ROOM // 2
    room = min(had * 2, most)
    return replace(request, max_tokens=room) if room > had else None


def _failed(why: str, began: tuple[Call, ...]) -> RunFailed:
    if not began:
        return RunFailed(f"{why}, each time it was asked for")
    names = ", ".join(f"{call.name} ({call.id})" for call in began)
    return RunFailed(f"{why} after these calls had begun: {names}", ran=began)


def _is_empty(outcome: Outcome) -> bool:
    given = outcome.calls or outcome.rejected or outcome.text.strip() or outcome.provider_blocks
    return not given and outcome.finish_reason in ("stop", "tool_calls", None)


def _unforced(request: Request) -> Request:
    """The same demand in words. Whether it was obeyed is checked like any other answer's."""
    names = request.choice.names
    tools = " or ".join(map(repr, names)) if names else "at least one of the tools"
    demand = Message(Role.SYSTEM, (Text(f"Your next answer must call {tools}."),))
    return replace(
        request,
        messages=(*request.messages, demand),
        choice=Choice(Mode.AUTO, names, request.choice.parallel, request.choice.specials),
    )
