"""A scripted model, and four tools to try a model with.

The model plays recorded answers and needs neither a download nor a key; no tool needs a network.
"""

from __future__ import annotations

import ast
import asyncio
import json
import math
import operator
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from pydantic import Field

from wholecall.arguments.feedback import build_example
from wholecall.messages import Message, PastCall, Request, Role, ToolSpec, read_offer
from wholecall.protocols.reader import CUT
from wholecall.protocols.registry import CHAT
from wholecall.tools.function_tool import tool
from wholecall.tools.tool import Failed, Retry
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Answer

NAME = "demo"
"""The name under which it is served."""
PROTOCOL = CHAT
PAUSE_SECONDS = 0.07
"""Before each chunk: slow enough to be watched, as a model of that size would be."""
_DATA = b"data: "
_WORD = re.compile(r"[a-z0-9]{3,}")


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded answer."""

    question: str
    turn: int
    """Counted from 1."""
    title: str
    events: tuple[Any, ...]
    """The payloads. A string is a raw line, and `!EOF` is the end of the connection."""


def load_script() -> tuple[Scene, ...]:
    """The scenes that come with the package."""
    text = (resources.files("wholecall") / "demo" / "script.jsonl").read_bytes()
    return tuple(msgspec.json.Decoder(Scene).decode_lines(text))


class ScriptedModel:
    """An upstream. What it is asked only decides which of its scenes it plays."""

    def __init__(
        self,
        scenes: Iterable[Scene] | None = None,
        *,
        pause: float = PAUSE_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._scenes: dict[str, list[Scene]] = {}
        for scene in load_script() if scenes is None else scenes:
            self._scenes.setdefault(scene.question, []).append(scene)
        self._pause = pause
        self._sleep = sleep
        self._played: Counter[tuple[str, int]] = Counter()

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return PROTOCOL

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions that it can answer."""
        return tuple(self._scenes)

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Play the scene that fits best."""
        yield Answer(protocol=PROTOCOL, chunks=self._play(self._choose(request)))

    async def close(self) -> None:
        """There is nothing to give back."""

    def _choose(self, request: Request) -> Scene:
        asked, turn = find_place(request.messages)
        ours = Toolbox(TOOLS).offer
        own = [spec for name, spec in read_offer(request.tools).items() if name not in ours]
        if own:
            return _improvise(own[0], turn)
        scenes = self._scenes[find_question(asked, self.questions)]
        # Where no tool is offered, or after the last turn, there is only the final answer.
        last = max(scene.turn for scene in scenes)
        turn = min(turn, last) if request.tools else last
        attempts = [scene for scene in scenes if scene.turn == turn]
        key = attempts[0].question, turn
        scene = attempts[self._played[key] % len(attempts)]
        self._played[key] += 1
        return scene

    async def _play(self, scene: Scene) -> AsyncIterator[bytes]:
        for event in scene.events:
            if event == CUT:
                return
            await self._sleep(self._pause)
            line = event.encode() if isinstance(event, str) else _DATA + msgspec.json.encode(event)
            yield line + b"\n\n"


def _improvise(spec: ToolSpec, turn: int) -> Scene:
    """A scene for tools that no scene knows: it calls the first with made-up arguments."""
    call = {"name": spec.name, "arguments": json.dumps(build_example(spec.parameters) or {})}
    called = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": call}]}
    said = {"content": f"I am a script. I called {spec.name} with made-up arguments."}
    delta, finish = (called, "tool_calls") if turn == 1 else (said, "stop")
    events = ({"index": 0, "delta": delta}, {"index": 0, "delta": {}, "finish_reason": finish})
    payloads = tuple({"choices": [choice]} for choice in events)
    return Scene(question="", turn=turn, title=spec.name, events=(*payloads, "data: [DONE]"))


def find_place(messages: Sequence[Message]) -> tuple[str, int]:
    """Return the last question of a conversation, and the turn of its answer that comes next.

    A user message after a call is not a question: it is feedback on the call.
    """
    asked, turn, in_run = "", 1, False
    for message in messages:
        if message.role is Role.USER and not in_run:
            asked, turn = message.text, 1
        elif message.role is Role.ASSISTANT:
            turn += 1
            in_run = any(isinstance(part, PastCall) for part in message.parts)
    return asked, turn


def find_question(asked: str, known: Sequence[str]) -> str:
    """The known question that shares most words; without any, always the same for a text."""
    words = set(_WORD.findall(asked.casefold()))
    shared = {each: len(words.intersection(_WORD.findall(each.casefold()))) for each in known}
    best = max(known, key=lambda each: shared[each])
    return (
        best if shared[best] else known[zlib.crc32(asked.encode("utf-8", "replace")) % len(known)]
    )


# ── The tools of the demo ──────────────────────────────────────────────────────────────

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


_SEARCHED_WORD = re.compile(r"[a-z0-9_]{2,}")
_HEADING = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_ENDING = re.compile(r"(?:als?|ings?|ed|es|s|e)$")
"""Of a word that has another form: approval, approve, approvals."""
_IN_TITLE, _IN_PAGE = 3.0, 2.0
"""A word of the heading, or of the page's name, says more than one of the text."""
_LOOKED_UP = {"reference.md": 0.3}
"""Pages that list everything fit every question, and answer few."""
_SHOWN = 400
"""Characters of a section: a small model has a small context."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page under one heading."""

    page: str
    title: str
    text: str


