"""Requests of OpenAI's Responses API: encode for an upstream, decode from a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

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
from wholecall.protocols.history import OPENAI_RESPONSES, Target, read_arguments, write_arguments
from wholecall.protocols.history_repair import mend
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
    read_id,
    read_kind,
    read_tools,
    refuse_role,
    rest_of,
    speak,
    without,
    write_address,
)
from wholecall.protocols.tool_choices import decode as decode_choice
from wholecall.protocols.tool_choices import encode as encode_choice
from wholecall.tool_choice import Choice

PROTOCOL = "openai-responses"
CALL_EXTRAS = {"item_id": "id", "namespace": "namespace", "caller": "caller"}
"""Fields that are sent back with a call, and their names."""
ITEM = "item"
"""The key under which reasoning holds its whole item."""
MESSAGE = "message"
"""The key for the fields of the item that a text was in: its id, its phase."""
NOTES = "notes"
"""The key for notes on that text: `annotations`, `logprobs`. It is not sent back."""
# The upstream holds earlier messages.
_CONTINUES = ("previous_response_id", "conversation")


def encode(request: Request, target: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    rest = rest_of(request, PROTOCOL)
    instructions, messages = _split_instructions(request.messages)
    items = [item for message in messages for item in _write(message)]
    continues = any(rest.get(name) for name in _CONTINUES)
    mended = mend(PROTOCOL, items, target=target or OPENAI_RESPONSES, continues=continues)
    tools = list_tools(request, PROTOCOL, write=write_tool)
    said = request.choice != Choice() and bool(tools)
    body = {
        "model": request.model,
        "instructions": instructions,
        "input": [*mended.system, *mended.messages],
        "tools": tools or None,
        **(encode_choice(request.choice, PROTOCOL).fields if said else {}),
        "stream": request.stream,
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "text": _write_output(request.output),
    }
    dropped = ["tools"] if request.stream else ["tools", "stream_options"]
    return complete(body, without(rest, dropped))


def _split_instructions(messages: Sequence[Message]) -> tuple[str | None, Sequence[Message]]:
    """Split off the leading instructions, unless they were an item."""
    first = messages[0] if messages else None
    if first is None or first.role is not Role.SYSTEM or natives_of(first, PROTOCOL) is not None:
        return None, messages
    return first.text, messages[1:]


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Define a tool. Where `strict` is missing, OpenAI takes it for true and changes the schema."""
    fields = {"name": spec.name, "description": spec.description or None}
    schema = object_schema(spec)
    return {"type": "function", **present(fields), "parameters": schema, "strict": False}


def pick_extras(call: Call | PastCall) -> dict[str, Any]:
    """Return the fields that this protocol wants back with a call."""
    return {CALL_EXTRAS[key]: call.extras[key] for key in CALL_EXTRAS if key in call.extras}


def _write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None:
        return None
    schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"format": {"type": "json_schema", **schema}}


# ── Items ───────────────────────────────────────────────────────────────────────────


def _write(message: Message) -> Iterator[Any]:
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        yield from natives
    elif message.role is Role.TOOL:
        yield from (_write_result(part) for part in message.parts if isinstance(part, CallResult))
    elif message.role is Role.ASSISTANT:
        yield from _write_answer(message)
    else:
        content = _write_content(message.parts)
        yield {"type": "message", "role": message.role.value, "content": content}


def _write_result(part: CallResult) -> dict[str, Any]:
    output: str | list[Any] = speak(part.result)
    if media_in(part.result.content):
        output = _write_content(part.result.content)
    return {"type": "function_call_output", "call_id": part.call_id, "output": output}


def _write_answer(message: Message) -> Iterator[Any]:
    for part, behind in pairwise((*message.parts, None)):
        if isinstance(part, Text):
            yield _write_saying(part, behind)
        elif isinstance(part, PastCall):
            yield _write_call(part)
        elif isinstance(part, Reasoning) and ITEM in part.extras:
            # Fields that are null in an answer are unknown ones in a request.
            yield present(part.extras[ITEM])
        elif isinstance(part, Native) and part.protocol == PROTOCOL:
            yield part.value


def _write_saying(part: Text, behind: object) -> dict[str, Any]:
    item = {"type": "message", "role": "assistant"}
    envelope: Mapping[str, Any] = {}
    if isinstance(behind, Reasoning):
        envelope = behind.extras.get(MESSAGE, {})
    if not envelope:
        return {**item, "content": part.text}
    content = [{"type": "output_text", "text": part.text, "annotations": []}]
    return {**item, "status": "completed", **envelope, "content": content}


