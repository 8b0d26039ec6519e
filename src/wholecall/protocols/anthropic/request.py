"""Requests of Anthropic's Messages API: encode for an upstream, decode from a client."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, takewhile
from typing import Any

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    NO_OPTIONS,
    CallResult,
    Choice,
    EncodedChoice,
    Media,
    Message,
    Mode,
    ModelOptions,
    Native,
    Offered,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
    Wire,
    allow_all,
    field_of,
    read_choice,
    restrict,
)
from wholecall.protocols.anthropic import shapes
from wholecall.protocols.anthropic.history import HISTORY, AnthropicTraits, anthropic_traits
from wholecall.protocols.decoder import present
from wholecall.protocols.history import System, Target, read_arguments
from wholecall.protocols.history_repair import mend
from wholecall.protocols.request_fields import (
    ContentForm,
    JsonSchema,
    complete,
    define_tool,
    fit,
    foreign_options,
    keep_rest,
    list_tools,
    member,
    merge,
    natives_of,
    pick,
    read_effort,
    read_id,
    read_kind,
    read_text,
    read_tools,
    read_word,
    refuse,
    refuse_role,
    rest_of,
    thought_of,
    type_of,
    without,
)

PROTOCOL = shapes.PROTOCOL
CALL_EXTRAS = ("caller", "toolset_name")
"""Fields that are sent back with a call."""
MAX_TOKENS = 8192
"""The output limit where the request names none: the protocol demands one, and every model that
is still served allows this much."""
# The first message has to be the user's.
_OPENING = {"role": "user", "content": "(The conversation begins with the assistant.)"}


def encode(request: Request, target: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    traits = anthropic_traits(request.model)
    request = _declare_called(request)
    if not traits.is_claude:
        request = replace(request, messages=tuple(map(_drop_billing, request.messages)))
    leading = list(takewhile(lambda message: message.role is Role.SYSTEM, request.messages))
    messages = request.messages[len(leading) :]
    written = [wire for message in messages for wire in _write(message)]
    mended = mend(HISTORY, written, target=_place_system(target or traits.target, messages))
    choice = CHOICE.encode(request.choice)
    tools = list_tools(
        request, PROTOCOL, write=write_tool, read=shapes.read_kinds, only=choice.offer
    )
    said = request.choice != Choice() and bool(tools)
    system = [wire for message in leading for wire in _write(message)]
    options = _write_options(request, traits)
    body = {
        "model": request.model,
        "max_tokens": output_limit(request),
        "system": _write_system([*system, *mended.system]),
        "messages": _begin(list(_join(mended.messages))),
        "tools": tools or None,
        **(choice.fields if said else {}),
        "stream": request.stream,
        **_write_sampling(request, traits, thinks="thinking" in options),
        "stop_sequences": list(request.stop) or None,
        "output_config": _write_output(request.output),
    }
    if _marks_cache(request):
        body |= _mark(body)
    return complete(merge(body, options), without(rest_of(request, PROTOCOL), ["tools"]))


# ── Options ─────────────────────────────────────────────────────────────────────────

_LEAST_BUDGET = 1024
_TIERS = {"default": "standard_only", "auto": "auto"}
_READ_TIERS = {"standard_only": "default", "auto": "auto"}


def output_limit(request: Request) -> int:
    """Return the output limit of a request, which the protocol demands.

    Another protocol's client does not know how much the model allows.
    """
    most = anthropic_traits(request.model).most_output
    if request.max_tokens is None:
        return most or MAX_TOKENS
    ours = request.rest is not None and request.rest.protocol == PROTOCOL
    return request.max_tokens if most is None or ours else min(request.max_tokens, most)


def carried_options(request: Request) -> frozenset[str]:
    """Return the options that the upstream of a request takes."""
    traits = anthropic_traits(request.model)
    written = _write_options(request, traits)
    sampling = present(_write_sampling(request, traits, thinks="thinking" in written))
    effort = {"effort"} if traits.thinks else set()
    tier = {"tier"} if traits.is_claude else set()
    return frozenset({"stop", "user", *effort, *tier, *sampling})


def _write_options(request: Request, traits: AnthropicTraits) -> dict[str, Any]:
    options = foreign_options(request, PROTOCOL)
    effort = options.effort_among(traits.efforts)
    tier = _TIERS.get(options.tier, "auto") if options.tier and traits.is_claude else None
    written = {
        "thinking": _write_thinking(request, options, traits=traits),
        "output_config": {"effort": effort} if effort else None,
        "service_tier": tier,
        "metadata": {"user_id": options.user} if options.user else None,
    }
    return present(written)


def _write_thinking(
    request: Request, options: ModelOptions, *, traits: AnthropicTraits
) -> dict[str, Any] | None:
    """Say how to think. A call that is demanded cannot be thought about first."""
    silent = options.level in ("", "none") or request.choice.mode is Mode.REQUIRED
    if silent or not traits.thinks:
        return None
    if traits.efforts:
        return {"type": "adaptive"}
    # Within a turn of tools, thinking is refused whose beginning is missing.
    tokens = min(max(options.tokens, _LEAST_BUDGET), output_limit(request) - _LEAST_BUDGET)
    if tokens < _LEAST_BUDGET or not _may_think(request.messages):
        return None
    return {"type": "enabled", "budget_tokens": tokens}


def _may_think(messages: Sequence[Message]) -> bool:
    """Return True if each answer with calls since the user's words begins with its thinking."""
    since = takewhile(lambda message: message.role is not Role.USER, reversed(messages))
    answers = [message for message in since if message.role is Role.ASSISTANT]
    return all(_is_thought(message) for message in answers)


