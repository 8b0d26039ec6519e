"""Calls in messages that are addressed: `to=weather.get<|message|>` and then the call.

Only a message to a tool may hold calls; the same markup in a message to the user shows
how it is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.source import Steps
from wholecall.dialects.tag_calls import TagCalls


@dataclass(frozen=True, slots=True)
class RoutedCalls:
    """A recipient, the end of the header, and calls in a grammar of their own."""

    head_end: str
    inner: TagCalls

    def read(self, machine: Machine, _opener: str = "", /) -> Steps[bool]:
        """Read the calls of a message after `to=`; False if it holds none."""
        _, end = yield from machine.source.header(marks_of((self.head_end,)), LONGEST_NAME)
        if not end:
            return False
        yield from machine.source.skip()
        section = yield from machine.source.accept(marks_of(self.inner.sections))
        return bool(section) and (yield from self.inner.read(machine, section))
