"""Show an answer: as JSON, as text, or live in a terminal."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text as Styled

from wholecall.events import (
    Call,
    Ended,
    Event,
    Evidence,
    Fault,
    Grew,
    Inconsistent,
    OfChoice,
    Opened,
    Outcome,
    Problem,
    Proved,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
    Usage,
)


def forget_output() -> None:
    """Discard further output: buffered output would be retried, and reported, at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# The state of a stream for display: a tap that reads events and changes nothing.


# Of a text that grows only its end is of interest, and a screen holds no more.
KEPT_CHARACTERS = 280


class TextEnd:
    """The end of a text that grows: each piece costs the same, and memory is bounded."""

    __slots__ = ("_length", "kept", "pieces", "size")

    def __init__(self) -> None:
        self.size = 0
        """Characters so far."""
        self.pieces = 0
        self.kept: deque[str] = deque()
        """The last pieces; together they are at least what is shown."""
        self._length = 0

    def add(self, text: str) -> None:
        """Take the next piece."""
        if not text:
            return
        self.size += len(text)
        self.pieces += 1
        piece = text[-KEPT_CHARACTERS:]
        self.kept.append(piece)
        self._length += len(piece)
        while self._length - len(self.kept[0]) >= KEPT_CHARACTERS:
            self._length -= len(self.kept.popleft())

    def __str__(self) -> str:
        """Return the end of the text; `…` replaces the rest."""
        end = "".join(self.kept)[-KEPT_CHARACTERS:]
        return end if len(end) == self.size else f"…{end}"


class Lane:
    """One call on the board, from its first piece to its verdict."""

    __slots__ = ("arguments", "evidence", "name", "repeat_of", "verdict")

    def __init__(self) -> None:
        self.name = ""
        self.arguments = TextEnd()
        self.evidence = Evidence.NONE
        self.verdict: Call | Rejected | None = None
        self.repeat_of: int | None = None
        """The number of the call that this one only repeats."""


class Board:
    """The state of one answer."""

    def __init__(self) -> None:
        self.lanes: dict[int, Lane] = {}
        self.text = TextEnd()
        self.reasoning = TextEnd()
        self.oddities: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.ended: Ended | None = None
        self.choices: dict[int, Board] = {}
        """The other choices of an answer with `n` > 1, by their index."""

    def apply(self, event: Event) -> None:
        """Take one event in."""
        update = _UPDATES.get(type(event))
        if update is not None:
            update(self, event)

    def _lane(self, number: int) -> Lane:
        return self.lanes.setdefault(number, Lane())

    def _opened(self, event: Opened) -> None:
        self._lane(event.number).name = event.name

    def _grew(self, event: Grew) -> None:
        self._lane(event.number).arguments.add(event.text)

    def _proved(self, event: Proved) -> None:
        self._lane(event.number).evidence = event.evidence

    def _released(self, event: Released) -> None:
        lane = self._lane(event.call.number)
        lane.verdict, lane.evidence = event.call, event.call.evidence

    def _rejected(self, event: Rejected) -> None:
        lane = self._lane(event.number)
        lane.verdict, lane.name = event, event.name or lane.name

    def _repeated(self, event: Repeated) -> None:
        self._lane(event.number).repeat_of = event.of

    def _text(self, event: Text) -> None:
        self.text.add(event.text)

    def _reasoning(self, event: Reasoning) -> None:
        self.reasoning.add(event.text)

    def _odd(self, event: Inconsistent) -> None:
        detail = f" ({event.detail})" if event.detail else ""
        self.oddities[event.oddity.value + detail] += 1

    def _fault(self, event: Fault) -> None:
        self.faults[f"{event.kind.value}: {event.message}"] += 1

    def _ended(self, event: Ended) -> None:
        self.ended = event

    def _choice(self, event: OfChoice[Event]) -> None:
        self.choices.setdefault(event.choice, Board()).apply(event.value)


_UPDATES: dict[type[Event], Callable[[Board, Any], None]] = {
    Opened: Board._opened,
    Grew: Board._grew,
    Proved: Board._proved,
    Released: Board._released,
    Rejected: Board._rejected,
    Repeated: Board._repeated,
    Text: Board._text,
    Reasoning: Board._reasoning,
    Inconsistent: Board._odd,
    Fault: Board._fault,
    Ended: Board._ended,
    OfChoice: Board._choice,
}


def watch(events: Iterable[Event]) -> Board:
    """Fold all the events of an answer."""
    board = Board()
    for event in events:
        board.apply(event)
    return board


# An answer as JSON for programs, and in words for people.
#
# The words are rows of a label and a text. A row is made in one place, which cuts it and makes it
# safe to print: models write escape sequences, and a terminal would obey them.


# What a row shows of a long text: its beginning and its end. A growing one fits in whole.
_HEAD, _END = 200, 100
# Oddities and faults of one answer that are listed; the others are counted.
_MOST_NOTES = 10
_INDENT = "  "
_LABEL_WIDTH = 11


# ── For programs ────────────────────────────────────────────────────────────────────


