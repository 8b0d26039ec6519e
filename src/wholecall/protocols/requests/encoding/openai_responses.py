"""The body of a request to OpenAI's Responses.

    {"model": …, "instructions": …, "input": [
        {"type": "message", "role": "user", "content": "…" | [
            {"type": "input_text" | "input_image" | "input_file"}]},
        {"type": "reasoning", "id": …, "summary": […], "encrypted_content": …},
        {"type": "message", "role": "assistant", "content": "…"},
        {"type": "function_call", "call_id": …, "name": …, "arguments": "{…}"},
        {"type": "function_call_output", "call_id": …, "output": "…" | […]}],
     "tools": [{"type": "function", "name": …, "parameters": {…}, "strict": false}]}

An answer is a run of items. Reasoning belongs to the next item, so all of them go back with their
ids, as they came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
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
from wholecall.core.history import OPENAI_RESPONSES, Target, mend
from wholecall.core.history.stored import write_arguments
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Call, Reasoning, Text
from wholecall.protocols.requests.fields import complete, natives_of, rest_of, without
from wholecall.protocols.requests.media import media_in, omit, speak, write_address
from wholecall.protocols.requests.tools import list_tools, object_schema
from wholecall.protocols.wire import plain, present

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
    return [_PARTS[type(part)](part) for part in parts]


def _write_text(part: Text) -> dict[str, Any]:
    return {"type": "input_text", "text": part.text}


def _write_media(part: Media) -> dict[str, Any]:
    return _MEDIA[part.kind](part)


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


_MEDIA: dict[str, Callable[[Media], dict[str, Any]]] = {
    "image": _write_image,
    "audio": _write_omitted,
    "document": _write_file,
}
_PARTS: dict[type, Callable[[Any], Any]] = {
    Text: _write_text,
    Media: _write_media,
    Native: _write_native,
}
