"""An answer as it was received, kept as a case that `wholecall replay` and `check` read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from wholecall.core.spec import ToolSpec
from wholecall.errors import ProtocolError
from wholecall.inspector.encoding import Fields, Hides
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
        began: float = 0.0,
        most_chunks: int = MOST_CHUNKS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._title = title
        self._tools = tuple(tools)
        self._began = began
        self._times: list[float] = []
        self._chunks: list[Chunk] = []
        self._protocol = ""
        self._streamed = True
        self._withheld = False
        self._most_chunks = most_chunks
        self._bytes = most_bytes

    def take(self, at: float, chunk: Chunk) -> None:
        """The next chunk. Nothing is made of it before the end: a stream has many."""
        self._take(at, chunk, size=len(chunk if isinstance(chunk, bytes | str) else str(chunk)))

    def take_bytes(self, at: float, chunk: bytes) -> None:
        """The next chunk, as nearly all of them are."""
        self._take(at, chunk, size=len(chunk))

    def _take(self, at: float, chunk: Chunk, *, size: int) -> None:
        if self._withheld:
            return
        self._times.append(at)
        self._chunks.append(chunk)
        self._bytes -= size
        if self._bytes < 0 or len(self._chunks) > self._most_chunks:
            self.withhold()

    def describe(self, protocol: str, *, streamed: bool) -> None:
        """In which form it comes."""
        self._protocol, self._streamed = protocol, streamed

    def withhold(self) -> None:
        """Keep nothing of it: it is too long, or has a secret in it that is cut over its chunks."""
        self._withheld = True
        self._chunks.clear()

    def write(self, hides: Hides) -> str:
        """A line of JSON, without secrets; empty if nothing was kept."""
        if self._withheld or not self._protocol:
            return ""
        try:
            contents = self._list_lines() or self._play()
        except ProtocolError:  # a body that is no JSON: then there is no case to be made of it
            return ""
        tools = [define(tool) for tool in self._tools] or None
        case = {"title": self._title, "protocol": self._protocol, "tools": tools, **contents}
        try:
            masked = _mask(case, hides.hide) if _has_secrets(case, hides) else case
        except _Broken:
            return ""
        return msgspec.json.encode(masked).decode()

    def _list_lines(self) -> Fields | None:
        """What `_play` gives, at once; None unless all chunks are whole lines."""
        lines = [chunk for chunk in self._chunks if isinstance(chunk, bytes)]
        whole = len(lines) == len(self._chunks) and all(line.endswith(b"\n") for line in lines)
        if not self._streamed or not whole:
            return None
        times = pairwise((self._began, *self._times))
        return {
            "events": [line.decode("utf-8", "replace") for line in lines],
            "pauses": [round(now - before, 4) for before, now in times],
        }

    def _play(self) -> Fields:
        clock = _Clock(self._began)
        tape = Tape(clock.read)
        for clock.now, chunk in zip(self._times, self._chunks, strict=True):
            tape.take(chunk if isinstance(chunk, bytes | str) else read_json(chunk))
        return tape.contents(streamed=self._streamed)


class _Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def read(self) -> float:
        return self.now


class _Broken(Exception):
    """Without its secret it is no JSON any more."""


def _has_secrets(case: Fields, hides: Hides) -> bool:
    """Look at all chunks together: nearly all answers have none, and most chunks are short."""
    whole = {name: value for name, value in case.items() if name not in {"events", "pauses"}}
    texts = [each if isinstance(each, str) else str(each) for each in case.get("events", ())]
    said = str(whole)
    return hides.hide(said) != said or hides.finds_in(texts)


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


_PAYLOAD = re.compile(r"^data: ?(\{.*)$", re.MULTILINE)
