"""Requests to emulate, and the answers of an upstream that knows nothing of tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.emulation.emulate import Emulated
from wholecall.events import Delta, Event, Hint, HintGiven, Outcome, Terminated, Text, collect
from wholecall.messages import Choice, Message, Request, Role, ToolSpec

PROMPTED = sorted(name for name, dialect in DIALECTS.items() if dialect.template is not None)
"""Every dialect that has an encoder."""

WEATHER = ToolSpec(
    "weather",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
    "The forecast for a city.",
)
NOW = ToolSpec("now", {"type": "object", "properties": {}}, "The time.")


def ask(
    *messages: Message, tools: Iterable[ToolSpec] = (WEATHER, NOW), choice: Choice | None = None
) -> Request:
    """A request with tools."""
    question = Message(Role.USER, (Text("How is the weather in Oslo?"),))
    return Request(
        model="m",
        messages=messages or (question,),
        tools=tuple(tools),
        choice=choice or Choice(),
    )


def says(role: Role, *parts: Any) -> Message:
    """A message; plain strings are texts."""
    return Message(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))


STOP: Sequence[Delta] = (HintGiven(Hint.STOP, "stop"), Terminated())
LENGTH: Sequence[Delta] = (HintGiven(Hint.LENGTH, "length"), Terminated())


def hear(
    emulated: Emulated, said: str | Iterable[str | Delta], *, ending: Sequence[Delta] = STOP
) -> list[Event]:
    """The events of an answer: texts, or deltas of the upstream among them."""
    numbers = count()
    ids = CallIds(make=lambda: f"new_{next(numbers)}")
    assembler = emulated.new_assembler(within=lambda tools: Assembler(tools, ids=ids))
    pieces = [said] if isinstance(said, str) else said
    deltas = [Text(piece) if isinstance(piece, str) else piece for piece in pieces]
    events = [event for delta in (*deltas, *ending) for event in assembler.feed(delta)]
    return events + assembler.end()


def understand(
    emulated: Emulated, said: str | Iterable[str | Delta], *, ending: Sequence[Delta] = STOP
) -> Outcome:
    """What an answer delivers."""
    return collect(hear(emulated, said, ending=ending))


def calls_of(outcome: Outcome) -> list[tuple[str, dict[str, Any]]]:
    """What may run."""
    return [(call.name, dict(call.arguments)) for call in outcome.calls]