def _is_thought(message: Message) -> bool:
    called = any(isinstance(part, PastCall) for part in message.parts)
    parts = (part for part in message.parts if isinstance(part, Reasoning))
    return not called or any("signature" in part.extras for part in parts)


OPTION_FIELDS = {
    "effort": ("thinking", "output_config.effort"),
    "tier": ("service_tier",),
    "user": ("metadata.user_id",),
    "stop": ("stop_sequences",),
}
KNOWN_FIELDS = frozenset({"thinking", "service_tier", "metadata", "tools", "output_config"})
_OPTIONAL = frozenset(name.partition(".")[0] for name in chain(*OPTION_FIELDS.values()))


def _read_options(body: Mapping[str, Any]) -> ModelOptions:
    if body.keys().isdisjoint(_OPTIONAL):
        return NO_OPTIONS
    kind = member(body, "thinking", key="type")
    budget = member(body, "thinking", key="budget_tokens")
    effort = read_effort(member(body, "output_config", key="effort"))
    return ModelOptions(
        effort="none" if kind == "disabled" else effort,
        budget=budget if kind == "enabled" and isinstance(budget, int) else None,
        tier=_READ_TIERS.get(read_word(body.get("service_tier")), ""),
        user=read_word(member(body, "metadata", key="user_id")),
    )


# ── The cache ───────────────────────────────────────────────────────────────────────

# The prompt up to a marked block is found again in the next request: the tools, the system
# prompt, and the conversation. The protocol allows four marks.
_MARK = {"cache_control": {"type": "ephemeral"}}


def _marks_cache(request: Request) -> bool:
    """Return True if the prompt is to be marked, and its client has no words for it."""
    ours = any(natives_of(message, PROTOCOL) is not None for message in request.messages)
    return request.marks_cache and not ours


