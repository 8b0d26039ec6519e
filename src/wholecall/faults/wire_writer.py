"""What every fault writer shares: frames of a stream, and a script as one whole answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from wholecall.events import JSON
from wholecall.faults.script import (
    AUTO,
    Auto,
    Begin,
    Fail,
    FinishWith,
    Grow,
    Say,
    Seal,
    Spoken,
    Step,
    Think,
)


@dataclass(slots=True, kw_only=True)
class WrittenCall:
    """A call as far as it was written."""

    number: int
    name: str = ""
    id: str | Auto | None = AUTO
    arguments: str | Mapping[str, JSON] = ""
    sealed: bool = False

    def take_name(self, name: str | None) -> None:
        """A server that answers at once joins a split name, and says a repeated one once."""
        if name is not None and name != self.name:
            self.name += name

    def take_arguments(self, arguments: str | Mapping[str, JSON]) -> None:
        """Join text; keep an object as it is."""
        if isinstance(arguments, str) and isinstance(self.arguments, str):
            self.arguments += arguments
        else:
            self.arguments = arguments


@dataclass(slots=True)
class WholeScript:
    """All that the steps say."""

    text: str = ""
    thought: str = ""
    calls: dict[int, WrittenCall] = field(default_factory=dict)
    reason: str | None = None
    error: str | None = None

    def call(self, number: int) -> WrittenCall:
        """The call of this number, which begins when it is first spoken of."""
        return self.calls.setdefault(number, WrittenCall(number=number))

    def take(self, step: Step) -> None:
        """Add what one step says."""
        take = _TAKE.get(type(step))
        if take is not None:
            take(self, step)

    def _begin(self, step: Begin) -> None:
        call = self.call(step.call)
        call.id = step.id
        call.take_name(step.name)
        call.take_arguments(step.arguments)

    def _grow(self, step: Grow) -> None:
        call = self.call(step.call)
        call.take_name(step.name)
        call.take_arguments(step.arguments)

    def _say(self, step: Say) -> None:
        self.text += step.text

    def _think(self, step: Think) -> None:
        self.thought += step.text

    def _seal(self, step: Seal) -> None:
        self.call(step.call).sealed = True

    def _finish(self, step: FinishWith) -> None:
        self.reason = step.reason

    def _fail(self, step: Fail) -> None:
        self.error = step.message


_TAKE: dict[type[Step], Callable[[WholeScript, Any], None]] = {
    Begin: WholeScript._begin,
    Grow: WholeScript._grow,
    Seal: WholeScript._seal,
    Say: WholeScript._say,
    Think: WholeScript._think,
    FinishWith: WholeScript._finish,
    Fail: WholeScript._fail,
}


def fold(steps: Iterable[Step]) -> WholeScript:
    """All that the steps say, as one value."""
    whole = WholeScript()
    for step in steps:
        whole.take(step)
    return whole


def name_id(id: str | Auto | None, *, prefix: str, turn: int, call: int) -> str | None:
    """The id of a call: as the script says, or one that no other call of the script has."""
    return f"{prefix}_{turn}_{call}" if isinstance(id, Auto) else id


def drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields that are to be written at all."""
    return {name: value for name, value in fields.items() if value is not None}


# The interface of every protocol's writer, and the framing of a payload as an event.


CREATED = 1_790_000_000
"""The same time in every answer: two runs of a scenario are the same bytes."""
INPUT_TOKENS = 42
OUTPUT_TOKENS = 17


class FaultWriter(Protocol):
    """Writes one answer in one protocol."""

    def open(self) -> str:
        """Return the beginning of a stream."""

    def write(self, step: Spoken) -> str:
        """One step of a stream."""

    def encode(self, whole: WholeScript) -> Mapping[str, Any]:
        """A whole answer."""


def write_event(payload: Mapping[str, Any], name: str = "") -> str:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n"
