"""Load a configuration from a file and the environment; apply the changes of a new one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import yaml
from pydantic import ValidationError

from wholecall.agent.budget import default_limits
from wholecall.arguments.describe import cut
from wholecall.events import JSON
from wholecall.proxy.config.check import explain, find_breaches, find_node, needs_restart, walk
from wholecall.proxy.config.schema import (
    LITERAL_KEY,
    REFERENCE,
    Config,
    ConfigError,
    ConfigProblem,
    JournalConfig,
    McpTool,
    Path,
    Position,
    Secret,
    reveal,
    validate,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CHARACTERS = 256 * 1024
"""Of a file. A hundred models take 20 thousand."""
VALUES = 20_000
"""Of a file, with what its aliases stand for: ten lines of them can stand for a billion."""
DEPTH = 16
"""Of values in each other. The settings need six levels."""


class Written(NamedTuple):
    """What a file or a variable says, and where it says each part of it."""

    value: JSON
    places: dict[Path, Position]


# YAML 1.2, chapter 10.3.2: the value of a word without quotes.
_PLAIN: tuple[tuple[re.Pattern[str], Callable[[str], JSON]], ...] = (
    (re.compile(r"|~|null|Null|NULL"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,18}"), int),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
)
_DEFAULT_TAGS = frozenset(
    {"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
)
_SURROGATE = re.compile(r"[\ud800-\udfff]")

# Its brace would end the braces around it.
_QUOTES = "inside of { } and [ ], ${NAME} needs quotes"


def compose(text: str, file: str, *, line: int | None = 1) -> Written:
    """Read a text; `line` None: it is the value of the environment variable `file`."""
    return _Composer(file, first_line=line).compose(text)


class _Composer:
    """Turns the nodes of one text into values, and notes their positions."""

    def __init__(self, file: str, *, first_line: int | None) -> None:
        self._file = file
        self._first_line = first_line
        self._places: dict[Path, Position] = {}
        self._values = 0

    def compose(self, text: str) -> Written:
        if len(text) > CHARACTERS:
            raise self._refuse(None, f"it has more than {CHARACTERS} characters")
        try:
            node = yaml.compose(text, Loader=yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self._refuse(mark, f"this is not valid YAML: {_tell(error, text)}") from None
        except yaml.YAMLError as error:
            raise self._refuse(None, f"this is not valid YAML: {cut(str(error))}") from None
        except RecursionError:
            raise self._refuse(None, f"it is nested more than {DEPTH} levels deep") from None
        if node is None:
            return Written({} if self._first_line else None, {(): self._place(None)})
        return Written(self._read(node, (), place=self._place(node.start_mark)), self._places)

    def _read(self, node: yaml.Node, path: Path, *, place: Position) -> JSON:
        self._check(node, path)
        self._places[path] = place
        match node:
            case yaml.ScalarNode():
                return _read_scalar(node)
            case yaml.MappingNode():
                return {
                    name: self._read(value, (*path, name), place=place)
                    for name, value, place in self._find_members(node)
                }
            case _:
                return [
                    self._read(item, (*path, str(number)), place=self._place(item.start_mark))
                    for number, item in enumerate(node.value)
                ]

    def _check(self, node: yaml.Node, path: Path) -> None:
        self._values += 1
        if self._values > VALUES:
            raise self._refuse(node.start_mark, f"it has more than {VALUES} values")
        if len(path) == DEPTH:
            raise self._refuse(node.start_mark, f"it is nested more than {DEPTH} levels deep")
        if node.tag not in _DEFAULT_TAGS:
            why = f"the tag {node.tag!r} is not allowed: leave it out"
            raise self._refuse(node.start_mark, why)
        if isinstance(node, yaml.ScalarNode):
            self._check_text(node)

    def _check_text(self, node: yaml.ScalarNode) -> None:
        if _SURROGATE.search(node.value):
            raise self._refuse(node.start_mark, "half of a surrogate pair is not a character")

    def _find_members(self, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, Position]]:
        """Yield the members with the positions of their names: a value may begin a line later."""
        seen: dict[str, Position] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._refuse(key.start_mark, "the name of a setting must be a word")
            self._check_text(key)
            name = key.value
            if name in seen:
                again = f"{name!r} is already set in line {seen[name].line}: keep one of them"
                raise self._refuse(key.start_mark, again)
            seen[name] = self._place(key.start_mark)
            yield name, value, seen[name]

    def _place(self, mark: yaml.Mark | None) -> Position:
        if self._first_line is None or mark is None:
            return Position(self._file, self._first_line)
        return Position(self._file, self._first_line + mark.line)

    def _refuse(self, mark: yaml.Mark | None, message: str) -> ConfigError:
        return ConfigError([ConfigProblem(self._place(mark), "", message)])


def _read_scalar(node: yaml.ScalarNode) -> JSON:
    text: str = node.value
    if node.style is None:
        for pattern, read in _PLAIN:
            if pattern.fullmatch(text):
                return read(text)
    return text


_CURES = {
    "mapping values are not allowed here": "; is the line indented too far?",
    r"found character '\t' that cannot start any token": "; indent with spaces, not with tabs",
}


def _tell(error: yaml.MarkedYAMLError, text: str) -> str:
    said = cut(", ".join(part for part in (error.context, error.problem) if part))
    said += _CURES.get(error.problem or "", "")
    mark = error.problem_mark
    # An unclosed bracket is reported at the end: after the last line.
    lines = text.splitlines()[mark.line : mark.line + 1] if mark else []
    return f"{said}; {_QUOTES}" if any("${" in line for line in lines) else said


# ── The environment ─────────────────────────────────────────────────────────────────


PREFIX = "WHOLECALL__"
FILE_VARIABLE = "WHOLECALL_CONFIG"
_SEPARATOR = "__"
_FOREIGN = re.compile(r"[^A-Z0-9]")


def override(written: Written, environ: Mapping[str, str]) -> Written:
    """The file with what the environment says instead."""
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            names = variable.removeprefix(PREFIX).split(_SEPARATOR)
            fresh = compose(environ[variable], variable, line=None)
            value, path = _put(written.value, names, fresh=fresh)
            written = Written(value, _put_places(written.places, path, fresh=fresh))
    return written


def _put(value: JSON, names: Sequence[str], *, fresh: Written) -> tuple[JSON, Path]:
    """Return the settings with a new value, and its path. Unknown names are added: whether there
    are such settings is checked later."""
    if not names:
        return fresh.value, ()
    if isinstance(value, list):
        whole = "a list can only be replaced as a whole: leave out what follows its name"
        raise ConfigError([ConfigProblem(fresh.places[()], "", whole)])
    members = value if isinstance(value, Mapping) else {}
    name = next((known for known in members if _fold(known) == names[0].upper()), names[0].lower())
    below, path = _put(members.get(name), names[1:], fresh=fresh)
    return {**members, name: below}, (name, *path)


def _put_places(
    places: Mapping[Path, Position], path: Path, *, fresh: Written
) -> dict[Path, Position]:
    kept = {each: place for each, place in places.items() if each[: len(path)] != path}
    for depth in range(len(path)):
        kept.setdefault(path[:depth], fresh.places[()])
    return kept | {(*path, *below): place for below, place in fresh.places.items()}


def _fold(name: str) -> str:
    """Return a name as it is written in a variable, which has letters, digits and underscores
    only."""
    return _FOREIGN.sub("_", name.upper())


def _find_missing(
    value: JSON, environ: Mapping[str, str], *, path: Path = ()
) -> Iterator[tuple[Path, str]]:
    """Find the variables that are named as `${NAME}` and are not set."""
    if isinstance(value, str):
        names = (name for name in REFERENCE.findall(value) if not environ.get(name))
        yield from ((path, f"the environment variable {name} is not set") for name in names)
    elif isinstance(value, Mapping | list):
        members = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, below in members:
            yield from _find_missing(below, environ, path=(*path, str(name)))


# ── From a file and the environment to a configuration ──────────────────────────────


FILE_NAME = "wholecall.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration, and where it comes from."""

    config: Config
    file: FilePath | None
    places: Mapping[Path, Position]
    """The position of each setting in its file; missing ones have their defaults."""

    def blame(self, path: Path, why: str) -> ConfigProblem:
        """Return a problem with a setting, at its position; a default has that of the file."""
        place = self.places.get(path, Position(str(self.file or FILE_NAME)))
        return ConfigProblem(place, ".".join(path), why)


