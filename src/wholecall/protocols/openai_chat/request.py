"""Requests of OpenAI's chat completions: encode for an upstream, decode from a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from wholecall.events import Call, Reasoning, Text
from wholecall.messages import (
    CallResult,
    Media,
    Message,
    Native,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.decoder import plain, present
from wholecall.protocols.history import Target, read_arguments, write_arguments
from wholecall.protocols.history_repair import mend
from wholecall.protocols.model_traits import CAP, NEW_CAP, ChatTraits, chat_traits
from wholecall.protocols.request_fields import (
    complete,
    fit,
    keep_rest,
    list_tools,
    media_in,
    natives_of,
    object_schema,
    omit,
    read_address,
    read_format,
    read_id,
    read_kind,
    read_tools,
    refuse_role,
    rest_of,
    speak,
    without,
    write_address,
    write_format,
)
from wholecall.protocols.tool_choices import decode as decode_choice
from wholecall.protocols.tool_choices import encode as encode_choice
from wholecall.tool_choice import Choice

PROTOCOL = "openai-chat"
CALL_EXTRAS = ("extra_content", "thought_signature", "provider_specific_fields")
"""Fields that upstreams of this protocol want back with a call."""
DETAILS = ("reasoning_details", "thinking_blocks")
"""Lists that upstreams of this protocol want back with their reasoning."""
_WITH_USAGE = {"include_usage": True}


def encode(request: Request, target: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    traits = chat_traits(request.model)
    rest = rest_of(request, PROTOCOL)
    mended = mend(PROTOCOL, list(_write_messages(request)), target=target or traits.target)
    tools = list_tools(request, PROTOCOL, write=write_tool)
    said = request.choice != Choice() and bool(tools)
    body = {
        "model": request.model,
        "messages": [*mended.system, *mended.messages],
        "tools": tools or None,
        **(encode_choice(request.choice, PROTOCOL).fields if said else {}),
        "stream": request.stream,
        "stream_options": _WITH_USAGE if request.stream and traits.usage_on_demand else None,
        _name_cap(traits, rest): request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "response_format": _write_output(request.output),
    }
    return complete(body, _keep(rest, request))


def _name_cap(traits: ChatTraits, rest: Mapping[str, Any]) -> str:
    """The name of the output limit: the one that the client used, if the upstream takes both.

    Imitators know the old name. Where nothing else is said, it is the safer one.
    """
    return traits.cap or (NEW_CAP if NEW_CAP in rest else CAP)


def _keep(rest: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The other fields, without those that make sense only beside ours."""
    dropped = {"tools", CAP, NEW_CAP}
    if not request.stream:
        dropped.add("stream_options")
    if request.output is None and "type" not in (rest.get("response_format") or {}):
        dropped.add("response_format")
    return without(rest, dropped)


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Define a tool."""
    fields = {"name": spec.name, "description": spec.description or None}
    return {"type": "function", "function": {**present(fields), "parameters": object_schema(spec)}}


def pick_extras(call: Call | PastCall) -> dict[str, Any]:
    """Return the fields that this protocol wants back with a call."""
    return {key: call.extras[key] for key in CALL_EXTRAS if key in call.extras}


def _write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None:
        return None
    schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"type": "json_schema", "json_schema": schema}


# ── Messages ────────────────────────────────────────────────────────────────────────


def _write_messages(request: Request) -> Iterator[Any]:
    for are_results, group in groupby(request.messages, lambda each: each.role is Role.TOOL):
        messages = list(group)
        for message in messages:
            natives = natives_of(message, PROTOCOL)
            yield from natives if natives is not None else _write(message)
        if are_results:
            yield from _show_media(messages)


def _results(message: Message) -> list[CallResult]:
    return [part for part in message.parts if isinstance(part, CallResult)]


def _write(message: Message) -> Iterable[Any]:
    if message.role is Role.TOOL:
        return map(_write_result, _results(message))
    if message.role is Role.ASSISTANT:
        return [_write_answer(message)]
    return [{"role": message.role.value, "content": _write_content(message.parts)}]


def _write_result(part: CallResult) -> dict[str, Any]:
    text = speak(part.result)
    if not text and media_in(part.result.content):
        text = "(It is shown in the next message.)"
    return {"role": "tool", "tool_call_id": part.call_id, "content": text}


def _show_media(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    written = [message for message in messages if natives_of(message, PROTOCOL) is None]
    shown: list[Any] = []
    for part in (part for message in written for part in _results(message)):
        media = media_in(part.result.content)
        if media:
            shown += (Text(f"From the result of {part.name or part.call_id!r}:"), *media)
    if shown:
        yield {"role": "user", "content": _write_content(shown)}


def _write_answer(message: Message) -> dict[str, Any]:
    calls = [_write_call(part) for part in message.parts if isinstance(part, PastCall)]
    return {
        "role": "assistant",
        "content": message.text or None,
        **_write_reasoning([part for part in message.parts if isinstance(part, Reasoning)]),
        **({"tool_calls": calls} if calls else {}),
    }


def _write_call(call: PastCall) -> dict[str, Any]:
    text, _ = write_arguments(plain(call.arguments))
    function = {"name": call.name, "arguments": text}
    return {"id": call.id, "type": "function", "function": function, **pick_extras(call)}


def _write_reasoning(parts: Sequence[Reasoning]) -> dict[str, Any]:
    """Plain reasoning and this protocol's details; what is sealed by another has no place here."""
    ours = [part for part in parts if not part.extras or not part.extras.keys().isdisjoint(DETAILS)]
    fields: dict[str, Any] = {"reasoning_content": "".join(part.text for part in ours)}
    for key in DETAILS:
        fields[key] = [entry for part in ours for entry in part.extras.get(key, ())]
    return {key: value for key, value in fields.items() if value}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _write_content(parts: Sequence[Any]) -> str | list[dict[str, Any]]:
    if all(isinstance(part, Text) for part in parts) and len(parts) <= 1:
        return "".join(part.text for part in parts)
    return [_PART_WRITERS[type(part)](part) for part in parts]


