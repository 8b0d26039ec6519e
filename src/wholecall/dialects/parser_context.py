"""What every grammar works with: the text, the output, the tools on offer and their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from wholecall.arguments.compiled_schema import Compiled, prepare
from wholecall.arguments.limits import DEFAULT, Limits
from wholecall.arguments.normalize_schema import Node
from wholecall.assembly.verdict import WRAPPER, is_wrapper
from wholecall.dialects.char_stream import CharStream
from wholecall.dialects.quotation import Quotation
from wholecall.events import CallDelta, CallSealed, Delta, Reason, Reasoning, Rejected, Text, Value
from wholecall.messages import Offer, ToolSpec


class Retracted(Value, frozen=True):
    """All calls so far stood in reasoning that the prompt had opened: they were plans.

    The text so far stood there, too, unless there was other reasoning before.
    """

    texts: bool = False


class Found(Value, frozen=True):
    """The text in which the calls since the last `Found` were found. `prose` is that text, in case
    they turn out not to be calls."""

    prose: Text | Reasoning
    call: str
    """The part of it that is the calls themselves, without tokens that follow them."""


Given: TypeAlias = Delta | Rejected | Retracted | Found

MOST_UNREAD = 2000
"""Characters after an unread mark that show its format."""
_BEFORE_VALUES = ('":', "':", "[", "{", ",")


class DialectOutput:
    """Collects deltas, for one call at a time."""

    def __init__(self) -> None:
        self.calls = 0
        """The number of opened calls; the last one's number is its slot."""
        self.texts = False
        """True if any text but white space was produced and not retracted."""
        self.follows = False
        """True directly after a call: what is marked as one is not prose there."""
        self._planned = 0
        """The number of retracted calls."""
        self._given: list[Given] = []
        self._held: list[Given] | None = None
        self._reasoned = False
        self.quotation = Quotation()
        """The quotation state at the end of the text."""
        self.thoughts = Quotation()
        """The same of the reasoning."""
        self.unread = ""
        """The text from the first mark on after which no call was read, up to a limit."""
        self._before = (0, False, self.quotation.save())

    def take(self) -> list[Given]:
        """Return the output since the last call."""
        given, self._given = self._given, []
        return given

    @property
    def is_fresh(self) -> bool:
        """True if the answer has not begun: no text, and no call that was not retracted."""
        return not self.texts and self.calls == self._planned

    @property
    def amid_json(self) -> bool:
        """True if the text so far ends inside a JSON element that continues with a value."""
        return self.quotation.tail.rstrip().endswith(_BEFORE_VALUES)

    def text(self, text: str) -> None:
        """A piece of the answer."""
        self.quotation.add(text)
        self.texts = self.texts or not text.isspace()
        self.follows = self.follows and text.isspace()
        if self.unread and len(self.unread) < MOST_UNREAD:
            self.unread = (self.unread + text)[:MOST_UNREAD]
        self._put(Text(text))

    def reasoning(self, text: str) -> None:
        """A piece of the reasoning."""
        self._reasoned = True
        self.thoughts.add(text)
        self._put(Reasoning(text))

    def reject(self, reason: Reason, detail: str) -> None:
        """Markup that no call can be made of."""
        self._put(Rejected(reason=reason, detail=detail))

    def retract(self) -> None:
        """The calls so far were none, and the text was reasoning."""
        texts = self.texts and not self._reasoned
        if self.calls or texts:
            self._put(Retracted(texts))
        self.texts = self.texts and self._reasoned
        self._reasoned = True
        self._planned = self.calls

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def open(self, name: str | None, id: str | None = None, *, arguments: str = "") -> None:
        """A call begins."""
        self.calls += 1
        self._put(CallDelta(self.calls, arguments, name=name, id=id, opens=True))

    def grow(self, arguments: str, *, guessed: bool = False) -> None:
        """The arguments of the call go on; `guessed`: only the end of the text says so."""
        self._put(CallDelta(self.calls, arguments, guessed=guessed))

    def seal(self) -> None:
        """The call is over."""
        self._put(CallSealed(self.calls, written=True))

    def found(self, prose: Text | Reasoning, call: str = "") -> None:
        """Say in what text the calls were found; `call` is the part that they are themselves."""
        self.follows = True
        self._put(Found(prose, call or prose.text))

    def spoil(self, flaw: str) -> None:
        """The call is over, and no call can be made of it."""
        self._put(CallSealed(self.calls, flaw=flaw, written=True))

    def spoil_since(self, before: int, flaw: str) -> None:
        """The calls after the number `before` are over, and no calls can be made of them."""
        for number in range(before + 1, self.calls + 1):
            self._put(CallSealed(number, flaw=flaw, written=True))

    # ── Holding ─────────────────────────────────────────────────────────────────────

    def hold(self) -> None:
        """Give nothing from now on."""
        self._held = []
        self._before = (self.calls, self.texts, self.quotation.save())

    def release(self) -> None:
        """Give what was held: the text is over, and nothing but that shows that it was meant."""
        self._given += map(_as_guess, self._held or ())
        self._held = None

    def drop(self) -> None:
        """Forget what was held, as if it had never been."""
        self._held = None
        self.calls, self.texts, state = self._before
        self.quotation.restore(state)

    def _put(self, given: Given) -> None:
        (self._given if self._held is None else self._held).append(given)


def _as_guess(given: Given) -> Given:
    return msgspec.structs.replace(given, guessed=True) if isinstance(given, CallDelta) else given


