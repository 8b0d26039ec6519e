"""Read and write what all requests share: fields with their names in errors, tools, media."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from wholecall.errors import InadmissibleTools, UnreadableRequest
from wholecall.events import Problem, Reasoning, Text
from wholecall.messages import (
    EFFORTS,
    NO_OPTIONS,
    Media,
    Message,
    ModelOptions,
    Native,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
    read_offer,
)
from wholecall.protocols.decoder import plain
from wholecall.protocols.tool_kinds import name_tools

_Shape = TypeVar("_Shape")
# What msgspec says of a value that does not fit: the place comes last, if there is one.
_PLACE = re.compile(r" - at `\$(?P<path>.*)`$")
_NOTHING: tuple[Any, ...] = (None, [], {})
_MISSING = re.compile(r"missing required field `(?P<name>[^`]*)`")


class _Kind(msgspec.Struct):
    type: str | None = None


class _TextPart(msgspec.Struct):
    text: str


class _RefusalPart(msgspec.Struct):
    refusal: str


class JsonSchema(msgspec.Struct):
    """The format of a structured answer."""

    schema: dict[str, Any]
    name: str = "answer"
    strict: bool | None = None


ANY_OBJECT = OutputSchema(schema={"type": "object"}, strict=False, any_object=True)
"""The format `json_object`."""


# ── Reading ─────────────────────────────────────────────────────────────────────────


def fit(value: Any, shape: type[_Shape], *, at: str = "") -> _Shape:
    """Check a part of the request once; `at` is its path."""
    try:
        return msgspec.convert(value, shape)
    except ValueError as error:  # half of a surrogate pair is another one than what does not fit
        raise _explain(str(error), at) from None


def read_kind(part: Any, at: str) -> str:
    """Return the type of a content part; empty if it has none."""
    return fit(part, _Kind, at=at).type or ""


def refuse(param: str, message: str) -> UnreadableRequest:
    """The error for a field that cannot be read."""
    return UnreadableRequest(f"{param or 'the body'}: {message}", param=param)


def _explain(message: str, at: str) -> UnreadableRequest:
    place = _PLACE.search(message)
    path = place["path"] if place else ""
    missing = _MISSING.search(message)
    if missing:
        path += f".{missing['name']}"
    return refuse(f"{at}{path}".removeprefix("."), _PLACE.sub("", message))


def read_id(id: str | int | None) -> str:
    """The id of a call as text: some clients count them, some leave them out."""
    return "" if id is None else str(id)


def refuse_role(at: str, role: str | None, *, known: Collection[str]) -> UnreadableRequest:
    """The error for a message of a role that the protocol does not have."""
    return refuse(f"{at}.role", f"{role!r} is none of {', '.join(map(repr, known))}")


def without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The fields that have other names."""
    return {name: value for name, value in fields.items() if name not in names}


