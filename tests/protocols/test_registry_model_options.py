"""Effort, tiers, users and the like in each protocol's words, and marks for the cache."""

from __future__ import annotations

from typing import Any

import pytest

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Message,
    Mode,
    ModelOptions,
    Native,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.protocols.registry import (
    decode_request,
    encode_request,
    find_dropped,
    limit_of,
    omit_refused,
)
from wholecall.protocols.request_fields import is_closed

HI = Message(Role.USER, (Text("hi"),))
BARE = {"stream": False, "messages": (HI,)}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "required": ["a"], "additionalProperties": False}


def added(protocol: str, model: str, *options: ModelOptions, **fields: Any) -> dict[str, Any]:
    """The fields that options add to a request."""
    [given] = options
    request = Request(model=model, **{**BARE, **fields}, options=given)
    plain = encode_request(protocol, Request(model=model, **{**BARE, **fields}))
    written = encode_request(protocol, request)
    return {name: value for name, value in written.items() if plain.get(name) != value}


def effort(word: str) -> ModelOptions:
    return ModelOptions(effort=word)


ENABLED: dict[str, Any] = {"type": "enabled", "budget_tokens": 8192}
ROWS: list[tuple[str, str, ModelOptions, dict[str, Any]]] = [
    # chat completions
    ("openai-chat", "gpt-5", effort("xhigh"), {"reasoning_effort": "high"}),
    ("openai-chat", "openai/gpt-5.2", effort("xhigh"), {"reasoning_effort": "xhigh"}),
    ("openai-chat", "o3", effort("none"), {"reasoning_effort": "low"}),
    ("openai-chat", "gpt-4o", effort("high"), {}),
    ("openai-chat", "llama", effort("high"), {}),
    ("openai-chat", "gpt-6-codex", effort("max"), {"reasoning_effort": "xhigh"}),
    ("openai-chat", "gpt-5", ModelOptions(budget=31_999), {"reasoning_effort": "high"}),
    ("openai-chat", "gpt-5", ModelOptions(budget=10_000), {"reasoning_effort": "medium"}),
    ("openai-chat", "gpt-5", ModelOptions(budget=4000), {"reasoning_effort": "low"}),
    (
        "openai-chat",
        "gpt-5",
        ModelOptions(verbosity="low", cache_key="k", tier="flex", user="u"),
        {
            "verbosity": "low",
            "prompt_cache_key": "k",
            "service_tier": "flex",
            "safety_identifier": "u",
        },
    ),
    ("openai-chat", "llama", ModelOptions(verbosity="low", cache_key="k", user="u"), {"user": "u"}),
    ("openai-chat", "mistral-large", ModelOptions(user="u", tier="flex"), {}),
    # Responses
    ("openai-responses", "gpt-5.2", effort("none"), {"reasoning": {"effort": "none"}}),
    ("openai-responses", "grok-4", effort("low"), {}),
    (
        "openai-responses",
        "gpt-5",
        ModelOptions(verbosity="high", cache_key="k", tier="priority", user="u"),
        {
            "text": {"verbosity": "high"},
            "prompt_cache_key": "k",
            "service_tier": "priority",
            "safety_identifier": "u",
        },
    ),
    # Anthropic
    (
        "anthropic",
        "claude-opus-4-8",
        effort("minimal"),
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
    ("anthropic", "claude-opus-4-8", effort("none"), {"output_config": {"effort": "low"}}),
    ("anthropic", "claude-sonnet-4-5", effort("medium"), {"thinking": ENABLED}),
    ("anthropic", "claude-sonnet-4-5", effort("none"), {}),
    (
        "anthropic",
        "claude-sonnet-4-5",
        ModelOptions(budget=100),
        {"thinking": {**ENABLED, "budget_tokens": 1024}},
    ),
    ("anthropic", "claude-3-5-haiku-latest", effort("high"), {}),
    ("anthropic", "kimi-k2", effort("medium"), {"thinking": {**ENABLED, "budget_tokens": 7168}}),
    (
        "anthropic",
        "claude-opus-4-8",
        ModelOptions(tier="default"),
        {"service_tier": "standard_only"},
    ),
    ("anthropic", "claude-opus-4-8", ModelOptions(tier="flex"), {"service_tier": "auto"}),
    ("anthropic", "kimi-k2", ModelOptions(tier="auto"), {}),
    ("anthropic", "kimi-k2", ModelOptions(user="u"), {"metadata": {"user_id": "u"}}),
    # Gemini
    (
        "gemini",
        "gemini-3-pro",
        effort("max"),
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high"}}},
    ),
    (
        "gemini",
        "gemini-2.5-flash",
        effort("none"),
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
    ),
    ("gemini", "gemini-2.0-flash", effort("high"), {}),
    # Ollama
    ("ollama", "gpt-oss:20b", effort("max"), {"think": "high"}),
    ("ollama", "qwen3:8b", effort("low"), {"think": True}),
    ("ollama", "qwen3:8b", effort("none"), {"think": False}),
    ("ollama", "llama3", effort("low"), {}),
]


# What the providers' own pages, and trials of their APIs, say that each model takes.
EFFORTS: list[tuple[str, str, dict[str, str]]] = [
    ("openai-responses", "gpt-5-codex", {"minimal": "low", "max": "high"}),
    ("openai-responses", "gpt-5-pro", {"low": "high"}),
    ("openai-responses", "gpt-5.1-chat-latest", {"high": "medium"}),
    ("openai-responses", "gpt-5.1-codex", {"none": "low", "xhigh": "high"}),
    ("openai-responses", "gpt-5.1-codex-max", {"none": "low", "xhigh": "xhigh"}),
    ("openai-responses", "gpt-5.2-pro", {"low": "medium", "max": "xhigh"}),
    ("openai-responses", "gpt-5.3-codex", {"minimal": "low", "xhigh": "xhigh"}),
    ("openai-responses", "gpt-5.5", {"none": "none", "minimal": "none", "max": "xhigh"}),
    ("openai-responses", "gpt-5.6-sol", {"none": "none", "max": "max"}),
    ("openai-responses", "gpt-6-astra", {"none": "low", "max": "max"}),
    ("openai-responses", "o3-deep-research", {"high": "medium"}),
    ("openai-responses", "gpt-5.3-chat-latest", {"high": ""}),
    ("openai-chat", "gpt-5.6-sol", {"max": "max"}),
    ("openai-chat", "gpt-6-astra", {"max": "xhigh"}),
    ("openai-chat", "gemini-2.5-pro", {"none": "low"}),
    ("openai-chat", "gemini-3-flash-preview", {"none": "minimal"}),
    ("openai-chat", "gemini-2.0-flash", {"low": ""}),
    ("openai-chat", "deepseek-v4-pro", {"low": "high", "xhigh": "high", "max": "max"}),
    ("gemini", "gemini-3-pro-preview", {"medium": "low", "max": "high"}),
    ("gemini", "gemini-3.1-pro-preview", {"minimal": "low", "medium": "medium"}),
    ("gemini", "gemini-3.1-flash-lite", {"none": "minimal"}),
    ("gemini", "gemini-3.5-flash", {"minimal": "minimal"}),
    ("gemini", "gemini-3.8-flash", {"minimal": "low", "xhigh": "high"}),
    ("gemini-interactions", "gemini-3.8-flash", {"none": "low"}),
    ("anthropic", "claude-sonnet-4-6", {"xhigh": "high", "max": "max"}),
    ("anthropic", "claude-mythos-preview", {"xhigh": "high"}),
    ("anthropic", "claude-opus-5-5", {"xhigh": "xhigh", "none": "low"}),
    ("anthropic", "claude-haiku-4-5", {"high": ""}),
]
BUDGETS = [
    ("gemini-2.5-pro", "none", 128),
    ("gemini-2.5-pro", "max", 32_000),
    ("gemini-2.5-flash", "max", 24_576),
    ("gemini-2.5-flash", "minimal", 1024),
    ("gemini-2.5-flash-lite", "none", 0),
]
_PATHS = {
    "openai-chat": ("reasoning_effort",),
    "openai-responses": ("reasoning", "effort"),
    "gemini": ("generationConfig", "thinkingConfig", "thinkingLevel"),
    "gemini-interactions": ("generation_config", "thinking_level"),
    "anthropic": ("output_config", "effort"),
}


@pytest.mark.parametrize(("protocol", "model", "words"), EFFORTS)
def test_each_model_gets_the_nearest_effort_that_it_takes(
    protocol: str, model: str, *, words: dict[str, str]
) -> None:
    for word, expected in words.items():
        found: Any = added(protocol, model, effort(word))
        for name in _PATHS[protocol]:
            found = found.get(name, {})
        assert (word, found or "") == (word, expected)


@pytest.mark.parametrize(("model", "word", "tokens"), BUDGETS)
def test_a_model_that_takes_a_number_gets_one_within_its_limits(
    model: str, word: str, *, tokens: int
) -> None:
    expected = {"generationConfig": {"thinkingConfig": {"thinkingBudget": tokens}}}
    assert added("gemini", model, effort(word)) == expected


@pytest.mark.parametrize(("protocol", "model", "options", "expected"), ROWS)
def test_options_in_each_protocols_words(
    protocol: str, model: str, *, options: ModelOptions, expected: dict[str, Any]
) -> None:
    assert added(protocol, model, options) == expected


def test_with_tools_the_newest_models_take_an_effort_in_responses_only() -> None:
    tools = (ToolSpec("f"),)
    assert added("openai-chat", "gpt-5.4", effort("low"), tools=tools) == {}
    assert added("openai-chat", "gpt-5.4", effort("low")) == {"reasoning_effort": "low"}
    expected = {"reasoning": {"effort": "low"}}
    assert added("openai-responses", "gpt-5.4", effort("low"), tools=tools) == expected


def test_a_user_with_a_long_name_goes_by_its_hash() -> None:
    [(field, name)] = added("openai-chat", "gpt-5", ModelOptions(user="u" * 65)).items()
    assert field == "safety_identifier"
    assert len(name) == 64
    assert "u" not in name


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
def test_in_the_same_protocol_the_clients_own_words_count(protocol: str) -> None:
    rest = Native(protocol, {"service_tier": "own"})
    options = ModelOptions(effort="high", tier="flex", user="u")
    request = Request(model="gpt-5", messages=(HI,), options=options, rest=rest)
    written = encode_request(protocol, request)
    assert written["service_tier"] == "own"
    assert "high" not in str(written)


# ── Reading ─────────────────────────────────────────────────────────────────────────

CHAT = {"model": "m", "messages": []}
READ: list[tuple[str, dict[str, Any], ModelOptions]] = [
    (
        "openai-chat",
        {
            "reasoning_effort": "minimal",
            "verbosity": "low",
            "prompt_cache_key": "k",
            "service_tier": "flex",
            "user": "u",
        },
        ModelOptions(effort="minimal", verbosity="low", cache_key="k", tier="flex", user="u"),
    ),
    ("openai-chat", {"user": "u", "safety_identifier": "s"}, ModelOptions(user="s")),
    ("openai-chat", {"reasoning_effort": "absurd", "verbosity": 7, "user": None}, ModelOptions()),
    (
        "openai-responses",
        {"reasoning": {"effort": "high"}, "text": {"verbosity": "high"}, "safety_identifier": "s"},
        ModelOptions(effort="high", verbosity="high", user="s"),
    ),
    ("openai-responses", {"reasoning": None}, ModelOptions()),
    ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 9}}, ModelOptions(budget=9)),
    ("anthropic", {"thinking": {"type": "enabled"}}, ModelOptions()),
    ("anthropic", {"thinking": {"type": "disabled"}}, ModelOptions(effort="none")),
    (
        "anthropic",
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}},
        ModelOptions(effort="max"),
    ),
    (
        "anthropic",
        {"service_tier": "standard_only", "metadata": {"user_id": "u"}},
        ModelOptions(tier="default", user="u"),
    ),
]


