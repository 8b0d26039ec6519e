"""The history of OpenAI's chat protocol: one message a turn, one message a result.

Many upstreams speak it. What each of them accepts is known by the names of their models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wholecall.messages import Request
from wholecall.protocols.history import (
    LETTERS_AND_DIGITS,
    Aside,
    ChangeKind,
    HistoryForm,
    IdRule,
    Mending,
    Piece,
    ReasoningRule,
    Spot,
    StoredCall,
    StoredOutput,
    StoredResult,
    StoredTurn,
    System,
    Target,
    Wire,
    find_by_model,
    is_blank,
    read_id,
    tidy,
    write_arguments,
)
from wholecall.protocols.request_fields import SAMPLING

_OUTPUT = StoredOutput("content", "text")
# OpenRouter's details and LiteLLM's blocks carry signatures; the plain texts do not.
_PLAIN_REASONING = ("reasoning_content", "reasoning")
_REASONING_DROPPED: dict[ReasoningRule, tuple[str, ...]] = {
    ReasoningRule.ALL: (),
    ReasoningRule.SIGNED: _PLAIN_REASONING,
    ReasoningRule.NONE: (*_PLAIN_REASONING, "reasoning_details", "thinking_blocks"),
}
_SIGNATURES = ("extra_content", "provider_specific_fields", "thought_signature")
# What an assistant's message may hold and still say nothing.
_ENVELOPE = frozenset({"role", "content", "name"})


def _split(messages: Sequence[Any], mending: Mending) -> list[Piece]:
    pieces = (_read(message, Spot(at, mending)) for at, message in enumerate(messages))
    return [piece for piece in pieces if piece is not None]


def _read(message: Any, spot: Spot) -> Piece | None:
    role = message.get("role") if isinstance(message, Mapping) else None
    reader = _READERS.get(role) if isinstance(role, str) else None
    return reader(message, spot) if reader else Aside(spot.at, message, opaque=True)


def _read_said(message: Wire, spot: Spot) -> Piece:
    if isinstance(message.get("content"), str):
        return Aside(spot.at, message)  # only parts can be blank
    tidied = tidy(message, spot)
    return Aside(spot.at, {**tidied, "content": ""} if tidied.get("content") == [] else tidied)


def _read_result(message: Wire, spot: Spot) -> Piece:
    filled = _OUTPUT.fill_blank(message, spot)
    return StoredResult(spot.at, read_id(message, "tool_call_id"), filled)


def _read_assistant(message: Wire, spot: Spot) -> Piece | None:
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        return _read_answer(message, spot)
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        return Aside(spot.at, message, opaque=True)
    entries = tuple(_read_call(call, spot) for call in calls)
    frame = tidy(_drop_reasoning(_restore(message, spot), spot), spot)
    if frame.get("content") == []:
        frame = {**frame, "content": None}
    return StoredTurn(spot.at, entries, frame)


def _read_answer(message: Wire, spot: Spot) -> Piece | None:
    """An answer without calls. One that says nothing is refused by many upstreams."""
    if message.get("tool_calls") == []:
        spot.note(ChangeKind.BLANK_DROPPED, "tool_calls")
        message = _without(message, ["tool_calls"])
    message = tidy(_drop_reasoning(message, spot), spot)
    content = message.get("content")
    if content is not None and content != [] and not is_blank(content):
        return Aside(spot.at, message)
    if any(value for key, value in message.items() if key not in _ENVELOPE):
        return Aside(spot.at, {**message, "content": None} if content == [] else message)
    spot.note(ChangeKind.BLANK_DROPPED, "message")
    return None


_READERS: dict[str, Callable[[Wire, Spot], Piece | None]] = {
    "assistant": _read_assistant,
    "tool": _read_result,
    "user": _read_said,
    "system": _read_said,
    "developer": _read_said,
    "function": _read_said,
}


def _read_call(native: Wire, spot: Spot) -> StoredCall:
    id = read_id(native, "id")
    if not spot.target.signatures and not native.keys().isdisjoint(_SIGNATURES):
        spot.note(ChangeKind.SIGNATURE_DROPPED, id)
        native = _without(native, _SIGNATURES)
    function = native.get("function")
    if not isinstance(function, Mapping):
        return StoredCall(spot.at, id, native)  # a custom tool: its input is any text
    if not native.get("type"):  # some servers leave it out, and OpenAI's refuses what they wrote
        spot.note(ChangeKind.TYPE_ADDED, id)
        native = {**native, "type": "function"}
    text, lost = write_arguments(function.get("arguments"))
    if text == function.get("arguments"):
        return StoredCall(spot.at, id, native)
    spot.note(ChangeKind.ARGUMENTS_EMPTIED if lost else ChangeKind.ARGUMENTS_ENCODED, id)
    return StoredCall(spot.at, id, {**native, "function": {**function, "arguments": text}}, lost)


# ── Reasoning ───────────────────────────────────────────────────────────────────────


def _restore(message: Wire, spot: Spot) -> Wire:
    """Give a message the field that its reader demands, and that its client lost."""
    if not spot.target.reasoning_required or "reasoning_content" in message:
        return message
    spot.note(ChangeKind.REASONING_RESTORED, "reasoning_content")
    return {**message, "reasoning_content": message.get("reasoning") or ""}


def _drop_reasoning(message: Wire, spot: Spot) -> Wire:
    unwanted = _REASONING_DROPPED[spot.target.reasoning]
    found = [key for key in unwanted if key in message]
    if not found:
        return message
    spot.note(ChangeKind.REASONING_DROPPED, ", ".join(found))
    return _without(message, found)


def _without(native: Wire, keys: Collection[str]) -> Wire:
    return {key: value for key, value in native.items() if key not in keys}


# ── Writing ─────────────────────────────────────────────────────────────────────────


def _join(pieces: Sequence[Piece], mending: Mending) -> list[Any]:
    messages: list[Any] = []
    after_result = False
    for piece in pieces:
        if after_result and mending.target.bridge and _is_user(piece):
            mending.note(ChangeKind.BRIDGE_ADDED, piece.at)
            messages.append({"role": "assistant", "content": mending.target.bridge})
        messages.append(_write(piece))
        after_result = isinstance(piece, StoredResult)
    return messages


def _write(piece: Piece) -> Any:
    if isinstance(piece, StoredTurn):
        return {**piece.frame, "tool_calls": piece.natives}
    return piece.native


def _is_user(piece: Piece) -> bool:
    return isinstance(piece, Aside) and not piece.opaque and piece.native["role"] == "user"


def _fill(call: StoredCall, words: str) -> Wire:
    return {"role": "tool", "tool_call_id": call.id, "content": words}


HISTORY = HistoryForm(
    split=_split,
    join=_join,
    call_id="id",
    result_id="tool_call_id",
    fill=_fill,
    annotate=_OUTPUT.annotate,
)


# ── What the upstreams accept ───────────────────────────────────────────────────────


# OpenAI's own endpoint takes ids of up to 40 characters.
OPENAI_CHAT = Target(IdRule(longest=40), reasoning=ReasoningRule.NONE, signatures=False)
_ANY = Target()
# The chat templates of these models take one system message, at the start.
ONE_SYSTEM = Target(system=System.FIRST)
MISTRAL_IDS = IdRule(LETTERS_AND_DIGITS, shortest=9, longest=9)
# Mistral answers "Unexpected role 'user' after role 'tool'", and 422 to fields it does not know.
MISTRAL = Target(
    MISTRAL_IDS,
    reasoning=ReasoningRule.NONE,
    signatures=False,
    system=System.LEADING,
    bridge="I have the results.",
)
# A message with calls keeps its `reasoning_content` in all later requests; an empty one is
# accepted, a missing one is a 400.
DEEPSEEK = Target(reasoning_required=True)
# Gemini's OpenAI-compatible layer wants `extra_content.google.thought_signature` back unchanged.
GEMINI = Target(reasoning=ReasoningRule.NONE)
CAP = "max_tokens"
"""The output limit's name."""
NEW_CAP = "max_completion_tokens"
"""Its newer name, which counts the reasoning, too."""


