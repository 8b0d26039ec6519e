"""Messages, tools and requests as values, whatever protocol they came in or go out in."""

from __future__ import annotations

import base64
import binascii
import enum
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard

from wholecall.errors import InadmissibleTools, InvalidChoice
from wholecall.events import JSON, Call, Problem, Reasoning, Rejected, Start, Text

# ── The choice of tools: which an answer may or must call, and whether it obeyed ───────


class Mode(enum.Enum):
    """The mode: may, must or must not an answer call tools?"""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Special:
    """A tool that is not a function: a custom one, or one that the upstream runs itself."""

    type: str
    name: str = ""
    server: str = ""


Tool: TypeAlias = str | Special
"""A function by its name, or a tool of another type."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A request's rules for calling tools."""

    mode: Mode = Mode.AUTO
    names: tuple[str, ...] = ()
    """The only functions that may be called; without names and specials, all that are offered."""
    parallel: bool = True
    """True if an answer may hold more than one call."""
    specials: tuple[Special, ...] = ()
    """The only other tools that may be called."""

    def __post_init__(self) -> None:
        if self.mode is Mode.NONE and (self.names or self.specials or not self.parallel):
            raise ValueError("where no tool may be called, there is nothing to restrict")

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The only tools that may be called; empty means all that are offered."""
        return (*self.names, *self.specials)


@dataclass(frozen=True, slots=True)
class EncodedChoice:
    """A choice in a protocol's own words."""

    fields: Mapping[str, Any]
    """Fields of the request. Upstreams refuse them in a request that offers no tools."""
    offer: tuple[str, ...] | None = None
    """The only tools to offer, where the protocol cannot name them otherwise; None: all."""
    unsaid: tuple[Special, ...] = ()
    """Tools that the protocol cannot express. They cannot be called."""


def restrict(mode: Mode, tools: Iterable[Tool], *, parallel: bool) -> Choice:
    """A choice among these tools only, each named once."""
    once = dict.fromkeys(tools)
    names = tuple(tool for tool in once if isinstance(tool, str))
    specials = tuple(tool for tool in once if isinstance(tool, Special))
    return Choice(mode, names, parallel, specials)


def allow_all(mode: Mode, *, parallel: bool) -> Choice:
    """A choice among all tools. Beside `none` the flag says nothing, for nothing is called."""
    return Choice(mode, parallel=parallel or mode is Mode.NONE)


# Reading a field of a choice, or refusing it with its name, its value and what is allowed.


Wire: TypeAlias = Mapping[str, Any]
Offered: TypeAlias = Collection[str]

_PREVIEW = 200
# An error that lists a thousand tools does not help.
_LISTED = 20


def list_words(words: Iterable[str]) -> str:
    """Words for a sentence, in order, and not too many of them."""
    ordered = sorted(words)
    more = [f"and {len(ordered) - _LISTED} more"] if len(ordered) > _LISTED else []
    return ", ".join([*map(repr, ordered[:_LISTED]), *more]) or "nothing"


class Field(NamedTuple):
    """A value that a client sent, with the name by which a refusal calls it."""

    param: str
    value: object

    def refuse(self, allowed: str) -> InvalidChoice:
        """The error for a value that is not allowed."""
        value = repr(self.value)[:_PREVIEW]
        return InvalidChoice(f"{self.param} is {value}; allowed: {allowed}", param=self.param)

    def member(self, key: str) -> Field:
        """A field of this object."""
        return Field(f"{self.param}.{key}", self.read_object().get(key))

    def read_word(self, words: Mapping[str, Mode]) -> Mode:
        """A mode by its word."""
        if isinstance(self.value, str) and self.value in words:
            return words[self.value]
        raise self.refuse(list_words(words))

    def read_flag(self, *, default: bool) -> bool:
        """A flag that may be missing."""
        if self.value is None:
            return default
        if isinstance(self.value, bool):
            return self.value
        raise self.refuse("true, false")

    def read_object(self) -> Wire:
        """Return an object whose fields are not checked yet."""
        if isinstance(self.value, Mapping):
            return self.value
        raise self.refuse("an object")

    def read_name(self, offered: Offered) -> str:
        """The name of an offered tool, from an object that holds it."""
        name = self.member("name")
        if isinstance(name.value, str) and name.value in offered:
            return name.value
        raise name.refuse(list_words(offered))