@pytest.mark.parametrize(("protocol", "fields", "expected"), READ)
def test_options_are_read(protocol: str, fields: dict[str, Any], *, expected: ModelOptions) -> None:
    body = {"model": "m", **fields} if protocol == "openai-responses" else {**CHAT, **fields}
    assert decode_request(protocol, body).options == expected


# ── Thinking, as Anthropic's models take it ─────────────────────────────────────────

CALL = PastCall(id="a", name="f", arguments={})
ANSWER = Message(Role.ASSISTANT, (CALL,))
SIGNED = Message(Role.ASSISTANT, (Reasoning("t", {"signature": "s"}), CALL))
SAID = Message(Role.ASSISTANT, (Text("Yes."),))
RESULT = Message(Role.TOOL, (CallResult(call_id="a", result=Result((Text("1"),))),))


@pytest.mark.parametrize(
    ("says", "messages", "thinks"),
    [
        ("a call without its thinking stands in the turn", (HI, ANSWER, RESULT), False),
        ("the call has its thinking", (HI, SIGNED, RESULT), True),
        ("the call was in an earlier turn", (HI, ANSWER, RESULT, HI), True),
        ("there was no call", (HI, SAID), True),
    ],
)
def test_within_a_turn_of_tools(says: str, messages: tuple[Message, ...], *, thinks: bool) -> None:
    fields = {"messages": messages, "tools": (ToolSpec("f"),)}
    written = added("anthropic", "claude-sonnet-4-5", effort("low"), **fields)
    assert ("thinking" in written) is thinks, says


