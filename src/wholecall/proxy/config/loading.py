"""From a file and the environment to a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path as FilePath

from wholecall.proxy.config.environment import FILE_VARIABLE, fill, override
from wholecall.proxy.config.problems import ConfigError, ConfigProblem, Position
from wholecall.proxy.config.reading import Path, SettingsReader
from wholecall.proxy.config.rules import find_breaches
from wholecall.proxy.config.settings import Config, McpTool
from wholecall.proxy.config.written import CHARACTERS, Written, compose
from wholecall.runs.limits import default_limits

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
    written = Written({}, Position(file)) if path is None else compose(_read(path), file)
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
