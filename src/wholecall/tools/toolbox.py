"""The tools of one run, by name; tools named as `module:function`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeAlias

from wholecall.arguments.describe import name_nearest, suggest
from wholecall.arguments.validate import require_admissible
from wholecall.errors import UnusableFunction
from wholecall.messages import Offer, ToolSpec, read_offer
from wholecall.tools.function_tool import FunctionTool, make_tool
from wholecall.tools.tool import Tool

Offered: TypeAlias = (
    Tool | FunctionTool[..., Any] | Callable[..., Any] | ToolSpec | Mapping[str, Any]
)
"""A tool, a function, or a definition whose calls the client runs itself."""


class Toolbox:
    """Tools with names that differ. It does not change."""

    def __init__(self, tools: Iterable[Offered] = ()) -> None:
        """Take tools, functions, and definitions in any provider's form.

        `InadmissibleTools` says which may not be offered, `UnusableFunction` which function
        cannot be a tool.
        """
        found: list[Tool] = []
        if isinstance(tools, Mapping) or not isinstance(tools, Iterable):
            raise UnusableFunction("tools= takes a list, even of one tool: write tools=[…]")
        native: list[Mapping[str, Any]] = []
        for offered in tools:
            read = _read(offered)
            found += read
            if isinstance(offered, Mapping) and not read:
                native.append(offered)
        require_admissible([tool.spec for tool in found])
        self.native = tuple(native)
        """Definitions of tools that the upstream itself runs, in its own form."""
        self._tools = {tool.spec.name: tool for tool in found}
        self.offer: Offer = {name: tool.spec for name, tool in self._tools.items()}
        """Their definitions for the model."""

    def find(self, name: str) -> Tool | None:
        """The tool of this name."""
        return self._tools.get(name)

    def runs(self, name: str) -> bool:
        """Return True if calls of this tool run here, instead of being handed to the client."""
        tool = self._tools.get(name)
        return tool is not None and tool.run is not None

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def _read(offered: Offered) -> list[Tool]:
    match offered:
        case Tool():
            return [offered]
        case FunctionTool():
            return [offered.tool]
        case ToolSpec():
            return [Tool(spec=offered, run=None)]
        case Mapping():
            return [Tool(spec=spec, run=None) for spec in read_offer([offered]).values()]
        case _:
            return [make_tool(offered)]


def import_tool(name: str) -> Tool | str:
    """Return the tool that `module:function` names, or the reason why it cannot be imported."""
    module_name, _, function_name = name.partition(":")
    try:
        module = import_module(module_name)
    except SystemExit as error:
        said = f"it ends the program (sys.exit({error.code!r})): leave that out"
        return f"the module {module_name!r} cannot be imported: {said}"
    except Exception as error:  # noqa: BLE001 - the module is the user's code, it may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name:
            return _tell_missing(name, error.name)
        return f"the module {module_name!r} cannot be imported: {type(error).__name__}: {error}"
    found = vars(module).get(function_name)
    if found is None:
        hint = name_nearest(function_name, list(_public_callables(vars(module))))
        return f"the module {module_name!r} has no function {function_name!r}; {hint}"
    return _adopt(found, name)


def _tell_missing(name: str, missing: str) -> str:
    """Name the module that is missing, and the one in this folder that may be meant."""
    module_name, _, function_name = name.partition(":")
    if not f"{module_name}.".startswith(f"{missing}."):
        return f"the module {module_name!r} imports {missing!r}, which is not installed"
    first, _, rest = module_name.replace("/", ".").partition(".")
    near = suggest(first, (found.name for found in iter_modules([str(Path.cwd())])))
    hint = f"; did you mean '{near}:{function_name or rest}'?" if near else ""
    return f"there is no module {module_name!r}{hint}"


def _adopt(found: object, name: str) -> Tool | str:
    if isinstance(found, FunctionTool):
        return found.tool
    if isinstance(found, Tool):
        return found
    if not callable(found):
        return f"{name!r} is not a function but {type(found).__name__}"
    try:
        return make_tool(found)
    except UnusableFunction as error:
        return str(error)


def _public_callables(names: Mapping[str, object]) -> Iterator[str]:
    return (name for name, value in names.items() if callable(value) and not name.startswith("_"))
