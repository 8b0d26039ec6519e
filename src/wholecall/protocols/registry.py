"""The protocols by name, and all that the rest of the library knows of each.

A protocol is a folder and a line here; one that no client speaks to the proxy may be one file. Its
`RECORD` declares its parts.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from wholecall.errors import UnknownProtocol
from wholecall.events import Event, Oddity
from wholecall.messages import NO_OPTIONS, Choice, EncodedChoice, Request, ToolSpec, read_choice
from wholecall.protocols.decoder import UNREADABLE, Payload, PayloadDecoder, plain, read_json
from wholecall.protocols.history import Target
from wholecall.protocols.request_fields import SAMPLING, name_calls, omit_offers, refuse
from wholecall.protocols.response_base import Failure, ResponseHead, ResponseStyle
from wholecall.protocols.response_encoder import Encoder, gather

if TYPE_CHECKING:
    from wholecall.messages import ChoiceForm
    from wholecall.protocols.history import HistoryForm
    from wholecall.protocols.response_base import Writer
    from wholecall.protocols.response_encoder import GatheredAnswer
    from wholecall.protocols.sse_ndjson import Framing

OBJECTS = frozenset({Oddity.ARGUMENTS_OBJECT})
"""Arguments are objects, not text."""
ENDS_ALIKE = frozenset({Oddity.CALLS_WITH_OTHER_HINT})
"""No finish reason says that tools were called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSide:
    """Requests to an upstream over HTTP."""

    encode: Callable[[Request, Target | None], dict[str, Any]]
    """The body of a request."""
    output_limit: Callable[[Request], int] | None = None
    """The output limit with which a request goes out, if the protocol demands one."""
    carried: Callable[[Request], frozenset[str]] = lambda _: SAMPLING
    """The options that the upstream of a request takes, by their names in `ModelOptions`."""
    least_output: int = 1
    """The lowest output limit that is accepted."""
    path: str
    version: str
    base_has_version: bool = False
    """True if its own clients expect the version in the base URL."""
    key_header: str = "Authorization"
    key_form: str = "Bearer {key}"
    headers: Mapping[str, str] = field(default_factory=dict)
    model_paths: tuple[str, str] | None = None
    """Where the address names the model and the method: the rest of it for a whole answer, and
    for a stream."""
    streams_json: bool = False
    """True if a stream begins with JSON, as a whole answer does."""
    models: str = "models"
    """The path under which the models are listed."""
    has_siblings: bool = False
    """True if embeddings, audio, files and so on are beside the path."""
    any_object: bool = True
    """True if an answer can be held to any JSON object, without a schema."""
    media: Mapping[str, bool] = field(default_factory=lambda: {"image": True, "document": True})
    """The kinds of media that messages may hold; True: also by their address."""
    shared_headers: tuple[str, ...] = ()
    """The beginnings of an answer's headers that its client may read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSide:
    """Requests from a client, and the answers to it."""

    path: str
    decode: Callable[[Mapping[str, Any]], Request]
    """Reads the body of a request."""
    make_writer: Callable[[ResponseHead, ResponseStyle], Writer]
    encode_answer: Callable[[GatheredAnswer, ResponseHead], dict[str, Any]]
    encode_function_answer: Callable[[GatheredAnswer, ResponseHead], dict[str, Any]] | None = None
    """For clients that read the deprecated `function_call`, where the protocol has it."""
    encode_error: Callable[[Failure], dict[str, Any]]
    option_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The fields of options in this protocol, by the names of the options in `ModelOptions`."""
    known_fields: frozenset[str] = frozenset()
    """The other fields that are read, and answered for here."""
    read_style: Callable[[Mapping[str, Any]], ResponseStyle] | None = None
    """Reads the preferences for a stream from a request; None if there are none."""
    tool_items: tuple[str, ...] = ()
    """The types of items of a conversation that bring tools along."""
    id_prefix: str
    """The beginning of an answer's id."""
    head_within: str = ""
    """The field of a stream's first event that holds the metadata; empty: its top level."""
    created_field: str = ""
    """The metadata's field for the time."""
    written_fields: frozenset[str]
    """The fields of an answer that are not metadata: they are always written anew."""
    request_id_header: str = "x-request-id"
    beta_header: str = ""
    """The header by which clients ask for features that are not out yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireProtocol:
    """One protocol."""

    name: str
    decoder: Callable[[], PayloadDecoder]
    framing: Callable[[], Framing]
    decoder_for: Callable[[Sequence[ToolSpec]], PayloadDecoder] | None = None
    """Makes the decoder of an answer to a request with these tools, if the calls of some have
    forms of their own."""
    read_plain: Callable[[bytes], list[Event] | None] | None = None
    """Reads a whole answer that is one text, cheaper than the decoder; None for any other."""
    kinds: tuple[str, ...] = ()
    """How `type` (of events) or `object` (of answers) begins in no other protocol."""
    fields: tuple[frozenset[str], ...] = ()
    """Fields that are found together in no other protocol."""
    whole_kind: str | None = None
    """The `type` or `object` of an answer that is not streamed."""
    usual: frozenset[Oddity] = frozenset()
    """Oddities that the protocol itself prescribes, in a stream."""
    usual_whole: frozenset[Oddity] = frozenset()
    """The same, in an answer that is not streamed."""
    history: HistoryForm | None = None
    choice: ChoiceForm | None = None
    upstream: UpstreamSide | None = None
    client: ClientSide | None = None
    provider: str = ""
    """The provider's name in OpenTelemetry's conventions, if it is not that of the protocol."""


# The folder or file of each protocol. It is imported when the protocol is first used.
_PLACES = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "gemini": "gemini",
    "bedrock-converse": "bedrock",
    "bedrock-invoke": "bedrock_invoke",
    "cohere": "cohere",
    "gemini-interactions": "gemini_interactions",
}
NAMES = tuple(_PLACES)
CLIENTS = CHAT, RESPONSES, MESSAGES = NAMES[:3]
"""The protocols that clients of the proxy speak."""

_Part = TypeVar("_Part")


@cache
def find_protocol(name: str) -> WireProtocol:
    """Return the record of a protocol, or raise `UnknownProtocol`."""
    if name not in _PLACES:
        raise _refuse(name, NAMES)
    record: WireProtocol = import_module(f"wholecall.protocols.{_PLACES[name]}").RECORD
    return record


def find_part(name: str, read: Callable[[WireProtocol], _Part | None]) -> _Part:
    """Return a part of a protocol's record; `UnknownProtocol` names those that have it."""
    part = read(find_protocol(name)) if name in _PLACES else None
    if part is None:
        raise _refuse(name, [each for each in NAMES if read(find_protocol(each)) is not None])
    return part


