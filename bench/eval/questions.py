"""The questions of the evaluation, and what counts as a right answer to each."""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wholecall.events import JSON, Call, Outcome
from wholecall.scripted_model import Incalculable, calculate

Fits: TypeAlias = Callable[[Mapping[str, JSON]], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call that a question asks for."""

    name: str
    fits: Fits


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the calls that it needs."""

    text: str
    wanted: tuple[Wanted, ...] = ()


Groups: TypeAlias = Mapping[str, tuple[Question, ...]]
"""Questions by how many calls they need."""


class Verdict(enum.Enum):
    """How an answer did."""

    RIGHT = "right"
    WRONG = "wrong call"
    MISSED = "missed call"
    NEEDLESS = "needless call"
    INVALID = "invalid call"


def weather(city: str) -> Wanted:
    return Wanted("get_weather", _mentions("city", city))


def time(city: str) -> Wanted:
    return Wanted("get_time", _mentions("city", city))


def result(value: float) -> Wanted:
    def fits(arguments: Mapping[str, JSON]) -> bool:
        try:
            return abs(calculate(str(arguments.get("expression"))) - value) < 1e-6
        except Incalculable:
            return False

    return Wanted("calculate", fits)


def docs(word: str) -> Wanted:
    return Wanted("search_docs", _mentions("query", word))


def _mentions(parameter: str, word: str) -> Fits:
    return lambda arguments: word.lower() in str(arguments.get(parameter, "")).lower()


ONE_CALL = (
    Question("What is the weather in Oslo?", (weather("Oslo"),)),
    Question("Is it raining in London right now?", (weather("London"),)),
    Question("How warm is it in Cairo?", (weather("Cairo"),)),
    Question("Do I need an umbrella in Paris today?", (weather("Paris"),)),
    Question("Tell me the temperature in Tokyo.", (weather("Tokyo"),)),
    Question("Is the sun shining in Rome?", (weather("Rome"),)),
    Question("I fly to Sydney. What is the weather like there?", (weather("Sydney"),)),
    Question("Is it colder than ten degrees in Toronto?", (weather("Toronto"),)),
    Question("What time is it in New York?", (time("New York"),)),
    Question("What is the current time in Berlin?", (time("Berlin"),)),
    Question("What day of the week is it in Seoul now?", (time("Seoul"),)),
    Question("Can I call somebody in Delhi now, or is it night there?", (time("Delhi"),)),
    Question("Give me the local time of Nairobi.", (time("Nairobi"),)),
    Question("Which date is it today in Sydney?", (time("Sydney"),)),
    Question("How late is it in Chicago?", (time("Chicago"),)),
    Question("Tell me the time in Lima, please.", (time("Lima"),)),
    Question("What is 1234 times 5678?", (result(1234 * 5678),)),
    Question("Compute 17.5 % of 2480.", (result(434),)),
    Question("What is the square root of 7921?", (result(89),)),
    Question("Divide 98765 by 5.", (result(19753),)),
    Question("What is 2 to the power of 40?", (result(2**40),)),
    Question("Add 1999, 2001 and 4500.", (result(8500),)),
    Question("What is (45 + 55) * 12 - 34?", (result(1166),)),
    Question("How much is 365 * 24 * 60?", (result(525600),)),
    Question("Search the documentation for approvals.", (docs("approv"),)),
    Question("What do the Wholecall docs say about timeouts?", (docs("timeout"),)),
    Question("Look up dialects in the documentation.", (docs("dialect"),)),
    Question("Find the part of the Wholecall documentation on MCP servers.", (docs("mcp"),)),
    Question("How does Wholecall repair arguments? Look it up.", (docs("repair"),)),
    Question("Look in the docs how retries work.", (docs("retr"),)),
)
NO_CALL = (
    Question("Hello! How are you?"),
    Question("Write a short poem about the sea."),
    Question("Translate 'good morning' into French."),
    Question("Who wrote Romeo and Juliet?"),
    Question("What is the capital of Italy?"),
    Question("Name three primary colours."),
    Question("Explain in one sentence what a noun is."),
    Question("Thank you, that was all."),
    Question("Give me a synonym for happy."),
    Question("What is the opposite of hot?"),
)
TWO_CALLS = (
    Question("What is the weather in Oslo and in Rome?", (weather("Oslo"), weather("Rome"))),
    Question("Compare the weather of Madrid and Vienna.", (weather("Madrid"), weather("Vienna"))),
    Question("What time is it in Tokyo and in London?", (time("Tokyo"), time("London"))),
    Question("Give me the time in Lagos and in Lima.", (time("Lagos"), time("Lima"))),
    Question("What are the time and the weather in Paris?", (time("Paris"), weather("Paris"))),
    Question("Tell me the weather and the time in Cairo.", (weather("Cairo"), time("Cairo"))),
    Question("What is 12 * 13, and what is 99 / 3?", (result(156), result(33))),
    Question("Compute 7 ** 5 and 1000 - 377.", (result(16807), result(623))),
    Question("How warm is Athens, and what is 30 * 9 / 5 + 32?", (weather("Athens"), result(86))),
    Question("What time is it in Berlin, and what is 60 * 24?", (time("Berlin"), result(1440))),
)
GROUPS: Groups = {"one call": ONE_CALL, "no call": NO_CALL, "two calls": TWO_CALLS}


def sample(groups: Groups, share: float, *, seed: int) -> dict[str, list[Question]]:
    """The same share of every group, always the same for a seed, in the order above."""
    chosen: dict[str, list[Question]] = {}
    for name, questions in groups.items():
        number = max(1, round(len(questions) * share))
        places = sorted(random.Random(seed).sample(range(len(questions)), number))
        chosen[name] = [questions[place] for place in places]
    return chosen


def judge(question: Question, outcome: Outcome) -> Verdict:
    """All the calls that were asked for, in any order, and no other."""
    if outcome.rejected or (not outcome.calls and _is_markup(outcome.text)):
        return Verdict.INVALID
    if not question.wanted:
        return Verdict.NEEDLESS if outcome.calls else Verdict.RIGHT
    if not outcome.calls:
        return Verdict.MISSED
    return Verdict.RIGHT if _match(question.wanted, outcome.calls) else Verdict.WRONG


def _is_markup(text: str) -> bool:
    """Whether an answer is what was to be a call. Nobody is answered with a bracket."""
    return text.lstrip().startswith(("<", "{", "[", "```"))


def _match(wanted: Sequence[Wanted], calls: Sequence[Call]) -> bool:
    left = list(calls)
    for each in wanted:
        fitting = [call for call in left if call.name == each.name and each.fits(call.arguments)]
        if not fitting:
            return False
        left.remove(fitting[0])
    return not left
