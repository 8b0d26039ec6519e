"""An answer that is not streamed: its events, put together to what every protocol writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.core.conversation import Native, Part, PastCall
from wholecall.core.outcome import merge_usage
from wholecall.core.values import Ended, Event, Fault, OfChoice, Reasoning, Rejected, Usage
from wholecall.protocols.answers.delivery import blame, finish_of
from wholecall.protocols.answers.writer import Finish, is_for_client
from wholecall.protocols.requests.answers import LEFT_OUT, answer_message


@dataclass(frozen=True, slots=True)
class Said:
    """One choice: its parts in order, and how it ended."""

    parts: tuple[Part, ...]
    finish: Finish
    notes: tuple[Mapping[str, Any], ...] = ()
    """Notes on its text and its end that its parts omit, in the upstream's form."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All choices of an answer, and what it cost."""

    choices: Mapping[int, Said]
    usage: Usage | None


def gather(events: Iterable[Event], *, upstream: str = "") -> Whole:
    """Put the events of an answer together.

    An answer that did not end well is an `UpstreamError`: nothing of it may look like one that
    did. Rejected calls are left out.
    """
    usage: Usage | None = None
    choices: dict[int, list[Event]] = {0: []}
    for event in events:
        if isinstance(event, OfChoice):
            choices.setdefault(event.choice, []).append(event.value)
        elif isinstance(event, Usage):
            usage = merge_usage(usage, event)
        else:
            choices[0].append(event)
    said = {index: _put_together(each, upstream) for index, each in choices.items()}
    return Whole(said, usage)


def _put_together(events: list[Event], upstream: str) -> Said:
    delivered = [event for event in events if not isinstance(event, Rejected)]
    parts = answer_message(delivered, upstream).parts
    ended = next((event for event in reversed(events) if isinstance(event, Ended)), None)
    finish = finish_of(ended, called=any(map(_is_call, parts)))
    if finish is None:
        raise blame(event for event in events if isinstance(event, Fault))
    extras = (event.extras for event in events if isinstance(event, Reasoning))
    notes = tuple(each for each in extras if each and each.keys() <= LEFT_OUT)
    return Said(parts, finish, notes)


def _is_call(part: Part) -> bool:
    own = isinstance(part, Native) and is_for_client(part.value)
    return own or isinstance(part, PastCall)