def _refuse(name: str, known: Iterable[str]) -> UnknownProtocol:
    return UnknownProtocol(f"protocol {name!r} is none of {', '.join(map(repr, known))}")


def upstream_side(name: str) -> UpstreamSide:
    """Return how upstreams of this protocol are asked."""
    return find_part(name, lambda protocol: protocol.upstream)


def client_side(name: str) -> ClientSide:
    """Return how clients of this protocol are served."""
    return find_part(name, lambda protocol: protocol.client)


# Recognise the protocol of a recorded payload.
#
# Each protocol has a field that no other has, or a distinctive word in `type` or `object`. A
# payload without one (a bare error, `[DONE]`) decides nothing.


# With one of these every event of a stream begins, and with none of them JSON or HTML.
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
LONGEST_FIELD = max(map(len, _EVENT_FIELDS))
BLANKS = b"\xef\xbb\xbf \t\r\n"
"""Bytes that may precede the first of them."""


def detect(payload: Payload) -> str | None:
    """Name the protocol of a chunk or of a whole answer; None if it could be any."""
    fields = _read_fields(payload)
    kind = _kind(fields)
    records = [find_protocol(name) for name in NAMES]
    # Of two that begin it, the longer one says more: `message` and `message-end`.
    begun = [
        (len(begin), each.name)
        for each in records
        for begin in each.kinds
        if kind.startswith(begin)
    ]
    by_kind = (name for _, name in sorted(begun, reverse=True))
    by_fields = (
        each.name for each in records if any(names <= fields.keys() for names in each.fields)
    )
    return next(chain(by_kind, by_fields), None)


def is_full_response(payload: Payload) -> bool:
    """Return True for an answer that was not streamed, not a chunk of a stream.

    If both have one shape (Gemini, Ollama) it counts as a chunk, which itself says whether it is
    the last one.
    """
    fields = _read_fields(payload)
    kinds = {find_protocol(name).whole_kind for name in NAMES}
    if _kind(fields) in kinds or "output" in fields:
        return True
    choices = fields.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and "message" in choice for choice in choices
    )


def begins_events(body: bytes) -> bool:
    """Return True if a body is a stream of server-sent events, whatever its content type."""
    return body.lstrip(BLANKS).startswith(_EVENT_FIELDS)


def _read_fields(payload: Payload) -> dict[str, Any]:
    try:
        value = read_json(payload)
    except UNREADABLE:
        return {}
    return value if isinstance(value, dict) else {}


def _kind(fields: dict[str, Any]) -> str:
    return str(fields.get("type") or fields.get("object") or "")


# ── Requests and answers in a protocol by its name ─────────────────────────────────────

_GATED = ResponseStyle()


