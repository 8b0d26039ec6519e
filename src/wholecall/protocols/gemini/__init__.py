"""Google's generateContent."""

from wholecall.events import Oddity
from wholecall.protocols.gemini import request, stream
from wholecall.protocols.registry import ENDS_ALIKE, OBJECTS, UpstreamSide, WireProtocol
from wholecall.protocols.sse_ndjson import SseFraming

_USUAL = OBJECTS | ENDS_ALIKE | {Oddity.ID_MISSING}
RECORD = WireProtocol(
    name=request.PROTOCOL,
    provider="gcp.gemini",
    decoder=stream.Decoder,
    framing=SseFraming,
    fields=(frozenset({"candidates"}), frozenset({"promptFeedback"})),
    usual=_USUAL,
    usual_whole=_USUAL,
    upstream=UpstreamSide(
        encode=request.encode,
        carried=request.carried_options,
        media=dict.fromkeys(("image", "audio", "document"), True),
        path="models",
        version="v1beta",
        key_header="x-goog-api-key",
        key_form="{key}",
        model_paths=("{model}:generateContent", "{model}:streamGenerateContent?alt=sse"),
    ),
)
