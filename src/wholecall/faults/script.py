"""The actions of an upstream, turn by turn, in any protocol.

An answer is a list of steps. Most of them say something in the protocol's own words (a call begins,
a call grows); some are acts of the connection (it drops, it hangs). The wire files write the
steps in one protocol each, `fault_server.py` puts them on the wire. The phrases that scenarios are
made of and the four tools that they assume are here, too.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

from wholecall.assembly.json_scanner import same_json
from wholecall.events import JSON, Start
from wholecall.messages import ToolSpec


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
    """Instead of an answer, something else altogether: a page of a proxy. The message of an error,
    if the status is one."""
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


def is_same(run: ToolRun, other: ToolRun) -> bool:
    """Return True if two runs are of the same tool with the same arguments."""
    return run.tool == other.tool and same_json(run.arguments, other.arguments)


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


# ── The four tools ─────────────────────────────────────────────────────────────────────


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


def _object(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "get_weather",
        _object(
            ["city"],
            city=_text("Name of the city."),
            unit={"type": "string", "enum": ["C", "F"]},
            days={"type": "integer", "description": "Days of forecast."},
        ),
        "Current weather of a city. It only reads.",
        Start.CLOSED,
    ),
    ToolSpec(
        "send_email",
        _object(["to", "body"], to=_text("Address."), body=_text("Text of the message.")),
        "Send an email. It cannot be undone.",
    ),
    ToolSpec("list_items", _object([]), "List all items. It only reads.", Start.CLOSED),
    ToolSpec(
        "write_file",
        {
            **_object(
                ["path"], path=_text("Where."), content=_text("The text; empty if left out.")
            ),
            "additionalProperties": False,
        },
        "Write a file; what was in it is lost.",
    ),
)
READ_ONLY = frozenset(tool.name for tool in TOOLS if tool.start is Start.CLOSED)


def _define_chat(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": _fields(tool)}


def _define_responses(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", **_fields(tool)}


def _define_anthropic(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def _fields(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}


_DEFINE: dict[str, Callable[[ToolSpec], dict[str, Any]]] = {
    "openai-chat": _define_chat,
    "openai-responses": _define_responses,
    "anthropic": _define_anthropic,
}


def definitions(protocol: str) -> list[dict[str, Any]]:
    """The four tools as a request in this protocol offers them."""
    return [_DEFINE[protocol](tool) for tool in TOOLS]


# ── The phrases of scenarios ───────────────────────────────────────────────────────────

# ── Calls that the model wants to make ──────────────────────────────────────────────

OSLO = ToolRun("get_weather", {"city": "Oslo", "unit": "C"})
ROME = ToolRun("get_weather", {"city": "Rome", "unit": "C"})
ITEMS = ToolRun("list_items", {})
MAIL = ToolRun("send_email", {"to": "ada@example.org", "body": "Dinner is at eight."})
OTHER_MAIL = ToolRun("send_email", {"to": "bob@example.org", "body": "Dinner is at nine."})
FILE = ToolRun("write_file", {"path": "notes.txt", "content": "hello world, and good night"})
SHORT_FILE = ToolRun("write_file", {"path": "notes.txt", "content": "hello"})

# ── Forms ───────────────────────────────────────────────────────────────────────────

CHAT = forms(["openai-chat"])
STREAMED = forms(streamed=[True])
CHAT_STREAMED = forms(["openai-chat"], streamed=[True])
ANTHROPIC_WHOLE = Form("anthropic", False)
TEXTUAL = forms() - {ANTHROPIC_WHOLE}
"""Forms with textual arguments. Anthropic's whole answers hold an object, made by the server."""

# ── Steps ───────────────────────────────────────────────────────────────────────────


def write(run: ToolRun) -> str:
    """The arguments of a call as a model writes them."""
    return json.dumps(run.arguments, ensure_ascii=False)


def split(text: str, pieces: int = 4) -> list[str]:
    """A text in about so many pieces."""
    size = max(1, -(-len(text) // pieces))
    cuts = [*range(0, len(text), size), len(text)]
    return [text[begin:end] for begin, end in pairwise(cuts)]


def call(run: ToolRun, number: int = 0, *, text: str | None = None) -> tuple[Step, ...]:
    """A whole call, in pieces. `text` is how its arguments are written instead."""
    return (*open_call(run, number, text=text), Seal(call=number))


def open_call(run: ToolRun, number: int = 0, *, text: str | None = None) -> tuple[Step, ...]:
    """A call whose end has not come."""
    pieces = split(write(run) if text is None else text)
    grown = (Grow(call=number, arguments=piece) for piece in pieces)
    return (Begin(call=number, name=run.tool), *grown)


def cut_call(run: ToolRun, after: str, *, number: int = 0) -> tuple[Step, ...]:
    """A call that was cut off after a certain text."""
    text = write(run)
    return open_call(run, number, text=text[: text.index(after) + len(after)])


def address(
    steps: Iterable[Step], *, index: int | Auto | None = AUTO, id: str | Auto | None = AUTO
) -> tuple[Step, ...]:
    """The same steps under another index; with another id where they begin a call."""
    return tuple(_address(step, index=index, id=id) for step in steps)


def _address(step: Step, *, index: int | Auto | None, id: str | Auto | None) -> Step:
    if isinstance(step, Begin):
        return replace(step, index=index, id=id)
    return replace(step, index=index) if isinstance(step, Grow) else step


# ── Answers ─────────────────────────────────────────────────────────────────────────


def answer(*steps: Step, reason: str | None = "tool_calls") -> ScriptAnswer:
    """An answer that comes to its end."""
    return ScriptAnswer(steps=(*steps, FinishWith(reason), Terminate()))


def calls(*runs: ToolRun) -> ScriptAnswer:
    """An answer that makes these calls and is right in every way."""
    return answer(*(step for number, run in enumerate(runs) for step in call(run, number)))


FINAL = answer(Say(FINAL_TEXT), reason="stop")


def one_turn(*steps: Step, reason: str | None = "tool_calls") -> tuple[Answers, ...]:
    """One answer, and the final one after the results of its calls."""
    return exactly(*steps, FinishWith(reason), Terminate())


def corrected(wrong: ScriptAnswer, right: ToolRun) -> tuple[Answers, ...]:
    """A wrong answer; after feedback the model makes the right call."""
    return ((wrong,), (calls(right),), (FINAL,))


def exactly(*steps: Step) -> tuple[Answers, ...]:
    """The same with an end of its own, or none."""
    return ((ScriptAnswer(steps=steps),), (FINAL,))


# ── Outcomes ────────────────────────────────────────────────────────────────────────


def runs(*expected: ToolRun) -> Expected:
    """All of these run, out of the first answer."""
    return Expected(runs=expected)


def later(*expected: ToolRun, may_give_up: bool = False) -> Expected:
    """Nothing runs out of the first answer; these run when the model has tried again."""
    return Expected(runs=expected, first=(), may_give_up=may_give_up)


# ── What the writer of each wire shares ───────────────────────────────────────────────


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
