"""The shared state of every grammar: the text, the output, the offered tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.core.compiled import Compiled
from wholecall.core.limits import DEFAULT, Limits
from wholecall.core.prepare import prepare
from wholecall.core.spec import Offer, ToolSpec
from wholecall.dialects.output import Output
from wholecall.dialects.references import follow
from wholecall.dialects.source import Source

_SEPARATORS = ".:/"
LONGEST_NAME = 256
"""Characters of a header. A name is much shorter; what is longer was no header."""


@dataclass(frozen=True, slots=True)
class Tags:
    """The closing tags of a value and of its call."""

    value_close: tuple[str, ...]
    call_close: tuple[str, ...]


class Machine:
    """The parts of one parse, shared by the engine and its grammars."""

    __slots__ = ("_ended", "_properties", "limits", "offer", "output", "rescues", "source")

    def __init__(
        self, offer: Offer | None, *, rescues: bool = False, limits: Limits = DEFAULT
    ) -> None:
        self.source = Source()
        self.output = Output()
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
        behind = (name[at + 1 :] for at, mark in enumerate(name) if mark in _SEPARATORS)
        return next((last for last in behind if last in self.offer), None)

    @property
    def sole(self) -> str:
        """The name of the only tool on offer; nothing if there are more, or none."""
        names = tuple(self.offer or ())
        return names[0] if len(names) == 1 else ""

    def admit(self, name: str) -> str | None:
        """Return the name under which a call is opened; None if the markup must be prose.

        In an announced dialect an unknown name is a mistake that the model is told about; the
        assembler rejects it.
        """
        return self.find(name) or (None if self.rescues else _plausible(name))

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
        return None if self.offer is None else self.offer.get(name)

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


def _plausible(name: str) -> str | None:
    name = name.strip()
    if len(name) > LONGEST_NAME or not all(mark.isalnum() or mark in _NAME_MARKS for mark in name):
        return None
    return name or None
