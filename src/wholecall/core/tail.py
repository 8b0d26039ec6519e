"""What follows an object that is closed: a repeat, a stray closer, or another object."""

from __future__ import annotations

from typing import Any

from wholecall.core.limits import Limits
from wholecall.core.merge import same_json
from wholecall.core.parse import Parsed, parse
from wholecall.core.scan import ObjectScanner
from wholecall.core.values import Value

MOST_REPEATS = 8
"""More objects than this behind the first one are not a repeat by mistake."""


class Tail(Value, frozen=True):
    """What followed the object that closed."""

    repeats: bool = False
    """The same object again, or `{}`."""
    differs: bool = False
    """Another object, or a part of one."""
    rest: str = ""
    """Anything else: a stray closer, prose."""


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
    """What a string holds, where all that follows is one: the object, encoded twice."""
    # https://github.com/BerriAI/litellm/issues/20480
    parsed = parse(text, limits=limits) if text.lstrip().startswith('"') else None
    inside = parsed.value if isinstance(parsed, Parsed) else None
    return inside if isinstance(inside, str) and inside.lstrip().startswith("{") else text