def field_of(request: Wire, key: str) -> Field:
    """A field of the request itself."""
    return Field(key, request.get(key))


class ChoiceForm(Protocol):
    """Reads and says a choice in one protocol's words."""

    def decode(self, request: Wire, offered: Offered, /) -> Choice:
        """Read the choice from a request's fields."""

    def encode(self, choice: Choice, /) -> EncodedChoice:
        """Say a choice."""


def read_choice(form: ChoiceForm, request: Wire, *, offered: Offered) -> Choice:
    """Read the choice from a request's fields, or raise `InvalidChoice`."""
    choice = form.decode(request, offered)
    if choice.mode is Mode.REQUIRED and not offered:
        raise field_of(request, "tool_choice").refuse("only 'auto' and 'none' without tools")
    return choice


# Check whether an answer obeys the tool choice. Not all upstreams enforce it.


@dataclass(frozen=True, slots=True)
class ChoiceBreach:
    """A violation of the tool choice."""

    message: str
    """Words for the model."""
    refused: tuple[int, ...] = ()
    """The calls that must not run, by their place in the answer."""


def obeyed(choice: Choice, answer: Sequence[Call | Rejected]) -> ChoiceBreach | None:
    """Return how the calls of an answer violate the choice, or None.

    A rejected call counts as an attempt: the model did call, and its feedback comes from elsewhere.
    """
    if choice.mode is Mode.NONE:
        return _check_silence(answer)
    allowed = {*choice.names, *(special.name for special in choice.specials)}
    outside = [place for place, call in enumerate(answer) if allowed and call.name not in allowed]
    inside = sorted(set(range(len(answer))).difference(outside))
    extra = [] if choice.parallel else [at for at in inside if isinstance(answer[at], Call)][1:]
    # What the upstream runs itself leaves no call in the answer: nothing can be proven missing.
    missing = choice.mode is Mode.REQUIRED and not inside and not choice.specials
    sentences = [
        *([_say_outside(choice, [answer[at] for at in outside])] if outside else []),
        *(["Send one call at a time; only the first of this answer counts."] if extra else []),
        *([_say_missing(choice)] if missing else []),
    ]
    return (
        ChoiceBreach(" ".join(sentences), tuple(sorted([*outside, *extra]))) if sentences else None
    )


def _check_silence(answer: Sequence[Call | Rejected]) -> ChoiceBreach | None:
    if not answer:
        return None
    message = "No tool may be called in this answer. Answer in plain text."
    return ChoiceBreach(message, tuple(range(len(answer))))


def _say_outside(choice: Choice, calls: Sequence[Call | Rejected]) -> str:
    allowed = [*choice.names, *(special.name or special.type for special in choice.specials)]
    called = list_words({call.name or "" for call in calls})
    return f"Only {list_words(allowed)} may be called in this answer, not {called}."


def _say_missing(choice: Choice) -> str:
    tools = list_words(choice.names) if len(choice.names) == 1 else _say_one_of(choice)
    return f"This answer must call {tools}."


def _say_one_of(choice: Choice) -> str:
    return f"one of {list_words(choice.names)}" if choice.names else "at least one of the tools"


# ── Tools ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ToolKind:
    """The form of a tool of the client's that is not a plain function, in its own protocol.

    Everywhere else such a tool is a function: it has a name that is unique in the request, and a
    schema.
    """

    protocol: str
    type: str
    """The type of its definition."""
    name: str = ""
    """Its name in calls, which may be that of another tool, too; empty if calls have none."""
    namespace: str = ""
    inline: bool = False
    """True if it is defined in a message, not in the list of tools."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Type, namespace and name, which identify it in its protocol."""
        return self.type, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The core's view of a tool."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of its arguments; empty means that anything fits."""
    description: str = ""
    start: Start = Start.CONFIRMED
    """The safe default: a tool with side effects waits for the end of the turn."""
    read_only: bool = False
    """It changes nothing: a call of it may be started although it was written as text."""
    strict: bool = False
    """The client wants the provider to hold calls to the schema, too."""
    kind: ToolKind | None = None
    """The form in which its client writes it; None for a plain function."""


