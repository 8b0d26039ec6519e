"""Cut a stream into payloads: server-sent events and newline-delimited JSON, wherever the chunks
were cut.
"""

from __future__ import annotations

import json
import re
from typing import Protocol, TypeAlias

from wholecall.errors import ProtocolError
from wholecall.events import Value
from wholecall.protocols.decoder import Payload, is_done, read_json

LIMIT = 8 * 1024 * 1024
"""Bytes of one line, and of one event. The longest honest one holds a whole answer."""


class LineSplitter:
    """LF, CRLF and CR end a line. Each byte is read once, however it is fed.

    A line is decoded when it is whole, so a character may be cut anywhere; its bytes never look
    like the end of a line. Invalid UTF-8 becomes U+FFFD.
    """

    __slots__ = ("_after_cr", "_codec", "_limit", "_line", "_what")

    def __init__(self, what: str, limit: int) -> None:
        self._what = what
        self._limit = limit
        self._line = bytearray()
        self._after_cr = False
        self._codec = "utf-8-sig"  # a BOM may stand before the first line only

    def feed(self, data: bytes) -> list[str]:
        """Take a piece of the stream; return the lines that it completes."""
        if self._after_cr and data:
            # The CR has ended its line already; the LF of a CRLF comes in the next piece.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if data.endswith(b"\r"):
            self._after_cr = True
        return [line for piece in data.splitlines(keepends=True) for line in self._take(piece)]

    @property
    def is_between(self) -> bool:
        """True if the last line is complete, so that the next byte begins another."""
        return not self._line and not self._after_cr

    def end(self) -> str:
        """Return the text after the last line ending."""
        return self._decode()

    def _take(self, piece: bytes) -> list[str]:
        text = piece.rstrip(b"\r\n")
        self._line += text
        if len(self._line) > self._limit:
            raise ProtocolError(f"a line of {self._what} has more than {self._limit} bytes")
        return [self._decode()] if len(text) < len(piece) else []

    def _decode(self) -> str:
        line = self._line.decode(self._codec, "replace")
        self._line.clear()
        self._codec = "utf-8"
        return line


# Newline-delimited JSON: from bytes, or from lines, to the text of one value each.


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
        return [rest] if is_json(rest) else []


def is_json(text: str) -> bool:
    """Return True if a text is one JSON value from beginning to end."""
    try:
        read_json(text)
    except (ProtocolError, RecursionError):
        return False
    return True


# Text as the bytes that it was read from, so that text and bytes are cut by the same rules.


Piece: TypeAlias = bytes | bytearray | memoryview | str
"""The forms in which a stream may be fed."""
_LINE_END = re.compile(r"[\r\n]")
_FIELD_START = re.compile(r"(?:data|event|id|retry):")
_FIELD_OR_COMMENT = re.compile(r"(?:data|event|id|retry)?:")


class TextStream:
    """Takes text in one of two forms, and finds out which one it is.

    *Lines* come without their ends (`iter_lines()`): each text is one whole line. *Pieces* are cut
    anywhere (`iter_text()`, a file's lines with their ends): the cut means nothing, a line
    continues until its newline comes.

    1. A text with a newline in it shows that they are pieces, for the rest of the stream.
    2. Until one came, texts are lines as soon as one is empty, is a whole JSON object, or two in a
      row begin with a field of an event (`data:`).
    3. Until then they are kept, because `data: {"a` may be a line or a piece. At the end, one text
      is a line; several are pieces, unless all of them begin as lines do.
    """

    __slots__ = ("_are_lines", "_are_pieces", "_held", "_limit", "_room")

    def __init__(self, limit: int = LIMIT) -> None:
        self._are_lines = False
        self._are_pieces = False
        self._held: list[str] = []
        self._limit = limit
        self._room = limit

    def encode(self, chunk: Piece) -> bytes:
        """The bytes of the stream that are certain with this chunk."""
        if not isinstance(chunk, str):
            return self.end() + bytes(chunk) if self._held else bytes(chunk)
        if self._are_pieces:
            return _encode(chunk)
        if _LINE_END.search(chunk):
            self._are_pieces = True
            return self._join(chunk, lines=self._follows_a_line(chunk))
        if self._are_lines or self._is_a_line(chunk):
            self._are_lines = True
            return self._join(chunk, lines=True) + b"\n"
        return self._hold(chunk)

    def end(self) -> bytes:
        """Return the text that was kept, now that its form is certain."""
        if not self._held:
            return b""
        lines = len(self._held) == 1 or all(map(_FIELD_OR_COMMENT.match, self._held))
        return self._join("", lines=lines)

    def _is_a_line(self, text: str) -> bool:
        if self._held or not text:
            return not text or self._follows_a_line(text)
        return text.startswith("{") and is_json(text)

    def _follows_a_line(self, text: str) -> bool:
        """Return True if no line continues like this, so that the kept text was a line."""
        first = self._held[0] if self._held else ""
        return bool(_FIELD_OR_COMMENT.match(first) and _FIELD_START.match(text))

    def _hold(self, text: str) -> bytes:
        self._room -= len(text)
        if self._room < 0:
            raise ProtocolError(f"a line has more than {self._limit} characters")
        self._held.append(text)
        return b""

    def _join(self, text: str, *, lines: bool) -> bytes:
        """Return the kept text followed by this text."""
        held, self._held = self._held, []
        self._room = self._limit
        end = "\n" if lines else ""
        return _encode("".join((*(each + end for each in held), text)))


def _encode(text: str) -> bytes:
    # A lone surrogate is not a character: as bytes it is what LineSplitter replaces.
    return text.encode("utf-8", "surrogatepass")


