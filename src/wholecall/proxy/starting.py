"""What would keep the proxy from starting, found before it listens."""

from __future__ import annotations

from wholecall.proxy.config.functions import load_functions
from wholecall.proxy.config.loading import FILE_NAME, Loaded
from wholecall.proxy.config.problems import ConfigError, ConfigProblem, Place
from wholecall.proxy.keys import find_trouble, needs_keys
from wholecall.tools.tool import Tool

_KEYS = ("keys", "path")


def check_start(loaded: Loaded, *, tools: bool = True) -> tuple[Tool, ...]:
    """Import the functions and look at the file of the keys; `ConfigError` names what is wrong.

    `tools`: whether to import. MCP servers are not started, and nothing is written.
    """
    _check_keys(loaded)
    return load_functions(loaded) if tools else ()


def _check_keys(loaded: Loaded) -> None:
    config = loaded.config
    trouble = find_trouble(config.keys.path) if needs_keys(config) else ""
    if trouble:
        # The usual file was written nowhere.
        place = loaded.places.get(_KEYS, Place(str(loaded.file or FILE_NAME)))
        raise ConfigError([ConfigProblem(place, ".".join(_KEYS), trouble)])
