"""A stored history, whatever its protocol: turns, results, what its upstream accepts, and the
message that an answer adds to it.
"""

from __future__ import annotations

import enum
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import msgspec

from wholecall.arguments.parse import Parsed, parse
from wholecall.events import (
    Call,
    Event,
    Opened,
    ProviderBlock,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
)
from wholecall.messages import Message, Native, Part, PastCall, Role
from wholecall.protocols.decoder import DECLINED, present

# A shorter digest would not tell the ids of a long conversation apart; SHA-256 ends at 64.
_SHORTEST_DIGEST = 8
_LONGEST_DIGEST = 64
LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)


@dataclass(frozen=True, slots=True)
class IdRule:
    """The ids of calls that are accepted."""

    characters: frozenset[str] | None = None
    """The only characters that may stand in an id; None: any. An id that is not accepted is
    replaced by a digest, so the hexadecimal digits must be among them."""
    shortest: int = 1
    longest: int | None = None

    def __post_init__(self) -> None:
        longest = _LONGEST_DIGEST if self.longest is None else self.longest
        if not (self.shortest <= min(longest, _LONGEST_DIGEST) and longest >= _SHORTEST_DIGEST):
            raise ValueError(f"no digest has from {self.shortest} to {self.longest} characters")
        if self.characters is not None and not self.characters.issuperset(string.hexdigits.lower()):
            raise ValueError("the hexadecimal digits must be among the characters of an id")

    def accepts(self, id: str) -> bool:
        """Tell whether an id may stay as it is."""
        fits = self.shortest <= len(id) <= (self.longest or len(id))
        return fits and (self.characters is None or self.characters.issuperset(id))


class ReasoningRule(enum.Enum):
    """The amount of earlier reasoning that is sent back to the model."""

    ALL = "all"
    SIGNED = "signed"
    """Only what carries the upstream's signature: it refuses reasoning that is not its own."""
    NONE = "none"


class System(enum.Enum):
    """The allowed places of system messages."""

    ANYWHERE = "anywhere"
    LEADING = "leading"
    """Before all other messages."""
    FIRST = "first"
    """Before all other messages, as one text: many chat templates know no more than one."""
    APART = "apart"
    """Not among the messages at all: they are handed back in `Mended.system`."""


@dataclass(frozen=True, slots=True)
class Target:
    """The requirements of an upstream for a history."""

    ids: IdRule = IdRule()
    reasoning: ReasoningRule = ReasoningRule.ALL
    reasoning_required: bool = False
    """True if a message with calls is refused without `reasoning_content`, even an empty one."""
    signatures: bool = True
    """True if calls keep fields that another provider wants back (`extra_content`)."""
    system: System = System.ANYWHERE
    bridge: str = ""
    """The assistant's words between results and the user, if the user may not follow them
    directly."""


_Known = TypeVar("_Known")


def find_by_model(model: str, table: Sequence[tuple[str, _Known]], *, other: _Known) -> _Known:
    """Return the entry whose beginning the model's name has; the first that fits counts.

    A name in no table gets what most upstreams accept. A caller that knows better passes its own
    `Target`.
    """
    name = model.lower().rpartition("/")[2]  # gateways put a path before it: `openai/gpt-5`
    return next((known for start, known in table if name.startswith(start)), other)


# A history as the mender sees it, whatever its protocol: turns, results, and all the rest.
#
# Each protocol splits its messages into these pieces and joins them again. What lies between, which
# result belongs to which call and where it must stand, is the same for all of them.


Wire: TypeAlias = Mapping[str, Any]
"""A message, an item or a block in the protocol's own shape. It is copied, never changed."""

UNRECORDED = "Error: no result was recorded for this call. It may or may not have run."
"""The words of a missing result. They must not make the model repeat what did run, nor
believe that the user stopped it."""


