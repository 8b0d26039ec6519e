"""An upstream's answer as captured bytes: compressed, exported as a case, decoded chunk by
chunk."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, cast

import msgspec

from wholecall.arguments.describe import cut
from wholecall.dialects.emulation.emulate import read_prompted
from wholecall.errors import ProtocolError, WholecallError
from wholecall.events import Delta, Event, OfChoice, Rejected, Released
from wholecall.inspector.page_encoder import Fields, SecretFilter
from wholecall.protocols.decoder import read_json
from wholecall.protocols.reader import Chunk, Reader, Tools, TurnAssembler
from wholecall.upstreams.replay import Tape, case_assembler

_END = b"\n\n"
_CUT = b"\0"
"""Separates two texts. No packed stream contains it."""
_VALUE = b"0123456789abcdef"
"""Would be a secret after `"token": "`."""
_NAME = b"password"
"""Would begin one before `": "…"`."""
_FEW = 4
"""Frames that are not worth it."""
_SLAB = 128
"""Frames that are restored at a time: larger allocations go to the operating system, which takes
ten times as long."""


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A stream, or a part of it."""

    before: bytes
    """Frames that are unlike the others, and all of them if none are alike."""
    head: bytes = b""
    texts: bytes = b""
    """The text between head and rest of each frame."""
    rest: bytes = b""
    behind: bytes = b""

    @property
    def said(self) -> bytes:
        """The texts of all frames in a row."""
        return self.texts.replace(_CUT, b"")

    @property
    def around(self) -> bytes:
        """All else, once; with a word between head and rest, because names stand before secrets."""
        if not self.head:
            return self.before
        alike = (self.head + _VALUE + self.rest, _NAME + self.rest)
        return _END.join((self.before, *alike, self.behind))

    def unpack(self) -> bytes:
        """The stream."""
        if not self.head:
            return self.before
        alike = _join(self.head, self.texts.split(_CUT), rest=self.rest)
        return self.before + alike + self.behind


def pack(stream: bytes) -> Packed:
    """Find what the frames have in common."""
    # To look for one newline is twice as fast as to look for two.
    frames = stream.split(b"\n")[::2]
    middle = len(frames) // 2
    if middle < _FEW or _CUT in stream:
        return Packed(stream)
    head, rest = _find_common(frames[middle - 1], frames[middle])
    if not head or not rest:
        return Packed(stream)
    first = _find_alike(frames, head, rest)
    last = len(frames) - _find_alike(frames[::-1], head, rest)
    start, end = len(head), -len(rest)
    texts = [frame[start:end] for frame in frames[first:last]]
    begin = sum(map(len, frames[:first])) + first * len(_END)
    alike = (_join(head, some, rest=rest) for some in _cut(texts))
    behind = _find_end(stream, begin, alike=alike)
    if behind is None:
        return Packed(stream)
    return Packed(stream[:begin], head, _CUT.join(texts), rest, stream[behind:])