def test_a_demanded_call_is_not_thought_about() -> None:
    fields = {"tools": (ToolSpec("f"),), "choice": Choice(Mode.REQUIRED)}
    assert added("anthropic", "claude-sonnet-4-5", effort("low"), **fields) == {}


SAMPLED = {"temperature": 0.2, "top_p": 0.9, "stop_sequences": ["x"]}
UNTHINKING = {**SAMPLED, "thinking": {"type": "disabled"}}
CHAT_SAMPLING = {"temperature", "top_p", "stop"}
NO_SAMPLING = {"temperature", "top_p", "stop_sequences"}


@pytest.mark.parametrize(
    ("upstream", "model", "fields", "sent", "dropped"),
    [
        ("openai-chat", "openai/gpt-5", SAMPLED, set(), NO_SAMPLING),
        ("openai-chat", "gpt-5.2", SAMPLED, set(), NO_SAMPLING),
        ("openai-chat", "gpt-6-codex", SAMPLED, set(), NO_SAMPLING),
        ("openai-chat", "o3-mini", SAMPLED, set(), NO_SAMPLING),
        ("openai-chat", "gpt-4o-search-preview", SAMPLED, set(), NO_SAMPLING),
        ("openai-chat", "gpt-5-chat-latest", SAMPLED, CHAT_SAMPLING, set()),
        ("openai-chat", "gpt-4.1", SAMPLED, CHAT_SAMPLING, set()),
        ("openai-chat", "gpt-oss-120b", SAMPLED, CHAT_SAMPLING, set()),
        ("openai-chat", "llama-4", SAMPLED, CHAT_SAMPLING, set()),
        ("openai-responses", "gpt-5", SAMPLED, set(), NO_SAMPLING),
        ("openai-responses", "grok-4", SAMPLED, {"temperature", "top_p"}, {"stop_sequences"}),
        ("cohere", "command-a", SAMPLED, {"temperature", "p", "stop_sequences"}, set()),
        # Since GPT-5.1 a model that does not think has a temperature.
        ("openai-chat", "gpt-5.2", UNTHINKING, CHAT_SAMPLING, set()),
        ("openai-responses", "gpt-5.2", UNTHINKING, CHAT_SAMPLING - {"stop"}, {"stop_sequences"}),
        ("openai-chat", "gpt-5", UNTHINKING, set(), NO_SAMPLING),
        # It is their temperature anyway.
        ("openai-chat", "gpt-5", {"temperature": 1, "top_p": 1.0}, set(), set()),
    ],
)
def test_a_model_without_sampling_gets_none_from_clients_of_other_protocols(
    upstream: str, model: str, *, fields: dict[str, Any], sent: set[str], dropped: set[str]
) -> None:
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    request = decode_request("anthropic", {**body, **fields})
    assert set(find_dropped("anthropic", upstream, request=request)) == dropped
    written = encode_request(upstream, omit_refused("anthropic", upstream, request=request))
    assert written.keys() & (CHAT_SAMPLING | NO_SAMPLING | {"p"}) == sent


