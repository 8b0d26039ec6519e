"""Requests of OpenAI's chat completions: encode for an upstream, decode from a client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import Any, TypeAlias

from wholecall.events import Call, Reasoning, Text
from wholecall.messages import (
    NO_OPTIONS,
    CallResult,
    Choice,
    EncodedChoice,
    Field,
    Media,
    Message,
    Mode,
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
    Wire,
    allow_all,
    field_of,
    list_words,
    read_choice,
    restrict,
)
from wholecall.protocols.decoder import CUSTOM, plain, present
from wholecall.protocols.history import System, Target, keep_text, read_arguments, write_arguments
from wholecall.protocols.history_repair import mend
from wholecall.protocols.openai_chat import shapes
from wholecall.protocols.openai_chat.history import (
    CAP,
    HISTORY,
    NEW_CAP,
    ChatTraits,
    carried_by,
    chat_efforts,
    chat_traits,
)
from wholecall.protocols.request_fields import (
    ANY_OBJECT,
    ContentForm,
    ContentPart,
    JsonSchema,
    complete,
    define_tool,
    fit,
    foreign_options,
    is_closed,
    keep_rest,
    list_tools,
    media_in,
    natives_of,
    pick,
    read_address,
    read_data,
    read_format,
    read_id,
    read_options,
    read_refusal,
    read_text,
    read_tools,
    refuse_role,
    rest_of,
    speak,
    thought_of,
    without,
    write_address,
    write_format,
    write_user,
)
from wholecall.protocols.tool_kinds import (
    INPUT,
    WireNames,
    express_choice,
    kinds_of,
    read_input,
    settle_choice,
    text_tool,
)

PROTOCOL = "openai-chat"
CALL_EXTRAS = ("extra_content", "thought_signature", "provider_specific_fields")
"""Fields that upstreams of this protocol want back with a call."""
DETAILS = ("reasoning_details", "thinking_blocks")
"""Lists that upstreams of this protocol want back with their reasoning."""
_WITH_USAGE = {"include_usage": True}


def encode(request: Request, target: Target | None = None) -> dict[str, Any]:
    """The body of a request."""
    rest = rest_of(request, PROTOCOL)
    traits = chat_traits(request.model)
    target = _place_system(target or traits.target, request.one_system)
    kinds = kinds_of(request.tools, PROTOCOL)
    sealed = traits.target.reasoning_required
    messages = list(_write_messages(request.messages, kinds, sealed=sealed))
    mended = mend(HISTORY, messages, target=target)
    tools = list_tools(request, PROTOCOL, write=write_tool, read=read_kinds)
    chooses = request.choice != Choice() and bool(tools)
    choice = CHOICE.encode(express_choice(request.choice, kinds)).fields if chooses else {}
    body = {
        "model": request.model,
        "messages": [*mended.system, *mended.messages],
        "tools": tools or None,
        **choice,
        "stream": request.stream,
        "stream_options": _WITH_USAGE if request.stream and traits.usage_on_demand else None,
        _name_cap(traits, rest): request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "response_format": _write_output(request.output),
        **_write_options(request, traits),
    }
    return complete(body, _keep(rest, request))


def carried_options(request: Request) -> frozenset[str]:
    """Return the options that the upstream of a request takes."""
    efforts = chat_efforts(request.model, tools=bool(request.tools))
    return chat_traits(request.model).options | carried_by(request, efforts)


def _write_options(request: Request, traits: ChatTraits) -> dict[str, Any]:
    options = foreign_options(request, PROTOCOL)
    if options == NO_OPTIONS:
        return {}
    efforts = chat_efforts(request.model, tools=bool(request.tools))
    named = "safety_identifier" if "tier" in traits.options else "user"
    written = {
        "verbosity": ("verbosity", options.verbosity or None),
        "cache_key": ("prompt_cache_key", options.cache_key or None),
        "tier": ("service_tier", options.tier or None),
        "user": (named, write_user(options.user)),
    }
    taken = (field for name, field in written.items() if name in traits.options)
    return {"reasoning_effort": options.effort_among(efforts), **dict(taken)}


OPTION_FIELDS = {
    "effort": ("reasoning_effort",),
    "verbosity": ("verbosity",),
    "cache_key": ("prompt_cache_key",),
    "tier": ("service_tier",),
    "user": ("safety_identifier", "user"),
}
_READ = ("tools", CAP, NEW_CAP, "response_format", "stream_options")
KNOWN_FIELDS = frozenset({*chain(*OPTION_FIELDS.values()), *_READ})


def _place_system(target: Target, one_system: bool | None) -> Target:
    if one_system is None:
        return target
    return replace(target, system=System.FIRST if one_system else System.ANYWHERE)


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


def read_kinds(definition: Any, at: str) -> Sequence[ToolSpec] | None:
    """Read the definition of a custom tool, which takes free text; None for any other."""
    if not isinstance(definition, Mapping) or definition.get("type") != CUSTOM:
        return None
    fields = fit(definition.get(CUSTOM), shapes.CustomTool, at=f"{at}.{CUSTOM}")
    grammar = fields.format.grammar if fields.format is not None else None
    return [
        text_tool(
            ToolKind(PROTOCOL, CUSTOM, fields.name),
            description=fields.description or "",
            syntax=grammar.syntax if grammar is not None else "",
            grammar=grammar.definition if grammar is not None else "",
        )
    ]


def write_tool(spec: ToolSpec) -> dict[str, Any]:
    """Define a tool."""
    function = define_tool(spec, "parameters")
    if spec.strict and is_closed(function["parameters"]):
        function["strict"] = True
    return {"type": "function", "function": function}


def _write_output(output: OutputSchema | None) -> dict[str, Any] | None:
    if output is None:
        return None
    if output.any_object:
        return {"type": "json_object"}
    schema = {"name": output.name, "schema": output.schema, "strict": output.strict}
    return {"type": "json_schema", "json_schema": schema}


# ── Messages ────────────────────────────────────────────────────────────────────────


def _write_messages(
    messages: Iterable[Message], kinds: Mapping[str, ToolKind], *, sealed: bool
) -> Iterator[Any]:
    """`sealed`: reasoning must go back, and another provider's is better than none."""
    for are_results, group in groupby(messages, lambda each: each.role is Role.TOOL):
        same_role = list(group)
        for message in same_role:
            natives = natives_of(message, PROTOCOL)
            wire = natives if natives is not None else _write(message, kinds, sealed=sealed)
            yield from wire
        if are_results:
            yield from _show_media(same_role)


