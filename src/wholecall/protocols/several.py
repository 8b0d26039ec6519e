"""Several chunks in the place of one: gateways glue them together, or send them as a list.

    data: {"choices": […]}{"choices": […]}
    data: {"choices": […]} data: [DONE]

Two adjacent objects are not JSON, so such a payload has one reading only, if it is nothing but
whole objects: an error in one of them is reported for all of it.
"""

from __future__ import annotations

import json
import re
from typing import Any

from wholecall.protocols.wire import DONE, Payload

_OBJECTS = json.JSONDecoder(strict=False)  # raw control characters are read here as elsewhere
_BETWEEN = re.compile(r"(?:[\s,\ufeff]|data:)*+")
_DONE = re.compile(re.escape(DONE), re.IGNORECASE)
_COMMENT = ":"
"""A comment that was sent as the data of an event: `data: : OPENROUTER PROCESSING`."""


def split_payload(payload: Payload) -> list[Payload] | None:
    """The objects that a payload holds, and `[DONE]`; None if it is one object, or holds more."""
    if not isinstance(payload, bytes | str):
        return None
    text = payload if isinstance(payload, str) else payload.decode("utf-8", "replace")
    if text.lstrip().startswith(_COMMENT):
        return []
    try:
        found = _split(text)
    except (ValueError, RecursionError):
        return None
    return None if len(found) == 1 and text.lstrip().startswith("{") else found


def _split(text: str) -> list[Payload]:
    """Return all values of a text; raise ValueError for anything else in it."""
    found: list[Payload] = []
    at = _skip(text, 0)
    while at < len(text):
        mark = _DONE.match(text, at)
        if mark is not None:
            found.append(DONE)
            at = mark.end()
        else:
            value, at = _OBJECTS.raw_decode(text, at)
            found += _objects(value)
        at = _skip(text, at)
    return found


def _skip(text: str, at: int) -> int:
    return next(_BETWEEN.finditer(text, at)).end()


def _objects(value: Any) -> list[Any]:
    objects = value if isinstance(value, list) else [value]
    if not all(isinstance(each, dict) for each in objects):
        raise ValueError("no object")
    return objects
