"""A script as one whole answer, for requests that do not ask for a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wholecall.core.values import JSON
from wholecall.faults.script import (
    AUTO,
    Auto,
    Begin,
    Fail,
    Finish,
    Grow,
    Say,
    Seal,
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
class Whole:
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

    def _finish(self, step: Finish) -> None:
        self.reason = step.reason

    def _fail(self, step: Fail) -> None:
        self.error = step.message


_TAKE: dict[type[Step], Callable[[Whole, Any], None]] = {
    Begin: Whole._begin,
    Grow: Whole._grow,
    Seal: Whole._seal,
    Say: Whole._say,
    Think: Whole._think,
    Finish: Whole._finish,
    Fail: Whole._fail,
}


def fold(steps: Iterable[Step]) -> Whole:
    """All that the steps say, as one value."""
    whole = Whole()
    for step in steps:
        whole.take(step)
    return whole


def name_id(id: str | Auto | None, *, prefix: str, turn: int, call: int) -> str | None:
    """The id of a call: as the script says, or one that no other call of the script has."""
    return f"{prefix}_{turn}_{call}" if isinstance(id, Auto) else id


def drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields that are to be written at all."""
    return {name: value for name, value in fields.items() if value is not None}
