"""Every row of a table is run whole, one character at a time, and at seeded random cuts.

How a stream was cut into chunks changes nothing (law 5). What may be cut is the text of
a delta; its id, its name and whatever else it has stay with the first piece.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, pairwise
from typing import Any

import msgspec

from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.assembly.finish_reasons import read_hint
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Event,
    Fault,
    FaultKind,
    Grew,
    HintGiven,
    Inconsistent,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Terminated,
    Text,
)
from wholecall.protocols.fast_path import coalesce

SEEDS = range(4)


# ── Writing ─────────────────────────────────────────────────────────────────────────


def write(lines: str) -> list[Delta]:
    """The deltas of a turn, with ` | ` between them.

    A piece of a call is written as its slot, id, name and arguments, with `-` for what it
    leaves out: `0 call_1 search {"q":`. Anything else begins with a word: `text Hello`,
    `reasoning Hm`, `seal 0`, `seal 0 {"q": 1}`, `hint length`, `end`, `fault gone`.
    """
    return [_write(line) for line in lines.split(" | ") if line]


def _write(line: str) -> Delta:
    word, _, rest = line.partition(" ")
    if word in _WRITERS:
        return _WRITERS[word](rest)
    _, id, name, *arguments = line.split(" ", 3)
    return CallDelta(_slot(word), "".join(arguments), _read(name), _read(id))


def _read(word: str) -> str | None:
    return None if word == "-" else word


def _slot(word: str) -> int | str | None:
    return int(word) if word.isdigit() else None if word == "-" else word


def _seal(rest: str) -> CallSealed:
    slot, _, arguments = rest.partition(" ")
    return CallSealed(_slot(slot), arguments or None)


_WRITERS: dict[str, Callable[[str], Delta]] = {
    "text": Text,
    "reasoning": Reasoning,
    "seal": _seal,
    "hint": lambda word: HintGiven(read_hint(word), word),
    "end": lambda _: Terminated(),
    "fault": lambda message: Fault(FaultKind.UPSTREAM_ERROR, message),
}


# ── Cutting ─────────────────────────────────────────────────────────────────────────


def cut_text(text: str, seed: int | None) -> list[str]:
    """Cut at random places, or between all characters if there is no seed."""
    places = list(range(1, len(text)))
    if seed is not None:
        dice = random.Random(f"{seed} {text}")  # noqa: S311 - a cut is no secret
        places = sorted(dice.sample(places, dice.randint(0, len(places))))
    return [text[start:end] for start, end in pairwise([0, *places, len(text)])]


def every_cutting(text: str) -> list[list[str]]:
    """The pieces in which a text is fed: whole, one by one, at random."""
    return [[text], cut_text(text, None), *(cut_text(text, seed) for seed in SEEDS)]


def cut_delta(delta: Delta, seed: int | None) -> Iterator[Delta]:
    """The same delta in pieces."""
    match delta:
        case CallDelta(arguments=str(text)):
            first, *more = cut_text(text, seed)
            yield msgspec.structs.replace(delta, arguments=first)
            yield from (CallDelta(delta.slot, piece) for piece in more)
        case Text(text=text):
            yield from map(Text, cut_text(text, seed))
        case Reasoning(text=text):
            first, *more = cut_text(text, seed)
            yield msgspec.structs.replace(delta, text=first)
            yield from map(Reasoning, more)
        case _:
            yield delta


def every_recut(deltas: Iterable[Delta]) -> list[list[Delta]]:
    """The turns that must mean the same as this one."""
    whole = list(deltas)
    return [
        whole,
        *(
            [piece for delta in whole for piece in cut_delta(delta, seed)]
            for seed in (None, *SEEDS)
        ),
    ]


# ── Playing ─────────────────────────────────────────────────────────────────────────


def play(deltas: Iterable[Delta], tools: Any = None, **options: Any) -> list[Event]:
    """The events of one turn. Ids that are made up are `new_0`, `new_1`, …"""
    numbers = count()
    ids = CallIds(make=lambda: f"new_{next(numbers)}")
    assembler = Assembler(tools, **{"ids": ids, **options})
    events = [event for delta in deltas for event in assembler.feed(delta)]
    return events + assembler.end()


def play_every_way(deltas: Sequence[Delta], tools: Any = None, **options: Any) -> list[Event]:
    """The events of one turn, after every other cutting of it has told the same.

    So has each of them with its pieces joined again, as they are if they come in one read.
    """
    recuts = every_recut(deltas)
    whole, *others = (play(recut, tools, **options) for recut in recuts)
    for other in (*others, *(play(coalesce(recut), tools, **options) for recut in recuts)):  # type: ignore[arg-type]  # no choices here
        assert smooth(other) == smooth(whole)
    return whole


def smooth(events: Iterable[Event]) -> tuple[list[Event], list[Inconsistent]]:
    """What was told, however it was cut: neighbours are joined, oddities stand apart.

    An oddity is told with the delta that shows it, so its place among the pieces of a
    text depends on the cut, and nothing else does.
    """
    told: list[Event] = []
    odd: list[Inconsistent] = []
    for event in events:
        if isinstance(event, Inconsistent):
            odd.append(event)
        elif told and (joined := _join(told[-1], event)) is not None:
            told[-1] = joined
        else:
            told.append(event)
    return told, sorted(odd, key=lambda note: (note.number is None, note.number, note.oddity.value))


def _join(first: Event, second: Event) -> Event | None:
    match first, second:
        case Grew(number=number), Grew(number=other) if number == other:
            return Grew(number, first.text + second.text)
        case Text(), Text():
            return Text(first.text + second.text)
        case Reasoning(), Reasoning():
            return Reasoning(first.text + second.text, {**first.extras, **second.extras})
        case _:
            return None


# ── Saying ──────────────────────────────────────────────────────────────────────────


def say(events: Iterable[Event]) -> str:
    """The verdicts in call order: `id name arguments`, `reason name`, `again number`."""
    said: dict[int, str] = {}
    for event in events:
        match event:
            case Released(call=call):
                assert call.number not in said
                said[call.number] = f"{call.id} {call.name} {json.dumps(dict(call.arguments))}"
            case Rejected():
                assert event.number not in said
                said[event.number] = f"{event.reason.value} {event.name or '-'}"
            case Repeated():
                said[event.number] = f"again {event.of}"
    return " | ".join(said[number] for number in sorted(said))


def oddities(events: Iterable[Event]) -> set[str]:
    """What was strange, in words."""
    return {event.oddity.value for event in events if isinstance(event, Inconsistent)}
