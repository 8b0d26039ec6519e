"""Where the text of a call comes from: whether it stands in the conversation already.

A tool result, a page, a user's message may hold a call written as text. A model that repeats it
quotes it, and what is quoted does not run. Three things are evidence of a quotation:

1. *The text*: all of the call stands in an earlier text. White space, escapes, line prefixes and
   the shape of quotation marks do not count.
2. *The call*: an earlier text, read in every format, holds a call of the same tool with the same
   arguments, in whatever format, order and spelling.
3. *The arguments*: an earlier text holds each of them as a member of JSON (`"city": "Oslo"`).
   Short arguments such as `{"n": 1}` are common; they count only with the name of the tool beside
   them, and no arguments at all count for nothing.

Words are no evidence: whoever writes "look up the weather with city Oslo" wants just that call.
Nor are the calls that the model itself made: those may be repeated.

The conversation is read only when a call has been found in a text, which is rare. Then each of
its characters is read a fixed number of times, whatever the number of calls: what it holds is kept
in sets. Only the texts of the calls are searched for, one pass each, for `MOST_SEARCHES` calls at
most; further ones count as quoted.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from wholecall.core.conversation import CallResult, Message, Native, Part, PastCall, Role
from wholecall.core.ids import make_id
from wholecall.core.parse import Parsed, parse
from wholecall.core.spec import Offer, ToolSpec
from wholecall.core.values import JSON, CallDelta, Inconsistent, Oddity, Reasoning, Text
from wholecall.dialects.engine import Engine, Reading
from wholecall.dialects.output import Found
from wholecall.dialects.registry import AUTO
from wholecall.dialects.vocabulary import MANY, Vocabulary

MOST_SEARCHES = 64
"""Calls of one answer whose texts are looked for: as many as a turn may have."""
_SHORT = 24
"""Characters of arguments, as JSON without blanks, that are too few to be evidence alone."""

_RESCUED = "call_text_"


def rescued_id() -> str:
    """An id for a call that was found in a text. Whoever sees it in a later request knows that
    the call did not come through the tool interface."""
    return _RESCUED + make_id().rpartition("_")[2]


def is_rescued(id: object) -> bool:
    """Whether a call with this id was found in a text."""
    return isinstance(id, str) and id.startswith(_RESCUED)


# ── Texts in one spelling ───────────────────────────────────────────────────────────

_UNICODE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_ESCAPED = re.compile(r"\\+([nrt])")
_LINE_PREFIX = re.compile(
    r"^[ \t]*\d+(?:\t|[ \t]*[|:→])|^[ \t]*(?:>[ \t]*)+|^[ \t]*(?://|#|\+)[ \t]", re.MULTILINE
)
"""Numbers of lines, block quotes, comments, differences."""
_DROPPED = re.compile(r"[\s\\`>*|~\u00ad\u200b-\u200f\u2060\ufeff]+")
_INVISIBLE = re.compile(r"[\\\u00ad\u200b-\u200f\u2060\ufeff]+")
_SIGN = re.compile(r"[<{(\[=✿&]|\\u")
_QUOTES = str.maketrans(dict.fromkeys("'‘’“”„‟«»‹›＂", '"'))  # noqa: RUF001 - that is the point
_MEMBER = re.compile(r"""(?="([^"]*)":("[^"]*"|\[[^\[\]{}]*\]|[^",{}\[\]]+))""")


def _unescape(text: str) -> str:
    """The text as it was before it was put into JSON or HTML, however often."""
    text = _UNICODE.sub(lambda found: chr(int(found[1], 16)), html.unescape(text))
    text = _ESCAPED.sub(lambda found: "\t" if found[1] == "t" else "\n", text)
    return _LINE_PREFIX.sub("", text.replace("\\", ""))


def _squeeze(text: str) -> str:
    """What is left of a text where spelling does not count."""
    return _DROPPED.sub("", _unescape(_LINE_PREFIX.sub("", text)).translate(_QUOTES))


def _members(squeezed: str) -> set[str]:
    """The members of objects that hold no object: `"city":"Oslo"`. A number may be a string."""
    return {f"{key}:{value.strip(chr(34))}" for key, value in _MEMBER.findall(squeezed)}


def _canonical(value: JSON) -> str:
    """A value in one spelling: the order of keys does not count, nor whether a number is one."""
    if isinstance(value, Mapping):
        pairs = sorted((_squeeze(key), _canonical(each)) for key, each in value.items())
        return "{" + ",".join(f"{key}:{each}" for key, each in pairs) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(_canonical, value)) + "]"
    return _squeeze(value if isinstance(value, str) else json.dumps(value))


