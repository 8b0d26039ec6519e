"""Amazon Bedrock's InvokeModel, for models of Anthropic.

Each event of the stream carries one event of Anthropic's, as bytes: those that boto3 hands over,
or base64 on the wire and where the event was recorded as JSON. A failure is a member that names
its exception. A whole answer is Anthropic's own.

    {"chunk": {"bytes": "eyJ0eXBlIjoi…"}}
    {"throttlingException": {"message": "…"}}

A request is Anthropic's own as well, but for the model and the stream, which are in the address.

On the wire an event is a binary message (vnd.amazon.eventstream), its numbers big-endian:

    length of all (4 bytes), of the headers (4), CRC of these 8 bytes (4)
    headers: length of the name (1), name, type of the value (1), value
    payload: JSON
    CRC of all before it (4)
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from wholecall.errors import ProtocolError
from wholecall.messages import Request
from wholecall.protocols.anthropic import request, stream
from wholecall.protocols.decoder import Decoded, Payload, guard, read_error, read_json, read_mark
from wholecall.protocols.history import Target
from wholecall.protocols.registry import OBJECTS, UpstreamSide, WireProtocol
from wholecall.protocols.request_fields import without
from wholecall.protocols.sse_ndjson import LIMIT, Framing, NdjsonFraming, Piece

_EXCEPTION = "Exception"
_VERSION = "bedrock-2023-05-31"


class InvokeDecoder:
    """Reads one stream, or one whole answer."""

    def __init__(self) -> None:
        self._events = stream.Decoder()

    def decode(self, payload: Payload) -> Decoded:
        """Turn one event into deltas."""
        return guard(self._decode(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """Every event has to be unwrapped first."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return self._events.decode_response(body)

    def _decode(self, payload: Payload) -> Decoded:
        event = payload if isinstance(payload, Mapping) else read_json(payload)
        if not isinstance(event, Mapping):
            raise ProtocolError("an event is not an object")
        failure = next((name for name in event if str(name).endswith(_EXCEPTION)), None)
        if failure is not None:
            yield read_error(event[failure] or failure)
            return
        yield from self._events.decode(_unwrap(event))


def _unwrap(event: Mapping[str, Any]) -> Payload:
    """Return the event inside; the event itself if it was unwrapped before."""
    chunk = event.get("chunk", event)
    held = chunk.get("bytes") if isinstance(chunk, Mapping) else None
    if not isinstance(held, str):
        return event if held is None else held
    try:
        return base64.b64decode(held, validate=True)
    except binascii.Error as error:
        raise ProtocolError(f"the bytes of an event are not base64: {error}") from None


# ── Binary messages ─────────────────────────────────────────────────────────────────

_PRELUDE = struct.Struct("!III")
_CRC = struct.Struct("!I")
_LENGTH = struct.Struct("!H")
_SHORTEST = _PRELUDE.size + _CRC.size
# The bytes of a header's value, by its type: two booleans, numbers, a time, a UUID.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_MEASURED = (6, 7)
"""The types whose values begin with their length: bytes and text."""


class InvokeFraming:
    """Binary messages, or one recorded event a line."""

    def __init__(self) -> None:
        self._framing: Framing | None = None

    def feed(self, chunk: Piece) -> list[Payload]:
        """Return the events that this piece completes."""
        if self._framing is None and len(chunk):
            # A message would have 16 MB before its first byte was not 0, and no line begins so.
            binary = not isinstance(chunk, str) and chunk[0] == 0
            self._framing = _BinaryFraming() if binary else NdjsonFraming()
        return self._framing.feed(chunk) if self._framing else []

    def end(self) -> list[Payload]:
        """Return a last line whose newline is missing; a message that was cut is dropped."""
        return self._framing.end() if self._framing else []


class _BinaryFraming:
    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: Piece) -> list[Payload]:
        if isinstance(chunk, str):
            raise ProtocolError("text inside of a binary stream")
        self._held += chunk
        payloads: list[Payload] = []
        at = 0
        while (end := self._find_end(at)) is not None:
            payloads.append(_read_message(bytes(self._held[at:end])))
            at = end
        del self._held[:at]
        return payloads

    def _find_end(self, at: int) -> int | None:
        if len(self._held) - at < _SHORTEST:
            return None
        length, headers, check = _PRELUDE.unpack_from(self._held, at)
        if check != crc32(self._held[at : at + _PRELUDE.size - _CRC.size]):
            raise ProtocolError("the head of a message does not fit its checksum")
        if not _SHORTEST + headers <= length <= LIMIT:
            raise ProtocolError(f"a message with {length} bytes")
        return at + length if at + length <= len(self._held) else None

    def end(self) -> list[Payload]:
        return []


def _read_message(message: bytes) -> Payload:
    """Return the event in a message; an exception under its name."""
    body, (check,) = message[: -_CRC.size], _CRC.unpack(message[-_CRC.size :])
    if check != crc32(body):
        raise ProtocolError("a message does not fit its checksum")
    _, length, _ = _PRELUDE.unpack_from(body)
    headers = _read_headers(body[_PRELUDE.size : _PRELUDE.size + length])
    payload = body[_PRELUDE.size + length :]
    if headers.get(":message-type", "event") == "event":
        return payload
    name = headers.get(":exception-type") or headers.get(":error-code") or ""
    said = read_json(payload) if payload else headers.get(":error-message")
    return {name if name.endswith(_EXCEPTION) else f"{name}{_EXCEPTION}": said}


def _read_headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name, at = data[at + 1 : at + 1 + data[at]].decode(), at + 1 + data[at]
            kind, at = data[at], at + 1
            size = _LENGTH.unpack_from(data, at)[0] if kind in _MEASURED else _SIZES[kind]
            at += _LENGTH.size if kind in _MEASURED else 0
            headers[name], at = data[at : at + size].decode("utf-8", "replace"), at + size
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise ProtocolError(f"the headers of a message cannot be read: {error!r}") from None
    return headers


# ── Requests ────────────────────────────────────────────────────────────────────────


def encode(asked: Request, target: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    body = without(request.encode(asked, target), ("model", "stream"))
    return {"anthropic_version": _VERSION, **body}


RECORD = WireProtocol(
    name="bedrock-invoke",
    provider="aws.bedrock",
    decoder=InvokeDecoder,
    framing=InvokeFraming,
    fields=(frozenset({"chunk"}), frozenset({"bytes"})),
    usual_whole=OBJECTS,
    upstream=UpstreamSide(
        encode=encode,
        any_object=False,
        output_limit=request.output_limit,
        carried=request.carried_options,
        path="model",
        version="",
        model_paths=("{model}/invoke", "{model}/invoke-with-response-stream"),
    ),
)
