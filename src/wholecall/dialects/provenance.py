"""Provenance: find out whether a call in an answer is quoted from the conversation.

A tool result, a page or a user's message may hold a call written as text. A model that repeats it
quotes it, and a quotation does not run. Four things are evidence of a quotation:

1. *The text*: an earlier text holds the whole text of the call, or two that follow each other hold
   a part of it each. White space, escapes, case, line prefixes, invisible characters, emphasis and
   the shape of quotation marks do not count; neither do tags that colour the text.
2. *The call*: an earlier text holds the tool's name, each key and each value of the arguments,
   name and keys as markup (`"to":`, `<parameter=to>`, `to=`, `--to`, `| to |`). So the call is
   found in any format, order and spelling, broken or not, without being parsed.
3. *The arguments*: an earlier text holds each of them as a member of JSON (`"city": "Oslo"`), and
   the name of the tool. The name may be missing where they are an object of two members at least
   and nothing else: a single path or id is what a result is read for.
4. *The words of a result*: the result of a tool, or a document, holds the tool's name and near it
   each value, in any sentence or list, in any language. The name has to be more than a word
   (`send_mail`, not `send`), the values long, and the tool one that changes something. A tool whose
   name says that it reads (`get_file`) changes nothing: a result may well tell how to read on.

All of it counts as well in base64, as a list of numbers, or in any other code that
`normalized_text.decode` reads.

Other words are not evidence: a user who writes "look up the weather with city Oslo" wants that
call. Nor are the calls that the model itself made: those may be repeated. What it wrote *into* the
arguments of a call, a file for instance, is a text like any other.

The conversation is read only when a call has been found in a text, which is rare. Then each of its
texts is normalised once and searched a fixed number of times for each call, by patterns that never
backtrack, for `MOST_SEARCHES` calls at most; further ones count as quoted.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, islice, pairwise

from wholecall.arguments.parse import Parsed, parse
from wholecall.arguments.repair import is_repairable, repair
from wholecall.assembly.assembler import make_id
from wholecall.assembly.json_scanner import write_json
from wholecall.assembly.verdict import is_wrapper, read_uses
from wholecall.dialects.dialect_registry import AUTO
from wholecall.dialects.engine import FENCE, CallPosition, Engine
from wholecall.dialects.normalized_text import (
    decode,
    pack,
    read_members,
    read_objects,
    reverse,
    rotate,
    squeeze,
    thin,
    unescape,
)
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
"""Characters that each piece must have of a call that was divided."""
_LONG_CALL = 64
"""Characters of a call whose last piece may have fewer."""
_MOST_PIECES = 8
"""The most pieces of a call in one text."""

RESCUED = "call_text_"
"""The beginning of the id of a call that was found in a text."""


def rescued_id() -> str:
    """Return an id for a call that was found in a text. In a later request, the id shows that the
    call did not come through the tool interface."""
    return RESCUED + make_id().rpartition("_")[2]


def is_rescued(id: object) -> bool:
    """Return True if a call with this id was found in a text."""
    return isinstance(id, str) and id.startswith(RESCUED)


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
        text = squeeze(leaf)
        return frozenset() if text in _CONSTANTS else frozenset({text.rstrip(_PUNCTUATION) or text})
    if isinstance(leaf, bool) or not isinstance(leaf, int | float):
        return frozenset()
    if leaf == int(leaf):
        leaf = int(leaf)  # 1e3 is 1000
    exponent = (f"{leaf:g}",) if abs(leaf) < _MOST_FLOAT else ()
    return frozenset(map(squeeze, (str(leaf), f"{leaf:,}", *exponent)))


def calls_in(given: Iterable[object]) -> list[FoundCall]:
    """Return the calls that the deltas describe."""
    calls: dict[object, FoundCall] = {}
    for each in given:
        if isinstance(each, CallDelta):
            call = calls.setdefault(each.slot, FoundCall(each.name or ""))
            call.pieces += [each.arguments] if isinstance(each.arguments, str) else []
    return [each for call in calls.values() for each in (call, *_wrapped_in(call))]


def _wrapped_in(call: FoundCall) -> Iterator[FoundCall]:
    """Yield the calls in OpenAI's wrapper: a quotation of one is found by its own words."""
    arguments = call.read() if is_wrapper(call.name, ()) else None
    for name, held in read_uses(arguments) if isinstance(arguments, dict) else ():
        if name:
            yield FoundCall(name.removeprefix("functions."), [write_json(held)])


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
        rf"{_as_markup(name, '').pattern}|\b{re.escape(name)}[ \t]{{0,4}}{_ARGUMENTS}", re.MULTILINE
    )


