"""Parse strict JSON once, with every limit checked before the parser can trip over it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, islice
from math import isinf
from typing import Any, NamedTuple, NoReturn

from wholecall.arguments.describe import cut
from wholecall.arguments.json_grammar import (
    DIGITS,
    NO_BRACKETS,
    STRING,
    BadLiteral,
    Cause,
    Walk,
    find_flaw,
    walk,
)
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.events import JSON, Reason, Repair, Value

HALVES = 10_000
"""Surrogates that are checked in one text. A broken emoji leaves one; more than this is noise."""

_REPLACEMENT = "\ufffd"
_RAW = re.compile("[\ud800-\udfff]")
_HALF = r"[dD][89a-fA-F][0-9a-fA-F]{2}"
_PAIR = r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_MAY_BE_LONE = re.compile(r"\\u[dD][89a-fA-F]")
# Everything up to a lone surrogate. Every escape is read, so that in `\\ud800` the second backslash
# begins nothing.
_UP_TO_LONE = re.compile(
    rf"[^\\]*+(?:\\(?:[^u]|u(?!{_HALF})|u{_PAIR})[^\\]*+)*+(?P<lone>\\u{_HALF})", re.DOTALL
)


class JoinedText(NamedTuple):
    """A text without halves, and the first half that stood alone in it, as an escape."""

    text: str
    lone: str = ""


def join_halves(text: str) -> str:
    """Join raw surrogates that belong together and replace the others. For text that is not
    JSON."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def replace_lone(text: str) -> JoinedText | None:
    """Join the halves that belong together, replace the others. None if there are too many."""
    joined = _replace_raw(text)
    if joined is None:
        return None
    text, lone = joined
    pieces: list[str] = []
    end = 0
    while found := _find_lone(text, end):
        if len(pieces) == HALVES:
            return None
        pieces.append(text[end : found.start("lone")])
        lone, end = lone or found["lone"], found.end()
    return JoinedText(r"\ufffd".join([*pieces, text[end:]]), lone) if pieces else joined


def _find_lone(text: str, begin: int) -> re.Match[str] | None:
    """Return the next lone surrogate; no escape is open at `begin`."""
    candidate = _MAY_BE_LONE.search(text, begin)
    if candidate is None:
        return None
    # The backslashes before it tell whether it is an escape at all.
    before = text[begin : candidate.start()].rstrip("\\")
    return _UP_TO_LONE.match(text, begin + len(before))


def _replace_raw(text: str) -> JoinedText | None:
    if text.isascii() or _is_encodable(text):
        return JoinedText(text)
    with_halves = len(text.encode("utf-8", "surrogatepass"))
    if with_halves - len(text.encode("utf-8", "ignore")) > HALVES * _OCTETS:
        return None
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    lone = "".join(_RAW.findall(joined)[:1]).encode("ascii", "backslashreplace").decode()
    return JoinedText(_RAW.sub(_REPLACEMENT, joined), lone)


_OCTETS = 3
"""Of one half in UTF-8."""


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# Strict JSON, parsed once, with every limit checked before the parser can trip over it.
#
# The standard library's parser does the work. This module catches what the parser lets through or
# fails on: NaN and Infinity, numbers without bound, duplicate keys, lone surrogates, nesting that
# ends in a RecursionError, a million values in a short text. When it fails, `flaw.find_flaw` says
# where, and whether the text was cut off or is broken.


EXCERPT = 40
"""Characters of the text that a message or a repair quotes."""


class Parsed(Value, frozen=True):
    """A value, what was changed in its text, and which keys were given twice."""

    value: JSON
    changes: tuple[Repair, ...] = ()
    duplicates: tuple[str, ...] = ()
    """JSON paths. The value holds what stood there last."""


class Unparsed(Value, frozen=True):
    """The reason why a text is not strict JSON."""

    message: str
    position: int
    found: str
    """The text that stood there, cut to `EXCERPT` characters."""
    reason: Reason
    """TRUNCATED, BAD_JSON or LIMIT."""

    @property
    def detail(self) -> str:
        """All of it in one sentence, for people and models."""
        return _DETAILS[self.reason].format(
            message=self.message, position=self.position, place=self.position + 1, found=self.found
        )

    @property
    def cut(self) -> bool:
        """True if the text is a proper prefix of some JSON: more of it could be whole."""
        return self.reason is Reason.TRUNCATED


_DETAILS = {
    Reason.TRUNCATED: "the arguments are cut off after {position} characters: {message}",
    Reason.BAD_JSON: (
        "the arguments are not valid JSON: {message} at character {place}, found {found!r}"
    ),
    Reason.LIMIT: "the arguments are {message}",
}
# A walk that is complete although the parser failed would be our bug: a KeyError.
_REASONS = {Cause.CUT: Reason.TRUNCATED, Cause.BROKEN: Reason.BAD_JSON, Cause.DEEP: Reason.LIMIT}


