"""The framing of a protocol: cut its stream into payloads."""

from __future__ import annotations

import json
from typing import Protocol

from wholecall.protocols.lines import LIMIT
from wholecall.protocols.ndjson import NdjsonParser
from wholecall.protocols.sse import ServerSentEvent, SseParser
from wholecall.protocols.texts import Piece, TextStream
from wholecall.protocols.wire import Payload

_CR = b"\r"
_BLANK_LINE = b"\n\n"
_NAME = b"event: "
_ERROR_NAME = b"event: error"
_DATA = b"data: "
_DATA_LENGTH = len(_DATA)
_NEWLINE = b"\n"
_NEXT_DATA = _BLANK_LINE + _DATA


class Framing(Protocol):
    """Takes the stream as bytes or as text, in any pieces; or as lines without their ends.

    How it was cut changes nothing. `TextStream` tells lines from pieces of text.
    """

    def feed(self, chunk: Piece) -> list[Payload]:
        """Return the payloads that this piece completes."""

    def end(self) -> list[Payload]:
        """Return the payloads that only wanted the end of the stream."""


class SseFraming:
    """Server-sent events; and bare JSON, as servers send it instead of them.

    Nearly every event of a stream has one of two forms: one line of data, or the event's name
    and one line of data. Where all of such an event has come, its data is cut out as it is;
    `SseParser`, which knows all forms, reads everything else. Both give the same.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._texts = TextStream()
        self._parser = SseParser(limit)

    def feed(self, chunk: Piece) -> list[Payload]:
        """Return the data of the events that this piece completes."""
        stream = self._texts.encode(chunk)
        if _BLANK_LINE not in stream or _CR in stream or len(stream) > self._limit:
            return self._parse(stream)
        payloads: list[Payload] = []
        if not self._parser.is_between:
            rest = stream.find(_BLANK_LINE) + len(_BLANK_LINE)
            payloads += self._parse(stream[:rest])
            stream = stream[rest:]
        whole, blank_line, begun = stream.rpartition(_BLANK_LINE)
        if not self._parser.is_between:
            payloads += self._parse(whole + blank_line)
        elif whole:
            payloads += self._cut_out(whole)
        return payloads + self._parse(begun) if begun else payloads

    def end(self) -> list[Payload]:
        """Return the data of an event whose blank line is missing."""
        events = self._parser.feed(self._texts.end()) + self._parser.end()
        return [_payload(event) for event in events]

    def _cut_out(self, stream: bytes) -> list[Payload]:
        """The data of whole events. The parser is between two events after each of them."""
        # The most usual form is searched in all of them at once: none contains a newline.
        if stream.startswith(_DATA):
            found = stream[_DATA_LENGTH:].split(_NEXT_DATA)
            if stream.count(_NEWLINE) == len(_BLANK_LINE) * (len(found) - 1):
                return [*found]
        payloads: list[Payload] = []
        for event in stream.split(_BLANK_LINE):
            data = _find_data(event)
            if data is None:
                payloads += self._parse(event + _BLANK_LINE)
            else:
                payloads.append(data)
        return payloads

    def _parse(self, stream: bytes) -> list[Payload]:
        return [_payload(event) for event in self._parser.feed(stream)]


def _find_data(event: bytes) -> bytes | None:
    """Return the data of an event with one line of data, perhaps after a name that is not an
    error."""
    name, newline, data = event.rpartition(_NEWLINE)
    if newline and (not name.startswith(_NAME) or name == _ERROR_NAME or _NEWLINE in name):
        return None
    if not data.startswith(_DATA):
        return None
    return data[_DATA_LENGTH:]


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

    def feed(self, chunk: Piece) -> list[Payload]:
        """Return the lines that this piece completes."""
        return [*self._parser.feed(self._texts.encode(chunk))]

    def end(self) -> list[Payload]:
        """Return a last line whose newline is missing."""
        return [*self._parser.feed(self._texts.end()), *self._parser.end()]