Offer: TypeAlias = Mapping[str, ToolSpec]
"""The tools of one request by name."""


class ReadOffer(dict[str, ToolSpec]):
    """An offer whose definitions were read and need not be read again."""


def read_offer(
    tools: Iterable[ToolSpec | Mapping[str, Any]] | ReadOffer, *, start: Start | None = None
) -> ReadOffer:
    """Read tool definitions in OpenAI's, Responses', Anthropic's, Bedrock's or Gemini's form.

    A provider's own tool (`{"type": "web_search"}`) has no name and is skipped. `start` overrides
    the policy of every definition that is not a `ToolSpec`. A definition that cannot be read raises
    `InadmissibleTools`. An offer, which has been read, is returned as it is.
    """
    if isinstance(tools, ReadOffer):
        return tools
    specs = ReadOffer()
    for index, tool in enumerate(tools):
        if _is_read(tool):
            specs[tool.name] = tool
            continue
        for spec in read_tool(tool, f"$[{index}]", start=start or Start.CONFIRMED):
            specs[spec.name] = spec
    return specs


def _is_read(tool: ToolSpec | Mapping[str, Any]) -> TypeGuard[ToolSpec]:
    """Return True for a `ToolSpec`, which callers pass that have read the offer before."""
    return type(tool) is ToolSpec and type(tool.name) is str and type(tool.parameters) is dict


def read_tool(
    tool: ToolSpec | Mapping[str, Any], path: str, *, start: Start = Start.CONFIRMED
) -> list[ToolSpec]:
    """Return the tools of one definition: Gemini's hold many, a provider's own tool none.

    `path` is its place in the list, for the error.
    """
    if isinstance(tool, ToolSpec):
        _demand(isinstance(tool.name, str), tool.name, path=f"{path}.name", expected=_NAME)
        schema, place = tool.parameters, f"{path}.parameters"
        _demand(isinstance(schema, Mapping), schema, path=place, expected=_SCHEMA)
        return [tool]
    read = (_read_body(body, place, start=start) for body, place in _bodies(tool, path))
    return [spec for spec in read if spec is not None]


# ── Forms ───────────────────────────────────────────────────────────────────────────

# What a provider wraps a definition in, and whether many stand in it. Responses, Anthropic
# and MCP wrap it in nothing.
_WRAPPERS: tuple[tuple[str, bool], ...] = (
    ("functionDeclarations", True),  # Gemini
    ("function", False),  # OpenAI's chat completions
    ("toolSpec", False),  # Bedrock
)
# The places of the schema; Bedrock wraps it once more.
_SCHEMAS = ("parameters", "parametersJsonSchema", "input_schema", "inputSchema")
_SCHEMA_WRAPPER = "json"
# With these fields and no name it is a mistake, not a provider's own tool.
_DEFINES = frozenset({"description", *_SCHEMAS})


def _bodies(tool: Any, path: str) -> Iterator[tuple[Any, str]]:
    """The bodies of a definition, each with its place."""
    _demand(isinstance(tool, Mapping), tool, path=path, expected=_DEFINITION)
    for wrapper, holds_many in _WRAPPERS:
        wrapped = tool.get(wrapper)
        if wrapped and holds_many:
            place = f"{path}.{wrapper}"
            _demand(isinstance(wrapped, list | tuple), wrapped, path=place, expected=_LIST)
            yield from ((body, f"{place}[{at}]") for at, body in enumerate(wrapped))
            return
        if wrapped:
            yield wrapped, f"{path}.{wrapper}"
            return
    yield tool, path