def _write_call(call: PastCall) -> dict[str, Any]:
    text, _ = write_arguments(plain(call.arguments))
    item = {"call_id": call.id, "name": call.name, "arguments": text}
    extras = pick_extras(call)
    if call.provider_id not in (None, call.id):
        extras.pop("id", None)  # under this id the upstream knows a call by another name
    return {"type": "function_call", **extras, **item}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _write_content(parts: Sequence[Any]) -> str | list[Any]:
    if all(isinstance(part, Text) for part in parts) and len(parts) <= 1:
        return "".join(part.text for part in parts)
    return [_PART_WRITERS[type(part)](part) for part in parts]


def _write_text(part: Text) -> dict[str, Any]:
    return {"type": "input_text", "text": part.text}


def _write_media(part: Media) -> dict[str, Any]:
    return _MEDIA_WRITERS[part.kind](part)


def _write_image(part: Media) -> dict[str, Any]:
    return {"type": "input_image", "image_url": write_address(part), "detail": "auto"}


def _write_file(part: Media) -> dict[str, Any]:
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    return {
        "type": "input_file",
        "filename": part.name or "document",
        "file_data": write_address(part),
    }


def _write_omitted(part: Media | Native) -> dict[str, Any]:
    return _write_text(Text(omit(part)))


def _write_native(part: Native) -> Any:
    return part.value if part.protocol == PROTOCOL else _write_omitted(part)


_MEDIA_WRITERS: dict[str, Callable[[Media], dict[str, Any]]] = {
    "image": _write_image,
    "audio": _write_omitted,
    "document": _write_file,
}
_PART_WRITERS: dict[type, Callable[[Any], Any]] = {
    Text: _write_text,
    Media: _write_media,
    Native: _write_native,
}


# Requests to OpenAI's Responses, as its clients send them.
#
# `input` is a text, or a list of items. A run of items that the model put out (reasoning, words,
# calls, what OpenAI's own tools did) is one message; every other item is a message of its own.
# `previous_response_id` and its like stay with the other fields: the upstream holds what they name.


# ── The wire ────────────────────────────────────────────────────────────────────────


class _Body(msgspec.Struct):
    model: str
    input: str | list[Any] = ""
    instructions: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: dict[str, Any] | None = None


class _Item(msgspec.Struct):
    type: str | None = None  # a message may leave it out
    role: str | None = None
    content: str | list[Any] | None = None


class _FunctionCall(msgspec.Struct):
    call_id: str | int | None = None
    name: str = ""
    arguments: Any = None


class _Output(msgspec.Struct):
    call_id: str | int | None = None
    output: str | list[Any] | None = None
    name: str | None = None


class _Summary(msgspec.Struct):
    text: str = ""


class _Reasoning(msgspec.Struct):
    summary: list[_Summary] | None = None
    content: list[_Summary] | None = None


class _TextPart(msgspec.Struct):
    text: str


class _RefusalPart(msgspec.Struct):
    refusal: str


class _ImagePart(msgspec.Struct):
    image_url: str | None = None  # or the id of a file that OpenAI holds


class _FilePart(msgspec.Struct):
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None


class _Format(msgspec.Struct):
    schema: dict[str, Any]
    name: str = "answer"
    strict: bool | None = None


# ── Decoding ────────────────────────────────────────────────────────────────────────


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, _Body)
    tools = read_tools(fields.tools, PROTOCOL, write=write_tool)
    output, more = _read_format(fields.text or {})
    rest = {
        **without(body, _Body.__struct_fields__),
        **({"tools": list(tools.said)} if tools.said else {}),
        **({"text": more} if more else {}),
    }
    return Request(
        model=fields.model,
        messages=(*_read_instructions(fields), *_read_input(fields.input)),
        tools=tools.specs,
        native_tools=tools.natives,
        choice=decode_choice(PROTOCOL, body, offered=tools.names),
        stream=bool(fields.stream),
        max_tokens=fields.max_output_tokens,
        temperature=fields.temperature,
        top_p=fields.top_p,
        output=output,
        rest=keep_rest(PROTOCOL, rest),
    )


def _read_format(text: Mapping[str, Any]) -> tuple[OutputSchema | None, Mapping[str, Any]]:
    """The form of the answer, and what else the field says."""
    wire = text.get("format")
    if not isinstance(wire, Mapping) or wire.get("type") != "json_schema":
        return None, text
    body = fit(wire, _Format, at="text.format")
    output = OutputSchema(schema=body.schema, name=body.name, strict=bool(body.strict))
    more = without(wire, {*_Format.__struct_fields__, "type"})
    return output, {**without(text, ["format"]), **({"format": more} if more else {})}


def _read_instructions(fields: _Body) -> Iterator[Message]:
    if isinstance(fields.instructions, list):
        yield from _read_items(fields.instructions, "instructions")
    elif fields.instructions:
        yield Message(Role.SYSTEM, (Text(fields.instructions),))


