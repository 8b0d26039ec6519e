"""Calls for tests of the executor, and an ear for its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ElicitationAnswered,
    ElicitationAsked,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolEvent,
    ToolPrinted,
    ToolRecalled,
    ToolReported,
    ToolStarted,
)
from wholecall.events import JSON, Call, Evidence


def make_call(name: str, number: int = 0, **arguments: JSON) -> Call:
    """A whole call with the id `c0`, `c1`, …"""
    return Call(
        id=f"c{number}",
        name=name,
        arguments=arguments,
        raw="{}",
        evidence=Evidence.CONFIRMED,
        number=number,
    )


class Ear:
    """Hears every event of an executor."""

    def __init__(self) -> None:
        self.events: list[ToolEvent] = []

    def __call__(self, event: ToolEvent) -> None:
        self.events.append(event)

    @property
    def words(self) -> list[str]:
        """The events in short: `c0 started`, `c0 reported 1`, `c0 done`."""
        return [_shorten(event) for event in self.events]

    @property
    def ended(self) -> dict[str, Status]:
        """How each call ended."""
        return {
            event.call.id: event.status for event in self.events if isinstance(event, ToolEnded)
        }

    def count(self, kind: type[ToolEvent]) -> int:
        """How many events of this kind there were."""
        return sum(isinstance(event, kind) for event in self.events)


def _shorten(event: ToolEvent) -> str:
    if isinstance(event, ToolEndedLate):
        return f"{event.call.id} {event.status.value} late"
    if isinstance(event, ToolPrinted):
        return f"{event.call.id} printed {event.line}"
    if isinstance(event, ToolRecalled):
        return f"{event.call.id} recalled"
    if isinstance(event, ElicitationAsked):
        return f"{event.call.id} asked the user"
    if isinstance(event, ElicitationAnswered):
        return f"{event.call.id} heard {event.action}"
    return _shorten_usual(event)


def _shorten_usual(
    event: ToolStarted
    | ToolReported
    | ToolEnded
    | ToolAbandoned
    | ApprovalAsked
    | ApprovalAnswered,
) -> str:
    match event:
        case ToolStarted(call, attempt):
            return f"{call.id} started" if attempt == 1 else f"{call.id} started ({attempt})"
        case ToolReported(call_id, progress):
            return f"{call_id} reported {progress}"
        case ToolEnded(call, status):
            return f"{call.id} {status.value}"
        case ToolAbandoned(call):
            return f"{call.id} abandoned"
        case ApprovalAsked(call):
            return f"{call.id} asked"
        case ApprovalAnswered(call, approved):
            return f"{call.id} {'approved' if approved else 'not approved'}"


async def until(holds: Callable[[], object]) -> None:
    """Let the others go on until something holds; a test that waits in vain fails by time."""
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0)
