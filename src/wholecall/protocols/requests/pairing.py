"""Each call with its result, for protocols that `core.history` has no form of.

Gemini and Ollama go by order and by name: an answer with its calls, then their results, one for
each call and in the order of the calls.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wholecall.core.conversation import CallResult, Message, PastCall, Result, Role
from wholecall.core.history.pieces import UNRECORDED
from wholecall.core.values import Text


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A past call and its one result."""

    call: PastCall
    result: Result


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message, and what became of its calls."""

    message: Message
    answered: tuple[AnsweredCall, ...] = ()


def pair(messages: Sequence[Message]) -> Iterator[Exchange]:
    """Go through a history, each answer with the results of its calls.

    A call without a result gets one that says so; a result without a call is left out. Where
    an id was used again in a later turn, the first result is the first call's.
    """
    waiting: defaultdict[str, deque[Result]] = defaultdict(deque)
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, CallResult):
            waiting[part.call_id].append(part.result)
    for message in messages:
        if message.role is not Role.TOOL:
            calls = [part for part in message.parts if isinstance(part, PastCall)]
            answered = (AnsweredCall(call, _take(waiting[call.id])) for call in calls)
            yield Exchange(message, tuple(answered))


def _take(waiting: deque[Result]) -> Result:
    return waiting.popleft() if waiting else Result((Text(UNRECORDED),), failed=True)