class ChangeKind(enum.Enum):
    """The kind of a change in a history."""

    RESULT_ORPHANED = "result_orphaned"
    """A result without a call was dropped."""
    RESULT_REPEATED = "result_repeated"
    """A second result of one call was dropped."""
    RESULT_FILLED = "result_filled"
    """A call without a result got one that says so."""
    RESULT_MOVED = "result_moved"
    """A result was moved directly after its call, in call order."""
    RESULT_BLANK = "result_blank"
    """A result without content got words that say so."""
    RESULT_ENCODED = "result_encoded"
    """A result that was neither text nor parts became its JSON text."""
    CALL_REPEATED = "call_repeated"
    """A call that stood twice in one message was dropped once."""
    ID_REWRITTEN = "id_rewritten"
    ARGUMENTS_EMPTIED = "arguments_emptied"
    """Arguments that were no JSON object became `{}`; their text went to the result."""
    ARGUMENTS_ENCODED = "arguments_encoded"
    """Arguments that were missing, or of the wrong type, became what the protocol wants."""
    TYPE_ADDED = "type_added"
    """A call that did not say what it calls is one of a function."""
    BLANK_DROPPED = "blank_dropped"
    """A text that says nothing, a message without content or an empty list of calls was dropped."""
    TURNS_MERGED = "turns_merged"
    """Calls in two messages without a result between became one turn."""
    REASONING_DROPPED = "reasoning_dropped"
    REASONING_RESTORED = "reasoning_restored"
    SIGNATURE_DROPPED = "signature_dropped"
    SYSTEM_MOVED = "system_moved"
    BRIDGE_ADDED = "bridge_added"
    """Words of the assistant were put between results and the user."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was changed in a history."""

    kind: ChangeKind
    where: str
    """The message as it came in, as a JSON path: `$[3]`."""
    detail: str = ""


@dataclass(slots=True)
class Mending:
    """One history being mended: what its reader wants, and what was changed so far."""

    target: Target
    continues: bool = False
    """True if the upstream holds earlier messages, which may hold a result's call."""
    changes: list[Change] = field(default_factory=list)

    def note(self, kind: ChangeKind, at: int, *, detail: str = "") -> None:
        """Record a change of the message in this place."""
        self.changes.append(Change(kind, f"$[{at}]", detail))


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of one message in a history being mended."""

    at: int
    mending: Mending

    @property
    def target(self) -> Target:
        """The target of the history."""
        return self.mending.target

    def note(self, kind: ChangeKind, detail: str = "") -> None:
        """Record a change of this message."""
        self.mending.note(kind, self.at, detail=detail)


# Pieces are compared by identity: two equal results are still two results.
@dataclass(frozen=True, slots=True, eq=False)
class StoredCall:
    """A call in the history."""

    at: int
    id: str
    """Empty where the client sent none."""
    native: Wire
    lost: str = ""
    """The text of arguments that could not be kept; the result will tell it."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredTurn:
    """An answer of the model that holds calls."""

    at: int
    entries: tuple[StoredCall | Any, ...]
    """Its calls, and in their places the content between them."""
    frame: Wire = field(default_factory=dict)
    """The message around the entries."""

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        """Its calls alone."""
        return tuple(entry for entry in self.entries if isinstance(entry, StoredCall))

    @property
    def natives(self) -> list[Any]:
        """Its entries in the protocol's own shape."""
        return [entry.native if isinstance(entry, StoredCall) else entry for entry in self.entries]


@dataclass(frozen=True, slots=True, eq=False)
class StoredResult:
    """The result of a call."""

    at: int
    id: str
    native: Wire


@dataclass(frozen=True, slots=True, eq=False)
class Aside:
    """Anything else."""

    at: int
    native: Any
    opaque: bool = False
    """Unreadable content may hold the calls of the results that follow."""


Piece: TypeAlias = StoredTurn | StoredResult | Aside


@dataclass(frozen=True, slots=True)
class HistoryForm:
    """The form in which one protocol writes a history."""

    split: Callable[[Sequence[Any], Mending], list[Piece]]
    join: Callable[[Sequence[Piece], Mending], list[Any]]
    call_id: str
    """The key of a call that holds its id."""
    result_id: str
    """The key of a result that holds its call's id."""
    fill: Callable[[StoredCall, str], Wire]
    """A result for a call that has none, with these words."""
    annotate: Callable[[Wire, str], Wire]
    """A result with words added to it."""
    target: Target = Target()
    """The requirements that every upstream of the protocol has."""