@dataclass(frozen=True, slots=True)
class ChatTraits:
    """The requirements of the chat endpoint of some models."""

    target: Target = _ANY
    cap: str | None = None
    """The only name of the output limit that it takes; None: both."""
    usage_on_demand: bool = True
    """True if a stream reports its usage only if `stream_options` requests it."""
    options: frozenset[str] = frozenset({"user"})
    """The options that it takes beside the effort, by their names in `ModelOptions`."""
    sampling: bool = True
    """True if `temperature`, `top_p` and `stop` are accepted."""


# OpenAI's reasoning models refuse `max_tokens`. Mistral refuses what it does not know, and it
# does not know `max_completion_tokens` and `stream_options`
# (https://github.com/openai/openai-agents-python/issues/442).
_OPENAI_OPTIONS = frozenset({"cache_key", "tier", "user"})
_OPENAI = ChatTraits(OPENAI_CHAT, NEW_CAP, options=_OPENAI_OPTIONS)
_GPT_5 = ChatTraits(OPENAI_CHAT, NEW_CAP, options=_OPENAI_OPTIONS | {"verbosity"})
# Models that think refuse a temperature (https://github.com/danny-avila/LibreChat/issues/10737).
_REASONER = replace(_OPENAI, sampling=False)
_MISTRAL = ChatTraits(MISTRAL, CAP, usage_on_demand=False, options=frozenset())
_OTHER = ChatTraits()