def pick(fields: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Those of the named fields that have a value."""
    return {name: fields[name] for name in names if fields.get(name) is not None}


def keep_rest(
    protocol: str, body: Mapping[str, Any], *, read: Collection[str], more: Mapping[str, Any]
) -> Native | None:
    """Keep the fields of a request that were not read, and what was left over of others."""
    left = {name: value for name, value in more.items() if value not in _NOTHING}
    rest = {**without(body, read), **left}
    return Native(protocol, rest) if rest else None


def read_effort(word: object) -> str:
    """The effort that a word names; empty if it names none."""
    return word if isinstance(word, str) and word in EFFORTS else ""


def read_word(word: object) -> str:
    """A setting that is a word; empty if it is missing."""
    return word if isinstance(word, str) else ""


def read_options(body: Mapping[str, Any], *, effort: object, verbosity: object) -> ModelOptions:
    """The options of a request in one of OpenAI's protocols, which share most of their fields."""
    words = [read_word(body.get(name)) for name in _OPTION_WORDS]
    if not (effort or verbosity or any(words)):
        return NO_OPTIONS
    key, tier, identifier, user = words
    return ModelOptions(
        effort=read_effort(effort),
        verbosity=read_word(verbosity),
        cache_key=key,
        tier=tier,
        user=identifier or user,
    )


_OPTION_WORDS = ("prompt_cache_key", "service_tier", "safety_identifier", "user")


def member(fields: Mapping[str, Any], name: str, *, key: str) -> Any:
    """A field of a field that is an object; None if it is not there."""
    value = fields.get(name)
    return value.get(key) if isinstance(value, Mapping) else None


# ── Writing ─────────────────────────────────────────────────────────────────────────


_LONGEST_USER = 64
"""Characters of `safety_identifier`."""


SAMPLING = frozenset({"temperature", "top_p", "stop"})
"""Fields of a request that most upstreams take."""


def foreign_options(request: Request, protocol: str) -> ModelOptions:
    """The client's settings, unless they are among the other fields in this protocol's words."""
    rest = request.rest
    return request.options if rest is None or rest.protocol != protocol else NO_OPTIONS


def thought_of(part: Reasoning, *, sealed: bool = False) -> str:
    """The text of reasoning; with `sealed` False, only of what no provider has signed."""
    item = part.extras.get("item")
    closed = isinstance(item, Mapping) and item.get("encrypted_content")
    is_plain = part.extras.keys() <= {"item"} and not closed
    return part.text if is_plain or sealed else ""


def write_user(user: str) -> str | None:
    """The name of a user, as long as OpenAI takes it: a longer one becomes its hash."""
    long = len(user) > _LONGEST_USER
    return (hashlib.sha256(user.encode()).hexdigest() if long else user) or None


def is_closed(schema: object) -> bool:
    """Return True if OpenAI takes a schema for a strict one: nothing is optional or unknown."""
    if isinstance(schema, list):
        return all(map(is_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    if "properties" in schema or schema.get("type") == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required") or []
        if schema.get("additionalProperties") is not False or set(properties) != set(required):
            return False
        if not all(map(is_closed, properties.values())):
            return False
    inner = [schema.get(key) for key in ("items", "anyOf")]
    return all(map(is_closed, [*inner, *(schema.get("$defs") or {}).values()]))


def rest_of(request: Request, protocol: str) -> Mapping[str, Any]:
    """The other fields of a request, as far as they were written in this protocol."""
    rest = request.rest
    value: Mapping[str, Any] = rest.value if rest and rest.protocol == protocol else {}
    return value


def natives_of(message: Message, protocol: str) -> Sequence[Any] | None:
    """The messages or items that a message was read from in this protocol."""
    native = message.native
    return native.value if native is not None and native.protocol == protocol else None


def complete(body: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """A body with all fields that have a value, which shares nothing with what it was made of."""
    said = {name: value for name, value in body.items() if value is not None}
    copied: dict[str, Any] = plain(merge(rest, said))
    return copied


def merge(rest: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Put the fields of both together, those of objects too; of two values the body's counts."""
    merged = dict(rest)
    for name, value in body.items():
        beside: Any = merged.get(name)
        both = isinstance(beside, Mapping) and isinstance(value, Mapping)
        merged[name] = merge(beside, value) if both else value
    return merged


# The tools of a request, and the names of calls.


_Write = Callable[[ToolSpec], dict[str, Any]]
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_NAMELESS = "unknown"


# ── Writing ─────────────────────────────────────────────────────────────────────────


def define_tool(spec: ToolSpec, schema_field: str) -> dict[str, Any]:
    """Define a tool by its name, its description and the schema of its arguments.

    Upstreams demand that the schema speaks of an object.
    """
    described = {"description": spec.description} if spec.description else {}
    schema = {"type": "object", **(spec.parameters or {"properties": {}})}
    return {"name": spec.name, **described, schema_field: schema}


def list_tools(
    request: Request,
    protocol: str,
    *,
    write: _Write,
    read: ReadKinds | None = None,
    only: Collection[str] | None = None,
) -> list[Any]:
    """The definitions to offer: in the client's own words, where it wrote them in this protocol.

    They keep the order in which the client sent them. `read` reads tools that are not plain
    functions. `only` are the names to offer, where the protocol cannot restrict the choice
    otherwise.
    """
    offered = {
        _key_of(spec, protocol): spec
        for spec in request.tools
        if (only is None or spec.name in only) and not _is_inline(spec, protocol)
    }
    natives = {
        id(tool.value): tool.value
        for tool in request.native_tools
        if tool.protocol == protocol and not tool.inline
    }
    listed: list[Any] = []
    for definition in rest_of(request, protocol).get("tools", ()):
        if natives.pop(id(definition), None) is not None:
            listed.append(definition)
            continue
        said = _read_said(definition, read)
        found = [offered.pop(key, None) for key in said]
        listed += _define(definition, said, found=found, write=write)
    return [*listed, *map(write, offered.values()), *natives.values()]


_Key: TypeAlias = tuple[str, str, str]


def _key_of(spec: ToolSpec, protocol: str) -> _Key:
    kind = spec.kind
    return kind.key if kind is not None and kind.protocol == protocol else ("", "", spec.name)


def _is_inline(spec: ToolSpec, protocol: str) -> bool:
    return spec.kind is not None and spec.kind.inline and spec.kind.protocol == protocol


def _read_said(definition: Any, read: ReadKinds | None) -> dict[_Key, ToolSpec]:
    """Return the tools of one definition as the client wrote them."""
    kinds = read(definition, "tools") if read is not None else None
    specs = read_offer([definition]).values() if kinds is None else kinds
    return {("", "", spec.name) if spec.kind is None else spec.kind.key: spec for spec in specs}


def _define(
    definition: Any,
    said: Mapping[_Key, ToolSpec],
    *,
    found: Sequence[ToolSpec | None],
    write: _Write,
) -> Iterator[Any]:
    """Use the client's definition of a tool as long as it is still the same tool."""
    pairs = [
        (before, now) for before, now in zip(said.values(), found, strict=True) if now is not None
    ]
    if any(now.kind is not None for _, now in pairs):
        yield definition
        return
    for before, now in pairs:
        same = before.parameters == now.parameters and before.description == now.description
        yield definition if same else write(now)


def omit_offers(request: Request, protocol: str) -> Request:
    """The same request without messages that only offer tools, in the words of another protocol.

    Their tools are offered with the others.
    """
    messages = request.messages
    kept = tuple(each for each in messages if not _only_offers(each, protocol))
    return request if len(kept) == len(messages) else replace(request, messages=kept)


def _only_offers(message: Message, protocol: str) -> bool:
    foreign = message.native is not None and message.native.protocol != protocol
    return foreign and message.role is Role.SYSTEM and not message.parts


def name_calls(request: Request) -> Request:
    """The same request, its past calls under names that every upstream accepts.

    A model may call what does not exist by a name that must not exist. Left in the history,
    it would make every later request fail.
    """
    offered = frozenset(spec.name for spec in request.tools)
    messages = tuple(_rename(each, offered) for each in request.messages)
    same = all(map(is_, messages, request.messages))
    return request if same else replace(request, messages=messages)


def _rename(message: Message, offered: Collection[str]) -> Message:
    parts = message.parts
    if not any(isinstance(part, PastCall) and part.name not in offered for part in parts):
        return message
    return replace(message, parts=tuple(_rename_part(part, offered) for part in parts))


def _rename_part(part: Part, offered: Collection[str]) -> Part:
    if not isinstance(part, PastCall) or part.name in offered:
        return part
    return replace(part, name=_ILLEGAL.sub("_", part.name)[:_LONGEST_NAME] or _NAMELESS)


# ── Reading ─────────────────────────────────────────────────────────────────────────


ReadKinds: TypeAlias = Callable[[Any, str], "Sequence[ToolSpec] | None"]
"""Reads a definition, at this path, of tools that are not plain functions but the client's own;
None for all others."""


@dataclass(frozen=True, slots=True)
class RequestTools:
    """The tools of a request as they were read."""

    specs: tuple[ToolSpec, ...]
    natives: tuple[Native, ...]
    said: tuple[Any, ...]
    """All definitions, if one of them says more than a `ToolSpec` holds."""

    @property
    def names(self) -> frozenset[str]:
        """Names that `tool_choice` may use."""
        kinds = (spec.kind for spec in self.specs if spec.kind is not None)
        own = {kind.name or kind.type for kind in kinds}
        specs = {spec.name for spec in self.specs}
        return frozenset(specs.union(own, *map(_names, self.natives)))


def tool_names(request: Request) -> frozenset[str]:
    """The names that a call may have: of the request's tools, and of those in native form."""
    return RequestTools(request.tools, request.native_tools, ()).names


def read_tools(
    definitions: Sequence[Any] | None,
    protocol: str,
    *,
    functions: Collection[str | None],
    write: _Write,
    read: ReadKinds | None = None,
) -> RequestTools:
    """Read the definitions of a request.

    `functions` are the types by which a definition says that it is a function of the client's, and
    `read` reads the client's other tools. What is left is run by the upstream.
    """
    specs: list[ToolSpec] = []
    natives: list[Native] = []
    plain_only = True
    for place, definition in enumerate(definitions or ()):
        at = f"tools[{place}]"
        fields = fit(definition, dict[str, Any], at=at)
        kinds = read(definition, at) if read is not None else None
        if kinds is not None:
            specs += kinds
        elif fields.get("type") in functions:
            specs.append(read_function(definition, at))
            plain_only = plain_only and write(specs[-1]) == definition
            continue
        else:
            natives.append(Native(protocol, definition))
        plain_only = False
    said = () if plain_only else tuple(definitions or ())
    return RequestTools(name_tools(specs), tuple(natives), said)


def read_function(definition: Any, at: str) -> ToolSpec:
    """Read a plain function; `at` is the path of its definition."""
    try:
        specs = list(read_offer([definition]).values())
    except InadmissibleTools as error:
        problem = next(each for each in error.problems if isinstance(each, Problem))
        param = f"{at}{problem.path.removeprefix('$[0]')}"
        raise refuse(param, f"{problem.received} is not {problem.expected}") from None
    if not specs:
        raise refuse(f"{at}.name", "a function has a name")
    return specs[0]


def _names(native: Native) -> set[str]:
    definition: Mapping[str, Any] = native.value
    custom = definition.get("custom")
    names = [definition.get("name"), custom.get("name") if isinstance(custom, Mapping) else None]
    found = {name for name in names if isinstance(name, str)}
    return found or {str(definition.get("type"))}


# It finds tools that wait to be loaded. Where all tools are offered at once, it has nothing to do.
_SEARCH = "tool_search"


class Foreign(NamedTuple):
    """The parts of a request that only upstreams of another protocol can use."""

    tools: tuple[str, ...]
    """The tools that they run, by their types."""
    said: tuple[str, ...]
    """The types of what users say, and the kinds of media in messages."""
    items: tuple[tuple[str, str], ...]
    """All parts, by type and id."""


def find_foreign(request: Request, protocol: str, *, media: Mapping[str, bool]) -> Foreign:
    """Return what an upstream of this protocol, and with these media, cannot be given."""
    tools = (tool.value for tool in request.native_tools if tool.protocol != protocol)
    types = (str(definition.get("type")) for definition in tools)
    parts = [
        (message.role, part.value)
        for message in request.messages
        for part in message.parts
        if isinstance(part, Native) and part.protocol != protocol
    ]
    said = [str(part.get("type") or "content") for role, part in parts if role is Role.USER]
    said += (
        f"{part.kind}_url" if part.url and part.kind in media else part.kind
        for message in request.messages
        for part in message.parts
        if isinstance(part, Media) and not _takes(media, part)
    )
    items = (
        (str(part.get("type") or "item_reference"), str(part.get("id") or "")) for _, part in parts
    )
    return Foreign(
        tools=tuple(dict.fromkeys(kind for kind in types if not kind.startswith(_SEARCH))),
        said=tuple(dict.fromkeys(said)),
        items=tuple(items),
    )


def omit_foreign(request: Request, protocol: str, *, media: Mapping[str, bool]) -> Request:
    """The same request without these tools and parts, and without messages that had no others."""
    kept = [_omit_foreign(each, protocol, media=media) for each in request.messages]
    return replace(
        request,
        messages=tuple(each for each in kept if each is not None),
        native_tools=tuple(tool for tool in request.native_tools if tool.protocol == protocol),
    )


def _omit_foreign(message: Message, protocol: str, *, media: Mapping[str, bool]) -> Message | None:
    said = message.role is Role.USER
    parts = tuple(
        part
        for part in message.parts
        if not (said and isinstance(part, Native) and part.protocol != protocol)
        and not (isinstance(part, Media) and not _takes(media, part))
    )
    if len(parts) == len(message.parts):
        return message
    return replace(message, parts=parts) if parts else None


def _takes(media: Mapping[str, bool], part: Media) -> bool:
    if part.url:
        return media.get(part.kind, False)
    return part.kind in media or part.plain_text is not None


# Images, sounds and documents, and the words for what a protocol cannot carry.


_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_DEFAULT_TYPES = {"image": "image/png", "audio": "audio/wav", "document": "application/pdf"}
# How OpenAI calls the two formats of sound that it takes.
_FORMATS = {
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
}
_FORMAT_TYPES = {"mp3": "audio/mpeg"}


def read_address(kind: str, address: str, *, name: str = "") -> Media:
    """Read a `data:` URL, or an address."""
    head = _DATA_URL.match(address)
    if head is None:
        return Media(kind=kind, url=address, name=name)
    data = address[head.end() :]
    return Media(kind=kind, media_type=head["type"].lower(), data=data, name=name)


def write_address(media: Media) -> str:
    """Write a `data:` URL, or the address where the bytes lie."""
    return media.url or f"data:{type_of(media)};base64,{media.data}"


def type_of(media: Media) -> str:
    """The media type, or what it most likely is."""
    return media.media_type or _DEFAULT_TYPES[media.kind]


def read_format(name: str) -> str:
    """The media type of a sound in the format of this name."""
    return _FORMAT_TYPES.get(name, f"audio/{name}")


def write_format(media: Media) -> str:
    """OpenAI's name of a sound's format."""
    kind = type_of(media)
    return _FORMATS.get(kind, kind.removeprefix("audio/"))


# ── Content ─────────────────────────────────────────────────────────────────────────


ContentPart: TypeAlias = Text | Media | Native


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentForm:
    """The form of a content in one protocol: a list of parts, each with a type."""

    protocol: str
    text: str
    """The type of a text."""
    writers: Mapping[str, Callable[[Media], dict[str, Any] | None]]
    """By the kind of media. They return None for media that cannot be sent."""
    readers: Mapping[str, Callable[[Any, str], ContentPart]]
    """By the type of a part. All others are handed on as they are."""

    def write(self, parts: Sequence[object]) -> str | list[Any]:
        """Write a content; a single text is written as such."""
        if len(parts) == 1 and isinstance(parts[0], Text):
            return parts[0].text
        return [self.write_part(part) for part in parts]

    def write_part(self, part: object) -> Any:
        """Write a part, or words in the place of one that cannot be sent."""
        if isinstance(part, Native) and part.protocol == self.protocol:
            return part.value
        if isinstance(part, Media) and part.kind in self.writers:
            written = self.writers[part.kind](part)
            if written is not None:
                return written
        return {"type": self.text, "text": part.text if isinstance(part, Text) else omit(part)}

    def read(self, content: str | list[Any] | None, at: str) -> list[ContentPart]:
        """Read a content; `at` is its path."""
        if content is None or isinstance(content, str):
            return [Text(content)] if content else []
        return [self.read_part(part, f"{at}[{place}]") for place, part in enumerate(content)]

    def read_part(self, part: Any, at: str) -> ContentPart:
        """Read a part."""
        reader = self.readers.get(read_kind(part, at))
        return reader(part, at) if reader is not None else Native(self.protocol, part)


def read_text(part: Any, at: str) -> Text:
    """Read a part that is a text."""
    return Text(fit(part, _TextPart, at=at).text)


def read_refusal(part: Any, at: str) -> Text:
    """Read a part that is a refusal of OpenAI's models."""
    return Text(fit(part, _RefusalPart, at=at).refusal)


def read_data(address: str, name: str | None) -> Media:
    """Read a document from a `data:` URL, or from base64 and nothing else."""
    media = read_address("document", address, name=name or "")
    return media if media.data else Media(kind="document", data=address, name=media.name)


# ── In words ────────────────────────────────────────────────────────────────────────


def omit(part: object) -> str:
    """Return the text in place of content that cannot be sent: its own, or what is missing."""
    if not isinstance(part, Media):
        return "(Something was left out here that this model cannot be given.)"
    text = part.plain_text
    if text is not None:
        return f"{part.name}:\n{text}" if part.name else text
    about = ", ".join(filter(None, (part.kind, part.name, part.media_type, part.url)))
    return f"(Left out here, because this model cannot be given it: {about}.)"


def media_in(content: Iterable[object]) -> list[Media]:
    """The images, sounds and documents of a content."""
    return [piece for piece in content if isinstance(piece, Media)]


def speak(result: Result) -> str:
    """A result as text, for protocols that have no other way to say that it is a failure."""
    text = result.text
    if not result.failed or text.lstrip().lower().startswith("error"):
        return text
    return f"Error: {text}".rstrip()
