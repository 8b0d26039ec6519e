"""Server-sent events: from bytes, or from lines, to events.

It follows the WHATWG's grammar. At the end of the stream it departs from it in two
ways, because servers forget the last blank line: an event whose lines have all come is
handed out, and so is a last `[DONE]` without its newline. A line that was cut is dropped.
"""

from __future__ import annotations

from wholecall.core.values import Value
from wholecall.errors import ProtocolError
from wholecall.protocols.lines import LIMIT, LineSplitter
from wholecall.protocols.wire import DONE

_DEFAULT_NAME = "message"


class ServerSentEvent(Value, frozen=True):
    """One event of the stream."""

    event: str
    data: str


class SseParser:
    """Reads one stream of server-sent events."""

    __slots__ = ("_data", "_limit", "_lines", "_name", "_size")

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lines = LineSplitter("server-sent events", limit)
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take a piece of the stream; return the events that it completes."""
        return [event for line in self._lines.feed(data) for event in self.feed_line(line)]

    def feed_line(self, line: str) -> list[ServerSentEvent]:
        """Take one line without its end; return the event that it completes."""
        if not line:
            return self._dispatch()
        self._take_field(line)
        return []

    def end(self) -> list[ServerSentEvent]:
        """The stream is over; return the event that wants only its blank line."""
        rest = self._lines.end()
        if rest:
            self._take_field(rest)
            if self._data != [DONE]:
                self._data.clear()
        return self._dispatch()

    def _take_field(self, line: str) -> None:
        # A comment is a field without a name; fields that nobody knows are skipped.
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._size += len(value) + 1
            if self._size > self._limit + 1:
                raise ProtocolError(f"a server-sent event has more than {self._limit} characters")
            self._data.append(value)
        elif name == "event":
            self._name = value

    def _dispatch(self) -> list[ServerSentEvent]:
        name, self._name = self._name, ""
        data, self._data = self._data, []
        self._size = 0
        return [ServerSentEvent(name or _DEFAULT_NAME, "\n".join(data))] if data else []