@lru_cache(maxsize=256)
def _as_key(key: str) -> re.Pattern[str]:
    """Return a pattern for the key of an argument in markup, or as an option of a command."""
    plain, marked = re.escape(key), _as_markup(key, _AFTER_KEY).pattern
    return re.compile(rf"{marked}|(?:^|\s)(?:--?{plain}\s|{plain}=)", re.MULTILINE)


_ARGUMENTS = r"(?:[({]|--?\w|\\?\n[ \t]{0,16}--?\w|\w{1,64}[=:])"
_AFTER_KEY = r"""(?:["'<>`*]|[ \t]{0,4}[=:|→–])"""
_MOST_PARTS = 32
"""The most values of a call that are searched for: if all of these are found, it is quoted."""
_NAMING = (
    r'"(?:name|tool|tool_name|function|recipient_name|action)"[ \t]{0,4}:[ \t]{0,4}"'
    r"|(?:<function|<invoke|<tool_call|<tool|\binvoke[ \t]{0,4}name|\bcall[ \t]{0,4}tool)"
    r'[ \t]{0,4}(?:name[ \t]{0,4})?=[ \t]{0,4}"?'
    r"|(?:\|>|tool_call>|\[tool_calls\])\s{0,4}|^action:[ \t]{0,4}|to=(?=functions)"
)
"""What precedes the name of a tool in calls. A name alone may be a word, or a button of a page."""
_EMPTY = r"\{\s{0,4}\}"


@lru_cache(maxsize=256)
def _as_call(name: str) -> re.Pattern[str]:
    """Return a pattern for a call without arguments, in any format that marks the name as one."""
    escaped = re.escape(name)
    return re.compile(
        rf"(?:{_NAMING})(?:functions[.:])?{escaped}(?!\w)"
        rf"|<{escaped}(?:\s{{0,4}}/>|>\s{{0,4}}</{escaped}>)"
        rf'|(?<!\w){escaped}(?:\n?|":[ \t]{{0,4}}){_EMPTY}'
        rf"|<name>\s{{0,4}}{escaped}\s{{0,4}}</name>\s{{0,4}}<\w{{1,16}}>(?:{_EMPTY})?\s{{0,4}}</"
        rf"|(?:[\[(]|^[ \t]{{0,16}}){escaped}\(\)",
        re.MULTILINE,
    )


_MARKUP = re.compile(r"<[^<>]*+>")


class _Said:
    """One text of the conversation."""

    __slots__ = ("members", "plain", "squeezed")

    def __init__(self, text: str) -> None:
        self.plain = unescape(text)
        self.squeezed = pack(self.plain)
        self.members: set[str] | None = None

    def holds(self, text: str, call: FoundCall, *, by_arguments: bool) -> bool:
        """Return True if this call is quoted from this text. `text` is the call's own, squeezed."""
        if (text and text in self.squeezed) or self._holds_parts(call):
            return True
        arguments = squeeze(call.arguments)
        members = read_members(arguments)
        if self.members is None:
            self.members = read_members(self.squeezed)
        if not members or not members <= self.members:
            return False
        if squeeze(call.name) in self.squeezed:
            return True
        alone = by_arguments and len(arguments) >= _SHORT and len(members) > 1
        return alone and read_objects(arguments) <= read_objects(self.squeezed)

    def _holds_parts(self, call: FoundCall) -> bool:
        parts = dict.fromkeys(islice(_leaves(call.read()), _MOST_PARTS))
        if not any(key for key, _ in parts):
            return call.is_whole and _as_call(unescape(call.name)).search(self.plain) is not None
        # A value that says nothing may have been added: it counts only beside its like.
        telling = [(key, ways) for key, ways in parts if ways] or parts
        return (
            all(any(_is_held(way, self.squeezed) for way in ways) for _, ways in telling if ways)
            and all(
                _as_key(unescape(key)).search(self.plain) for key in {key for key, _ in telling}
            )
            and _as_name(unescape(call.name)).search(self.plain) is not None
        )


def _is_held(text: str, said: str) -> bool:
    """Return True if a text holds another one, whole or with a notice in its middle."""
    return text in said or _is_split(text, before=said, after=said)


def _is_split(text: str, *, before: str, after: str) -> bool:
    """Return True if one text holds the beginning of a call, and the other one all of the rest."""
    if text[:_PIECE] not in before or text[-_PIECE:] not in after:
        return False
    length = _measure(text, before)
    return length >= _PIECE <= len(text) - length and text[length:] in after


