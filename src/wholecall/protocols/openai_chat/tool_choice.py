"""OpenAI's two protocols, chat completions and Responses: the same choices, differently wrapped.

| choice        | chat                                                | Responses              |
|---------------|-----------------------------------------------------|------------------------|
| all tools     | `"auto"`, `"none"`, `"required"`                    | the same               |
| one tool      | `{"type": "function", "function": {"name": …}}`     | the name not nested    |
| some tools    | `{"type": "allowed_tools", "allowed_tools": {…}}`   | the body not nested    |
| its own tools | —                                                   | `{"type": "shell"}`, … |
| one at a time | `parallel_tool_calls: false` beside it              | the same               |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wholecall.tool_choice import (
    Choice,
    EncodedChoice,
    Field,
    Mode,
    Offered,
    Special,
    Tool,
    Wire,
    allow_all,
    field_of,
    list_words,
    restrict,
)

_Reader: TypeAlias = Callable[[Field, Offered], Tool]

WORDS = {"auto": Mode.AUTO, "none": Mode.NONE, "required": Mode.REQUIRED}
# Mistral's chat endpoint says `any` for `required`.
_CHAT_WORDS = {**WORDS, "any": Mode.REQUIRED}
_LEGACY_WORDS = {"auto": Mode.AUTO, "none": Mode.NONE}
_ALLOWED_MODES = {"auto": Mode.AUTO, "required": Mode.REQUIRED}


@dataclass(frozen=True, slots=True)
class OpenAIForm:
    """The form in which one of the two protocols writes a choice."""

    words: Mapping[str, Mode]
    readers: Mapping[str, _Reader]
    """Readers of a tool's name, by the tool's type."""
    write: Callable[[Tool], dict[str, Any] | None]
    wrapped: bool
    """True if the body of `allowed_tools` is nested under a second key of that name."""
    legacy: bool
    """True if the deprecated `function_call` is read."""

    def decode(self, request: Wire, offered: Offered) -> Choice:
        """Read the choice from a request's fields."""
        parallel = field_of(request, "parallel_tool_calls").read_flag(default=True)
        choice = field_of(request, "tool_choice")
        old = field_of(request, "function_call")
        if self.legacy and old.value is not None:
            if choice.value is not None:
                raise old.refuse("only without tool_choice")
            return _decode_legacy(old, offered, parallel=parallel)
        if choice.value is None:
            return allow_all(Mode.AUTO, parallel=parallel)
        if not isinstance(choice.value, Mapping):
            return allow_all(choice.read_word(self.words), parallel=parallel)
        if choice.value.get("type") == "allowed_tools":
            return self._decode_allowed(choice, offered, parallel=parallel)
        tool = self._read_tool(choice, offered, types=[*self.readers, "allowed_tools"])
        return restrict(Mode.REQUIRED, [tool], parallel=parallel)

    def _decode_allowed(self, choice: Field, offered: Offered, *, parallel: bool) -> Choice:
        body = choice.member("allowed_tools") if self.wrapped else choice
        mode = body.member("mode").read_word(_ALLOWED_MODES)
        refs = body.member("tools")
        if not isinstance(refs.value, list) or not refs.value:
            raise refs.refuse("a list of at least one tool")
        tools = [
            self._read_tool(Field(f"{refs.param}[{place}]", ref), offered, types=self.readers)
            for place, ref in enumerate(refs.value)
        ]
        return restrict(mode, tools, parallel=parallel)

    def _read_tool(self, ref: Field, offered: Offered, *, types: Collection[str]) -> Tool:
        kind = ref.member("type")
        if not isinstance(kind.value, str) or kind.value not in self.readers:
            raise kind.refuse(list_words(types))
        return self.readers[kind.value](ref, offered)

    def encode(self, choice: Choice) -> EncodedChoice:
        """Say a choice in the protocol's words."""
        written = {tool: self.write(tool) for tool in choice.tools}
        refs = [ref for ref in written.values() if ref is not None]
        unsaid = tuple(tool for tool in choice.specials if written[tool] is None)
        if choice.tools and not refs:
            # Nothing that may be called can be named, and nothing else may be called.
            return EncodedChoice({"tool_choice": "none"}, unsaid=unsaid)
        fields = {"tool_choice": self._encode_value(choice.mode, refs)}
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
        return EncodedChoice(fields, unsaid=unsaid)

    def _encode_value(self, mode: Mode, refs: list[dict[str, Any]]) -> Any:
        if not refs:
            return mode.value
        if mode is Mode.REQUIRED and len(refs) == 1:
            return refs[0]
        body: dict[str, Any] = {"mode": mode.value, "tools": refs}
        return {"type": "allowed_tools", **({"allowed_tools": body} if self.wrapped else body)}


def _decode_legacy(old: Field, offered: Offered, *, parallel: bool) -> Choice:
    if isinstance(old.value, Mapping):
        return restrict(Mode.REQUIRED, [old.read_name(offered)], parallel=parallel)
    return allow_all(old.read_word(_LEGACY_WORDS), parallel=parallel)


# ── How a tool of each type is named ────────────────────────────────────────────────


def _read_nested(kind: str) -> Callable[[Field, Offered], str]:
    return lambda ref, offered: ref.member(kind).read_name(offered)


def read_custom(name: Callable[[Field, Offered], str]) -> _Reader:
    """Make the reader of a custom tool from the reader of its name."""
    return lambda ref, offered: Special("custom", name(ref, offered))


def _write_chat_tool(tool: Tool) -> dict[str, Any] | None:
    if isinstance(tool, str):
        return {"type": "function", "function": {"name": tool}}
    return {"type": "custom", "custom": {"name": tool.name}} if tool.type == "custom" else None


CHOICE = OpenAIForm(
    words=_CHAT_WORDS,
    readers={"function": _read_nested("function"), "custom": read_custom(_read_nested("custom"))},
    write=_write_chat_tool,
    wrapped=True,
    legacy=True,
)
