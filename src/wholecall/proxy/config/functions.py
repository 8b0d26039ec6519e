"""Python functions that a configuration names as tools."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path as FilePath

from wholecall.core.near import nearest
from wholecall.errors import UnusableFunction
from wholecall.proxy.config.loading import Loaded
from wholecall.proxy.config.problems import ConfigError, ConfigProblem
from wholecall.proxy.config.settings import PythonTool
from wholecall.tools.from_function import FunctionTool, make_tool
from wholecall.tools.tool import Tool


def load_functions(loaded: Loaded) -> tuple[Tool, ...]:
    """Import the functions; raise `ConfigError` naming each that cannot be a tool.

    The folder of the file is searched last, so that no file in it shadows a package.
    """
    _search(FilePath() if loaded.file is None else loaded.file.parent)
    tools: list[Tool] = []
    problems: list[ConfigProblem] = []
    for number, entry in enumerate(loaded.config.tools):
        if not isinstance(entry, PythonTool):
            continue
        found = _load(entry.python)
        if isinstance(found, Tool):
            tools.append(found)
        else:
            path = ("tools", str(number), "python")
            problems.append(ConfigProblem(loaded.places[path], ".".join(path), found))
    if problems:
        raise ConfigError(problems)
    return tuple(tools)


def _search(folder: FilePath) -> None:
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)


def _load(name: str) -> Tool | str:
    """Return the tool, or the reason why there is none."""
    module_name, _, function_name = name.partition(":")
    try:
        module = import_module(module_name)
    except SystemExit as error:
        said = f"it ends the program (sys.exit({error.code!r})): leave that out"
        return f"the module {module_name!r} cannot be imported: {said}"
    except Exception as error:  # noqa: BLE001 - the module is the operator's code, it may raise anything
        return f"the module {module_name!r} cannot be imported: {type(error).__name__}: {error}"
    found = vars(module).get(function_name)
    if found is None:
        near = nearest(function_name, _public_callables(vars(module)))
        hint = f"; did you mean {near!r}?" if near else ""
        return f"the module {module_name!r} has no function {function_name!r}{hint}"
    return _make_tool(found, name)


def _make_tool(found: object, name: str) -> Tool | str:
    if isinstance(found, FunctionTool):
        return found.tool
    if isinstance(found, Tool):
        return found
    if not callable(found):
        return f"{name!r} is no function"
    try:
        return make_tool(found)
    except UnusableFunction as error:
        return str(error)


def _public_callables(names: dict[str, object]) -> Iterator[str]:
    return (name for name, value in names.items() if callable(value) and not name.startswith("_"))