def _read_body(body: Any, path: str, *, start: Start) -> ToolSpec | None:
    _demand(isinstance(body, Mapping), body, path=path, expected=_DEFINITION)
    if "name" not in body and not _is_ours(body):
        return None
    name = body.get("name")
    _demand(isinstance(name, str), name, path=f"{path}.name", expected=_NAME)
    key = next((key for key in _SCHEMAS if body.get(key)), None)
    schema = {} if key is None else body[key]
    _demand(isinstance(schema, Mapping), schema, path=f"{path}.{key}", expected=_SCHEMA)
    if isinstance(schema.get(_SCHEMA_WRAPPER), Mapping):
        schema = schema[_SCHEMA_WRAPPER]
    description = body.get("description") or ""
    place = f"{path}.description"
    _demand(isinstance(description, str), description, path=place, expected=_DESCRIPTION)
    return ToolSpec(name, schema, description, start, strict=body.get("strict") is True)


def _is_ours(body: Mapping[str, Any]) -> bool:
    """Return True if a definition without a name was meant to be a function."""
    kind = body.get("type")
    return kind == "function" or (kind is None and not _DEFINES.isdisjoint(body))


# ── Refusals ────────────────────────────────────────────────────────────────────────

_DEFINITION = 'a ToolSpec or a definition: {"name": "weather", "parameters": {"type": "object"}}'
_LIST = "a list of definitions"
_DESCRIPTION = 'what the tool is for: {"name": "weather", "description": "Weather of a city", …}'
_NAME = 'the name of the tool: {"name": "weather", …}'
_SCHEMA = 'a JSON Schema: {"type": "object", "properties": {…}}'


def _demand(holds: bool, found: Any, *, path: str, expected: str) -> None:
    if not holds:
        received = reprlib.repr(found)
        message = f"tools{path.removeprefix('$')} is {received}: write {expected}"
        raise InadmissibleTools(message, (Problem(path, "tool", message, received, expected),))


# A conversation as values: what a request says, whatever protocol it came in or goes out in.
#
# Every protocol decodes its requests to these values and encodes them again, so that any client can
# talk to any upstream. What a value was read from stays with it (`native`): in the same protocol it
# goes out again as it came in, unknown fields included.


# ── Messages and requests ──────────────────────────────────────────────────────────────