def _mark(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a body that hold marks."""
    messages, tools, system = body["messages"], body["tools"], body["system"]
    marked: dict[str, Any] = {}
    if system:
        marked["system"] = _mark_last(_blocks({"content": system}))
    if tools:
        marked["tools"] = _mark_last(tools)
    if messages and messages[-1]["role"] == "user":
        last = {**messages[-1], "content": _mark_last(_blocks(messages[-1]))}
        marked["messages"] = [*messages[:-1], last]
    return marked


def _mark_last(blocks: Sequence[Any]) -> list[Any]:
    return [*blocks[:-1], {**blocks[-1], **_MARK}] if blocks else []


# ── Fields ──────────────────────────────────────────────────────────────────────────


def _drop_billing(message: Message) -> Message:
    """Leave Claude Code's line out for others that speak this protocol."""
    wires = natives_of(message, PROTOCOL)
    if message.role is not Role.SYSTEM or wires is None or _BILLING not in str(wires)[:200]:
        return message
    return replace(message, native=None)


def _declare_called(request: Request) -> Request:
    """A history with calls is refused without tools: declare those called, and forbid them."""
    parts = [part for message in request.messages for part in message.parts]
    called = dict.fromkeys(part.name for part in parts if isinstance(part, PastCall))
    if request.tools or request.native_tools or not called:
        return request
    specs = tuple(ToolSpec(name) for name in called)
    return replace(request, tools=specs, choice=Choice(Mode.NONE))


def _place_system(target: Target, messages: Sequence[Message]) -> Target:
    """A client that puts system messages between the others knows that its model takes them."""
    systems = [message for message in messages if message.role is Role.SYSTEM]
    if any(natives_of(message, PROTOCOL) is not None for message in systems):
        return replace(target, system=System.ANYWHERE)
    return target


def _write_sampling(
    request: Request, traits: AnthropicTraits, *, thinks: bool
) -> dict[str, float | None]:
    if not traits.sampling or (thinks and traits.is_claude):  # who thinks has a temperature of 1
        return {}
    top_p = request.top_p if traits.top_p_with_temperature or request.temperature is None else None
    return {"temperature": request.temperature, "top_p": top_p}


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Define a tool."""
    return define_tool(spec, "input_schema")


def _write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None or output.any_object:  # the protocol has no format for any object
        return None
    return {"format": {"type": "json_schema", "schema": output.schema}}


# ── Messages ────────────────────────────────────────────────────────────────────────


def _write_system(messages: Sequence[Any]) -> Any:
    if len(messages) == 1:
        return messages[0]["content"] or None
    return [block for message in messages for block in _blocks(message)] or None


def _begin(messages: list[Any]) -> list[Any]:
    role = messages[0].get("role") if messages else None
    return [_OPENING, *messages] if role == "assistant" else messages


def _join(messages: Iterable[Any]) -> Iterator[Any]:
    """Put the results of a turn and the user's next words into one message."""
    results: dict[str, Any] | None = None
    for message in messages:
        if results is not None and message["role"] == "user":
            content = results["content"]
            results.update(message, content=content)
            content += _blocks(message)
            continue
        if results is not None:
            yield results
            results = None
        if _holds_results(message):
            results = {**message, "content": _blocks(message)}
        else:
            yield message
    if results is not None:
        yield results


def _holds_results(message: Any) -> bool:
    blocks = message.get("content")
    return isinstance(blocks, list) and any(
        isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks
    )


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _write(message: Message) -> Sequence[Any]:
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        return natives
    content: str | list[Any]
    if message.role is Role.ASSISTANT:
        content = [block for part in message.parts for block in _write_said(part)]
    else:
        content = _write_content(message.parts)
    return [{"role": _WIRE_ROLES[message.role], "content": content}]


_WIRE_ROLES = {
    Role.SYSTEM: "system",
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "assistant",
}


def _write_said(part: object) -> Iterator[Any]:
    """Write a part of an answer. What belongs to another protocol is left out."""
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, PastCall):
        call = {"id": part.id, "name": part.name, "input": part.arguments}
        yield {"type": "tool_use", **call, **pick(part.extras, CALL_EXTRAS)}
    elif isinstance(part, Reasoning):
        yield from _write_reasoning(part)
    elif isinstance(part, Native) and part.protocol == PROTOCOL:
        yield part.value


def _write_reasoning(part: Reasoning) -> Iterator[Any]:
    if "redacted_thinking" in part.extras:
        yield {"type": "redacted_thinking", "data": part.extras["redacted_thinking"]}
    elif "signature" in part.extras:
        signature = part.extras["signature"]
        yield {"type": "thinking", "thinking": part.text, "signature": signature}
    elif not part.extras or thought_of(part):
        yield {"type": "thinking", "thinking": part.text, "signature": ""}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _write_content(parts: Sequence[Any]) -> str | list[Any]:
    if any(isinstance(part, CallResult) for part in parts):
        return [_write_block(part) for part in parts]
    return _CONTENT.write(parts)


def _write_block(part: object) -> Any:
    return _write_result(part) if isinstance(part, CallResult) else _CONTENT.write_part(part)


def _write_result(part: CallResult) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": part.call_id}
    content = _CONTENT.write(part.result.content)
    return {**block, "content": content, **({"is_error": True} if part.result.failed else {})}


def _write_image(part: Media) -> dict[str, Any]:
    return {"type": "image", "source": _write_source(part)}


def _write_document(part: Media) -> dict[str, Any]:
    return present({"type": "document", "source": _write_source(part), "title": part.name or None})


def _write_source(part: Media) -> dict[str, Any]:
    text = part.plain_text
    if text is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    if part.url:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": type_of(part), "data": part.data}


# ── The choice ──────────────────────────────────────────────────────────────────────
#
# Anthropic's choice: always an object, with the flag against parallel calls inside it.


_MODES = {"auto": Mode.AUTO, "none": Mode.NONE, "any": Mode.REQUIRED}
_MODE_WORDS = {mode: word for word, mode in _MODES.items()}
_TOOL = "tool"
_ONE_AT_A_TIME = "disable_parallel_tool_use"