def parse(text: str, *, limits: Limits = DEFAULT) -> Parsed | Unparsed:
    """Parse strict JSON. The text is never repaired here, except for lone surrogates."""
    whole = replace_lone(text)
    if whole is None:
        return _refuse(text, 0, message=f"garbled: more than {HALVES} halves of surrogate pairs")
    text = whole.text
    excess, too_deep = measure_text(text, limits)
    if excess:
        return _refuse(text, 0, message=excess)
    try:
        value, duplicates = _decode(text[:too_deep])
    except (json.JSONDecodeError, BadLiteral) as error:
        walked = find_flaw(text[:too_deep], error, depth=limits.depth)
        return _explain(text, walked, too_deep=too_deep)
    changes = (Repair("lone_surrogate", whole.lone, "\ufffd"),) if whole.lone else ()
    return Parsed(value, changes, duplicates)


def excerpt(text: str) -> str:
    """The beginning of a text, for a message or a repair."""
    return cut(text, EXCERPT)


def _explain(text: str, walked: Walk, *, too_deep: int | None) -> Unparsed:
    if too_deep is not None and walked.cause is Cause.CUT:
        # It was cut by us, and up to there it is JSON.
        message = f"nested more than {len(walked.closers) - 1} deep"
        return _refuse(text, too_deep - 1, message=message)
    found = _quote(text, walked.position)
    return Unparsed(walked.message, walked.position, found, _REASONS[walked.cause])


def _refuse(text: str, position: int, *, message: str) -> Unparsed:
    return Unparsed(message, position, _quote(text, position), Reason.LIMIT)


def _quote(text: str, position: int) -> str:
    return excerpt(text[position : position + EXCERPT + 1])


# ── What the parser would let through ───────────────────────────────────────────────


def _read_integer(literal: str) -> int:
    if len(literal) > DIGITS:
        raise BadLiteral(literal)
    return int(literal)


def _read_float(literal: str) -> float:
    number = float(literal)
    if len(literal) > DIGITS or isinf(number):
        raise BadLiteral(literal)
    return number


def _refuse_constant(literal: str) -> NoReturn:
    raise BadLiteral(literal)


# ── Keys given twice ────────────────────────────────────────────────────────────────


_MOST_DOUBLED = 32
"""Paths of duplicate keys that are reported. A hostile text has a hundred thousand."""


class _KeyTwice(Exception):
    """Some object gives a key twice."""


class _Doubled(dict[str, Any]):
    """An object that gives keys twice, and which."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice = tuple(islice(_find_twice(pairs), _MOST_DOUBLED))


def _find_twice(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    told: set[str] = set()
    for key, _ in pairs:
        if key in seen and key not in told:
            told.add(key)
            yield key
        seen.add(key)


def _read_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _KeyTwice
    return members


def _read_any(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Doubled(pairs)


def _make_decoder(
    read_pairs: Callable[[list[tuple[str, Any]]], Any], read_integer: Callable[[str], int]
) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=read_pairs,
        parse_int=read_integer,
        parse_float=_read_float,
        parse_constant=_refuse_constant,
    )


class _Decoders(NamedTuple):
    unique_keys: json.JSONDecoder
    any_keys: json.JSONDecoder


_CAREFUL = _Decoders(*(_make_decoder(each, _read_integer) for each in (_read_unique, _read_any)))
_FAST = _Decoders(*(_make_decoder(each, int) for each in (_read_unique, _read_any)))
_SHORT_NUMBERS = re.compile(rf"(?:[^0-9]++|[0-9]{{1,{DIGITS - 1}}}+(?![0-9]))*+")


def _choose_decoders(text: str) -> _Decoders:
    """Choose the decoders. Checking each integer costs more than reading it, so a text that may
    hold many integers is checked as a whole."""
    # In a longer text that has as many commas, most of them stand in strings.
    is_dense = _LARGE < len(text) < min(text.count(","), DEFAULT.values) * _DENSE
    return _FAST if is_dense and _SHORT_NUMBERS.fullmatch(text) else _CAREFUL


_DENSE = 16
_LARGE = 4096


def _decode(text: str) -> tuple[JSON, tuple[str, ...]]:
    """The value and the paths of keys given twice; an error if it is not strict JSON."""
    decoders = _choose_decoders(text)
    try:
        return decoders.unique_keys.decode(text), ()
    except _KeyTwice:
        # The parser does not know its path, so the value is asked. This is rare enough.
        value = decoders.any_keys.decode(text)
        return value, tuple(islice(_find_doubled(value, "$"), _MOST_DOUBLED))


def _find_doubled(value: JSON, path: str) -> Iterator[str]:
    if isinstance(value, _Doubled):
        yield from (join_path(path, key) for key in value.twice)
    inside = value.items() if isinstance(value, dict) else enumerate(_items(value))
    for step, child in inside:
        if isinstance(child, (dict, list)):
            yield from _find_doubled(child, join_path(path, step))


def _items(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


_LONGEST_STEP = 128
_LONGEST_PATH = 1024
"""Every value inside may get a path of its own, so that a key of megabytes in each of them
would be terabytes. A longer path is that of the value's forebear."""


