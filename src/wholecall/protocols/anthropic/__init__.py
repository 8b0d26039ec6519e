"""Anthropic's Messages API."""

from wholecall.protocols.anthropic import history, request, response, stream
from wholecall.protocols.registry import OBJECTS, ClientSide, UpstreamSide, WireProtocol
from wholecall.protocols.sse_ndjson import SseFraming

RECORD = WireProtocol(
    name=request.PROTOCOL,
    decoder=stream.Decoder,
    framing=SseFraming,
    kinds=("content_block_", "message"),
    whole_kind="message",
    usual_whole=OBJECTS,
    history=history.HISTORY,
    choice=request.CHOICE,
    upstream=UpstreamSide(
        encode=request.encode,
        any_object=False,
        output_limit=request.output_limit,
        carried=request.carried_options,
        path="messages",
        version="v1",
        key_header="x-api-key",
        key_form="{key}",
        headers={"anthropic-version": "2023-06-01"},
        shared_headers=("anthropic-ratelimit-",),
    ),
    client=ClientSide(
        path="/v1/messages",
        decode=request.decode,
        option_fields=request.OPTION_FIELDS,
        known_fields=request.KNOWN_FIELDS,
        make_writer=response.AnthropicWriter,
        encode_answer=response.encode_answer,
        encode_error=response.encode_error,
        id_prefix="msg_",
        head_within="message",
        written_fields=frozenset({"type", "role", "content", "usage", "stop_reason"})
        | {"stop_sequence", "stop_details"},
        request_id_header="request-id",
        beta_header="anthropic-beta",
    ),
)
