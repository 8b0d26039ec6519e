"""The layers around a tool's code: wrappers, and the capture of what it prints.

Wrappers time, cache, deny or fake calls, or write them down first:

    async def timed(call: Call, run_next: RunNext) -> Result:
        began = time.perf_counter()
        result = await run_next(call)
        print(call.name, time.perf_counter() - began)
        return result

The first of a list is the outermost. A wrapper that does not call `run_next` answers by itself, and
the tool does not run. It runs anew for each attempt, within the tool's time, and sees the whole
result, before it is cut to size.

A server replaces `sys.stdout` and `sys.stderr` by a `PrintedStream`, so that what a tool prints
becomes events of its run, and a JSON log stays valid. Outside a server, a program's own streams are
left alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO, TypeAlias, cast

from wholecall.events import Call
from wholecall.messages import Result
from wholecall.tools.tool import to_result

RunNext: TypeAlias = Callable[[Call], Awaitable[Result]]
"""Runs the call, or another one of the same tool: a wrapper may change the arguments."""
Around: TypeAlias = Callable[[Call, RunNext], Awaitable[Result]]


def wrap(around: Sequence[Around], run: RunNext) -> RunNext:
    """Put the wrappers around `run`."""
    for wrapper in reversed(around):
        run = _put_around(wrapper, run)
    return run


def only_once(run: RunNext) -> RunNext:
    """Guard a tool that may not be repeated against a wrapper that would."""
    begun = False

    async def run_once(call: Call) -> Result:
        nonlocal begun
        if begun:
            raise RuntimeError(
                f"run_next was called twice for {call.name!r}, which is neither "
                "read-only nor idempotent"
            )
        begun = True
        return await run(call)

    return run_once


def _put_around(wrapper: Around, run: RunNext) -> RunNext:
    async def run_wrapped(call: Call) -> Result:
        return to_result(await wrapper(call, run))

    return run_wrapped


# ── Printed lines ───────────────────────────────────────────────────────────────────

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
    `tell`."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast("TextIO", PrintedStream(before[0], ToolOutput(tell)))
    sys.stderr = cast("TextIO", PrintedStream(before[1], ToolOutput(tell)))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
