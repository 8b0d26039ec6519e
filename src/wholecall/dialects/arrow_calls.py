"""Hashes with arrows, as some MiniMax models leak them.

[TOOL_CALL]
{tool => "search", args => {
  --query "x"
  --limit 3
}}
[/TOOL_CALL]
"""

from __future__ import annotations

from dataclasses import dataclass

from wholecall.dialects.jsontext import escape, read_string, read_value
from wholecall.dialects.machine import LONGEST_NAME, Machine
from wholecall.dialects.marks import Marks, marks_of
from wholecall.dialects.source import BLANKS, Steps, ignore

_TOOL = marks_of(("tool",))
_ARGS = marks_of(("args",))
_ARROW = marks_of(("=>",))
_FLAG = marks_of(("--",))
_FLAG_END = marks_of((" ", "\t", "\n"))
_BRACES = BLANKS + "}"


@dataclass(frozen=True, slots=True)
class ArrowCalls:
    """One hash between two markers."""

    closers: tuple[str, ...]

    def read(self, machine: Machine, _opener: str = "", /) -> Steps[bool]:
        """Read the call at this position; False if there is none."""
        source, output = machine.source, machine.output
        if (yield from source.skip()) != "{":
            return False
        source.at += 1
        if not (yield from _key(machine, _TOOL)):
            return False
        spelled = yield from read_string(source)
        name = machine.admit(spelled or "")
        yield from source.skip(BLANKS + ",")
        if name is None or not (yield from _key(machine, _ARGS)):
            return False
        if (yield from source.skip()) != "{":
            return False
        source.at += 1
        output.open(name, arguments="{")
        closers = marks_of(self.closers)
        if not (yield from _flags(machine)):
            machine.spoil("a flag is not written as one")
            yield from source.flow(closers, ignore)
            return True
        yield from source.skip(_BRACES)
        if (yield from source.accept(closers)):
            output.grow("}")
            output.seal()
        else:
            machine.spoil("it does not end with its mark")
        return True


def _key(machine: Machine, key: Marks) -> Steps[bool]:
    """`tool =>`"""
    source = machine.source
    yield from source.skip()
    if not (yield from source.accept(key)):
        return False
    yield from source.skip()
    return bool((yield from source.accept(_ARROW)))


def _flags(machine: Machine) -> Steps[bool]:
    """`--key value`, each in its line, up to the brace."""
    source, output = machine.source, machine.output
    separator = ""
    while (yield from source.skip(BLANKS + ",")) != "}":
        if not (yield from source.accept(_FLAG)):
            return False
        key, end = yield from source.header(_FLAG_END, LONGEST_NAME)
        if not end:
            return False
        output.grow(f'{separator}"{escape(key)}": ')
        if not (yield from read_value(source, output.grow)):
            return False
        separator = ", "
    return True
