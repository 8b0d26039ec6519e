"""Requests of OpenAI's Responses API: encode for an upstream, decode from a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import Any, TypeAlias

from wholecall.events import Call, Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Field,
    Media,
    Message,
    Native,
    Offered,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    Special,
    Tool,
    ToolKind,
    ToolSpec,
    read_choice,
)
from wholecall.protocols.decoder import CUSTOM, plain, present
from wholecall.protocols.history import Target, keep_text, read_arguments, write_arguments
from wholecall.protocols.history_repair import mend
from wholecall.protocols.openai_chat.history import carried_by, efforts_of
from wholecall.protocols.openai_chat.request import WORDS, OpenAIForm, read_custom
from wholecall.protocols.openai_responses import history, shapes
from wholecall.protocols.openai_responses.history import (
    BY_CALL,
    BY_RESULT,
    HISTORY,
    OPENAI_RESPONSES,
)
from wholecall.protocols.request_fields import (
    ANY_OBJECT,
    ContentForm,
    ContentPart,
    JsonSchema,
    RequestTools,
    complete,
    define_tool,
    fit,
    foreign_options,
    is_closed,
    keep_rest,
    list_tools,
    media_in,
    member,
    natives_of,
    read_address,
    read_data,
    read_function,
    read_id,
    read_options,
    read_refusal,
    read_text,
    read_tools,
    refuse_role,
    rest_of,
    speak,
    without,
    write_address,
    write_user,
)
from wholecall.protocols.tool_kinds import (
    FUNCTION,
    WireNames,
    express_choice,
    kinds_of,
    name_tools,
    settle_choice,
)

PROTOCOL = history.PROTOCOL
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
    kinds = kinds_of(request.tools, PROTOCOL)
    items = [item for message in messages for item in _write(message, kinds)]
    continues = any(rest.get(name) for name in _CONTINUES)
    mended = mend(HISTORY, items, target=target or OPENAI_RESPONSES, continues=continues)
    tools = list_tools(request, PROTOCOL, write=write_tool, read=history.read_kinds)
    chooses = request.choice != Choice() and bool(tools or kinds)
    choice = CHOICE.encode(express_choice(request.choice, kinds)).fields if chooses else {}
    body = {
        "model": request.model,
        "instructions": instructions,
        "input": [*mended.system, *mended.messages],
        "tools": tools or None,
        **choice,
        "stream": request.stream,
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        **_write_options(request),
    }
    dropped = ["tools"] if request.stream else ["tools", "stream_options"]
    return complete(body, without(rest, dropped))


def carried_options(request: Request) -> frozenset[str]:
    """Return the options that the upstream of a request takes."""
    return _OPTIONS | carried_by(request, efforts_of(request.model)) - {"stop"}


_OPTIONS = frozenset({"verbosity", "cache_key", "tier", "user"})


def _write_options(request: Request) -> dict[str, Any]:
    options = foreign_options(request, PROTOCOL)
    effort = options.effort_among(efforts_of(request.model))
    text = {**_write_output(request.output), **present({"verbosity": options.verbosity or None})}
    return {
        "text": text or None,
        "reasoning": {"effort": effort} if effort else None,
        "prompt_cache_key": options.cache_key or None,
        "service_tier": options.tier or None,
        "safety_identifier": write_user(options.user),
    }


OPTION_FIELDS = {
    "effort": ("reasoning.effort",),
    "verbosity": ("text.verbosity",),
    "cache_key": ("prompt_cache_key",),
    "tier": ("service_tier",),
    "user": ("safety_identifier", "user"),
}
_READ = ("tools", "text", "reasoning", "stream_options")
# Responses are stored here, and repeat what was asked.
_HELD = ("store", "background", "previous_response_id", "metadata")
KNOWN_FIELDS = frozenset({*chain(*OPTION_FIELDS.values()), *_READ, *_HELD})


def _split_instructions(messages: Sequence[Message]) -> tuple[str | None, Sequence[Message]]:
    """Split off the leading instructions, unless they were an item."""
    first = messages[0] if messages else None
    if first is None or first.role is not Role.SYSTEM or natives_of(first, PROTOCOL) is not None:
        return None, messages
    return first.text or None, messages[1:]


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Define a tool. Where `strict` is missing, OpenAI takes it for true and changes the schema."""
    function = define_tool(spec, "parameters")
    strict = spec.strict and is_closed(function["parameters"])
    return {"type": "function", **function, "strict": strict}


