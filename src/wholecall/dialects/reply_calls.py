"""The answer of a model whose decoding is constrained: calls, or words for the user.

    {"calls": [{"name": "search", "arguments": {"query": "x"}}]}
    {"reply": "It rains."}

The string of a reply is text for the user, decoded while it arrives. A reply that is not a string
(the caller wants an object) is passed on as JSON text. The object around them is never shown: a
broken one is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wholecall.core.values import Reason
from wholecall.dialects.json_calls import JsonCalls
from wholecall.dialects.jsontext import BROKEN_JSON, read_string, read_value
from wholecall.dialects.machine import Machine
from wholecall.dialects.marks import marks_of
from wholecall.dialects.source import Sink, Steps, ignore

CALLS, REPLY = "calls", "reply"
_LIST = JsonCalls()
_ALL = marks_of(())
_CUT_OFF = "the answer ended before its first call was whole"


@dataclass(frozen=True, slots=True)
class ReplyOrCalls:
    """One object with the member `calls` or `reply`."""

    def read(self, machine: Machine, _opener: str = "", /) -> Steps[bool]:
        """Read the object; False if it is another one."""
        source = machine.source
        if (yield from source.skip()) != "{":
            return False
        source.at += 1
        key = yield from read_string(source)
        if key not in _MEMBERS:
            return False
        while key is not None and (yield from source.skip()) == ":":
            source.at += 1
            yield from _MEMBERS.get(key, _skip_member)(machine)
            if (yield from source.skip()) != ",":
                break
            source.at += 1
            key = yield from read_string(source)
        yield from _close(machine)
        return True


def _close(machine: Machine) -> Steps[None]:
    """Read the brace. If it is missing, the rest cannot be trusted."""
    source = machine.source
    if (yield from source.skip()) == "}":
        source.at += 1
        yield from source.skip()
    else:
        yield from source.flow(_ALL, ignore)


def _read_calls(machine: Machine) -> Steps[None]:
    begun = yield from _LIST.read(machine)
    follows = yield from machine.source.skip()
    if not follows and not begun:
        machine.output.reject(Reason.TRUNCATED, _CUT_OFF)
    elif not begun and follows != "}":
        machine.output.reject(Reason.BAD_MARKUP, BROKEN_JSON)


def _read_reply(machine: Machine) -> Steps[None]:
    first = yield from machine.source.skip()
    text = machine.output.text
    yield from read_value(machine.source, StringDecoder(text).put if first == '"' else text)


def _skip_member(machine: Machine) -> Steps[None]:
    yield from read_value(machine.source, ignore)


_MEMBERS: dict[str, Callable[[Machine], Steps[None]]] = {CALLS: _read_calls, REPLY: _read_reply}


# ── A string, decoded while it arrives ──────────────────────────────────────────────

_PIECE = re.compile(
    r"""(?P<plain>[^"\\]++)
      | (?P<quote>")
      | \\u(?P<unit>[0-9a-fA-F]{4})
      | \\(?P<short>["\\/bfnrt])
    """,
    re.VERBOSE,
)
_UNFINISHED = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_LOST = "\ufffd"


class StringDecoder:
    """Decodes the pieces of one JSON string, quotes included; an escape may be cut anywhere."""

    __slots__ = ("_high", "_rest", "_sink")

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rest = ""
        """The beginning of an escape."""
        self._high = 0
        """The first half of a surrogate pair."""

    def put(self, piece: str) -> None:
        """Take a piece of the string as it is written."""
        raw, at = self._rest + piece, 0
        decoded: list[str] = []
        while at < len(raw) and not _UNFINISHED.match(raw, at):
            found = _PIECE.match(raw, at)
            # A backslash before an unknown character is literal.
            decoded.append(self._decode(found) if found else self._pair("\\"))
            at = found.end() if found else at + 1
        self._rest = raw[at:]
        text = "".join(decoded)
        if text:
            self._sink(text)

    def _decode(self, found: re.Match[str]) -> str:
        if found["unit"]:
            return self._unit(int(found["unit"], 16))
        if found["quote"]:
            return self._pair("")
        short = found["short"]
        return self._pair(_SHORT.get(short, short) if short else found["plain"])

    def _unit(self, unit: int) -> str:
        """A UTF-16 code unit: half of a pair waits for the other half."""
        if self._high and unit in _LOW:
            high, self._high = self._high, 0
            return chr(0x10000 + ((high - _HIGH.start) << 10) + (unit - _LOW.start))
        if unit in _HIGH:
            lost = self._pair("")
            self._high = unit
            return lost
        return self._pair(_LOST if unit in _LOW else chr(unit))

    def _pair(self, text: str) -> str:
        """Return the character after the first surrogate of a pair; if it is not the second one,
        the first is lost."""
        lost, self._high = _LOST if self._high else "", 0
        return lost + text
