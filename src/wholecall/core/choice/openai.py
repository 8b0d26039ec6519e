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

from wholecall.core.choice.reading import (
    Offered,
    Wire,
    list_words,
    read_flag,
    read_name,
    read_object,
    read_word,
    refuse,
)
from wholecall.core.choice.values import (
    Choice,
    Encoded,
    Mode,
    Special,
    Tool,
    allow_all,
    restrict,
)

_Reader: TypeAlias = Callable[[Wire, str, Offered], Tool]

_WORDS = {"auto": Mode.AUTO, "none": Mode.NONE, "required": Mode.REQUIRED}
# Mistral's chat endpoint says `any` for `required`.
_CHAT_WORDS = {**_WORDS, "any": Mode.REQUIRED}
_LEGACY_WORDS = {"auto": Mode.AUTO, "none": Mode.NONE}
_ALLOWED_MODES = {"auto": Mode.AUTO, "required": Mode.REQUIRED}
# The tools that the Responses endpoint runs itself and lets a client force by their type.
_HOSTED = (
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "programmatic_tool_calling",
    "shell",
    "web_search",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)


@dataclass(frozen=True, slots=True)
class OpenAIForm:
    """How one of the two protocols wraps a choice."""

    words: Mapping[str, Mode]
    readers: Mapping[str, _Reader]
    """How a tool of each type is named."""
    write: Callable[[Tool], dict[str, Any] | None]
    wrapped: bool
    """Whether the body of `allowed_tools` stands under a second key of that name."""
    legacy: bool
    """Whether the deprecated `function_call` is read."""

    def decode(self, request: Wire, offered: Offered) -> Choice:
        """Read the choice from a request's fields."""
        flag = request.get("parallel_tool_calls")
        parallel = read_flag(flag, "parallel_tool_calls", default=True)
        value = request.get("tool_choice")
        old = request.get("function_call") if self.legacy else None
        if old is not None:
            if value is not None:
                raise refuse("function_call", old, "only without tool_choice")
            return _decode_legacy(old, offered, parallel=parallel)
        if value is None:
            return allow_all(Mode.AUTO, parallel=parallel)
        if not isinstance(value, Mapping):
            return allow_all(read_word(value, "tool_choice", self.words), parallel=parallel)
        if value.get("type") == "allowed_tools":
            return self._decode_allowed(value, offered, parallel=parallel)
        types = [*self.readers, "allowed_tools"]
        tool = self._read_tool(value, "tool_choice", offered, types)
        return restrict(Mode.REQUIRED, [tool], parallel=parallel)

    def _decode_allowed(self, value: Wire, offered: Offered, *, parallel: bool) -> Choice:
        param, body = "tool_choice", value
        if self.wrapped:
            param = "tool_choice.allowed_tools"
            body = read_object(value.get("allowed_tools"), param)
        mode = read_word(body.get("mode"), f"{param}.mode", _ALLOWED_MODES)
        refs = body.get("tools")
        if not isinstance(refs, list) or not refs:
            raise refuse(f"{param}.tools", refs, "a list of at least one tool")
        tools = [
            self._read_tool(ref, f"{param}.tools[{place}]", offered, self.readers)
            for place, ref in enumerate(refs)
        ]
        return restrict(mode, tools, parallel=parallel)

    def _read_tool(
        self, value: object, param: str, offered: Offered, types: Collection[str]
    ) -> Tool:
        ref = read_object(value, param)
        kind = ref.get("type")
        if not isinstance(kind, str) or kind not in self.readers:
            raise refuse(f"{param}.type", kind, list_words(types))
        return self.readers[kind](ref, param, offered)

    def encode(self, choice: Choice) -> Encoded:
        """Say a choice in the protocol's words."""
        written = {tool: self.write(tool) for tool in choice.tools}
        refs = [ref for ref in written.values() if ref is not None]
        unsaid = tuple(tool for tool in choice.specials if written[tool] is None)
        if choice.tools and not refs:
            # Nothing that may be called can be named, and nothing else may be called.
            return Encoded({"tool_choice": "none"}, unsaid=unsaid)
        fields = {"tool_choice": self._encode_value(choice.mode, refs)}
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
        return Encoded(fields, unsaid=unsaid)

    def _encode_value(self, mode: Mode, refs: list[dict[str, Any]]) -> Any:
        if not refs:
            return mode.value
        if mode is Mode.REQUIRED and len(refs) == 1:
            return refs[0]
        body: dict[str, Any] = {"mode": mode.value, "tools": refs}
        return {"type": "allowed_tools", **({"allowed_tools": body} if self.wrapped else body)}


def _decode_legacy(value: object, offered: Offered, *, parallel: bool) -> Choice:
    if isinstance(value, Mapping):
        name = read_name(value, "function_call", offered)
        return restrict(Mode.REQUIRED, [name], parallel=parallel)
    return allow_all(read_word(value, "function_call", _LEGACY_WORDS), parallel=parallel)


# ── How a tool of each type is named ────────────────────────────────────────────────


def _read_nested(kind: str) -> Callable[[Wire, str, Offered], str]:
    def read(ref: Wire, param: str, offered: Offered) -> str:
        inner = f"{param}.{kind}"
        return read_name(read_object(ref.get(kind), inner), inner, offered)

    return read


def _read_custom(name: Callable[[Wire, str, Offered], str]) -> _Reader:
    return lambda ref, param, offered: Special("custom", name(ref, param, offered))


def _read_mcp(ref: Wire, param: str, _: Offered) -> Tool:
    server, name = ref.get("server_label"), ref.get("name")
    if not isinstance(server, str):
        raise refuse(f"{param}.server_label", server, "the label of an offered MCP server")
    if not isinstance(name, str | None):
        raise refuse(f"{param}.name", name, "the name of a tool of that server")
    return Special("mcp", name or "", server)


def _read_hosted(ref: Wire, _: str, __: Offered) -> Tool:
    return Special(ref["type"])


def _write_chat_tool(tool: Tool) -> dict[str, Any] | None:
    if isinstance(tool, str):
        return {"type": "function", "function": {"name": tool}}
    return {"type": "custom", "custom": {"name": tool.name}} if tool.type == "custom" else None


def _write_responses_tool(tool: Tool) -> dict[str, Any]:
    if isinstance(tool, str):
        return {"type": "function", "name": tool}
    ref = {"type": tool.type, "server_label": tool.server, "name": tool.name}
    return {key: value for key, value in ref.items() if value}


CHAT = OpenAIForm(
    words=_CHAT_WORDS,
    readers={"function": _read_nested("function"), "custom": _read_custom(_read_nested("custom"))},
    write=_write_chat_tool,
    wrapped=True,
    legacy=True,
)
RESPONSES = OpenAIForm(
    words=_WORDS,
    readers={
        "function": read_name,
        "custom": _read_custom(read_name),
        "mcp": _read_mcp,
        **dict.fromkeys(_HOSTED, _read_hosted),
    },
    write=_write_responses_tool,
    wrapped=False,
    legacy=False,
)
