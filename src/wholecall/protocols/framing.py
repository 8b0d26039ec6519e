"""How a protocol cuts its stream into payloads."""

from __future__ import annotations

import json
from typing import Protocol

from wholecall.protocols.ndjson import NdjsonParser
from wholecall.protocols.sse import ServerSentEvent, SseParser
from wholecall.protocols.texts import Piece, TextStream


class Framing(Protocol):
    """Takes the stream as bytes or as text, in any pieces; or as lines without their ends.

    How it was cut changes nothing. `TextStream` says how lines are told from pieces of text.
    """

    def feed(self, chunk: Piece) -> list[str]:
        """Return the payloads that this piece completes."""

    def end(self) -> list[str]:
        """Return the payloads that only wanted the end of the stream."""


class SseFraming:
    """Server-sent events; and bare JSON, as servers send it instead of them."""

    def __init__(self) -> None:
        self._texts = TextStream()
        self._parser = SseParser()

    def feed(self, chunk: Piece) -> list[str]:
        """Return the data of the events that this piece completes."""
        return [_payload(event) for event in self._parser.feed(self._texts.encode(chunk))]

    def end(self) -> list[str]:
        """Return the data of an event whose blank line is missing."""
        events = self._parser.feed(self._texts.end()) + self._parser.end()
        return [_payload(event) for event in events]


def _payload(event: ServerSentEvent) -> str:
    """The data of an event. One that is named an error says so, whatever its data looks like."""
    if event.event != "error" or '"error"' in event.data:
        return event.data
    return json.dumps({"type": "error", "error": event.data})


class NdjsonFraming:
    """Newline-delimited JSON."""

    def __init__(self) -> None:
        self._texts = TextStream()
        self._parser = NdjsonParser()

    def feed(self, chunk: Piece) -> list[str]:
        """Return the lines that this piece completes."""
        return self._parser.feed(self._texts.encode(chunk))

    def end(self) -> list[str]:
        """Return a last line whose newline is missing."""
        return self._parser.feed(self._texts.end()) + self._parser.end()