def _is_scattered(text: str, said: str) -> bool:
    """Return True if a text holds another one in a few pieces, one after the other: a log repeats
    its prefix in each line, a page its advertisement."""
    at, least = 0, _PIECE if len(text) < _LONG_CALL else 1
    for _ in range(_MOST_PIECES):
        length = _measure(text, said, at=at)
        if length < _PIECE or length == len(text):
            return length == len(text) >= least
        at = said.find(text[:length], at) + length
        text = text[length:]
    return False


def _measure(text: str, said: str, *, at: int = 0) -> int:
    """Return the length of the longest beginning of a text that another one holds from `at` on."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if said.find(text[:middle], at) >= 0 else (low, middle - 1)
    return low


# ── The words of results ────────────────────────────────────────────────────────────

_IDENTIFIER = re.compile(r"[_.:/-]|[a-z][A-Z]|\d")
"""What makes a name more than a word."""
_READS = re.compile(
    r"(?:get|list|read|search|find|fetch|view|show|describe|count)(?=[_.-]|[A-Z])"
    r"(?!.*(?:[aA]nd|[oO]r)(?:[_.-]|[A-Z]))"
    r"(?!.*(?i:replace|writ|edit|delet|remov|send|updat|creat|post|exec))"
)
"""A name that says that the tool reads and does nothing else."""
_LONG_VALUES = 16
"""Letters and digits that the values must have together."""
_REACH = 400
"""How far values may be from the name, in characters, beyond twice their own length."""
_TURNS = (str, reverse, rotate)
"""A model reads these without a tool."""


def _join(text: str) -> str:
    return thin(unescape(text)).replace(" ", "")


class _Results:
    """The results of tools and the documents of a conversation, as one text of words."""

    def __init__(self, said: Iterable[_Said]) -> None:
        self._words = thin("".join(each.plain for each in said))

    def tell(self, call: FoundCall) -> bool:
        """Return True if they hold the name and, near it, the values of a call."""
        if _IDENTIFIER.search(call.name) is None:
            return False
        leaves = islice(_leaves(call.read()), _MOST_PARTS)
        joined = ({_join(way) for way in ways} - {""} for _, ways in leaves)
        values = [ways for ways in joined if ways]
        size = sum(max(map(len, ways)) for ways in values)
        return size >= _LONG_VALUES and any(
            all(any(_is_held(turn(way), near) for way in ways) for ways in values)
            for turn in _TURNS
            for near in _near(self._words, turn(_join(call.name)), reach=2 * size + _REACH)
        )


def _near(words: str, name: str, *, reach: int) -> Iterator[str]:
    """Yield the places of a text that hold a name, without blanks. Places that overlap are one:
    together they never exceed the text."""
    begin = end = 0
    at = words.find(name)
    while at >= 0:
        if at - reach > end:
            yield words[begin:end].replace(" ", "")
            begin = at - reach
        end = at + len(name) + reach
        at = words.find(name, at + len(name))
    yield words[begin:end].replace(" ", "")


# ── The conversation ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a conversation holds beside texts. It is read on demand."""

    answers: Iterable[str] = ()
    """The model's earlier answers: calls that it made in them are its own."""
    results: Iterable[str] = ()
    """The texts that came from tools and files, not from people."""
    calls: Iterable[tuple[str, JSON]] = ()
    """The calls that the model made, by name and arguments."""
    native: bool = False
    """True if it made calls through the tool interface."""


_NOTHING = Spoken()


