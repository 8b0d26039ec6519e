"""Server-sent events: from bytes, or from lines, to events.

It follows the WHATWG's grammar. At the end of the stream it departs from it in two ways, because
servers forget the last blank line: an event whose lines have all come is emitted, and so is a last
`[DONE]` or a whole object without its newline. Any other line that was cut is dropped.

Servers forget blank lines between events, too. Two adjacent objects are not JSON, so data that is a
whole one ends where the next one, or `[DONE]`, begins. And they forget the name of the field before
all lines of an object but the first: lines without a field name continue an object that is open.

Servers also send bare JSON instead of events: an error object, the chunks one a line, an array of
them. No field begins with a brace, so a line that does is JSON:

- a line that is a whole value is emitted at once;
- one that is not, before any event came, is the beginning of one value over several lines,
  which is emitted at the end;
- one that is not, among events, is emitted too: its decoder says what is wrong with it.
"""

from __future__ import annotations

import re

from wholecall.core.values import Value
from wholecall.errors import ProtocolError
from wholecall.protocols.lines import LIMIT, LineSplitter
from wholecall.protocols.ndjson import is_whole
from wholecall.protocols.wire import is_done

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
            self._goes_on = begun.startswith("{") and not is_whole(begun)
        return self._goes_on

    def _begins_another(self, value: str) -> bool:
        begins = value.startswith("{") or is_done(value)
        return begins and len(self._data) == 1 and is_whole(self._data[0])

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
        return [] if cut and not is_whole(text) else _bare_event(text)


def _is_over(data: str) -> bool:
    """Return True if data needs no line ending: a closed object is never a prefix of other JSON."""
    return is_done(data) or (data.startswith("{") and is_whole(data))


def _is_complete(line: str) -> bool:
    return is_done(line) or is_whole(line)


def _bare_event(text: str) -> list[ServerSentEvent]:
    return [ServerSentEvent(_DEFAULT_NAME, text.strip())]