def _cut(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (texts[start : start + _SLAB] for start in range(0, len(texts), _SLAB))


def _find_end(stream: bytes, begin: int, *, alike: Iterable[bytes]) -> int | None:
    """Return the end of these parts of a stream, if they are at `begin`."""
    end, between = begin, b""
    for part in alike:
        if not stream.startswith(between + part, end):
            return None
        end += len(between) + len(part)
        between = _END
    return end


def _find_alike(frames: Sequence[bytes], head: bytes, rest: bytes) -> int:  # noqa: PLR0917 - one short line
    alike = (n for n, frame in enumerate(frames) if frame.startswith(head) and frame.endswith(rest))
    return next(alike)


def _join(head: bytes, texts: Sequence[bytes], *, rest: bytes) -> bytes:
    return head + (rest + _END + head).join(texts) + rest


def _find_common(one: bytes, other: bytes) -> tuple[bytes, bytes]:
    """Return the common prefix up to a quote, and the common suffix from a quote on."""
    head = one[: _count_common(one, other)]
    head = head[: head.rfind(b'"') + 1]
    one, other = one[len(head) :], other[len(head) :]
    rest = one[len(one) - _count_common(one[::-1], other[::-1]) :]
    quote = rest.find(b'"')
    return head, rest[quote:] if quote >= 0 else b""


def _count_common(one: bytes, other: bytes) -> int:
    """Bytes that both begin with; each step halves the place that is in question."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


# An answer as it was received, stored so that a case for `wholecall replay` and `check` can be
# made.
#
# A case is made from a byte stream on demand; until then the stream is stored packed. A stream with
# a secret in it, or an answer in another form, becomes a case at once.


MOST_CHUNKS = 50_000
"""Of one answer that are kept. A part of an answer would be another answer."""
MOST_BYTES = 16 * 1024 * 1024
"""Of one answer that are kept."""
_SMALL = 8 * 1024
"""Bytes that are not worth compressing: that takes longer than to write them."""
_MOST_OFFER = 1024 * 1024
"""Bytes of the tools and the conversation together. A longer conversation is left out."""
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


class CapturedAnswer:
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

    def write(self, hides: SecretFilter) -> bytes:
        """Return the answer to store, without secrets; nothing if that is impossible."""
        self.limit()
        if self._withheld or not self._protocol:
            return b""
        offer = self._write_offer()
        packed = self._pack()
        if packed is not None and not self._finds_secrets(packed, offer, hides=hides):
            return self._write_stream(packed, offer)
        return self._write_case(offer, hides)

    def _write_offer(self) -> bytes:
        with suppress(UnicodeEncodeError):  # half of a character, which only an escape can write
            if len(offer := msgspec.json.encode(self._offer)) <= _MOST_OFFER:
                return offer
        return msgspec.json.encode({**self._offer, "messages": []})

    # ── A stream of bytes ───────────────────────────────────────────────────────────

    def _pack(self) -> Packed | None:
        if not self._streamed or not set(map(type, self._chunks)) <= {bytes}:
            return None
        return pack(b"".join(cast(list[bytes], self._chunks)))

    def _finds_secrets(self, packed: Packed, offer: bytes, *, hides: SecretFilter) -> bool:
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

    def _write_case(self, offer: bytes, hides: SecretFilter) -> bytes:
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


# The stored chunks of an answer, each with what was made of it: deltas, and then events.
#
# They are decoded again, as `wholecall check` does it, so the page shows what the chunks themselves
# say. The limit of output tokens and the conversation are stored with them, because they decide
# what is a call. Chunks are sent as texts: JavaScript would round their numbers.


MOST_DECODED_CHUNKS = 2000
"""Of one answer that are shown. Its export has all of them."""
_LONGEST = 300
"""Characters of one value."""


class _Case(msgspec.Struct):
    protocol: str
    events: list[msgspec.Raw] | None = None
    response: msgspec.Raw = msgspec.Raw(b"{}")
    pauses: list[float] = []
    tools: list[dict[str, Any]] | None = None
    dialect: str = ""
    tool_choice: Any = None
    parallel_tool_calls: bool = True
    beginning: str = ""
    max_tokens: int | None = None
    messages: list[Any] = []


class _Step(NamedTuple):
    chunk: str
    at: float
    feed: Callable[[], list[Event]]


def decode_case(case: str) -> Fields:
    """The chunks of a case, with their deltas and events."""
    read = msgspec.json.decode(case, type=_Case)
    listening = _Listening(read)
    steps = _list_steps(read, listening.reader)
    told = [listening.tell(step) for step in steps[:MOST_DECODED_CHUNKS]]
    left_out = len(steps) - len(told)
    if not left_out:
        end = _Step("", told[-1]["at"] if told else 0.0, listening.reader.end)
        told.append({**listening.tell(end), "end": True})
    return {"protocol": read.protocol, "chunks": told, "left_out": left_out}


def _list_steps(case: _Case, reader: Reader) -> Sequence[_Step]:
    if case.events is None:
        body = bytes(case.response).decode()
        return [_Step(body, 0.0, lambda: reader.feed_response(json.loads(body)))]
    at, steps = 0.0, []
    for number, raw in enumerate(case.events):
        at += case.pauses[number] if number < len(case.pauses) else 0.0
        chunk = json.loads(bytes(raw))
        text = chunk if isinstance(chunk, str) else bytes(raw).decode()
        steps.append(_Step(text, round(at, 4), partial(reader.feed, chunk)))
    return steps


class _Listening:
    """A reader whose deltas are noted on their way."""

    def __init__(self, case: _Case) -> None:
        self._deltas: list[str] = []
        prompted = read_prompted(msgspec.structs.asdict(case), case.tools or ())
        self._within = case_assembler(prompted, case.messages)
        self.reader = Reader(
            case.protocol,
            case.tools,
            new_assembler=self._make_assembler,
            max_tokens=case.max_tokens,
        )

    def tell(self, step: _Step) -> Fields:
        """Return what one chunk brought about."""
        try:
            events = [_describe(event) for event in step.feed()]
        except (WholecallError, ValueError) as error:  # a body that the proxy refused as well
            events = [str(error)]
        deltas = self._deltas[:]
        self._deltas.clear()
        return {"at": step.at, "text": step.chunk, "deltas": deltas, "events": events}

    def _make_assembler(self, tools: Tools | None) -> _Noting:
        return _Noting(self._within(tools), self._deltas)


class _Noting:
    def __init__(self, assembler: TurnAssembler, deltas: list[str]) -> None:
        self._assembler = assembler
        self._deltas = deltas

    def feed(self, delta: Delta) -> list[Event]:
        self._deltas.append(_describe(delta))
        return self._assembler.feed(delta)

    def end(self) -> list[Event]:
        return self._assembler.end()


def _describe(value: Delta | Event | OfChoice[Any]) -> str:
    """A delta or an event in a line: its kind, and what it says."""
    match value:
        case OfChoice(choice=choice, value=inner):
            return f"choice {choice}: {_describe(inner)}"
        case Released(call=call):
            return f"Released {call.name} {cut(call.raw, _LONGEST)}"
        case Rejected():
            said = f"Rejected {value.name or ''} {value.reason.value}: {value.detail}"
            return cut(said, _LONGEST)
        case _:
            return " ".join([type(value).__name__, *_list_fields(value)])


def _list_fields(value: msgspec.Struct) -> Iterable[str]:
    for field in msgspec.structs.fields(value):
        said = getattr(value, field.name)
        if said is not None and said is not False and said != {}:  # 0 says something
            yield f"{field.name}={_write(said)}"


def _write(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.name)
    return cut(repr(value), _LONGEST)
