"""What would keep the proxy from starting, found before it listens."""

from __future__ import annotations

import os
from collections.abc import Mapping

from wholecall.proxy.building import responses_path
from wholecall.proxy.config.functions import load_functions
from wholecall.proxy.config.loading import FILE_NAME, Loaded
from wholecall.proxy.config.problems import ConfigError, ConfigProblem, Place
from wholecall.proxy.config.secret import reveal
from wholecall.proxy.keys import find_trouble, needs_keys
from wholecall.tools.tool import Tool
from wholecall.upstreams.names import NamedModel, check_environment, find_lack

_KEYS = ("keys", "path")


def check_start(
    loaded: Loaded, environ: Mapping[str, str], *, tools: bool = True
) -> tuple[Tool, ...]:
    """Import the functions, look at the file of the keys, at what the environment says of
    upstreams, and at what models on this machine need; `ConfigError` names what is wrong.

    `tools`: whether to import. MCP servers are not started, and nothing is written.
    """
    _check_models(loaded, environ)
    _check_keys(loaded)
    _check_responses(loaded)
    return load_functions(loaded) if tools else ()


def _check_models(loaded: Loaded, environ: Mapping[str, str]) -> None:
    problems: list[ConfigProblem] = []
    for name, model in loaded.config.models.items():
        key = None if model.api_key is None else reveal(model.api_key)
        asked = NamedModel(model=model.upstream, base_url=model.base_url, api_key=key)
        try:
            check_environment(asked, environ)
            why = find_lack(model.upstream, environ)
        except ValueError as error:
            why = str(error)
        if why:
            path = ("models", name, "upstream")
            problems.append(ConfigProblem(loaded.places[path], ".".join(path), why))
    if problems:
        raise ConfigError(problems)


def _check_responses(loaded: Loaded) -> None:
    path = responses_path(loaded.config)
    if path is None or os.access(path if path.exists() else path.parent, os.W_OK):
        return
    why = (
        f"several workers hold responses in {path}, which cannot be written: name another folder "
        "in keys.path, or set responses.kept_seconds to 0"
    )
    setting = ("listen", "workers")
    place = loaded.places.get(setting, Place(str(loaded.file or FILE_NAME)))
    raise ConfigError([ConfigProblem(place, ".".join(setting), why)])


def _check_keys(loaded: Loaded) -> None:
    config = loaded.config
    trouble = find_trouble(config.keys.path) if needs_keys(config) else ""
    if trouble:
        # The usual file was written nowhere.
        place = loaded.places.get(_KEYS, Place(str(loaded.file or FILE_NAME)))
        raise ConfigError([ConfigProblem(place, ".".join(_KEYS), trouble)])
