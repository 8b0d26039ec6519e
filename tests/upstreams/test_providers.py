"""Who answers for a model of this name."""

from __future__ import annotations

import pytest

from upstreams.fake_endpoint import FIRST, KEY, REQUEST, SECOND, good, in_loop, read_all, serving
from wholecall.errors import UnknownModel
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.litellm import LiteLLMUpstream
from wholecall.upstreams.providers import (
    NamedModel,
    Route,
    demand_key,
    find_upstream,
    read_ollama_host,
)


def find(
    model: str, environ: dict[str, str] | None = None, *, base_url: str | None = None
) -> Route:
    return find_upstream(model, base_url=base_url, settings=HttpSettings(environ=environ or {}))


@pytest.mark.parametrize(
    ("name", "environ", "model", "url"),
    [
        ("openai/gpt-x", {}, "gpt-x", "https://api.openai.com/v1/chat/completions"),
        ("openai/org/gpt-x", {}, "org/gpt-x", "https://api.openai.com/v1/chat/completions"),
        ("openai/g", {"OPENAI_BASE_URL": "http://h/v1"}, "g", "http://h/v1/chat/completions"),
        ("openai/g", {"OPENAI_BASE_URL": ""}, "g", "https://api.openai.com/v1/chat/completions"),
        ("responses/g", {}, "g", "https://api.openai.com/v1/responses"),
        ("responses/g", {"OPENAI_BASE_URL": "http://h"}, "g", "http://h/v1/responses"),
        ("anthropic/c", {}, "c", "https://api.anthropic.com/v1/messages"),
        ("anthropic/c", {"ANTHROPIC_BASE_URL": "http://h/a"}, "c", "http://h/a/v1/messages"),
        ("ollama/qwen3:8b", {}, "qwen3:8b", "http://127.0.0.1:11434/api/chat"),
        ("ollama/q", {"OLLAMA_HOST": ":11434"}, "q", "http://127.0.0.1:11434/api/chat"),
        (
            "gemini/g",
            {},
            "g",
            "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent",
        ),
    ],
)
def test_a_prefix_says_who_answers(
    *, name: str, environ: dict[str, str], model: str, url: str
) -> None:
    route = find(name, environ)
    assert isinstance(route.upstream, HttpUpstream)
    assert route.model == model
    assert str(route.upstream.endpoint.url_for(model, stream=False)) == url


@pytest.mark.parametrize(
    ("name", "variable", "header"),
    [
        ("openai/m", "OPENAI_API_KEY", "Authorization"),
        ("responses/m", "OPENAI_API_KEY", "Authorization"),
        ("anthropic/m", "ANTHROPIC_API_KEY", "x-api-key"),
        ("ollama/m", "OLLAMA_API_KEY", "Authorization"),
        ("gemini/m", "GEMINI_API_KEY", "x-goog-api-key"),
        ("gemini/m", "GOOGLE_API_KEY", "x-goog-api-key"),
        ("interactions/m", "GEMINI_API_KEY", "x-goog-api-key"),
        ("bedrock/m", "AWS_BEARER_TOKEN_BEDROCK", "Authorization"),
    ],
)
@pytest.mark.parametrize("given", [None, "", "given-key"])
def test_keys_come_from_the_environment_unless_they_are_given(
    *, name: str, variable: str, header: str, given: str | None
) -> None:
    settings = HttpSettings(environ={variable: KEY})
    route = find_upstream(name, api_key=given, settings=settings)
    assert isinstance(route.upstream, HttpUpstream)
    sent = route.upstream.endpoint.headers.get(header, "")
    assert sent.endswith(KEY if given is None else given)
    assert bool(sent) == (given != "")


