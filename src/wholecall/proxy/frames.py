"""Server-sent events on their way through: sent on in whole frames.

A keep-alive or an error that we add to a stream is then between two frames, not inside one.
"""

from __future__ import annotations

BLANK_LINE = b"\n\n"
_BLANK_LINES = (BLANK_LINE, b"\r\n\r\n", b"\r\r")
_SEAM = max(map(len, _BLANK_LINES)) - 1
"""Bytes of a blank line that may have come before the rest of it."""
MOST_HELD = 1024 * 1024
"""Bytes of a frame that is not over. A longer one is sent in pieces."""


class Frames:
    """Holds back an incomplete frame. Each byte is read once."""

    __slots__ = ("_held", "_last", "_size", "is_within")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._last = b""
        """The last bytes that came, in which a blank line may have begun."""
        self.is_within = False
        """True if a part of a frame was sent, but not its end."""

    def cut(self, chunk: bytes) -> bytes:
        """Return the bytes that can be sent after this chunk."""
        if chunk.endswith(BLANK_LINE):
            self._last, self.is_within = b"", False
            return self._release() + chunk if self._held else chunk
        seam = self._last + chunk
        end = max(seam.rfind(blank) + len(blank) * (blank in seam) for blank in _BLANK_LINES)
        before = len(seam) - len(chunk)
        self._last = seam[-_SEAM:]
        if end > before:
            whole = self._release() + chunk[: end - before]
            self.is_within = False
            self._hold(chunk[end - before :])
            return whole
        self._hold(chunk)
        if self._size <= MOST_HELD:
            return b""
        self.is_within = True
        return self._release()

    def rest(self) -> bytes:
        """Return the held bytes at the end of the stream."""
        return self._release()

    def _hold(self, piece: bytes) -> None:
        if piece:
            self._held.append(piece)
            self._size += len(piece)

    def _release(self) -> bytes:
        held = b"".join(self._held)
        self._held.clear()
        self._size = 0
        return held