# Server-sent events: from bytes, or from lines, to events.
#
# It follows the WHATWG's grammar. At the end of the stream it departs from it in two ways, because
# servers forget the last blank line: an event whose lines have all come is emitted, and so is a
# last `[DONE]` or a whole object without its newline. Any other line that was cut is dropped.
#
# Servers forget blank lines between events, too. Two adjacent objects are not JSON, so data that is
# a whole one ends where the next one, or `[DONE]`, begins. And they forget the name of the field
# before all lines of an object but the first: lines without a field name continue an object that is
# open.
#
# Servers also send bare JSON instead of events: an error object, the chunks one a line, an array of
# them. No field begins with a brace, so a line that does is JSON:
#
# - a line that is a whole value is emitted at once;
# - one that is not, before any event came, is the beginning of one value over several lines,
#   which is emitted at the end;
# - one that is not, among events, is emitted too: its decoder says what is wrong with it.


_DEFAULT_NAME = "message"
_FIELD = re.compile(r"(?:data|event|id|retry)?:|(?:data|event|id|retry)\Z")


class ServerSentEvent(Value, frozen=True):
    """One event of the stream."""

    event: str
    data: str


class SseParser:
    """Reads one stream of server-sent events."""

    __slots__ = ("_bare", "_data", "_goes_on", "_is_sse", "_limit", "_lines", "_name", "_size")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lines = LineSplitter("server-sent events", limit)
        self._name = ""
        self._data: list[str] = []
        self._goes_on: bool | None = None
        """True if the data so far is the beginning of an object; None: not checked yet."""
        self._size = 0
        self._is_sse = False
        """True if a field of an event came."""
        self._bare: list[str] = []
        """The lines of a JSON value so far, if the stream is one instead of events."""

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take a piece of the stream; return the events that it completes."""
        return [event for line in self._lines.feed(data) for event in self.feed_line(line)]

    @property
    def is_between(self) -> bool:
        """True if events came, the last one is complete, and the next one has not begun."""
        idle = not (self._data or self._name or self._bare)
        return self._is_sse and idle and self._lines.is_between

    def feed_line(self, line: str) -> list[ServerSentEvent]:
        """Take one line without its end; return the event that it completes."""
        if self._bare:
            self._collect(line)
        elif not line:
            return self._dispatch()
        elif self._data and self._continues(line):
            self._grow(len(line))
            self._data.append(line)
        elif self._is_bare(line):
            return self._take_bare(line)
        else:
            return self._take_field(line)
        return []

    def end(self) -> list[ServerSentEvent]:
        """The stream is over; return the event that wants only its blank line."""
        rest = self._lines.end()
        if self._bare:
            self._collect(rest)
            return self._end_bare(cut=bool(rest))
        if self._is_bare(rest):
            return _bare_event(rest) if _is_complete(rest) else []
        events: list[ServerSentEvent] = []
        if rest:
            events = self.feed_line(rest)
            if not _is_over("\n".join(self._data)):
                self._data.clear()
        return events + self._dispatch()

    # ── Events ──────────────────────────────────────────────────────────────────────

    def _take_field(self, line: str) -> list[ServerSentEvent]:
        """Take a field; return the event before it, if its blank line was left out."""
        # A comment is a field without a name; unknown fields are skipped.
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        events: list[ServerSentEvent] = []
        if name == "data":
            self._is_sse = True
            if self._data and self._begins_another(value):
                events = self._dispatch()
            self._grow(len(value))
            self._data.append(value)
        elif name == "event":
            self._is_sse = True
            self._name = value
        return events

    def _continues(self, line: str) -> bool:
        """Return True if a line without a field's name belongs to the open object."""
        if _FIELD.match(line):
            return False
        if self._goes_on is None:
            begun = "\n".join(self._data)
            self._goes_on = begun.startswith("{") and not is_json(begun)
        return self._goes_on

    def _begins_another(self, value: str) -> bool:
        begins = value.startswith("{") or is_done(value)
        return begins and len(self._data) == 1 and is_json(self._data[0])

    def _grow(self, characters: int) -> None:
        self._size += characters + 1
        if self._size > self._limit + 1:
            raise ProtocolError(f"a server-sent event has more than {self._limit} characters")

    def _dispatch(self) -> list[ServerSentEvent]:
        name, self._name = self._name, ""
        data, self._data = self._data, []
        self._size = 0
        self._goes_on = None
        return [ServerSentEvent(name or _DEFAULT_NAME, "\n".join(data))] if data else []

    # ── Bare JSON ───────────────────────────────────────────────────────────────────

    def _is_bare(self, line: str) -> bool:
        if self._is_sse:
            return line.startswith("{") or (line.startswith("[") and is_done(line))
        return line.lstrip().startswith(("{", "["))

    def _take_bare(self, line: str) -> list[ServerSentEvent]:
        if self._is_sse or _is_complete(line):
            return _bare_event(line)
        self._collect(line)
        return []

    def _collect(self, line: str) -> None:
        self._grow(len(line))
        self._bare.append(line)

    def _end_bare(self, *, cut: bool) -> list[ServerSentEvent]:
        text = "\n".join(self._bare)
        self._bare.clear()
        self._size = 0
        return [] if cut and not is_json(text) else _bare_event(text)


def _is_over(data: str) -> bool:
    """Return True if data needs no line ending: a closed object is never a prefix of other JSON."""
    return is_done(data) or (data.startswith("{") and is_json(data))


def _is_complete(line: str) -> bool:
    return is_done(line) or is_json(line)


def _bare_event(text: str) -> list[ServerSentEvent]:
    return [ServerSentEvent(_DEFAULT_NAME, text.strip())]


# The framing of a protocol: cut its stream into payloads.


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
            # Joining them again to search once is eight times as fast as counting newlines.
            if _NEWLINE not in b"".join(found):
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
