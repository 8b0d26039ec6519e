"""Questions that are judged by the final answer of the whole run, and the rules that judge it.

A rule looks at the words of the answer: the numbers, names and times that must be in it. How the
model found them is not asked, except that raw markup of a call is never an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from wholecall.scripted_model import load_cities

Rule: TypeAlias = Callable[[str], bool]
"""True if an answer is right."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the rules that its answer must keep, all of them."""

    text: str
    rules: tuple[Rule, ...]

    def is_right(self, answer: str) -> bool:
        """Return True if the answer keeps all rules, and holds no markup of a call."""
        return not is_markup(answer) and all(rule(answer) for rule in self.rules)


AskedGroups: TypeAlias = Mapping[str, tuple[Asked, ...]]
"""Questions by their kind."""
ABSTAIN = "no call"
"""The kind that needs no tool."""

_MARKUP = re.compile(
    r"</?(?:tool_call|tool_response|function|parameter|invoke|tool_use)\b"
    r"|\"(?:calls|reply|arguments|parameters)\"\s*:"
    r"|\b(?:get_weather|get_time|calculate|search_docs)\s*\("
    r"|^\s*[\[{].*\"name\"\s*:",
    re.DOTALL,
)
_NUMBER = re.compile(r"[-\u2212]?\d+(?:\.\d+)?")
_BETWEEN_THOUSANDS = re.compile(r"(?<=\d)[,\u202f\u00a0 '](?=\d{3}(?!\d))")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_TIME = re.compile(r"\b(\d{1,2})[:.h](\d{2})(?::\d{2})?\s*([ap])?\.?(?:m\b)?", re.IGNORECASE)
_NOON, _HOUR = 12, 60
_SLACK = timedelta(minutes=6)
"""From the question to the answer, on a slow machine."""
_CLOSE = 0.002
"""Of a number: 18.3 is right for 18.33."""
_ADMITS = re.compile(
    r"n[o']t (?:know|have|find|found|available|able|possible|listed|in the list|provide|supported"
    r"|support|include|access|contain|specified|mentioned|one of)|nothing (?:is )?(?:known|written)"
    r"|unknown|unable|no (?:information|data|access|tool|result|documentation|mention|weather|such)"
    r"|sorry|only (?:know|have|the following|these)|known cities|does(?: not|n't) exist|outside"
    r"|can(?:not|'t|no longer)|isn't|couldn't|could not",
    re.IGNORECASE,
)


def is_markup(answer: str) -> bool:
    """Return True if an answer holds what was to be a call, or a part of it."""
    return _MARKUP.search(answer) is not None


def says(*words: str) -> Rule:
    """Return the rule that one of these words is in the answer."""
    return lambda answer: any(word.casefold() in answer.casefold() for word in words)


def avoids(*words: str) -> Rule:
    """Return the rule that none of these words is in the answer."""
    return lambda answer: not says(*words)(answer)


def number(value: float) -> Rule:
    """Return the rule that this number is in the answer, written in whatever way."""
    near = max(0.011, abs(value) * _CLOSE) if value % 1 else 1e-6
    return lambda answer: any(abs(found - value) <= near for found in _read_numbers(answer))


def _read_numbers(answer: str) -> list[float]:
    plain = _BETWEEN_THOUSANDS.sub("", answer)
    texts = (plain, _DECIMAL_COMMA.sub(".", plain))
    return [
        float(found.replace("\u2212", "-")) for text in texts for found in _NUMBER.findall(text)
    ]


def words(answer: str) -> bool:
    """Any words are right."""
    return any(character.isalpha() for character in answer)


def admits(answer: str) -> bool:
    """The answer says that it cannot be known."""
    return _ADMITS.search(answer) is not None


def weather(city: str) -> tuple[Rule, ...]:
    """Return the rules of an answer that tells the weather of a city."""
    return (degrees(city),)