def join_path(path: str, step: str | int) -> str:
    """Go one step down a JSON path: `$.days[0]`, `$["odd key"]`."""
    if len(path) > _LONGEST_PATH:
        return path
    if isinstance(step, int):
        return f"{path}[{step}]"
    if len(step) > _LONGEST_STEP:
        step = cut(step, _LONGEST_STEP)
    if step.isidentifier():
        return f"{path}.{step}"
    return f"{path}[{json.dumps(step, ensure_ascii=False)}]"


# A look at arguments that are still being written. For display, never for execution.
#
# What is open is closed, what is half or broken is left out. Every such change is an unsafe repair,
# and a `Call` refuses to be built on one.


_MARKS = 10_000
"""Members and items that are shown. A preview may be made for every piece that arrives, and takes a
microsecond for each mark; more would not be read."""
_CLOSINGS = {'"': "close_string", "]": "close_array", "}": "close_object"}


class Preview(Value, frozen=True):
    """The visible part of an object so far, and what was invented to show it."""

    value: Mapping[str, JSON]
    repairs: tuple[Repair, ...] = ()


def preview(text: str, *, limits: Limits = DEFAULT) -> Preview:
    """Complete the beginning of an object. Without one there is nothing to show.

    It is for display: no call is ever made of it.

    ```python
    from wholecall.arguments.parse import preview

    print(preview('{"city": "Os').value)
    ```

    ```text
    {'city': 'Os'}
    ```
    """
    end_of_view = find_too_many(text, _MARKS)
    walked = walk(text[:end_of_view], depth=limits.depth)
    end, ending = walked.completable, "".join(reversed(walked.closers))
    if walked.open_string is not None:
        end, ending = walked.open_string, f'"{ending}'
    parsed = parse(text[:end] + ending, limits=limits)
    if not isinstance(parsed, Parsed) or not isinstance(parsed.value, Mapping):
        return Preview({})
    repairs = [*parsed.changes]
    if rest := text[end:].strip():
        repairs.append(Repair("drop_unfinished", excerpt(rest), "", safe=False))
    repairs += [Repair(_CLOSINGS[mark], "", mark, safe=False) for mark in dict.fromkeys(ending)]
    return Preview(parsed.value, tuple(repairs))


# Measure the depth and size of a JSON text before anything is built from it.
#
# A value costs far more than its characters: 4 MB of `[],` are a million lists. So brackets and
# commas outside strings are counted first. Every pattern is possessive and stops where a limit is
# exceeded.


_STRING = re.compile(STRING, re.DOTALL)
_NEXT_BRACKET = re.compile(rf"{NO_BRACKETS}*+[{{}}\[\]]", re.DOTALL)
_OTHERS = re.compile(r"[^{}\[\]]++")
_LEVELS = {"{": 1, "[": 1, "}": -1, "]": -1}
_QUOTES = 4
"""Of one value: those of its name, and its own."""


class JsonExtent(NamedTuple):
    """The limits that a text exceeds."""

    excess: str = ""
    """The exceeded limit, in words."""
    too_deep: int | None = None
    """The position after the first bracket that is too deep."""


def measure_text(text: str, limits: Limits) -> JsonExtent:
    """Say whether a text is too large or too deep to be parsed."""
    too_many = f"too many: more than {limits.values} values"
    if _has_too_many_strings(text, limits.values):
        return JsonExtent(too_many)
    openers, commas = text.count("{") + text.count("["), text.count(",")
    if openers <= limits.depth and openers + commas <= limits.values:
        return JsonExtent()
    outside = _STRING.sub("", text)
    openers = outside.count("{") + outside.count("[")
    if openers > limits.containers:
        return JsonExtent(f"too many: more than {limits.containers} objects and arrays")
    if openers + outside.count(",") > limits.values:
        return JsonExtent(too_many)
    return JsonExtent(too_deep=_find_too_deep(text, outside, depth=limits.depth))


def _has_too_many_strings(text: str, values: int) -> bool:
    # Nearly every quote after a backslash belongs to a string; of the rest, half do.
    if text.count('"') - text.count('\\"') <= _QUOTES * values:
        return False
    return bool(_past(r'[^"]*+', STRING, count=_QUOTES // 2 * values).match(text))


def find_too_many(text: str, values: int) -> int | None:
    """Return the position after the mark that begins one value too many, or None.

    The first value of an object or array begins with its bracket, every other with a comma.
    """
    if text.count(",") + text.count("[") + text.count("{") <= values:
        return None
    found = _past(rf'(?:[^",\[{{]++|{STRING})*+', r"[,\[{]", count=values).match(text)
    return None if found is None else found.end()


@lru_cache(maxsize=8)
def _past(between: str, mark: str, *, count: int) -> re.Pattern[str]:
    """A text up to the mark that is one too many."""
    return re.compile(rf"(?:{between}{mark}){{{count + 1}}}+", re.DOTALL)


def _find_too_deep(text: str, outside: str, *, depth: int) -> int | None:
    brackets = _OTHERS.sub("", outside)
    for index, level in enumerate(accumulate(_LEVELS[bracket] for bracket in brackets)):
        if level > depth:
            return next(islice(_NEXT_BRACKET.finditer(text), index, None)).end()
        if level <= 0:  # the root is closed, and the parser stops there
            break
    return None
