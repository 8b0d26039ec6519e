"""An answer as it was received, kept as a case that `wholecall replay` and `check` read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from wholecall.core.spec import ToolSpec
from wholecall.errors import ProtocolError
from wholecall.protocols.reader import Chunk
from wholecall.protocols.wire import read_json
from wholecall.upstreams.recorder import Tape, define

MOST_CHUNKS = 50_000
"""Of one answer that are kept. A part of an answer would be another answer."""
MOST_BYTES = 16 * 1024 * 1024
"""Of one answer that are kept."""


class RawAnswer:
    """The chunks of one answer."""

    def __init__(
        self,
        title: str,
        tools: Sequence[ToolSpec],
        *,
        clock: Callable[[], float],
        most_chunks: int = MOST_CHUNKS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._title = title
        self._tools = tuple(tools)
        self._tape: Tape | None = Tape(clock)
        self._protocol = ""
        self._streamed = True
        self._chunks = most_chunks
        self._bytes = most_bytes

    def take(self, protocol: str, chunk: Chunk, *, streamed: bool) -> None:
        """The next chunk."""
        if self._tape is None:
            return
        self._protocol, self._streamed = protocol, streamed
        self._chunks -= 1
        self._bytes -= len(chunk) if isinstance(chunk, bytes | str) else len(str(chunk))
        if self._chunks < 0 or self._bytes < 0:
            self.withhold()
        else:
            self._tape.take(chunk if isinstance(chunk, bytes | str) else read_json(chunk))

    def withhold(self) -> None:
        """Keep nothing of it: it is too long, or has a secret in it that is cut over its chunks."""
        self._tape = None

    def write(self, hide: Callable[[str], str]) -> str:
        """A line of JSON, without secrets; empty if nothing was kept."""
        if self._tape is None or not self._protocol:
            return ""
        try:
            contents = self._tape.contents(streamed=self._streamed)
        except ProtocolError:  # a body that is no JSON: then there is no case to be made of it
            return ""
        tools = [define(tool) for tool in self._tools] or None
        case = {"title": self._title, "protocol": self._protocol, "tools": tools, **contents}
        return hide(msgspec.json.encode(case).decode())