def degrees(city: str) -> Rule:
    """Return the rule that the temperature of a city, or its sky, is in the answer."""
    known = load_cities()[city]
    sky = {"sunny": ("sun",), "snow": ("snow",), "rain": ("rain", "umbrella"), "foggy": ("fog",)}
    said = says(*sky.get(known.sky, (known.sky.rstrip("y"),)))
    exact = number(known.celsius)
    return lambda answer: exact(answer) or said(answer)


def clock(city: str) -> Rule:
    """Return the rule that the present time of a city is in the answer."""

    def is_told(answer: str) -> bool:
        now = datetime.now(ZoneInfo(load_cities()[city].zone)).replace(tzinfo=None)
        return any(
            timedelta(minutes=-1) <= now - told <= _SLACK
            for said in _TIME.finditer(answer)
            for told in _times(now, said)
        )

    return is_told


def _times(now: datetime, said: re.Match[str]) -> Sequence[datetime]:
    hour, minute, half = int(said[1]), int(said[2]), said[3]
    if half and hour <= _NOON:
        hour = hour % _NOON + (_NOON if half in "pP" else 0)
    if hour >= 2 * _NOON or minute >= _HOUR:
        return ()
    told = now.replace(hour=hour, minute=minute)
    return (told, told - timedelta(days=1))


def weekday(city: str) -> Rule:
    """Return the rule that the day of the week in a city is in the answer."""
    zone = ZoneInfo(load_cities()[city].zone)

    def is_told(answer: str) -> bool:
        return f"{datetime.now(zone):%A}" in answer

    return is_told


DEVELOPMENT: AskedGroups = {
    "one call": (
        Asked("What is the weather in Oslo?", weather("Oslo")),
        Asked("Is it raining in London right now?", weather("London")),
        Asked("How warm is it in Cairo?", (number(29),)),
        Asked("What time is it in New York?", (clock("New York"),)),
        Asked("What day of the week is it in Seoul now?", (weekday("Seoul"),)),
        Asked("What is 1234 times 5678?", (number(1234 * 5678),)),
        Asked("Compute 17.5 % of 2480.", (number(434),)),
        Asked("What is the square root of 7921?", (number(89),)),
        Asked("How do I require an approval? Look it up.", (says("approv"),)),
        Asked("What do the Wholecall docs say about timeouts?", (says("timeout", "second"),)),
    ),
    "parallel": (
        Asked("What is the weather in Oslo and in Rome?", (degrees("Oslo"), degrees("Rome"))),
        Asked("What time is it in Tokyo and in London?", (clock("Tokyo"), clock("London"))),
        Asked("What are the time and the weather in Paris?", (clock("Paris"), degrees("Paris"))),
        Asked("What is 12 * 13, and what is 99 / 3?", (number(156), number(33))),
        Asked("How warm is Athens, and what is 30 * 9?", (number(21), number(270))),
    ),
    "multi-step": (
        Asked("How many degrees warmer is it in Cairo than in Oslo?", (number(26),)),
        Asked("What is the temperature of Berlin in Fahrenheit?", (number(48.2),)),
        Asked("What is the sum of the temperatures of Tokyo and Paris?", (number(26),)),
        Asked("Multiply the temperature in Lagos by 12.", (number(360),)),
        Asked("Is Lima or Seoul warmer, and by how many degrees?", (says("Lima"), number(12))),
    ),
    ABSTAIN: (
        Asked("Hello! How are you?", (words,)),
        Asked("Translate 'good morning' into French.", (says("bonjour"),)),
        Asked("Who wrote Romeo and Juliet?", (says("Shakespeare"),)),
        Asked("Name three primary colours.", (says("red"), says("blue"))),
        Asked("Thank you, that was all.", (words,)),
    ),
    "unanswerable": (
        Asked("What is the weather in Reykjavik?", (admits,)),
        Asked("What is the share price of Apple right now?", (admits,)),
        Asked("What time is it in Boston?", (admits,)),
    ),
    "German, French": (
        Asked("Wie warm ist es in Rom?", (number(16),)),
        Asked("Quelle heure est-il à Paris ?", (clock("Paris"),)),
    ),
}
"""The questions by which the words of the prompts may be chosen."""

