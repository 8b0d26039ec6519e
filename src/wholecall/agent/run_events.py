"""The events of a run, in addition to those of its turns."""

from __future__ import annotations

import enum
from typing import TypeAlias

from wholecall.agent.budget import Stop
from wholecall.events import JSON, Call, Event, Value
from wholecall.messages import Result


class Status(enum.Enum):
    """The outcome of a call."""

    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    DENIED = "denied"
    SKIPPED = "skipped"
    """It was not begun: a limit, a cancelled run, an identical call too often."""
    CANCELLED = "cancelled"
    """It was begun and then broken off."""
    UNKNOWN = "unknown"
    """It was begun, and a crash hides what it did."""


class TurnStarted(Value, frozen=True):
    """The model is asked."""

    turn: int


class TurnRetried(Value, frozen=True):
    """The answer to this turn is requested again; what came of it is void."""

    turn: int
    why: str


class RunEnded(Value, frozen=True):
    """The run is over. One that fails raises instead."""

    stop: Stop
    no_answer: str = ""
    """The reason why the model gave no answer; empty if it gave one."""


class ToolStarted(Value, frozen=True):
    """A call began to run. Each call is begun at most once, unless its tool allows retries."""

    call: Call
    attempt: int = 1


class Resumed(Value, frozen=True):
    """A durable run was restored and continues."""

    turn: int
    """The number of the turn with which it continues."""
    worker: str = ""
    before: str = ""
    """The worker that it was taken from."""


class ToolRecalled(Value, frozen=True):
    """A call of a restored run has its result in the journal, and does not run again."""

    call: Call
    status: Status


class ToolReported(Value, frozen=True):
    """A tool reported its progress."""

    call_id: str
    progress: JSON


class ToolEnded(Value, frozen=True):
    """A call has its one result."""

    call: Call
    status: Status
    result: Result
    seconds: float = 0.0
    error: BaseException | None = None
    """The tool's exception, for logs. The model reads only what is in the result."""
    blocked: float = 0.0
    """Seconds for which an `async def` tool kept the event loop from everybody else."""


class ToolEndedLate(Value, frozen=True):
    """The late end of a tool whose call has timed out. The model is informed of it."""

    call: Call
    status: Status
    result: Result
    seconds: float = 0.0
    """Since it began."""
    error: BaseException | None = None


class ToolPrinted(Value, frozen=True):
    """A tool printed a line. Only a server takes what tools print; in a program it stays output."""

    call: Call
    line: str


class ToolAbandoned(Value, frozen=True):
    """A tool was cancelled and still runs. The run stopped waiting for it."""

    call: Call


class ApprovalAsked(Value, frozen=True):
    """A call waits for `approvals.answer(call.id, …)`."""

    call: Call


class ApprovalAnswered(Value, frozen=True):
    """A call was approved or denied, or timed out."""

    call: Call
    approved: bool
    why: str = ""


class ElicitationAsked(Value, frozen=True):
    """A tool asks the user something before it can go on."""

    call: Call
    server: str
    message: str


class ElicitationAnswered(Value, frozen=True):
    """The user answered, or did not."""

    call: Call
    action: str
    """`accept`, `decline`, `cancel`."""


ToolEvent: TypeAlias = (
    ToolStarted
    | ToolReported
    | ToolPrinted
    | ToolEnded
    | ToolEndedLate
    | ToolAbandoned
    | ToolRecalled
    | ApprovalAsked
    | ApprovalAnswered
    | ElicitationAsked
    | ElicitationAnswered
)
RunEvent: TypeAlias = Event | TurnStarted | TurnRetried | ToolEvent | Resumed | RunEnded
