"""OpenAI's chat completions, and what many others speak as well."""

from wholecall.protocols.openai_chat import history, request, response, stream
from wholecall.protocols.registry import ClientSide, UpstreamSide, WireProtocol
from wholecall.protocols.sse_ndjson import SseFraming

RECORD = WireProtocol(
    name=request.PROTOCOL,
    provider="openai",
    decoder=stream.Decoder,
    decoder_for=stream.Decoder,
    read_plain=stream.read_plain,
    framing=SseFraming,
    kinds=("chat.completion",),
    fields=(frozenset({"choices"}),),
    whole_kind="chat.completion",
    history=history.HISTORY,
    choice=request.CHOICE,
    upstream=UpstreamSide(
        encode=request.encode,
        carried=request.carried_options,
        media={"image": True, "audio": False, "document": False},
        path="chat/completions",
        version="v1",
        base_has_version=True,
        has_siblings=True,
        shared_headers=("x-ratelimit-", "openai-processing-ms"),
    ),
    client=ClientSide(
        path="/v1/chat/completions",
        decode=request.decode,
        option_fields=request.OPTION_FIELDS,
        known_fields=request.KNOWN_FIELDS,
        make_writer=response.ChatWriter,
        encode_answer=response.encode_answer,
        encode_function_answer=response.encode_function_answer,
        encode_error=response.encode_error,
        read_style=response.read_style,
        id_prefix="chatcmpl-",
        created_field="created",
        # An error belongs to an answer that was retried.
        written_fields=frozenset({"object", "choices", "usage", "error"}),
    ),
)
