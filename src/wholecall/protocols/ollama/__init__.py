"""Ollama's own chat API."""

from wholecall.events import Oddity
from wholecall.protocols.ollama import request, stream
from wholecall.protocols.registry import ENDS_ALIKE, OBJECTS, UpstreamSide, WireProtocol
from wholecall.protocols.sse_ndjson import NdjsonFraming

_USUAL = OBJECTS | ENDS_ALIKE | {Oddity.ID_MISSING}
RECORD = WireProtocol(
    name=request.PROTOCOL,
    decoder=stream.Decoder,
    framing=NdjsonFraming,
    fields=(frozenset({"message", "done"}),),
    usual=_USUAL,
    usual_whole=_USUAL,
    upstream=UpstreamSide(
        encode=request.encode,
        carried=request.carried_options,
        path="chat",
        version="api",
        streams_json=True,
        models="tags",
    ),
)
