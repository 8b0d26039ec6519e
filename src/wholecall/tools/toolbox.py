"""The tools of one run, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from wholecall.arguments.validate import require_admissible
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
        native: list[Mapping[str, Any]] = []
        for offered in tools:
            read = _read(offered)
            found += read
            if isinstance(offered, Mapping) and not read:
                native.append(offered)
        require_admissible([tool.spec for tool in found])
        self.native = tuple(native)
        """Definitions of tools that the upstream itself runs, in its own form."""
        self._tools = {tool.name: tool for tool in found}
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
        case ToolSpec() | Mapping():
            return [Tool(spec=spec, run=None) for spec in read_offer([offered]).values()]
        case _:
            return [make_tool(offered)]