def load_config(path: FilePath | None, environ: Mapping[str, str]) -> Config:
    """Read a file and what the environment says instead; `ConfigError` names what is wrong.

    Without a file there are the environment and the defaults.
    """
    return load(path, environ).config


def load(
    path: FilePath | None, environ: Mapping[str, str], *, without_keys: bool = False
) -> Loaded:
    """`load_config`, and where each setting was written.

    `without_keys`: the environment need not hold the keys that the file names.
    """
    file = str(path or FILE_NAME)
    empty = Written({}, {(): Position(file)})
    written = override(empty if path is None else compose(_read(path), file), environ)
    places = written.places
    missing = () if without_keys else _find_missing(written.value, environ)
    problems = [ConfigProblem(places[at], ".".join(at), why) for at, why in missing]
    try:
        config = validate(_fill_empty(written.value), environ)
    except ValidationError as error:
        problems += explain(error, places)
        raise ConfigError(sorted(problems, key=_order)) from None
    # The defaults break no rule, so what does was written somewhere.
    broken = [*_find_literal_keys(config, places), *find_breaches(config)]
    problems += [ConfigProblem(places[at], ".".join(at), why) for at, why in broken]
    if problems:
        raise ConfigError(sorted(problems, key=_order))
    return Loaded(config=_fit_limits(_resolve(config, path), places), file=path, places=places)


def find_file(given: FilePath | None, environ: Mapping[str, str]) -> FilePath | None:
    """The file that is meant: the given one, that of the environment, or `wholecall.yaml` here."""
    if given is not None:
        return given
    named = environ.get(FILE_VARIABLE)
    if named:
        return FilePath(named)
    here = FilePath(FILE_NAME)
    return here if here.is_file() else None


