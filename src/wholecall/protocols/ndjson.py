"""Newline-delimited JSON: from bytes, or from lines, to the text of one value each."""

from __future__ import annotations

from wholecall.errors import ProtocolError
from wholecall.protocols.lines import LIMIT, LineSplitter
from wholecall.protocols.wire import read_json


class NdjsonParser:
    """Reads one stream of JSON values, one a line."""

    __slots__ = ("_lines",)

    def __init__(self, limit: int = LIMIT) -> None:
        self._lines = LineSplitter("newline-delimited JSON", limit)

    def feed(self, data: bytes) -> list[str]:
        """Take a piece of the stream; return the lines that it completes."""
        return [line for line in self._lines.feed(data) if line.strip()]

    def end(self) -> list[str]:
        """The stream is over; return a last line whose newline is missing, if it is whole."""
        rest = self._lines.end()
        return [rest] if is_whole(rest) else []


def is_whole(text: str) -> bool:
    """Return True if a text is one JSON value from beginning to end."""
    try:
        read_json(text)
    except (ProtocolError, RecursionError):
        return False
    return True
