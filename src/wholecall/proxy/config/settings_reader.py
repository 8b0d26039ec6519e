"""Read YAML into settings; every value is checked against the type of its field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import yaml

from wholecall.agent.budget import RunLimits
from wholecall.arguments.describe import cut, list_some, show, show_names, suggest
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    ConfigProblem,
    NeedsRestart,
    Position,
    Range,
    Secret,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


CHARACTERS = 256 * 1024
"""Of a file. A hundred models take 20 thousand."""
VALUES = 20_000
"""Of a file, with what its aliases stand for: ten lines of them can stand for a billion."""
DEPTH = 16
"""Of values in each other. The settings need six levels."""

Scalar: TypeAlias = str | int | float | bool | Secret | None


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value, and where it was written."""

    value: Scalar | tuple[YamlValue, ...] | Mapping[str, YamlValue]
    place: Position


# YAML 1.2, chapter 10.3.2: the value of a word without quotes.
_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], Scalar]], ...] = (
    (re.compile(r"|~|null|Null|NULL"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,18}"), int),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
)
_DEFAULT_TAGS = frozenset(
    {"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
)

# Its brace would end the braces around it.
_QUOTES = "inside of { } and [ ], ${NAME} needs quotes"


def compose(text: str, file: str, *, line: int | None = 1) -> YamlValue:
    """Read a text; `line` None: it is the value of the environment variable `file`."""
    return _Composer(file, first_line=line).compose(text)


class _Composer:
    """Turns the nodes of one text into values."""

    def __init__(self, file: str, *, first_line: int | None) -> None:
        self._file = file
        self._first_line = first_line
        self._values = 0

    def compose(self, text: str) -> YamlValue:
        if len(text) > CHARACTERS:
            raise self._refuse(None, f"it has more than {CHARACTERS} characters")
        try:
            node = yaml.compose(text, Loader=yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._refuse(mark, f"this is no YAML: {_explain(error, text)}") from None
        except yaml.YAMLError as error:
            raise self._refuse(None, f"this is no YAML: {cut(str(error))}") from None
        except RecursionError:
            raise self._refuse(None, f"it is nested more than {DEPTH} levels deep") from None
        if node is None:
            return YamlValue(
                {} if self._first_line else None, Position(self._file, self._first_line)
            )
        return self._read(node, DEPTH)

    def _read(self, node: yaml.Node, depth: int) -> YamlValue:
        self._values += 1
        if self._values > VALUES:
            raise self._refuse(node.start_mark, f"it has more than {VALUES} values")
        if depth == 0:
            raise self._refuse(node.start_mark, f"it is nested more than {DEPTH} levels deep")
        if node.tag not in _DEFAULT_TAGS:
            raise self._refuse(
                node.start_mark, f"the tag {node.tag!r} is not allowed: leave it out"
            )
        place = self._place(node.start_mark)
        match node:
            case yaml.ScalarNode():
                return YamlValue(_read_scalar(node), place)
            case yaml.MappingNode():
                return YamlValue(dict(self._read_members(node, depth - 1)), place)
            case _:
                return YamlValue(tuple(self._read(item, depth - 1) for item in node.value), place)

    def _read_members(self, node: yaml.MappingNode, depth: int) -> Iterator[tuple[str, YamlValue]]:
        seen: dict[str, Position] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key.start_mark, "the name of a setting must be a word")
            name = key.value
            if name in seen:
                again = f"{name!r} was written in line {seen[name].line} already: keep one of them"
                raise self._refuse(key.start_mark, again)
            seen[name] = self._place(key.start_mark)
            written = self._read(value, depth)
            # A setting is found by its name, although its value may begin in the next line.
            yield name, YamlValue(written.value, seen[name])

    def _place(self, mark: yaml.Mark | None) -> Position:
        if self._first_line is None or mark is None:
            return Position(self._file, self._first_line)
        return Position(self._file, self._first_line + mark.line)

    def _refuse(self, mark: yaml.Mark | None, message: str) -> ConfigError:
        return ConfigError([ConfigProblem(self._place(mark), "", message)])


def _read_scalar(node: yaml.ScalarNode) -> Scalar:
    text: str = node.value
    if node.style is None:
        for pattern, read in _PLAIN:
            if pattern.fullmatch(text):
                return read(text)
    return text


def _explain(error: yaml.MarkedYAMLError, text: str) -> str:
    said = cut(", ".join(part for part in (error.context, error.problem) if part))
    mark = error.problem_mark
    # An unclosed bracket is reported at the end: after the last line.
    lines = text.splitlines()[mark.line : mark.line + 1] if mark else []
    return f"{said}; {_QUOTES}" if any("${" in line for line in lines) else said


# The accepted values of each setting: the types of its fields, in words and as a check.


Kind: TypeAlias = object
"""A type, as a field declares it."""

# These types know nothing of files. In them, too, 0 may switch something off.
_BOUNDS: dict[tuple[type, str], Range] = {
    (RunLimits, "turn_retries"): Range(0),
    (RunLimits, "lost_threads"): Range(0),
}


class ExpectedType(NamedTuple):
    """The accepted values of a setting."""

    kind: Kind
    bounds: Range | None = None
    """None: a number must be more than 0."""
    optional: bool = False
    """True if it may be null."""
    restart: bool = False
    """True if a change needs a restart."""

    def within(self, kind: Kind) -> ExpectedType:
        """Return the accepted values of a list's items, or of a mapping's members."""
        return _expect(kind, bounds=self.bounds, restart=self.restart)

    @property
    def members(self) -> tuple[Kind, ...]:
        """The types of a union; of anything else, the type itself."""
        if get_origin(self.kind) in {Union, UnionType}:
            return get_args(self.kind)
        return (self.kind,)

    @property
    def sections(self) -> Iterator[type[DataclassInstance]]:
        """Those of them that hold settings."""
        for member in self.members:
            if isinstance(member, type) and is_dataclass(member):
                yield member


@cache
def expected_of(section: type) -> dict[str, ExpectedType]:
    """Return the accepted values of each setting of a section, by name."""
    return {
        name: _expect(kind, bounds=_BOUNDS.get((section, name)))
        for name, kind in get_type_hints(section, include_extras=True).items()
    }


def _expect(kind: Kind, *, bounds: Range | None = None, restart: bool = False) -> ExpectedType:
    if get_origin(kind) is Annotated:
        kind, *notes = get_args(kind)
        bounds = next((note for note in notes if isinstance(note, Range)), bounds)
        restart = restart or any(isinstance(note, NeedsRestart) for note in notes)
    members = [each for each in get_args(kind) if each is not NoneType]
    if get_origin(kind) in {Union, UnionType} and len(members) < len(get_args(kind)):
        # No setting is one of several things or nothing.
        [kind] = members
        return ExpectedType(kind, bounds, optional=True, restart=restart)
    return ExpectedType(kind, bounds, restart=restart)


# ── Words ───────────────────────────────────────────────────────────────────────────


def describe(expected: ExpectedType) -> str:
    """Describe the accepted values: `a whole number from 0 to 65535`."""
    kind = expected.kind
    if get_origin(kind) is Literal:
        return list_some(get_args(kind), " or ", word=show)
    if get_origin(kind) in _CONTAINERS:
        return _CONTAINERS[get_origin(kind)]
    if kind in (int, float):
        return f"{_WORDS[kind]} {_describe_bounds(expected.bounds)}"
    return _WORDS.get(expected.members[0], "a section with settings")


_CONTAINERS: dict[Kind, str] = {tuple: "a list", Mapping: "names with texts"}
_WORDS: dict[Kind, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Secret: "${NAME}",
}


def _describe_bounds(bounds: Range | None) -> str:
    if bounds is None:
        return "above 0"
    if bounds.most is None:
        return f"of at least {bounds.least}"
    return f"from {bounds.least} to {bounds.most}"


def hint_for(value: Scalar, expected: ExpectedType) -> str:
    """Return what to write instead, if only quotes are missing."""
    if str in expected.members and isinstance(value, int | float):
        return f'; write "{json.dumps(value)}" in quotes'
    if isinstance(value, str) and fits(_unquote(value), expected):
        return f"; write {value.strip()} without quotes"
    return ""


def _unquote(text: str) -> Scalar:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) else None


# ── Single values ───────────────────────────────────────────────────────────────────


def fits(value: Scalar, expected: ExpectedType) -> bool:
    """Return True if a value that is neither list nor section fits the setting."""
    if get_origin(expected.kind) is Literal:
        return value in get_args(expected.kind)
    return any(
        _CHECKS[kind](value, expected.bounds) for kind in expected.members if kind in _CHECKS
    )


def _is_number(value: Scalar, bounds: Range | None) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if bounds is None:
        return value > 0
    return bounds.least <= value and (bounds.most is None or value <= bounds.most)


_CHECKS: dict[Kind, Callable[[Scalar, Range | None], bool]] = {
    bool: lambda value, _: isinstance(value, bool),
    int: lambda value, bounds: isinstance(value, int) and _is_number(value, bounds),
    float: _is_number,
    str: lambda value, _: isinstance(value, str),
    Secret: lambda value, _: isinstance(value, Secret),
}


# From what was written to the settings: each value is checked against the type of its field.
#
# Every problem is collected, so that a file can be mended in one go.


Path: TypeAlias = tuple[str, ...]
"""The name of a setting, with those of its sections before it."""

_WRONG = object()
"""Represents a value that cannot be used. The problems say why."""
_LITERAL_KEY = (
    "a key may not stand in the file: write ${NAME} and put it into the environment variable NAME"
)


class SettingsReader:
    """Reads one configuration. Afterwards `problems` and `places` say what it found."""

    def __init__(self) -> None:
        self.problems: list[ConfigProblem] = []
        self.places: dict[Path, Position] = {}
        """The position of each setting that was written."""

    def read(self, written: YamlValue) -> Config | None:
        """The settings; None if there are problems."""
        self.places[()] = written.place
        config = self._read_section(Config, written, path=())
        return config if isinstance(config, Config) and not self.problems else None

    def _read(self, expected: ExpectedType, written: YamlValue, *, path: Path) -> object:
        self.places[path] = written.place
        if expected.optional and written.value is None:
            return None
        if get_origin(expected.kind) is tuple:
            return self._read_list(expected, written, path=path)
        if get_origin(expected.kind) is Mapping:
            return self._read_mapping(expected, written, path=path)
        sections = list(expected.sections)
        if sections:
            return self._choose_section(sections, written, path=path)
        return self._read_scalar(expected, written, path=path)

    # ── Sections ────────────────────────────────────────────────────────────────────

    def _choose_section(
        self, sections: list[type[DataclassInstance]], written: YamlValue, *, path: Path
    ) -> object:
        """Of several kinds of sections, the first setting of one says which it is."""
        if len(sections) == 1:
            return self._read_section(sections[0], written, path=path)
        given = written.value if isinstance(written.value, Mapping) else {}
        marks = {fields(section)[0].name: section for section in sections}
        named = [section for mark, section in marks.items() if mark in given]
        if len(named) != 1:
            return self._refuse(written, f"write one of {show_names(marks)} here", path=path)
        return self._read_section(named[0], written, path=path)

    def _read_section(
        self, section: type[DataclassInstance], written: YamlValue, *, path: Path
    ) -> object:
        members = {} if written.value is None else written.value
        if not isinstance(members, Mapping):
            hint = f"{_show(written)} stands where a section with settings belongs"
            return self._refuse(written, f"{hint}: {show_names(expected_of(section))}", path=path)
        self._refuse_unknown(section, members, path=path)
        values = {}
        for field in fields(section):
            if field.name in members:
                below = (*path, field.name)
                expected = expected_of(section)[field.name]
                values[field.name] = self._read(expected, members[field.name], path=below)
            elif field.default is MISSING and field.default_factory is MISSING:
                self._refuse(written, f"the setting {field.name!r} is missing", path=path)
                values[field.name] = _WRONG
        return _WRONG if _WRONG in values.values() else section(**values)

    def _refuse_unknown(
        self, section: type, members: Mapping[str, YamlValue], *, path: Path
    ) -> None:
        known = expected_of(section)
        for name in (name for name in members if name not in known):
            near = suggest(name, known)
            hint = f"did you mean {near!r}?" if near else f"known are {show_names(known)}"
            self._refuse(members[name], f"there is no such setting; {hint}", path=(*path, name))

    # ── Lists and mappings ──────────────────────────────────────────────────────────

    def _read_list(self, expected: ExpectedType, written: YamlValue, *, path: Path) -> object:
        if written.value is None:
            return ()
        if not isinstance(written.value, tuple):
            return self._refuse(written, f"{_show(written)} is no list: write [ … ]", path=path)
        item = expected.within(get_args(expected.kind)[0])
        values = [
            self._read(item, one, path=(*path, str(number)))
            for number, one in enumerate(written.value)
        ]
        return _WRONG if _WRONG in values else tuple(values)

    def _read_mapping(self, expected: ExpectedType, written: YamlValue, *, path: Path) -> object:
        if written.value is None:
            return {}
        if not isinstance(written.value, Mapping):
            return self._refuse(
                written, f"{_show(written)} has no names: write `name: …`", path=path
            )
        member = expected.within(get_args(expected.kind)[1])
        values = {
            name: self._read(member, one, path=(*path, name)) for name, one in written.value.items()
        }
        return _WRONG if _WRONG in values.values() else values

    # ── Single values ───────────────────────────────────────────────────────────────

    def _read_scalar(self, expected: ExpectedType, written: YamlValue, *, path: Path) -> object:
        value = written.value
        if isinstance(value, tuple | Mapping):
            return self._refuse(written, f"{_show(written)} is not {describe(expected)}", path=path)
        if fits(value, expected):
            return float(value) if expected.kind is float and isinstance(value, int) else value
        if expected.kind is Secret and isinstance(value, str) and written.place.line is None:
            # An environment variable is where a key belongs, whatever its name.
            return Secret(value)
        if expected.kind is Secret:
            return self._refuse(written, _LITERAL_KEY, path=path)
        if isinstance(value, Secret):
            why = f"this setting takes no {value.written}: only keys, headers and env do"
            return self._refuse(written, why, path=path)
        why = f"{show(value)} is not {describe(expected)}{hint_for(value, expected)}"
        return self._refuse(written, why, path=path)

    def _refuse(self, written: YamlValue, why: str, *, path: Path) -> object:
        self.problems.append(ConfigProblem(written.place, ".".join(path), why))
        return _WRONG


def _show(written: YamlValue) -> str:
    match written.value:
        case tuple():
            return "a list"
        case Mapping():
            return "a section"
        case Secret():
            return str(written.value)
        case value:
            return show(value)


# The settings of a configuration one by one, each with its name.


class Leaf(NamedTuple):
    """One setting and its value."""

    path: Path
    value: object
    restart: bool = False
    """True if a change needs a restart."""


def walk(section: object, path: Path = (), *, restart: bool = False) -> Iterator[Leaf]:
    """Every setting below a section, in the order in which they are declared."""
    if is_dataclass(section) and not isinstance(section, type):
        expected = expected_of(type(section))
        for field in fields(section):
            below = getattr(section, field.name)
            yield from walk(below, (*path, field.name), restart=expected[field.name].restart)
    elif isinstance(section, Mapping) and section:
        for name, below in section.items():
            yield from walk(below, (*path, name), restart=restart)
    elif isinstance(section, tuple) and any(map(is_dataclass, section)):
        for number, below in enumerate(section):
            yield from walk(below, (*path, str(number)), restart=restart)
    else:
        yield Leaf(path, section, restart)
