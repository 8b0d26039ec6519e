"""Images, sounds and documents, and the words for what a protocol cannot carry."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wholecall.core.conversation import Media, Native, Result

_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_DEFAULT_TYPES = {"image": "image/png", "audio": "audio/wav", "document": "application/pdf"}
# How OpenAI calls the two formats of sound that it takes.
_FORMATS = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
}
_FORMAT_TYPES = {"mp3": "audio/mpeg"}


def read_address(kind: str, address: str, *, name: str = "") -> Media:
    """Read a `data:` URL, or an address."""
    head = _DATA_URL.match(address)
    if head is None:
        return Media(kind=kind, url=address, name=name)
    data = address[head.end() :]
    return Media(kind=kind, media_type=head["type"].lower(), data=data, name=name)


def write_address(media: Media) -> str:
    """Write a `data:` URL, or the address where the bytes lie."""
    return media.url or f"data:{type_of(media)};base64,{media.data}"


def type_of(media: Media) -> str:
    """The media type, or what it most likely is."""
    return media.media_type or _DEFAULT_TYPES[media.kind]


def read_format(name: str) -> str:
    """The media type of a sound in the format of this name."""
    return _FORMAT_TYPES.get(name, f"audio/{name}")


def write_format(media: Media) -> str:
    """OpenAI's name of a sound's format."""
    kind = type_of(media)
    return _FORMATS.get(kind, kind.removeprefix("audio/"))


# ── In words ────────────────────────────────────────────────────────────────────────


def omit(part: Media | Native) -> str:
    """Return the text in place of content that cannot be sent."""
    if isinstance(part, Native):
        return "(Something was left out here that this model cannot be given.)"
    about = ", ".join(filter(None, (part.kind, part.name, part.media_type, part.url)))
    return f"(Left out here, because this model cannot be given it: {about}.)"


def media_in(content: Iterable[object]) -> list[Media]:
    """The images, sounds and documents of a content."""
    return [piece for piece in content if isinstance(piece, Media)]


def speak(result: Result) -> str:
    """A result as text, for protocols that have no other way to say that it is a failure."""
    text = result.text
    if not result.failed or text.lstrip().lower().startswith("error"):
        return text
    return f"Error: {text}".rstrip()
