"""Load a configuration from a file and the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path as FilePath

from wholecall.agent.budget import default_limits
from wholecall.proxy.config.check import find_breaches
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    ConfigProblem,
    McpTool,
    Position,
    Secret,
)
from wholecall.proxy.config.settings_reader import (
    CHARACTERS,
    Path,
    SettingsReader,
    YamlValue,
    compose,
)

PREFIX = "WHOLECALL__"
FILE_VARIABLE = "WHOLECALL_CONFIG"
_SEPARATOR = "__"
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FOREIGN = re.compile(r"[^A-Z0-9]")


def override(written: YamlValue, environ: Mapping[str, str]) -> YamlValue:
    """The file with what the environment says instead."""
    for variable in sorted(environ):
        if variable.startswith(PREFIX):
            names = variable.removeprefix(PREFIX).split(_SEPARATOR)
            value = compose(environ[variable], variable, line=None)
            written = _put(written, names, value=value)
    return written


def _put(written: YamlValue, names: Sequence[str], *, value: YamlValue) -> YamlValue:
    """The value in its place. What is not there yet is added; whether it may be, others say."""
    if not names:
        return value
    if isinstance(written.value, tuple):
        whole = "a list can only be replaced as a whole: leave out what follows its name"
        raise ConfigError([ConfigProblem(value.place, "", whole)])
    members = dict(written.value) if isinstance(written.value, Mapping) else {}
    name = next((known for known in members if _fold(known) == names[0].upper()), names[0].lower())
    below = members.get(name, YamlValue({}, value.place))
    return YamlValue(members | {name: _put(below, names[1:], value=value)}, written.place)


def _fold(name: str) -> str:
    """Return a name as it is written in a variable, which has letters, digits and underscores
    only."""
    return _FOREIGN.sub("_", name.upper())


# ── Keys ────────────────────────────────────────────────────────────────────────────


def fill(written: YamlValue, environ: Mapping[str, str]) -> tuple[YamlValue, list[ConfigProblem]]:
    """Texts with `${NAME}` as secrets, and which of the names are not set."""
    problems: list[ConfigProblem] = []

    def fill_in(written: YamlValue) -> YamlValue:
        match written.value:
            case str(text) if _REFERENCE.search(text):
                missing = [name for name in _REFERENCE.findall(text) if not environ.get(name)]
                problems.extend(_complain(written, name) for name in missing)
                filled = _REFERENCE.sub(lambda found: environ.get(found[1], ""), text)
                return YamlValue(Secret(filled, written=text), written.place)
            case tuple(items):
                return YamlValue(tuple(map(fill_in, items)), written.place)
            case Mapping() as members:
                filled_in = {name: fill_in(member) for name, member in members.items()}
                return YamlValue(filled_in, written.place)
            case _:
                return written

    return fill_in(written), problems


def _complain(written: YamlValue, name: str) -> ConfigProblem:
    return ConfigProblem(written.place, "", f"the environment variable {name} is not set")


# From a file and the environment to a configuration.


FILE_NAME = "wholecall.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration, and where it comes from."""

    config: Config
    file: FilePath | None
    places: Mapping[Path, Position]
    """The position of each setting in its file; missing ones have their defaults."""


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
    written = YamlValue({}, Position(file)) if path is None else compose(_read(path), file)
    filled, missing = fill(override(written, environ), environ)
    reader = SettingsReader()
    config = reader.read(filled)
    problems = [*([] if without_keys else missing), *reader.problems]
    if config is not None:
        # The defaults break no rule, so what does was written somewhere.
        problems += [
            ConfigProblem(reader.places[path], ".".join(path), why)
            for path, why in find_breaches(config)
        ]
    if problems or config is None:
        raise ConfigError(sorted(problems, key=_order))
    config = _fit_limits(_resolve(config, path), reader.places)
    return Loaded(config=config, file=path, places=reader.places)


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
    return replace(config, keys=keys, tools=tools)
