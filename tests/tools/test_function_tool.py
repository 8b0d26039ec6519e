"""Signatures become schemas, and arguments the types of the hints."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import threading
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional

import pydantic
import pytest
from typing_extensions import TypedDict

from wholecall.arguments.validate import check
from wholecall.errors import UnusableFunction
from wholecall.events import Problem
from wholecall.messages import Result, ToolSpec
from wholecall.tools.function_tool import (
    MANY_ROWS,
    make_tool,
    name_of,
    read_parameters,
    underlying,
)
from wholecall.tools.tool import Blocking, Context

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]  # a type that only checkers see


class Color(enum.Enum):
    RED = "red"


class Range(TypedDict, total=False):
    low: int


@dataclasses.dataclass
class Point:
    x: int
    p0: int = 0
    """The name of a field of ours: it is not to be mixed up."""


class Trip(pydantic.BaseModel):
    start: Point
    stops: list[Trip] = []


class Train(pydantic.BaseModel):
    kind: Literal["train"]


class Plane(pydantic.BaseModel):
    kind: Literal["plane"]


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    day: datetime.date


Vehicle = Annotated[Train | Plane, pydantic.Field(discriminator="kind")]
NOT_GIVEN = object()
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
THERE_AND_ON = Trip(start=Point(1), stops=[Trip(start=Point(2))])

# what holds, the hint, the argument, the value
HINTS: list[tuple[str, Any, Any, Any]] = [
    ("text", str, "a", "a"),
    ("an integer", int, 5, 5),
    ("a number", float, 5, 5.0),
    ("a number that is large", int, 10**25, 10**25),
    ("a choice", Literal["C", "F"], "F", "F"),
    ("nothing, or text", Optional[str], None, None),  # noqa: UP045  # users write it
    ("nothing or a number", int | None, 1, 1),
    ("a member of an enumeration", Color, "red", Color.RED),
    ("a time", datetime.datetime, "2026-01-31T12:00:00Z", NOON),
    ("a day", datetime.date, "2026-01-31", NOON.date()),
    ("a duration", datetime.timedelta, "PT5M", datetime.timedelta(minutes=5)),
    ("a decimal", decimal.Decimal, "1.10", decimal.Decimal("1.10")),
    ("an id", uuid.UUID, "0" * 32, uuid.UUID(int=0)),
    ("a path", Path, "a/b", Path("a/b")),
    ("a list", list[int], [1], [1]),
    ("a tuple", tuple[int, str], [1, "a"], (1, "a")),
    ("a set", set[int], [1], {1}),
    ("a map", dict[str, int], {"a": 1}, {"a": 1}),
    ("a TypedDict", Range, {"low": 1}, {"low": 1}),
    ("a dataclass", Point, {"x": 1, "p0": 2}, Point(1, 2)),
    ("a model in itself", Trip, {"start": {"x": 1}, "stops": [{"start": {"x": 2}}]}, THERE_AND_ON),
    ("a tagged union", Vehicle, {"kind": "plane"}, Plane(kind="plane")),
    ("a strict day is a text in JSON", Strict, {"day": "2026-01-31"}, Strict(day=NOON.date())),
    ("anything", Any, [{"a": None}], [{"a": None}]),
]


@pytest.mark.parametrize(
    ("hint", "argument", "value"), [row[1:] for row in HINTS], ids=[row[0] for row in HINTS]
)
def test_an_argument_gets_the_type_of_its_hint(*, hint: Any, argument: Any, value: Any) -> None:
    def function(given: str) -> None: ...

    function.__annotations__["given"] = hint
    parameters = read_parameters(function, {})
    checked = check({"given": argument}, ToolSpec("function", parameters.schema))
    assert checked.problems == ()
    assert parameters.read(checked.value) == {"given": value}


def test_the_schema_says_what_the_signature_does() -> None:
    def function(
        city: str,
        unit: Literal["C", "F"] = "C",
        *,
        days: Annotated[int, pydantic.Field(ge=1)] = 3,
        until: datetime.date | None = None,
    ) -> None: ...

    described = {"city": "Where.", "days": "How many."}
    assert read_parameters(function, described).schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "days": {"type": "integer", "minimum": 1, "default": 3, "description": "How many."},
            "until": {
                "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                "default": None,
            },
        },
        "required": ["city"],
    }


def test_no_parameters_are_an_empty_object() -> None:
    def function() -> None: ...

    parameters = read_parameters(function, {})
    assert parameters.schema == {"type": "object", "properties": {}}
    assert parameters.read({}) == {}


def test_a_field_in_the_hint_or_as_the_default_says_more_than_the_docstring() -> None:
    def function(
        *,
        origin: Annotated[str, pydantic.Field(alias="from", description="Mine.")],
        to: str = pydantic.Field(default="Rome", description="Mine, too.", max_length=9),
        via: str = pydantic.Field(description="Needed."),
    ) -> None: ...

    parameters = read_parameters(function, {"origin": "Theirs.", "to": "Theirs."})
    assert parameters.schema["properties"] == {
        "from": {"type": "string", "description": "Mine."},
        "to": {
            "type": "string",
            "default": "Rome",
            "maxLength": 9,
            "description": "Mine, too.",
        },
        "via": {"type": "string", "description": "Needed."},
    }
    assert parameters.schema["required"] == ["from", "via"]
    read = parameters.read({"from": "Oslo", "via": "Bern"})
    assert read == {"origin": "Oslo", "to": "Rome", "via": "Bern"}


def test_names_that_a_model_has_itself_are_names_like_others() -> None:
    def function(
        *, json: int, copy: int, model_fields: int, _hidden: int, schema: int = 5
    ) -> None: ...

    given = {"json": 1, "copy": 2, "model_fields": 3, "_hidden": 4}
    assert read_parameters(function, {}).read(given) == given


def test_what_is_not_given_is_left_to_the_function() -> None:
    def function(marker: object = NOT_GIVEN, ratio: float = math.nan) -> None: ...

    parameters = read_parameters(function, {})
    assert parameters.read({}) == {}
    assert "default" not in parameters.schema["properties"]["marker"]


@pytest.mark.parametrize("hint", [Context, Context | None, Annotated[Context, "mine"]])
def test_the_context_is_not_the_model_s_to_give(hint: Any) -> None:
    def function(city: str, context: str) -> None: ...

    function.__annotations__["context"] = hint
    parameters = read_parameters(function, {})
    assert parameters.context == "context"
    assert list(parameters.schema["properties"]) == ["city"]


def test_without_a_context_there_is_none() -> None:
    def function(city: str) -> None: ...

    assert read_parameters(function, {}).context == ""


def test_what_does_not_fit_is_named_with_its_path() -> None:
    def function(trip: Trip, days: list[datetime.date]) -> None: ...

    read = read_parameters(function, {}).read({"trip": {"start": {"x": "a"}}, "days": ["soon"]})
    assert isinstance(read, tuple)
    assert [(problem.path, problem.kind) for problem in read] == [
        ("$.trip.start.x", "int_parsing"),
        ("$.days[0]", "date_from_datetime_parsing"),
    ]
    assert all(isinstance(problem, Problem) for problem in read)
    assert read[0].message.startswith("$.trip.start.x: Input should be a valid integer")


# ── Where the function hides ────────────────────────────────────────────────────────


class Station:
    def measure(self, city: str) -> str:
        return city

    def __call__(self, city: str) -> str:
        return city


def plain(city: str, *, secret: str) -> str:
    return city + secret


@functools.wraps(plain)
def wrapped(*args: str, **kwargs: str) -> str:
    return plain(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Station().measure, "Station.measure"),
        (Station(), "Station.__call__"),
        (functools.partial(plain, secret="s"), "plain"),
        (functools.partial(functools.partial(wrapped), secret="s"), "plain"),
    ],
    ids=["a bound method", "a callable object", "a partial", "a partial of a wrapper"],
)
def test_every_callable_has_a_signature(function: Callable[..., object], name: str) -> None:
    parameters = read_parameters(function, {})
    assert list(parameters.schema["properties"]) == ["city"]
    assert parameters.read({"city": "Oslo"}) == {"city": "Oslo"}
    assert name_of(function) == name
    assert callable(underlying(function))


# ── What cannot be a tool ───────────────────────────────────────────────────────────


def collects(*cities: str) -> None: ...
def collects_names(**cities: str) -> None: ...
def hides(city: str, /) -> None: ...
def unhinted(city, days: int = 1) -> None: ...  # type: ignore[no-untyped-def]
def unknown(city: Nothing) -> None: ...
def strange(city: str, station: Station) -> None: ...
def calls(then: Callable[[], None]) -> None: ...
def clashes(one: Annotated[str, pydantic.Field(discriminator="kind")]) -> None: ...
def misses(one: str = pydantic.Field(discriminator="kind")) -> None: ...
def mistakes(one: Annotated[str, pydantic.Field(pattern="(")]) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (collects, r"'\*cities' of collects collects values without names: write a list"),
        (collects_names, r"'\*\*cities' of collects_names collects any names"),
        (hides, "'city' of hides has no name for a caller: take out the '/'"),
        (unhinted, "'city' of unhinted has no type hint: write its type, as in city: str"),
        (Station.measure, "Station.measure is a method: make the tool of the bound one"),
        (unknown, "hint of unknown cannot be found .*Nothing.*: define the type at the top"),
        (strange, "'station' of strange has a type that cannot be read from JSON: .*Station"),
        (calls, "'then' of calls has a type that cannot be read from JSON: .*"),
        (clashes, "'one' of clashes has a type that cannot be read from JSON: .*union"),
        (misses, "the parameters of misses cannot be read from JSON: .*union"),
        (mistakes, "'one' of mistakes has a type that cannot be read from JSON: .*"),
        (max, "max has no signature: wrap it in a def"),
    ],
)
def test_a_function_that_no_model_could_call_is_refused(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(UnusableFunction, match=words):
        read_parameters(function, {})


# ── Large results ───────────────────────────────────────────────────────────────────


class Row(pydantic.BaseModel):
    """Notes the thread in which it is written."""

    written: ClassVar[set[int]] = set()
    number: int = 0

    @pydantic.field_serializer("number")
    def write(self, number: int) -> int:
        self.written.add(threading.get_ident())
        return number


@pytest.mark.parametrize(
    ("make", "aside"),
    [
        (lambda: [Row()] * MANY_ROWS, False),
        (lambda: [Row()] * (MANY_ROWS + 1), True),
        (lambda: {"rows": [Row()] * (MANY_ROWS + 1), "more": False}, True),
        (lambda: {str(number): Row() for number in range(MANY_ROWS + 1)}, True),
        (lambda: "x" * 10_000_000, False),
        (Row, False),
    ],
)
def test_many_rows_of_an_async_function_are_written_in_a_thread(
    *, make: Callable[[], object], aside: bool
) -> None:
    async def look() -> object:
        return make()

    Row.written.clear()
    runner = make_tool(look).run
    assert runner is not None
    assert not isinstance(runner, Blocking)
    result = asyncio.run(settle(runner({}, Context.__new__(Context))))
    assert not result.failed
    here = threading.get_ident()
    assert (here not in Row.written) is (aside or isinstance(make(), str))


async def settle(running: Awaitable[Result]) -> Result:
    return await running
