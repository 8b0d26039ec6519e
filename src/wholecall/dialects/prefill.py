"""Prefill: force a call by beginning the answer for the model, which can only continue it.

    <tool_call>
    {"name":                       ← written by us, as the beginning of the assistant's message
     "weather", "arguments": …     ← written by the model

Most upstreams then send only the continuation, some send the beginning again. So the reader is
given the beginning, and a repetition of it is not read twice.
"""

from __future__ import annotations

import json
import re

from wholecall.core.spec import Offer
from wholecall.dialects.encoding import Template, encode_calls

_HOLE = re.compile(r"\{(name|name_json|index)\}")
_NAME = re.compile(r"\{name(_json)?\}")


def opening(template: Template, offer: Offer) -> str:
    """Return the beginning of a call: up to the name, or up to the arguments if there is one tool.

    White space at its end is left to the model, which writes it as part of the continuation.
    """
    text = template.before + template.call
    names = list(offer)
    if len(names) == 1 and _can_write(template, names[0]):
        text = text.partition("{arguments}")[0]
    else:
        named = _NAME.search(text)
        text, names = text[: named.start() if named else 0], [""]
    holes = {"name": names[0], "name_json": json.dumps(names[0]), "index": "0"}
    return _HOLE.sub(lambda hole: holes[hole[1]], text).rstrip()


def _can_write(template: Template, name: str) -> bool:
    try:
        encode_calls(template, [(name, {})])
    except ValueError:
        return False
    return True


class Prefilled:
    """Puts the beginning before an answer that does not repeat it."""

    __slots__ = ("_beginning", "_decided", "_held")

    def __init__(self, beginning: str) -> None:
        self._beginning = beginning
        self._decided = not beginning
        self._held = ""

    def take(self, piece: str) -> str:
        """Return the text to read for a piece of the answer; nothing while it may be a
        repetition."""
        if self._decided:
            return piece
        self._held += piece
        if len(self._held) < len(self._beginning) and self._beginning.startswith(self._held):
            return ""
        self._decided = True
        repeats = self._held.startswith(self._beginning)
        return self._held if repeats else self._beginning + self._held

    def end(self) -> str:
        """Return the rest: an answer shorter than the beginning is read as it came."""
        if self._decided:
            return ""
        self._decided = True
        return self._held
