"""The stored chunks of an answer, each with what was made of it: deltas, and then events.

They are decoded again, as `wholecall check` does it, so the page shows what the chunks themselves
say. Chunks are sent as texts: JavaScript would round their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import msgspec

from wholecall.core.values import Delta, Event, OfChoice, Rejected, Released
from wholecall.core.words import cut
from wholecall.dialects.prompted import assembler_of, read_prompted
from wholecall.dialects.rescuing import RescuingAssembler
from wholecall.errors import WholecallError
from wholecall.inspector.encoding import Fields
from wholecall.protocols.reader import Reader, Tools, TurnAssembler

MOST_CHUNKS = 2000
"""Of one answer that are shown. Its export has all of them."""
_LONGEST = 300
"""Characters of one value."""


class _Case(msgspec.Struct):
    protocol: str
    events: list[msgspec.Raw] | None = None
    response: msgspec.Raw = msgspec.Raw(b"{}")
    pauses: list[float] = []
    tools: list[dict[str, Any]] | None = None
    dialect: str = ""
    tool_choice: Any = None
    parallel_tool_calls: bool = True
    beginning: str = ""


class _Step(NamedTuple):
    chunk: str
    at: float
    feed: Callable[[], list[Event]]


def decode_case(case: str) -> Fields:
    """The chunks of a case, with their deltas and events."""
    read = msgspec.json.decode(case, type=_Case)
    listening = _Listening(read)
    steps = _list_steps(read, listening.reader)
    told = [listening.tell(step) for step in steps[:MOST_CHUNKS]]
    left_out = len(steps) - len(told)
    if not left_out:
        end = _Step("", told[-1]["at"] if told else 0.0, listening.reader.end)
        told.append({**listening.tell(end), "end": True})
    return {"protocol": read.protocol, "chunks": told, "left_out": left_out}


def _list_steps(case: _Case, reader: Reader) -> Sequence[_Step]:
    if case.events is None:
        body = bytes(case.response).decode()
        return [_Step(body, 0.0, lambda: reader.feed_response(json.loads(body)))]
    at, steps = 0.0, []
    for number, raw in enumerate(case.events):
        at += case.pauses[number] if number < len(case.pauses) else 0.0
        chunk = json.loads(bytes(raw))
        text = chunk if isinstance(chunk, str) else bytes(raw).decode()
        steps.append(_Step(text, round(at, 4), partial(reader.feed, chunk)))
    return steps


class _Listening:
    """A reader whose deltas are noted on their way."""

    def __init__(self, case: _Case) -> None:
        self._deltas: list[str] = []
        prompted = read_prompted(msgspec.structs.asdict(case), case.tools or ())
        self._within = RescuingAssembler if prompted is None else assembler_of(prompted)
        self.reader = Reader(case.protocol, case.tools, new_assembler=self._make_assembler)

    def tell(self, step: _Step) -> Fields:
        """Return what one chunk brought about."""
        try:
            events = [_describe(event) for event in step.feed()]
        except (WholecallError, ValueError) as error:  # a body that the proxy refused as well
            events = [str(error)]
        deltas = self._deltas[:]
        self._deltas.clear()
        return {"at": step.at, "text": step.chunk, "deltas": deltas, "events": events}

    def _make_assembler(self, tools: Tools | None) -> _Noting:
        return _Noting(self._within(tools), self._deltas)


class _Noting:
    def __init__(self, assembler: TurnAssembler, deltas: list[str]) -> None:
        self._assembler = assembler
        self._deltas = deltas

    def feed(self, delta: Delta) -> list[Event]:
        self._deltas.append(_describe(delta))
        return self._assembler.feed(delta)

    def end(self) -> list[Event]:
        return self._assembler.end()


def _describe(value: Delta | Event | OfChoice[Any]) -> str:
    """A delta or an event in a line: its kind, and what it says."""
    match value:
        case OfChoice(choice=choice, value=inner):
            return f"choice {choice}: {_describe(inner)}"
        case Released(call=call):
            return f"Released {call.name} {cut(call.raw, _LONGEST)}"
        case Rejected():
            said = f"Rejected {value.name or ''} {value.reason.value}: {value.detail}"
            return cut(said, _LONGEST)
        case _:
            return " ".join([type(value).__name__, *_list_fields(value)])


def _list_fields(value: msgspec.Struct) -> Iterable[str]:
    for field in msgspec.structs.fields(value):
        said = getattr(value, field.name)
        if said is not None and said is not False and said != {}:  # 0 says something
            yield f"{field.name}={_write(said)}"


def _write(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.name)
    return cut(repr(value), _LONGEST)
