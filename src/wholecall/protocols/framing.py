"""How a protocol cuts its stream into payloads."""

from __future__ import annotations

import re
from typing import Protocol

from wholecall.protocols.ndjson import NdjsonParser
from wholecall.protocols.sse import SseParser

# Not `splitlines`: for text it also splits at characters that are legal in JSON strings.
_LINE_END = re.compile(r"\r\n|\r|\n")


class Framing(Protocol):
    """Takes the stream as bytes, in any pieces, or as text, in whole lines."""

    def feed(self, chunk: bytes | str) -> list[str]:
        """Return the payloads that this piece completes."""

    def end(self) -> list[str]:
        """Return the payloads that only wanted the end of the stream."""


class SseFraming:
    """Server-sent events; a line of text that is bare JSON is a payload as well."""

    def __init__(self) -> None:
        self._parser = SseParser()

    def feed(self, chunk: bytes | str) -> list[str]:
        """Return the data of the events that this piece completes."""
        if isinstance(chunk, bytes):
            return [event.data for event in self._parser.feed(chunk)]
        return [payload for line in _lines(chunk) for payload in self._feed_line(line)]

    def end(self) -> list[str]:
        """Return the data of an event whose blank line is missing."""
        return [event.data for event in self._parser.end()]

    def _feed_line(self, line: str) -> list[str]:
        if line.startswith("{"):  # no field of an event begins with it
            return [line]
        return [event.data for event in self._parser.feed_line(line)]


class NdjsonFraming:
    """Newline-delimited JSON."""

    def __init__(self) -> None:
        self._parser = NdjsonParser()

    def feed(self, chunk: bytes | str) -> list[str]:
        """Return the lines that this piece completes."""
        if isinstance(chunk, bytes):
            return self._parser.feed(chunk)
        return [line for line in _lines(chunk) if line.strip()]

    def end(self) -> list[str]:
        """Return a last line whose newline is missing."""
        return self._parser.end()


def _lines(text: str) -> list[str]:
    lines = _LINE_END.split(text)
    # The end of the last line begins no further one; a text without any is one line.
    return lines[:-1] if len(lines) > 1 and not lines[-1] else lines