def _read(path: FilePath) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4 * CHARACTERS + 1).decode()
    except OSError as error:
        why = f"it cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        why = f"it is not in UTF-8: byte {error.start} is wrong"
    raise ConfigError([ConfigProblem(Position(str(path)), "", why)])


def _order(problem: ConfigProblem) -> tuple[str, int]:
    return problem.place.file, problem.place.line or 0


def _fill_empty(value: JSON, path: Path = ()) -> JSON:
    """Return the settings with an empty section or list where only its name was written."""
    if isinstance(value, Mapping):
        return {name: _fill_empty(below, (*path, name)) for name, below in value.items()}
    if isinstance(value, list):
        return [_fill_empty(below, (*path, str(place))) for place, below in enumerate(value)]
    node = find_node(path) if value is None else {}
    if node.get("type") == "array":
        return []
    return {} if node.get("type") == "object" or "oneOf" in node else value


def _find_literal_keys(
    config: Config, places: Mapping[Path, Position]
) -> Iterator[tuple[Path, str]]:
    """Find keys in the file. In an environment variable a key may be, whatever its name."""
    for path, value in walk(config):
        if isinstance(value, Secret) and value.is_literal and places[path].line is not None:
            yield path, LITERAL_KEY


def _fit_limits(config: Config, places: Mapping[Path, Position]) -> Config:
    """Fit limits that were not set to the model."""
    models = {}
    for name, model in config.models.items():
        fitting = default_limits(model.upstream)
        unwritten = {
            field.name: getattr(fitting, field.name)
            for field in fields(fitting)
            if ("models", name, "limits", field.name) not in places
        }
        models[name] = replace(model, limits=replace(model.limits, **unwritten))
    return replace(config, models=models)


def _resolve(config: Config, path: FilePath | None) -> Config:
    """Paths are seen from the folder of the file, wherever the proxy is started."""
    folder = FilePath() if path is None else path.parent
    keys = replace(config.keys, path=str(folder / config.keys.path))
    tools = tuple(
        replace(tool, cwd=str(folder / tool.cwd))
        if isinstance(tool, McpTool) and tool.cwd
        else tool
        for tool in config.tools
    )
    return replace(config, keys=keys, tools=tools, journal=_resolve_journal(config, folder))


def _resolve_journal(config: Config, folder: FilePath) -> JournalConfig:
    kind, separator, place = reveal(config.journal.url).partition(":")
    if kind != "sqlite" or not place:
        return config.journal
    return replace(config.journal, url=f"{kind}{separator}{folder / place}")


# ── A reload ───────────────────────────────────────────────────────────────────────────

_Section = TypeVar("_Section", bound="DataclassInstance")
_RELOADED = Position("the new settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Names of settings that differ, such as `models.fast.mode` or `models.fast (added)`."""

    live: tuple[str, ...]
    """A running proxy can take them over."""
    restart: tuple[str, ...]
    """They stay as they are until the proxy is started anew."""


def changes(old: Config, new: Config) -> Changes:
    """Compare two configurations. What only one of them has is one change, whatever it holds."""
    found = list(_compare(old, new))
    return Changes(
        live=tuple(".".join(path) for path in found if not needs_restart(path)),
        restart=tuple(".".join(path) for path in found if needs_restart(path)),
    )


def _compare(old: object, new: object, *, path: Path = ()) -> Iterator[Path]:
    if old == new:
        return
    before, after = _find_members(old), _find_members(new)
    if type(old) is not type(new) or not (before or after):
        yield path
        return
    for name in {**before, **after}:
        if name not in after:
            yield (*path, f"{name} (removed)")
        elif name not in before:
            yield (*path, f"{name} (added)")
        else:
            yield from _compare(before[name], after[name], path=(*path, name))


def _find_members(section: object) -> dict[str, object]:
    """Return the settings of a section and the entries of models, tools and headers by name."""
    if is_dataclass(section):
        return {field.name: getattr(section, field.name) for field in fields(section)}
    if isinstance(section, tuple) and any(map(is_dataclass, section)):
        return {str(number): entry for number, entry in enumerate(section)}
    return dict(section) if isinstance(section, Mapping) else {}


def take_over(old: Config, new: Config) -> Config:
    """Return the settings after a reload: all but those that need a restart. Raise `ConfigError` if
    these contradict the rest.

    A file that moves the proxy to 127.0.0.1 and no longer requires keys is valid; but until the
    restart the old address would be open to everyone.
    """
    config = _keep_old(old, new)
    problems = [
        ConfigProblem(_RELOADED, ".".join(path), f"{why} (it changes with a restart only)")
        for path, why in find_breaches(config)
    ]
    if problems:
        raise ConfigError(problems)
    return config


def _keep_old(old: _Section, new: _Section, *, path: Path = ()) -> _Section:
    """Return a section with the old values of the settings that need a restart."""
    kept = {}
    for field in fields(new):
        below = (*path, field.name)
        before, after = getattr(old, field.name), getattr(new, field.name)
        if is_dataclass(after):
            kept[field.name] = _keep_old(before, after, path=below)
        elif needs_restart(below):
            kept[field.name] = before
    return replace(new, **kept)
