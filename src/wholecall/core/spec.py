"""A tool as it is offered to the model: its name, its schema, when a call may start."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeGuard

from wholecall.core.values import Problem, Start
from wholecall.errors import InadmissibleTools


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The core's view of a tool."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of its arguments; empty means that anything fits."""
    description: str = ""
    start: Start = Start.CONFIRMED
    """The safe default: a tool with side effects waits for the end of the turn."""
    read_only: bool = False
    """It changes nothing: a call of it may be started although it was written as text."""


Offer: TypeAlias = Mapping[str, ToolSpec]
"""The tools of one request by name."""


def read_offer(
    tools: Iterable[ToolSpec | Mapping[str, Any]], *, start: Start | None = None
) -> Offer:
    """Read tool definitions in OpenAI's, Responses', Anthropic's, Bedrock's or Gemini's form.

    A provider's own tool (`{"type": "web_search"}`) has no name and is skipped. `start` overrides
    the policy of every definition that is not a `ToolSpec`. A definition that cannot be read raises
    `InadmissibleTools`.
    """
    specs: dict[str, ToolSpec] = {}
    for index, tool in enumerate(tools):
        if _is_read(tool):
            specs[tool.name] = tool
            continue
        for spec in read_tool(tool, f"$[{index}]", start=start or Start.CONFIRMED):
            specs[spec.name] = spec
    return specs


def _is_read(tool: ToolSpec | Mapping[str, Any]) -> TypeGuard[ToolSpec]:
    """Return True for a `ToolSpec`, which callers pass that have read the offer before."""
    return type(tool) is ToolSpec and type(tool.name) is str and type(tool.parameters) is dict


def read_tool(
    tool: ToolSpec | Mapping[str, Any], path: str, *, start: Start = Start.CONFIRMED
) -> list[ToolSpec]:
    """Return the tools of one definition: Gemini's hold many, a provider's own tool none.

    `path` is its place in the list, for the error.
    """
    if isinstance(tool, ToolSpec):
        _demand(isinstance(tool.name, str), tool.name, path=f"{path}.name", expected=_NAME)
        schema, place = tool.parameters, f"{path}.parameters"
        _demand(isinstance(schema, Mapping), schema, path=place, expected=_SCHEMA)
        return [tool]
    read = (_read_body(body, place, start=start) for body, place in _bodies(tool, path))
    return [spec for spec in read if spec is not None]


# ── Forms ───────────────────────────────────────────────────────────────────────────

# What a provider wraps a definition in, and whether many stand in it. Responses, Anthropic
# and MCP wrap it in nothing.
_WRAPPERS: tuple[tuple[str, bool], ...] = (
    ("functionDeclarations", True),  # Gemini
    ("function", False),  # OpenAI's chat completions
    ("toolSpec", False),  # Bedrock
)
# The places of the schema; Bedrock wraps it once more.
_SCHEMAS = ("parameters", "parametersJsonSchema", "input_schema", "inputSchema")
_SCHEMA_WRAPPER = "json"
# With these fields and no name it is a mistake, not a provider's own tool.
_DEFINES = frozenset({"description", *_SCHEMAS})


def _bodies(tool: Any, path: str) -> Iterator[tuple[Any, str]]:
    """The bodies of a definition, each with its place."""
    _demand(isinstance(tool, Mapping), tool, path=path, expected=_DEFINITION)
    for wrapper, holds_many in _WRAPPERS:
        wrapped = tool.get(wrapper)
        if wrapped and holds_many:
            place = f"{path}.{wrapper}"
            _demand(isinstance(wrapped, list | tuple), wrapped, path=place, expected=_LIST)
            yield from ((body, f"{place}[{at}]") for at, body in enumerate(wrapped))
            return
        if wrapped:
            yield wrapped, f"{path}.{wrapper}"
            return
    yield tool, path


def _read_body(body: Any, path: str, *, start: Start) -> ToolSpec | None:
    _demand(isinstance(body, Mapping), body, path=path, expected=_DEFINITION)
    if "name" not in body and not _is_ours(body):
        return None
    name = body.get("name")
    _demand(isinstance(name, str), name, path=f"{path}.name", expected=_NAME)
    key = next((key for key in _SCHEMAS if body.get(key)), None)
    schema = {} if key is None else body[key]
    _demand(isinstance(schema, Mapping), schema, path=f"{path}.{key}", expected=_SCHEMA)
    if isinstance(schema.get(_SCHEMA_WRAPPER), Mapping):
        schema = schema[_SCHEMA_WRAPPER]
    description = body.get("description") or ""
    place = f"{path}.description"
    _demand(isinstance(description, str), description, path=place, expected=_DESCRIPTION)
    return ToolSpec(name, schema, description, start)


def _is_ours(body: Mapping[str, Any]) -> bool:
    """Return True if a definition without a name was meant to be a function."""
    kind = body.get("type")
    return kind == "function" or (kind is None and not _DEFINES.isdisjoint(body))


# ── Refusals ────────────────────────────────────────────────────────────────────────

_DEFINITION = 'a ToolSpec or a definition: {"name": "weather", "parameters": {"type": "object"}}'
_LIST = "a list of definitions"
_DESCRIPTION = 'what the tool is for: {"name": "weather", "description": "Weather of a city", …}'
_NAME = 'the name of the tool: {"name": "weather", …}'
_SCHEMA = 'a JSON Schema: {"type": "object", "properties": {…}}'


def _demand(holds: bool, found: Any, *, path: str, expected: str) -> None:
    if not holds:
        received = reprlib.repr(found)
        message = f"tools{path.removeprefix('$')} is {received}: write {expected}"
        raise InadmissibleTools(message, (Problem(path, "tool", message, received, expected),))
