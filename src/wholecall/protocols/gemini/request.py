"""The body of a request to Google's generateContent. Model and streaming are in its address.

    {"systemInstruction": {"parts": [{"text": …}]}, "contents": [
        {"role": "user", "parts": [{"text": …}, {"inlineData": {"mimeType": …, "data": …}}]},
        {"role": "model", "parts": [{"text": …, "thoughtSignature": …},
            {"functionCall": {"name": …, "args": {…}}, "thoughtSignature": …}]},
        {"role": "user", "parts": [{"functionResponse": {"name": …, "response": {…}}}]}],
     "tools": [{"functionDeclarations": [{"name": …, "parametersJsonSchema": {…}}]}],
     "toolConfig": {"functionCallingConfig": {"mode": "AUTO" | "ANY" | "NONE"}},
     "generationConfig": {…}}

Results are in one content after their calls, as many as there are calls. Signatures go back on the
parts that they came with (https://ai.google.dev/gemini-api/docs/thought-signatures).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from wholecall.events import JSON, Reasoning, Text
from wholecall.messages import (
    Choice,
    Media,
    Mode,
    Native,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.decoder import present
from wholecall.protocols.history import Target, find_by_model
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, pair
from wholecall.protocols.openai_chat.history import efforts_of
from wholecall.protocols.request_fields import (
    SAMPLING,
    complete,
    define_tool,
    foreign_options,
    media_in,
    natives_of,
    omit,
    rest_of,
    type_of,
)

PROTOCOL = "gemini"
SIGNATURE = "thought_signature"
"""The key under which a call, or reasoning, holds its signature."""
# Models from Gemini 3 on refuse a call without a signature. This is what Google wants in the
# place of one where the call was made by another model.
_NO_SIGNATURE = "skip_thought_signature_validator"
_UNSIGNED_MODELS = re.compile(r"gemini-[12]\b")
_MODES = {Mode.AUTO: "AUTO", Mode.NONE: "NONE", Mode.REQUIRED: "ANY"}


def encode(request: Request, _: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    system = [message for message in request.messages if message.role is Role.SYSTEM]
    messages = [message for message in request.messages if message.role is not Role.SYSTEM]
    instructions = [part for message in system for part in _write_parts(message.parts)]
    tools = _write_tools(request)
    signed = not _UNSIGNED_MODELS.search(request.model)
    body = {
        "systemInstruction": {"parts": instructions} if instructions else None,
        "contents": [
            content for exchange in pair(messages) for content in _write(exchange, signed=signed)
        ],
        "tools": tools or None,
        "toolConfig": _write_choice(request.choice) if tools else None,
        "generationConfig": _write_config(request) or None,
    }
    return complete(body, rest_of(request, PROTOCOL))


def _write_tools(request: Request) -> list[Any]:
    choice = request.choice
    # Only where a call is demanded can names be said; else those that may be called are offered.
    only = choice.names if choice.names and choice.mode is Mode.AUTO else None
    declared = [_write_tool(spec) for spec in request.tools if only is None or spec.name in only]
    natives = [tool.value for tool in request.native_tools if tool.protocol == PROTOCOL]
    return [*([{"functionDeclarations": declared}] if declared else []), *natives]


def _write_tool(spec: ToolSpec) -> dict[str, Any]:
    return define_tool(spec, "parametersJsonSchema")


def _write_choice(choice: Choice) -> dict[str, Any] | None:
    if choice.mode is Mode.AUTO:  # what the model does by itself
        return None
    required = choice.mode is Mode.REQUIRED
    names = list(choice.names) if required else []
    config = {"mode": _MODES[choice.mode], "allowedFunctionNames": names or None}
    return {"functionCallingConfig": present(config)}


def _write_config(request: Request) -> dict[str, Any]:
    output = request.output
    config = {
        "maxOutputTokens": request.max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "stopSequences": list(request.stop) or None,
        "responseMimeType": None if output is None else "application/json",
        "responseJsonSchema": None if output is None or output.any_object else output.schema,
        "thinkingConfig": _write_thinking(request),
    }
    return present(config)


_BY_LEVEL = re.compile(r"gemini-([3-9]|\d\d)\b")


class _Budget(NamedTuple):
    """The tokens of thinking that a model takes."""

    least: int
    most: int
    optional: bool
    """True if it can also be asked not to think."""


# Models that take a number (https://ai.google.dev/gemini-api/docs/thinking#set-budget).
_BUDGETS = (
    ("gemini-2.5-pro", _Budget(128, 32_768, optional=False)),
    ("gemini-2.5-flash-lite", _Budget(512, 24_576, optional=True)),
    ("gemini-2.5", _Budget(1, 24_576, optional=True)),
)


def carried_options(request: Request) -> frozenset[str]:
    """Return the options that the upstream of a request takes."""
    model = request.model
    thinks = find_by_model(model, _BUDGETS, other=None) or _BY_LEVEL.search(model)
    return SAMPLING | {"effort"} if thinks else SAMPLING


def _write_thinking(request: Request) -> dict[str, Any] | None:
    options = foreign_options(request, PROTOCOL)
    if not options.level:
        return None
    if _BY_LEVEL.search(request.model):
        return {"thinkingLevel": options.effort_among(efforts_of(request.model))}
    budget = find_by_model(request.model, _BUDGETS, other=None)
    if budget is None:
        return None
    if budget.optional and options.level == "none":
        return {"thinkingBudget": 0}
    return {"thinkingBudget": min(max(options.tokens, budget.least), budget.most)}


# ── Contents ────────────────────────────────────────────────────────────────────────


def _write(exchange: CallExchange, *, signed: bool) -> Iterator[Any]:
    message = exchange.message
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        yield from natives
    elif message.role is Role.ASSISTANT:
        parts = _write_answer(message.parts)
        yield from _wrap("model", _sign(parts) if signed else parts)
    else:
        yield from _wrap("user", _write_parts(message.parts))
    yield from _wrap("user", _write_results(exchange.answered))


def _wrap(role: str, parts: list[dict[str, Any]]) -> Iterator[Any]:
    if parts:  # a content without any is refused
        yield {"role": role, "parts": parts}


def _write_answer(parts: Sequence[object]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, PastCall):
            written.append(_write_call(part))
        elif isinstance(part, Text) and part.text:
            written.append({"text": part.text})
        elif isinstance(part, Native) and part.protocol == PROTOCOL:
            written.append(dict(part.value))
        elif isinstance(part, Reasoning) and SIGNATURE in part.extras:
            _put_signature(part, written)
    return written


def _put_signature(part: Reasoning, written: list[dict[str, Any]]) -> None:
    """Put a signature on the part that it came with: a thought, or the part before it."""
    signature = part.extras[SIGNATURE]
    last = written[-1] if written and not part.text else None
    borne = None if last is None else last.get("thoughtSignature") or last.get(SIGNATURE)
    if borne == signature:
        return
    if last is None or borne:
        written.append({"text": part.text, "thought": True} if part.text else {"text": ""})
    written[-1]["thoughtSignature"] = signature


def _write_call(call: PastCall) -> dict[str, Any]:
    function = {"id": call.provider_id, "name": call.name, "args": call.arguments}
    return present({"functionCall": present(function), "thoughtSignature": find_signature(call)})


def find_signature(call: PastCall) -> Any:
    """The signature of a call, also where it went through OpenAI's protocol."""
    google = call.extras.get("extra_content", {})
    google = google.get("google", {}) if isinstance(google, Mapping) else {}
    through = google.get(SIGNATURE) if isinstance(google, Mapping) else None
    return call.extras.get(SIGNATURE) or through


