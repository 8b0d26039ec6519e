"""Store the frames of a stream by their differences.

The frames of a stream are all alike but for a few characters:

    data: {"id":"x","choices":[{"delta":{"content":"The"},"finish_reason":null}]}
    data: {"id":"x","choices":[{"delta":{"content":" sky"},"finish_reason":null}]}
    └────────────────── head ─────────────────────┘   └───────── rest ──────────┘

So head and rest are stored once, and of each frame the text between them. That is a tenth of the
stream, and all of its text is in one place. It is used only if the same bytes can be restored from
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

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
