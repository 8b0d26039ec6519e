"""The protocols by name, and all that the rest of the library knows of each.

A protocol is a folder and a line here. The folder's `__init__` declares its `RECORD`. Not every
protocol has all parts: no client speaks Ollama's to the proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from wholecall.errors import ProtocolError, UnknownProtocol
from wholecall.events import Oddity
from wholecall.protocols.decoder import Payload, PayloadDecoder, read_json

if TYPE_CHECKING:
    from wholecall.messages import Request
    from wholecall.protocols.history import HistoryForm, Target
    from wholecall.protocols.response_base import Failure, ResponseHead, ResponseStyle, Writer
    from wholecall.protocols.response_encoder import GatheredAnswer
    from wholecall.protocols.sse_ndjson import Framing
    from wholecall.tool_choice import ChoiceForm

OBJECTS = frozenset({Oddity.ARGUMENTS_OBJECT})
"""Arguments are objects, not text."""
ENDS_ALIKE = frozenset({Oddity.CALLS_WITH_OTHER_HINT})
"""No finish reason says that tools were called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSide:
    """Requests to an upstream over HTTP."""

    encode: Callable[[Request, Target | None], dict[str, Any]]
    """The body of a request."""
    default_limit: int | None = None
    """The output limit of a request that names none, if the protocol demands one."""
    path: str
    version: str
    base_has_version: bool = False
    """True if its own clients expect the version in the base URL."""
    key_header: str = "Authorization"
    key_form: str = "Bearer {key}"
    headers: Mapping[str, str] = field(default_factory=dict)
    model_in_path: bool = False
    """True if the path names the model and the method."""
    streams_json: bool = False
    """True if a stream begins with JSON, as a whole answer does."""
    models: str = "models"
    """The path under which the models are listed."""
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
    read_style: Callable[[Mapping[str, Any]], ResponseStyle] | None = None
    """Reads the preferences for a stream from a request; None if there are none."""
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


# The folder of each protocol. It is imported when the protocol is first used.
_FOLDERS = {
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "ollama": "ollama",
    "gemini": "gemini",
    "bedrock-converse": "bedrock",
}
NAMES = tuple(_FOLDERS)
CLIENTS = CHAT, RESPONSES, MESSAGES = NAMES[:3]
"""The protocols that clients of the proxy speak."""

_Part = TypeVar("_Part")


@cache
def find_protocol(name: str) -> WireProtocol:
    """Return the record of a protocol, or raise `UnknownProtocol`."""
    if name not in _FOLDERS:
        raise _refuse(name, NAMES)
    record: WireProtocol = import_module(f"wholecall.protocols.{_FOLDERS[name]}").RECORD
    return record


def find_part(name: str, read: Callable[[WireProtocol], _Part | None]) -> _Part:
    """Return a part of a protocol's record; `UnknownProtocol` names those that have it."""
    part = read(find_protocol(name)) if name in _FOLDERS else None
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
    by_kind = (each.name for each in records if kind.startswith(each.kinds))
    by_fields = (
        each.name for each in records if any(names <= fields.keys() for names in each.fields)
    )
    return next(chain(by_kind, by_fields), None)


def is_whole(payload: Payload) -> bool:
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
    except ProtocolError:
        return {}
    return value if isinstance(value, dict) else {}


def _kind(fields: dict[str, Any]) -> str:
    return str(fields.get("type") or fields.get("object") or "")
