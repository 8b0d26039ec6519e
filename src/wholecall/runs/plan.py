"""What a run is to do, and what it gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from wholecall.core.conversation import Message, Request
from wholecall.core.values import Call, Usage
from wholecall.runs.events import ToolEnded, ToolEndedLate
from wholecall.runs.ledger import Stop
from wholecall.runs.limits import RunLimits
from wholecall.runs.sending import Sender
from wholecall.runs.structured import AnyText, OutputForm
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a stop condition sees after each turn."""

    turns: int
    usage: Usage
    ended: tuple[ToolEnded, ...]
    """Every call of the run so far, with its result."""


StopCondition: TypeAlias = Callable[[Progress], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is to do."""

    request: Request
    upstream: Upstream
    toolbox: Toolbox
    sender: Sender
    limits: RunLimits = field(default_factory=RunLimits)
    stop_when: tuple[StopCondition, ...] = ()
    output: OutputForm = field(default_factory=AnyText)
    continue_text: bool = False
    """Whether a final answer that the output limit cut off is continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a run gave."""

    text: str
    """The final answer. Where a run was stopped and the model gave none: a sentence that says why,
    with the results so far."""
    stop: Stop
    """Why the run ended."""
    no_answer: str = ""
    """Why there is no answer of the model, or none in the form that was asked for; empty if there
    is one. `ask` raises it as a `RunFailed`."""
    output: object = None
    """The final answer in the form that was asked for. None where the run did not come to one:
    it stopped before, or with a last answer or a tool's result that is of another form."""
    messages: tuple[Message, ...] = ()
    """What the run added to the conversation: answers and results."""
    ended: tuple[ToolEnded, ...] = ()
    """Every call that has a result, in the order in which they got it."""
    late: tuple[ToolEndedLate, ...] = ()
    """What tools gave after their calls had timed out, as far as it came before the end."""
    pending: tuple[Call, ...] = ()
    """Calls of tools that only the caller can run."""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