class Role(enum.Enum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    """Holds results and nothing else."""


@dataclass(frozen=True, slots=True)
class Native:
    """Content that only one protocol understands, in its own form."""

    protocol: str
    value: Any
    inline: bool = False
    """True for a tool that is defined in a message, not in the list of tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """An image, a sound or a document: its bytes in base64, or where they lie."""

    kind: str
    """`image`, `audio` or `document`."""
    media_type: str = ""
    """As in `image/png`; may be unknown for an address."""
    data: str = ""
    url: str = ""
    name: str = ""
    detail: str = ""
    """How closely to look at an image, in OpenAI's words: `low`, `high`, `original`."""

    def __post_init__(self) -> None:
        if self.kind not in _MEDIA_KINDS:
            raise ValueError(
                f"media of the kind {self.kind!r}: {', '.join(_MEDIA_KINDS)} are known"
            )

    @property
    def plain_text(self) -> str | None:
        """The text of a document that is one; None for all others."""
        if self.url or not self.media_type.startswith("text/"):
            return None
        try:
            return base64.b64decode(self.data, validate=True).decode("utf-8", "replace")
        except binascii.Error:
            return None


_MEDIA_KINDS = ("image", "audio", "document")
Content: TypeAlias = Text | Media


@dataclass(frozen=True, slots=True)
class Result:
    """The result of running a call: an output or a failure."""

    content: tuple[Content, ...] = ()
    failed: bool = False
    structured: Any = None
    """The output as a value, where the tool gave one. Its text is in `content` all the same."""

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(piece.text for piece in self.content if isinstance(piece, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call in a history: it was made before and is not run from here."""

    id: str
    name: str
    arguments: Mapping[str, JSON]
    provider_id: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the provider wants back with the call, such as thought signatures."""
    raw: str = field(default="", compare=False)
    """The text of the arguments as the model wrote it, where it says just these. Sent again in the
    same bytes, it is found in the provider's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The one result of a past call."""

    call_id: str
    result: Result
    name: str = ""
    """The tool's; some protocols go by it."""


Part: TypeAlias = Text | Media | Reasoning | PastCall | CallResult | Native


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a history."""

    role: Role
    parts: tuple[Part, ...]
    native: Native | None = None
    """The messages or items (a tuple of them) that it was read from."""

    @property
    def text(self) -> str:
        """All of its text."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSchema:
    """The form that the final answer must have."""

    schema: Mapping[str, Any]
    name: str = "answer"
    strict: bool = True
    any_object: bool = False
    """True if any JSON object will do, as in OpenAI's `json_object`."""


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much a model should think, in the words of OpenAI's and Anthropic's APIs."""
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24_576}
"""Tokens of thinking, for models that take a number."""
_MOST_BUDGET = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Settings of a request for which each protocol has other words, or none."""

    effort: str = ""
    """One of `EFFORTS`; empty: the model's own."""
    budget: int | None = None
    """Tokens of thinking, where the client named a number."""
    verbosity: str = ""
    """`low`, `medium` or `high`."""
    cache_key: str = ""
    """Requests with the same key share a cache."""
    tier: str = ""
    """`auto`, `default`, `flex` or `priority`."""
    user: str = ""
    """The user of the client, as a name without meaning."""

    @property
    def said(self) -> tuple[str, ...]:
        """The names of the client's settings that have a value."""
        effort = self.effort or (self.budget is not None and self.level)
        said = {"effort": effort, "verbosity": self.verbosity, "cache_key": self.cache_key}
        said |= {"tier": self.tier, "user": self.user}
        return tuple(name for name, value in said.items() if value)

    @property
    def level(self) -> str:
        """The effort, also of a client that named a number of tokens."""
        if self.effort or self.budget is None:
            return self.effort
        return next((word for word, most in _LEVELS if self.budget < most), "high")

    @property
    def tokens(self) -> int:
        """The tokens of thinking, also of a client that named an effort; 0: none."""
        if self.budget is not None:
            return self.budget
        return _BUDGETS.get(self.effort, _MOST_BUDGET) if self.effort not in ("", "none") else 0

    def effort_among(self, accepted: Sequence[str]) -> str | None:
        """Return the effort nearest to the client's; None if it has none, or nothing fits."""
        if not self.level or not accepted:
            return None
        wanted = EFFORTS.index(self.level)
        return min(accepted, key=lambda word: abs(EFFORTS.index(word) - wanted))


NO_OPTIONS = ModelOptions()
_LEVELS = (("none", 1), ("low", 4096), ("medium", 16_384))
"""Efforts by the tokens below which they begin to be too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompted:
    """Tools that were written into the messages, and how the answer calls them."""

    dialect: str
    """Its name."""
    tools: tuple[ToolSpec, ...]
    choice: Choice
    beginning: str = ""
    """The prefilled beginning of the answer."""
    history: tuple[Message, ...] = field(default=(), repr=False, compare=False)
    """The conversation before the tools were written into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request for one turn."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    native_tools: tuple[Native, ...] = ()
    """Tools that the upstream itself runs, in its own form."""
    choice: Choice = field(default_factory=Choice)
    stream: bool = True
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    output: OutputSchema | None = None
    options: ModelOptions = field(default_factory=ModelOptions)
    rest: Native | None = None
    """The other fields of the request (a mapping), for the protocol that they were written in."""
    headers: Native | None = None
    """Headers of the request (a mapping), for the protocol in which it was written."""
    marks_cache: bool = False
    """True if the prompt is marked for the provider's cache where its client cannot do so."""
    one_system: bool | None = None
    """True if all system messages become one at the start; None: the model's name decides."""
    prompted: Prompted | None = None
    """Tools that are described in the messages instead of being sent to the upstream."""