@pytest.mark.parametrize("name", ["llama", "meta/llama", "openai", "/x"])
def test_with_a_base_url_any_name_speaks_chat_completions(name: str) -> None:
    route = find(name, base_url="http://h")
    assert (route.upstream.protocol, route.model) == ("openai-chat", name)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("gpt-x", "write openai/gpt-x, responses/gpt-x, anthropic/gpt-x, ollama/gpt-x"),
        ("mistral/large", "'mistral/large' does not say who answers"),
        ("openai", "missing: write openai/…"),
        ("", "openai/…"),
        ("openai/", "missing: write openai/…"),
        ("litellm/", "missing: write litellm/…"),
    ],
)
def test_a_name_that_says_too_little_is_answered_with_what_to_write(name: str, advice: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        find(name)
    assert advice in str(caught.value)


def test_no_name_at_all_does_not_become_one_by_a_base_url() -> None:
    with pytest.raises(UnknownModel):
        find("", base_url="http://h")


def test_litellm_gets_the_name_that_it_knows() -> None:
    route = find("litellm/bedrock/claude")
    assert isinstance(route.upstream, LiteLLMUpstream)
    assert route.model == "bedrock/claude"


def test_a_name_of_your_own_goes_first() -> None:
    named = {
        "fast": NamedModel(
            model="anthropic/c", base_url="http://h", api_key=KEY, headers={"x-team": "a"}
        ),
        "openai/gpt-x": NamedModel(model="ollama/q"),
    }
    settings = HttpSettings(environ={})
    fast = find_upstream("fast", named=named, settings=settings)
    assert isinstance(fast.upstream, HttpUpstream)
    headers = fast.upstream.endpoint.headers
    assert (fast.model, headers["x-api-key"], headers["x-team"]) == ("c", KEY, "a")
    assert find_upstream("openai/gpt-x", named=named, settings=settings).model == "q"
    with pytest.raises(UnknownModel):
        find_upstream("slow", named=named, settings=settings)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("myhost", "http://myhost:11434"),
        ("myhost:99", "http://myhost:99"),
        (":99", "http://127.0.0.1:99"),
        ("0.0.0.0:99", "http://127.0.0.1:99"),
        ("[::1]", "http://[::1]:11434"),
        ("[::]:99", "http://127.0.0.1:99"),
        ("http://myhost", "http://myhost"),
        ("https://myhost/ollama/", "https://myhost/ollama"),
        ("http://0.0.0.0:99", "http://127.0.0.1:99"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert read_ollama_host(host) == url


@in_loop
async def test_the_real_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(good) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        route = find_upstream("openai/m")
        assert isinstance(route.upstream, HttpUpstream)
        assert await read_all(route.upstream, REQUEST) == FIRST + SECOND
        await route.upstream.close()
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("host", [":port", "http://[::1"])
def test_what_is_no_address_of_ollama_is_named(host: str) -> None:
    with pytest.raises(ValueError, match="not the address of an Ollama server"):
        read_ollama_host(host)


def test_a_misspelt_provider_is_recognised() -> None:
    with pytest.raises(UnknownModel, match="'opnai': did you mean 'openai/gpt-x'"):
        find_upstream("opnai/gpt-x")
    # A name with a slash behind an address of its own is that server's business.
    find_upstream("opnai/gpt-x", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("model", "base_url", "environ", "needed"),
    [
        ("openai/gpt-x", None, {}, "OPENAI_API_KEY"),
        ("responses/gpt-x", None, {}, "OPENAI_API_KEY"),
        ("anthropic/c", None, {"OPENAI_API_KEY": KEY}, "ANTHROPIC_API_KEY"),
        ("gemini/g", None, {}, "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("gemini/g", None, {"GOOGLE_API_KEY": KEY}, ""),
        ("openai/gpt-x", None, {"OPENAI_API_KEY": KEY}, ""),
        ("openai/gpt-x", "http://127.0.0.1:1/v1", {}, ""),
        ("openai/gpt-x", None, {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, ""),
        ("ollama/qwen3", None, {}, ""),
        ("local/m", None, {}, ""),
        ("m", "http://127.0.0.1:1/v1", {}, ""),
    ],
)
def test_a_key_is_missing_only_at_a_providers_own_address(
    model: str, base_url: str | None, *, environ: dict[str, str], needed: str
) -> None:
    def check() -> None:
        demand_key(model, base_url, environ=environ)

    if needed:
        with pytest.raises(UnknownModel, match=f"needs a key: set {needed}"):
            check()
    else:
        check()
