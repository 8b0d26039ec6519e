"""The wire of OpenAI's chat completions.

The shapes are written with their holes: each field that some server or client leaves out, sends as
null or sends in another type says so in its type.
"""

from __future__ import annotations

from typing import Any

import msgspec


class CustomCall(msgspec.Struct):
    """A piece of a custom call, as in an entry of `tool_calls`."""

    name: str | None = None
    input: str | None = None


class CustomGrammar(msgspec.Struct):
    definition: str = ""
    syntax: str = ""


class CustomFormat(msgspec.Struct):
    """The form of a custom tool's text; without a grammar it is any text."""

    grammar: CustomGrammar | None = None


class CustomTool(msgspec.Struct):
    name: str
    description: str | None = None
    format: CustomFormat | None = None


class FunctionEntry(msgspec.Struct):
    name: str | None = None
    arguments: Any = None  # text, a piece of it, an object, null


class ToolCallEntry(msgspec.Struct):
    index: int | float | str | None = None  # missing, all 0, from 1, "0"
    id: str | int | None = None
    function: FunctionEntry | None = None
    name: str | None = None  # name and arguments without `function` around them
    arguments: Any = None
    custom: CustomCall | None = None
    extra_content: Any = None  # Gemini's thought signatures
    thought_signature: Any = None
    provider_specific_fields: Any = None  # LiteLLM


class ContentEntry(msgspec.Struct):
    """A part of a content that is a list: Mistral, and servers that echo OpenAI's requests."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    thinking: str | list[ContentEntry] | None = None


class ChatDelta(msgspec.Struct):
    """A delta of a stream, or the message of a whole answer: the same fields."""

    content: str | list[ContentEntry | str | None] | None = None
    reasoning_content: Any = None  # DeepSeek, vLLM
    reasoning: Any = None  # OpenRouter, Groq
    reasoning_details: Any = None  # OpenRouter: must go back unchanged
    thinking_blocks: Any = None  # LiteLLM: Anthropic's signatures
    refusal: Any = None
    annotations: Any = None  # what a web search cites
    images: Any = None  # OpenRouter
    audio: Any = None
    tool_calls: list[ToolCallEntry | None] | None = None
    function_call: FunctionEntry | None = None  # before there were `tool_calls`


class ChatChoice(msgspec.Struct):
    index: int | None = None
    delta: ChatDelta | None = None
    message: ChatDelta | None = None
    finish_reason: Any = None  # null, "", unknown words
    logprobs: Any = None
    error: Any = None  # OpenRouter


class ChatChunk(msgspec.Struct):
    choices: list[ChatChoice | None] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None  # of an `object` that is "error": vLLM
    detail: Any = None  # FastAPI
    code: Any = None
    data: Any = None  # the answer itself, in an envelope of its gateway


class ChatBody(msgspec.Struct):
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


class ChatMessage(msgspec.Struct):
    role: str
    content: str | list[Any] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | int | None = None
    name: str | None = None
    function_call: FunctionEntry | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    thinking_blocks: list[Any] | None = None


class PastToolCall(msgspec.Struct):
    id: str | int | None = None
    function: FunctionEntry | None = None  # missing from a custom tool's
    custom: CustomCall | None = None


class ImageUrl(msgspec.Struct):
    url: str
    detail: str | None = None


class ImagePart(msgspec.Struct):
    image_url: ImageUrl | str  # the bare address from some clients


class AudioData(msgspec.Struct):
    data: str
    format: str = "wav"


class AudioPart(msgspec.Struct):
    input_audio: AudioData


class FileData(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class FilePart(msgspec.Struct):
    file: FileData
