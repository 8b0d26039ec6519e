"""The page's events: a struct for each kind.

They are written as JSON to the page and as MessagePack into the file, and empty fields are omitted:
a field with its default, so sequences are tuples. Each run has about ten of them, which are rarely
viewed. Creating a struct costs half as much as a dictionary, and omitting empty fields costs
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec


# They refer to nothing that refers back, so the collector need not look at them.
class Shown(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True, gc=False):
    """An event of a run."""

    n: int = -1
    """Its place in the run."""
    at: float = -1.0
    """Seconds since the request came."""


# ── The run ─────────────────────────────────────────────────────────────────────────


class Run(Shown, tag="run", kw_only=True):
    """A run begins: all that is known of it does not change any more."""

    id: str
    began: float
    """In seconds since 1970."""
    request_id: str
    model: str
    protocol: str
    upstream: str
    upstream_model: str
    way: str
    stream: bool
    bodies: bool


class Dropped(Shown, tag="dropped"):
    """Events were left out."""

    events: int


class Over(Shown, tag="over", kw_only=True):
    """Nothing more comes."""

    fate: str
    status: int
    seconds: float
    code: str = ""
    message: str = ""


# ── The upstream ────────────────────────────────────────────────────────────────────


class Asked(Shown, tag="asked"):
    """The model is asked."""

    left_out: int
    tools: Sequence[str] = ()
    messages: Sequence[dict[str, Any]] = ()


class UpstreamRetried(Shown, tag="upstream_retried"):
    """It refused, and is asked again."""

    delay: float


class Answered(Shown, tag="answered"):
    """Its answer begins."""

    seconds: float


class UpstreamFailed(Shown, tag="upstream_failed"):
    """It gives no answer."""

    status: int | None
    code: str
    message: str


class Began(Shown, tag="began"):
    """The client gets the first bytes."""

    seconds: float
    added: float


# ── Texts ───────────────────────────────────────────────────────────────────────────


class Growing(Shown):
    """A piece of a text."""

    number: int
    text: str
    whole: bool = False
    """It takes the place of all that was shown of this text before."""


class Grew(Growing, tag="grew"):
    """Of the arguments of a call."""


class Text(Growing, tag="text"):
    """Of what the model says."""


class Reasoning(Growing, tag="reasoning"):
    """Of what it thinks."""


# ── Calls ───────────────────────────────────────────────────────────────────────────


class Opened(Shown, tag="opened"):
    """A call begins."""

    number: int
    id: str = ""
    name: str = ""


class Proved(Shown, tag="proved"):
    """There is evidence that it is whole."""

    number: int
    evidence: Sequence[str]


class Change(msgspec.Struct, omit_defaults=True, gc=False):
    """A change of arguments: a repair has a kind, a coercion a path."""

    before: str
    after: str
    kind: str = ""
    path: str = ""


class Released(Shown, tag="released", kw_only=True):
    """A call that may run."""

    number: int
    id: str = ""
    name: str = ""
    evidence: Sequence[str] = ()
    characters: int
    raw: str = ""
    arguments: str = ""
    repairs: Sequence[Change] = ()
    coercions: Sequence[Change] = ()
    dropped: Sequence[str] = ()


class Problem(msgspec.Struct, omit_defaults=True, gc=False):
    """One way in which arguments break the schema."""

    kind: str
    path: str = ""
    message: str = ""
    received: str = ""
    expected: str = ""


class Rejected(Shown, tag="rejected", kw_only=True):
    """A draft that did not become a call."""

    number: int
    id: str = ""
    name: str = ""
    reason: str
    detail: str = ""
    characters: int
    raw: str = ""
    problems: Sequence[Problem] = ()


class Repeated(Shown, tag="repeated"):
    """A call that another one said before."""

    number: int
    of: int


# ── Answers ─────────────────────────────────────────────────────────────────────────


class Usage(Shown, tag="usage"):
    """Tokens."""

    input: int | None = None
    output: int | None = None


class Hint(Shown, tag="hint"):
    """The upstream's finish reason."""

    hint: str
    native: str = ""


class Odd(Shown, tag="odd"):
    """Something was strange."""

    oddity: str
    detail: str = ""
    number: int | None = None


class Fault(Shown, tag="fault"):
    """Something went wrong with the stream."""

    fault: str
    message: str = ""


class Ended(Shown, tag="ended"):
    """An answer is over."""

    finish_reason: str | None = None
    native: str = ""
    error: str | None = None


class Turn(Shown, tag="turn"):
    """A turn begins."""

    turn: int


class TurnRetried(Shown, tag="turn_retried"):
    """A turn is void."""

    turn: int
    why: str = ""


class RunEnded(Shown, tag="run_ended"):
    """The run came to its end, and why."""

    stop: str
    no_answer: bool = False
    why: str = ""


# ── Tools ───────────────────────────────────────────────────────────────────────────


class OfCall(Shown):
    """Something about a call that runs here."""

    id: str = ""
    name: str = ""


class ToolStarted(OfCall, tag="tool_started", kw_only=True):
    """It starts."""

    attempt: int


class ToolReported(Shown, tag="tool_reported"):
    """It tells how far it is."""

    id: str = ""
    progress: str = ""


class ToolEnded(OfCall, tag="tool_ended", kw_only=True):
    """It is over."""

    status: str
    seconds: float
    error: str = ""
    result: str = ""


class ToolEndedLate(OfCall, tag="tool_ended_late", kw_only=True):
    """It is over, long after it was given up."""

    status: str
    seconds: float
    result: str = ""


class ToolAbandoned(OfCall, tag="tool_abandoned"):
    """The run stopped waiting for it."""


class ApprovalAsked(OfCall, tag="approval_asked"):
    """It waits for a person's approval."""


class ApprovalAnswered(OfCall, tag="approval_answered", kw_only=True):
    """A person answered for it."""

    approved: bool
    why: str = ""


AnyShown: TypeAlias = (
    Run
    | Dropped
    | Over
    | Asked
    | UpstreamRetried
    | Answered
    | UpstreamFailed
    | Began
    | Grew
    | Text
    | Reasoning
    | Opened
    | Proved
    | Released
    | Rejected
    | Repeated
    | Usage
    | Hint
    | Odd
    | Fault
    | Ended
    | Turn
    | TurnRetried
    | RunEnded
    | ToolStarted
    | ToolReported
    | ToolEnded
    | ToolEndedLate
    | ToolAbandoned
    | ApprovalAsked
    | ApprovalAnswered
)
"""By which they are read again."""
