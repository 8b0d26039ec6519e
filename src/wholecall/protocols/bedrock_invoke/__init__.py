"""Amazon Bedrock's InvokeModel, for models of Anthropic.

Each event of the stream carries one event of Anthropic's, as bytes: those that boto3 hands over,
or base64 where the event was recorded as JSON. A failure is a member that names its exception. A
whole answer is Anthropic's own.

    {"chunk": {"bytes": "eyJ0eXBlIjoi…"}}
    {"throttlingException": {"message": "…"}}
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from wholecall.errors import ProtocolError
from wholecall.protocols.anthropic import stream
from wholecall.protocols.decoder import (
    Decoded,
    Payload,
    guard,
    read_error,
    read_json,
    read_mark,
)
from wholecall.protocols.registry import OBJECTS, WireProtocol
from wholecall.protocols.sse_ndjson import NdjsonFraming

_EXCEPTION = "Exception"


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


RECORD = WireProtocol(
    name="bedrock-invoke",
    decoder=InvokeDecoder,
    # AWS's binary event stream is taken off by boto3; what is recorded is one event a line.
    framing=NdjsonFraming,
    fields=(frozenset({"chunk"}), frozenset({"bytes"})),
    usual_whole=OBJECTS,
)
