"""An answer as it was received, kept as a case that `wholecall replay` and `check` read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from wholecall.core.spec import ToolSpec
from wholecall.errors import ProtocolError
from wholecall.inspector.encoding import Fields
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
        try:
            masked = _mask(case, hide) if _has_secrets(case, hide) else case
        except _Broken:
            return ""
        return msgspec.json.encode(masked).decode()


class _Broken(Exception):
    """Without its secret it is no JSON any more."""


def _has_secrets(case: Fields, hide: Callable[[str], str]) -> bool:
    """Look at many chunks at a time: nearly all answers have none, and most chunks are short."""
    whole = {name: value for name, value in case.items() if name not in {"events", "pauses"}}
    texts = [each if isinstance(each, str) else str(each) for each in case.get("events", ())]
    slabs = ["".join(texts[start : start + _SLAB]) for start in range(0, len(texts), _SLAB)]
    return any(hide(slab) != slab for slab in (str(whole), *slabs))


def _mask(value: Any, hide: Callable[[str], str]) -> Any:
    """The same value without secrets, text by text: none of them is long, and others may work
    in between."""
    if isinstance(value, str):
        return _mask_text(value, hide)
    if isinstance(value, Mapping):
        return {name: _mask(each, hide) for name, each in value.items()}
    return [_mask(each, hide) for each in value] if isinstance(value, Sequence) else value


def _mask_text(text: str, hide: Callable[[str], str]) -> str:
    masked = hide(text)
    if masked != text and not all(map(_is_json, _PAYLOAD.findall(masked))):
        raise _Broken
    return masked


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


_SLAB = 200
_PAYLOAD = re.compile(r"^data: ?(\{.*)$", re.MULTILINE)