# ── Reading texts for calls ─────────────────────────────────────────────────────────


def any_format(offer: Offer, reading: Reading) -> Engine:
    """An engine that reads calls of these tools in every format at once."""
    vocabulary = vocabulary_of(tuple(offer)) if len(offer) <= MANY else None
    return Engine(AUTO, offer, vocabulary=vocabulary, reading=reading)


@lru_cache(maxsize=256)
def vocabulary_of(names: tuple[str, ...]) -> Vocabulary:
    """The vocabulary of every format. The same tools are offered again and again."""
    return Vocabulary.of(AUTO, names)


@dataclass(slots=True)
class FoundCall:
    """A call in a text, as far as it was read."""

    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Its name and arguments in one spelling; nothing if the arguments cannot be read."""
        parsed = parse("".join(self.pieces) or "{}")
        return f"{self.name}{_canonical(parsed.value)}" if isinstance(parsed, Parsed) else ""


def calls_in(given: Iterable[object]) -> list[FoundCall]:
    """The calls of which deltas tell."""
    calls: dict[object, FoundCall] = {}
    for each in given:
        if isinstance(each, CallDelta):
            call = calls.setdefault(each.slot, FoundCall(each.name or ""))
            call.pieces += [each.arguments] if isinstance(each.arguments, str) else []
    return list(calls.values())


def quoted(calls: Iterable[FoundCall]) -> Inconsistent:
    """Report that calls are quoted, and stay text."""
    names = ", ".join(repr(call.name) for call in calls)
    return Inconsistent(Oddity.CALL_QUOTED, f"a call of {names} is quoted, so it is text")


class _Said:
    """One text of the conversation."""

    __slots__ = ("calls", "members", "squeezed")

    def __init__(self, text: str, offer: Offer) -> None:
        self.squeezed = _squeeze(text)
        self.members = _members(self.squeezed)
        self.calls: set[str] = set()
        for version in dict.fromkeys((text, _unescape(text))):
            engine = any_format(offer, Reading.ANYWHERE)
            self.calls |= {call.key for call in calls_in([*engine.feed(version), *engine.end()])}

    def holds(self, text: str, call: FoundCall, *, by_arguments: bool) -> bool:
        """Whether this call stands here. `text` is its own, squeezed."""
        if (text and text in self.squeezed) or (call.key and call.key in self.calls):
            return True
        arguments = _squeeze("".join(call.pieces))
        members = _members(arguments)
        if not members or not members <= self.members:
            return False
        alone = by_arguments and len(arguments) >= _SHORT
        return alone or _squeeze(call.name) in self.squeezed


# ── The conversation ────────────────────────────────────────────────────────────────


class Provenance:
    """The texts of a conversation that are not the model's own calls."""

    def __init__(
        self, texts: Iterable[str], offer: Offer, *, answers: Iterable[str] = (), native: bool
    ) -> None:
        """`answers` are those that the model gave earlier: calls that it made in them are its
        own. `native` says whether it made calls through the tool interface."""
        self.native = native
        self._offer = offer
        self._texts = (
            *(text for text in texts if text),
            *(text for spec in offer.values() for text in _texts_of(spec)),
        )
        self._answers = tuple(answer for answer in answers if answer)
        self._said: list[_Said] | None = None
        self._searches = 0
        self._may_hold: bool | None = None

    @property
    def may_hold_calls(self) -> bool:
        """Whether a text names one of the tools, and holds a sign without which there is no
        call."""
        if self._may_hold is None:
            signed = (text for text in (*self._texts, *self._answers) if _SIGN.search(text))
            plain = [_INVISIBLE.sub("", text) for text in signed]
            self._may_hold = any(name in text for text in plain for name in self._offer)
        return self._may_hold

    def quotes(self, text: str, calls: Iterable[FoundCall], *, by_arguments: bool = True) -> bool:
        """Whether the conversation holds one of these calls, which were found in `text`.

        Without `by_arguments` the arguments are evidence only beside the name of the tool.
        """
        self._searches += 1
        if self._searches > MOST_SEARCHES:
            return True
        if self._said is None:
            own = (_without_calls(answer, self._offer) for answer in self._answers)
            self._said = [_Said(each, self._offer) for each in (*self._texts, *own)]
        squeezed = _squeeze(text)
        return any(
            said.holds(squeezed, call, by_arguments=by_arguments)
            for call in calls
            for said in self._said
        )


