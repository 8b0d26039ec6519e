"""The four tools that every scenario assumes, and their definitions in each protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wholecall.events import Start
from wholecall.messages import ToolSpec


def _text(description: str) -> dict[str, str]:
    return {"type": "string", "description": description}


def _object(required: list[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        "get_weather",
        _object(
            ["city"],
            city=_text("Name of the city."),
            unit={"type": "string", "enum": ["C", "F"]},
            days={"type": "integer", "description": "Days of forecast."},
        ),
        "Current weather of a city. It only reads.",
        Start.CLOSED,
    ),
    ToolSpec(
        "send_email",
        _object(["to", "body"], to=_text("Address."), body=_text("Text of the message.")),
        "Send an email. It cannot be undone.",
    ),
    ToolSpec("list_items", _object([]), "List all items. It only reads.", Start.CLOSED),
    ToolSpec(
        "write_file",
        {
            **_object(
                ["path"], path=_text("Where."), content=_text("The text; empty if left out.")
            ),
            "additionalProperties": False,
        },
        "Write a file; what was in it is lost.",
    ),
)
READ_ONLY = frozenset(tool.name for tool in TOOLS if tool.start is Start.CLOSED)


def _define_chat(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": _fields(tool)}


def _define_responses(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", **_fields(tool)}


def _define_anthropic(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": dict(tool.parameters),
    }


def _fields(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


_DEFINE: dict[str, Callable[[ToolSpec], dict[str, Any]]] = {
    "openai-chat": _define_chat,
    "openai-responses": _define_responses,
    "anthropic": _define_anthropic,
}


def definitions(protocol: str) -> list[dict[str, Any]]:
    """The four tools as a request in this protocol offers them."""
    return [_DEFINE[protocol](tool) for tool in TOOLS]