def _write_text(part: Text) -> dict[str, Any]:
    return {"type": "text", "text": part.text}


def _write_media(part: Media) -> dict[str, Any]:
    return _MEDIA_WRITERS[part.kind](part)


def _write_image(part: Media) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": write_address(part)}}


def _write_audio(part: Media) -> dict[str, Any]:
    if not part.data:
        return _write_text(Text(omit(part)))
    return {"type": "input_audio", "input_audio": {"data": part.data, "format": write_format(part)}}


def _write_file(part: Media) -> dict[str, Any]:
    if not part.data:
        return _write_text(Text(omit(part)))
    file = {"file_data": write_address(part), "filename": part.name or "document"}
    return {"type": "file", "file": file}


def _write_native(part: Native) -> Any:
    return part.value if part.protocol == PROTOCOL else _write_text(Text(omit(part)))


_MEDIA_WRITERS: dict[str, Callable[[Media], dict[str, Any]]] = {
    "image": _write_image,
    "audio": _write_audio,
    "document": _write_file,
}
_PART_WRITERS: dict[type, Callable[[Any], Any]] = {
    Text: _write_text,
    Media: _write_media,
    Native: _write_native,
}


# Requests to OpenAI's chat completions, as its clients send them.
#
# `functions`, `function_call` and the role `function` are what tools were before there were
# `tool_calls`. They are read as tools; the messages are not kept in their old form.


_Wire: TypeAlias = Mapping[str, Any]

# ── The wire ────────────────────────────────────────────────────────────────────────


class _Body(msgspec.Struct):
    model: str
    messages: list[Any]
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    tool_choice: Any = None
    function_call: Any = None
    parallel_tool_calls: Any = None
    stream: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    response_format: dict[str, Any] | None = None


class _Function(msgspec.Struct):
    name: str = ""
    arguments: Any = None  # text; an object from some clients


