"""The lines that tools print.

A server replaces `sys.stdout` and `sys.stderr` by a `PrintedStream`, so that what a tool prints
becomes events of its run, and a JSON log stays valid. Outside a server, a program's own streams are
left alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, cast

LONGEST_LINE = 16_384
"""Characters after which a line is reported although it continues."""


class ToolOutput:
    """A buffer that joins pieces of text into lines. May be used from any thread."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._rest = ""

    def write(self, text: str) -> None:
        """Add a piece; report the lines that it completes."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            if len(self._rest) > LONGEST_LINE:
                lines.append(self._rest)
                self._rest = ""
        for line in lines:
            self._tell_line(line)

    def end(self) -> None:
        """Report the rest, which has no line end."""
        with self._lock:
            rest, self._rest = self._rest, ""
        self._tell_line(rest)

    def _tell_line(self, line: str) -> None:
        if line.strip():
            self._tell(line.rstrip("\r"))


CURRENT: ContextVar[ToolOutput | None] = ContextVar("tool_output", default=None)
"""The output of the tool whose code runs here. Threads that we start inherit it."""


class PrintedStream:
    """A substitute for a stream. A tool's output goes to its `ToolOutput`, all else to `others`."""

    def __init__(self, stream: TextIO, others: ToolOutput) -> None:
        self._stream = stream
        self._others = others

    def write(self, text: str) -> int:
        """Write a piece of text."""
        (CURRENT.get() or self._others).write(text)
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several pieces of text."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def take_prints(tell: Callable[[str], None]) -> Iterator[None]:
    """Take what is printed, while it lasts: tools' lines as their events, others by
    `describe_failure`."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", PrintedStream(before[0], ToolOutput(tell)))
    sys.stderr = cast("TextIO", PrintedStream(before[1], ToolOutput(tell)))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