def read_id(native: Wire, key: str) -> str:
    """An id as the client sent it, empty if it sent none. Some send numbers."""
    id = native.get(key)
    return str(id) if isinstance(id, str | int) else ""


# Valid content of a stored message: arguments that are an object, content that is not blank.
#
# Upstreams parse the arguments of earlier calls again, to write them into the prompt. Arguments
# that are not a JSON object make every later request fail
# (https://github.com/OpenHands/OpenHands/issues/13949), and so does an empty text
# (https://github.com/anthropics/anthropic-sdk-python/issues/461).


NO_OUTPUT = "(no output)"

_LONGEST_LOST = 500
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_NO_ARGUMENTS = frozenset({"", "null"})
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_STRING = msgspec.json.Decoder(str)


def read_arguments(value: object) -> tuple[Mapping[str, Any], str]:
    """Return arguments as an object, and the text of those that are not an object."""
    if isinstance(value, Mapping):
        return value, ""
    text = _encode(value)
    if text.strip() in _NO_ARGUMENTS:
        return {}, ""
    try:
        return _OBJECT.decode(text), ""
    # Not JSON, no object, a lone surrogate; or nested deeper than any upstream would follow.
    except (ValueError, RecursionError):
        return {}, text[:_LONGEST_LOST]


def keep_text(value: object, lost: str) -> str:
    """Return the text of arguments that were read from it; empty if they were no object's text."""
    whole = isinstance(value, str) and not lost and value.lstrip().startswith("{")
    return str(value) if whole else ""


def write_arguments(value: object) -> tuple[str, str]:
    """The text of arguments as it may be stored, and the text of those that may not."""
    text = _encode(value)
    _, lost = read_arguments(text)
    return ("{}" if lost or text.strip() in _NO_ARGUMENTS else text), lost


def _encode(value: object) -> str:
    """Arguments as JSON; those that are JSON in a string of JSON are encoded once."""
    text = value if isinstance(value, str) else _write(value)
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = _STRING.decode(text)
        _OBJECT.decode(inner)
    except (ValueError, RecursionError):
        return text
    return inner


