"""The body of a request to OpenAI's chat completions.

    {"model": …, "messages": [
        {"role": "system", "content": …},
        {"role": "user", "content": "…" | [
            {"type": "text" | "image_url" | "input_audio" | "file"}]},
        {"role": "assistant", "content": … | null, "tool_calls": [
            {"id": …, "type": "function", "function": {"name": …, "arguments": "{…}"}}]},
        {"role": "tool", "tool_call_id": …, "content": …}],
     "tools": [{"type": "function", "function": {"name": …, "parameters": {…}}}]}

Each result is a message of its own. It holds nothing but text, so images in a result are shown in a
user's message after the results of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from wholecall.core.choice import Choice
from wholecall.core.choice import encode as encode_choice
from wholecall.core.conversation import (
    CallResult,
    Media,
    Message,
    Native,
    OutputSchema,
    PastCall,
    Request,
    Role,
)
from wholecall.core.history import Target, mend
from wholecall.core.history.stored import write_arguments
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Call, Reasoning, Text
from wholecall.protocols.requests.fields import complete, natives_of, rest_of, without
from wholecall.protocols.requests.media import (
    media_in,
    omit,
    speak,
    write_address,
    write_format,
)
from wholecall.protocols.requests.tools import list_tools, object_schema
from wholecall.protocols.requests.traits import CAP, NEW_CAP, ChatTraits, chat_traits
from wholecall.protocols.wire import plain, present

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
    return [_PARTS[type(part)](part) for part in parts]


def _write_text(part: Text) -> dict[str, Any]:
    return {"type": "text", "text": part.text}


def _write_media(part: Media) -> dict[str, Any]:
    return _MEDIA[part.kind](part)


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


_MEDIA: dict[str, Callable[[Media], dict[str, Any]]] = {
    "image": _write_image,
    "audio": _write_audio,
    "document": _write_file,
}
_PARTS: dict[type, Callable[[Any], Any]] = {
    Text: _write_text,
    Media: _write_media,
    Native: _write_native,
}