def _read_input(value: str | list[Any]) -> Iterator[Message]:
    if isinstance(value, list):
        yield from _read_items(value, "input")
    elif value:
        yield Message(Role.USER, (Text(value),))


# ── Items ───────────────────────────────────────────────────────────────────────────


def _read_items(items: Sequence[Any], at: str) -> Iterator[Message]:
    read = _Items().read
    placed = [(item, *read(item, f"{at}[{place}]")) for place, item in enumerate(items)]
    for is_answer, group in groupby(placed, lambda each: each[1] is Role.ASSISTANT):
        run = list(group)
        if is_answer:
            natives = Native(PROTOCOL, tuple(item for item, _, _ in run))
            answer = tuple(part for _, _, parts in run for part in parts)
            yield Message(Role.ASSISTANT, answer, natives)
        else:
            for item, role, parts in run:
                yield Message(role, tuple(parts), Native(PROTOCOL, (item,)))


class _Items:
    """The items of a request, read one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""

    def read(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        item = fit(native, _Item, at=at)
        kind = item.type or ("message" if item.role else "item_reference")
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(self, native, at)
        models = kind in _MODELS_ITEMS or kind.endswith("_call")
        return (Role.ASSISTANT if models else Role.USER), [Native(PROTOCOL, native)]

    def read_message(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        item = fit(native, _Item, at=at)
        if item.role not in _ROLES:
            raise refuse_role(at, item.role, known=_ROLES)
        parts = _read_content(item.content, f"{at}.content")
        envelope = without(native, _NO_ENVELOPE)
        if item.role == "assistant" and parts and envelope:
            parts.append(Reasoning("", {MESSAGE: envelope}))
        return _ROLES[item.role], parts

    def read_call(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        call = fit(native, _FunctionCall, at=at)
        id = read_id(call.call_id)
        self._names[id] = call.name
        arguments, _ = read_arguments(call.arguments)
        extras = {
            key: native[field]
            for key, field in CALL_EXTRAS.items()
            if native.get(field) is not None
        }
        part = PastCall(id=id, name=call.name, arguments=arguments, extras=extras)
        return Role.ASSISTANT, [part]

    def read_reasoning(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        reasoning = fit(native, _Reasoning, at=at)
        texts = [*(reasoning.summary or ()), *(reasoning.content or ())]
        text = "".join(each.text for each in texts)
        return Role.ASSISTANT, [Reasoning(text, {ITEM: native})]

    def read_output(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        output = fit(native, _Output, at=at)
        id = read_id(output.call_id)
        parts = _read_content(output.output, f"{at}.output")
        content = tuple(part for part in parts if isinstance(part, Text | Media))
        name = output.name or self._names.get(id, "")
        return Role.TOOL, [CallResult(call_id=id, name=name, result=Result(content))]


_ROLES = {
    "user": Role.USER,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "assistant": Role.ASSISTANT,
}
# The other items that the model put out; those of its own tools end in `_call`.
_MODELS_ITEMS = frozenset({"mcp_list_tools", "mcp_approval_request", "program", "compaction"})
# What every message has; the other fields are what the upstream knows it by.
_NO_ENVELOPE = frozenset({"type", "role", "content", "status"})
_READERS: dict[str, Callable[[_Items, Any, str], tuple[Role, Sequence[Part]]]] = {
    "message": _Items.read_message,
    "function_call": _Items.read_call,
    "reasoning": _Items.read_reasoning,
    "function_call_output": _Items.read_output,
}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_content(content: str | list[Any] | None, at: str) -> list[Part]:
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    return [_read_part(part, f"{at}[{place}]") for place, part in enumerate(content)]


def _read_part(part: Any, at: str) -> Part:
    reader = _PART_READERS.get(read_kind(part, at))
    return reader(part, at) if reader is not None else Native(PROTOCOL, part)


def _read_text(part: Any, at: str) -> Part:
    return Text(fit(part, _TextPart, at=at).text)


def _read_refusal(part: Any, at: str) -> Part:
    return Text(fit(part, _RefusalPart, at=at).refusal)


def _read_image(part: Any, at: str) -> Part:
    url = fit(part, _ImagePart, at=at).image_url
    return read_address("image", url) if url else Native(PROTOCOL, part)


def _read_file(part: Any, at: str) -> Part:
    file = fit(part, _FilePart, at=at)
    address = file.file_data or file.file_url
    if not address:  # a file that OpenAI holds
        return Native(PROTOCOL, part)
    media = read_address("document", address, name=file.filename or "")
    if media.data or not file.file_data:
        return media
    return Media(kind="document", data=address, name=media.name)  # base64 and nothing else


_PART_READERS: dict[str, Callable[[Any, str], Part]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "refusal": _read_refusal,
    "input_image": _read_image,
    "input_file": _read_file,
}
