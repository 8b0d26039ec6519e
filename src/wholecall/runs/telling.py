"""What the model is told of a call that was released and did not give an output."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from wholecall.core.conversation import Result
from wholecall.core.feedback import Feedback, SkipReason, skipped, timed_out, tool_failed
from wholecall.core.values import Text
from wholecall.core.words import cut
from wholecall.tools.signals import Failed, Retry

_MESSAGE = 500
"""Characters of an unexpected exception's message that the model gets to read."""
_SEND_AGAIN = "Correct the call and send it again."
_GO_ON = "Do not send the call again. Go on without its result, or say what is missing."


def tell(feedback: Feedback) -> Result:
    """A failure, in words."""
    return Result((Text(feedback.text),), failed=True)


def tell_error(name: str, error: BaseException, *, reveal: bool) -> Result:
    """Say that the tool raised something.

    `Retry` and `Failed` are told as they were written. Of anything else the class and the
    message are told, unless not even these may be revealed; never a traceback.
    """
    match error:
        case Retry():
            return tell(replace(tool_failed(name, str(error)), type="retry", hint=_SEND_AGAIN))
        case Failed():
            return tell(replace(tool_failed(name, str(error)), hint=_GO_ON))
        case asyncio.CancelledError():
            return tell(tool_failed(name, "it broke off by itself"))
        case _ if not reveal:
            return tell(tool_failed(name, "an internal error"))
        case _:
            return tell(tool_failed(name, _describe(error)))


def tell_timeout(name: str, seconds: float) -> Result:
    """Say that the tool did not end in its time."""
    return tell(timed_out(name, seconds))


def tell_skipped(name: str, why: str, *, reason: SkipReason = SkipReason.STOPPED) -> Result:
    """Say that the call was not run although nothing was wrong with it."""
    return tell(skipped(name, why, reason=reason))


def tell_denied(name: str, why: str) -> Result:
    """Say that the call was not approved."""
    said = f"it was not approved: {why}" if why else "it was not approved"
    return tell(replace(skipped(name, said, reason=SkipReason.DENIED), type="denied"))


def tell_cancelled(name: str) -> Result:
    """Say that the call was broken off together with the run."""
    why = "it was stopped before it ended, because the run was; what it had done is unknown"
    return tell(replace(tool_failed(name, why), type="cancelled", hint=""))


def _describe(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        message = cut(str(error), _MESSAGE)
    # `__str__` is the tool's code, too.
    except Exception:  # noqa: BLE001
        message = ""
    return f"{kind}: {message}" if message else kind