def _results(message: Message) -> list[CallResult]:
    return [part for part in message.parts if isinstance(part, CallResult)]


def _write(message: Message, kinds: Mapping[str, ToolKind], *, sealed: bool) -> Iterable[Any]:
    if message.role is Role.TOOL:
        return map(_write_result, _results(message))
    if message.role is Role.ASSISTANT:
        return [_write_answer(message, kinds, sealed=sealed)]
    return [{"role": message.role.value, "content": _CONTENT.write(message.parts)}]


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
        yield {"role": "user", "content": _CONTENT.write(shown)}


def _write_answer(
    message: Message, kinds: Mapping[str, ToolKind], *, sealed: bool
) -> dict[str, Any]:
    past = [part for part in message.parts if isinstance(part, PastCall)]
    calls = [_write_past_call(call, kinds.get(call.name)) for call in past]
    thoughts = [part for part in message.parts if isinstance(part, Reasoning)]
    return {
        "role": "assistant",
        "content": message.text or None,
        **_write_reasoning(thoughts, sealed=sealed),
        **({"tool_calls": calls} if calls else {}),
    }


def write_call(
    call: Call | PastCall, arguments: str, *, kind: ToolKind | None = None
) -> dict[str, Any]:
    """Write an entry of `tool_calls`, with the fields that this protocol wants back with it."""
    if kind is not None:
        custom = {"name": kind.name, "input": read_input(call.arguments)}
        return {"id": call.id, "type": CUSTOM, CUSTOM: custom}
    entry = {"id": call.id, "type": "function"}
    function = {"name": call.name, "arguments": arguments}
    return {**entry, "function": function, **pick(call.extras, CALL_EXTRAS)}