# Schemas of parameters that are given by reference: `{"$ref": "#/$defs/Unit"}`.
#
# A dialect without types takes the type of a raw value from the schema. Schema generators put every
# named type into a reference, or into an `allOf` of one.


_MOST_STEPS = 8
"""References that lead to each other. Honest ones are one or two."""


def follow(schema: Node, compiled: Compiled) -> Node:
    """Return the schema of a parameter with its references resolved."""
    for _ in range(_MOST_STEPS):
        target = compiled.follow(schema)
        others = [*([target] if target != schema else []), *schema.get("allOf", ())]
        if not others:
            break
        own = {key: said for key, said in schema.items() if key not in ("$ref", "allOf")}
        schema = {key: said for other in others for key, said in other.items()} | own
    return schema


# The shared state of every grammar: the text, the output, the offered tools.


_SEPARATORS = ".:/"
_WRAPS = "multi_tool_use"
LONGEST_NAME = 256
"""Characters of a header. A name is much shorter; what is longer was no header."""


@dataclass(frozen=True, slots=True)
class Tags:
    """The closing tags of a value and of its call."""

    value_close: tuple[str, ...]
    call_close: tuple[str, ...]


class ParserContext:
    """The parts of one parse, shared by the engine and its grammars."""

    __slots__ = ("_ended", "_properties", "limits", "offer", "output", "rescues", "source")

    def __init__(
        self, offer: Offer | None, *, rescues: bool = False, limits: Limits = DEFAULT
    ) -> None:
        self.source = CharStream()
        self.output = DialectOutput()
        self.offer = offer
        self.rescues = rescues
        """Calls as text were not announced: only an offered name distinguishes one from prose."""
        self.limits = limits
        self._ended: tuple[int, Tags] | None = None
        self._properties: dict[str, Mapping[str, Any]] = {}

    def find(self, name: str) -> str | None:
        """Return the offered name that is meant, or None.

        Models put the namespace of their training before a name: `functions.search`. A name may
        hold dots of its own, so as little as possible is taken for a namespace.
        """
        name = name.strip()
        if not name:
            return None
        if self.offer is None or name in self.offer:
            return name
        if is_wrapper(name, self.offer) and (_WRAPS in name or not self.rescues):
            return WRAPPER.name  # `parallel` may be a word of prose, where nothing was announced
        behind = (name[at + 1 :] for at, mark in enumerate(name) if mark in _SEPARATORS)
        return next((last for last in behind if last in self.offer), None)

    @property
    def sole(self) -> str:
        """The name of the only tool on offer; nothing if there are more, or none."""
        names = tuple(self.offer or ())
        return names[0] if len(names) == 1 else ""

    def admit(self, name: str) -> str | None:
        """Return the name under which a call is opened; None if the markup must be prose.

        In an announced dialect, an unknown name is a mistake: the assembler rejects the call, and
        the model gets feedback.
        """
        wrapper = WRAPPER.name if is_wrapper(name, self.offer) else None
        return self.find(name) or wrapper or (None if self.rescues else plausible(name))

    def split(self, text: str) -> tuple[str, str] | None:
        """A name and the key that was glued to it; the longest offered name that fits."""
        fitting = [name for name in self.offer or () if text.startswith(name)]
        name = max(fitting, key=len, default="")
        key = text[len(name) :].strip()
        return (name, key) if name and key in self.properties(name) else None

    def spoil(self, flaw: str) -> None:
        """Mark the call as broken. At the end of the text it was only cut off.

        A reader that needs no more text to see it calls this before the end is known, however the
        text was cut.
        """
        if not self.source.ended:
            self.output.spoil(flaw)

    def seal(self, tags: Tags) -> None:
        """The call is over, where its tags say so."""
        self.output.seal()
        self._ended = (self.output.calls, tags)

    @property
    def ended(self) -> Tags | None:
        """The tags that ended the last call, if tags did."""
        number, tags = self._ended or (0, None)
        return tags if number == self.output.calls else None

    def spec(self, name: str) -> ToolSpec | None:
        """The tool of this name."""
        known = None if self.offer is None else self.offer.get(name)
        return WRAPPER if known is None and name == WRAPPER.name else known

    def properties(self, name: str) -> Mapping[str, Any]:
        """The schemas of its parameters; none, where its definition cannot be used anyway."""
        known = self._properties.get(name)
        if known is None:
            known = self._properties[name] = _read_properties(self.spec(name))
        return known

    def required(self, name: str) -> frozenset[str]:
        """Those of its parameters that no call may leave out."""
        spec = self.spec(name)
        named = None if spec is None else spec.parameters.get("required")
        wanted = named if isinstance(named, list | tuple) else ()
        return frozenset(each for each in self.properties(name) if each in wanted)

    def takes_nothing(self, name: str) -> bool:
        """Return True if the schema says that the tool has no parameters."""
        spec = self.spec(name)
        return bool(spec and spec.parameters) and not self.properties(name)


def _read_properties(spec: ToolSpec | None) -> Mapping[str, Any]:
    """As the schema is understood, in whatever way it was written: checked, and of one draft."""
    compiled = None if spec is None else prepare(spec.parameters)
    if not isinstance(compiled, Compiled):
        return {}
    schemas = compiled.root.node.get("properties", {})
    return {name: follow(schema, compiled) for name, schema in schemas.items()}


_NAME_MARKS = frozenset("_-.:/")


def plausible(name: str) -> str | None:
    """Return a name that a tool may have; None if it cannot be one."""
    name = name.strip()
    if len(name) > LONGEST_NAME or not all(mark.isalnum() or mark in _NAME_MARKS for mark in name):
        return None
    return name or None
