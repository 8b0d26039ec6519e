"""The live view: calls grow, verdicts stand out, the frame holds, nothing is obeyed."""

import io
import re
from itertools import chain

import pytest
from rich.cells import cell_len
from rich.console import Console

from wholecall.cli.report import draw, play, watch
from wholecall.events import (
    Call,
    Ended,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    OfChoice,
    Opened,
    Proved,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
)

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CALL = Call(
    id="call_1",
    name="search",
    arguments={"query": "ferry"},
    raw='{"query": "ferry"}',
    evidence=Evidence.CLOSED | Evidence.CONFIRMED,
)
STEPS: list[list[Event]] = [
    [Reasoning("Where to?")],
    [Text("Looking.")],
    [Opened(0, "call_1", "search")],
    [],
    [Grew(0, '{"query":')],
    [Grew(0, ' "ferry"}'), Proved(0, Evidence.CLOSED)],
    [Released(CALL), Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None)],
]


def terminal(width: int = 80, height: int = 40) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        width=width,
        height=height,
        legacy_windows=False,
        _environ={},
    )


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def shown(events: list[Event], *, room: int | None = None, width: int = 80) -> str:
    """What stands on the screen, without colours."""
    console = terminal(width)
    console.print(draw("A title", watch(events), room=room))
    return ANSI.sub("", written(console))


def test_each_step_is_a_frame_and_empty_ones_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("wholecall.cli.report.time.sleep", pauses.append)
    console = terminal()
    play(STEPS, title="A title", console=console, pause=0.5)
    assert pauses == [0.5] * 6
    screens = ANSI.sub("", written(console))
    grown = [screens.index(part) for part in ('{"query":  ', '{"query": "ferry"}', "CALL")]
    assert grown == sorted(grown)


def test_without_a_pause_only_the_end_is_drawn() -> None:
    console = terminal()
    board = play(STEPS, title="A title", console=console)
    assert board.lanes[0].verdict is CALL
    assert written(console).count("A title") == 1


def test_the_cursor_is_given_back_when_the_reader_interrupts() -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    console = terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wholecall.cli.report.time.sleep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            play(STEPS, title="A title", console=console, pause=0.5)
    assert written(console).rfind("\x1b[?25h") > written(console).rfind("\x1b[?25l")


FRAMES: dict[str, tuple[list[Event], list[str]]] = {
    "a call": (
        list(chain.from_iterable(STEPS)),
        [
            "reasoning  Where to?",
            "text       Looking.",
            "call 0  search",
            "characters: 18  pieces: 2",
            "evidence   released at CONFIRMED: the turn ended well",
            'received   {"query": "ferry"}',
            'CALL       search {"query": "ferry"}',
            "ended      tool_calls",
        ],
    ),
    "a call being built": (
        [Opened(3, "call_1", "search"), Grew(3, '{"que')],
        ["call 3  search", 'building   {"que', "○ CLOSED"],
    ),
    "a rejection": (
        [Rejected(reason=Reason.TRUNCATED, detail="the answer was cut off", raw='{"que')],
        ["call 0", 'received   {"que', "REJECTED   truncated: the answer was cut off"],
    ),
    "a repeat": (
        [Opened(1, "call_2", "search"), Repeated(1, 0)],
        ["REPEATED   the same as call 0, sent again: dropped"],
    ),
    "a failure": (
        [Fault(FaultKind.STREAM_DROPPED, "it broke"), Ended(None, None, None, "stream_dropped")],
        ["error      stream_dropped: it broke", "ended      in error"],
    ),
    "another choice": (
        [Text("one"), OfChoice(1, Text("two"))],
        ["text       one", "choice 1", "text       two"],
    ),
}


@pytest.mark.parametrize("title", FRAMES)
def test_the_screen_shows(title: str) -> None:
    events, parts = FRAMES[title]
    screen = shown(events)
    assert [part for part in parts if part not in screen] == []


@pytest.mark.parametrize(
    ("events", "colour"),
    [
        ([Opened(0, "call_1", "search")], "36"),
        ([Released(CALL)], "32"),
        ([Rejected(reason=Reason.BAD_JSON, detail="no JSON")], "31"),
        ([Opened(1, "call_2", "search"), Repeated(1, 0)], "33"),
    ],
)
def test_the_frame_of_a_call_has_the_colour_of_its_verdict(
    events: list[Event], colour: str
) -> None:
    console = terminal()
    console.print(draw("", watch(events)))
    assert f"\x1b[{colour}m╭" in written(console)


@pytest.mark.parametrize("width", [20, 80, 120])
@pytest.mark.parametrize("text", ["x" * 5_000, "漢字🎉" * 500, "a b " * 1_000, "\n" * 300])
def test_no_line_is_wider_than_the_terminal_and_no_call_fills_it(width: int, text: str) -> None:
    events: list[Event] = [
        Text(text),
        Opened(0, "call_1", text),
        Grew(0, text),
        Rejected(reason=Reason.LIMIT, detail=text, name=text, raw=text, number=1),
    ]
    lines = shown(events, width=width).split("\n")
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < 20_000 / width


def test_a_word_that_is_longer_than_a_line_is_folded_and_not_cut() -> None:
    assert shown([Text("y" * 250)]).count("y") == 250


def test_while_calls_are_built_the_screen_shows_the_last_ones() -> None:
    events: list[Event] = [Opened(number, f"call_{number}", "search") for number in range(9)]
    screen = shown(events, room=2)
    assert "… 7 calls above" in screen
    assert re.findall(r"call (\d)", screen) == ["7", "8"]
    assert re.findall(r"call (\d)", shown(events)) == list("012345678")


HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]markup[/] :smile: \u202e\ud800\r"


def test_neither_escapes_nor_markup_of_a_model_are_obeyed() -> None:
    call = Call(
        id="", name=HOSTILE, arguments={HOSTILE: HOSTILE}, raw=HOSTILE, evidence=Evidence.CLOSED
    )
    events: list[Event] = [
        Text(HOSTILE),
        Reasoning(HOSTILE),
        Opened(0, "", HOSTILE),
        Released(call),
        Rejected(reason=Reason.BAD_JSON, detail=HOSTILE, name=HOSTILE, raw=HOSTILE, number=1),
        Opened(2, "", HOSTILE),
        Grew(2, HOSTILE),
        Fault(FaultKind.PROTOCOL, HOSTILE),
    ]
    console = terminal(width=200)
    console.print(draw(HOSTILE, watch(events)))
    screen = ANSI.sub("", written(console))
    assert all(line.isprintable() for line in screen.split("\n"))
    assert "\x1b[2J" not in written(console)
    assert screen.count("[bold red]markup[/] :smile:") >= 10
    assert screen.count(r"\x1b]0;owned\x07") >= 10
