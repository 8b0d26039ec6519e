"""The wire of Anthropic's Messages, with the holes that imitators and clients leave in it, and the
tools that its clients run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from wholecall.messages import ToolKind, ToolSpec


class BlockKind(msgspec.Struct):
    """The type of a content block; its other fields depend on it."""

    type: str | None = None


class ToolUse(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    input: Any = None  # `{}` in a stream; whole in a whole answer, and from some imitators
    caller: Any = None
    toolset_name: str | None = None


class WordBlock(msgspec.Struct):
    """A block of text or of thinking."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None  # thinking that was redacted
    citations: Any = None  # a list; of a stream they come one by one


class BlockDelta(msgspec.Struct):
    """A delta of a block, or (`stop_reason`) of the message. Its fields tell its type."""

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: Any = None  # an object from some imitators
    content: str | None = None  # of a compaction
    encrypted_content: str | None = None
    citation: Any = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class MessageBody(msgspec.Struct):
    content: list[Any] | str | None = None  # a text: of gateways in front of other models
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Any = None
    error: Any = None


class MessageEvent(msgspec.Struct):
    type: str = ""
    index: int | None = None
    message: MessageBody | None = None
    content_block: Any = None
    delta: BlockDelta | None = None
    usage: Any = None
    error: Any = None


class MessagesBody(msgspec.Struct):
    model: str
    messages: list[Any]
    max_tokens: int | None = None  # not there where tokens are only counted
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop_sequences: list[str] | None = None
    output_config: dict[str, Any] | None = None


class InputMessage(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None


class MediaSource(msgspec.Struct):
    type: str = ""
    media_type: str = ""
    data: Any = None
    url: str | None = None
    content: Any = None


class MediaBlock(msgspec.Struct):
    source: MediaSource
    title: str | None = None


class PastToolUse(msgspec.Struct):
    id: str | int | None = None
    name: str = ""
    input: Any = None


class ToolResultBlock(msgspec.Struct):
    tool_use_id: str | int | None = None
    content: str | list[Any] | None = None
    is_error: bool | None = None


class ThinkingBlock(msgspec.Struct):
    thinking: str = ""
    signature: str | None = None


class RedactedBlock(msgspec.Struct):
    data: str


# ── Tools that the client runs ────────────────────────────────────────────────────────
#
# Anthropic's models know their schemas by heart. A client names only their type
# (`bash_20250124`). To other upstreams each is a function with the documented schema. In both cases
# a call is a `tool_use` with the tool's name.


PROTOCOL = "anthropic"
# The version is a date. A later version may know more words than those of this table.
_TYPE = re.compile(r"(?P<family>bash|text_editor|computer|memory)_\d{8}")


_LATEST = {
    "bash": "bash_20250124",
    "text_editor": "text_editor_20250728",
    "computer": "computer_20251124",
    "memory": "memory_20250818",
}


def _texts(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


def _words(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


def _integers(count: int) -> dict[str, Any]:
    items = {"type": "integer"}
    return {"type": "array", "items": items, "minItems": count, "maxItems": count}


_LINE = {"type": "integer"}
_RANGE = _integers(2)
_POINT = _integers(2)
_NUMBER = {"type": "number"}


class _Family(NamedTuple):
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...] = ()


_FAMILIES = {
    "bash": _Family(
        "Run a command in a bash session, which keeps its state. `restart` begins a new session.",
        {**_texts("command"), "restart": {"type": "boolean"}},
    ),
    "text_editor": _Family(
        "View, create and edit text files. `view` shows a file (or the lines of `view_range`) or a "
        "folder; `create` writes `file_text`; `str_replace` replaces the only occurrence of "
        "`old_str` by `new_str`; `insert` puts `insert_text` after the line `insert_line`.",
        {
            "command": _words("view", "create", "str_replace", "insert", "undo_edit"),
            **_texts("path", "file_text", "old_str", "new_str", "insert_text"),
            "insert_line": _LINE,
            "view_range": _RANGE,
        },
        ("command", "path"),
    ),
    "computer": _Family(
        "Control a computer with mouse and keyboard, and take screenshots of it.",
        {
            "action": _words(
                "key",
                "hold_key",
                "type",
                "cursor_position",
                "mouse_move",
                "left_mouse_down",
                "left_mouse_up",
                "left_click",
                "left_click_drag",
                "right_click",
                "middle_click",
                "double_click",
                "triple_click",
                "scroll",
                "wait",
                "screenshot",
                "zoom",
            ),
            **_texts("text"),
            "coordinate": _POINT,
            "start_coordinate": _POINT,
            "scroll_direction": _words("up", "down", "left", "right"),
            "scroll_amount": _LINE,
            "duration": _NUMBER,
            "repeat": _LINE,
            "region": _integers(4),
        },
        ("action",),
    ),
    "memory": _Family(
        "Keep notes in files below /memories. `view` shows a file or a folder, `create` writes "
        "`file_text`, `str_replace` replaces `old_str` by `new_str`, `insert` puts `insert_text` "
        "after the line `insert_line`, `delete` removes, `rename` moves `old_path` to `new_path`.",
        {
            "command": _words("view", "create", "str_replace", "insert", "delete", "rename"),
            **_texts("path", "file_text", "old_str", "new_str", "insert_text"),
            **_texts("old_path", "new_path"),
            "insert_line": _LINE,
            "view_range": _RANGE,
        },
        ("command",),
    ),
}


def read_kinds(definition: Any, _: str) -> Sequence[ToolSpec] | None:
    """Read a definition of a tool in this table; None for any other tool."""
    fields: Mapping[str, Any] = definition if isinstance(definition, Mapping) else {}
    kind, name = str(fields.get("type")), fields.get("name")
    found = _TYPE.fullmatch(kind)
    if found is None or not isinstance(name, str) or not name:
        return None
    family = _FAMILIES[found["family"]]
    known = kind <= _LATEST[found["family"]]
    schema = {
        "type": "object",
        "properties": family.properties if known else _without_words(family.properties),
        "required": list(family.required),
        # Later versions of the tool may have parameters that are not known here.
        "additionalProperties": True,
    }
    description = " ".join([family.description, *_tell_settings(fields)])
    return [ToolSpec(name, schema, description, kind=ToolKind(PROTOCOL, kind, name))]


def _without_words(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {rule: value for rule, value in rules.items() if rule != "enum"}
        for name, rules in properties.items()
    }


def _tell_settings(fields: Mapping[str, Any]) -> list[str]:
    """Describe what the definition sets, as only Anthropic does by itself."""
    told = {name: tell(fields[name]) for name, tell in _SETTINGS.items() if fields.get(name)}
    return list(told.values())


_SETTINGS: Mapping[str, Callable[[Any], str]] = {
    "display_width_px": "The screen is {} pixels wide.".format,
    "display_height_px": "It is {} pixels high.".format,
    "max_characters": "At most {} characters of a file are shown.".format,
}


class FoundText(msgspec.Struct):
    """A text of a search result."""

    text: str = ""


class FoundBlock(msgspec.Struct):
    """A search result that the client gives the model."""

    content: list[FoundText] = []
    title: str = ""
    source: str = ""
