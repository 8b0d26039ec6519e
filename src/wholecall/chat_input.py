"""User input in a chat: lines with a history, multi-line texts, yes or no."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

PROMPT, MORE = "> ", "… "
FENCE = '"""'
"""Opens and closes a text of several lines."""
CONTINUED = "\\"
"""At the end of a line: the text continues on the next one."""
KEPT_LINES = 1000


def read_text(read: Callable[[str], str] = input) -> str | None:
    """Return the next user input, or None at the end of input.

    A line that ends with a backslash continues on the next one. Lines of three quotes enclose a
    text of any form.
    """
    try:
        line = read(PROMPT)
        if line.strip().startswith(FENCE):
            return "\n".join(_read_fenced(line.strip().removeprefix(FENCE), read)).strip()
        return "\n".join(_read_continued(line, read)).strip()
    except EOFError:
        if sys.stdin.isatty():
            print()  # noqa: T201 - the shell goes on in a line of its own
        return None


def _read_fenced(line: str, read: Callable[[str], str]) -> Iterator[str]:
    while not line.rstrip().endswith(FENCE):
        yield line
        line = read(MORE)
    yield line.rstrip().removesuffix(FENCE)


def _read_continued(line: str, read: Callable[[str], str]) -> Iterator[str]:
    while line.endswith(CONTINUED):
        yield line.removesuffix(CONTINUED)
        line = read(MORE)
    yield line


@contextlib.contextmanager
def history(path: Path, *, module: str = "readline") -> Iterator[None]:
    """Offer lines of earlier chats under the arrow keys, if readline is available."""
    try:
        readline: ModuleType = importlib.import_module(module)
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError):  # the first chat has no file
        readline.read_history_file(path)
    readline.set_history_length(KEPT_LINES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the chat works without it
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            readline.write_history_file(path)


async def is_confirmed(show: Callable[[], None]) -> bool:
    """Show a question; return True if the next line is a yes.

    In a terminal the line is read asynchronously, so that Ctrl-C interrupts it; `input` could not
    be interrupted. Input typed before the question does not count and is discarded.
    """
    with echo(on=True):
        show()
        line = await _next_line() if sys.stdin.isatty() else sys.stdin.readline()
    return line.strip().lower() in ("y", "yes")


async def _next_line() -> str:
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, readable.set)
    try:
        await readable.wait()
    except asyncio.CancelledError:
        print()  # noqa: T201 - Ctrl-C stands in the line of the question
        raise
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


@contextlib.contextmanager
def echo(*, on: bool, module: str = "termios") -> Iterator[None]:
    """Turn the terminal's echo on or off.

    It must be off while an answer is drawn, because a key would be echoed into the drawing. Input
    typed before it is turned on is discarded.
    """
    try:
        termios: ModuleType | None = importlib.import_module(module)
    except ImportError:  # Windows
        termios = None
    if termios is None or not sys.stdin.isatty():
        yield
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    modes = before[3] | termios.ECHO if on else before[3] & ~termios.ECHO
    termios.tcsetattr(keyboard, termios.TCSANOW, [*before[:3], modes, *before[4:]])
    if on:
        termios.tcflush(keyboard, termios.TCIFLUSH)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)