def pick_extras(call: Call | PastCall) -> dict[str, Any]:
    """Return the fields that this protocol wants back with a call."""
    return {CALL_EXTRAS[key]: call.extras[key] for key in CALL_EXTRAS if key in call.extras}


def _write_output(output: OutputSchema | None) -> dict[str, Any]:
    if output is None:
        return {}
    if output.any_object:
        return {"format": {"type": "json_object"}}
    schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"format": {"type": "json_schema", **schema}}


# ── Items ───────────────────────────────────────────────────────────────────────────


_Kinds: TypeAlias = Mapping[str, ToolKind]
"""The tools that are not plain functions, by their names."""


def _write(message: Message, kinds: _Kinds) -> Iterator[Any]:
    natives = natives_of(message, PROTOCOL)
    if natives is not None:
        yield from natives
    elif message.role is Role.TOOL:
        results = (part for part in message.parts if isinstance(part, CallResult))
        yield from (_write_result(part, kinds.get(part.name)) for part in results)
    elif message.role is Role.ASSISTANT:
        yield from _write_answer(message, kinds)
    else:
        content = _CONTENT.write(message.parts)
        yield {"type": "message", "role": message.role.value, "content": content}


def _write_result(part: CallResult, kind: ToolKind | None) -> dict[str, Any]:
    item = history.find_form(kind)
    if item is not None and item.type != CUSTOM:
        fields = item.write_result(part.result)
        return {"type": item.result, item.result_id: part.call_id, **fields}
    output: str | list[Any] = speak(part.result)
    if media_in(part.result.content):
        output = _CONTENT.write(part.result.content)
    wire = "function_call_output" if item is None else item.result
    return {"type": wire, "call_id": part.call_id, "output": output}


def _write_answer(message: Message, kinds: _Kinds) -> Iterator[Any]:
    for part, behind in pairwise((*message.parts, None)):
        if isinstance(part, Text):
            yield _write_saying(part, behind)
        elif isinstance(part, PastCall):
            yield _write_call(part, kinds.get(part.name))
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


def _write_call(call: PastCall, kind: ToolKind | None) -> dict[str, Any]:
    extras = pick_extras(call)
    if call.provider_id not in (None, call.id):
        extras.pop("id", None)  # under this id the upstream knows a call by another name
    item = history.find_form(kind)
    if kind is not None and item is not None:
        fields = item.write_call(kind, plain(call.arguments))
        return {"type": item.call, **extras, "call_id": call.id, "status": "completed", **fields}
    text = call.raw or write_arguments(plain(call.arguments))[0]
    named = {"name": call.name} if kind is None else history.wire_name(kind)
    return {"type": "function_call", **extras, "call_id": call.id, **named, "arguments": text}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _write_image(part: Media) -> dict[str, Any]:
    return {
        "type": "input_image",
        "image_url": write_address(part),
        "detail": part.detail or "auto",
    }


def _write_file(part: Media) -> dict[str, Any]:
    if part.url:
        return {"type": "input_file", "file_url": part.url}
    return {
        "type": "input_file",
        "filename": part.name or "document",
        "file_data": write_address(part),
    }


# ── The choice ──────────────────────────────────────────────────────────────────────
#
# The choice in OpenAI's Responses: as in chat completions, without the nesting.


# The tools that the Responses endpoint runs itself and lets a client force by their type.
_HOSTED = (
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use",
    "computer_use_preview",
    "file_search",
    "image_generation",
    "programmatic_tool_calling",
    "shell",
    "web_search",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)


def _read_mcp(ref: Field, _: Offered) -> Tool:
    server, name = ref.member("server_label"), ref.member("name")
    if not isinstance(server.value, str):
        raise server.refuse("the label of an offered MCP server")
    if not isinstance(name.value, str | None):
        raise name.refuse("the name of a tool of that server")
    return Special("mcp", name.value or "", server.value)


def _read_function(ref: Field, offered: Offered) -> Tool:
    name, namespace = ref.read_name(offered), ref.member(history.NAMESPACE)
    if not isinstance(namespace.value, str | None):
        raise namespace.refuse("the name of a namespace")
    return Special(FUNCTION, name, namespace.value) if namespace.value else name


def _read_hosted(ref: Field, _: Offered) -> Tool:
    return Special(ref.read_object()["type"])


