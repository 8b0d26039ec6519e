"""Safe repairs: a text that is whole, but written in another syntax than strict JSON.

A repair is safe if the text has exactly one reading. `tolerant.Rewriter` reads the value; this
module handles what is around it: a code fence, a leaked word, text after the end. The result is
strict JSON, which is parsed like any other.

Only texts that are known to be whole may be repaired. Even so, a truncated text cannot become an
object here: the value's own brace must close it, and what is dropped after the brace was not part
of it.
"""

from __future__ import annotations

import re

from wholecall.core.extent import find_too_many
from wholecall.core.grammar import match_end, skip_blanks
from wholecall.core.parse import excerpt
from wholecall.core.tolerant import Rewriter
from wholecall.core.values import Repair, Value

REPAIRABLE = 64 * 1024
"""Characters. Longer arguments are files; what is wrong in them is for the model to say."""

_VALUES = 10_000
"""Of a text that is repaired. To rewrite one takes some microseconds."""

# A fence with its language, or the language alone if the fence was lost. Any other word before the
# object may say what the object is for, and is not a header.
_HEADERS = (
    ("strip_prefix", re.compile("\ufeff")),
    ("strip_fence", re.compile(r"`{3,}+[A-Za-z0-9_+-]{0,20}+|`++")),
    ("strip_prefix", re.compile(r"(?:json[5c]?|javascript|js|python|py)\b", re.IGNORECASE)),
)
# The object is the content of a JSON string whose own quotes were lost.
_ESCAPED_OBJECT = re.compile(r'\{(?:[ \t\r\n]|\\[nrt])*+\\"')
_LEFTOVER_MARKS = re.compile(r"(?:[\s}\]),;`]|\\[nrt])*+")


class Repaired(Value, frozen=True):
    """A text as strict JSON, and what was changed to make it so."""

    text: str
    repairs: tuple[Repair, ...]


def is_repairable(text: str) -> bool:
    """Return True if a text is small enough to be read mark by mark."""
    return len(text) <= REPAIRABLE and find_too_many(text, _VALUES) is None


def repair(text: str) -> Repaired | None:
    """Rewrite a text that is known to be whole; None if it has no single reading."""
    if not is_repairable(text):
        return None
    repairs, at = _read_headers(text)
    if _ESCAPED_OBJECT.match(text, at):
        text, at = f'"{text[at:].rstrip()}"', 0
    rewriter = Rewriter(text, at)
    strict = rewriter.rewrite()
    if strict is None:
        return None
    repairs.extend(rewriter.repairs.values())
    tail = text[rewriter.at :].strip()
    if any(change.kind == "strip_fence" for change in repairs):
        tail = tail.lstrip("`").lstrip()
    if tail:
        # `{}` proves nothing: some servers send it first, and then something else.
        is_python = "python_literal" in rewriter.repairs
        if not strict.startswith("{") or strict == "{}" or not may_drop(tail, python=is_python):
            return None
        repairs.append(Repair("drop_trailing", excerpt(tail), ""))
    return Repaired(strict, tuple(repairs))


def may_drop(tail: str, *, python: bool = False) -> bool:
    """Return True if the text after a closed object is certainly not part of it.

    It may be stray closers, then prose. It may not be another object, nor the rest of this one: if
    an inner quote was not escaped (`{"run": "echo "}" > a"}`) or a brace closed too early (`{"a":
    {}}, "b": 1}`), the object's true end is still to come, a brace after a quote. Python's strings
    (`python`) end in apostrophes as well.
    """
    end = match_end(_LEFTOVER_MARKS, tail, at=0)
    marks, prose = tail[:end], tail[end:]
    if not prose:
        return True
    part_of_an_object = "\"{}'" if python else '"{}'
    return "," not in marks and not any(mark in prose for mark in part_of_an_object)


def _read_headers(text: str) -> tuple[list[Repair], int]:
    repairs: list[Repair] = []
    at = skip_blanks(text, 0)
    for kind, pattern in _HEADERS:
        end = match_end(pattern, text, at=at)
        if end > at:
            repairs.append(Repair(kind, text[at:end], ""))
            at = skip_blanks(text, end)
    return repairs, at
