"""The end of what a server's process writes to its standard error.

It says why a server did not start. A thread reads the pipe, so that a server that writes a
lot is never blocked by it; of all of it only the end is kept.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

KEPT = 8_192
"""Bytes. A traceback has its message at its end."""
_PATIENCE = 0.5
"""Seconds to wait for the rest of it, once the process has ended."""


class StderrTail:
    """Keeps the last bytes of one process."""

    def __init__(self) -> None:
        self._kept = b""
        self._reader: threading.Thread | None = None

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """Return a file for the process. We close our own end of it: when the process has ended, no
        one holds it open any more, and the thread ends."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=True)
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as file:
            yield file

    def _read(self, pipe: int) -> None:
        with open(pipe, "rb", buffering=0) as file:
            while piece := file.read(KEPT):
                self._kept = (self._kept + piece)[-KEPT:]

    async def finish(self) -> str:
        """All that is kept, once the process has ended."""
        if self._reader is not None:
            # A grandchild may hold the pipe open for ever: it is not waited for.
            await asyncio.to_thread(self._reader.join, _PATIENCE)
        return self._kept.decode("utf-8", "replace").strip()
