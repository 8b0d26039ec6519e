"""Text as the bytes that it was read from, so that text and bytes are cut by the same rules."""

from __future__ import annotations

import re
from typing import TypeAlias

from wholecall.errors import ProtocolError
from wholecall.protocols.lines import LIMIT
from wholecall.protocols.ndjson import is_whole

Piece: TypeAlias = bytes | bytearray | memoryview | str
"""The forms in which a stream may be fed."""
_LINE_END = re.compile(r"[\r\n]")
_FIELD = re.compile(r"(?:data|event|id|retry):")
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
        return text.startswith("{") and is_whole(text)

    def _follows_a_line(self, text: str) -> bool:
        """Return True if no line continues like this, so that the kept text was a line."""
        first = self._held[0] if self._held else ""
        return bool(_FIELD_OR_COMMENT.match(first) and _FIELD.match(text))

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