def _write_past_call(call: PastCall, kind: ToolKind | None) -> dict[str, Any]:
    text = call.raw or write_arguments(plain(call.arguments))[0]
    return write_call(call, text, kind=kind)


def _write_reasoning(parts: Sequence[Reasoning], *, sealed: bool) -> dict[str, Any]:
    """Plain reasoning and this protocol's details; what is sealed by another has no place here."""
    own = [part for part in parts if not part.extras.keys().isdisjoint(DETAILS)]
    texts = (part.text if part in own else thought_of(part, sealed=sealed) for part in parts)
    fields: dict[str, Any] = {"reasoning_content": "".join(texts)}
    for key in DETAILS:
        fields[key] = [entry for part in own for entry in part.extras.get(key, ())]
    return {key: value for key, value in fields.items() if value}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _write_image(part: Media) -> dict[str, Any]:
    detail = "high" if part.detail == "original" else part.detail  # the closest of this protocol
    image = {"url": write_address(part), "detail": detail or None}
    return {"type": "image_url", "image_url": present(image)}


def _write_audio(part: Media) -> dict[str, Any] | None:
    if not part.data:
        return None
    return {"type": "input_audio", "input_audio": {"data": part.data, "format": write_format(part)}}


def _write_file(part: Media) -> dict[str, Any] | None:
    if not part.data or part.plain_text is not None:
        return None
    file = {"file_data": write_address(part), "filename": part.name or "document"}
    return {"type": "file", "file": file}


# Requests to OpenAI's chat completions, as its clients send them.
#
# `functions`, `function_call` and the role `function` are what tools were before there were
# `tool_calls`. They are read as tools; the messages are not kept in their old form.


_Wire: TypeAlias = Mapping[str, Any]

# ── Decoding ────────────────────────────────────────────────────────────────────────

# The types of a definition that is a function of the client's.
_FUNCTIONS = (None, "function")


def decode(body: Mapping[str, Any]) -> Request:
    """Read the body of a request."""
    fields = fit(body, shapes.ChatBody)
    wrapped = [{"type": "function", "function": each} for each in fields.functions or ()]
    tools = read_tools(
        [*(fields.tools or ()), *wrapped],
        PROTOCOL,
        functions=_FUNCTIONS,
        write=write_tool,
        read=read_kinds,
    )
    choice = read_choice(CHOICE, _say_one(body), offered=tools.names)
    output, more = _read_output(fields.response_format)
    stop = [fields.stop] if isinstance(fields.stop, str) else fields.stop or []
    history = _History(WireNames(tools.specs, PROTOCOL))
    return Request(
        model=fields.model,
        messages=tuple(history.read(each, at) for at, each in enumerate(fields.messages)),
        tools=tools.specs,
        native_tools=tools.natives,
        choice=settle_choice(choice, tools.specs, protocol=PROTOCOL),
        stream=bool(fields.stream),
        max_tokens=_cap(fields),
        temperature=fields.temperature,
        top_p=fields.top_p,
        stop=tuple(stop),
        output=output,
        options=read_options(
            body, effort=body.get("reasoning_effort"), verbosity=body.get("verbosity")
        ),
        rest=keep_rest(
            PROTOCOL,
            body,
            read=shapes.ChatBody.__struct_fields__,
            more={"tools": list(tools.said), "response_format": more, **_keep_cap(fields)},
        ),
    )


def knows_only_functions(body: Mapping[str, Any]) -> bool:
    """Return True if a client reads the deprecated `function_call` instead of `tool_calls`."""
    return bool(body.get("functions")) and not body.get("tools")