_CHAT: tuple[tuple[str, ChatTraits], ...] = (
    ("gpt-oss", _OTHER),  # open weights: anybody may serve them
    ("gpt-3", _OPENAI),
    ("gpt-4o-search", _REASONER),
    ("gpt-4o-mini-search", _REASONER),
    ("gpt-4", _OPENAI),
    ("gpt-5-chat", _GPT_5),
    ("gpt-", replace(_GPT_5, sampling=False)),
    ("chatgpt-", _OPENAI),
    ("codex-mini", _REASONER),
    ("o1", _REASONER),
    ("o3", _REASONER),
    ("o4", _REASONER),
    ("mistral", _MISTRAL),
    ("ministral", _MISTRAL),
    ("magistral", _MISTRAL),
    ("codestral", _MISTRAL),
    ("devstral", _MISTRAL),
    ("labs-devstral", _MISTRAL),
    ("pixtral", _MISTRAL),
    ("open-mi", _MISTRAL),
    ("deepseek", ChatTraits(DEEPSEEK)),
    ("qwen", ChatTraits(ONE_SYSTEM)),
    ("qwq", ChatTraits(ONE_SYSTEM)),
    ("gemma", ChatTraits(ONE_SYSTEM)),
    ("phi", ChatTraits(ONE_SYSTEM)),
    ("gemini", ChatTraits(GEMINI)),
)


_SOME = ("low", "medium", "high")
_WIDE = ("none", *_SOME, "xhigh")
_DEEP = (*_SOME, "xhigh")
_PRO = ("medium", "high", "xhigh")
_SMALL = ("minimal", *_SOME)
# The efforts that models take. To one that does not think, most servers refuse the field. Those of
# OpenAI's were tried one by one in the Responses API
# (https://github.com/enricoros/big-AGI/issues/1159).
_EFFORTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpt-oss", _SOME),
    ("gpt-3", ()),
    ("gpt-4", ()),
    ("gpt-5-chat", ()),
    ("gpt-5-codex", _SOME),
    ("gpt-5-pro", ("high",)),
    ("gpt-5.1-chat", ("medium",)),
    ("gpt-5.1-codex-max", _DEEP),
    ("gpt-5.1-codex", _SOME),
    ("gpt-5.1", ("none", *_SOME)),
    ("gpt-5.2-chat", ("medium",)),
    ("gpt-5.2-codex", _DEEP),
    ("gpt-5.3-chat", ()),
    ("gpt-5.3-codex", _DEEP),
    ("gpt-5.2-pro", _PRO),
    ("gpt-5.4-pro", _PRO),
    ("gpt-5.5-pro", _PRO),
    ("gpt-5.6", (*_WIDE, "max")),
    ("gpt-5.", _WIDE),
    ("gpt-5", _SMALL),
    ("gpt-6", (*_DEEP, "max")),
    ("gpt-", _DEEP),
    ("codex-mini", _SOME),
    ("o1-mini", ()),
    ("o1-preview", ()),
    ("o3-deep-research", ("medium",)),
    ("o4-mini-deep-research", ("medium",)),
    ("o1", _SOME),
    ("o3", _SOME),
    ("o4", _SOME),
    # https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/thinking
    ("gemini-1", ()),
    ("gemini-2.0", ()),
    ("gemini-2.5-pro", _SOME),
    ("gemini-2.5", ("none", *_SOME)),
    ("gemini-3-pro", ("low", "high")),
    ("gemini-3-flash", _SMALL),
    ("gemini-3.1-flash", _SMALL),
    ("gemini-3.5-flash", _SMALL),
    ("gemini-", _SOME),
    ("grok-3-mini", ("low", "high")),
    ("grok-4.3", ("none", *_SOME)),
    ("deepseek-v4", ("high", "max")),
)
# With tools, OpenAI takes the effort of these models in Responses only.
_NO_EFFORT_WITH_TOOLS = ("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6")


def efforts_of(model: str) -> tuple[str, ...]:
    """Return the efforts that a model takes in OpenAI's words; none if it is unknown."""
    return find_by_model(model, _EFFORTS, other=())


def chat_efforts(model: str, *, tools: bool) -> tuple[str, ...]:
    """Return the efforts that a model takes in chat completions."""
    name = model.lower().rpartition("/")[2]
    if tools and name.startswith(_NO_EFFORT_WITH_TOOLS):
        return ()
    # The largest of GPT-6 is for Responses only (https://github.com/BerriAI/litellm-docs/pull/1173).
    highest = "max" if name.startswith("gpt-6") else None
    return tuple(word for word in efforts_of(model) if word != highest)


def carried_by(request: Request, efforts: Sequence[str]) -> frozenset[str]:
    """Return whether a model of OpenAI's takes an effort and sampling, by their names.

    Since GPT-5.1 a model takes sampling where it does not think.
    """
    thinks = request.options.effort_among(efforts) != "none"
    sampling = chat_traits(request.model).sampling or not thinks
    return (SAMPLING if sampling else frozenset()) | ({"effort"} if efforts else frozenset())


def chat_traits(model: str) -> ChatTraits:
    """Return the requirements of the chat endpoint of this model."""
    return find_by_model(model, _CHAT, other=_OTHER)