HELD_OUT_ANSWERS: AskedGroups = {
    "one call": (
        Asked("Will I get wet if I go outside in New York now?", (says("rain", "yes"),)),
        Asked("Weather report for Nairobi, please.", weather("Nairobi")),
        Asked("How hot is it in Delhi at the moment?", (number(31),)),
        Asked("Should I wear a coat in Toronto today?", (words, avoids("cannot", "can't"))),
        Asked("What is the temperature in Mexico City?", (number(20),)),
        Asked("Is there snow in Oslo at the moment?", (says("snow", "yes"), avoids("no snow"))),
        Asked("How is the sky over Lagos?", (says("thunder", "storm"),)),
        Asked("Tell me how cold it is in Seoul.", (number(7),)),
        Asked("Is it foggy in Vienna?", (says("fog", "yes"),)),
        Asked("I am going out in Madrid. Do I need sunglasses?", (says("sun", "yes"),)),
        Asked("My friend in Sydney is asleep, I guess. What time is it there?", (clock("Sydney"),)),
        Asked("What does the clock show in Nairobi?", (clock("Nairobi"),)),
        Asked("Current time, Mexico City.", (clock("Mexico City"),)),
        Asked("Which day of the week is it in Tokyo?", (weekday("Tokyo"),)),
        Asked("How late is it in Chicago?", (clock("Chicago"),)),
        Asked("Can you tell me the local time of Buenos Aires?", (clock("Buenos Aires"),)),
        Asked("What time is it now in Cairo?", (clock("Cairo"),)),
        Asked("Give me the exact time in Rome.", (clock("Rome"),)),
        Asked("What do I pay for 17 tickets at 23.50 each?", (number(399.5),)),
        Asked("Multiply 987 by 654.", (number(645498),)),
        Asked("What is 3.5 squared?", (number(12.25),)),
        Asked("How many seconds are 36 hours?", (number(129600),)),
        Asked("What is 2 to the power of 31?", (number(2**31),)),
        Asked("Divide 1000 by 7.", (number(142.857),)),
        Asked("What is the square root of 1849?", (number(43),)),
        Asked("How much is 8 % of 1250?", (number(100),)),
        Asked("Search the docs for streaming.", (says("stream"),)),
        Asked("What does the Wholecall documentation say about keys?", (says("key"),)),
        Asked("Find out from the docs which dialects there are.", (says("dialect"),)),
        Asked("How do I test my own agent with Wholecall? Look it up.", (says("fault", "test"),)),
    ),
    "parallel": (
        Asked("Weather in Madrid and in Vienna?", (degrees("Madrid"), degrees("Vienna"))),
        Asked("What are the times in Lima and Delhi?", (clock("Lima"), clock("Delhi"))),
        Asked("I need the time and the weather of Cairo.", (clock("Cairo"), degrees("Cairo"))),
        Asked("Work out 45 * 19 and 3000 / 8.", (number(855), number(375))),
        Asked("Weather in Athens, and 15 % of 260, please.", (degrees("Athens"), number(39))),
        Asked("Is it warmer in Lagos or in Paris?", (says("Lagos"),)),
        Asked("How warm are Rome, Oslo and Sydney?", (number(16), number(3), number(22))),
        Asked("What is 81 / 9, and what is 14 * 14?", (number(9), number(196))),
        Asked("Tell me the time in Berlin and in Tokyo.", (clock("Berlin"), clock("Tokyo"))),
        Asked("Which is colder, Toronto or Chicago?", (says("Toronto"),)),
        Asked("Weather of London; and what is 2 ** 12?", (degrees("London"), number(4096))),
        Asked("The time in Seoul, and the weather there.", (clock("Seoul"), degrees("Seoul"))),
        Asked("Compute 512 - 77 and 512 + 77.", (number(435), number(589))),
        Asked("Does it rain in London, and in New York?", (says("rain", "yes", "both"),)),
        Asked("Time in Athens, please, and 37 * 21.", (clock("Athens"), number(777))),
    ),
    "multi-step": (
        Asked("How warm is it in Cairo in degrees Fahrenheit?", (number(84.2),)),
        Asked("How much colder is Toronto than Madrid?", (number(13),)),
        Asked("What is the average temperature of Rome and Athens?", (number(18.5),)),
        Asked("Multiply the temperature in Delhi by 45.", (number(1395),)),
        Asked("What is the temperature in Vienna squared?", (number(64),)),
        Asked("Add up the temperatures of Oslo, Seoul and Chicago.", (number(16),)),
        Asked("What is the square root of the temperature in Rome?", (number(4),)),
        Asked("If Athens gets 4 degrees warmer, how warm is it then?", (number(25),)),
        Asked("By how many degrees do London and Lagos differ?", (number(20),)),
        Asked("What is three times the temperature of Nairobi?", (number(69),)),
        Asked("Halve the temperature in Paris.", (number(6),)),
        Asked("What is the temperature in Lima, in Fahrenheit?", (number(66.2),)),
        Asked("Take 15 percent of the temperature in Mexico City.", (number(3),)),
        Asked(
            "Is it warmer in Sydney or in Berlin, and by how much?", (says("Sydney"), number(13))
        ),
        Asked("What is 100 minus the temperature of Buenos Aires?", (number(76),)),
    ),
    ABSTAIN: (
        Asked("Good evening!", (words,)),
        Asked("What is your name?", (words,)),
        Asked("Great, thanks for your help.", (words,)),
        Asked("Tell me a joke about a dog.", (words,)),
        Asked("How do you say 'thank you' in Spanish?", (says("gracias"),)),
        Asked("Who painted the Mona Lisa?", (says("Leonardo", "da Vinci"),)),
        Asked("Which country is Lisbon in?", (says("Portugal"),)),
        Asked("What is the largest planet of the solar system?", (says("Jupiter"),)),
        Asked("Correct the spelling: 'I recieved your leter.'", (says("received your letter"),)),
        Asked("Write a birthday wish for my sister.", (says("birthday"),)),
        Asked("What is photosynthesis?", (says("light", "sun"),)),
        Asked("Give me a word that rhymes with cat.", (says("hat", "bat", "mat", "rat", "sat"),)),
        Asked("Make this sentence polite: 'Give me the salt.'", (says("please", "could", "may"),)),
        Asked("What colour do blue and yellow make?", (says("green"),)),
        Asked("Is a whale a fish?", (says("mammal", "no"),)),
    ),
    "unanswerable": (
        Asked("What is the weather in Dublin?", (admits,)),
        Asked("What time is it in Honolulu?", (admits,)),
        Asked("How warm is it in Lisbon?", (admits,)),
        Asked("Weather in Timbuktu, please.", (admits,)),
        Asked("Is it already tomorrow in Auckland?", (admits,)),
        Asked("What does a litre of milk cost in my shop today?", (admits,)),
        Asked("Who won yesterday's football match?", (admits,)),
        Asked("What is in my calendar for tomorrow?", (admits,)),
        Asked("What is the exchange rate of the euro right now?", (admits,)),
        Asked("What do the Wholecall docs say about baking bread?", (admits,)),
    ),
    "German, French": (
        Asked("Wie ist das Wetter in Wien?", (says("neb", "fog", "8"),)),
        Asked("Wie viel ist 48 mal 52?", (number(2496),)),
        Asked("Wie spät ist es in Tokio?", (clock("Tokyo"),)),
        Asked("Quel temps fait-il à Londres ?", (says("pluie", "pleu", "rain", "10"),)),
        Asked("Combien font 144 divisé par 12 ?", (number(12),)),
    ),
}
"""Questions that no word of a prompt was chosen by."""
