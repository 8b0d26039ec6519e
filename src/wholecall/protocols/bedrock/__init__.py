"""Amazon Bedrock's Converse API."""

from wholecall.protocols.bedrock.stream import Decoder
from wholecall.protocols.registry import OBJECTS, WireProtocol
from wholecall.protocols.sse_ndjson import NdjsonFraming

RECORD = WireProtocol(
    name="bedrock-converse",
    decoder=Decoder,
    # On the wire Bedrock uses AWS's binary event stream, which boto3 takes off; what is recorded
    # of it is one event a line.
    framing=NdjsonFraming,
    fields=(
        frozenset({"messageStart"}),
        frozenset({"contentBlockStart"}),
        frozenset({"contentBlockDelta"}),
        frozenset({"contentBlockStop"}),
        frozenset({"messageStop"}),
        frozenset({"output", "stopReason"}),
    ),
    usual_whole=OBJECTS,
)
