"""An answer as it was received, stored so that a case for `wholecall replay` and `check` can be
made.

A case is made from a byte stream on demand; until then the stream is stored packed. A stream
with a secret in it, or an answer in another form, becomes a case at once.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, cast

import msgspec

from wholecall.errors import ProtocolError
from wholecall.inspector.encoding import Fields, Hides
from wholecall.inspector.packing import Packed, pack
from wholecall.protocols.reader import Chunk
from wholecall.protocols.wire import read_json
from wholecall.upstreams.recorder import Tape

MOST_CHUNKS = 50_000
"""Of one answer that are kept. A part of an answer would be another answer."""
MOST_BYTES = 16 * 1024 * 1024
"""Of one answer that are kept."""
_SMALL = 8 * 1024
"""Bytes that are not worth compressing: that takes longer than to write them."""
_LEVEL = 1
"""Of compression: the quickest."""
_TICKS = 10_000
"""Of a second: times are kept as whole numbers of them."""
_CASE, _STREAM, _SQUEEZED = b"c", b"s", b"z"
"""The first byte of a stored answer: a case, a stream, or a compressed stream."""


class _Stream(msgspec.Struct, array_like=True):
    """A stream of bytes, as it is kept."""

    title: str
    protocol: str
    offer: bytes
    """The tools, as the case has them."""
    sizes: list[int]
    """Bytes of each chunk."""
    pauses: list[int]
    """Before each chunk."""
    packed: Packed


def read(kept: bytes) -> str:
    """The case of a kept answer: a line of JSON."""
    form, content = kept[:1], kept[1:]
    if form == _CASE:
        return zlib.decompress(content).decode()
    if form == _SQUEEZED:
        content = zlib.decompress(content)
    stream = msgspec.msgpack.decode(content, type=_Stream)
    whole, ends = stream.packed.unpack(), list(accumulate(stream.sizes, initial=0))
    chunks = [whole[start:end] for start, end in pairwise(ends)]
    times = [ticks / _TICKS for ticks in accumulate(stream.pauses)]
    case = {
        "title": stream.title,
        "protocol": stream.protocol,
        **msgspec.json.decode(stream.offer),
        **_play(chunks, times, streamed=True),
    }
    return msgspec.json.encode(case).decode()


def write_case(case: bytes) -> bytes:
    """Keep a case as it is."""
    return _CASE + zlib.compress(case, _LEVEL)


class RawAnswer:
    """The chunks of one answer."""

    def __init__(
        self,
        title: str,
        offer: Fields,
        *,
        began: float = 0.0,
        most_chunks: int = MOST_CHUNKS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._title = title
        self._offer = offer
        self._began = began
        self._times: list[float] = []
        self._chunks: list[Chunk] = []
        self._protocol = ""
        self._streamed = True
        self._withheld = False
        self._clean: list[str] = []
        self._most_chunks = most_chunks
        self._most_bytes = most_bytes
        self._weighed = 0
        """Chunks whose bytes were counted."""
        self._bytes = 0

    def take(self, at: float, chunk: Chunk) -> None:
        """The next chunk. Nothing is made of it before the end: a stream has many."""
        self._times.append(at)
        self._chunks.append(chunk)

    def limit(self) -> None:
        """If it is too long by now, keep nothing of it. To be asked once for many chunks."""
        self._bytes += sum(map(_weigh, self._chunks[self._weighed :]))
        self._weighed = len(self._chunks)
        if self._bytes > self._most_bytes or self._weighed > self._most_chunks:
            self._withhold()

    def describe(self, protocol: str, *, streamed: bool) -> None:
        """In which form it comes."""
        self._protocol, self._streamed = protocol, streamed

    def hear(self, text: str, *, is_clean: bool) -> None:
        """A text that the answer said, and whether it had no secret in it. A secret may be cut
        over chunks, where it cannot be taken out."""
        if is_clean:
            self._clean.append(text)
        else:
            self._withhold()

    def _withhold(self) -> None:
        """Keep nothing of it."""
        self._withheld = True
        self._times.clear()
        self._chunks.clear()
        self._weighed = 0

    def write(self, hides: Hides) -> bytes:
        """Return the answer to store, without secrets; nothing if that is impossible."""
        self.limit()
        if self._withheld or not self._protocol:
            return b""
        offer = msgspec.json.encode(self._offer)
        packed = self._pack()
        if packed is not None and not self._finds_secrets(packed, offer, hides=hides):
            return self._write_stream(packed, offer)
        return self._write_case(offer, hides)

    # ── A stream of bytes ───────────────────────────────────────────────────────────

    def _pack(self) -> Packed | None:
        if not self._streamed or not set(map(type, self._chunks)) <= {bytes}:
            return None
        return pack(b"".join(cast(list[bytes], self._chunks)))

    def _finds_secrets(self, packed: Packed, offer: bytes, *, hides: Hides) -> bool:
        """Return True if a frame holds a secret; one cut over frames was found in the text."""
        around = packed.around.decode("utf-8", "replace")
        if not packed.texts:
            return hides.finds_in([offer.decode(), *around.splitlines(keepends=True)])
        texts = [offer.decode(), around]
        if _read_string(packed.said) not in self._clean:
            texts.append(packed.texts.decode("utf-8", "replace"))
        return hides.finds_in(texts)

    def _write_stream(self, packed: Packed, offer: bytes) -> bytes:
        times = [round(at * _TICKS) for at in (self._began, *self._times)]
        stream = _Stream(
            title=self._title,
            protocol=self._protocol,
            offer=offer,
            sizes=[len(cast(bytes, chunk)) for chunk in self._chunks],
            pauses=[now - before for before, now in pairwise(times)],
            packed=packed,
        )
        content = msgspec.msgpack.encode(stream)
        if len(content) < _SMALL:
            return _STREAM + content
        return _SQUEEZED + zlib.compress(content, _LEVEL)

    # ── What has to be searched ─────────────────────────────────────────────────────

    def _write_case(self, offer: bytes, hides: Hides) -> bytes:
        times = [at - self._began for at in self._times]
        try:
            contents = _play(self._chunks, times, streamed=self._streamed)
        except ProtocolError:  # a body that is not JSON cannot become a case
            return b""
        described = msgspec.json.decode(offer)
        case = {"title": self._title, "protocol": self._protocol, **described, **contents}
        try:
            masked = _mask(case, hides.hide)
        except _Broken:
            return b""
        return write_case(msgspec.json.encode(masked))


# ── Cases ───────────────────────────────────────────────────────────────────────────


def _play(chunks: Sequence[Chunk], times: Sequence[float], *, streamed: bool) -> Fields:
    clock = _Clock()
    tape = Tape(clock.read)
    for clock.now, chunk in zip(times, chunks, strict=True):
        tape.take(chunk if isinstance(chunk, bytes | str) else read_json(chunk))
    return tape.contents(streamed=streamed)


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def read(self) -> float:
        return self.now


class _Broken(Exception):
    """Without its secret the text is not JSON any more."""


def _weigh(chunk: Chunk) -> int:
    return len(chunk if isinstance(chunk, bytes | str) else str(chunk))


def _read_string(content: bytes) -> str | None:
    """Return the text between two JSON quotes; None if it is not a string."""
    try:
        return msgspec.json.decode(b'"%b"' % content, type=str)
    except ValueError:
        return None


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