def _without_calls(answer: str, offer: Offer) -> str:
    """An earlier answer without the calls with which it ends."""
    engine = any_format(offer, Reading.APART)
    kept: list[str] = []
    found: list[str] = []
    for each in [*engine.feed(answer), *engine.end()]:
        if isinstance(each, Found):
            found.append(each.prose.text)
        elif isinstance(each, Text | Reasoning):
            kept += [*found, each.text] if each.text.strip() else []
            found = [] if each.text.strip() else found
    return "".join(kept)


def _texts_of(spec: ToolSpec) -> tuple[str, ...]:
    return (spec.description, json.dumps(spec.parameters, ensure_ascii=False, default=str))


def provenance_of(messages: Iterable[Message], offer: Offer) -> Provenance:
    """The provenance of what is said in these messages."""
    texts: list[str] = []
    answers: list[str] = []
    native = False
    for message in messages:
        by_model = message.role is Role.ASSISTANT
        said = [part for part in message.parts if by_model and isinstance(part, Text)]
        answers.append("".join(part.text for part in said))
        texts.append("\n".join(_text_of(part) for part in message.parts if part not in said))
        calls = (part for part in message.parts if isinstance(part, PastCall))
        native = native or any(not is_rescued(call.id) for call in calls)
    return Provenance(texts, offer, answers=answers, native=native)


def _text_of(part: Part) -> str:
    if isinstance(part, Text | Reasoning):
        return part.text
    if isinstance(part, CallResult):
        structured = part.result.structured
        told = "" if structured is None else json.dumps(structured, ensure_ascii=False, default=str)
        return f"{part.result.text}\n{told}"
    if isinstance(part, Native):
        return json.dumps(part.value, ensure_ascii=False, default=str)
    return ""


# ── Messages as a protocol writes them ──────────────────────────────────────────────

_CALL_KEYS = frozenset({"tool_calls", "function_call", "functionCall", "toolUse"})
_CALL_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call"})
_MODEL_ROLES = frozenset({"assistant", "model"})


def provenance_of_raw(messages: object, offer: Offer) -> Provenance:
    """The same of messages in a protocol's own shape. A call is known by its key or its type;
    every other text counts."""
    texts: list[str] = []
    answers: list[str] = []
    native = False
    listed = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    for message in listed or (messages,):
        by_model = isinstance(message, Mapping) and message.get("role") in _MODEL_ROLES
        said, called = _read_raw(message)
        (answers if by_model else texts).append("\n".join(said))
        native = native or called
    return Provenance(texts, offer, answers=answers, native=native)


def _read_raw(message: object) -> tuple[list[str], bool]:
    """The texts of a message, in order, and whether a call was made in it."""
    texts: list[str] = []
    called = False
    todo: list[object] = [message]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            texts.append(node)
        elif isinstance(node, Mapping) and node.get("type") in _CALL_TYPES:
            called = called or not is_rescued(node.get("call_id") or node.get("id"))
        elif isinstance(node, Mapping):
            called = called or any(map(_is_native, map(node.get, _CALL_KEYS)))
            todo += [node[key] for key in reversed(node) if key not in _CALL_KEYS]
        elif isinstance(node, Sequence):
            todo += reversed(node)
    return texts, called


def _is_native(calls: object) -> bool:
    """Whether these calls came through the tool interface."""
    if not isinstance(calls, list | tuple):
        return bool(calls)
    return any(not isinstance(call, Mapping) or not is_rescued(call.get("id")) for call in calls)
