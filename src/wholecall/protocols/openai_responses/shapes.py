"""The wire of OpenAI's Responses, with the holes that imitators and clients leave in it."""

from __future__ import annotations

from typing import Any

import msgspec


class CallItem(msgspec.Struct):
    """A function call as an item of the output."""

    id: str | None = None  # of the item; `call_id` is the one that the result names
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None  # text; an object from imitators
    status: str | None = None
    namespace: str | None = None
    caller: Any = None


class OwnCallItem(msgspec.Struct):
    """A call of a tool that is not a function."""

    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    status: str | None = None
    execution: str | None = None  # of a tool search: `server` or `client`


class ItemKind(msgspec.Struct):
    """The type of an item; its other fields depend on it."""

    type: str | None = None


class TextEntry(msgspec.Struct):
    text: str | None = None
    refusal: str | None = None
    annotations: Any = None
    logprobs: Any = None


class MessageItem(msgspec.Struct):
    content: list[TextEntry] | None = None
    id: str | None = None
    phase: str | None = None


class ReasoningItem(msgspec.Struct):
    id: str | None = None
    summary: list[TextEntry] | None = None
    content: list[TextEntry] | None = None
    encrypted_content: str | None = None


class IncompleteDetails(msgspec.Struct):
    reason: str | None = None


class ResponseObject(msgspec.Struct):
    status: str | None = None
    output: list[Any] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: IncompleteDetails | None = None


class ResponseEvent(msgspec.Struct):
    type: str = ""
    output_index: int | None = None  # missing from some imitators
    item_id: str | None = None  # a new one in each event from some gateways
    call_id: str | None = None  # instead of it from imitators
    delta: Any = None
    arguments: Any = None
    name: str | None = None
    item: Any = None
    response: ResponseObject | None = None
    error: Any = None
    code: Any = None
    message: Any = None
    param: Any = None


class ResponsesBody(msgspec.Struct):
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


class InputItem(msgspec.Struct):
    type: str | None = None  # a message may leave it out
    role: str | None = None
    content: str | list[Any] | None = None


class PastCallItem(msgspec.Struct):
    call_id: str | int | None = None
    name: str = ""
    namespace: str | None = None
    arguments: Any = None


class OutputItem(msgspec.Struct):
    call_id: str | int | None = None
    id: str | int | None = None
    output: str | list[Any] | None = None
    name: str | None = None


class ImagePart(msgspec.Struct):
    image_url: str | None = None  # or the id of a file that OpenAI holds
    detail: str | None = None


class FilePart(msgspec.Struct):
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