def _sign(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An answer with calls has a signature on the first of them."""
    for call in [part for part in parts if "functionCall" in part][:1]:
        call.setdefault("thoughtSignature", _NO_SIGNATURE)
    return parts


def _write_results(answered: Iterable[AnsweredCall]) -> list[dict[str, Any]]:
    """Write results, followed by their images, which not every model accepts inside a result."""
    responses: list[dict[str, Any]] = []
    media: list[Any] = []
    for each in answered:
        result = each.result
        response = {
            "id": each.call.provider_id,
            "name": each.call.name,
            "response": {"error": result.text} if result.failed else {"output": _output(result)},
        }
        responses.append({"functionResponse": present(response)})
        media += media_in(result.content)
    return [*responses, *_write_parts(media)]


def _output(result: Result) -> JSON:
    """The output as a value, if the text says just that.

    Notices stand in the text only, and only the text was cut to size.
    """
    text, value = result.text, result.structured
    try:
        return value if value is not None and msgspec.json.decode(text) == value else text
    except (ValueError, RecursionError):
        return text


def _write_parts(parts: Iterable[object]) -> list[dict[str, Any]]:
    return [written for part in parts for written in _write_part(part)]


def _write_part(part: object) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text) and part.text:
        yield {"text": part.text}
    elif isinstance(part, Media):
        # Its data have no name.
        yield {"text": omit(part)} if part.plain_text is not None else _write_media(part)
    elif isinstance(part, Native):
        yield dict(part.value) if part.protocol == PROTOCOL else {"text": omit(part)}


def _write_media(part: Media) -> dict[str, Any]:
    if part.url:
        return {"fileData": {"mimeType": type_of(part), "fileUri": part.url}}
    return {"inlineData": {"mimeType": type_of(part), "data": part.data}}
