"""Decode and encode `tool_choice` in each protocol's words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from wholecall.protocols.anthropic.tool_choice import ANTHROPIC, AnthropicForm
from wholecall.protocols.decoder import find_entry
from wholecall.protocols.openai_chat.tool_choice import CHAT, RESPONSES, OpenAIForm
from wholecall.tool_choice import (
    Choice,
    EncodedChoice,
    Mode,
    field_of,
)

_FORMS: dict[str, OpenAIForm | AnthropicForm] = {
    "openai-chat": CHAT,
    "openai-responses": RESPONSES,
    "anthropic": ANTHROPIC,
}


def decode(protocol: str, request: Mapping[str, Any], *, offered: Collection[str]) -> Choice:
    """Read the choice from a request's fields, or raise `InvalidChoice`.

    `offered` are the names of the request's tools; a tool that the upstream runs goes by its type.
    """
    choice = find_entry(_FORMS, protocol).decode(request, offered)
    if choice.mode is Mode.REQUIRED and not offered:
        raise field_of(request, "tool_choice").refuse("only 'auto' and 'none' without tools")
    return choice


def encode(choice: Choice, protocol: str) -> EncodedChoice:
    """Say a choice in a protocol's words. `none` is said as `none` in each of them."""
    return find_entry(_FORMS, protocol).encode(choice)
