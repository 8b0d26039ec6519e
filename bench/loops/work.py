"""What every agent is given: the same question, the same tool, the same scenarios."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

PROMPT = "How is the weather?"
ANSWER = "All done."
TOOL = "weather"
CITIES = [f"city {number}" for number in range(10)]
PAUSE = 2.0
"""Seconds for which the stream of `early` goes on after its first call is complete."""
MOST_TURNS = 50
"""A limit that none of the scenarios reaches."""


class Scenario(NamedTuple):
    """So many turns with so many calls each, and then the answer."""

    turns: int
    calls: int


SCENARIOS = {
    "turns": Scenario(turns=10, calls=1),
    "one": Scenario(turns=1, calls=1),
    "parallel": Scenario(turns=1, calls=10),
    "early": Scenario(turns=1, calls=2),
}

Agent: TypeAlias = Callable[[str], Awaitable[str]]
"""Asks the model of this name, runs its calls, and gives the final answer."""
started: dict[str, float] = {}
"""By city: how many seconds after its call was sent the tool began to run."""


async def weather(city: str, sent: float) -> str:
    """Current weather of a city.

    Args:
        city: The name of the city.
        sent: When the question was sent.
    """
    started[city] = time.monotonic() - sent
    return f"{city}: rain"
