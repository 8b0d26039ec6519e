"""OpenAI's Responses API."""

from wholecall.protocols.openai_chat.response import encode_error
from wholecall.protocols.openai_responses import history, request, response, stream
from wholecall.protocols.registry import ENDS_ALIKE, ClientSide, UpstreamSide, WireProtocol
from wholecall.protocols.sse_ndjson import SseFraming

RECORD = WireProtocol(
    name=request.PROTOCOL,
    provider="openai",
    decoder=stream.Decoder,
    decoder_for=stream.Decoder,
    framing=SseFraming,
    kinds=("response",),
    whole_kind="response",
    usual=ENDS_ALIKE,
    usual_whole=ENDS_ALIKE,
    history=history.HISTORY,
    choice=request.CHOICE,
    upstream=UpstreamSide(
        encode=request.encode,
        carried=request.carried_options,
        least_output=16,  # OpenAI refuses less
        path="responses",
        version="v1",
        has_siblings=True,
        base_has_version=True,
    ),
    client=ClientSide(
        path="/v1/responses",
        decode=request.decode,
        option_fields=request.OPTION_FIELDS,
        known_fields=request.KNOWN_FIELDS,
        make_writer=response.ResponsesWriter,
        encode_answer=response.encode_answer,
        encode_error=encode_error,
        read_style=response.read_style,
        tool_items=(history.ADDITIONAL_TOOLS, history.SEARCH_RESULT),
        id_prefix="resp_",
        head_within="response",
        created_field="created_at",
        written_fields=frozenset({"object", "output", "output_text", "usage", "status", "error"})
        | {"incomplete_details", "completed_at"},
    ),
)
