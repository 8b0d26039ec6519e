"""What a chat shows: text as it comes, calls while they are built, and what became of them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable

import pytest
from rich.console import Console

from wholecall.agent.budget import Stop
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
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
from wholecall.cli.chat_view import SILENT_SECONDS, ChatView, ProgressLine
from wholecall.events import (
    Call,
    Ended,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    Inconsistent,
    Oddity,
    Opened,
    Proved,
    Reasoning,
    Released,
    Text,
    Usage,
)
from wholecall.messages import Result

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CALL = Call(
    id="call_1",
    name="search",
    arguments={"query": "ferry"},
    raw='{"query": "ferry"}',
    evidence=Evidence.CLOSED | Evidence.CONFIRMED,
)
BUILT: list[RunEvent] = [
    TurnStarted(1),
    Opened(0, "call_1", "search"),
    Grew(0, '{"query": '),
    Grew(0, '"ferry"}'),
    Proved(0, Evidence.CLOSED),
    Released(CALL),
]
ENDED = Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None)
DONE = ToolEnded(CALL, Status.DONE, Result((Text("at noon"),)), 0.5)


class Clock:
    """Every look at it takes a while."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now


def make_console(*, terminal: bool) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=terminal,
        width=80,
        height=40,
        legacy_windows=False,
        highlight=False,
        _environ={"TERM": "xterm-256color"},
    )


def watch(events: Iterable[RunEvent], *, terminal: bool = False, step: float = 1.0) -> str:
    """All that is written for these events, without colours."""
    console = make_console(terminal=terminal)
    view = ChatView(console, clock=Clock(step))
    for event in events:
        view.take(event)
    view.settle()
    assert isinstance(console.file, io.StringIO)
    return ANSI.sub("", console.file.getvalue())


def test_text_comes_as_it_is_said() -> None:
    pieces = [Text("It ru"), Text("ns at\nno"), Text("on.")]
    assert watch([TurnStarted(1), Reasoning("Hm. "), *pieces]) == "Hm. It runs at\nnoon.\n"


LONG = [Text("It runs at noon "), Text("and in the "), Text("evening ")]


def say(console: Console, *events: RunEvent) -> str:
    """What is written in a console of 20 columns."""
    view = ChatView(console, width=lambda: 20)
    for event in events:
        view.take(event)
    view.settle()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_in_a_terminal_text_is_wrapped_between_words() -> None:
    told = say(make_console(terminal=True), *LONG, Reasoning("Is it so?"))
    taken_back = "\x1b[1D\x1b[0K"
    assert told == (
        "It runs at noon and\nin the evening "
        f"\x1b[2;3mIs i\x1b[0m{taken_back}\n\x1b[2;3mit so?\x1b[0m\n"
    )


def test_elsewhere_it_is_not() -> None:
    plain = "It runs at noon and in the evening \n"
    assert say(make_console(terminal=False), *LONG) == plain
    dumb = Console(file=io.StringIO(), force_terminal=True, width=20, _environ={"TERM": "dumb"})
    assert say(dumb, *LONG) == plain


def test_what_was_said_beside_calls_does_not_run_into_the_next_turn() -> None:
    shown = watch([*BUILT, Text("Later."), DONE, TurnStarted(2), Text("Now.")])
    assert shown.endswith("Later.\nNow.\n")


def wait_in(console: Console, *, step: float, word: str = "loading x\x07 …") -> str:
    """What is written by a view that waits for a word, and then hears it."""
    view = ChatView(console, clock=Clock(step), awaited=lambda: word)
    view.take(TurnStarted(1))
    view.take(Text("Here."))
    view.settle()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_while_nothing_comes_a_terminal_says_what_is_awaited() -> None:
    told = wait_in(make_console(terminal=True), step=1.0)
    line, gone, answer = told.rpartition("\x1b[1A\x1b[2K")
    assert "loading x\\x07 … " in line
    assert gone
    assert answer == "Here.\n"


def test_a_short_wait_and_one_without_a_terminal_are_not_told() -> None:
    assert "loading" not in wait_in(make_console(terminal=True), step=0.001)
    assert wait_in(make_console(terminal=True), step=1.0, word="") == "Here.\n"
    assert wait_in(make_console(terminal=False), step=1.0) == "Here.\n"
    dumb = Console(file=io.StringIO(), force_terminal=True, width=80, _environ={"TERM": "dumb"})
    assert wait_in(dumb, step=1.0) == "Here.\n"


def test_a_terminal_obeys_nobody_but_us() -> None:
    said = watch([Text("\x1b[2Jgone\ta\x07")])
    assert "\x07" not in said
    assert said.startswith("\\x1b[2Jgone")


def test_a_call_is_shown_with_its_evidence_verdict_and_result() -> None:
    shown = watch([*BUILT, ENDED, ToolStarted(CALL), DONE])
    assert " turn 1 " in shown
    assert "call 0  search" in shown
    assert "released at CONFIRMED: the turn ended well" in shown
    assert 'CALL       search {"query": "ferry"}' in shown
    assert "search: done in 0.50 s: at noon" in shown
    assert shown.count("call 0") == 1


def test_a_heading_never_stands_below_what_it_is_the_heading_of() -> None:
    shown = watch([TurnStarted(1), Text("Let me look."), *BUILT[1:], ENDED, DONE])
    assert shown.startswith("Let me look.\n calls of turn 1 \n")
    assert " turn 1 \n" not in shown.replace("calls of turn 1", "")
    again = watch([TurnStarted(1), Text("Hm."), *BUILT[1:], DONE, TurnStarted(2), *BUILT[1:]])
    assert "\n turn 2 \n" in again