def _write_responses_tool(tool: Tool) -> dict[str, Any]:
    if isinstance(tool, str):
        return {"type": "function", "name": tool}
    place = history.NAMESPACE if tool.type in (FUNCTION, CUSTOM) else "server_label"
    ref = {"type": tool.type, place: tool.server, "name": tool.name}
    return {key: value for key, value in ref.items() if value}


CHOICE = OpenAIForm(
    words=WORDS,
    readers={
        "function": _read_function,
        "custom": read_custom(Field.read_name),
        "mcp": _read_mcp,
        **dict.fromkeys(_HOSTED, _read_hosted),
    },
    write=_write_responses_tool,
    wrapped=False,
    legacy=False,
)


# Requests to OpenAI's Responses, as its clients send them.
#
# `input` is a text, or a list of items. A run of items that the model put out (reasoning, words,
# calls, what OpenAI's own tools did) is one message; every other item is a message of its own.
# `previous_response_id` and its like stay with the other fields: the upstream holds what they name.


# ── Decoding ────────────────────────────────────────────────────────────────────────

# The types of a definition that is a function of the client's.
_FUNCTIONS = ("function",)


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, shapes.ResponsesBody)
    tools = _read_all_tools(fields)
    names = WireNames(tools.specs, PROTOCOL)
    choice = read_choice(CHOICE, body, offered=tools.names)
    output, more = _read_format(fields.text or {})
    return Request(
        model=fields.model,
        messages=(
            *_read_messages(fields.instructions, "instructions", role=Role.SYSTEM, names=names),
            *_read_messages(fields.input, "input", role=Role.USER, names=names),
        ),
        tools=tools.specs,
        native_tools=tools.natives,
        choice=settle_choice(choice, tools.specs, protocol=PROTOCOL),
        stream=bool(fields.stream),
        max_tokens=fields.max_output_tokens,
        temperature=fields.temperature,
        top_p=fields.top_p,
        output=output,
        options=read_options(
            body,
            effort=member(body, "reasoning", key="effort"),
            verbosity=member(body, "text", key="verbosity"),
        ),
        rest=keep_rest(
            PROTOCOL,
            body,
            read=shapes.ResponsesBody.__struct_fields__,
            more={"tools": list(tools.said), "text": more},
        ),
    )


def _read_all_tools(fields: shapes.ResponsesBody) -> RequestTools:
    """Read the listed tools, and those that items of the input bring along."""
    listed = read_tools(
        fields.tools, PROTOCOL, functions=_FUNCTIONS, write=write_tool, read=history.read_kinds
    )
    specs, natives = [*listed.specs], [*listed.natives]
    for definition, at in history.read_inline(fields.input):
        found = history.read_kinds(definition, at)
        if found is None and definition.get("type") in _FUNCTIONS:
            found = [read_function(definition, at)]
        if found is None:
            natives.append(Native(PROTOCOL, definition, inline=True))
        specs += map(_place_inline, found or ())
    return RequestTools(name_tools(specs), tuple(natives), listed.said)


def _place_inline(spec: ToolSpec) -> ToolSpec:
    kind = spec.kind or ToolKind(PROTOCOL, FUNCTION, spec.name)
    return replace(spec, kind=replace(kind, inline=True))


def _read_format(text: Mapping[str, Any]) -> tuple[OutputSchema | None, Mapping[str, Any]]:
    """The form of the answer, and what else the field says."""
    wire = text.get("format")
    if wire == {"type": "json_object"}:
        return ANY_OBJECT, without(text, ["format"])
    if not isinstance(wire, Mapping) or wire.get("type") != "json_schema":
        return None, text
    body = fit(wire, JsonSchema, at="text.format")
    output = OutputSchema(schema=body.schema, name=body.name, strict=bool(body.strict))
    more = without(wire, {*JsonSchema.__struct_fields__, "type"})
    return output, {**without(text, ["format"]), **({"format": more} if more else {})}


def _read_messages(
    value: str | list[Any] | None, at: str, *, role: Role, names: WireNames
) -> Iterator[Message]:
    """Read items, or the words of a role."""
    if isinstance(value, list):
        yield from _read_items(value, at, names=names)
    elif value:
        yield Message(role, (Text(value),))


# ── Items ───────────────────────────────────────────────────────────────────────────