class Provenance:
    """The texts of a conversation that are not the model's own calls."""

    def __init__(self, texts: Iterable[str], offer: Offer, *, spoken: Spoken = _NOTHING) -> None:
        """What the conversation holds is read when a call is found that may be quoted: most answers
        have none, and to read a long conversation takes long."""
        self.native = spoken.native
        self._offer = offer
        self._given_texts = texts
        self._spoken = spoken
        self._said: list[_Said] | None = None
        self._searches = 0

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
        return tuple(answer for answer in self._spoken.answers if answer)

    def quotes(self, text: str, calls: Sequence[FoundCall], *, by_arguments: bool = True) -> bool:
        """Return True if the conversation holds one of these calls, which were found in `text`.

        Without `by_arguments`, the arguments are evidence only together with the name of the tool.
        """
        self._searches += 1
        if self._searches > MOST_SEARCHES:
            return True
        if self._said is None:
            self._said = [*self._read_texts, *self._read_again, *map(_Said, self._own_words())]
        squeezed = squeeze(text)
        texts = [each.squeezed for each in self._read_texts[: len(self._told)]]
        return (
            any(
                said.holds(squeezed, call, by_arguments=by_arguments)
                for call in calls
                for said in self._said
            )
            or any(_is_scattered(squeezed, each) for each in texts)
            or any(_is_split(squeezed, before=one, after=other) for one, other in pairwise(texts))
            or any(map(self._is_told, calls))
        )

    def _is_told(self, call: FoundCall) -> bool:
        """Return True if a result says in words what this call does. The model may repeat a call of
        its own, and one that changes nothing may follow a hint."""
        spec = self._offer.get(call.name)
        return (
            (spec is None or not spec.read_only)
            and _READS.match(call.name.rpartition("__")[2]) is None
            and any(each.tell(call) for each in self._read_results)
            and _signature(call.name, call.read()) not in self._own_calls
        )

    @cached_property
    def _own_calls(self) -> frozenset[object]:
        return frozenset(_signature(name, arguments) for name, arguments in self._spoken.calls)

    @cached_property
    def _read_texts(self) -> list[_Said]:
        """The texts without the answers, in their order."""
        return [_Said(text) for text in self._texts]

    @cached_property
    def _read_again(self) -> list[_Said]:
        """Texts that hold tags without them, because the colours of code are tags; texts that hold
        codes with what these say; texts with quotation marks that are doubled, as in CSV and SQL,
        with single ones."""
        bare = (_MARKUP.sub("", text) if "<" in text else text for text in self._texts)
        told = [*zip(self._texts, bare, strict=True)]
        told += zip(self._texts, map(decode, self._texts), strict=True)
        plain = [each.plain for each in self._read_texts]
        told += ((text, text.replace('""', '"')) for text in plain)
        return [_Said(again) for text, again in told if again != text]

    @cached_property
    def _read_results(self) -> list[_Results]:
        known = dict(zip(self._texts, self._read_texts, strict=True))
        results = [*self._spoken.results]
        decoded = [decode(text) for text in results]
        told = [results] if decoded == results else [results, decoded]
        return [_Results(known.get(text) or _Said(text) for text in texts) for texts in told]

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


def _signature(name: str, arguments: JSON) -> object:
    return squeeze(name), frozenset(_leaves(arguments))


def provenance_of(messages: Sequence[Message], offer: Offer) -> Provenance:
    """Return the provenance of the texts in these messages."""
    made = [part for each in messages for part in each.parts if isinstance(part, PastCall)]
    by_model = [message for message in messages if message.role is Role.ASSISTANT]
    others = (message for message in messages if message.role is not Role.ASSISTANT)
    spoken = Spoken(
        answers=(message.text for message in by_model),
        results=filter(None, map(_results_in, messages)),
        calls=((call.name, call.arguments) for call in made),
        native=any(not is_rescued(call.id) for call in made),
    )
    return Provenance(map(_texts_in, chain(others, by_model)), offer, spoken=spoken)


def write_messages(messages: Iterable[Message]) -> list[dict[str, JSON]]:
    """Return messages in a form that JSON can hold. `provenance_of_raw` reads from it what
    `provenance_of` reads from the messages."""
    return [{"role": each.role.value, "content": [*_write_parts(each)]} for each in messages]


