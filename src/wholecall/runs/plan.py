"""The plan and the result of a run."""

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
    """The input of a stop condition after each turn."""

    turns: int
    usage: Usage
    ended: tuple[ToolEnded, ...]
    """Every call of the run so far, with its result."""


StopCondition: TypeAlias = Callable[[Progress], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run."""

    request: Request
    upstream: Upstream
    toolbox: Toolbox
    sender: Sender
    limits: RunLimits = field(default_factory=RunLimits)
    stop_when: tuple[StopCondition, ...] = ()
    output: OutputForm = field(default_factory=AnyText)
    continue_text: bool = False
    """Continue a final answer that the output limit cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run."""

    text: str
    """The final answer. Where a run was stopped and the model gave none: a sentence that says why,
    with the results so far."""
    stop: Stop
    """The reason why the run ended."""
    no_answer: str = ""
    """Why there is no answer of the model, or none in the form that was asked for; empty if there
    is one. `ask` raises it as a `RunFailed`."""
    output: object = None
    """The final answer in the requested form. None if the run did not produce one: it stopped
    before, or with a last answer or a tool's result of another form."""
    messages: tuple[Message, ...] = ()
    """The messages that the run added to the conversation: answers and results."""
    ended: tuple[ToolEnded, ...] = ()
    """Every call that has a result, in the order in which they got it."""
    late: tuple[ToolEndedLate, ...] = ()
    """What tools gave after their calls had timed out, as far as it came before the end."""
    pending: tuple[Call, ...] = ()
    """Calls of tools that only the caller can run."""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
