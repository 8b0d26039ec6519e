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
class PageEvent(msgspec.Struct, tag_field="kind", omit_defaults=True, kw_only=True, gc=False):
    """An event of a run."""

    n: int = -1
    """Its place in the run."""
    at: float = -1.0
    """Seconds since the request came."""


# ── The run ─────────────────────────────────────────────────────────────────────────


class PageRun(PageEvent, tag="run", kw_only=True):
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


class PageDropped(PageEvent, tag="dropped"):
    """Events were left out."""

    events: int


class PageOver(PageEvent, tag="over", kw_only=True):
    """Nothing more comes."""

    fate: str
    status: int
    seconds: float
    code: str = ""
    message: str = ""


# ── The upstream ────────────────────────────────────────────────────────────────────


class PageAsked(PageEvent, tag="asked"):
    """The model is asked."""

    left_out: int
    tools: Sequence[str] = ()
    messages: Sequence[dict[str, Any]] = ()


class PageUpstreamRetried(PageEvent, tag="upstream_retried"):
    """It refused, and is asked again."""

    delay: float


class PageAnswered(PageEvent, tag="answered"):
    """Its answer begins."""

    seconds: float


class PageUpstreamFailed(PageEvent, tag="upstream_failed"):
    """It gives no answer."""

    status: int | None
    code: str
    message: str


class PageBegan(PageEvent, tag="began"):
    """The client gets the first bytes."""

    seconds: float
    added: float


# ── Texts ───────────────────────────────────────────────────────────────────────────


class PageGrowing(PageEvent):
    """A piece of a text."""

    number: int
    text: str
    whole: bool = False
    """It takes the place of all that was shown of this text before."""


class PageGrew(PageGrowing, tag="grew"):
    """Of the arguments of a call."""


class PageText(PageGrowing, tag="text"):
    """Of what the model says."""


class PageReasoning(PageGrowing, tag="reasoning"):
    """Of what it thinks."""


# ── Calls ───────────────────────────────────────────────────────────────────────────


class PageOpened(PageEvent, tag="opened"):
    """A call begins."""

    number: int
    id: str = ""
    name: str = ""


class PageProved(PageEvent, tag="proved"):
    """There is evidence that it is whole."""

    number: int
    evidence: Sequence[str]


class PageChange(msgspec.Struct, omit_defaults=True, gc=False):
    """A change of arguments: a repair has a kind, a coercion a path."""

    before: str
    after: str
    kind: str = ""
    path: str = ""


class PageReleased(PageEvent, tag="released", kw_only=True):
    """A call that may run."""

    number: int
    id: str = ""
    name: str = ""
    evidence: Sequence[str] = ()
    characters: int
    raw: str = ""
    arguments: str = ""
    repairs: Sequence[PageChange] = ()
    coercions: Sequence[PageChange] = ()
    dropped: Sequence[str] = ()


class PageProblem(msgspec.Struct, omit_defaults=True, gc=False):
    """One way in which arguments break the schema."""

    kind: str
    path: str = ""
    message: str = ""
    received: str = ""
    expected: str = ""


class PageRejected(PageEvent, tag="rejected", kw_only=True):
    """A draft that did not become a call."""

    number: int
    id: str = ""
    name: str = ""
    reason: str
    detail: str = ""
    characters: int
    raw: str = ""
    problems: Sequence[PageProblem] = ()


class PageRepeated(PageEvent, tag="repeated"):
    """A call that another one said before."""

    number: int
    of: int


# ── Answers ─────────────────────────────────────────────────────────────────────────


class PageUsage(PageEvent, tag="usage"):
    """Tokens."""

    input: int | None = None
    output: int | None = None


class PageHint(PageEvent, tag="hint"):
    """The upstream's finish reason."""

    hint: str
    native: str = ""


class PageOdd(PageEvent, tag="odd"):
    """Something was strange."""

    oddity: str
    detail: str = ""
    number: int | None = None


class PageFault(PageEvent, tag="fault"):
    """Something went wrong with the stream."""

    fault: str
    message: str = ""


class PageEnded(PageEvent, tag="ended"):
    """An answer is over."""

    finish_reason: str | None = None
    native: str = ""
    error: str | None = None


class PageTurn(PageEvent, tag="turn"):
    """A turn begins."""

    turn: int


class PageTurnRetried(PageEvent, tag="turn_retried"):
    """A turn is void."""

    turn: int
    why: str = ""


class PageRunEnded(PageEvent, tag="run_ended"):
    """The run came to its end, and why."""

    stop: str
    no_answer: bool = False
    why: str = ""


# ── Tools ───────────────────────────────────────────────────────────────────────────


class PageOfCall(PageEvent):
    """Something about a call that runs here."""

    id: str = ""
    name: str = ""


class PageToolStarted(PageOfCall, tag="tool_started", kw_only=True):
    """It starts."""

    attempt: int


class PageToolReported(PageEvent, tag="tool_reported"):
    """It tells how far it is."""

    id: str = ""
    progress: str = ""


class PageToolEnded(PageOfCall, tag="tool_ended", kw_only=True):
    """It is over."""

    status: str
    seconds: float
    error: str = ""
    result: str = ""


class PageToolEndedLate(PageOfCall, tag="tool_ended_late", kw_only=True):
    """It is over, long after it was given up."""

    status: str
    seconds: float
    result: str = ""


class PageToolAbandoned(PageOfCall, tag="tool_abandoned"):
    """The run stopped waiting for it."""


class PageApprovalAsked(PageOfCall, tag="approval_asked"):
    """It waits for a person's approval."""


class PageApprovalAnswered(PageOfCall, tag="approval_answered", kw_only=True):
    """A person answered for it."""

    approved: bool
    why: str = ""


AnyPageEvent: TypeAlias = (
    PageRun
    | PageDropped
    | PageOver
    | PageAsked
    | PageUpstreamRetried
    | PageAnswered
    | PageUpstreamFailed
    | PageBegan
    | PageGrew
    | PageText
    | PageReasoning
    | PageOpened
    | PageProved
    | PageReleased
    | PageRejected
    | PageRepeated
    | PageUsage
    | PageHint
    | PageOdd
    | PageFault
    | PageEnded
    | PageTurn
    | PageTurnRetried
    | PageRunEnded
    | PageToolStarted
    | PageToolReported
    | PageToolEnded
    | PageToolEndedLate
    | PageToolAbandoned
    | PageApprovalAsked
    | PageApprovalAnswered
)
"""By which they are read again."""