def _read_items(items: Sequence[Any], at: str, *, names: WireNames) -> Iterator[Message]:
    read = _Items(names).read
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

    def __init__(self, names: WireNames) -> None:
        self._tools = names
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""

    def read(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        item = fit(native, shapes.InputItem, at=at)
        kind = item.type or ("message" if item.role else "item_reference")
        hosted = kind in _SEARCHES and native.get("execution") != "client"
        reader = None if hosted else _READERS.get(kind)
        if reader is not None:
            return reader(self, native, at)
        models = hosted or kind in _MODELS_ITEMS or kind.endswith("_call")
        return (Role.ASSISTANT if models else Role.USER), [Native(PROTOCOL, native)]

    def read_own_call(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        call, form = fit(native, shapes.PastCallItem, at=at), BY_CALL[native["type"]]
        name = self._tools.find(form.type, call.name, namespace=call.namespace or "")
        return self._remember(native, name, arguments=form.read_call(native))

    def read_own_output(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        form = BY_RESULT[native["type"]]
        if form.read_result is None:
            return self.read_output(native, at)
        id = read_id(fit(native, shapes.PastCallItem, at=at).call_id)
        result = form.read_result(native)
        return Role.TOOL, [CallResult(call_id=id, name=self._names.get(id, ""), result=result)]

    def read_offer(self, _: Any, __: str) -> tuple[Role, Sequence[Part]]:
        """Say nothing: these tools were read with the others."""
        return Role.SYSTEM, []

    def read_message(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        item = fit(native, shapes.InputItem, at=at)
        if item.role not in _ROLES:
            raise refuse_role(at, item.role, known=_ROLES)
        parts: list[Part] = [*_CONTENT.read(item.content, f"{at}.content")]
        envelope = without(native, _NO_ENVELOPE)
        if item.role == "assistant" and parts and envelope:
            parts.append(Reasoning("", {MESSAGE: envelope}))
        return _ROLES[item.role], parts

    def read_call(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        call = fit(native, shapes.PastCallItem, at=at)
        name = self._tools.find(FUNCTION, call.name, namespace=call.namespace or "")
        arguments, lost = read_arguments(call.arguments)
        raw = keep_text(call.arguments, lost)
        return self._remember(native, name, arguments=arguments, raw=raw)

    def _remember(
        self, native: Any, name: str, *, arguments: Mapping[str, Any], raw: str = ""
    ) -> tuple[Role, Sequence[Part]]:
        id = read_id(native.get("call_id"))
        self._names[id] = name
        extras = {
            key: native[field]
            for key, field in CALL_EXTRAS.items()
            if native.get(field) is not None
        }
        part = PastCall(id=id, name=name, arguments=arguments, extras=extras, raw=raw)
        return Role.ASSISTANT, [part]

    def read_reasoning(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        reasoning = fit(native, shapes.ReasoningItem, at=at)
        texts = [*(reasoning.summary or ()), *(reasoning.content or ())]
        text = "".join(each.text or "" for each in texts)
        return Role.ASSISTANT, [Reasoning(text, {ITEM: native})]

    def read_output(self, native: Any, at: str) -> tuple[Role, Sequence[Part]]:
        output = fit(native, shapes.OutputItem, at=at)
        # Of a local shell's output the id is that of the call.
        id = read_id(output.id if output.call_id is None else output.call_id)
        parts = _CONTENT.read(output.output, f"{at}.output")
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
    history.ADDITIONAL_TOOLS: _Items.read_offer,
    **dict.fromkeys(BY_CALL, _Items.read_own_call),
    **dict.fromkeys(BY_RESULT, _Items.read_own_output),
}
# These come from the provider, unless they say that the client acts on them.
_SEARCHES = frozenset({"tool_search_call", history.SEARCH_RESULT})


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_image(part: Any, at: str) -> ContentPart:
    image = fit(part, shapes.ImagePart, at=at)
    if not image.image_url:
        return Native(PROTOCOL, part)
    detail = "" if image.detail == "auto" else image.detail or ""
    return replace(read_address("image", image.image_url), detail=detail)


def _read_file(part: Any, at: str) -> ContentPart:
    file = fit(part, shapes.FilePart, at=at)
    if file.file_data:
        return read_data(file.file_data, file.filename)
    if file.file_url:
        return read_address("document", file.file_url, name=file.filename or "")
    return Native(PROTOCOL, part)  # a file that OpenAI holds


_CONTENT = ContentForm(
    protocol=PROTOCOL,
    text="input_text",
    writers={"image": _write_image, "document": _write_file},
    readers={
        "text": read_text,
        "input_text": read_text,
        "output_text": read_text,
        "refusal": read_refusal,
        "input_image": _read_image,
        "input_file": _read_file,
    },
)
