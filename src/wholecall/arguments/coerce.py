"""Values of the wrong type that can only mean one value of the right type.

Models write `"5"` for 5 and JSON texts for objects. The schema, and nothing else, says
what is expected, and a value is changed only if both of this holds:

- It does not fit. A value that fits is never changed, however odd it looks.
- The schema allows no string here (other than listed ones). `"00501"` may be a code,
  and where a string may stand, the text is what was meant. Only a text that is itself
  one JSON string, quotes and all, loses them where it fits without them and not with them,
  and is read without them where it is a number, and no string may stand.

A text is then read as JSON, so there is at most one thing that it can mean. Where a
schema has alternatives, all are tried, and the value is changed only if every way that
makes it fit gives the same value.

By the letter of JSON Schema 5.0 fits an integer. It becomes 5 where no other number is
allowed: the two are equal, and a tool written in Python knows the difference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from wholecall.arguments.compiled_schema import CHAIN, Compiled, SchemaPlace, Type, matches, type_of
from wholecall.arguments.parse import Parsed, join_path, parse
from wholecall.arguments.schema_cost import Allowance, measure
from wholecall.events import JSON, Coercion


@dataclass(frozen=True, slots=True)
class CoercionOptions:
    """Changes beyond matching types. All are off by default."""

    wrap_single: bool = False
    """A single value where an array of such values is expected."""
    enum_case: bool = False
    """A listed string in other letters: `Celsius` for `celsius`."""
    keep_unknown: bool = False
    """Parameters that the schema neither names nor forbids stay, instead of being dropped."""


STRICT = CoercionOptions()
_QUOTED = re.compile(r'"(?:[^"\\]++|\\.)*+"')

COERCING = 1_700_000
"""Schema rules that may be evaluated to coerce the values of one call, in the units of `work`:
enough for some thousand values of the wrong type."""
LETTERS = 256 * 1024
"""Characters of all texts of a call that are read as values. Longer texts are files."""
_EXACT = 2**53
"""From here on a float represents several integers."""
_BLANKS = " \t\r\n"
_BOOLEANS = {"true": True, "false": False}
_WORD = 5
"""Characters that tell what a text may be: as many as the longest word has."""
_NUMBER = tuple("-0123456789")
_SHORT_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17}+)")
_BEGINNINGS: dict[Type, tuple[str, ...]] = {
    "null": ("null",),
    "integer": _NUMBER,
    "number": _NUMBER,
    "array": ("[",),
    "object": ("{",),
}


class Reading(NamedTuple):
    """A value as it is read, and what was changed for it."""

    value: JSON
    coercions: tuple[Coercion, ...] = ()


def coerce(
    compiled: Compiled,
    value: dict[str, JSON],
    *,
    allowance: Allowance,
    whole_floats: bool,
    options: CoercionOptions = STRICT,
) -> Reading:
    """Read arguments by their schema; they themselves are not changed.

    `whole_floats` says whether one like 5.0 is among them: if not, what fits need not be
    looked into. Where it would take too long, all is left as it is: arguments of which
    some are coerced and others are not would be neither what was sent nor what was meant.
    """
    reader = _Reader(
        compiled, options, allowance=allowance.grant(COERCING, value), whole_floats=whole_floats
    )
    reading = reader.read(compiled.root, value, path="$", chain=0)
    return Reading(value) if allowance.is_exhausted else reading


class _Reader:
    """Reads one value, as long as its allowance lasts."""

    def __init__(
        self,
        compiled: Compiled,
        options: CoercionOptions,
        *,
        allowance: Allowance,
        whole_floats: bool,
    ) -> None:
        self._compiled = compiled
        self._options = options
        self._allowance = allowance
        self._whole_floats = whole_floats
        self._letters = LETTERS
        self._whole: dict[tuple[str, int], tuple[bool, JSON]] = {}

    def read(self, place: SchemaPlace, value: JSON, *, path: str, chain: int) -> Reading:
        """Read a value by the schema at a place."""
        if chain > CHAIN or self._allowance.is_exhausted:
            return Reading(value)
        fits = self._fits(place, value)
        if self._is_settled(place, value, fits=fits):
            return Reading(value)
        before = value
        if not fits or isinstance(value, float):
            value = self._convert(place, value, path=path, chain=chain)
        coercions: tuple[Coercion, ...] = ()
        if value is not before:
            coercions = (Coercion(path, before, value),)
        if isinstance(value, (dict, list)):
            # Where there is too much to do, nothing is begun.
            steps = self._allowance.affords(
                self._select(place, value, fits=fits and value is before)
            )
            value, later = self._read_inside(place, value, steps=steps, path=path, chain=chain + 1)
            coercions += later
        if not place.speaks_alone:
            value, later = self._read_in_place(place, value, path=path, chain=chain + 1)
            coercions += later
        return Reading(value, coercions)

    def _is_settled(self, place: SchemaPlace, value: JSON, *, fits: bool) -> bool:
        """Return True if a value stays as it is, with everything inside it."""
        if fits:
            return not (self._whole_floats and self._holds_whole(place, value))
        if isinstance(value, (dict, list)) and not self._options.wrap_single:
            return not self._compiled.allows_type(place, value)
        is_text = isinstance(value, str) and "string" in self._compiled.types(place)
        return is_text and not _QUOTED.fullmatch(str(value))

    # ── The value itself ────────────────────────────────────────────────────────────

    def _fits(self, place: SchemaPlace, value: JSON) -> bool:
        return self._allowance.take(value) and self._compiled.fits(place, value)

    def _convert(self, place: SchemaPlace, value: JSON, *, path: str, chain: int) -> JSON:
        types = self._compiled.types(place)
        if isinstance(value, float):
            return _make_whole(value, types)
        if isinstance(value, str) and len(value) <= self._letters:
            self._letters -= len(value)
            read = self._convert_text(place, value)
            if isinstance(read, (dict, list)):
                self._whole_floats = self._whole_floats or measure({"": read}).whole_floats
            if read is not value or _QUOTED.fullmatch(value):
                return read
        if self._options.wrap_single and "array" in types and type_of(value) not in types:
            inside = self._read_inside(place, [value], steps=[0], path=path, chain=chain + 1)
            return [value] if self._fits(place, inside.value) else value
        return value

    def _convert_text(self, place: SchemaPlace, text: str) -> JSON:
        types = self._compiled.types(place)
        if not _QUOTED.fullmatch(text):
            return self._match_listed(place, text) or read_text(text, types)
        # The content is meant if only that fits: `"celsius"` for a listed celsius. Where both
        # would fit, the quotes are a part of the text. Where no text may stand, they say nothing
        # about a number; a text in a text is not searched deeper.
        parsed = parse(text)
        content = parsed.value if isinstance(parsed, Parsed) else None
        if not isinstance(content, str) or self._fits(place, content):
            return text if content is None else content
        read = text if "string" in types else read_text(content, types)
        return text if read is content or isinstance(read, (dict, list)) else read

    def _match_listed(self, place: SchemaPlace, text: str) -> str | None:
        """The only listed string that differs in nothing but case."""
        if not self._options.enum_case:
            return None
        parts = [part.node for part in self._compiled.speaking(place)]
        options = [
            option for node in parts for option in (*node.get("enum", ()), node.get("const"))
        ]
        alike = {
            option
            for option in options
            if isinstance(option, str) and option.casefold() == text.casefold()
        }
        return alike.pop() if len(alike) == 1 else None

    # ── What is inside it ───────────────────────────────────────────────────────────

    def _select(
        self, place: SchemaPlace, value: dict[str, JSON] | list[JSON], *, fits: bool
    ) -> Iterable[str | int]:
        """The steps to what must be read: all that may not fit, and all that may be a float."""
        if fits:
            return self._find_whole(place, value)
        if isinstance(value, dict):
            return value
        first = min(len(place.node.get("prefixItems", ())), len(value))
        if "items" not in place.node:
            return range(first)
        misfits = self._compiled.misfits(place.inside("items"), value, start=first)
        steps = itertools.chain(range(first), misfits)
        if not self._whole_floats:
            return steps
        return dict.fromkeys(itertools.chain(steps, self._find_whole(place, value)))

    def _find_whole(
        self, place: SchemaPlace, value: dict[str, JSON] | list[JSON]
    ) -> Iterator[str | int]:
        """The steps to floats, or to where one may be, for which an integer is demanded."""
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for step, child in children:
            if isinstance(child, (float, dict, list)) and any(
                self._holds_whole(inside, child) for inside in self._describing(place, step)
            ):
                yield step

    def _holds_whole(self, place: SchemaPlace, value: JSON) -> bool:
        if not isinstance(value, (float, dict, list)):
            return False
        if isinstance(value, float) or not place.speaks_alone:
            return not place.speaks_alone or "number" not in self._compiled.types(place)
        known = self._whole.get((place.pointer, id(value)))
        if known is None:
            found = next(self._find_whole(place, value), None) is not None
            # The value is kept, too: else another one could come to have its id.
            known = self._whole[place.pointer, id(value)] = (found, value)
        return known[0]

    def _read_inside(
        self,
        place: SchemaPlace,
        value: dict[str, JSON] | list[JSON],
        *,
        steps: Iterable[str | int],
        path: str,
        chain: int,
    ) -> Reading:
        changed: Any = value
        coercions: list[Coercion] = []
        for step in steps:
            if self._allowance.is_exhausted:
                break
            for inside in self._describing(place, step):
                reading = self.read(inside, changed[step], path=join_path(path, step), chain=chain)
                coercions += reading.coercions
                if reading.value is not changed[step]:
                    changed = value.copy() if changed is value else changed
                    changed[step] = reading.value
        return Reading(changed, tuple(coercions))

    def _describing(self, place: SchemaPlace, step: str | int) -> list[SchemaPlace]:
        """The schemas of one member or item."""
        node = place.node
        if isinstance(step, int):
            if step < len(node.get("prefixItems", ())):
                return [place.inside("prefixItems", step)]
            return [place.inside("items")] if "items" in node else []
        named = [place.inside("properties", step)] if step in node.get("properties", ()) else []
        if "patternProperties" in node and self._allowance.take_steps(
            len(node["patternProperties"])
        ):
            matching = [p for p in node["patternProperties"] if matches(p, step)]
            named += [place.inside("patternProperties", pattern) for pattern in matching]
        others = not named and isinstance(node.get("additionalProperties"), dict)
        return [place.inside("additionalProperties")] if others else named

    # ── What else is said about it ──────────────────────────────────────────────────

    def _read_in_place(self, place: SchemaPlace, value: JSON, *, path: str, chain: int) -> Reading:
        coercions: list[Coercion] = []
        for other in (*self._compiled.demanding(place), *self._conditional(place, value)):
            value, later = self.read(other, value, path=path, chain=chain)
            coercions += later
        for keyword in ("anyOf", "oneOf"):
            if keyword in place.node:
                value, later = self._choose(place.every(keyword), value, path=path, chain=chain)
                coercions += later
        return Reading(value, tuple(coercions))

    def _conditional(self, place: SchemaPlace, value: JSON) -> list[SchemaPlace]:
        if "if" not in place.node:
            return []
        branch = "then" if self._fits(place.inside("if"), value) else "else"
        return [place.inside(branch)] if branch in place.node else []

    def _choose(
        self, branches: list[SchemaPlace], value: JSON, *, path: str, chain: int
    ) -> Reading:
        """Read by the alternative that fits or, if none does, as all say that can be made fit."""
        fitting = [branch for branch in branches if self._fits(branch, value)]
        if len(fitting) > 1:
            return Reading(value)
        readings: dict[str, Reading] = {}
        for branch in fitting or branches:
            reading = self.read(branch, value, path=path, chain=chain)
            if self._fits(branch, reading.value):
                readings[repr(reading.value)] = reading
        return readings.popitem()[1] if len(readings) == 1 else Reading(value)


# ── Texts and numbers ───────────────────────────────────────────────────────────────


def read_text(text: str, types: frozenset[Type]) -> JSON:
    """The value of one of these types that a text means as JSON; else the text itself."""
    if "integer" in types and _SHORT_INTEGER.fullmatch(text):
        return int(text)  # nearly every coercion is this one
    beginning = text.lstrip(_BLANKS)[:_WORD]
    if "boolean" in types and beginning.lower().startswith(("true", "false")):
        return _BOOLEANS.get(text.strip(_BLANKS).lower(), text)
    if not any(beginning.startswith(_BEGINNINGS[kind]) for kind in types & _BEGINNINGS.keys()):
        return text
    parsed = parse(text)
    if not isinstance(parsed, Parsed) or parsed.duplicates or parsed.changes:
        return text
    value = parsed.value
    if isinstance(value, float):
        value = _make_whole(value, types)
    return value if type_of(value) in types else text


def _make_whole(value: float, types: frozenset[Type]) -> int | float:
    whole = "integer" in types and "number" not in types
    return int(value) if whole and value.is_integer() and abs(value) < _EXACT else value
