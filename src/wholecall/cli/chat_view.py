"""Show a conversation in a terminal as it happens: wrapped text, calls while they are built."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.spinner import Spinner
from rich.text import Text as Styled

from wholecall.agent.run import RunResult
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ElicitationAnswered,
    ElicitationAsked,
    RunEvent,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.cli.report import Board, draw, escape, show
from wholecall.events import Call, Fault, Grew, Inconsistent, Reasoning, Text

SILENT_SECONDS = 0.5
"""A shorter wait needs no words."""
FRAMES = 8
"""In a second."""


class ProgressLine:
    """A spinner with a status line, redrawn by `rich`."""

    def __init__(self, words: Callable[[], str], clock: Callable[[], float]) -> None:
        self._words = words
        self._clock = clock
        self._began = clock()
        self._spinner = Spinner("dots")

    def __rich__(self) -> RenderableType:
        """The line as it is now."""
        seconds = self._clock() - self._began
        if seconds < SILENT_SECONDS:
            return ""
        self._spinner.update(text=Styled(f"{self._words()} {seconds:.0f} s", "dim"))
        return self._spinner


# Text that is shown as it comes, and wrapped between its words all the same.
#
# A word is written as soon as it begins. If it turns out not to fit, what was written of it is
# taken back and it begins anew in the next line. Code stays as it is, and so does a word that is
# longer than a line: the terminal breaks it, and it can be copied in one piece.


LEAST_WIDTH = 10
"""Columns. In fewer there is nothing to gain."""
_FENCES = ("```", "~~~")
_CODE = "    "
_HEAD = 8
"""Characters of a line by which it is known for what it is."""


class WrapStep(NamedTuple):
    """Take so many columns back, then write."""

    back: int
    text: str


class WordWrapper:
    """Wraps one answer; its pieces may be cut anywhere."""

    def __init__(self) -> None:
        self._fence = ""
        """The opener of the current code."""
        self.end_line()

    def end_line(self) -> None:
        """Note that the cursor is at the beginning of a line."""
        self._head = ""
        self._column = 0
        self._word = ""
        """The written part of a word that may be taken back."""
        self._is_long = False
        """True if that word is longer than a line. Then no more of it is remembered."""
        self._is_due = False
        """True if the line is full: what comes next starts another one."""
        self._is_code = bool(self._fence)

    def feed(self, piece: str, *, width: int) -> Iterator[WrapStep]:
        """Yield what to write for a piece, in a terminal of so many columns; 0: unknown."""
        # The last column stays free: terminals differ in the cursor's position after it.
        room = width - 1 if width >= LEAST_WIDTH else 0
        back, text = 0, ""
        for character in piece:
            step = self._place(character, room)
            if step.back:
                yield WrapStep(back, text)
                back, text = step.back, ""
            text += step.text
        yield WrapStep(back, text)

    def _place(self, character: str, room: int) -> WrapStep:
        if character == "\n":
            self.end_line()
            return WrapStep(0, "\n")
        self._look_at(character)
        if self._is_code or not room:
            return WrapStep(0, character)
        if character == " ":
            return WrapStep(0, self._place_blank(room))
        cells = cell_len(character)
        before = self._make_room(cells, room)
        if self._is_long:
            return WrapStep(0, character)
        self._column += cells
        # A line may be broken before and after wide characters: their scripts have no blanks.
        self._word = "" if cells > 1 else self._word + character
        return WrapStep(before.back, before.text + character)

    def _look_at(self, character: str) -> None:
        """By its beginning, a line is code or the fence around it."""
        if len(self._head) == _HEAD:
            return
        self._head += character
        begun = self._head.lstrip(" ")
        if begun in _FENCES:
            self._is_code = True
            self._fence = {"": begun, begun: ""}.get(self._fence, self._fence)
        elif self._head == _CODE:
            self._is_code = True

    def _place_blank(self, room: int) -> str:
        self._is_due = self._is_due or self._is_long or self._column >= room
        self._word, self._is_long = "", False
        if self._is_due:
            return ""
        self._column += 1
        return " "

    def _make_room(self, cells: int, room: int) -> WrapStep:
        """Return what begins another line, if this one is full."""
        if self._is_due:
            self._is_due, self._column = False, 0
            return WrapStep(0, "\n")
        if self._is_long or self._column + cells <= room:
            return WrapStep(0, "")
        back = cell_len(self._word)
        if back and back == self._column:
            self._is_long = True
            return WrapStep(0, "")
        word, self._column = self._word, back
        return WrapStep(back, "\n" + word)


# A conversation as it happens in a terminal: text as it comes, calls while they are built.
#
# A tap: it reads the events of a run and changes nothing. Calls are drawn in place while they
# change, and once more, for good, when the turn is over; what the model says meanwhile waits.


_FRAME_SECONDS = 0.05
"""Between two drawings of a call that grows. Eyes follow no faster."""
_LINES_OF_A_CALL = 10
_LINES_OF_A_RESULT = 12
_INDENT = "    "
_TAB = 4


class ChatView:
    """Shows one conversation."""

    def __init__(
        self,
        console: Console,
        *,
        clock: Callable[[], float] = time.monotonic,
        width: Callable[[], int] = lambda: 0,
        awaited: Callable[[], str] = lambda: "",
    ) -> None:
        """`width` says how many columns the terminal has; 0: that is not known. `awaited` says
        what is waited for while nothing comes, if that is to be shown."""
        self._console = console
        self._clock = clock
        self._awaited = awaited
        # A pipe's reader wraps lines itself, and some terminals cannot move the cursor up.
        can_go_back = console.is_terminal and not console.is_dumb_terminal
        self._can_go_back = can_go_back and not console.legacy_windows
        self._width = width if self._can_go_back else lambda: 0
        self._live: Live | None = None
        self._is_waiting = False
        """True while the last line is the waiting message."""
        self._drawn = 0.0
        self._turn = 0
        self._is_mid_line = False
        self._is_asking = False
        self._begin_turn()

    def take(self, event: RunEvent) -> None:
        """Show one event."""
        if self._is_waiting:
            self.pause()
        _ACTIONS.get(type(event), ChatView._apply)(self, event)

    def pause(self) -> None:
        """Clear the drawing before the user is asked a question."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._is_waiting = False
        self._end_line()

    def settle(self) -> None:
        """Leave what the turn has shown as it is."""
        self.pause()
        if self._has_calls():
            self._console.print(self._draw())
        for piece, style in self._held:
            self._write(piece, style)
        self._end_line()
        self._begin_turn()

    def finish(self, result: RunResult) -> None:
        """The run is over."""
        self.settle()
        spent = result.usage
        told = [_count(result.turns, "turn"), _count(len(result.ended), "call")]
        if spent.input_tokens or spent.output_tokens:
            told.append(f"{spent.input_tokens or 0} + {spent.output_tokens or 0} tokens")
        if result.stop.value != "answer":
            told.append(f"stopped: {result.stop.value}")
        self.note(", ".join(told))

    def note(self, words: str, style: str = "dim") -> None:
        """Say something that is not the model's."""
        self.pause()
        self._console.print(Styled(_printable(words), style=style))

    @contextmanager
    def asking(self, words: str) -> Iterator[Callable[[], None]]:
        """Ask the user something, when it is called. Until that is answered, nothing moves."""
        self.pause()
        self._is_asking = True
        # The user types the answer after it; input from a pipe is not echoed.
        end = " " if self._console.is_terminal else "\n"
        question = Styled(_printable(words), style="bold yellow")
        try:
            yield lambda: self._console.print(question, end=end)
        finally:
            self._is_asking = False

    # ── What the model says ─────────────────────────────────────────────────────────

    def _text(self, event: Text) -> None:
        self._say(event.text, "")

    def _reasoning(self, event: Reasoning) -> None:
        self._say(event.text, "dim italic")

    def _say(self, piece: str, style: str) -> None:
        if self._has_calls():
            self._held.append((piece, style))
        else:
            self._write(piece, style)

    def _write(self, piece: str, style: str) -> None:
        for back, text in self._wrapping.feed(_printable(piece), width=self._width()):
            if back:
                taken = (ControlType.CURSOR_BACKWARD, back), (ControlType.ERASE_IN_LINE, 0)
                self._console.control(Control(*taken))
            self._console.print(Styled(text, style=style), end="", soft_wrap=True)
        _, broken, last = piece.rpartition("\n")
        self._is_mid_line = bool(last) or (self._is_mid_line and not broken)
        self._has_spoken = True

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._console.print()
            self._wrapping.end_line()
            self._is_mid_line = False

    # ── Turns and calls ─────────────────────────────────────────────────────────────

    def _begin_turn(self) -> None:
        self._board = Board()
        self._runs: dict[str, Styled] = {}
        self._reports: dict[str, str] = {}
        """The last progress report of each tool."""
        self._held: list[tuple[str, str]] = []
        self._wrapping = WordWrapper()
        self._has_spoken = False

    def _has_calls(self) -> bool:
        return bool(self._board.lanes)

    def _started(self, event: TurnStarted) -> None:
        self.settle()
        self._turn = event.turn
        self._wait()

    def _wait(self) -> None:
        """Say what is waited for, until something comes."""
        if not (self._can_go_back and self._awaited()):
            return
        line = ProgressLine(lambda: _printable(self._awaited()), self._clock)
        console = self._console
        self._live = Live(line, console=console, refresh_per_second=FRAMES, transient=True)
        self._live.start()
        self._is_waiting = True

    def _retried(self, event: TurnRetried) -> None:
        self.settle()
        self.note(f"asked again: {event.why}", "yellow")

    def _apply(self, event: Any) -> None:
        self._board.apply(event)
        hurried = isinstance(event, Grew) and self._clock() - self._drawn < _FRAME_SECONDS
        if self._has_calls() and not hurried:
            self._refresh()

    def _trouble(self, event: Fault | Inconsistent) -> None:
        """Show a problem of an answer without calls; the board shows it beside calls."""
        self._apply(event)
        if isinstance(event, Fault) and not self._has_calls():
            self.note(f"error: {event.message}", "bold red")

    def _refresh(self) -> None:
        if self._is_asking or not self._console.is_terminal:
            return
        if self._live is None:
            self._end_line()
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        room = max(1, self._console.height // _LINES_OF_A_CALL)
        self._live.update(self._draw(room), refresh=True)
        self._drawn = self._clock()

    def _draw(self, room: int | None = None) -> RenderableType:
        runs = (line + self._reports.get(id, "") for id, line in self._runs.items())
        # Text before the calls is already shown above.
        title = f"calls of turn {self._turn}" if self._has_spoken else f"turn {self._turn}"
        return Group(draw(title, self._board, room=room), *runs)

    # ── Tools ───────────────────────────────────────────────────────────────────────

    def _run(self, call: Call, said: str, *, style: str) -> None:
        self._runs[call.id] = Styled(f"  {show(call.name)}: {said}", style=style)
        self._reports.pop(call.id, None)
        self._refresh()

    def _tool_started(self, event: ToolStarted) -> None:
        again = f", attempt {event.attempt}" if event.attempt > 1 else ""
        self._run(event.call, f"running{again} …", style="cyan")

    def _tool_reported(self, event: ToolReported) -> None:
        if event.call_id in self._runs:
            progress = json.dumps(event.progress, ensure_ascii=False)
            self._reports[event.call_id] = f" {show(progress)}"
            self._refresh()

    def _tool_ended(self, event: ToolEnded) -> None:
        good = event.status is Status.DONE
        said = f"{event.status.value} in {event.seconds:.2f} s:"
        result = _lay_out(event.result.text)
        self._run(event.call, f"{said}{result}", style="green" if good else "red")

    def _ended_late(self, event: ToolEndedLate) -> None:
        said = f"timed out, {event.status.value} late in {event.seconds:.2f} s:"
        self._run(event.call, f"{said}{_lay_out(event.result.text)}", style="yellow")

    def _abandoned(self, event: ToolAbandoned) -> None:
        self._run(event.call, "was asked to stop and is still running", style="yellow")

    def _asked(self, event: ApprovalAsked) -> None:
        self._run(event.call, "waits for your approval", style="yellow")

    def _asked_user(self, event: ElicitationAsked) -> None:
        self._run(event.call, "asks you something", style="yellow")

    def _user_answered(self, event: ElicitationAnswered) -> None:
        self._run(event.call, f"heard: {event.action}", style="yellow")

    def _answered(self, event: ApprovalAnswered) -> None:
        answer = "approved" if event.approved else "denied"
        self._run(event.call, show(f"{answer} {event.why}".strip()), style="yellow")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _lay_out(result: str) -> str:
    """Format a result after its label, or below it if it has several lines."""
    lines = result.replace("\r\n", "\n").expandtabs(_TAB).rstrip("\n").split("\n")
    if len(lines) == 1:
        return f" {show(lines[0])}"
    # One line more takes no more room than to say that there is one.
    more = len(lines) - _LINES_OF_A_RESULT if len(lines) > _LINES_OF_A_RESULT + 1 else 0
    shown = [show(line) for line in lines[: len(lines) - more]]
    told = [*shown, f"… and {more} more lines"] if more else shown
    return "".join(f"\n{_INDENT}{line}" for line in told)


def _printable(text: str) -> str:
    """A text in lines, none of which a terminal obeys."""
    return "\n".join(map(escape, text.expandtabs(_TAB).split("\n")))


_ACTIONS: dict[type, Callable[[ChatView, Any], None]] = {
    Text: ChatView._text,
    Reasoning: ChatView._reasoning,
    Fault: ChatView._trouble,
    Inconsistent: ChatView._trouble,
    TurnStarted: ChatView._started,
    TurnRetried: ChatView._retried,
    ToolStarted: ChatView._tool_started,
    ToolReported: ChatView._tool_reported,
    ToolEnded: ChatView._tool_ended,
    ToolEndedLate: ChatView._ended_late,
    ToolAbandoned: ChatView._abandoned,
    ApprovalAsked: ChatView._asked,
    ApprovalAnswered: ChatView._answered,
    ElicitationAsked: ChatView._asked_user,
    ElicitationAnswered: ChatView._user_answered,
}
