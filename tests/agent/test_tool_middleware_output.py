"""What tools print: lines of theirs in a server, the program's own output elsewhere."""

# ruff: noqa: T201 - what tools print is the subject

from __future__ import annotations

import asyncio
import io
import sys
import threading

import pytest

from executor_calls import Ear, make_call, until
from wholecall.agent.executor import Executor
from wholecall.agent.run_events import ToolPrinted
from wholecall.agent.tool_middleware import LONGEST_LINE, ToolOutput, take_prints
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox

# what holds, what is written, the lines
LINES: list[tuple[str, list[str], list[str]]] = [
    ("a line", ["one\n"], ["one"]),
    ("two lines at once", ["one\ntwo\n"], ["one", "two"]),
    ("a line in pieces", ["o", "n", "e", "\n"], ["one"]),
    ("a line without an end", ["one\n", "tw", "o"], ["one", "two"]),
    ("the ends of lines elsewhere", ["one\r\n", "two\r\n"], ["one", "two"]),
    ("nothing in a line is nothing", ["\n", "  \n", "one\n", ""], ["one"]),
    ("a line that does not end", ["a" * LONGEST_LINE, "b", "c\n"], [f"{'a' * LONGEST_LINE}b", "c"]),
]


@pytest.mark.parametrize(("pieces", "lines"), [r[1:] for r in LINES], ids=[r[0] for r in LINES])
def test_pieces_become_lines(pieces: list[str], lines: list[str]) -> None:
    told: list[str] = []
    output = ToolOutput(told.append)
    for piece in pieces:
        output.write(piece)
    output.end()
    assert told == lines


async def prints() -> str:
    print("one\ntwo")
    await asyncio.sleep(0)
    print("to stderr", file=sys.stderr)
    sys.stdout.write("with")
    sys.stdout.writelines(["out", " end"])
    return "done"


def prints_in_a_thread() -> str:
    print("from a thread")
    return "done"


async def prints_in_tasks() -> str:
    await asyncio.gather(asyncio.to_thread(print, "from another thread"), prints())
    return "done"


async def prints_and_fails() -> str:
    print("half", end="")
    raise KeyError


def run(*tools: Tool) -> Ear:
    async def go() -> Ear:
        ear = Ear()
        async with Executor(Toolbox(tools), emit=ear) as executor:
            for number, tool in enumerate(tools):
                executor.start(make_call(tool.name, number))
            await executor.settle()
            # A line of a thread arrives by the loop, as its result does.
            await asyncio.sleep(0)
        return ear

    return asyncio.run(go())


def printed(ear: Ear) -> list[tuple[str, str]]:
    return [(event.call.name, event.line) for event in ear.events if isinstance(event, ToolPrinted)]


OWN = [("prints", "one"), ("prints", "two"), ("prints", "to stderr"), ("prints", "without end")]


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (prints, OWN),
        (prints_in_a_thread, [("prints_in_a_thread", "from a thread")]),
        (
            prints_in_tasks,
            [("prints_in_tasks", "from another thread"), *(("prints_in_tasks", b) for _, b in OWN)],
        ),
        (prints_and_fails, [("prints_and_fails", "half")]),
    ],
)
def test_what_a_tool_prints_is_an_event_of_its_call(
    function: object, lines: list[tuple[str, str]], *, capsys: pytest.CaptureFixture[str]
) -> None:
    others: list[str] = []
    with take_prints(others.append):
        ear = run(make_tool(function))  # type: ignore[arg-type]  # sync and async
    assert sorted(printed(ear)) == sorted(lines)
    assert others == []
    assert capsys.readouterr() == ("", "")


def test_tools_side_by_side_do_not_mix() -> None:
    begun = asyncio.Event()

    async def first() -> None:
        print("first ", end="")
        begun.set()
        await asyncio.sleep(0)
        print("line")

    async def second() -> None:
        await begun.wait()
        print("second line")

    with take_prints(lambda _: None):
        ear = run(make_tool(first), make_tool(second))
    assert sorted(printed(ear)) == [("first", "first line"), ("second", "second line")]


def test_what_nobody_knows_the_tool_of_is_told_too() -> None:
    told: list[str] = []

    def prints_by_a_thread_of_its_own() -> None:
        thread = threading.Thread(target=print, args=("whose?",))
        thread.start()
        thread.join()

    with take_prints(told.append):
        ear = run(make_tool(prints_by_a_thread_of_its_own))
        print("mine", file=sys.stderr)
    # From Python 3.14 on, threads may inherit the context, and with it the tool.
    assert sorted([*told, *(line for _, line in printed(ear))]) == ["mine", "whose?"]


def test_a_line_of_a_tool_that_goes_on_comes_all_the_same() -> None:
    go_on = threading.Event()

    def slow() -> None:
        go_on.wait(30)
        print("late")

    async def go() -> Ear:
        ear = Ear()
        toolbox = Toolbox([make_tool(slow, timeout=0.01)])
        async with Executor(toolbox, emit=ear) as executor:
            executor.start(make_call("slow"))
            await executor.settle()
            go_on.set()
            await until(lambda: ear.count(ToolPrinted))
        return ear

    with take_prints(lambda _: None):
        assert printed(asyncio.run(go())) == [("slow", "late")]


def test_without_a_server_what_tools_print_is_the_program_s_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ear = run(make_tool(prints))
    assert printed(ear) == []
    assert capsys.readouterr() == ("one\ntwo\nwithout end", "to stderr\n")


def test_the_streams_are_put_back_and_answer_for_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with take_prints(lambda _: None):
        assert sys.stdout is not stream
        assert not sys.stdout.isatty()
        print("flushed", flush=True)
    assert sys.stdout is stream
    assert stream.getvalue() == ""
