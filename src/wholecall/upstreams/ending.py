"""The end of a stream whose answer has said its own end.

Most servers end the body of their answer behind its terminator. Some leave the connection open,
or go on with signs of life. All of the answer is there, and whoever waits for the rest waits for
nothing; but to hang up at once would cost the connection of all those who are about to end it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from wholecall.protocols.reader import Reader

PATIENCE_SECONDS = 1.0
"""How long a stream may go on behind the answer's own end."""


class EndOfStream:
    """Leaves its block, as if the stream were over, a moment behind the end of the answer."""

    __slots__ = ("_limit",)

    def __init__(self) -> None:
        self._limit = asyncio.timeout(None)

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        try:
            await self._limit.__aexit__(kind, error, None)
        except TimeoutError:
            return True  # the clock is ours: it runs only behind the end
        return False

    def look(self, reader: Reader) -> None:
        """Something was read: see whether it was the end."""
        if reader.is_terminated and self._limit.when() is None:
            now = asyncio.get_running_loop().time()
            self._limit.reschedule(now + PATIENCE_SECONDS)
