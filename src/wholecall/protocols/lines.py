"""Lines out of bytes, wherever the pieces were cut."""

from __future__ import annotations

from wholecall.errors import ProtocolError

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
