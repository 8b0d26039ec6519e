"""Convert a function's return value to a result for the model."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pydantic_core

from wholecall.arguments.describe import cut
from wholecall.events import JSON, Text
from wholecall.messages import Content, Media, Result
from wholecall.tools.tool import Failed

NO_OUTPUT = "(no output)"
"""The result of a tool that returned nothing. Some providers refuse an empty result."""
MEDIA_BYTES = 20 * 1024 * 1024
"""Of one image, sound or document. No provider takes more."""
STRUCTURED_BYTES = 4 * 1024 * 1024
"""Of JSON that is kept as a value beside its text. What is larger is cut off anyhow."""
PROGRESS_CHARACTERS = 16_384
"""Of one progress report; a longer one is left out. It may be the result itself."""


def to_result(value: object) -> Result:
    """Convert any return value to a result. Raise `Failed` for one that cannot be expressed."""
    match value:
        case Result():
            return _check(value)
        case None:
            return Result((Text(NO_OUTPUT),))
        case str() | Text() | Media() | bytes() | bytearray() | memoryview():
            return Result((_to_content(value),))
        case list() | tuple() if any(isinstance(item, Text | Media) for item in value):
            return Result(tuple(_to_content(item) for item in value))
        case _:
            text = _to_json(value)
            return Result((Text(text.decode()),), structured=_read_back(text))


def to_progress(value: object) -> JSON:
    """Convert a yielded value to a progress report; None if it cannot or should not be one."""
    if isinstance(value, str):
        return value if len(value) <= PROGRESS_CHARACTERS else None
    if isinstance(value, Result | Text | Media | bytes | bytearray | memoryview):
        return None
    try:
        text = _to_json(value)
    except Failed:
        return None
    progress: JSON = pydantic_core.from_json(text) if len(text) <= PROGRESS_CHARACTERS else None
    return progress


def _check(result: Result) -> Result:
    """Check a result that a tool made itself, and normalise its content."""
    if result.structured is not None:
        result = replace(result, structured=_read_back(_to_json(result.structured)))
    content: object = result.content
    if isinstance(content, tuple) and all(isinstance(piece, Text | Media) for piece in content):
        return result
    if isinstance(content, str):
        content = (content,)
    if not isinstance(content, list | tuple):
        raise Failed(f"the content of its Result is a {type(content).__qualname__}, not a tuple")
    return replace(result, content=tuple(map(_to_content, content)))


def _read_back(text: bytes) -> JSON:
    """The value of a JSON text, unless it is too large or too deep to be kept beside it."""
    if len(text) > STRUCTURED_BYTES:
        return None
    try:
        value: JSON = pydantic_core.from_json(text)
    except ValueError:
        return None
    return value


def _to_content(value: object) -> Content:
    match value:
        case Text() | Media():
            return value
        case str():
            # A member of a string enumeration is its value, not its name.
            return Text(str.__str__(value))
        case bytes() | bytearray() | memoryview():
            return _to_media(value)
        case _:
            return Text(_to_json(value).decode())


def _to_json(value: object) -> bytes:
    try:
        # JSON has no NaN. As a string it is at least not lost.
        return pydantic_core.to_json(value, inf_nan_mode="strings")
    except ValueError as error:
        escaped = _escape(value)
        if escaped is not None:
            return escaped
        kind = type(value).__qualname__
        raise Failed(
            f"it returned a value of type {kind!r} that cannot be written as JSON "
            f"({cut(str(error))})"
        ) from error


def _escape(value: object) -> bytes | None:
    """Plain JSON with half of a surrogate pair in it, as in the names of some files."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None


# ── Media ───────────────────────────────────────────────────────────────────────────


class _Signature(NamedTuple):
    """The first bytes of a format; `at` eight, formats in a RIFF file name themselves."""

    head: bytes
    at_eight: bytes
    kind: str
    media_type: str


_SIGNATURES = (
    _Signature(b"\x89PNG\r\n\x1a\n", b"", "image", "image/png"),
    _Signature(b"\xff\xd8\xff", b"", "image", "image/jpeg"),
    _Signature(b"GIF87a", b"", "image", "image/gif"),
    _Signature(b"GIF89a", b"", "image", "image/gif"),
    _Signature(b"RIFF", b"WEBP", "image", "image/webp"),
    _Signature(b"RIFF", b"WAVE", "audio", "audio/wav"),
    _Signature(b"%PDF-", b"", "document", "application/pdf"),
)


def _to_media(value: bytes | bytearray | memoryview) -> Media:
    view = memoryview(value).cast("B")
    if view.nbytes > MEDIA_BYTES:
        raise Failed(f"it returned {view.nbytes} bytes; at most {MEDIA_BYTES} can be shown")
    head = bytes(view[:16])
    for signature in _SIGNATURES:
        if head.startswith(signature.head) and head.startswith(signature.at_eight, 8):
            data = base64.b64encode(view).decode("ascii")
            return Media(kind=signature.kind, media_type=signature.media_type, data=data)
    raise Failed(
        f"it returned {view.nbytes} bytes of no known kind; "
        "PNG, JPEG, GIF, WebP, WAV and PDF are recognised, text must be decoded"
    )


# ── Size ────────────────────────────────────────────────────────────────────────────


def cap(result: Result, limit: int) -> Result:
    """Cut the text of a result to `limit` characters, with a notice of how many there were.

    Only the head is copied. The value goes with the text: it would bypass the limit.
    """
    total = sum(len(piece.text) for piece in result.content if isinstance(piece, Text))
    content = tuple(_cut(result.content, limit))
    if total <= limit:
        return replace(result, content=content)
    shown = f"the first {limit} of {total} characters"
    notice = Text(f"\n[Cut off: these are {shown}. Ask for less, or for a part.]")
    return replace(result, content=(*content, notice), structured=None)


def add_note(result: Result, note: str) -> Result:
    """Say something more at the end of a result."""
    return replace(result, content=(*result.content, Text(f"\n\n{note}"))) if note else result


def _cut(content: tuple[Content, ...], room: int) -> Iterator[Content]:
    for piece in content:
        if isinstance(piece, Text):
            text = piece.text[:room]
            room -= len(text)
            yield Text(_make_sendable(text))
        else:
            yield piece


def _make_sendable(text: str) -> str:
    """Half of a surrogate pair is escaped: it could not be sent to anyone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
