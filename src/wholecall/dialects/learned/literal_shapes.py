"""Literals from a rendering: Gemma's literals, and Python's calls."""

from __future__ import annotations

from wholecall.dialects.declaration import Written
from wholecall.dialects.encoding import Notation, Template
from wholecall.dialects.gemma_calls import GemmaCalls
from wholecall.dialects.learned.comparing import between_calls, split_at
from wholecall.dialects.learned.probes import KEYS, NAMES, OTHER_VALUE, VALUES
from wholecall.dialects.learned.shape import CallShape, present
from wholecall.dialects.python_calls import PythonCalls

_WORDS = (NAMES[0], KEYS[0], VALUES[0], KEYS[1], VALUES[1])
_OTHER = (NAMES[1], KEYS[0], OTHER_VALUE)
_QUOTES = ("'", '"')


def learn_gemma(one: str, two: str | None) -> CallShape | None:
    """`<|tool_call>call:search{query:<|"|>x<|"|>}<tool_call|>`"""
    head, first, middle, _, _, tail = split_at(one, *_WORDS)
    quote = middle.removeprefix(":").strip()
    if first != "{" or not middle.startswith(":") or not quote or not tail.startswith(f"{quote}}}"):
        return None
    end = f"{quote}}}"
    tail = tail.removeprefix(end)
    opening, closing, between = head, tail, ""
    if two is not None:
        pieces = split_at(two, *_WORDS, *_OTHER)
        opening, closing, between = between_calls(
            head, pieces[8].removeprefix(end), middle=pieces[5].removeprefix(end)
        )
    opener, closers = opening.strip(), present(closing)
    if not opener:
        return None
    return CallShape(
        written=(Written((opener,), GemmaCalls(quote, closers, begin="")),),
        dropped=closers,
        template=Template(
            f"{opening}{{name}}{{arguments}}{closing}",
            before=head.removesuffix(opening),
            between=between,
            after=tail.removeprefix(closing),
            notation=Notation.GEMMA,
            quote=quote,
        ),
    )


def learn_python(one: str, two: str | None) -> CallShape | None:
    """`<|tool_call_start|>[search(query="x")]<|tool_call_end|>`"""
    head, first, middle, _, _, tail = split_at(one, *_WORDS)
    quote = middle.removeprefix("=")
    end = f"{quote})"
    if first != "(" or quote not in _QUOTES or not tail.startswith(end):
        return None
    tail = tail.removeprefix(end)
    brackets = head.rstrip().endswith("[")
    opener = head.strip().removesuffix("[").strip()
    closers = present(tail.strip().removeprefix("]") if brackets else tail)
    between = ", " if brackets else "\n"
    if two is not None:
        pieces = split_at(two, *_WORDS, *_OTHER)
        between = pieces[5].removeprefix(end)
    if opener:
        written = Written((opener,), PythonCalls(closers, brackets=brackets))
    else:
        written = Written(("[",), PythonCalls(closers, marked=False))
    if not opener and not brackets:
        return None
    return CallShape(
        written=(written,),
        dropped=closers,
        template=Template(
            "{name}({arguments})",
            before=head,
            between=between,
            after=tail,
            notation=Notation.PYTHON,
        ),
    )