def test_a_client_of_the_same_protocol_knows_what_its_model_takes() -> None:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.2}
    request = decode_request("openai-chat", body)
    assert omit_refused("openai-chat", "openai-chat", request=request) is request
    assert encode_request("openai-chat", request)["temperature"] == 0.2


@pytest.mark.parametrize(("asked", "sent"), [(1, 16), (16, 16), (99, 99), (None, None)])
def test_responses_take_no_output_limit_below_16(asked: int | None, sent: int | None) -> None:
    request = Request(model="gpt-5", messages=(HI,), max_tokens=asked)
    assert omit_refused("anthropic", "openai-responses", request=request).max_tokens == sent
    assert omit_refused("anthropic", "openai-chat", request=request).max_tokens == asked


def test_thinking_leaves_room_for_the_answer() -> None:
    options = effort("high")
    budget = {"type": "enabled", "budget_tokens": 2976}
    assert added("anthropic", "claude-sonnet-4-5", options, max_tokens=4000) == {"thinking": budget}
    assert added("anthropic", "claude-sonnet-4-5", options, max_tokens=1500) == {}


def test_who_thinks_has_no_temperature() -> None:
    request = Request(
        model="claude-sonnet-4-5", messages=(HI,), temperature=0.1, options=effort("low")
    )
    assert "temperature" not in encode_request("anthropic", request)
    assert find_dropped("openai-chat", "anthropic", request=request) == ("temperature",)


