"""Anthropic's choice: always an object, with the flag against parallel calls inside it."""

from __future__ import annotations

from typing import Any

from wholecall.tool_choice import (
    Choice,
    EncodedChoice,
    Mode,
    Offered,
    Wire,
    allow_all,
    field_of,
    restrict,
)

_TYPES = {"auto": Mode.AUTO, "none": Mode.NONE, "any": Mode.REQUIRED}
_WORDS = {mode: word for word, mode in _TYPES.items()}
_TOOL = "tool"
_ONE_AT_A_TIME = "disable_parallel_tool_use"


class AnthropicForm:
    """Reads and says a choice in Anthropic's words."""

    def decode(self, request: Wire, offered: Offered) -> Choice:
        """Read the choice from a request's fields."""
        choice = field_of(request, "tool_choice")
        if choice.value is None:
            return Choice()
        parallel = not choice.member(_ONE_AT_A_TIME).read_flag(default=False)
        kind = choice.member("type")
        mode = kind.read_word({**_TYPES, _TOOL: Mode.REQUIRED})
        if kind.value != _TOOL:
            return allow_all(mode, parallel=parallel)
        return restrict(mode, [choice.read_name(offered)], parallel=parallel)

    def encode(self, choice: Choice) -> EncodedChoice:
        """Say a choice in the protocol's words."""
        if choice.tools and not choice.names:
            # Nothing that may be called can be named, and nothing else may be called.
            return EncodedChoice({"tool_choice": {"type": "none"}}, unsaid=choice.specials)
        value: dict[str, Any] = {"type": _WORDS[choice.mode]}
        # The protocol has no list of allowed tools, so the others are not offered.
        offer = choice.names or None
        if choice.mode is Mode.REQUIRED and len(choice.names) == 1:
            value, offer = {"type": _TOOL, "name": choice.names[0]}, None
        if not choice.parallel:
            value[_ONE_AT_A_TIME] = True
        return EncodedChoice({"tool_choice": value}, offer, choice.specials)


ANTHROPIC = AnthropicForm()