def ended_with(text: str) -> list[RunEvent]:
    return [*BUILT, ToolEnded(CALL, Status.DONE, Result((Text(text),)), 0.5)]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_result_of_several_lines_is_shown_in_lines(*, terminal: bool) -> None:
    shown = watch(ended_with("at noon\nat\tsix\r\nand\x07 late\n"), terminal=terminal)
    lines = [line.rstrip() for line in shown.splitlines()]
    first = lines.index("  search: done in 0.50 s:")
    assert lines[first + 1 : first + 4] == ["    at noon", "    at  six", "    and\\x07 late"]


def test_of_a_long_result_the_first_lines_are_shown() -> None:
    shown = watch(ended_with("\n".join(f"line {number}" for number in range(100))))
    assert "    line 11\n" in shown
    assert "line 12" not in shown
    assert "    … and 88 more lines\n" in shown
    shown = watch(ended_with("\n".join(f"line {number}" for number in range(13))))
    assert "    line 12\n" in shown


def test_in_a_terminal_it_is_seen_growing() -> None:
    shown = watch(BUILT[:-1], terminal=True)
    assert 'building   {"query":  ' in shown
    assert 'building   {"query": "ferry"}' in shown


def test_eyes_are_spared_what_comes_too_fast() -> None:
    assert 'building   {"query":  ' not in watch(BUILT[:-2], terminal=True, step=0.001)


def test_what_is_said_beside_a_call_waits_until_the_turn_is_over() -> None:
    shown = watch([Text("First. "), *BUILT[1:], Text("Later."), DONE])
    assert shown.index("First.") < shown.index("call 0") < shown.index("Later.")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (ToolStarted(CALL), "search: running …"),
        (ToolStarted(CALL, attempt=2), "search: running, attempt 2 …"),
        (ToolEnded(CALL, Status.FAILED, Result((Text("no"),))), "search: failed in 0.00 s: no"),
        (
            ToolEndedLate(CALL, Status.DONE, Result((Text("rain"),)), 40.5),
            "search: timed out, done late in 40.50 s: rain",
        ),
        (ToolAbandoned(CALL), "search: was asked to stop and is still running"),
        (ApprovalAsked(CALL), "search: waits for your approval"),
        (ApprovalAnswered(CALL, True), "search: approved"),
        (ApprovalAnswered(CALL, False, "too late"), "search: denied too late"),
        (Inconsistent(Oddity.NO_TERMINATOR), "odd"),
        (Fault(FaultKind.STREAM_DROPPED, "cut"), "stream_dropped: cut"),
    ],
)
@pytest.mark.parametrize("terminal", [True, False])
def test_what_happens_to_a_call_is_told(event: RunEvent, said: str, *, terminal: bool) -> None:
    assert said in watch([*BUILT, event], terminal=terminal)


def test_progress_is_told_while_a_tool_runs() -> None:
    shown = watch([*BUILT, ToolReported("call_1", 1), ToolStarted(CALL), ToolReported("call_1", 2)])
    assert "search: running … 2" in shown


def test_of_many_reports_the_last_is_told() -> None:
    reports = [ToolReported("call_1", number) for number in range(3)]
    shown = watch([*BUILT, ToolStarted(CALL), *reports], terminal=False)
    assert "search: running … 2\n" in shown


def test_trouble_without_calls_is_told_at_once() -> None:
    shown = watch([Text("Half"), Fault(FaultKind.STREAM_DROPPED, "the stream ended early")])
    assert shown == "Half\nerror: the stream ended early\n"
    assert watch([Text("All"), Inconsistent(Oddity.NO_TERMINATOR)]) == "All\n"


def test_a_turn_that_is_asked_for_again_says_why() -> None:
    shown = watch([*BUILT, TurnRetried(1, "it broke off"), TurnStarted(1), Text("Now.")])
    assert shown.endswith("asked again: it broke off\nNow.\n")


def test_while_the_user_is_asked_nothing_moves() -> None:
    console = make_console(terminal=True)
    view = ChatView(console, clock=Clock(1.0))
    for event in BUILT:
        view.take(event)
    with view.asking("Run it? [y/N]") as show:
        show()
        view.take(ApprovalAsked(CALL))
        assert isinstance(console.file, io.StringIO)
        assert console.file.getvalue().endswith("Run it? [y/N]\x1b[0m ")
    view.take(ApprovalAnswered(CALL, True))
    assert "search: approved" in console.file.getvalue()
    view.settle()


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (RunResult(text="", stop=Stop.ANSWER, turns=1), "1 turn, 0 calls\n"),
        (
            RunResult(text="", stop=Stop.TURNS, turns=2, ended=(DONE,), usage=Usage(5, 7)),
            "2 turns, 1 call, 5 + 7 tokens, stopped: turns\n",
        ),
        (
            RunResult(text="", stop=Stop.ANSWER, turns=1, usage=Usage(5, None)),
            "1 turn, 0 calls, 5 + 0 tokens\n",
        ),
    ],
)
def test_at_the_end_it_sums_up(result: RunResult, said: str) -> None:
    console = make_console(terminal=False)
    view = ChatView(console)
    view.take(Text("Done."))
    view.finish(result)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == f"Done.\n{said}"


# ── The line that says what is waited for ───────────────────────────────────────────────


def test_it_says_what_and_for_how_long_once_that_is_worth_a_word() -> None:
    console = Console(file=io.StringIO(), width=80)
    now, words = [0.0], ["loading"]
    line = ProgressLine(lambda: words[0], lambda: now[0])
    for now[0], words[0] in [(SILENT_SECONDS / 2, "loading"), (2.0, "loading"), (3.0, "waiting")]:
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    silence, first, second = console.file.getvalue().splitlines()
    assert silence == ""
    assert first.endswith(" loading 2 s")
    assert second.endswith(" waiting 3 s")