@pytest.mark.parametrize(
    ("model", "asked", "limit"),
    [
        ("claude-3-opus-20240229", None, 4096),
        ("claude-3-5-sonnet-latest", None, 8192),
        ("claude-3-7-sonnet-latest", None, 64_000),
        ("claude-opus-4-1", None, 32_000),
        ("claude-opus-4-5", None, 64_000),
        ("anthropic/claude-opus-4-6", 200_000, 128_000),
        ("claude-sonnet-4-5", 200_000, 64_000),
        ("claude-sonnet-4-6", None, 64_000),
        ("claude-haiku-5-5", None, 128_000),
        ("claude-sonnet-4-5", 5, 5),
        ("glm-5", None, 8192),
        ("glm-5", 200_000, 200_000),
    ],
)
def test_the_output_limit_is_the_models_own(model: str, asked: int | None, *, limit: int) -> None:
    request = Request(model=model, messages=(HI,), max_tokens=asked)
    assert encode_request("anthropic", request)["max_tokens"] == limit
    assert limit_of("anthropic", request) == limit


def test_a_client_of_the_same_protocol_knows_its_limit() -> None:
    rest = Native("anthropic", {"top_k": 1})
    request = Request(model="claude-3-opus", messages=(HI,), max_tokens=9000, rest=rest)
    assert encode_request("anthropic", request)["max_tokens"] == 9000


# ── Fields that do not arrive ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("client", "upstream", "fields", "expected"),
    [
        ("openai-chat", "openai-chat", {"seed": 1}, ()),
        ("openai-chat", "anthropic", {"seed": 1, "logprobs": None}, ("seed",)),
        ("openai-chat", "gemini", {"user": "u"}, ("user",)),
        ("openai-chat", "ollama", {"reasoning_effort": "low"}, ("reasoning_effort",)),
        ("openai-chat", "openai-responses", {"stop": "x"}, ("stop",)),
        ("anthropic", "openai-responses", {"stop_sequences": ["x"]}, ("stop_sequences",)),
        (
            "anthropic",
            "ollama",
            {"thinking": {"type": "enabled", "budget_tokens": 5}, "metadata": {"user_id": "u"}},
            ("thinking", "metadata.user_id"),
        ),
        ("openai-chat", "anthropic", {}, ()),
    ],
)
def test_fields_that_do_not_arrive(
    client: str, upstream: str, *, fields: dict[str, Any], expected: tuple[str, ...]
) -> None:
    request = decode_request(client, {**CHAT, **fields})
    assert find_dropped(client, upstream, request=request) == expected


# ── Strict tools ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (CLOSED, True),
        (OPEN, False),
        ({**CLOSED, "required": []}, False),
        ({"type": "object", "additionalProperties": False}, True),
        ({**CLOSED, "properties": {"a": OPEN}}, False),
        ({"type": "array", "items": OPEN}, False),
        ({"anyOf": [CLOSED, {"type": "null"}]}, True),
        ({"$ref": "#/$defs/x", "$defs": {"x": OPEN}}, False),
    ],
)
def test_a_schema_is_strict_if_nothing_is_optional(schema: dict[str, Any], *, closed: bool) -> None:
    assert is_closed(schema) is closed


