"""Cohere's chat, version 2."""

from wholecall.protocols.cohere import request, stream
from wholecall.protocols.registry import UpstreamSide, WireProtocol
from wholecall.protocols.sse_ndjson import SseFraming

RECORD = WireProtocol(
    name=request.PROTOCOL,
    decoder=stream.Decoder,
    framing=SseFraming,
    kinds=(
        *("message-start", "message-end", "content-start", "content-delta", "content-end"),
        *("tool-plan-delta", "tool-call-start", "tool-call-delta", "tool-call-end", "citation-"),
    ),
    fields=(frozenset({"message", "finish_reason"}),),
    upstream=UpstreamSide(encode=request.encode, path="chat", version="v2"),
)