def as_json(title: str, outcome: Outcome) -> str:
    """One line of JSON, in ASCII: it passes every pipe, and half a surrogate pair too."""
    return json.dumps({"title": title, **_outcome(outcome)})


def _outcome(outcome: Outcome) -> dict[str, Any]:
    choices = {str(index): _outcome(other) for index, other in outcome.choices.items()}
    return {
        "calls": [_call(call) for call in outcome.calls],
        "rejected": [_rejected(rejected) for rejected in outcome.rejected],
        "text": outcome.text,
        "reasoning": outcome.reasoning,
        "finish_reason": outcome.finish_reason,
        "native_finish_reason": outcome.native_finish_reason,
        "error": outcome.error,
        "inconsistencies": [odd.oddity.value for odd in outcome.inconsistencies],
        "usage": _usage(outcome.usage),
        **({"choices": choices} if choices else {}),
    }


def _call(call: Call) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "evidence": name_evidence(call.evidence),
        "repairs": [dataclasses.asdict(repair) for repair in call.repairs],
        "coercions": [dataclasses.asdict(coercion) for coercion in call.coercions],
        "dropped": list(call.dropped),
    }


def _rejected(rejected: Rejected) -> dict[str, Any]:
    return {
        "id": rejected.id,
        "name": rejected.name,
        "reason": rejected.reason.value,
        "detail": rejected.detail,
        "raw": rejected.raw,
        "problems": [dataclasses.asdict(problem) for problem in rejected.problems],
    }


def _usage(usage: Usage | None) -> dict[str, int | None] | None:
    if usage is None:
        return None
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


# ── For people ──────────────────────────────────────────────────────────────────────


class ReportRow(NamedTuple):
    """One line of a report; `words` are safe to print."""

    label: str
    words: str


def row(label: str, text: str) -> ReportRow:
    """Make a row of a text that anybody may have written."""
    return ReportRow(label, show(text))


def show(text: str) -> str:
    """As much of a text as a reader wants to see, safe to print."""
    return escape(_shorten(text))


def escape(text: str) -> str:
    """Show what cannot be seen: control characters, invisible ones, half a surrogate pair."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def name_evidence(evidence: Evidence) -> list[str]:
    """The evidence by name, in the order in which it is usually gained."""
    return [str(flag.name) for flag in Evidence if flag in evidence]


def as_text(title: str, board: Board) -> str:
    """All that a stream has shown, as plain lines."""
    return "\n".join([f"== {show(title)}", *_lines(board)])


def speech_rows(board: Board) -> Iterator[ReportRow]:
    """Yield the rows of the model's text."""
    if board.reasoning.size:
        yield row("reasoning", str(board.reasoning))
    if board.text.size:
        yield row("text", str(board.text))


def lane_rows(lane: Lane) -> Iterator[ReportRow]:
    """A call: what came, what was done to it, and the verdict."""
    if lane.repeat_of is not None:
        yield row("received", _received(str(lane.arguments)))
        yield row("REPEATED", f"the same as call {lane.repeat_of}, sent again: dropped")
    elif lane.verdict is None:
        yield row("building", str(lane.arguments))
    else:
        yield row("received", _received(lane.verdict.raw))
        yield from _verdict_rows(lane.verdict)


def ending_rows(board: Board) -> Iterator[ReportRow]:
    """Yield the rows of oddities, failures and the end of the answer."""
    yield from _notes("odd", board.oddities)
    yield from _notes("error", board.faults)
    if board.ended is not None:
        yield row("ended", _ending(board.ended))


def _lines(board: Board) -> Iterator[str]:
    yield from _format(speech_rows(board))
    for number, lane in board.lanes.items():
        evidence = " ".join(name_evidence(lane.evidence)) or "no evidence"
        heading = row(f"call {number}", f"{lane.name or '(no name)'}  [{evidence}]")
        yield from _format([heading])
        yield from _format(lane_rows(lane), _INDENT)
    yield from _format(ending_rows(board))
    for index, choice in board.choices.items():
        yield f"-- choice {index}"
        yield from _lines(choice)


def _format(rows: Iterable[ReportRow], indent: str = "") -> Iterator[str]:
    for label, words in rows:
        yield f"{indent}{label:<{_LABEL_WIDTH - len(indent)}}{words}"


def _verdict_rows(verdict: Call | Rejected) -> Iterator[ReportRow]:
    if isinstance(verdict, Call):
        yield from _change_rows(verdict)
        yield row("CALL", f"{verdict.name} {_spell(verdict.arguments)}")
    else:
        yield from (row("problem", _problem(problem)) for problem in verdict.problems)
        yield row("REJECTED", f"{verdict.reason.value}: {verdict.detail}")


def _change_rows(call: Call) -> Iterator[ReportRow]:
    for repair in call.repairs:
        yield row("repaired", f"{repair.kind}: {repair.before!r} -> {repair.after!r}")
    for coercion in call.coercions:
        change = f"{_spell(coercion.before)} -> {_spell(coercion.after)}"
        yield row("coerced", f"{coercion.path}: {change}")
    for name in call.dropped:
        yield row("dropped", f"{name!r}: the tool has no such parameter")


