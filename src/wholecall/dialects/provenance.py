"""Provenance: find out whether a call in an answer is quoted from the conversation.

A tool result, a page or a user's message may hold a call written as text. A model that repeats it
quotes it, and a quotation does not run. Three things are evidence of a quotation:

1. *The text*: an earlier text holds the whole text of the call. White space, escapes, line
   prefixes and the shape of quotation marks do not count.
2. *The call*: an earlier text holds the tool's name, each key and each value of the arguments,
   name and keys as markup (`"to":`, `<parameter=to>`, `to=`). So the call is found in any
   format, order and spelling, broken or not, without being parsed.
3. *The arguments*: an earlier text holds each of them as a member of JSON (`"city": "Oslo"`).
   Short arguments such as `{"n": 1}` are common; they count only with the name of the tool, and
   empty arguments count for nothing.

Words are not evidence: a user who writes "look up the weather with city Oslo" wants that call. Nor
are the calls that the model itself made: those may be repeated.

The conversation is read only when a call has been found in a text, which is rare. Then each of its
texts is normalised once and searched a fixed number of times for each call, by patterns that never
backtrack, for `MOST_SEARCHES` calls at most; further ones count as quoted.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from wholecall.arguments.parse import Parsed, parse
from wholecall.arguments.repair import is_repairable, repair
from wholecall.assembly.assembler import make_id
from wholecall.dialects.dialect_registry import AUTO
from wholecall.dialects.engine import MANY, CallPosition, Engine, Vocabulary
from wholecall.dialects.parser_context import Found
from wholecall.events import JSON, CallDelta, Inconsistent, Oddity, Reasoning, Text
from wholecall.messages import CallResult, Message, Native, Offer, Part, PastCall, Role, ToolSpec

MOST_SEARCHES = 64
"""The most calls of one answer that are searched for in the conversation: as many as a turn may
have."""
MOST_REREAD = 16 * 1024
"""Characters of earlier answers that are parsed again, to distinguish the model's own calls from
words. A hostile text costs the parser 60 µs a character."""
_SHORT = 24
"""Arguments with fewer characters, as JSON without blanks, are not evidence alone."""

_RESCUED = "call_text_"


def rescued_id() -> str:
    """Return an id for a call that was found in a text. In a later request, the id shows that the
    call did not come through the tool interface."""
    return _RESCUED + make_id().rpartition("_")[2]


def is_rescued(id: object) -> bool:
    """Return True if a call with this id was found in a text."""
    return isinstance(id, str) and id.startswith(_RESCUED)


# ── Normalised texts ────────────────────────────────────────────────────────────────

# Each pattern starts at the beginning of a run of backslashes, so that a long run is read once.
_UNICODE = re.compile(r"(?<!\\)\\++u([0-9a-fA-F]{4})")
_ESCAPED = re.compile(r"(?<!\\)\\++([nrt])")
_ESCAPE_ROUNDS = 3
"""Rounds of unescaping, for JSON in HTML in JSON, or the other way round."""
_LINE_PREFIX = re.compile(
    r"^[ \t]*+\d++(?:\t|[ \t]*+[|:→])|^[ \t]*+(?:>[ \t]*+)++|^[ \t]*+(?://|#|\+)[ \t]",
    re.MULTILINE,
)
"""Line numbers, block quotes, comments and diff markers."""
_DROPPED = re.compile(r"[\s\\`>*|~\u00ad\u200b-\u200f\u2060\ufeff]+")
_INVISIBLE = re.compile(r"[\\\u00ad\u200b-\u200f\u2060\ufeff]+")
_SIGN = re.compile(r"[<{(\[=✿&]|\\u")
_QUOTES = str.maketrans(dict.fromkeys("'‘’“”„‟«»‹›＂", '"'))  # noqa: RUF001 - that is the point
_MEMBER = re.compile(r"""(?="([^"]*)":("[^"]*"|\[[^\[\]{}]*\]|[^",{}\[\]]+))""")


def _unescape(text: str) -> str:
    """Return the text as it was before it was put into JSON or HTML, in either order."""
    for _ in range(_ESCAPE_ROUNDS):
        text = _UNICODE.sub(lambda found: chr(int(found[1], 16)), html.unescape(text))
    text = _ESCAPED.sub(lambda found: "\t" if found[1] == "t" else "\n", text)
    return _LINE_PREFIX.sub("", text.replace("\\", "")).translate(_QUOTES)


def _squeeze(text: str) -> str:
    """Return the text reduced to a form in which spelling does not count."""
    return _DROPPED.sub("", _unescape(_LINE_PREFIX.sub("", text)))


def _members(squeezed: str) -> set[str]:
    """Return the members whose values hold no object: `"city":"Oslo"`. A number may be a string."""
    return {f"{key}:{value.strip(chr(34))}" for key, value in _MEMBER.findall(squeezed)}


# ── Finding calls in texts ──────────────────────────────────────────────────────────


def any_format(offer: Offer, reading: CallPosition) -> Engine:
    """Return an engine that reads calls of these tools in every format at once."""
    vocabulary = vocabulary_of(tuple(offer)) if len(offer) <= MANY else None
    return Engine(AUTO, offer, vocabulary=vocabulary, reading=reading)


@lru_cache(maxsize=256)
def vocabulary_of(names: tuple[str, ...]) -> Vocabulary:
    """Return the vocabulary of every format, cached because the same tools are offered again and
    again."""
    return Vocabulary.of(AUTO, names)


@dataclass(slots=True)
class FoundCall:
    """A call in a text, as far as it was read."""

    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The text of its arguments."""
        return "".join(self.pieces)

    @property
    def is_whole(self) -> bool:
        """True if its arguments can be read."""
        return self.read() is not None

    def read(self) -> JSON:
        """Return its arguments as a value, repaired if necessary; None if they cannot be read."""
        text = self.arguments or "{}"
        parsed = parse(text)
        if not isinstance(parsed, Parsed) and is_repairable(text):
            repaired = repair(text)
            parsed = parsed if repaired is None else parse(repaired.text)
        return parsed.value if isinstance(parsed, Parsed) else None


def _leaves(value: JSON) -> Iterator[tuple[str, str]]:
    """Yield each key with the text of its value; for lists and objects, yield their contents."""
    todo: list[tuple[str, JSON]] = [("", value)]
    while todo:
        key, node = todo.pop()
        if isinstance(node, Mapping):
            todo += node.items()
        elif isinstance(node, Sequence) and not isinstance(node, str):
            todo += ((key, each) for each in node)
        elif isinstance(node, str):
            yield key, _squeeze(node)
        else:  # each format spells true and null in its own way
            yield key, "" if node is None or isinstance(node, bool) else f"{node:g}"


def calls_in(given: Iterable[object]) -> list[FoundCall]:
    """Return the calls that the deltas describe."""
    calls: dict[object, FoundCall] = {}
    for each in given:
        if isinstance(each, CallDelta):
            call = calls.setdefault(each.slot, FoundCall(each.name or ""))
            call.pieces += [each.arguments] if isinstance(each.arguments, str) else []
    return list(calls.values())


def quoted(calls: Iterable[FoundCall]) -> Inconsistent:
    """Return the report that calls are quoted and stay text."""
    names = ", ".join(repr(call.name) for call in calls)
    return Inconsistent(Oddity.CALL_QUOTED, f"a call of {names} is quoted, so it is text")


@lru_cache(maxsize=256)
def _as_markup(name: str, after: str) -> re.Pattern[str]:
    """Return a pattern for a name after markup, not a word: `"to`, `<to`, `=to`, a new line."""
    return re.compile(rf"(?:^|[^\w\s])[ \t]{{0,4}}{re.escape(name)}{after}", re.MULTILINE)


_AFTER_KEY = r"""(?:["'<>]|[ \t]{0,4}[=:])"""


class _Said:
    """One text of the conversation."""

    __slots__ = ("members", "plain", "squeezed")

    def __init__(self, text: str) -> None:
        self.plain = _INVISIBLE.sub("", _unescape(text))
        self.squeezed = _squeeze(text)
        self.members = _members(self.squeezed)

    def holds(self, text: str, call: FoundCall, *, by_arguments: bool) -> bool:
        """Return True if this call is quoted from this text. `text` is the call's own, squeezed."""
        if (text and text in self.squeezed) or self._holds_parts(call):
            return True
        arguments = _squeeze(call.arguments)
        members = _members(arguments)
        if not members or not members <= self.members:
            return False
        alone = by_arguments and len(arguments) >= _SHORT
        return alone or _squeeze(call.name) in self.squeezed

    def _holds_parts(self, call: FoundCall) -> bool:
        parts = set(_leaves(call.read()))
        return (
            any(key for key, _ in parts)
            and all(value in self.squeezed for _, value in parts)
            and all(
                _as_markup(key, _AFTER_KEY).search(self.plain) for key in {key for key, _ in parts}
            )
            and _as_markup(call.name, "").search(self.plain) is not None
        )


# ── The conversation ────────────────────────────────────────────────────────────────


class Provenance:
    """The texts of a conversation that are not the model's own calls."""

    def __init__(
        self, texts: Iterable[str], offer: Offer, *, answers: Iterable[str] = (), native: bool
    ) -> None:
        """`answers` are the model's earlier answers: calls that it made in them are its own.
        `native` is True if it made calls through the tool interface."""
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
        """True if a text names one of the tools and holds a sign that every call needs."""
        if self._may_hold is None:
            signed = (text for text in (*self._texts, *self._answers) if _SIGN.search(text))
            plain = [_INVISIBLE.sub("", text) for text in signed]
            self._may_hold = any(name in text for text in plain for name in self._offer)
        return self._may_hold

    def quotes(self, text: str, calls: Iterable[FoundCall], *, by_arguments: bool = True) -> bool:
        """Return True if the conversation holds one of these calls, which were found in `text`.

        Without `by_arguments`, the arguments are evidence only together with the name of the tool.
        """
        self._searches += 1
        if self._searches > MOST_SEARCHES:
            return True
        if self._said is None:
            self._said = [_Said(each) for each in (*self._texts, *self._own_words())]
        squeezed = _squeeze(text)
        return any(
            said.holds(squeezed, call, by_arguments=by_arguments)
            for call in calls
            for said in self._said
        )

    def _own_words(self) -> Iterator[str]:
        """Yield the earlier answers without the calls in them, newest first, as far as they can be
        parsed cheaply. In older ones, the model's own calls count as quotations."""
        room = MOST_REREAD
        for answer in reversed(self._answers):
            room -= len(answer)
            yield _without_calls(answer, self._offer) if room >= 0 else answer


def _without_calls(answer: str, offer: Offer) -> str:
    """Return an earlier answer without the calls at its end."""
    engine = any_format(offer, CallPosition.APART)
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
    """Return the provenance of the texts in these messages."""
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


# ── Messages in a protocol's format ─────────────────────────────────────────────────

_CALL_KEYS = frozenset({"tool_calls", "function_call", "functionCall", "toolUse"})
_SKIPPED_KEYS = _CALL_KEYS | {"type"}
"""The type of a part comes between the texts of two parts, and is not one of them."""
_CALL_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call"})
_MODEL_ROLES = frozenset({"assistant", "model"})


def provenance_of_raw(messages: object, offer: Offer) -> Provenance:
    """Return the provenance of messages in a protocol's own format. A call is recognised by its key
    or its type; every other text counts."""
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
    """Return the texts of a message, in order, and whether it holds a native call."""
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
            todo += [node[key] for key in reversed(node) if key not in _SKIPPED_KEYS]
        elif isinstance(node, Sequence):
            todo += reversed(node)
    return texts, called


def _is_native(calls: object) -> bool:
    """Return True if any of these calls came through the tool interface."""
    if not isinstance(calls, list | tuple):
        return bool(calls)
    return any(not isinstance(call, Mapping) or not is_rescued(call.get("id")) for call in calls)
