"""Server-sent events, written.

Text and arguments arrive in thousands of small pieces, so a frame around them is prepared
once and only the piece itself is encoded (`quote`). Everything else is written by `dump`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from wholecall.core.prepare import write_mapping
from wholecall.core.surrogates import join_halves
from wholecall.protocols.wire import plain

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: every client reads over it, at any place of a stream."""
DONE = b"data: [DONE]\n\n"
END = b"\n\n"

_ENCODER = msgspec.json.Encoder(enc_hook=write_mapping)
_encode = _ENCODER.encode


def quote(text: str) -> bytes:
    """A piece of text as JSON."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        # Halves of surrogate pairs, as providers send them that cut inside a character.
        return _encode(join_halves(text))


def dump(value: Any) -> bytes:
    """A value as JSON, on one line."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
        return join_halves(text).encode()


def frame(payload: Any, name: str = "") -> bytes:
    """One event of a stream."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + dump(payload) + END


def comment(word: str, value: Any) -> bytes:
    """A value that only those read who look into comments."""
    return f": {word} ".encode() + dump(value) + END
