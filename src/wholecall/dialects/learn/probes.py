"""Conversations that a chat template is asked to render, and how renderings are compared."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product, takewhile
from typing import TypeAlias

from wholecall.dialects.dialect import Grammar, GrammarWithOpeners, Template
from wholecall.errors import UnusableDialect
from wholecall.events import JSON

_MARK = re.compile(r"<[^<>\n]{1,64}>|\[/?[A-Z_]{2,32}\]")
_WORD = re.compile(rf"{_MARK.pattern}|.", re.DOTALL)


def words_of(text: str) -> list[str]:
    """The text in words: marks, and single characters."""
    return _WORD.findall(text)


def marks_in(text: str) -> list[str]:
    """The marks that stand in a text."""
    return _MARK.findall(text)


def common_prefix(first: str, second: str) -> str:
    """Return the common prefix of two texts."""
    pairs = zip(words_of(first), words_of(second), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def common_suffix(first: str, second: str) -> str:
    """Return the common suffix of two texts."""
    pairs = zip(reversed(words_of(first)), reversed(words_of(second)), strict=False)
    same = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "".join(reversed(same))


def split_at(text: str, *words: str) -> list[str]:
    """The text before, between and after words that stand in it in this order."""
    pieces = []
    for word in words:
        before, found, text = text.partition(word)
        if not found:
            raise UnusableDialect(f"the template does not write {word!r} where a call stands")
        pieces.append(before)
    return [*pieces, text]


def between_calls(head: str, tail: str, *, middle: str) -> tuple[str, str, str]:
    """Return what opens each call, what closes each, and what separates two.

    `head` precedes the first call, `middle` separates two, `tail` follows the last: the common
    suffix of `middle` and `head` opens every call, the common prefix of `middle` and `tail` closes
    it.
    """
    opening = common_suffix(head, middle)
    rest = middle[: len(middle) - len(opening)]
    closing = common_prefix(rest, tail)
    return opening, closing, rest[len(closing) :]


# The result of learning a family: how calls are read, and how they are written.


@dataclass(frozen=True, slots=True, kw_only=True)
class CallShape:
    """The part of a dialect that is about calls."""

    template: Template
    written: tuple[GrammarWithOpeners, ...] = ()
    bare: tuple[Grammar, ...] = ()
    dropped: tuple[str, ...] = ()


def present(*marks: str) -> tuple[str, ...]:
    """Those marks that are more than white space, without the space around them."""
    return tuple(mark.strip() for mark in marks if mark.strip())


# The conversations that a chat template renders, and the words that are searched in the result.
#
# All words are made up, so that each occurs in a rendering only where it was put.


Message: TypeAlias = dict[str, JSON]

NAMES = ("zqfind", "zqsend")
KEYS = ("zqplace", "zqtopic")
VALUES = ("zqparis", "zqriver")
OTHER_VALUE = "zqlisbon"
CALLS: tuple[tuple[str, dict[str, JSON]], ...] = (
    (NAMES[0], dict(zip(KEYS, VALUES, strict=True))),
    (NAMES[1], {KEYS[0]: OTHER_VALUE}),
)
IDS = ("zqid00001", "zqid00002")  # nine letters and digits, as Mistral's templates demand
TEXT = "¤zqtext¤"
THOUGHT = "¤zqthought¤"
OUTPUT = "¤zqoutput¤"
TOOLS: list[JSON] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string", "description": "A text."} for key in KEYS},
                "required": [],
            },
        },
    }
    for name in NAMES
]


class Probe(enum.Enum):
    """One conversation."""

    QUESTION = "a question"
    PROMPT = "a question that is to be answered"
    TEXT = "an answer in words"
    THOUGHT = "an answer after reasoning"
    ONE = "an answer that calls a tool"
    TWO = "an answer that calls two tools"
    RESULT = "a call and its result"
    TOLD = "a call, and a user who tells its result"


@dataclass(frozen=True, slots=True)
class Manner:
    """The form in which calls are handed to a template: templates differ in what they expect."""

    as_text: bool = False
    """Arguments as JSON text instead of an object."""
    empty: str | None = ""
    """The content of a message that only calls."""
    counted: bool = False
    """Ids like `functions.zqfind:0`, which some templates write in the place of the name."""


MANNERS = tuple(
    Manner(as_text, empty, counted)
    for counted, as_text, empty in product((False, True), (False, True), ("", None))
)


def conversations(manner: Manner) -> dict[Probe, list[Message]]:
    """Return the conversations to render."""
    user: Message = {"role": "user", "content": "zqhello"}
    answer: Message = {"role": "assistant", "content": TEXT}
    one, two = _calling(manner, 1), _calling(manner, 2)
    thought = {**answer, "reasoning_content": THOUGHT, "reasoning": THOUGHT, "thinking": THOUGHT}
    id = _id(manner, 0)
    result: Message = {"role": "tool", "content": OUTPUT, "name": NAMES[0], "tool_call_id": id}
    return {
        Probe.QUESTION: [user],
        Probe.PROMPT: [user],
        Probe.TEXT: [user, answer],
        Probe.THOUGHT: [user, {**thought}],
        Probe.ONE: [user, one],
        Probe.TWO: [user, two],
        Probe.RESULT: [user, one, result],
        Probe.TOLD: [user, one, {"role": "user", "content": OUTPUT}],
    }


def _calling(manner: Manner, count: int) -> Message:
    calls: list[JSON] = [
        {
            "id": _id(manner, index),
            "type": "function",
            "function": {"name": name, "arguments": _arguments(manner, arguments)},
        }
        for index, (name, arguments) in enumerate(CALLS[:count])
    ]
    return {"role": "assistant", "content": manner.empty, "tool_calls": calls}


def _id(manner: Manner, index: int) -> str:
    return f"functions.{NAMES[index]}:{index}" if manner.counted else IDS[index]


def _arguments(manner: Manner, arguments: Mapping[str, JSON]) -> JSON:
    return json.dumps(arguments) if manner.as_text else dict(arguments)