def _write_parts(message: Message) -> Iterator[dict[str, JSON]]:
    for part in message.parts:
        if isinstance(part, PastCall):
            arguments = {**part.arguments}
            yield {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
        else:
            yield {"type": _WRITTEN_TYPES.get(type(part), "other"), "text": _text_of(part)}
    yield {"type": "other", "text": "\n".join(_unread(message))}


_WRITTEN_TYPES = {Text: "text", CallResult: "tool_result", Media: "document"}


def _texts_in(message: Message) -> str:
    """Return what a message says that is not the model's answer."""
    answers = Text if message.role is Role.ASSISTANT else ()
    others = [_text_of(part) for part in message.parts if not isinstance(part, answers)]
    return "\n".join((*others, *_unread(message)))


def _results_in(message: Message) -> str:
    """Return what a message says that came from tools and files. Where that is all, the text is
    that of `_texts_in`, so that it is normalised once."""
    told = [part for part in message.parts if isinstance(part, CallResult | Media)]
    is_all = len(told) == len(message.parts)
    return _texts_in(message) if is_all else "\n".join(map(_text_of, told))


def _unread(message: Message) -> list[str]:
    """Return what the protocol's own form of a message says in fields that are not a part of it."""
    if message.native is None:
        return []
    read = {part.text for part in message.parts if isinstance(part, Text | Reasoning)}
    read |= {part.result.text for part in message.parts if isinstance(part, CallResult)}
    return [text for text in _read_raw(message.native.value).texts if text not in read]


def _text_of(part: Part) -> str:
    if isinstance(part, Text | Reasoning):
        return part.text
    if isinstance(part, CallResult):
        structured = part.result.structured
        told = "" if structured is None else json.dumps(structured, ensure_ascii=False, default=str)
        return f"{part.result.text}\n{told}"
    if isinstance(part, PastCall):
        return "\n".join(_read_raw(part.arguments).texts)  # a file, a message: the text in a call
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
_RESULT_TYPES = frozenset(
    {"tool_result", "function_call_output", "custom_tool_call_output", "document", "file"}
)
_RESULT_KEYS = frozenset({"toolResult", "functionResponse", "document", "inlineData"})
_ARGUMENT_KEYS = ("arguments", "input", "args")
_ANSWER_TYPES = frozenset({None, "text", "output_text"})
_MODEL_ROLES = frozenset({"assistant", "model"})
_TOOL_ROLES = frozenset({"tool", "function"})


@dataclass(slots=True)
class _RawMessage:
    """What a message in a protocol's format holds."""

    texts: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    calls: list[tuple[str, JSON]] = field(default_factory=list)
    native: bool = False


def provenance_of_raw(messages: object, offer: Offer) -> Provenance:
    """Return the provenance of messages in a protocol's own format. A call is recognised by its key
    or its type; every other text counts."""
    texts: list[str] = []
    thoughts: list[str] = []
    answers: list[str] = []
    listed = messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ()
    read = [(message, _read_raw(message)) for message in listed or (messages,)]
    for message, raw in read:
        if isinstance(message, Mapping) and message.get("role") in _MODEL_ROLES:
            answer = _answer_in(message)
            answers.append("\n".join(answer))
            thoughts.append("\n".join(text for text in raw.texts if text not in answer))
        else:
            texts.append("\n".join(raw.texts))
    spoken = Spoken(
        answers=tuple(answers),
        results=tuple("\n".join(raw.results) for _, raw in read if raw.results),
        calls=tuple(call for _, raw in read for call in raw.calls),
        native=any(raw.native for _, raw in read),
    )
    return Provenance((*texts, *thoughts), offer, spoken=spoken)


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


def _read_raw(message: object) -> _RawMessage:
    """Return what a message holds, in order."""
    raw = _RawMessage()
    todo: list[tuple[object, bool]] = [(message, False)]
    while todo:
        node, is_result = todo.pop()
        if isinstance(node, str):
            text = _decode_document(node) if node.startswith("data:") else node
            raw.texts.append(text)
            raw.results += [text] if is_result else []
        elif isinstance(node, Mapping):
            is_result = is_result or _is_result(node)
            todo += ((each, is_result) for each in _read_node(node, raw))
        elif isinstance(node, Sequence):
            todo += ((each, is_result) for each in reversed(node))
    return raw


def _read_node(node: Mapping[str, object], raw: _RawMessage) -> Iterator[object]:
    """Yield what may hold texts in an object, last first; add its calls to the message."""
    if node.get("type") in _CALL_TYPES:
        raw.native = raw.native or not is_rescued(node.get("call_id") or node.get("id"))
        yield from _read_calls(node, raw)
        return
    made = [node.get(key) for key in _CALL_KEYS]
    raw.native = raw.native or any(map(_is_native, made))
    for each in made:
        yield from _read_calls(each, raw)
    for key in reversed([*node]):
        if key not in _SKIPPED_KEYS:
            yield node[key]


def _is_result(node: Mapping[str, object]) -> bool:
    return (
        node.get("role") in _TOOL_ROLES
        or node.get("type") in _RESULT_TYPES
        or not _RESULT_KEYS.isdisjoint(node)
    )


def _read_calls(made: object, raw: _RawMessage) -> Iterator[object]:
    """Yield the arguments of calls in a protocol's format: a text in them may be quoted later. Add
    the calls to the message."""
    for call in made if isinstance(made, list | tuple) else (made,):
        named = call if isinstance(call, Mapping) else {}
        body = named.get("function") or named.get("custom") or named
        given = [body.get(key) for key in _ARGUMENT_KEYS] if isinstance(body, Mapping) else ()
        for each in filter(None, given):
            parsed = parse(each) if isinstance(each, str) else Parsed(each)
            value = parsed.value if isinstance(parsed, Parsed) else each
            raw.calls.append((str(body.get("name")), value))
            yield value


def _is_native(calls: object) -> bool:
    """Return True if any of these calls came through the tool interface."""
    if not isinstance(calls, list | tuple):
        return bool(calls)
    return any(not isinstance(call, Mapping) or not is_rescued(call.get("id")) for call in calls)