def _say_one(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Limit a client that reads one call to one call."""
    return {**body, "parallel_tool_calls": False} if knows_only_functions(body) else body


def _cap(fields: shapes.ChatBody) -> int | None:
    new, old = fields.max_completion_tokens, fields.max_tokens
    return old if new is None else new


def _keep_cap(fields: shapes.ChatBody) -> dict[str, Any]:
    """Remember which name of the output limit the client used, where it is not the usual one."""
    usual = chat_traits(fields.model).cap or CAP
    used = CAP if fields.max_completion_tokens is None else NEW_CAP
    return {used: _cap(fields)} if _cap(fields) is not None and used != usual else {}


def _read_output(
    wire: Mapping[str, Any] | None,
) -> tuple[OutputSchema | None, Mapping[str, Any] | None]:
    """The form of the answer, and what else the field says."""
    if wire is not None and wire.get("type") == "json_object":
        return ANY_OBJECT, without(wire, ["type"])
    if wire is None or wire.get("type") != "json_schema":
        return None, wire
    at = "response_format.json_schema"
    said = fit(wire.get("json_schema"), dict[str, Any], at=at)
    if said.get("schema") is None:
        return None, wire
    body = fit(said, JsonSchema, at=at)
    more = without(said, JsonSchema.__struct_fields__)
    output = OutputSchema(schema=body.schema, name=body.name, strict=bool(body.strict))
    return output, {"json_schema": more} if more else None


# ── Messages ────────────────────────────────────────────────────────────────────────


class _History:
    """The messages of a request, read one after the other."""

    def __init__(self, tools: WireNames) -> None:
        self._tools = tools
        self._names: dict[str, str] = {}
        """The tools of earlier calls, by the ids of the calls."""
        self._unanswered = ""
        """The id that was given to the latest `function_call`."""
        self._at = 0

    def read(self, native: Any, at: int) -> Message:
        self._at = at
        message = fit(native, shapes.ChatMessage, at=f"messages[{at}]")
        if message.role not in _READERS:
            raise refuse_role(f"messages[{at}]", message.role, known=_READERS)
        role, reader = _READERS[message.role]
        parts = tuple(reader(self, message, native))
        old = message.role == "function" or message.function_call is not None
        return Message(role, parts, None if old else Native(PROTOCOL, (native,)))

    def read_said(self, message: shapes.ChatMessage, _: _Wire) -> Sequence[Part]:
        return self._content(message.content)

    def read_answer(self, message: shapes.ChatMessage, native: _Wire) -> Sequence[Part]:
        thought = message.reasoning_content or message.reasoning
        details = {key: native[key] for key in DETAILS if native.get(key)}
        return [
            *([Reasoning(thought)] if thought else []),
            *([Reasoning("", details)] if details else []),
            *self._content(message.content),
            *([Text(message.refusal)] if message.refusal else []),
            *self._calls(message),
        ]

    def read_result(self, message: shapes.ChatMessage, _: _Wire) -> Sequence[Part]:
        id = read_id(message.tool_call_id)
        return [self._result(message, id)]

    def read_old_result(self, message: shapes.ChatMessage, _: _Wire) -> Sequence[Part]:
        id, self._unanswered = self._unanswered, ""
        return [self._result(message, id)]

    def _result(self, message: shapes.ChatMessage, id: str) -> CallResult:
        parts = self._content(message.content)
        content = tuple(part for part in parts if isinstance(part, Text | Media))
        name = message.name or self._names.get(id, "")
        return CallResult(call_id=id, name=name, result=Result(content))

    def _calls(self, message: shapes.ChatMessage) -> list[Part]:
        calls = [self._call(native, place) for place, native in enumerate(message.tool_calls or ())]
        if message.function_call is not None:
            self._unanswered = f"function_call_{self._at}"
            calls.append(self._remember(self._unanswered, message.function_call))
        return calls

    def _call(self, native: Mapping[str, Any], place: int) -> Part:
        entry = fit(native, shapes.PastToolCall, at=f"messages[{self._at}].tool_calls[{place}]")
        id = read_id(entry.id)
        if entry.function is None and entry.custom is None:
            return Native(PROTOCOL, native)
        if entry.function is None:
            custom = entry.custom or shapes.CustomCall()
            name = self._names[id] = self._tools.find(CUSTOM, custom.name or "")
            return PastCall(id=id, name=name, arguments={INPUT: custom.input or ""})
        return replace(self._remember(id, entry.function), extras=pick(native, CALL_EXTRAS))

    def _remember(self, id: str, function: shapes.FunctionEntry) -> PastCall:
        name = self._names[id] = function.name or ""
        arguments, lost = read_arguments(function.arguments)
        raw = keep_text(function.arguments, lost)
        return PastCall(id=id, name=name, arguments=arguments, raw=raw)

    def _content(self, content: str | list[Any] | None) -> Sequence[Part]:
        return _CONTENT.read(content, f"messages[{self._at}].content")


_READERS: dict[
    str, tuple[Role, Callable[[_History, shapes.ChatMessage, _Wire], Sequence[Part]]]
] = {
    "system": (Role.SYSTEM, _History.read_said),
    "developer": (Role.SYSTEM, _History.read_said),
    "user": (Role.USER, _History.read_said),
    "assistant": (Role.ASSISTANT, _History.read_answer),
    "tool": (Role.TOOL, _History.read_result),
    "function": (Role.TOOL, _History.read_old_result),
}


# ── Content ─────────────────────────────────────────────────────────────────────────


def _read_image(part: Any, at: str) -> ContentPart:
    image = fit(part, shapes.ImagePart, at=at).image_url
    if isinstance(image, str):
        return read_address("image", image)
    return replace(read_address("image", image.url), detail=image.detail or "")


def _read_audio(part: Any, at: str) -> ContentPart:
    audio = fit(part, shapes.AudioPart, at=at).input_audio
    return Media(kind="audio", media_type=read_format(audio.format), data=audio.data)


def _read_file(part: Any, at: str) -> ContentPart:
    file = fit(part, shapes.FilePart, at=at).file
    if file.file_data is None:  # a file that OpenAI holds
        return Native(PROTOCOL, part)
    return read_data(file.file_data, file.filename)


_CONTENT = ContentForm(
    protocol=PROTOCOL,
    text="text",
    writers={"image": _write_image, "audio": _write_audio, "document": _write_file},
    readers={
        "text": read_text,
        "refusal": read_refusal,
        "image_url": _read_image,
        "input_audio": _read_audio,
        "file": _read_file,
    },
)


# ── The choice of tools ────────────────────────────────────────────────────────────────
# The same choices in both of OpenAI's protocols, differently wrapped:
#
# | choice        | chat                                                | Responses              |
# |---------------|-----------------------------------------------------|------------------------|
# | all tools     | `"auto"`, `"none"`, `"required"`                    | the same               |
# | one tool      | `{"type": "function", "function": {"name": …}}`     | the name not nested    |
# | some tools    | `{"type": "allowed_tools", "allowed_tools": {…}}`   | the body not nested    |
# | its own tools | —                                                   | `{"type": "shell"}`, … |
# | one at a time | `parallel_tool_calls: false` beside it              | the same               |

_Reader: TypeAlias = Callable[[Field, Offered], Tool]

WORDS = {"auto": Mode.AUTO, "none": Mode.NONE, "required": Mode.REQUIRED}
# Mistral's chat endpoint says `any` for `required`.
_CHAT_WORDS = {**WORDS, "any": Mode.REQUIRED}
_LEGACY_WORDS = {"auto": Mode.AUTO, "none": Mode.NONE}
_ALLOWED_MODES = {"auto": Mode.AUTO, "required": Mode.REQUIRED}


@dataclass(frozen=True, slots=True)
class OpenAIForm:
    """The form in which one of the two protocols writes a choice."""

    words: Mapping[str, Mode]
    readers: Mapping[str, _Reader]
    """Readers of a tool's name, by the tool's type."""
    write: Callable[[Tool], dict[str, Any] | None]
    wrapped: bool
    """True if the body of `allowed_tools` is nested under a second key of that name."""
    legacy: bool
    """True if the deprecated `function_call` is read."""

    def decode(self, request: Wire, offered: Offered) -> Choice:
        """Read the choice from a request's fields."""
        parallel = field_of(request, "parallel_tool_calls").read_flag(default=True)
        choice = field_of(request, "tool_choice")
        old = field_of(request, "function_call")
        if self.legacy and old.value is not None:
            said = _decode_legacy(old, offered, parallel=parallel)
            if choice.value is not None and said != self._decode_new(choice, offered, default=said):
                raise old.refuse("the same as tool_choice, or only one of them")
            return said
        default = allow_all(Mode.AUTO, parallel=parallel)
        return self._decode_new(choice, offered, default=default)

    def _decode_new(self, choice: Field, offered: Offered, *, default: Choice) -> Choice:
        """Read `tool_choice`; calls are in parallel as in `default`, which holds without it."""
        parallel = default.parallel
        if choice.value is None:
            return default
        if not isinstance(choice.value, Mapping):
            return allow_all(choice.read_word(self.words), parallel=parallel)
        if choice.value.get("type") == "allowed_tools":
            return self._decode_allowed(choice, offered, parallel=parallel)
        tool = self._read_tool(choice, offered, types=[*self.readers, "allowed_tools"])
        return restrict(Mode.REQUIRED, [tool], parallel=parallel)

    def _decode_allowed(self, choice: Field, offered: Offered, *, parallel: bool) -> Choice:
        body = choice.member("allowed_tools") if self.wrapped else choice
        mode = body.member("mode").read_word(_ALLOWED_MODES)
        refs = body.member("tools")
        if not isinstance(refs.value, list) or not refs.value:
            raise refs.refuse("a list of at least one tool")
        tools = [
            self._read_tool(Field(f"{refs.param}[{place}]", ref), offered, types=self.readers)
            for place, ref in enumerate(refs.value)
        ]
        return restrict(mode, tools, parallel=parallel)

    def _read_tool(self, ref: Field, offered: Offered, *, types: Collection[str]) -> Tool:
        kind = ref.member("type")
        if not isinstance(kind.value, str) or kind.value not in self.readers:
            raise kind.refuse(list_words(types))
        return self.readers[kind.value](ref, offered)

    def encode(self, choice: Choice) -> EncodedChoice:
        """Say a choice in the protocol's words."""
        written = {tool: self.write(tool) for tool in choice.tools}
        refs = [ref for ref in written.values() if ref is not None]
        unsaid = tuple(tool for tool in choice.specials if written[tool] is None)
        if choice.tools and not refs:
            # Nothing that may be called can be named, and nothing else may be called.
            return EncodedChoice({"tool_choice": "none"}, unsaid=unsaid)
        fields = {"tool_choice": self._encode_value(choice.mode, refs)}
        if not choice.parallel:
            fields["parallel_tool_calls"] = False
        return EncodedChoice(fields, unsaid=unsaid)

    def _encode_value(self, mode: Mode, refs: list[dict[str, Any]]) -> Any:
        if not refs:
            return mode.value
        if mode is Mode.REQUIRED and len(refs) == 1:
            return refs[0]
        body: dict[str, Any] = {"mode": mode.value, "tools": refs}
        return {"type": "allowed_tools", **({"allowed_tools": body} if self.wrapped else body)}


def _decode_legacy(old: Field, offered: Offered, *, parallel: bool) -> Choice:
    if isinstance(old.value, Mapping):
        return restrict(Mode.REQUIRED, [old.read_name(offered)], parallel=parallel)
    return allow_all(old.read_word(_LEGACY_WORDS), parallel=parallel)


# ── How a tool of each type is named ────────────────────────────────────────────────


def _read_nested(kind: str) -> Callable[[Field, Offered], str]:
    return lambda ref, offered: ref.member(kind).read_name(offered)


def read_custom(name: Callable[[Field, Offered], str]) -> _Reader:
    """Make the reader of a custom tool from the reader of its name."""
    return lambda ref, offered: Special("custom", name(ref, offered))


def _write_chat_tool(tool: Tool) -> dict[str, Any] | None:
    if isinstance(tool, str):
        return {"type": "function", "function": {"name": tool}}
    return {"type": "custom", "custom": {"name": tool.name}} if tool.type == "custom" else None


CHOICE = OpenAIForm(
    words=_CHAT_WORDS,
    readers={"function": _read_nested("function"), "custom": read_custom(_read_nested("custom"))},
    write=_write_chat_tool,
    wrapped=True,
    legacy=True,
)