def _problem(problem: Problem) -> str:
    path, message = problem.path, problem.message
    return message if path in message else f"{path}: {message}"


def _notes(label: str, notes: Counter[str]) -> Iterator[ReportRow]:
    for note, times in islice(notes.items(), _MOST_NOTES):
        yield row(label, note if times == 1 else f"{note}, {times} times")
    if len(notes) > _MOST_NOTES:
        yield row(label, f"and {len(notes) - _MOST_NOTES} others")


def _ending(ended: Ended) -> str:
    native = "no finish reason" if ended.native is None else f"{ended.native!r}"
    return f"{ended.finish_reason or 'in error'} (the upstream said {native})"


def _received(text: str) -> str:
    return text or "(nothing)"


def _spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shorten(text: str) -> str:
    left_out = len(text) - _HEAD - _END
    if left_out <= 0:
        return text
    return f"{text[:_HEAD]} … {left_out:,} characters … {text[-_END:]}"


# Calls being built before one's eyes, drawn with `rich`.


_STYLES: dict[str, str] = {
    "reasoning": "dim italic",
    "building": "cyan",
    "repaired": "yellow",
    "coerced": "yellow",
    "dropped": "yellow",
    "problem": "red",
    "CALL": "bold green",
    "REJECTED": "bold red",
    "REPEATED": "bold yellow",
    "odd": "yellow",
    "error": "bold red",
    "ended": "bold",
}
_PANEL_LABEL_WIDTH = 10
# With its share of the frame; while calls are built, the last ones that fit are shown.
_LINES_OF_A_CALL = 9


def play(
    steps: Iterable[list[Event]], *, title: str, console: Console, pause: float = 0.0
) -> Board:
    """Show each step for `pause` seconds, then what came of it; without pause only that."""
    board = Board()
    room = max(1, console.height // _LINES_OF_A_CALL)
    with Live(console=console, auto_refresh=False) as live:
        for events in steps:
            for event in events:
                board.apply(event)
            if events and pause:
                live.update(draw(title, board, room=room), refresh=True)
                time.sleep(pause)
        live.update(draw(title, board))  # drawn when `live` is left, however long it is
    return board


def draw(title: str, board: Board, *, room: int | None = None) -> RenderableType:
    """The board as `rich` shows it; `room` is for the last so many calls."""
    heading = Styled(show(title), style="bold reverse")
    heading.pad(1)
    return Group(heading, *_parts(board, room))


def _parts(board: Board, room: int | None) -> Iterator[RenderableType]:
    yield _outside(speech_rows(board))
    lanes = list(board.lanes.items())
    hidden = 0 if room is None else max(0, len(lanes) - room)
    if hidden:
        yield Styled(f"… {hidden} calls above", style="dim")
    yield from (_panel(number, lane) for number, lane in lanes[hidden:])
    yield _outside(ending_rows(board))
    for index, choice in board.choices.items():
        yield Styled(f"choice {index}", style="bold underline")
        yield from _parts(choice, room)


def _panel(number: int, lane: Lane) -> Panel:
    arguments = lane.arguments
    grid = _grid()
    grid.add_row(Styled("evidence", style="dim"), _tell_evidence(lane))
    _fill(grid, lane_rows(lane))
    return Panel(
        grid,
        title=Styled(f"call {number}  {show(lane.name)}"),
        title_align="left",
        subtitle=Styled(f"characters: {arguments.size:,}  pieces: {arguments.pieces:,}"),
        subtitle_align="right",
        border_style=_colour(lane),
    )


def _colour(lane: Lane) -> str:
    if lane.repeat_of is not None:
        return "yellow"
    if lane.verdict is None:
        return "cyan"
    return "green" if isinstance(lane.verdict, Call) else "red"


_RELEASED_AT = (
    (Evidence.CONFIRMED, "the turn ended well"),
    (Evidence.SEALED, "the protocol says that the call is over"),
    (Evidence.CLOSED, "read-only or repeatable, may start early"),
)
"""The strongest evidence that a call was released at, and why no more was needed."""


def _tell_evidence(lane: Lane) -> Styled:
    """Return the evidence that held at the verdict; until then, what there is and what may come."""
    if isinstance(lane.verdict, Call):
        told = (f"released at {flag.name}: {why}" for flag, why in _RELEASED_AT if _has(lane, flag))
        return Styled(next(told, "released"), "green")
    chips = Styled()
    for flag in Evidence:
        gained = _has(lane, flag)
        # The dot shows it as well without colours.
        chips.append(f"{'●' if gained else '○'} {flag.name}  ", "bold green" if gained else "dim")
    return chips


def _has(lane: Lane, flag: Evidence) -> bool:
    return flag in lane.evidence


def _outside(rows: Iterable[ReportRow]) -> RenderableType:
    """Rows outside the panels, in line with those inside."""
    return Padding(_fill(_grid(), rows), (0, 0, 0, 2))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_PANEL_LABEL_WIDTH, no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _fill(grid: Table, rows: Iterable[ReportRow]) -> Table:
    for label, words in rows:
        style = _STYLES.get(label, "")
        grid.add_row(Styled(label, style=style or "dim"), Styled(words, style=style))
    return grid
