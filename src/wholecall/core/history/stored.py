"""Valid content of a stored message: arguments that are an object, content that is not blank.

Upstreams parse the arguments of earlier calls again, to write them into the prompt. Arguments that
are not a JSON object make every later request fail
(https://github.com/OpenHands/OpenHands/issues/13949), and so does an empty text
(https://github.com/anthropics/anthropic-sdk-python/issues/461).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from wholecall.core.history.pieces import ChangeKind, Spot, Wire

NO_OUTPUT = "(no output)"

_LONGEST_LOST = 500
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_NO_ARGUMENTS = frozenset({"", "null"})
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_STRING = msgspec.json.Decoder(str)


def read_arguments(value: object) -> tuple[Mapping[str, Any], str]:
    """Return arguments as an object, and the text of those that are not an object."""
    if isinstance(value, Mapping):
        return value, ""
    text = _encode(value)
    if text.strip() in _NO_ARGUMENTS:
        return {}, ""
    try:
        return _OBJECT.decode(text), ""
    # Not JSON, no object, a lone surrogate; or nested deeper than any upstream would follow.
    except (ValueError, RecursionError):
        return {}, text[:_LONGEST_LOST]


def write_arguments(value: object) -> tuple[str, str]:
    """The text of arguments as it may be stored, and the text of those that may not."""
    text = _encode(value)
    _, lost = read_arguments(text)
    return ("{}" if lost or text.strip() in _NO_ARGUMENTS else text), lost


def _encode(value: object) -> str:
    """Arguments as JSON; those that are JSON in a string of JSON are encoded once."""
    text = value if isinstance(value, str) else _write(value)
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = _STRING.decode(text)
        _OBJECT.decode(inner)
    except (ValueError, RecursionError):
        return text
    return inner


def _write(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return f"<{type(value).__name__}>"


def explain(lost: str) -> str:
    """The words by which a result tells what became of the arguments of its call."""
    return f"The arguments of this call were no JSON object and are shown as {{}}. Received: {lost}"


def is_blank(text: object) -> bool:
    """Tell whether a text says nothing."""
    return isinstance(text, str) and not text.strip()


def drop_blanks(parts: list[Any]) -> list[Any]:
    """The parts of a content without the texts that say nothing."""
    return [part for part in parts if not _is_blank_part(part)]


def _is_blank_part(part: object) -> bool:
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    return isinstance(kind, str) and kind in _TEXT_TYPES and is_blank(part.get("text"))


def _is_content(value: object) -> bool:
    """Return True for a text or for parts with a type; a tool's own object is neither."""
    if isinstance(value, list):
        return all(isinstance(part, Mapping) and "type" in part for part in value)
    return value is None or isinstance(value, str)


def tidy(message: Wire, spot: Spot) -> Wire:
    """A message without the parts of its content that say nothing."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept = drop_blanks(content)
    if kept and len(kept) == len(content):
        return message
    spot.note(ChangeKind.BLANK_DROPPED, "text")
    return {**message, "content": kept}


@dataclass(frozen=True, slots=True)
class Output:
    """The place of a result's content in a protocol, and the type of a text in it."""

    key: str
    text_type: str

    def fill_blank(self, result: Wire, spot: Spot) -> Wire:
        """A result that says something, if only that there is nothing to say."""
        content = result.get(self.key)
        if not _is_content(content):
            spot.note(ChangeKind.RESULT_ENCODED)
            return {**result, self.key: _write(content)}
        filled = self._fill(content)
        if filled == content:
            return result
        spot.note(ChangeKind.RESULT_BLANK)
        return {**result, self.key: filled}

    def _fill(self, content: object) -> object:
        if isinstance(content, list):
            return drop_blanks(content) or [{"type": self.text_type, "text": NO_OUTPUT}]
        return NO_OUTPUT if content is None or is_blank(content) else content

    def annotate(self, result: Wire, words: str) -> Wire:
        """A result with words added to it."""
        content = result.get(self.key)
        if isinstance(content, list):
            return {**result, self.key: [*content, {"type": self.text_type, "text": words}]}
        if isinstance(content, str):
            words = f"{content}\n\n{words}"
        return {**result, self.key: words}