class AnthropicForm:
    """Reads and says a choice in Anthropic's words."""

    def decode(self, request: Wire, offered: Offered) -> Choice:
        """Read the choice from a request's fields."""
        if request.get("tool_choice") is None:
            return _ANY
        choice = field_of(request, "tool_choice")
        parallel = not choice.member(_ONE_AT_A_TIME).read_flag(default=False)
        kind = choice.member("type")
        mode = kind.read_word({**_MODES, _TOOL: Mode.REQUIRED})
        if kind.value != _TOOL:
            return allow_all(mode, parallel=parallel)
        return restrict(mode, [choice.read_name(offered)], parallel=parallel)

    def encode(self, choice: Choice) -> EncodedChoice:
        """Say a choice in the protocol's words."""
        if choice.tools and not choice.names:
            # Nothing that may be called can be named, and nothing else may be called.
            return EncodedChoice({"tool_choice": {"type": "none"}}, unsaid=choice.specials)
        value: dict[str, Any] = {"type": _MODE_WORDS[choice.mode]}
        # The protocol has no list of allowed tools, so the others are not offered.
        offer = choice.names or None
        if choice.mode is Mode.REQUIRED and len(choice.names) == 1:
            value, offer = {"type": _TOOL, "name": choice.names[0]}, None
        if not choice.parallel:
            value[_ONE_AT_A_TIME] = True
        return EncodedChoice({"tool_choice": value}, offer, choice.specials)


CHOICE = AnthropicForm()
_ANY = Choice()


# Requests to Anthropic's Messages, as its clients send them.
#
# Results stand in the user's messages, before what the user says himself. They are read as a
# message of their own; written again, the two become one.


# ── Decoding ────────────────────────────────────────────────────────────────────────

# The types of a definition that is a function of the client's.
_FUNCTIONS = (None, "custom")


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, shapes.MessagesBody)
    tools = read_tools(
        fields.tools, PROTOCOL, functions=_FUNCTIONS, write=write_tool, read=shapes.read_kinds
    )
    output, more = _read_output(fields.output_config or {})
    history = _History()
    system = [{"role": "system", "content": fields.system}] if fields.system else []
    messages = [
        *(message for native in system for message in history.read(native, _SYSTEM)),
        *(
            message
            for at, native in enumerate(fields.messages)
            for message in history.read(native, f"messages[{at}]")
        ),
    ]
    return Request(
        model=fields.model,
        messages=tuple(messages),
        tools=tools.specs,
        native_tools=tools.natives,
        choice=read_choice(CHOICE, body, offered=tools.names),
        stream=bool(fields.stream),
        max_tokens=fields.max_tokens,
        temperature=fields.temperature,
        top_p=fields.top_p,
        stop=tuple(fields.stop_sequences or ()),
        output=output,
        options=_read_options(body),
        rest=keep_rest(
            PROTOCOL,
            body,
            read=shapes.MessagesBody.__struct_fields__,
            more={"tools": list(tools.said), "output_config": more},
        ),
    )


def _read_output(config: Mapping[str, Any]) -> tuple[OutputSchema | None, Mapping[str, Any]]:
    """The form of the answer, and what else the field says."""
    wire = config.get("format")
    if not isinstance(wire, Mapping) or wire.get("type") != "json_schema":
        return None, config
    body = fit(wire, JsonSchema, at="output_config.format")
    return OutputSchema(schema=body.schema), without(config, ["format"])


# ── Messages ────────────────────────────────────────────────────────────────────────


