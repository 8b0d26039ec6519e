"""The text after a closed object: a repeat, a stray closer, or another object."""

from __future__ import annotations

from typing import Any

from wholecall.core.limits import Limits
from wholecall.core.merge import same_json
from wholecall.core.parse import Parsed, parse
from wholecall.core.scan import ObjectScanner
from wholecall.core.values import Value

MOST_REPEATS = 8
"""More objects than this after the first one are not a repeat by mistake."""


class Tail(Value, frozen=True):
    """The text after the object that closed."""

    repeats: bool = False
    """The same object again, or `{}`."""
    differs: bool = False
    """Another object, or a part of one."""
    rest: str = ""
    """Anything else: a stray closer, prose."""


class TailText:
    """All that follows the object, as it comes in and as far as it is worth keeping."""

    __slots__ = ("_overrun", "_pieces", "_wholes")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._wholes = 0
        self._overrun = False

    @property
    def is_overrun(self) -> bool:
        """True if so much came that nothing of it is kept any more."""
        return self._overrun

    def append(self, text: str) -> None:
        """Take a piece. White space before anything else says nothing."""
        if not self._overrun and (self._pieces or text.strip()):
            self._pieces.append(text)

    def append_whole(self, text: str) -> None:
        """Take other arguments, which the protocol says are all of them."""
        self._wholes += 1
        if self._wholes > MOST_REPEATS:
            self.overrun()
        else:
            self._pieces.append(text)

    def overrun(self) -> None:
        """Keep nothing from now on: so much is surely no repeat by mistake."""
        self._overrun = True
        self._pieces.clear()

    def read(self, value: Any, *, limits: Limits) -> Tail:
        """Compare it with the object."""
        if self._overrun:
            return Tail(differs=True)
        return read_tail("".join(self._pieces), value, limits=limits) if self._pieces else Tail()


def read_tail(text: str, value: Any, *, limits: Limits) -> Tail:
    """Compare what follows a closed object with the object."""
    rest: list[str] = []
    text = _decoded(text, limits)
    for _ in range(MOST_REPEATS):
        before, brace, after = text.partition("{")
        rest.append(before)
        if not brace:
            return Tail(repeats=len(rest) > 1, rest="".join(rest).strip())
        scanner = ObjectScanner(limits)
        end = scanner.feed(brace + after)
        again = parse((brace + after)[:end], limits=limits)
        repeats = isinstance(again, Parsed) and (not again.value or same_json(again.value, value))
        if not repeats:
            break
        text = (brace + after)[end:]
    return Tail(differs=True)


def _decoded(text: str, limits: Limits) -> str:
    """Return the content of a string, if the whole text is one: the object, encoded twice."""
    # https://github.com/BerriAI/litellm/issues/20480
    parsed = parse(text, limits=limits) if text.lstrip().startswith('"') else None
    inside = parsed.value if isinstance(parsed, Parsed) else None
    return inside if isinstance(inside, str) and inside.lstrip().startswith("{") else text