def search(query: str, sections: Iterable[Section], *, most: int = 3) -> list[Section]:
    """The sections that fit best, the best first.

    A word counts for more the fewer sections have it: "do" and "how" are in all of them.
    """
    known = [(section, _weigh(section)) for section in sections]
    spread = Counter(word for _, words in known for word in words)
    wanted = {*_words(query)} & {*spread}
    worth = {word: math.log(1 + len(known) / spread[word]) for word in wanted}
    scored = [
        (sum(worth[word] * words.get(word, 0) for word in worth), section)
        for section, words in known
    ]
    found = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
    return [section for _, section in found[:most]]


def _weigh(section: Section) -> dict[str, float]:
    """The words of a section, each with its weight; one that is repeated counts a little more."""
    page = _LOOKED_UP.get(section.page, 1.0)
    found = {word: 1 - 0.5**count for word, count in Counter(_words(section.text)).items()}
    for words, weight in ((_words(section.title), _IN_TITLE), (_words(section.page), _IN_PAGE)):
        for word in words:
            found[word] = found.get(word, 0.0) + weight / math.sqrt(len(words))
    return {word: page * weight for word, weight in found.items()}


def _words(text: str) -> list[str]:
    return [_ENDING.sub("", word) or word for word in _SEARCHED_WORD.findall(text.lower())]


@cache
def load_sections() -> tuple[Section, ...]:
    """The sections of all pages; a wheel carries them, a checkout has them beside the source."""
    shipped = Path(str(resources.files("wholecall"))) / "demo" / "docs"
    folder = shipped if shipped.is_dir() else Path(__file__).parents[2] / "docs"
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
            yield Section(page, title, text.strip())


# Four tools to try a model with. None of them needs a network or a key.


class City(msgspec.Struct, frozen=True):
    """Facts about a city."""

    zone: str
    celsius: int
    sky: str
    also: tuple[str, ...] = ()
    """Its name in other languages."""


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
        if wanted in map(str.casefold, (known, *city.also)):
            return known, city
    # Not another one in its place: a model would give the weather there for the answer.
    raise Failed(f"Nothing is known about {name!r}. Known cities: {', '.join(cities)}.")


CityName = Annotated[str, Field(description="Its name in English")]


@tool(read_only=True, name="get_weather")
def get_weather(city: CityName) -> dict[str, str | int]:
    """The weather in a city at the moment: its temperature in degrees Celsius, and its sky."""
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
    """Calculate exactly: all sums, differences, percentages, roots, and conversions of units.

    It knows numbers only. Look up those that you do not have first, with another tool.
    """
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
    return "\n\n".join(f"{each.page}, {each.title}: {each.text[:_SHOWN]}" for each in found)


TOOLS = (get_weather, get_time, calculate_expression, search_docs)
