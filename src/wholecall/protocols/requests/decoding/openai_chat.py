"""Requests to OpenAI's chat completions, as its clients send them.

`functions`, `function_call` and the role `function` are what tools were before there were
`tool_calls`. They are read as tools; the messages are not kept in their old form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec

from wholecall.core.choice import decode as decode_choice
from wholecall.core.conversation import (
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
)
from wholecall.core.history.stored import read_arguments
from wholecall.core.values import Reasoning, Text
from wholecall.protocols.requests.encoding.openai_chat import (
    CALL_EXTRAS,
    DETAILS,
    PROTOCOL,
    write_tool,
)
from wholecall.protocols.requests.fields import (
    fit,
    keep_rest,
    read_id,
    read_kind,
    refuse_role,
    without,
)
from wholecall.protocols.requests.media import read_address, read_format
from wholecall.protocols.requests.tools import read_tools
from wholecall.protocols.requests.traits import CAP, NEW_CAP, chat_traits

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
    reader = _PARTS.get(read_kind(part, at))
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


_PARTS: dict[str, Callable[[Any, str], Part]] = {
    "text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image,
    "input_audio": _read_audio,
    "file": _read_file,
}
