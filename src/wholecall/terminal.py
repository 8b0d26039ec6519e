"""Calls being built before one's eyes, drawn with `rich`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text as Styled

from wholecall.board import Board, Lane
from wholecall.core.values import Call, Event, Evidence
from wholecall.report import Row, ending_rows, lane_rows, show, speech_rows

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
_LABEL_WIDTH = 10
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
    grid.add_row(Styled("evidence", style="dim"), _chips(lane))
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


def _chips(lane: Lane) -> Styled:
    chips = Styled()
    for flag in Evidence:
        gained = flag in lane.evidence
        # The dot shows it as well without colours.
        chips.append(f"{'●' if gained else '○'} {flag.name}  ", "bold green" if gained else "dim")
    return chips


def _outside(rows: Iterable[Row]) -> RenderableType:
    """Rows outside the panels, in line with those inside."""
    return Padding(_fill(_grid(), rows), (0, 0, 0, 2))


def _grid() -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_LABEL_WIDTH, no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _fill(grid: Table, rows: Iterable[Row]) -> Table:
    for label, words in rows:
        style = _STYLES.get(label, "")
        grid.add_row(Styled(label, style=style or "dim"), Styled(words, style=style))
    return grid