class _Message(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | int | None = None
    name: str | None = None
    function_call: _Function | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    thinking_blocks: list[Any] | None = None


class _ToolCall(msgspec.Struct):
    id: str | int | None = None
    function: _Function | None = None  # missing from a custom tool's


class _ImageUrl(msgspec.Struct):
    url: str


class _ImagePart(msgspec.Struct):
    image_url: _ImageUrl | str  # the bare address from some clients


class _Audio(msgspec.Struct):
    data: str
    format: str = "wav"


class _AudioPart(msgspec.Struct):
    input_audio: _Audio


class _File(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _FilePart(msgspec.Struct):
    file: _File


class _TextPart(msgspec.Struct):
    text: str


class _RefusalPart(msgspec.Struct):
    refusal: str


class _JsonSchema(msgspec.Struct):
    schema: dict[str, Any] | None = None
    name: str = "answer"
    strict: bool | None = None


# ── Decoding ────────────────────────────────────────────────────────────────────────


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, _Body)
    wrapped = [{"type": "function", "function": each} for each in fields.functions or ()]
    tools = read_tools([*(fields.tools or ()), *wrapped], PROTOCOL, write=write_tool)
    output, more = _read_output(fields.response_format)
    stop = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
    history = _History()
    rest = {
        **without(body, _Body.__struct_fields__),
        **({"tools": list(tools.said)} if tools.said else {}),
        **({"response_format": more} if more else {}),
        **_keep_cap(fields),
    }
    return Request(
        model=fields.model,
        messages=tuple(history.read(each, at) for at, each in enumerate(fields.messages)),
        tools=tools.specs,
        native_tools=tools.natives,
        choice=decode_choice(PROTOCOL, _say_one(body), offered=tools.names),
        stream=bool(fields.stream),
        max_tokens=_cap(fields),
        temperature=fields.temperature,
        top_p=fields.top_p,
        stop=tuple(stop),
        output=output,
        rest=keep_rest(PROTOCOL, rest),
    )


def knows_only_functions(body: Mapping[str, Any]) -> bool:
    """Return True if a client reads the deprecated `function_call` instead of `tool_calls`."""
    return bool(body.get("functions")) and not body.get("tools")


def _say_one(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Limit a client that reads one call to one call."""
    return {**body, "parallel_tool_calls": False} if knows_only_functions(body) else body


def _cap(fields: _Body) -> int | None:
    new, old = fields.max_completion_tokens, fields.max_tokens
    return old if new is None else new


def _keep_cap(fields: _Body) -> dict[str, Any]:
    """Remember which name of the output limit the client used, where it is not the usual one."""
    usual = chat_traits(fields.model).cap or CAP
    used = CAP if fields.max_completion_tokens is None else NEW_CAP
    return {used: _cap(fields)} if _cap(fields) is not None and used != usual else {}


def _read_output(
    wire: Mapping[str, Any] | None,
) -> tuple[OutputSchema | None, Mapping[str, Any] | None]:
    """The form of the answer, and what else the field says."""
    if wire is None or wire.get("type") != "json_schema":
        return None, wire
    at = "response_format.json_schema"
    body = fit(wire.get("json_schema"), _JsonSchema, at=at)
    if body.schema is None:
        return None, wire
    more = without(wire["json_schema"], _JsonSchema.__struct_fields__)
    output = OutputSchema(schema=body.schema, name=body.name, strict=bool(body.strict))
    return output, {"json_schema": more} if more else None


# ── Messages ────────────────────────────────────────────────────────────────────────


class _History:
    """The messages of a request, read one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""
        self._unanswered = ""
        """The id that was given to the latest `function_call`."""
        self._at = 0

    def read(self, native: Any, at: int) -> Message:
        self._at = at
        message = fit(native, _Message, at=f"messages[{at}]")
        if message.role not in _READERS:
            raise refuse_role(f"messages[{at}]", message.role, known=_READERS)
        role, reader = _READERS[message.role]
        parts = tuple(reader(self, message, native))
        old = message.role == "function" or message.function_call is not None
        return Message(role, parts, None if old else Native(PROTOCOL, (native,)))

    def read_said(self, message: _Message, _: _Wire) -> Sequence[Part]:
        return self._content(message.content)

    def read_answer(self, message: _Message, native: _Wire) -> Sequence[Part]:
        thought = message.reasoning_content or message.reasoning
        details = {key: native[key] for key in DETAILS if native.get(key)}
        return [
            *([Reasoning(thought)] if thought else []),
            *([Reasoning("", details)] if details else []),
            *self._content(message.content),
            *([Text(message.refusal)] if message.refusal else []),
            *self._calls(message),
        ]

    def read_result(self, message: _Message, _: _Wire) -> Sequence[Part]:
        id = read_id(message.tool_call_id)
        return [self._result(message, id)]

    def read_old_result(self, message: _Message, _: _Wire) -> Sequence[Part]:
        id, self._unanswered = self._unanswered, ""
        return [self._result(message, id)]

    def _result(self, message: _Message, id: str) -> CallResult:
        parts = self._content(message.content)
        content = tuple(part for part in parts if isinstance(part, Text | Media))
        name = message.name or self._names.get(id, "")
        return CallResult(call_id=id, name=name, result=Result(content))

    def _calls(self, message: _Message) -> list[Part]:
        calls = [self._call(native, place) for place, native in enumerate(message.tool_calls or ())]
        if message.function_call is not None:
            self._unanswered = f"function_call_{self._at}"
            calls.append(self._remember(self._unanswered, message.function_call))
        return calls

    def _call(self, native: Mapping[str, Any], place: int) -> Part:
        entry = fit(native, _ToolCall, at=f"messages[{self._at}].tool_calls[{place}]")
        if entry.function is None:
            return Native(PROTOCOL, native)
        id = read_id(entry.id)
        extras = {key: native[key] for key in CALL_EXTRAS if native.get(key) is not None}
        return replace(self._remember(id, entry.function), extras=extras)

    def _remember(self, id: str, function: _Function) -> PastCall:
        self._names[id] = function.name
        arguments, _ = read_arguments(function.arguments)
        return PastCall(id=id, name=function.name, arguments=arguments)

    def _content(self, content: str | list[Any] | None) -> list[Part]:
        if content is None or isinstance(content, str):
            return [Text(content)] if content else []
        at = f"messages[{self._at}].content"
        return [_read_part(part, f"{at}[{place}]") for place, part in enumerate(content)]


_READERS: dict[str, tuple[Role, Callable[[_History, _Message, _Wire], Sequence[Part]]]] = {
    "system": (Role.SYSTEM, _History.read_said),
    "developer": (Role.SYSTEM, _History.read_said),
    "user": (Role.USER, _History.read_said),
    "assistant": (Role.ASSISTANT, _History.read_answer),
    "tool": (Role.TOOL, _History.read_result),
    "function": (Role.TOOL, _History.read_old_result),
}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_part(part: Any, at: str) -> Part:
    reader = _PART_READERS.get(read_kind(part, at))
    return reader(part, at) if reader is not None else Native(PROTOCOL, part)


def _read_text(part: Any, at: str) -> Part:
    return Text(fit(part, _TextPart, at=at).text)


def _read_refusal(part: Any, at: str) -> Part:
    return Text(fit(part, _RefusalPart, at=at).refusal)


def _read_image(part: Any, at: str) -> Part:
    image = fit(part, _ImagePart, at=at).image_url
    return read_address("image", image if isinstance(image, str) else image.url)


def _read_audio(part: Any, at: str) -> Part:
    audio = fit(part, _AudioPart, at=at).input_audio
    return Media(kind="audio", media_type=read_format(audio.format), data=audio.data)


def _read_file(part: Any, at: str) -> Part:
    file = fit(part, _FilePart, at=at).file
    if file.file_data is None:  # a file that OpenAI holds
        return Native(PROTOCOL, part)
    media = read_address("document", file.file_data, name=file.filename or "")
    if media.data:
        return media
    return Media(kind="document", data=file.file_data, name=media.name)  # base64 and nothing else


_PART_READERS: dict[str, Callable[[Any, str], Part]] = {
    "text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
}