class _History:
    """The messages of a request, read one after the other."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""

    def read(self, native: Any, at: str) -> Iterator[Message]:
        message = fit(native, shapes.InputMessage, at=at)
        if message.role not in _ROLES:
            raise refuse_role(at, message.role, known=_ROLES)
        role = _ROLES[message.role]
        if not isinstance(message.content, list):
            text = _without_billing(message.content or "") if at == _SYSTEM else message.content
            yield Message(role, (Text(text),) if text else (), Native(PROTOCOL, (native,)))
            return
        where = at if at == _SYSTEM else f"{at}.content"
        read = [
            self._block(block, f"{where}[{place}]", role=role)
            for place, block in enumerate(message.content)
        ]
        paired = list(zip(read, message.content, strict=True))
        # Results come first, or are moved there: upstreams accept them nowhere else.
        ordered = sorted(paired, key=lambda pair: not isinstance(pair[0], CallResult))
        for are_results, group in groupby(ordered, lambda pair: isinstance(pair[0], CallResult)):
            some = list(group)
            wire = {**native, "content": [block for _, block in some]}
            parts = tuple(part for part, _ in some if at != _SYSTEM or not _is_billing(part))
            yield Message(Role.TOOL if are_results else role, parts, Native(PROTOCOL, (wire,)))

    def _block(self, block: Any, at: str, *, role: Role) -> Part:
        kind = read_kind(block, at)
        if kind in _OF_MODELS and role is not Role.ASSISTANT:
            raise refuse(at, f"a block of the type {kind!r} can only be the assistant's")
        reader = _BLOCKS.get(kind)
        return reader(self, block, at) if reader is not None else _CONTENT.read_part(block, at)

    def read_call(self, block: Any, at: str) -> Part:
        call = fit(block, shapes.PastToolUse, at=at)
        id = read_id(call.id)
        self._names[id] = call.name
        arguments, _ = read_arguments(call.input)
        extras = pick(block, CALL_EXTRAS)
        return PastCall(id=id, name=call.name, arguments=arguments, extras=extras)

    def read_result(self, block: Any, at: str) -> Part:
        result = fit(block, shapes.ToolResultBlock, at=at)
        id = read_id(result.tool_use_id)
        content = tuple(_read_result_content(result.content, f"{at}.content"))
        output = Result(content, failed=bool(result.is_error))
        return CallResult(call_id=id, name=self._names.get(id, ""), result=output)

    def read_thinking(self, block: Any, at: str) -> Part:
        thinking = fit(block, shapes.ThinkingBlock, at=at)
        signed = {"signature": thinking.signature} if thinking.signature else {}
        return Reasoning(thinking.thinking, signed)

    def read_redacted(self, block: Any, at: str) -> Part:
        return Reasoning("", {"redacted_thinking": fit(block, shapes.RedactedBlock, at=at).data})


# The field that holds what is said before all messages; it is read like one.
_SYSTEM = "system"
# Claude Code writes this before its instructions, anew for each request. It is for Anthropic only,
# and would keep every other provider from finding the prompt in its cache
# (https://github.com/anthropics/claude-code/issues/68900).
_BILLING = "x-anthropic-billing-header:"


def _is_billing(part: Part) -> bool:
    return isinstance(part, Text) and part.text.startswith(_BILLING)


def _without_billing(text: str) -> str:
    return text.partition("\n")[2].lstrip() if text.startswith(_BILLING) else text


_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM}
_OF_MODELS = frozenset({"tool_use", "thinking", "redacted_thinking"})
_BLOCKS: dict[str, Callable[[_History, Any, str], Part]] = {
    "tool_use": _History.read_call,
    "tool_result": _History.read_result,
    "thinking": _History.read_thinking,
    "redacted_thinking": _History.read_redacted,
}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_result_content(content: str | list[Any] | None, at: str) -> Iterator[Text | Media]:
    """Read a result. A block that no other protocol has is written as it is."""
    for part in _CONTENT.read(content, at):
        if isinstance(part, Native):
            yield Text(json.dumps(part.value, ensure_ascii=False))
        else:
            yield part


def _read_media(block: Any, at: str) -> Media | Native:
    fields = fit(block, shapes.MediaBlock, at=at)
    source, kind, name = fields.source, block["type"], fields.title or ""
    data = str(source.data or "")
    match source.type:
        case "base64":
            return Media(kind=kind, media_type=source.media_type, data=data, name=name)
        case "url":
            return Media(kind=kind, url=source.url or "", name=name)
    text = data if source.type == "text" else _join_texts(source.content)
    if text is None:
        return Native(PROTOCOL, block)  # a file that Anthropic holds, or a document with images
    data = base64.b64encode(text.encode("utf-8", "replace")).decode()
    media_type = source.media_type or "text/plain"
    return Media(kind=kind, media_type=media_type, data=data, name=name)


def _join_texts(content: object) -> str | None:
    """The text of a document that is made of blocks; None if it holds anything else."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [each["text"] for each in blocks if isinstance(each, dict) and "text" in each]
    return "\n".join(map(str, texts)) if texts and len(texts) == len(blocks) else None


def _read_found(part: Any, at: str) -> Text | Native:
    """Read a search result as its text, if it has one."""
    found = fit(part, shapes.FoundBlock, at=at)
    texts = [each.text for each in found.content if each.text]
    if not texts:
        return Native(PROTOCOL, part)
    return Text("\n".join([*filter(None, (found.title, found.source)), *texts]))


_CONTENT = ContentForm(
    protocol=PROTOCOL,
    text="text",
    writers={"image": _write_image, "document": _write_document},
    readers={
        "text": read_text,
        "image": _read_media,
        "document": _read_media,
        "search_result": _read_found,
    },
)
