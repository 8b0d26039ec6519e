"""Four tools to try a model with. None of them needs a network or a key."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from pydantic import Field

from wholecall.arguments.describe import suggest
from wholecall.tools.function_tool import tool
from wholecall.tools.tool import Failed, Retry

LONGEST = 200
"""Characters. A person would not type more, and deep nesting needs more."""
_MOST_DIGITS = 300
"""Of a result. A power of a power has more digits than the machine has memory."""

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "cos": math.cos,
    "log": math.log,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}


class Incalculable(ValueError):
    """A text that is not a calculation, or one without a result."""


def calculate(expression: str) -> float:
    """The value of an expression: `+ - * / // % **`, parentheses, and a few functions."""
    if len(expression) > LONGEST:
        raise Incalculable(f"the expression has more than {LONGEST} characters")
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
        return _finite(_value(tree.body))
    except SyntaxError:
        raise Incalculable(f"{expression!r} is not an expression") from None
    except (ArithmeticError, ValueError) as error:
        raise Incalculable(f"{expression!r} has no value: {error}") from None


def _finite(value: float) -> float:
    # It raises an `OverflowError` for an integer that no float can hold.
    if not math.isfinite(value):
        raise OverflowError("too large")
    return value


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")


def _power(base: float, exponent: float) -> float:
    if abs(base) > 1 and exponent * math.log10(abs(base)) > _MOST_DIGITS:
        raise OverflowError("too many digits")
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError("a root of a negative number")  # noqa: TRY004 - the value is wrong
    return float(value) if isinstance(value, float) else int(value)


# Search in Wholecall's own documentation: sections of Markdown, by the words they share.


_WORD = re.compile(r"[a-z0-9_]{2,}")
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_IN_TITLE = 3
"""A word of the heading says more than one of the text."""
_SHOWN = 400
"""Characters of a section: a small model has a small context."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under one heading."""

    page: str
    title: str
    text: str


def search(query: str, sections: Iterable[Section], *, most: int = 3) -> list[Section]:
    """The sections that fit best, the best first."""
    wanted = set(_words(query))
    scored = [(_score(section, wanted), section) for section in sections]
    found = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
    return [section for _, section in found[:most]]


def _score(section: Section, wanted: set[str]) -> float:
    words = Counter(_words(section.text)) + Counter(_words(section.title) * _IN_TITLE)
    hits = [words[word] for word in wanted if word in words]
    # How many of the words occur counts for more than how often they do.
    return len(hits) + sum(hits) / (sum(words.values()) + 1)


def _words(text: str) -> list[str]:
    return [word.rstrip("s") for word in _WORD.findall(text.lower())]


@cache
def load_sections() -> tuple[Section, ...]:
    """The sections of all pages; a wheel carries them, a checkout has them beside the source."""
    shipped = Path(str(resources.files("wholecall"))) / "demo" / "docs"
    folder = shipped if shipped.is_dir() else Path(__file__).parents[3] / "docs"
    return tuple(
        section
        for path in sorted(folder.glob("*.md"))
        for section in read_sections(path.name, path.read_text("utf-8"))
    )


def read_sections(page: str, markdown: str) -> Iterator[Section]:
    """A page, cut at its headings."""
    _, *parts = _HEADING.split(markdown)
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        if text.strip():
            yield Section(page, title, text.strip()[:_SHOWN])


# Four tools to try a model with. None of them needs a network or a key.


class City(msgspec.Struct, frozen=True):
    """Facts about a city."""

    zone: str
    celsius: int
    sky: str


@cache
def load_cities() -> dict[str, City]:
    """The cities, by name."""
    text = (resources.files("wholecall") / "demo" / "cities.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, City])


def _find_city(name: str) -> tuple[str, City]:
    """Find a city by its name, in any case, with or without a country after it."""
    cities = load_cities()
    wanted = name.partition(",")[0].strip().casefold()
    for known, city in cities.items():
        if known.casefold() == wanted:
            return known, city
    near = suggest(name, cities)
    raise Retry(
        f"No city {name!r} is known."
        + (f" Did you mean {near!r}?" if near else f" Known are: {', '.join(cities)}.")
    )


CityName = Annotated[str, Field(description="Its name in English")]


@tool(read_only=True, name="get_weather")
def get_weather(city: CityName) -> dict[str, str | int]:
    """The weather in a city at the moment."""
    known, found = _find_city(city)
    return {"city": known, "celsius": found.celsius, "sky": found.sky}


@tool(read_only=True, name="get_time")
def get_time(city: CityName) -> str:
    """The date and time in a city."""
    return tell_time(*_find_city(city))


def tell_time(name: str, city: City) -> str:
    """Return the local time of a city."""
    try:
        there = datetime.now(ZoneInfo(city.zone))
    except ZoneInfoNotFoundError:
        raise Failed("this machine has no time zones (pip install tzdata)") from None
    return f"In {name} it is {there:%A, %Y-%m-%d %H:%M} ({there:%Z})"


@tool(read_only=True, name="calculate")
def calculate_expression(
    expression: Annotated[str, Field(description="Arithmetic, as in (2 + 3) * 4 or sqrt(2)")],
) -> float:
    """Calculate exactly."""
    try:
        return calculate(expression)
    except Incalculable as error:
        raise Retry(str(error)) from None


@tool(read_only=True, name="search_docs")
def search_docs(
    query: Annotated[str, Field(description="What to look for, in a few words")],
) -> str:
    """Search the documentation of Wholecall, the program that you run in."""
    found = search(query, load_sections())
    if not found:
        return f"Nothing is written about {query!r}."
    return "\n\n".join(f"{each.page}, {each.title}: {each.text}" for each in found)


TOOLS = (get_weather, get_time, calculate_expression, search_docs)