@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)])
def test_strict_goes_along_where_it_is_accepted(schema: dict[str, Any], *, strict: bool) -> None:
    tool = {"type": "function", "name": "f", "parameters": schema, "strict": True}
    request = decode_request("openai-responses", {"model": "m", "input": "hi", "tools": [tool]})
    [written] = encode_request("openai-chat", request)["tools"]
    assert written["function"].get("strict", False) is strict
    chat = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    request = decode_request("openai-chat", {**CHAT, "tools": [chat]})
    [written] = encode_request("openai-responses", request)["tools"]
    assert written["strict"] is strict


# ── Reasoning goes back ─────────────────────────────────────────────────────────────


def item(**fields: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "Hm."}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, **fields}


ITEM_CALL = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
THINKING = {"type": "thinking", "thinking": "Hm."}
USE = {"type": "tool_use", "id": "a", "name": "f", "input": {}}


@pytest.mark.parametrize(
    ("says", "client", "answer", "model", "expected"),
    [
        ("an open item goes back", "openai-responses", [item(), ITEM_CALL], "llama", "Hm."),
        (
            "a sealed one does not",
            "openai-responses",
            [item(encrypted_content="x"), ITEM_CALL],
            "llama",
            None,
        ),
        (
            "but where one is demanded it is better than none",
            "openai-responses",
            [item(encrypted_content="x"), ITEM_CALL],
            "deepseek-chat",
            "Hm.",
        ),
        ("nothing was thought", "openai-responses", [ITEM_CALL], "deepseek-chat", ""),
        ("unsigned thinking goes back", "anthropic", [THINKING, USE], "llama", "Hm."),
        (
            "signed thinking does not",
            "anthropic",
            [{**THINKING, "signature": "s"}, USE],
            "llama",
            None,
        ),
        (
            "signed thinking where it is demanded",
            "anthropic",
            [{**THINKING, "signature": "s"}, USE],
            "deepseek-reasoner",
            "Hm.",
        ),
        ("OpenAI's own want none", "anthropic", [THINKING, USE], "gpt-5", None),
    ],
)
def test_reasoning_goes_back_to_chat_upstreams(
    says: str, client: str, *, answer: list[Any], model: str, expected: str | None
) -> None:
    body: dict[str, Any] = {"model": model, "input": answer}
    if client == "anthropic":
        body = {"model": model, "messages": [{"role": "assistant", "content": answer}]}
    written = encode_request("openai-chat", decode_request(client, body))
    [message] = [each for each in written["messages"] if each["role"] == "assistant"]
    assert message.get("reasoning_content") == expected, says


def test_an_open_item_goes_back_to_others_that_think() -> None:
    body = {"model": "kimi-k2", "input": ["", item(), ITEM_CALL][1:]}
    request = decode_request("openai-responses", body)
    [message] = [m for m in encode_request("ollama", request)["messages"] if m["role"] != "tool"]
    assert message["thinking"] == "Hm."
    content = encode_request("anthropic", request)["messages"][1]["content"]
    assert content[0] == {"type": "thinking", "thinking": "Hm.", "signature": ""}


# ── The cache ───────────────────────────────────────────────────────────────────────

MARK = {"cache_control": {"type": "ephemeral"}}


def test_a_prompt_is_marked_for_the_cache() -> None:
    system = Message(Role.SYSTEM, (Text("s"),))
    tools = (ToolSpec("f"), ToolSpec("g"))
    request = Request(model="claude-x", messages=(system, HI, ANSWER, RESULT), tools=tools)
    marked = encode_request("anthropic", Request(**{**fields_of(request), "marks_cache": True}))
    assert marked["system"] == [{"type": "text", "text": "s", **MARK}]
    assert ["cache_control" in tool for tool in marked["tools"]] == [False, True]
    *before, last = marked["messages"]
    assert last["content"][-1] == {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": "1",
        **MARK,
    }
    assert "cache_control" not in str(before)
    assert str(marked).count("cache_control") == 3
    assert "cache_control" not in str(encode_request("anthropic", request))


def fields_of(request: Request) -> dict[str, Any]:
    return {"model": request.model, "messages": request.messages, "tools": request.tools}


