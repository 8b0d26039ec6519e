"""Check whether an answer obeys the tool choice. Not all upstreams enforce it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wholecall.core.choice.reading import list_words
from wholecall.core.choice.values import Choice, Mode
from wholecall.core.values import Call, Rejected


@dataclass(frozen=True, slots=True)
class Breach:
    """A violation of the tool choice."""

    message: str
    """Words for the model."""
    refused: tuple[int, ...] = ()
    """The calls that must not run, by their place in the answer."""


def obeyed(choice: Choice, answer: Sequence[Call | Rejected]) -> Breach | None:
    """Return how the calls of an answer violate the choice, or None.

    A rejected call counts as an attempt: the model did call, and its feedback comes from elsewhere.
    """
    if choice.mode is Mode.NONE:
        return _check_silence(answer)
    allowed = {*choice.names, *(special.name for special in choice.specials)}
    outside = [place for place, call in enumerate(answer) if allowed and call.name not in allowed]
    inside = sorted(set(range(len(answer))).difference(outside))
    extra = [] if choice.parallel else [at for at in inside if isinstance(answer[at], Call)][1:]
    # What the upstream runs itself leaves no call in the answer: nothing can be proven missing.
    missing = choice.mode is Mode.REQUIRED and not inside and not choice.specials
    sentences = [
        *([_say_outside(choice, [answer[at] for at in outside])] if outside else []),
        *(["Send one call at a time; only the first of this answer counts."] if extra else []),
        *([_say_missing(choice)] if missing else []),
    ]
    return Breach(" ".join(sentences), tuple(sorted([*outside, *extra]))) if sentences else None


def _check_silence(answer: Sequence[Call | Rejected]) -> Breach | None:
    if not answer:
        return None
    message = "No tool may be called in this answer. Answer in plain text."
    return Breach(message, tuple(range(len(answer))))


def _say_outside(choice: Choice, calls: Sequence[Call | Rejected]) -> str:
    allowed = [*choice.names, *(special.name or special.type for special in choice.specials)]
    called = list_words({call.name or "" for call in calls})
    return f"Only {list_words(allowed)} may be called in this answer, not {called}."


def _say_missing(choice: Choice) -> str:
    tools = list_words(choice.names) if len(choice.names) == 1 else _say_one_of(choice)
    return f"This answer must call {tools}."


def _say_one_of(choice: Choice) -> str:
    return f"one of {list_words(choice.names)}" if choice.names else "at least one of the tools"
