"""What is said of calls that gave no output, to the model, and of runs that gave no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from wholecall.core.conversation import Content, Result
from wholecall.core.feedback import Feedback, SkipReason, skipped, timed_out, tool_failed
from wholecall.core.values import Text
from wholecall.core.words import cut, show
from wholecall.errors import ToolServerFailed
from wholecall.runs.events import Status, ToolEnded, ToolEndedLate
from wholecall.runs.ledger import Stop
from wholecall.runs.limits import RunLimits
from wholecall.tools.signals import Failed, Retry

_MESSAGE = 500
"""Characters of an unexpected exception's message that the model gets to read."""
_RESULTS = 10
"""Results that a run without an answer names: the last ones."""
_SEND_AGAIN = "Correct the call and send it again."
_MAYBE_DONE = (
    "Do not send the call again: it may have been carried out. "
    "Find out with another tool whether it was, or say that its outcome is unknown."
)
_HARMLESS = "The call may be sent again if its result is still needed; or go on without it."
_NOT_SENT = "The call was not run. Go on without its result, or send it again later."
_GO_ON = "Do not send the call again. Go on without its result, or say what is missing."


def tell(feedback: Feedback) -> Result:
    """A failure, in words."""
    return Result((Text(feedback.text),), failed=True)


def tell_error(
    name: str, error: BaseException, *, reveal: bool, repeatable: bool = False
) -> Result:
    """Say that the tool raised something.

    `Retry` and `Failed` are told as they were written. Of anything else the class and the
    message are told, unless not even these may be revealed; never a traceback. Where the server
    of a tool failed, the model is invited to repeat only a call that does no harm twice.
    """
    match error:
        case Retry():
            return tell(replace(tool_failed(name, str(error)), type="retry", hint=_SEND_AGAIN))
        case Failed():
            return tell(replace(tool_failed(name, str(error)), hint=_GO_ON))
        case ToolServerFailed():
            return tell(_tell_server(name, error, reveal=reveal, repeatable=repeatable))
        case asyncio.CancelledError():
            return tell(tool_failed(name, "it broke off by itself"))
        case _ if not reveal:
            return tell(tool_failed(name, "an internal error"))
        case _:
            return tell(tool_failed(name, _describe(error)))


def _tell_server(name: str, error: ToolServerFailed, *, reveal: bool, repeatable: bool) -> Feedback:
    hint = _HARMLESS if repeatable else _MAYBE_DONE
    said = "its server failed; what the call had done by then is unknown"
    if not error.outcome_unknown:
        hint, said = _NOT_SENT, "its server cannot be reached"
    return replace(tool_failed(name, cut(str(error), _MESSAGE) if reveal else said), hint=hint)


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


def tell_late(late: ToolEndedLate) -> tuple[Content, ...]:
    """Say what a tool gave whose call was reported as timed out."""
    how = "Its result" if late.status is Status.DONE else "It failed"
    said = (
        f"Note: the tool {show(late.call.name)}, whose call {show(late.call.id)} was reported as "
        f"timed out, has ended since. {how}:\n"
    )
    return (Text(said), *late.result.content)


# ── Runs ────────────────────────────────────────────────────────────────────────────

_CAPS = {
    Stop.TURNS: "it reached its turn limit ({limits.turns})",
    Stop.CALLS: "it reached its call limit ({limits.calls})",
    Stop.SECONDS: "it reached its time limit ({limits.seconds:g} seconds)",
    Stop.TOKENS: "it reached its token limit ({limits.tokens})",
    Stop.IDENTICAL: "the model made the same call {limits.stop_identical} times",
}
CAPS = frozenset(_CAPS)
"""How a run ends that was stopped before the model had finished."""
_BEGUN = frozenset({Status.DONE, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})


def tell_stop(stop: Stop, limits: RunLimits, *, ended: Iterable[ToolEnded]) -> str:
    """Say why a run was stopped without an answer, and what its calls gave until then."""
    why = _CAPS[stop].format(limits=limits)
    said = f"The run was stopped without an answer from the model, because {why}."
    begun = [each for each in ended if each.status in _BEGUN]
    if not begun:
        return f"{said} No tool had given a result."
    lines = [f"- {each.call.name}: {_sum_up(each)}" for each in begun[-_RESULTS:]]
    left_out = len(begun) - len(lines)
    earlier = f" (the last {_RESULTS} of {len(begun)})" if left_out else ""
    return "\n".join([f"{said} Results so far{earlier}:", *lines])


def _sum_up(ended: ToolEnded) -> str:
    text = cut(" ".join(ended.result.text.split()))
    return text if ended.status is Status.DONE else f"({ended.status.value}) {text}"


def _describe(error: BaseException) -> str:
    kind = type(error).__name__
    try:
        message = cut(str(error), _MESSAGE)
    # `__str__` is the tool's code, too.
    except Exception:  # noqa: BLE001
        message = ""
    return f"{kind}: {message}" if message else kind
