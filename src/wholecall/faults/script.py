"""The actions of an upstream, turn by turn, in any protocol.

An answer is a list of steps. Most of them say something in the protocol's own words (a call begins,
a call grows); some are acts of the connection (it drops, it hangs). The files in `wire/` write the
steps in one protocol each, `fault_server.py` puts them on the wire.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from wholecall.events import JSON


class Auto(enum.Enum):
    """A field that is written as the protocol wants it."""

    AUTO = "auto"


AUTO = Auto.AUTO

# ── What is said ────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Say:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Think:
    """A piece of reasoning."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """A call begins. `None` leaves a field out of the wire."""

    call: int = 0
    """The call's position in the answer, from 0."""
    name: str | None = None
    id: str | Auto | None = AUTO
    index: int | Auto | None = AUTO
    arguments: str | Mapping[str, JSON] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """A call grows by a piece of its arguments. Id and name come again only if given."""

    call: int = 0
    arguments: str = ""
    id: str | Auto | None = None
    name: str | None = None
    index: int | Auto | None = AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """A call is over, where the protocol has a word for it."""

    call: int = 0


@dataclass(frozen=True, slots=True)
class FinishWith:
    """The finish reason, in OpenAI's words; an unknown word is written as it is."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class CountTokens:
    """The usage, in a chunk of its own where the protocol has that."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """The protocol's own end: `[DONE]`, `message_stop`, `response.completed`."""


@dataclass(frozen=True, slots=True)
class Fail:
    """An error object inside the answer, after a status of 200."""

    message: str = "the model is overloaded"


@dataclass(frozen=True, slots=True)
class Raw:
    """Text of a stream that no protocol would write. A whole answer goes without it."""

    text: str


Spoken: TypeAlias = (
    Say | Think | Begin | Grow | Seal | FinishWith | CountTokens | Terminate | Fail | Raw
)

# ── What the connection does ────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Pause:
    """A moment passes before the next step."""

    seconds: float = 0.01


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing more comes, and the connection stays open (up to the server's limit)."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The answer ends here, and HTTP says that it is complete."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset."""


Act: TypeAlias = Hang | Drop | Reset
Step: TypeAlias = Spoken | Pause | Act


# ── Answers, turns, scenarios ───────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptAnswer:
    """The upstream's answer to one request."""

    steps: tuple[Step, ...] = ()
    status: int = 200
    """Any status other than 200 is an error in the protocol's form, without steps."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    """Instead of an answer, something else altogether: a page of a proxy."""
    newline: str = "\n"
    """The line ending of the stream."""
    cut: int | None = None
    """Bytes of one write, so that characters are cut in two; None: one write a step."""


Answers: TypeAlias = tuple[ScriptAnswer, ...]
"""The answers to the first, the second … request with the same history; the last repeats."""


class ToolRun(NamedTuple):
    """A tool that ran, with its arguments."""

    tool: str
    arguments: Mapping[str, JSON]


class Form(NamedTuple):
    """The requested form of an answer."""

    protocol: str
    streamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The safe outcome."""

    runs: tuple[ToolRun, ...] = ()
    """Exactly what may run in all turns together, in call order."""
    first: tuple[ToolRun, ...] | None = None
    """The calls of the very first answer that may run; None: the same as `runs`."""
    instead: tuple[ToolRun, ...] = ()
    """Calls that are as safe as the ones in `runs`, for agents that are less strict."""
    error: bool = False
    """True if the run rightly ends in an error instead of an answer."""
    may_give_up: bool = False
    """True if an agent that stops with an error instead is as safe."""


PROTOCOLS = ("openai-chat", "openai-responses", "anthropic")
FINAL_TEXT = "All done."


def forms(
    protocols: Iterable[str] = PROTOCOLS, *, streamed: Iterable[bool] = (True, False)
) -> frozenset[Form]:
    """Return the forms of these protocols, streamed and whole unless only one is requested."""
    kinds = tuple(streamed)
    return frozenset(Form(protocol, kind) for protocol in protocols for kind in kinds)


EVERYWHERE = forms()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way in which an upstream behaves, and what is safe to do then."""

    name: str
    sentence: str
    turns: tuple[Answers, ...]
    expected: Expected
    differs: Mapping[Form, Expected] = field(default_factory=dict)
    """Expectations that depend on the form of the answer."""
    forms: frozenset[Form] = EVERYWHERE
    """The forms in which it can happen."""
    closing: ScriptAnswer | None = None
    """The answer once tools are not offered any more; until then the last turn is repeated."""
    text: str = FINAL_TEXT
    """The answer that the run comes to, unless it ends in an error."""
    refuses_choice: bool = False
    """A request that forces a call is answered by a 400."""
    prompt: str = "Do what is needed, then say that all is done."

    def expect(self, form: Form) -> Expected:
        """The safe outcome in this form."""
        return self.differs.get(form, self.expected)

    def first_runs(self, form: Form) -> tuple[ToolRun, ...]:
        """Return the calls of the very first answer that may run."""
        expected = self.expect(form)
        return expected.runs if expected.first is None else expected.first

    @property
    def expected_runs(self) -> tuple[ToolRun, ...]:
        """Exactly what may run, unless the form differs."""
        return self.expected.runs

    @property
    def ends_in_error(self) -> bool:
        """True if the run rightly ends in an error, unless the form differs."""
        return self.expected.error

    @property
    def final_text(self) -> str | None:
        """The answer that the run comes to, if it does."""
        return None if self.expected.error else self.text

    def answer(self, turn: int, attempt: int, *, offers_tools: bool = True) -> ScriptAnswer:
        """The answer to one request. Beyond the script, its last line is said again."""
        if self.closing is not None and not offers_tools:
            return self.closing
        answers = self.turns[min(turn, len(self.turns) - 1)]
        return answers[min(attempt, len(answers) - 1)]
