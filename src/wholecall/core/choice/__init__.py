"""Choice: which tools an answer may or must call, read from one protocol and said in another.

Three modes and two restrictions carry all forms of `tool_choice`. One named tool is
`REQUIRED` with one name, `allowed_tools` is `AUTO` or `REQUIRED` with several, and
`parallel` says whether an answer may hold more than one call.

A value that is not understood is an `InvalidChoice`, never `auto`: a client that forbade
tools and mistyped the word must not see one run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from wholecall.core.choice.anthropic import ANTHROPIC, AnthropicForm
from wholecall.core.choice.obedience import Breach, obeyed
from wholecall.core.choice.openai import CHAT, RESPONSES, OpenAIForm
from wholecall.core.choice.reading import field_of
from wholecall.core.choice.values import Choice, Encoded, Mode, Special
from wholecall.core.tables import find_entry

__all__ = ["Breach", "Choice", "Encoded", "Mode", "Special", "decode", "encode", "obeyed"]

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


def encode(choice: Choice, protocol: str) -> Encoded:
    """Say a choice in a protocol's words. `none` is said as `none` in each of them."""
    return find_entry(_FORMS, protocol).encode(choice)