def encode_request(
    protocol: str, request: Request, *, target: Target | None = None
) -> dict[str, Any]:
    """Write the body of a request in a protocol, its history mended so that it is accepted.

    `target` says what the upstream accepts in a history, for those of which the model's name
    does not tell. What comes in is neither changed nor shared.
    """
    return upstream_side(protocol).encode(name_calls(omit_offers(request, protocol)), target)


def limit_of(protocol: str, request: Request) -> int | None:
    """Return the limit of output tokens with which a request goes out in a protocol."""
    side = find_protocol(protocol).upstream
    if side is None or side.output_limit is None:
        return request.max_tokens
    return side.output_limit(request)


def find_dropped(client: str, upstream: str, *, request: Request) -> tuple[str, ...]:
    """Return the fields of a client's request that its upstream does not get, by their names."""
    if client == upstream:
        return ()
    rest: Mapping[str, Any] = request.rest.value if request.rest else {}
    known = client_side(client).known_fields
    others = [name for name, value in rest.items() if name not in known and value is not None]
    said = _said(request)
    if not said:
        return tuple(others)
    names, carried = client_side(client).option_fields, upstream_side(upstream).carried(request)
    unsaid = [_spell(names.get(name, (name,)), rest) for name in said if name not in carried]
    return (*chain(*unsaid), *others)


def omit_refused(client: str, upstream: str, *, request: Request) -> Request:
    """The same request without the sampling that its model answers with a 400, and with an output
    limit that is accepted. A client of the same protocol knows what its model takes."""
    if client == upstream:
        return request
    side, most = upstream_side(upstream), request.max_tokens
    if most is not None and most < side.least_output:
        request = replace(request, max_tokens=side.least_output)
    if (request.temperature, request.top_p, request.stop) == (None, None, ()):
        return request
    carried = side.carried(request)
    return replace(
        request,
        temperature=request.temperature if "temperature" in carried else None,
        top_p=request.top_p if "top_p" in carried else None,
        stop=request.stop if "stop" in carried else (),
    )


def _said(request: Request) -> list[str]:
    """The options of a request that not every upstream takes, as far as they have a value."""
    sampling = {"stop": request.stop, "temperature": request.temperature, "top_p": request.top_p}
    # A temperature of 1 is what models without a choice have.
    given = [name for name, value in sampling.items() if value not in (None, (), 1)]
    return given if request.options == NO_OPTIONS else [*request.options.said, *given]


def _spell(names: tuple[str, ...], rest: Mapping[str, Any]) -> Sequence[str]:
    """The fields of an option that the client used; what was read apart is not in the rest."""
    return [name for name in names if name.partition(".")[0] in rest] or names[:1]


def decode_request(protocol: str, body: Mapping[str, Any]) -> Request:
    """Read the body of a client's request.

    What cannot be read is an `UnreadableRequest`, a `tool_choice` that is not allowed an
    `InvalidChoice`; both name the field in `param`.
    """
    decode = client_side(protocol).decode
    if not isinstance(body, Mapping):
        raise refuse("", f"expected an object, got {type(body).__name__}")
    copied: dict[str, Any] = plain(body)
    return decode(copied)


def decode_choice(protocol: str, request: Mapping[str, Any], *, offered: Collection[str]) -> Choice:
    """Read the choice from a request's fields, or raise `InvalidChoice`.

    `offered` are the names of the request's tools; a tool that the upstream runs goes by its type.
    """
    return read_choice(find_part(protocol, lambda record: record.choice), request, offered=offered)


def encode_choice(choice: Choice, protocol: str) -> EncodedChoice:
    """Say a choice in a protocol's words. `none` is said as `none` in each of them."""
    return find_part(protocol, lambda record: record.choice).encode(choice)


def make_answer_id(protocol: str) -> str:
    """An id for an answer, in the form that the clients of the protocol know."""
    return f"{client_side(protocol).id_prefix}{secrets.token_hex(12)}"


def make_encoder(protocol: str, head: ResponseHead, *, style: ResponseStyle = _GATED) -> Encoder:
    """An encoder for one stream."""
    return Encoder(client_side(protocol).make_writer(head, style), live=style.live)


def encode_answer(
    protocol: str,
    events: Iterable[Event],
    *,
    head: ResponseHead,
    upstream: str = "",
    functions: bool = False,
) -> dict[str, Any]:
    """The body of a whole answer.

    `upstream` is the protocol that the events were read from: what only that one has is handed
    on to clients that speak it. `functions`: see `ResponseStyle`. An answer that did not end well
    is an `UpstreamError`.
    """
    side = client_side(protocol)
    encode = (side.encode_function_answer if functions else None) or side.encode_answer
    return encode(gather(events, upstream=upstream), head)


def encode_failure(protocol: str, failure: Failure) -> dict[str, Any]:
    """The body of an HTTP error."""
    return client_side(protocol).encode_error(failure)
