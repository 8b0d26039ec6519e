"""Provenance: find out whether a call in an answer is quoted from the conversation.

A tool result, a page or a user's message may hold a call written as text. A model that repeats it
quotes it, and a quotation does not run. Three things are evidence of a quotation:

1. *The text*: an earlier text holds the whole text of the call, or two that follow each other hold
   a part of it each. White space, escapes, case, line prefixes, invisible characters, emphasis and
   the shape of quotation marks do not count; neither do tags that colour the text.
2. *The call*: an earlier text holds the tool's name, each key and each value of the arguments,
   name and keys as markup (`"to":`, `<parameter=to>`, `to=`). So the call is found in any
   format, order and spelling, broken or not, without being parsed.
3. *The arguments*: an earlier text holds each of them as a member of JSON (`"city": "Oslo"`).
   Short arguments such as `{"n": 1}` are common; they count only with the name of the tool, and
   empty arguments count for nothing.

Words are not evidence: a user who writes "look up the weather with city Oslo" wants that call. Nor
are the calls that the model itself made: those may be repeated. What it wrote *into* the arguments
of a call, a file for instance, is a text like any other.

The conversation is read only when a call has been found in a text, which is rare. Then each of its
texts is normalised once and searched a fixed number of times for each call, by patterns that never
backtrack, for `MOST_SEARCHES` calls at most; further ones count as quoted.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice, pairwise

from wholecall.arguments.parse import Parsed, join_halves, parse
from wholecall.arguments.repair import is_repairable, repair
from wholecall.assembly.assembler import make_id
from wholecall.dialects.dialect_registry import AUTO
from wholecall.dialects.engine import FENCE, CallPosition, Engine
from wholecall.dialects.parser_context import Found
from wholecall.events import JSON, CallDelta, Inconsistent, Oddity, Reasoning, Text
from wholecall.messages import CallResult, Media, Message, Offer, Part, PastCall, Role, ToolSpec

MOST_SEARCHES = 64
"""The most calls of one answer that are searched for in the conversation: as many as a turn may
have."""
MOST_REREAD = 16 * 1024
"""Characters of earlier answers that are parsed again, to distinguish the model's own calls from
words. A hostile text costs the parser 60 µs a character."""
_SHORT = 24
"""Arguments with fewer characters, as JSON without blanks, are not evidence alone."""

_PIECE = 8
"""Characters that each of two texts must hold of a call that was divided between them."""

RESCUED = "call_text_"
"""The beginning of the id of a call that was found in a text."""


def rescued_id() -> str:
    """Return an id for a call that was found in a text. In a later request, the id shows that the
    call did not come through the tool interface."""
    return RESCUED + make_id().rpartition("_")[2]


def is_rescued(id: object) -> bool:
    """Return True if a call with this id was found in a text."""
    return isinstance(id, str) and id.startswith(RESCUED)


# ── Normalised texts ────────────────────────────────────────────────────────────────

# Each pattern starts at the beginning of a run of backslashes, so that a long run is read once.
_CODE = re.compile(
    r"(?<!\\)\\++(?:u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,5})\}|x([0-9a-fA-F]{2})"
    r"|(?P<octal>[01][0-7]{2}))"
)
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})++")
_ESCAPED = re.compile(r"(?<!\\)\\++([nrtNRT])")
_ESCAPE_ROUNDS = 3
"""Rounds of unescaping, for JSON in HTML in JSON, or the other way round."""
_LINE_PREFIX = re.compile(
    r"^[ \t]*+\d++(?:\t|[ \t]*+[|:→])|^[ \t]*+(?:>[ \t]*+)++|^[ \t]*+(?://|#|\+)[ \t]",
    re.MULTILINE,
)
"""Line numbers, block quotes, comments and diff markers."""
_SOFT_BREAK = re.compile(r"=\r?\n")
"""A line end that a mailer inserts, in quoted-printable."""
_SHADOWS = re.compile(r"[\U000e0020-\U000e007e]")
"""Invisible twins of the ASCII characters; models read them."""
_INVISIBLE = re.compile(
    r"\x1b\[[0-9;?]*+[A-Za-z]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\\\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\ufff0-\ufffb"
    r"\U000e0000-\U000e01ef\u3300-\u33ff\ufdf0-\ufdfc]"
)
"""Colours of a terminal, control and format characters, backslashes, and the signs for whole words
that would make a text many times as long."""
_DROPPED = "`>*|~_+"
_QUOTES = re.compile("['‘’“”„‟«»‹›「」『』〝〞〟]")  # noqa: RUF001 - that is the point
_SIGN = re.compile(
    r'[<{(\[="✿&%\\\U000e0000-\U000e007f＜｛（［＝]|^[ \t]{0,8}[\w.-]{1,64}:',  # noqa: RUF001 - NFKC
    re.MULTILINE,
)
"""What every call needs: a bracket, an assignment, an escape for one, or a key of YAML."""
_MARKUP = re.compile(r"<[^<>]*+>")
_MEMBER = re.compile(r"""(?="([^"]*)":("[^"]*"|\[[^\[\]{}]*\]|[^",{}\[\]]+))""")


def _decode(found: re.Match[str]) -> str:
    digits = found[found.lastindex or 0]
    return chr(int(digits, 8 if found["octal"] else 16))


def _unquote(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode(errors="replace")


def _unescape(text: str) -> str:
    """Return the text as it was before it was put into JSON, HTML or an address, in any order, in
    lower case and in the usual form of each character."""
    text = _SOFT_BREAK.sub("", _LINE_PREFIX.sub("", text))
    for _ in range(_ESCAPE_ROUNDS):
        before, text = text, _PERCENT.sub(_unquote, _CODE.sub(_decode, html.unescape(text)))
        if text == before:
            break
    text = _ESCAPED.sub(lambda found: "\t" if found[1] in "tT" else "\n", text)
    if not text.isascii():
        text = join_halves(text)  # of an emoji that JSON escapes
        text = _SHADOWS.sub(lambda found: chr(ord(found[0]) - 0xE0000), text)
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    text = _LINE_PREFIX.sub("", _INVISIBLE.sub("", text))
    return _QUOTES.sub('"', text.casefold())


def _pack(unescaped: str) -> str:
    """Return the text without what does not count in a comparison."""
    packed = "".join(unescaped.split())
    for sign in _DROPPED:
        packed = packed.replace(sign, "")
    return packed


def _squeeze(text: str) -> str:
    """Return the text reduced to a form in which spelling does not count."""
    return _pack(_unescape(text))


def _members(squeezed: str) -> set[str]:
    """Return the members whose values hold no object: `"city":"Oslo"`. A number may be a string."""
    return {f"{key}:{value.strip(chr(34))}" for key, value in _MEMBER.findall(squeezed)}


# ── Finding calls in texts ──────────────────────────────────────────────────────────


def any_format(offer: Offer, reading: CallPosition) -> Engine:
    """Return an engine that reads calls of these tools in every format at once."""
    return Engine(AUTO, offer, reading=reading)


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
        value = _read_json(self.arguments or "{}")
        again = _read_json(value) if isinstance(value, str) else None
        return again if isinstance(again, dict) else value  # an object may be encoded twice


def _read_json(text: str) -> JSON:
    parsed = parse(text)
    if not isinstance(parsed, Parsed) and is_repairable(text):
        repaired = repair(text)
        parsed = parsed if repaired is None else parse(repaired.text)
    return parsed.value if isinstance(parsed, Parsed) else None


_CONSTANTS = frozenset({"", "true", "false", "null", "none", "nil"})
"""Each format spells these in its own way, and a tag has no other way to write them."""
_MOST_FLOAT = 1e300
"""A larger integer may not be a floating-point number."""
_PUNCTUATION = ".,;:!?…。"
"""Signs that may be added to the end of a value when it is quoted."""


def _leaves(value: JSON) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each key with the spellings of its value; for lists and objects, yield their contents.
    A value that says nothing has no spelling."""
    todo: list[tuple[str, JSON]] = [("", value)]
    while todo:
        key, node = todo.pop()
        if isinstance(node, Mapping) and node:
            todo += node.items()
        elif isinstance(node, Sequence) and not isinstance(node, str) and node:
            todo += ((key, each) for each in node)
        else:
            yield key, _spellings(node)


def _spellings(leaf: JSON) -> frozenset[str]:
    """Return the ways to write a value, squeezed; none for one that says nothing."""
    if isinstance(leaf, str):
        text = _squeeze(leaf)
        return frozenset() if text in _CONSTANTS else frozenset({text.rstrip(_PUNCTUATION) or text})
    if isinstance(leaf, bool) or not isinstance(leaf, int | float):
        return frozenset()
    if leaf == int(leaf):
        leaf = int(leaf)  # 1e3 is 1000
    exponent = (f"{leaf:g}",) if abs(leaf) < _MOST_FLOAT else ()
    return frozenset(map(_squeeze, (str(leaf), f"{leaf:,}", *exponent)))


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


@lru_cache(maxsize=256)
def _as_name(name: str) -> re.Pattern[str]:
    """Return a pattern for the name of a tool in markup, or before its arguments."""
    return re.compile(
        rf"{_as_markup(name, '').pattern}|\b{re.escape(name)}[ \t]{{0,4}}[({{]", re.MULTILINE
    )


_AFTER_KEY = r"""(?:["'<>]|[ \t]{0,4}[=:])"""
_MOST_PARTS = 32
"""The most values of a call that are searched for: if all of these are found, it is quoted."""
_NAMING = (
    r'"(?:name|tool|tool_name|function|recipient_name|action)"[ \t]{0,4}:[ \t]{0,4}"'
    r'|(?:<function|<invoke|<tool_call|<tool)[ \t]{0,4}(?:name[ \t]{0,4})?=[ \t]{0,4}"?'
    r"|(?:\|>|<tool_call>|\[tool_calls\])\s{0,4}|^action:[ \t]{0,4}|to=(?=functions)"
)
"""What precedes the name of a tool in calls. A name alone may be a word, or a button of a page."""


@lru_cache(maxsize=256)
def _as_call(name: str) -> re.Pattern[str]:
    """Return a pattern for a call without arguments, in any format that marks the name as one."""
    escaped = re.escape(name)
    return re.compile(
        rf"(?:{_NAMING})(?:functions[.:])?{escaped}(?!\w)"
        rf"|<{escaped}(?:\s{{0,4}}/>|></{escaped}>)|[\[(]{escaped}\(\)",
        re.MULTILINE,
    )


class _Said:
    """One text of the conversation."""

    __slots__ = ("is_signed", "members", "plain", "squeezed")

    def __init__(self, text: str) -> None:
        self.is_signed = _SIGN.search(text) is not None
        self.plain = _unescape(text)
        self.squeezed = _pack(self.plain)
        self.members: set[str] | None = None

    def holds(self, text: str, call: FoundCall, *, by_arguments: bool) -> bool:
        """Return True if this call is quoted from this text. `text` is the call's own, squeezed."""
        if (text and text in self.squeezed) or self._holds_parts(call):
            return True
        arguments = _squeeze(call.arguments)
        members = _members(arguments)
        if self.members is None:
            self.members = _members(self.squeezed)
        if not members or not members <= self.members:
            return False
        alone = by_arguments and len(arguments) >= _SHORT
        return alone or _squeeze(call.name) in self.squeezed

    def _holds_parts(self, call: FoundCall) -> bool:
        name = _unescape(call.name)
        parts = dict.fromkeys(islice(_leaves(call.read()), _MOST_PARTS))
        if not any(key for key, _ in parts):
            return call.is_whole and _as_call(name).search(self.plain) is not None
        # A value that says nothing may have been added: it counts only beside its like.
        telling = [(key, ways) for key, ways in parts if ways] or parts
        return (
            all(map(self._holds_value, (ways for _, ways in telling if ways)))
            and all(
                _as_markup(_unescape(key), _AFTER_KEY).search(self.plain)
                for key in {key for key, _ in telling}
            )
            and _as_name(name).search(self.plain) is not None
        )

    def _holds_value(self, ways: frozenset[str]) -> bool:
        return any(way in self.squeezed or _is_split(way, before=self, after=self) for way in ways)


def _is_split(text: str, *, before: _Said, after: _Said) -> bool:
    """Return True if one text holds the beginning of a call, and the other one all of the rest. A
    notice in the middle of a text divides it, too."""
    if text[:_PIECE] not in before.squeezed or text[-_PIECE:] not in after.squeezed:
        return False
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if text[:middle] in before.squeezed:
            low = middle
        else:
            high = middle - 1
    return low >= _PIECE <= len(text) - low and text[low:] in after.squeezed


# ── The conversation ────────────────────────────────────────────────────────────────


class Provenance:
    """The texts of a conversation that are not the model's own calls."""

    def __init__(
        self, texts: Iterable[str], offer: Offer, *, answers: Iterable[str] = (), native: bool
    ) -> None:
        """`answers` are the model's earlier answers: calls that it made in them are its own.
        `native` is True if it made calls through the tool interface.

        Texts and answers are read when a call is found that may be quoted: most answers have none,
        and to read a long conversation takes long.
        """
        self.native = native
        self._offer = offer
        self._given_texts = texts
        self._given_answers = answers
        self._said: list[_Said] | None = None
        self._parts: list[_Said] | None = None
        """The texts without the answers, in their order."""
        self._bare: list[_Said] | None = None
        self._searches = 0
        self._may_hold: bool | None = None

    @cached_property
    def _told(self) -> tuple[str, ...]:
        """The texts of the conversation, in their order."""
        return tuple(text for text in self._given_texts if text)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """The same, and those of the tools."""
        return (*self._told, *(text for spec in self._offer.values() for text in _texts_of(spec)))

    @cached_property
    def _answers(self) -> tuple[str, ...]:
        return tuple(answer for answer in self._given_answers if answer)

    @property
    def may_hold_calls(self) -> bool:
        """True if a text names one of the tools and holds a sign that every call needs."""
        if self._may_hold is None:
            signed = [text for text in self._answers if _SIGN.search(text)]
            read = [*self._read_texts(), *map(_Said, signed), *self._read_bare()]
            everything = "".join(said.squeezed for said in read if said.is_signed)
            self._may_hold = any(_squeeze(name) in everything for name in self._offer)
        return self._may_hold

    def quotes(self, text: str, calls: Iterable[FoundCall], *, by_arguments: bool = True) -> bool:
        """Return True if the conversation holds one of these calls, which were found in `text`.

        Without `by_arguments`, the arguments are evidence only together with the name of the tool.
        """
        self._searches += 1
        if self._searches > MOST_SEARCHES:
            return True
        if self._said is None:
            own = map(_Said, self._own_words())
            self._said = [*self._read_texts(), *self._read_bare(), *own]
        squeezed = _squeeze(text)
        texts = self._read_texts()[: len(self._told)]
        return any(
            said.holds(squeezed, call, by_arguments=by_arguments)
            for call in calls
            for said in self._said
        ) or any(
            _is_split(squeezed, before=before, after=after)
            for before, after in (*pairwise(texts), *zip(texts, texts, strict=True))
        )

    def _read_texts(self) -> list[_Said]:
        if self._parts is None:
            self._parts = [_Said(text) for text in self._texts]
        return self._parts

    def _read_bare(self) -> list[_Said]:
        """Return the texts that hold tags, without them: the colours of code are tags."""
        if self._bare is None:
            texts = (text for text in self._texts if "<" in text)
            bare = ((text, _MARKUP.sub("", text)) for text in texts)
            self._bare = [_Said(without) for text, without in bare if without != text]
        return self._bare

    def _own_words(self) -> Iterator[str]:
        """Yield the earlier answers without the calls in them, newest first, as far as they can be
        parsed cheaply. In older ones, the model's own calls count as quotations."""
        room = MOST_REREAD
        for answer in reversed(self._answers):
            room -= len(answer)
            yield _without_calls(answer, self._offer) if room >= 0 else answer


def _without_calls(answer: str, offer: Offer) -> str:
    """Return an earlier answer without the calls at its end. One in a fence was shown, not made."""
    engine = any_format(offer, CallPosition.APART)
    kept: list[str] = []
    found: list[str] = []
    for each in [*engine.feed(answer), *engine.end()]:
        if isinstance(each, Found):
            is_code = each.prose.text.startswith(FENCE)
            (kept if is_code else found).append(each.prose.text)
        elif isinstance(each, Text | Reasoning):
            kept += [*found, each.text] if each.text.strip() else []
            found = [] if each.text.strip() else found
    return "".join(kept)


def _texts_of(spec: ToolSpec) -> tuple[str, ...]:
    return (spec.description, json.dumps(spec.parameters, ensure_ascii=False, default=str))


def provenance_of(messages: Sequence[Message], offer: Offer) -> Provenance:
    """Return the provenance of the texts in these messages."""
    calls = (part for each in messages for part in each.parts if isinstance(part, PastCall))
    by_model = [message for message in messages if message.role is Role.ASSISTANT]
    others = (message for message in messages if message.role is not Role.ASSISTANT)
    return Provenance(
        (_texts_in(message) for message in (*others, *by_model)),
        offer,
        answers=(message.text for message in by_model),
        native=any(not is_rescued(call.id) for call in calls),
    )


def _texts_in(message: Message) -> str:
    """Return what a message says that is not the model's answer."""
    answers = Text if message.role is Role.ASSISTANT else ()
    others = [_text_of(part) for part in message.parts if not isinstance(part, answers)]
    return "\n".join((*others, *_unread(message)))


def _unread(message: Message) -> list[str]:
    """Return what the protocol's own form of a message says in fields that are not a part of it."""
    if message.native is None:
        return []
    read = {part.text for part in message.parts if isinstance(part, Text | Reasoning)}
    read |= {part.result.text for part in message.parts if isinstance(part, CallResult)}
    return [text for text in _read_raw(message.native.value)[0] if text not in read]


def _text_of(part: Part) -> str:
    if isinstance(part, Text | Reasoning):
        return part.text
    if isinstance(part, CallResult):
        structured = part.result.structured
        told = "" if structured is None else json.dumps(structured, ensure_ascii=False, default=str)
        return f"{part.result.text}\n{told}"
    if isinstance(part, PastCall):
        return "\n".join(_read_raw(part.arguments)[0])  # a file, a message: the text in a call
    if isinstance(part, Media):
        return f"{part.name}\n{_decode_document(part.data)}" if part.kind == "document" else ""
    return json.dumps(part.value, ensure_ascii=False, default=str)


def _decode_document(data: str) -> str:
    """Return the text of a document in base64; nothing if it is not a text."""
    try:
        return base64.b64decode(data.rpartition(",")[2]).decode()
    except ValueError:
        return ""


# ── Messages in a protocol's format ─────────────────────────────────────────────────

_CALL_KEYS = frozenset({"tool_calls", "function_call", "functionCall", "toolUse"})
_SKIPPED_KEYS = _CALL_KEYS | {"type"}
"""The type of a part comes between the texts of two parts, and is not one of them."""
_CALL_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call"})
_ARGUMENT_KEYS = ("arguments", "input", "args")
_ANSWER_TYPES = frozenset({None, "text", "output_text"})
_MODEL_ROLES = frozenset({"assistant", "model"})


def provenance_of_raw(messages: object, offer: Offer) -> Provenance:
    """Return the provenance of messages in a protocol's own format. A call is recognised by its key
    or its type; every other text counts."""
    texts: list[str] = []
    thoughts: list[str] = []
    answers: list[str] = []
    native = False
    listed = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    for message in listed or (messages,):
        said, called = _read_raw(message)
        native = native or called
        if isinstance(message, Mapping) and message.get("role") in _MODEL_ROLES:
            answer = _answer_in(message)
            answers.append("\n".join(answer))
            thoughts.append("\n".join(text for text in said if text not in answer))
        else:
            texts.append("\n".join(said))
    return Provenance((*texts, *thoughts), offer, answers=answers, native=native)


def _answer_in(message: Mapping[str, object]) -> dict[str, None]:
    """Return the texts of a model's message that are its answer, in order, not its reasoning."""
    content = message.get("content") or message.get("parts")
    if isinstance(content, str):
        return {content: None}
    parts = content if isinstance(content, list | tuple) else ()
    return {
        part["text"]: None
        for part in parts
        if isinstance(part, Mapping) and part.get("type") in _ANSWER_TYPES
        if isinstance(part.get("text"), str) and not part.get("thought")
    }


def _read_raw(message: object) -> tuple[list[str], bool]:
    """Return the texts of a message, in order, and whether it holds a native call."""
    texts: list[str] = []
    called = False
    todo: list[object] = [message]
    while todo:
        node = todo.pop()
        if isinstance(node, str):
            texts.append(_decode_document(node) if node.startswith("data:") else node)
        elif isinstance(node, Mapping) and node.get("type") in _CALL_TYPES:
            called = called or not is_rescued(node.get("call_id") or node.get("id"))
            todo += _arguments_of(node)
        elif isinstance(node, Mapping):
            called = called or any(map(_is_native, map(node.get, _CALL_KEYS)))
            todo += [each for key in _CALL_KEYS for each in _arguments_of(node.get(key))]
            todo += [node[key] for key in reversed(node) if key not in _SKIPPED_KEYS]
        elif isinstance(node, Sequence):
            todo += reversed(node)
    return texts, called


def _arguments_of(made: object) -> Iterator[object]:
    """Yield the arguments of calls in a protocol's format: a text in them may be quoted later."""
    for call in made if isinstance(made, list | tuple) else (made,):
        body = call.get("function", call) if isinstance(call, Mapping) else {}
        given = [body.get(key) for key in _ARGUMENT_KEYS] if isinstance(body, Mapping) else ()
        for each in given:
            parsed = parse(each) if isinstance(each, str) else Parsed(each)
            yield parsed.value if isinstance(parsed, Parsed) else each


def _is_native(calls: object) -> bool:
    """Return True if any of these calls came through the tool interface."""
    if not isinstance(calls, list | tuple):
        return bool(calls)
    return any(not isinstance(call, Mapping) or not is_rescued(call.get("id")) for call in calls)
