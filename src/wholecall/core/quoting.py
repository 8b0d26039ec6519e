"""Gemma's quoting marks, which a server left around the strings of a call.

    {"city": "<|\\"|>Rome<|\\"|>"}

https://github.com/google-ai-edge/LiteRT-LM/issues/2172

Around a whole string they have one reading, and are taken away. One without the other tells that
the server cut the value at the wrong place: what is left of it is not what was meant.
"""

from __future__ import annotations

from wholecall.core.values import JSON

_MARK = '<|"|>'


def is_free(text: str) -> bool:
    """Return True if a JSON text certainly holds no mark, plain or escaped, as nearly all texts
    do."""
    return "|>" not in text and "\\u" not in text


def holds_mark(value: JSON) -> bool:
    """Return True if a value holds a mark."""
    return _MARK in value if isinstance(value, str) else any(map(holds_mark, _inside(value)))


def holds_half(value: JSON) -> bool:
    """Return True if a string has a mark at one end only."""
    if isinstance(value, str):
        edge = value.startswith(_MARK) or value.endswith(_MARK)
        return edge and not _is_quoted(value)
    return any(map(holds_half, _inside(value)))


def unquote(value: JSON) -> JSON:
    """Return the value without the marks around whole strings; the value itself if there are
    none."""
    if isinstance(value, str):
        return value[len(_MARK) : -len(_MARK)] if _is_quoted(value) else value
    if isinstance(value, dict):
        return {key: unquote(each) for key, each in value.items()}
    return [unquote(each) for each in value] if isinstance(value, list) else value


def _is_quoted(text: str) -> bool:
    both = len(text) >= 2 * len(_MARK) and text.startswith(_MARK)
    return both and text.endswith(_MARK) and _MARK not in text[len(_MARK) : -len(_MARK)]


def _inside(value: JSON) -> list[JSON]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
