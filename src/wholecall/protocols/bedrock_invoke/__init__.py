"""Amazon Bedrock's InvokeModel, for models of Anthropic."""

from wholecall.protocols.bedrock_invoke.stream import Decoder
from wholecall.protocols.registry import OBJECTS, WireProtocol
from wholecall.protocols.sse_ndjson import NdjsonFraming

RECORD = WireProtocol(
    name="bedrock-invoke",
    decoder=Decoder,
    # AWS's binary event stream is taken off by boto3; what is recorded is one event a line.
    framing=NdjsonFraming,
    fields=(frozenset({"chunk"}), frozenset({"bytes"})),
    usual_whole=OBJECTS,
)
