"""What a user writes: one line, many lines, a history, yes or no."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from upstreams.fake_endpoint import PATIENCE
from wholecall.cli.chat import echo, hear_line, history, is_yes, read_text


def reader(*lines: str) -> Callable[[str], str]:
    left = iter(lines)

    def read(_: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return read


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (("hello",), "hello"),
        (("  hello ",), "hello"),
        (("",), ""),
        (("one\\", "two\\", "three"), "one\ntwo\nthree"),
        (('"""', "one", "", "two", '"""'), "one\n\ntwo"),
        (('"""one', 'two"""'), "one\ntwo"),
        (('"""all in one"""',), "all in one"),
        ((), None),
        (('"""', "cut off"), None),
        (("cut off\\",), None),
    ],
)
def test_texts_of_one_line_and_of_many(lines: tuple[str, ...], text: str | None) -> None:
    assert read_text(reader(*lines)) == text


def test_lines_that_follow_have_a_prompt_of_their_own() -> None:
    prompts = list[str]()
    left = iter(["one\\", "two"])

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return next(left)

    read_text(read)
    assert prompts == ["> ", "… "]


def test_lines_are_kept_for_the_next_chat_and_for_nobody_else(tmp_path: Path) -> None:
    readline = pytest.importorskip("readline")
    path = tmp_path / "not" / "there"
    with history(path):
        readline.clear_history()
        readline.add_history("what was asked")
    assert "what was asked" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    readline.clear_history()
    with history(path):
        assert readline.get_history_item(readline.get_current_history_length()) == "what was asked"
    readline.clear_history()


def test_a_history_that_cannot_be_kept_is_no_reason_to_stop(tmp_path: Path) -> None:
    with history(tmp_path):
        pass
    with history(tmp_path / "file", module="no_such_readline"):
        pass
    assert not (tmp_path / "file").exists()


async def is_confirmed(show: Callable[[], None]) -> bool:
    return is_yes(await hear_line(show))


def show_nothing() -> None:
    """The question is not looked at."""


ANSWERS = [("y", True), ("YES ", True), ("n", False), ("", False), ("yellow", False)]


@pytest.mark.parametrize(("line", "confirmed"), ANSWERS)
def test_only_a_yes_is_a_yes(
    line: str, confirmed: bool, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{line}\n"))
    assert asyncio.run(is_confirmed(show_nothing)) is confirmed


def test_the_end_of_the_input_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert asyncio.run(is_confirmed(show_nothing)) is False


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Our input is a terminal; what its user types is written here."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield ours
    os.close(ours)


def test_in_a_terminal_the_answer_is_awaited(terminal: int) -> None:
    async def ask() -> bool:
        shown = asyncio.Event()
        asking = asyncio.create_task(is_confirmed(shown.set))
        await shown.wait()
        os.write(terminal, b"y\n")
        return await asking

    assert asyncio.run(ask()) is True


@pytest.mark.usefixtures("terminal")
def test_in_a_terminal_the_question_can_be_broken_off() -> None:
    async def ask() -> None:
        shown = asyncio.Event()
        asking = asyncio.create_task(is_confirmed(shown.set))
        await shown.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(ask())


def type_line(terminal: int, line: bytes) -> None:
    """Type, and wait until it has come: a terminal takes its time."""
    os.write(terminal, line + b"\n")
    assert select.select([sys.stdin], [], [], PATIENCE)[0]


def test_what_was_typed_before_the_question_is_no_answer_to_it(terminal: int) -> None:
    async def ask() -> bool:
        type_line(terminal, b"y")
        shown = asyncio.Event()
        asking = asyncio.create_task(is_confirmed(shown.set))
        await shown.wait()
        os.write(terminal, b"n\n")
        return await asking

    assert asyncio.run(ask()) is False


def test_while_an_answer_is_drawn_no_key_is_written_into_it(terminal: int) -> None:
    with echo(on=False):
        type_line(terminal, b"later")
        with echo(on=True):
            type_line(terminal, b"now")
    assert sys.stdin.readline() == "now\n"
    type_line(terminal, b"again")
    assert os.read(terminal, 100) == b"now\r\nagain\r\n"


def test_where_there_is_no_terminal_nothing_is_turned_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with echo(on=False), echo(on=False, module="no_such_termios"):
        assert asyncio.run(is_confirmed(show_nothing)) is True


@pytest.mark.usefixtures("terminal")
def test_behind_the_end_of_a_chat_the_shell_has_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def end(_: str) -> str:
        raise EOFError

    assert read_text(end) is None
    assert capsys.readouterr().out == "\n"