@pytest.mark.parametrize(
    "messages", [(HI, SAID), ()], ids=["the assistant's words come last", "nothing was said"]
)
def test_only_the_users_turn_is_marked(messages: tuple[Message, ...]) -> None:
    request = Request(model="claude-x", messages=messages, marks_cache=True)
    assert "cache_control" not in str(encode_request("anthropic", request))


def test_a_message_of_nothing_is_not_marked() -> None:
    opaque = Message(Role.USER, ())
    request = Request(model="claude-x", messages=(HI, SAID, opaque), marks_cache=True)
    assert "cache_control" not in str(encode_request("anthropic", request))


def test_a_client_that_could_mark_its_prompt_is_left_alone() -> None:
    body = {"model": "claude-x", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    request = decode_request("anthropic", body)
    marking = Request(**{**fields_of(request), "marks_cache": True})
    assert "cache_control" not in str(encode_request("anthropic", marking))


# ── System messages ─────────────────────────────────────────────────────────────────

FIRST = {"role": "system", "content": "a"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
LATER = {"role": "system", "content": [{"type": "text", "text": "b"}, IMAGE]}
NAMED = {**FIRST, "name": "n"}
USER = {"role": "user", "content": "hi"}
ONE = {"role": "system", "content": "a\n\nb"}


@pytest.mark.parametrize(
    ("says", "model", "one_system", "messages", "expected"),
    [
        ("they stay where they are", "llama", None, [FIRST, USER, LATER], [FIRST, USER, LATER]),
        ("a model that takes one", "qwen3", None, [FIRST, USER, LATER], [ONE, USER]),
        ("the operator knows better", "qwen3", False, [FIRST, USER, LATER], [FIRST, USER, LATER]),
        ("the operator wants one", "llama", True, [USER, FIRST, LATER], [ONE, USER]),
        (
            "one at the start stays",
            "qwen3",
            None,
            [NAMED],
            [NAMED],
        ),
        ("there is none", "qwen3", None, [USER], [USER]),
        ("parts become text", "qwen3", None, [LATER, USER], [{**ONE, "content": "b"}, USER]),
        (
            "a developer is the system",
            "qwen3",
            None,
            [{**FIRST, "role": "developer"}, USER],
            [FIRST, USER],
        ),
        (
            "what has no text stays",
            "qwen3",
            None,
            [{"role": "system", "content": None}, USER],
            [{"role": "system", "content": None}, USER],
        ),
    ],
)
def test_system_messages_are_folded(
    says: str, model: str, *, one_system: bool | None, messages: list[Any], expected: list[Any]
) -> None:
    read = decode_request("openai-chat", {"model": model, "messages": messages})
    request = Request(model=model, messages=read.messages, one_system=one_system)
    assert encode_request("openai-chat", request)["messages"] == expected, says


BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=36ee5;"
BILLED = {"type": "text", "text": BILLING}
RULES = {"type": "text", "text": "Be brief."}


@pytest.mark.parametrize("system", [[BILLED, RULES], f"{BILLING}\nBe brief."])
@pytest.mark.parametrize(
    ("protocol", "model"),
    [
        ("openai-chat", "llama"),
        ("openai-responses", "gpt-5"),
        ("gemini", "gemini-3"),
        ("ollama", "llama"),
        ("anthropic", "glm-5"),
    ],
)
def test_the_billing_line_of_claude_code_is_anthropics(
    system: Any, protocol: str, *, model: str
) -> None:
    messages = [USER]
    request = decode_request("anthropic", {"model": model, "messages": messages, "system": system})
    written = str(encode_request(protocol, request))
    assert "Be brief." in written
    assert "billing" not in written
    body = {"model": "claude-x", "messages": messages, "system": system}
    assert encode_request("anthropic", decode_request("anthropic", body))["system"] == system


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "gemini", "ollama"])
def test_a_system_prompt_of_nothing_else_is_left_out(protocol: str) -> None:
    body = {"model": "m", "messages": [USER], "system": [BILLED]}
    written = encode_request(protocol, decode_request("anthropic", body))
    assert "system" not in str({**written, "model": ""}).replace("systemInstruction", "")


def test_others_of_the_protocol_keep_their_own_system_prompt() -> None:
    body = {"model": "glm-5", "messages": [USER], "system": [RULES]}
    assert encode_request("anthropic", decode_request("anthropic", body))["system"] == [RULES]
