"""The laws of the core: nothing partial, nothing lost, no cut matters, linear work."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from example_counts import examples
from recut import SEEDS, cut_delta, cut_text, oddities, play, smooth, write
from wholecall.assembly.assembler import Assembler
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Event,
    Opened,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Start,
    Text,
    collect,
)
from wholecall.messages import ToolSpec

laws = settings(deadline=None, max_examples=examples(250))
GOOD = write("hint tool_calls | end")
NAMES = ("find", "edit", "edit_file", "run")


# ── Turns of an honest model ────────────────────────────────────────────────────────

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
strings = st.text(st.sampled_from('"\\{}[] \n') | st.characters(codec="utf-8"))
values = st.recursive(
    st.none() | st.booleans() | numbers | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=5,
)
seeds = st.none() | st.sampled_from(SEEDS)
offers = st.lists(st.sampled_from(Start), min_size=len(NAMES), max_size=len(NAMES)).map(
    lambda starts: [ToolSpec(name, start=start) for name, start in zip(NAMES, starts, strict=True)]
)


@dataclass(frozen=True)
class Turn:
    """An answer with calls in it, and what must come of it."""

    tools: list[ToolSpec]
    deltas: list[Delta]
    calls: list[tuple[str, dict[str, Any]]]


def send(
    call: tuple[str, dict[str, Any]], slot: int | None, *, id: str | None, dice: Random
) -> list[Delta]:
    """The deltas in which some server sends a call."""
    name, arguments = call
    text = json.dumps(arguments, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, 1]))
    if not arguments:
        text = dice.choice(["", " ", "{}", "{ }"])
    pieces = cut_text(text, dice.choice([None, *SEEDS]))
    if dice.random() < 0.25:
        pieces = ["{}", *pieces]  # a placeholder
    # Servers send the name in pieces, before the arguments or with them, and again.
    *beginnings, end = (
        cut_text(name, dice.choice([None, *SEEDS])) if dice.random() < 0.5 else [name]
    )
    again = dice.random() < 0.5
    deltas: list[Delta] = [CallDelta(slot, None, beginning, id) for beginning in beginnings]
    deltas.append(CallDelta(slot, pieces[0], end, id))
    deltas += (
        CallDelta(slot, piece, name if again else None, id if again else None)
        for piece in pieces[1:]
    )
    if slot is not None and dice.random() < 0.5:
        deltas.append(CallSealed(slot, dice.choice([None, text])))
    return deltas


def interleave(parts: list[list[Delta]], dice: Random) -> list[Delta]:
    """All parts in one stream, each in its order, with an answer and reasoning in between."""
    pending = [iter(part) for part in parts]
    owners = [owner for owner, part in enumerate(parts) for _ in part]
    dice.shuffle(owners)
    return [next(pending[owner]) for owner in owners]


calls = st.tuples(st.sampled_from(NAMES), st.dictionaries(strings, values, max_size=3))


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """Calls interleaved by their slots, or one after the other in one place."""
    made = draw(st.lists(calls, max_size=4))
    dice = Random(draw(st.integers(0, 999)))  # noqa: S311 - the way a stream is sent is no secret
    prose: list[Delta] = [Text("Let me see."), Reasoning("Hm"), Text(" Now.")]
    if dice.random() < 0.5:
        parts = [
            send(call, slot, id=dice.choice([None, f"call_{slot}"]), dice=dice)
            for slot, call in enumerate(made)
        ]
        deltas = interleave([*parts, prose], dice)
        made = [made[slot] for slot in dict.fromkeys(map(slot_of, deltas)) if slot is not None]
    else:
        place = dice.choice([None, 0])
        parts = [
            send(call, place, id=f"call_{number}", dice=dice) for number, call in enumerate(made)
        ]
        deltas = [delta for part in [*parts, prose] for delta in part]
    return Turn(draw(offers), deltas, made)


def slot_of(delta: Delta) -> int | None:
    return delta.slot if isinstance(delta, CallDelta) and isinstance(delta.slot, int) else None


def calls_of(events: Iterable[Event]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.arguments)) for call in collect(events).calls]


def verdicts_of(events: Iterable[Event]) -> Counter[int]:
    """How many verdicts each draft got."""
    verdicts: Counter[int] = Counter()
    for event in events:
        match event:
            case Released(call=call):
                verdicts[call.number] += 1
            case Rejected(number=number) | Repeated(number=number):
                verdicts[number] += 1
    return verdicts


# ── Law 2: a whole call is never lost ───────────────────────────────────────────────


@laws
@given(turns())
def test_every_whole_call_of_a_good_turn_is_released_once(turn: Turn) -> None:
    events = play([*turn.deltas, *GOOD], turn.tools)
    outcome = collect(events)
    assert json.dumps(calls_of(events)) == json.dumps(turn.calls)
    assert outcome.rejected == ()
    assert outcome.error is None
    assert set(verdicts_of(events).values()) <= {1}
    assert len({call.id for call in outcome.calls}) == len(outcome.calls)


# ── Law 1: a partial call is never executed ─────────────────────────────────────────


def prefix(deltas: list[Delta], place: int) -> list[Delta]:
    """The first so many characters of a turn; a delta without text counts as one."""
    kept: list[Delta] = []
    for delta in deltas:
        size = len(text_of(delta)) or 1
        if place < size:
            return [*kept, shorten(delta, place)] if place else kept
        kept.append(delta)
        place -= size
    return kept


def text_of(delta: Delta) -> str:
    match delta:
        case CallDelta(arguments=str(text)) | Text(text=text) | Reasoning(text=text):
            return text
        case _:
            return ""


def shorten(delta: Delta, size: int) -> Delta:
    field = "arguments" if isinstance(delta, CallDelta) else "text"
    return msgspec.structs.replace(delta, **{field: text_of(delta)[:size]})


@laws
@given(turn=turns(), data=st.data(), end=st.sampled_from(["", "hint length | end", "fault gone"]))
def test_a_prefix_of_a_turn_runs_nothing_that_the_whole_does_not(
    turn: Turn, data: st.DataObject, *, end: str
) -> None:
    size = sum(len(text_of(delta)) or 1 for delta in turn.deltas)
    place = data.draw(st.integers(0, size))
    whole = {call.number: call for call in collect(play([*turn.deltas, *GOOD], turn.tools)).calls}

    events = play([*prefix(turn.deltas, place), *write(end)], turn.tools)

    for call in collect(events).calls:
        meant = whole[call.number]
        assert (call.id, call.name, call.raw) == (meant.id, meant.name, meant.raw)
        assert json.dumps(dict(call.arguments)) == json.dumps(dict(meant.arguments))
    # What was begun is not lost either: it is a call or a rejection.
    begun = {event.number for event in events if isinstance(event, Opened)}
    assert begun <= verdicts_of(events).keys()
    assert set(verdicts_of(events).values()) <= {1}


# ── Law 5: how the stream was cut changes nothing ───────────────────────────────────

# What broken servers and lost models send.
MARKS = [
    "{",
    "}",
    "{}",
    '"',
    '"a"',
    ":",
    "1",
    '{"a":1}',
    " ",
    ",",
    "[",
    "]",
    "\\",
    "'",
    "x",
    '{"b":" "}',
]
slots = st.sampled_from([None, 0, 1])
texts = st.lists(st.sampled_from(MARKS), max_size=6).map(lambda marks: "".join(marks).strip())
broken_deltas: st.SearchStrategy[Delta] = st.one_of(
    st.builds(
        CallDelta,
        slots,
        texts,
        st.sampled_from([None, None, *NAMES, "ed", "it_file", "rm"]),
        st.sampled_from([None, None, "a", "b", "null"]),
        st.booleans(),
    ),
    st.builds(CallDelta, slots, texts),
    st.builds(CallSealed, slots, st.sampled_from([None, "{}", '{"a":1}', '{"a"'])),
)
ends = st.sampled_from(["hint tool_calls | end", "hint length | end", "hint stop", "end", ""])


def cut_all(deltas: Iterable[Delta], seed: int | None) -> list[Delta]:
    return [piece for delta in deltas for piece in cut_delta(delta, seed)]


@laws
@given(turn=turns(), seed=seeds, end=ends)
def test_a_turn_means_the_same_however_it_is_cut(turn: Turn, seed: int | None, *, end: str) -> None:
    deltas = [*turn.deltas, *write(end)]
    assert smooth(play(cut_all(deltas, seed), turn.tools)) == smooth(play(deltas, turn.tools))


@settings(laws, max_examples=examples(500))
@given(deltas=st.lists(broken_deltas, max_size=8), tools=st.none() | offers, seed=seeds, end=ends)
def test_so_does_a_broken_one(
    deltas: list[Delta], tools: list[ToolSpec] | None, *, seed: int | None, end: str
) -> None:
    deltas = [*deltas, *write(end)]
    whole, cut = play(deltas, tools), play(cut_all(deltas, seed), tools)
    # A server that repeats all that came in each piece means something by its pieces.
    assume("arguments_cumulative" not in oddities(whole) | oddities(cut))
    assert smooth(cut) == smooth(whole)


@settings(laws, max_examples=examples(500))
@given(deltas=st.lists(broken_deltas, max_size=8), tools=offers, end=ends)
def test_every_draft_of_a_broken_turn_gets_one_verdict(
    deltas: list[Delta], tools: list[ToolSpec], *, end: str
) -> None:
    events = play([*deltas, *write(end)], tools)
    verdicts = verdicts_of(events)
    assert verdicts == Counter(range(len(verdicts)))
    ids = [call.id for call in collect(events).calls]
    assert len(ids) == len(set(ids))


# ── Law 7: work is linear in the characters received ────────────────────────────────


class Work:
    """Counts the characters that the core looks at, and its calls, while it is entered."""

    def __init__(self) -> None:
        self.amount = 0

    def __enter__(self) -> Work:
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    # Python calls a profiler with these three.
    def _count(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: PLR0917
        self.amount += 1
        if event == "return" and isinstance(arg, str):
            self.amount += len(arg)  # a text was joined
        elif event == "c_call":
            self.amount += self._size(frame, getattr(arg, "__self__", None))

    @staticmethod
    def _size(frame: FrameType, subject: object) -> int:
        if isinstance(subject, str):
            return len(subject)  # text.strip(), text.partition("{")
        if isinstance(subject, re.Pattern):
            return len(frame.f_locals.get("text", ""))
        return 0


# A kind of arguments: how they begin, and what they then repeat without end.
KINDS = {
    "one long string": ('{"a": "', "x"),
    "escapes": ('{"a": "', "\\n"),
    "short strings": ('{"a": [', '"x", '),
    "numbers": ('{"a": [', "1, "),
    "objects": ('{"a": [', '{"b": []}, '),
    "blanks in between": ('{"a": [', "1,    "),
    "no object": ("[", "1, "),
    "no JSON": ("", "x = 1 "),
    "Python": ("{'a': [", "'x', "),
    "placeholders": ("", "{}"),
    "text after the object": ('{"a": 1}', "x "),
    "the object again": ('{"a": 1}', '{"a": 1}'),
    "text after the blanks": ('{"a": 1}', " "),
}


# The head of a call, and what each piece after it has besides its text.
SERVERS: dict[str, tuple[CallDelta, CallDelta]] = {
    "by slot": (CallDelta(0, None, "find", "a"), CallDelta(0)),
    "by id": (CallDelta(None, None, "find", "a"), CallDelta(None, id="a")),
    "without name": (CallDelta(0), CallDelta(0)),
    "an early tool": (CallDelta(0, None, "run", "a"), CallDelta(0, name="run")),
}


def work(kind: str, server: str, *, size: int) -> int:
    begin, more = KINDS[kind]
    text = (begin + more * size)[:size]
    head, piece = SERVERS[server]
    deltas = [
        head,
        *(msgspec.structs.replace(piece, arguments=text[at : at + 4]) for at in range(0, size, 4)),
    ]
    assembler = Assembler([ToolSpec("find"), ToolSpec("run", start=Start.CLOSED)])
    with Work() as counted:
        for delta in deltas:
            assembler.feed(delta)
        assembler.end()
    return counted.amount


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", KINDS)
def test_twice_the_text_is_twice_the_work(kind: str, server: str) -> None:
    assert work(kind, server, size=4000) <= 2.2 * work(kind, server, size=2000)