def _write(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def explain(lost: str) -> str:
    """The words by which a result tells what became of the arguments of its call."""
    return f"The arguments of this call were no JSON object and are shown as {{}}. Received: {lost}"


def is_blank(text: object) -> bool:
    """Tell whether a text says nothing."""
    return isinstance(text, str) and not text.strip()


def drop_blanks(parts: list[Any]) -> list[Any]:
    """The parts of a content without the texts that say nothing."""
    return [part for part in parts if not _is_blank_part(part)]


def _is_blank_part(part: object) -> bool:
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    return isinstance(kind, str) and kind in _TEXT_TYPES and is_blank(part.get("text"))


def _is_content(value: object) -> bool:
    """Return True for a text or for parts with a type; a tool's own object is neither."""
    if isinstance(value, list):
        return all(isinstance(part, Mapping) and "type" in part for part in value)
    return value is None or isinstance(value, str)


def tidy(message: Wire, spot: Spot) -> Wire:
    """A message without the parts of its content that say nothing."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = drop_blanks(content)
    if kept and len(kept) == len(content):
        return message
    spot.note(ChangeKind.BLANK_DROPPED, "text")
    return {**message, "content": kept}


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """The place of a result's content in a protocol, and the type of a text in it."""

    key: str
    text_type: str

    def fill_blank(self, result: Wire, spot: Spot) -> Wire:
        """A result that says something, if only that there is nothing to say."""
        content = result.get(self.key)
        if not _is_content(content):
            spot.note(ChangeKind.RESULT_ENCODED)
            return {**result, self.key: _write(content)}
        filled = self._fill(content)
        if filled == content:
            return result
        spot.note(ChangeKind.RESULT_BLANK)
        return {**result, self.key: filled}

    def _fill(self, content: object) -> object:
        if isinstance(content, list):
            return drop_blanks(content) or [{"type": self.text_type, "text": NO_OUTPUT}]
        return NO_OUTPUT if content is None or is_blank(content) else content

    def annotate(self, result: Wire, words: str) -> Wire:
        """A result with words added to it."""
        content = result.get(self.key)
        if isinstance(content, list):
            return {**result, self.key: [*content, {"type": self.text_type, "text": words}]}
        if isinstance(content, str):
            words = f"{content}\n\n{words}"
        return {**result, self.key: words}


# ── The message of an answer ──────────────────────────────────────────────────────────
#
# Its parts are in the order in which they came: reasoning, text, calls, and what the provider
# itself did. Fields that the provider wants back stay with them (`extras`), so that the message
# written in the same protocol is what the provider expects.
#
# | where it is kept                               | what it is                                 |
# |------------------------------------------------|--------------------------------------------|
# | `Reasoning.extras["signature"]`                | Anthropic's, of the thinking               |
# | `Reasoning("", {"redacted_thinking": …})`      | thinking that Anthropic does not show      |
# | `Reasoning.extras["item"]`                     | Responses': the whole item                 |
# | `Reasoning("", {"message": …})` after a text   | Responses': id and phase of its item       |
# | `Reasoning.extras["thought_signature"]`        | Gemini's, of the thought or the text before|
# | `Reasoning("", {"reasoning_details": […], …})` | those of OpenAI chat upstreams             |
# | `Reasoning("", {"citations": […]})`            | Anthropic's, of the text before; none: the |
# |                                                | next text is a block of its own            |
# | `PastCall.extras`                              | of a call, in the decoder's words          |
#
# Notes on a text that no provider wants back are omitted: those of OpenAI's chat (`NOTES`), `notes`
# of Responses, Anthropic's `stop_sequence`, the mark of an OpenAI `refusal`.


NOTES = ("annotations", "images", "audio", "logprobs")
"""Fields that stand beside a text in OpenAI's chat. Each is a list here, and comes in pieces."""
LEFT_OUT = frozenset({*NOTES, "stop_sequence", DECLINED})
"""Fields that no provider wants back."""
# These come in pieces over many chunks; all others are whole and end what they belong to.
_GROWING = ("reasoning_details", "thinking_blocks")
# The fields of an entry whose pieces are joined; of the others the latest counts.
_JOINED = frozenset({"text", "summary", "data", "thinking"})
# It was put on one piece of the text; joined with others that would be another text.
_OF_ONE_PIECE = "thought_signature"


def answer_message(events: Iterable[Event], protocol: str) -> Message:
    """Make the assistant's message of a turn from the events of its reader.

    Rejected calls stand in it too: each of them gets a result that says what was wrong.
    """
    answer = _Answer(protocol)
    for event in events:
        take = _HANDLERS.get(type(event))
        if take is not None:
            take(answer, event)
    return Message(Role.ASSISTANT, answer.finish())


def own_text(call: Call) -> str:
    """Return the arguments as the model wrote them; empty if they are not just these any more."""
    if call.repairs or call.coercions or call.dropped:
        return ""
    try:
        return call.raw if msgspec.json.decode(call.raw) == call.arguments else ""
    except (ValueError, RecursionError):  # no text came, or the same object twice
        return ""


def past_call(verdict: Call | Rejected) -> PastCall:
    """Return a call of this turn for the history; its result refers to its `id`."""
    if isinstance(verdict, Call):
        arguments, name = verdict.arguments, verdict.name
    else:
        parsed = parse(verdict.raw)
        value = parsed.value if isinstance(parsed, Parsed) else None
        arguments, name = (value if isinstance(value, Mapping) else {}), verdict.name or ""
    return PastCall(
        # What never got a name was never given an id.
        id=verdict.id or verdict.provider_id or f"nameless_{verdict.number}",
        name=name,
        arguments=arguments,
        provider_id=verdict.provider_id,
        extras=verdict.extras,
        raw=own_text(verdict) if isinstance(verdict, Call) else "",
    )


class _Answer:
    """The parts of an answer, being put together."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._parts: list[Part | int] = []
        """A number represents the call that was opened in this place."""
        self._calls: dict[int, PastCall] = {}
        self._placed: set[int] = set()
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._growing: dict[str, list[Any]] = {}

    # ── Events ──────────────────────────────────────────────────────────────────────

    def take_text(self, event: Text) -> None:
        self._end_thoughts()
        self._texts.append(event.text)

    def take_reasoning(self, event: Reasoning) -> None:
        if not event.extras:
            self._end_texts()
            self._thoughts.append(event.text)
        elif event.extras.keys() <= LEFT_OUT:
            return
        elif event.extras.keys().isdisjoint(_GROWING):
            self._end_with(event)
        else:
            for key, entries in event.extras.items():
                self._growing.setdefault(key, []).extend(entries)

    def take_block(self, event: ProviderBlock) -> None:
        self._end_all()
        self._parts.append(Native(self._protocol, event.native))

    def take_opened(self, event: Opened) -> None:
        self._place(event.number)

    def take_released(self, event: Released) -> None:
        self._settle(event.call)

    def take_rejected(self, event: Rejected) -> None:
        self._settle(event)

    def take_repeated(self, event: Repeated) -> None:
        self._calls.pop(event.number, None)

    # ── Parts ───────────────────────────────────────────────────────────────────────

    def finish(self) -> tuple[Part, ...]:
        self._end_all()
        details = {key: _join_entries(entries) for key, entries in self._growing.items()}
        parts: list[Part] = [Reasoning("", details)] if details else []
        for part in self._parts:
            if not isinstance(part, int):
                parts.append(part)
            elif part in self._calls:
                parts.append(self._calls[part])
        return tuple(parts)

    def _settle(self, verdict: Call | Rejected) -> None:
        self._place(verdict.number)
        self._calls[verdict.number] = past_call(verdict)

    def _place(self, number: int) -> None:
        if number not in self._placed:
            self._end_all()
            self._placed.add(number)
            self._parts.append(number)

    def _end_with(self, event: Reasoning) -> None:
        """Something whole came: with the thoughts before it, or for the text before it."""
        if self._texts and _OF_ONE_PIECE in event.extras:
            last = self._texts.pop()
            self._end_texts()
            self._texts.append(last)
        self._end_texts()
        thoughts = "".join([*self._thoughts, event.text])
        self._thoughts = []
        self._parts.append(Reasoning(thoughts, event.extras))

    def _end_all(self) -> None:
        self._end_texts()
        self._end_thoughts()

    def _end_texts(self) -> None:
        text = "".join(self._texts)
        self._texts = []
        if text:
            self._parts.append(Text(text))

    def _end_thoughts(self) -> None:
        text = "".join(self._thoughts)
        self._thoughts = []
        if text:
            self._parts.append(Reasoning(text))


# ── Details that came in pieces ─────────────────────────────────────────────────────


def _join_entries(pieces: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: list[list[Mapping[str, Any]]] = []
    for piece in pieces:
        if groups and _goes_on(groups[-1], piece):
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [_join(group) for group in groups]


def _goes_on(group: Sequence[Mapping[str, Any]], piece: Mapping[str, Any]) -> bool:
    """Return True for one more piece: of the same kind, in the same place, before the signature."""
    first, last = group[0], group[-1]
    same = all(first.get(key) == piece.get(key) for key in ("type", "index"))
    ids = (first.get("id"), piece.get("id"))
    return same and (None in ids or ids[0] == ids[1]) and not last.get("signature")


def _join(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for piece in group:
        joined.update(piece if not joined else present(piece))
    for key in _JOINED.intersection(joined):
        texts = [piece[key] for piece in group if isinstance(piece.get(key), str)]
        joined[key] = "".join(texts) if texts else joined[key]
    return joined


_HANDLERS: dict[type, Callable[[_Answer, Any], None]] = {
    Text: _Answer.take_text,
    Reasoning: _Answer.take_reasoning,
    ProviderBlock: _Answer.take_block,
    Opened: _Answer.take_opened,
    Released: _Answer.take_released,
    Rejected: _Answer.take_rejected,
    Repeated: _Answer.take_repeated,
}
