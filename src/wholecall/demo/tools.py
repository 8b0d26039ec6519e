"""Four tools to try a model with. None of them needs a network or a key."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from importlib import resources
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from pydantic import Field

from wholecall.core.near import nearest
from wholecall.demo.calculator import Incalculable, calculate
from wholecall.demo.search import load_sections, search
from wholecall.tools.from_function import tool
from wholecall.tools.signals import Failed, Retry


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
    near = nearest(name, cities)
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
