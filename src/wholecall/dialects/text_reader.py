"""Texts that models wrote, read as answers: shells of a few lines around the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wholecall.arguments.coerce import CoercionOptions
from wholecall.assembly.assembler import Assembler
from wholecall.assembly.outcome import Outcome, collect
from wholecall.dialects.dialect import Dialect, encode_calls, encode_result, template_of
from wholecall.dialects.dialect_registry import dialect_named
from wholecall.dialects.emulation.choice_enforcement import PLANNED, reject
from wholecall.dialects.engine import Engine
from wholecall.dialects.parser_context import Found, Given, Retracted
from wholecall.events import JSON, Event, Opened, Reasoning, Rejected, Released, Terminated, Text
from wholecall.messages import ToolSpec, read_offer


def parse_text(
    dialect: str | Dialect,
    text: str | Iterable[str],
    *,
    tools: Iterable[ToolSpec | Mapping[str, Any]] | None = None,
) -> Outcome:
    """Return what an answer written as text delivers: a whole text, or its pieces.

    ```python
    from wholecall import parse_text

    text = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'
    for call in parse_text("hermes", text).calls:
        print(call.name, call.arguments)
    ```

    ```text
    weather {'city': 'Oslo'}
    ```
    """
    reader = TextReader(dialect, tools)
    events: list[Event] = []
    for piece in [text] if isinstance(text, str) else text:
        events += reader.feed(piece)
    events += reader.end()
    thoughts = (_as_reasoning(event) for event in events[: reader.thoughts])
    return collect([*thoughts, *events[reader.thoughts :]])


def _as_reasoning(event: Event) -> Event:
    return Reasoning(event.text) if isinstance(event, Text) else event


def encode(dialect: str | Dialect, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> str:
    """Calls as a model would write them in this dialect; ValueError if it cannot."""
    return encode_calls(template_of(_declared(dialect)), calls)


def encode_output(dialect: str | Dialect, name: str, *, output: str, id: str = "") -> str:
    """Write the result of a call for a model, in this dialect."""
    return encode_result(template_of(_declared(dialect)), name, output=output, id=id)


def _declared(dialect: str | Dialect) -> Dialect:
    """A dialect by its name, or one that was loaded or learned."""
    return dialect_named(dialect) if isinstance(dialect, str) else dialect


class TextReader:
    """Turns pieces of text into events, by the engine and the assembler."""

    def __init__(
        self, dialect: str | Dialect, tools: Iterable[ToolSpec | Mapping[str, Any]] | None = None
    ) -> None:
        offer = None if tools is None else read_offer(tools)
        declared = _declared(dialect)
        self._engine = Engine(declared, offer)
        # A text is read as it was written: no model would get feedback on what was dropped.
        self._assembler = Assembler(
            None if offer is None else offer.values(),
            coercion=CoercionOptions(keep_unknown=not declared.drops_unknown),
        )
        self._open: set[int] = set()
        self._retracted: set[int] = set()
        self._given = 0
        self.thoughts = 0
        """The number of events before it was known that the prompt had opened the reasoning: their
        text is part of it."""

    def feed(self, text: str) -> list[Event]:
        """Take a piece; return what it brought about."""
        events = self._assemble(self._engine.feed(text))
        self._given += len(events)
        return events

    def end(self) -> list[Event]:
        """The text is over, and it ended well."""
        events = self._assemble(self._engine.end())
        self._assembler.feed(Terminated())
        return events + [self._judge(event) for event in self._assembler.end()]

    def _assemble(self, given: list[Given]) -> list[Event]:
        events: list[Event] = []
        for each in given:
            if isinstance(each, Rejected):
                events.append(each)
            elif isinstance(each, Retracted):
                self._retracted |= self._open
                self.thoughts = self._given + len(events) if each.texts else self.thoughts
            elif not isinstance(each, Found):
                events += map(self._judge, self._assembler.feed(each))
        return events

    def _judge(self, event: Event) -> Event:
        """A call that was only planned is rejected, if it is not released yet."""
        if isinstance(event, Opened):
            self._open.add(event.number)
        elif isinstance(event, Released):
            self._open.discard(event.call.number)
            if event.call.number in self._retracted:
                return reject(event.call, PLANNED)
        return event
