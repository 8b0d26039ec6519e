"""A tool as it is offered to the model: its name, its schema, when a call may start."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from wholecall.core.values import Start


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the core knows of a tool."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The JSON Schema of its arguments; empty means that anything fits."""
    description: str = ""
    start: Start = Start.CONFIRMED
    """The safe default: a tool with side effects waits for the end of the turn."""


Offer: TypeAlias = Mapping[str, ToolSpec]
"""The tools of one request by name."""


def read_offer(
    tools: Iterable[ToolSpec | Mapping[str, Any]], *, start: Start | None = None
) -> Offer:
    """Read tool definitions in OpenAI's, Responses', Anthropic's, Bedrock's or Gemini's form.

    A provider's own tool (`{"type": "web_search"}`) has no name, and no call of ours has it.
    `start` overrides the policy of every definition that is not a `ToolSpec`.
    """
    specs: dict[str, ToolSpec] = {}
    for tool in tools:
        read = (tool,) if isinstance(tool, ToolSpec) else _read_definitions(tool, start)
        specs.update((spec.name, spec) for spec in read)
    return specs


_SCHEMAS = ("parameters", "parametersJsonSchema", "input_schema", "inputSchema")


def _read_definitions(tool: Mapping[str, Any], start: Start | None) -> Iterator[ToolSpec]:
    for definition in tool.get("functionDeclarations") or (tool,):  # Gemini declares many at once
        body = definition.get("function") or definition.get("toolSpec") or definition
        schema: Mapping[str, Any] = next((body[key] for key in _SCHEMAS if body.get(key)), {})
        if isinstance(schema.get("json"), Mapping):
            schema = schema["json"]  # Bedrock wraps the schema once more
        if "name" in body:
            description = body.get("description") or ""
            yield ToolSpec(body["name"], schema, description, start or Start.CONFIRMED)
