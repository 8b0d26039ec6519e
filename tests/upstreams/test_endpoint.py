"""Addresses, headers and keys of each protocol."""

from __future__ import annotations

import pytest

from wholecall.errors import UnknownProtocol
from wholecall.upstreams.endpoint import Endpoint

CHAT = "openai-chat"
EVERY = {
    "User-Agent": "wholecall",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


@pytest.mark.parametrize(
    ("protocol", "base_url", "url"),
    [
        # a bare host gets all of it
        (CHAT, "http://h:8000", "http://h:8000/v1/chat/completions"),
        (CHAT, " http://h:8000/ ", "http://h:8000/v1/chat/completions"),
        ("openai-responses", "http://h", "http://h/v1/responses"),
        ("anthropic", "http://h", "http://h/v1/messages"),
        ("ollama", "http://h:11434", "http://h:11434/api/chat"),
        # a version in the path is the version
        (CHAT, "http://h/v1", "http://h/v1/chat/completions"),
        (CHAT, "http://h/v1/", "http://h/v1/chat/completions"),
        (CHAT, "http://h/api/v3", "http://h/api/v3/chat/completions"),
        (CHAT, "http://h/v1beta/openai", "http://h/v1beta/openai/chat/completions"),
        ("anthropic", "http://h/v1", "http://h/v1/messages"),
        ("ollama", "http://h/api", "http://h/api/chat"),
        # without one, what the protocol's own clients do
        (CHAT, "http://h/openai", "http://h/openai/chat/completions"),
        ("anthropic", "http://h/anthropic", "http://h/anthropic/v1/messages"),
        ("ollama", "http://h/llm", "http://h/llm/api/chat"),
        # the whole path is taken as it is
        (CHAT, "http://h/chat/completions", "http://h/chat/completions"),
        (CHAT, "http://h/v1/chat/completions/", "http://h/v1/chat/completions"),
        ("anthropic", "http://h/x/messages", "http://h/x/messages"),
        # a query stays
        (
            CHAT,
            "https://h/openai/deployments/d?api-version=2026-01-01",
            "https://h/openai/deployments/d/chat/completions?api-version=2026-01-01",
        ),
        (CHAT, "http://h/a%2Fb", "http://h/a%2Fb/chat/completions"),
    ],
)
def test_base_urls_are_joined_as_they_are_meant(*, protocol: str, base_url: str, url: str) -> None:
    assert str(Endpoint(protocol, base_url).url_for("m", stream=True)) == url


@pytest.mark.parametrize(
    ("base_url", "model", "stream", "url"),
    [
        ("http://h", "g-2", True, "http://h/v1beta/models/g-2:streamGenerateContent?alt=sse"),
        ("http://h", "g-2", False, "http://h/v1beta/models/g-2:generateContent"),
        ("http://h/v1", "models/g", False, "http://h/v1/models/g:generateContent"),
        ("http://h/v1beta/models", "g", False, "http://h/v1beta/models/g:generateContent"),
        ("http://h/gw", "g", False, "http://h/gw/v1beta/models/g:generateContent"),
        (
            "http://h?key=k",
            "g",
            True,
            "http://h/v1beta/models/g:streamGenerateContent?key=k&alt=sse",
        ),
        ("http://h", "../../x?y", False, "http://h/v1beta/models/..%2F..%2Fx%3Fy:generateContent"),
        ("http://h", "a\r\nb: c", False, "http://h/v1beta/models/a%0D%0Ab%3A%20c:generateContent"),
        ("http://h", "half\udc80", False, "http://h/v1beta/models/half%3F:generateContent"),
    ],
)
def test_gemini_names_the_model_and_the_method_in_the_url(
    *, base_url: str, model: str, stream: bool, url: str
) -> None:
    assert str(Endpoint("gemini", base_url).url_for(model, stream=stream)) == url


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (CHAT, {"Authorization": "Bearer k"}),
        ("openai-responses", {"Authorization": "Bearer k"}),
        ("anthropic", {"x-api-key": "k", "anthropic-version": "2023-06-01"}),
        ("ollama", {"Authorization": "Bearer k"}),
        ("gemini", {"x-goog-api-key": "k"}),
    ],
)
def test_the_key_stands_where_the_protocol_wants_it(
    protocol: str, expected: dict[str, str]
) -> None:
    endpoint = Endpoint(protocol, "http://h", api_key=" k\n")
    assert endpoint.headers == EVERY | expected


def test_without_a_key_there_is_no_header_for_it() -> None:
    assert "Authorization" not in Endpoint(CHAT, "http://h").headers


def test_given_headers_replace_our_own_in_any_case() -> None:
    given = {"authorization": "Basic abc", "ANTHROPIC-VERSION": "2030-01-01", "x-more": "1"}
    endpoint = Endpoint("anthropic", "http://h", headers=given)
    assert endpoint.headers == EVERY | given


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "h:8000",
        "ftp://h",
        "/v1",
        "http://",
        "http://[::1",
        "http://h:99999",
        "http://a b/",
        "http://a..b",
        "http://.",
        f"http://{'a' * 64}.example",
    ],
)
def test_what_is_no_address_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match="base URL"):
        Endpoint(CHAT, base_url)


def test_a_user_and_a_key_for_one_header_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        Endpoint(CHAT, "http://user:word@h", api_key="k")
    assert Endpoint("anthropic", "http://user:word@h", api_key="k").protocol == "anthropic"


def test_a_protocol_that_is_not_spoken_is_named() -> None:
    with pytest.raises(UnknownProtocol, match="'bedrock-converse' is none of 'openai-chat'"):
        Endpoint("bedrock-converse", "http://h")


@pytest.mark.parametrize(
    ("endpoint", "secret"),
    [
        (Endpoint(CHAT, "http://h", api_key="key-12345"), "key-12345"),
        (Endpoint("anthropic", "http://h", api_key="key-12345"), "key-12345"),
        (Endpoint(CHAT, "http://h", headers={"API-Key": "key-12345"}), "key-12345"),
        (Endpoint(CHAT, "http://h", headers={"X-Auth-Token": "key-12345"}), "key-12345"),
        (Endpoint("gemini", "http://h?key=key-12345"), "key-12345"),
        (Endpoint(CHAT, "http://h?apikey=key-12345"), "key-12345"),
        (Endpoint(CHAT, "http://me:password-1@h"), "password-1"),
    ],
)
def test_secrets_are_hidden_wherever_they_came_from(endpoint: Endpoint, secret: str) -> None:
    assert endpoint.secrets == (secret,)
    assert endpoint.hide_secrets(f"no such key: {secret}!") == "no such key: ***!"
    assert secret not in endpoint.place


@pytest.mark.parametrize(
    ("cookie", "secrets"),
    [
        ("session=first-123", ("first-123",)),
        ("session=first-123; csrf=second-45678", ("second-45678", "first-123")),
        ("session=first-123;csrf=second-45678; theme=dark", ("second-45678", "first-123")),
        ('session="first-123"; csrf=second==', ("first-123", "second==")),
        ("first-123", ("first-123",)),
        ("inner=first-123; outer=a-first-123-b", ("a-first-123-b", "first-123")),
    ],
)
def test_every_value_of_a_cookie_is_a_secret(cookie: str, secrets: tuple[str, ...]) -> None:
    endpoint = Endpoint(CHAT, "http://h", headers={"Cookie": cookie})
    assert endpoint.secrets == secrets
    assert endpoint.hide_secrets(", ".join(secrets)) == ", ".join(["***"] * len(secrets))


def test_what_is_no_secret_stays() -> None:
    endpoint = Endpoint(CHAT, "http://h?api-version=2026-01-01", api_key="none", headers={"x": "y"})
    assert endpoint.secrets == ()
    assert endpoint.hide_secrets("none of 2026-01-01") == "none of 2026-01-01"
    assert endpoint.place == "http://h/v1/chat/completions"


@pytest.mark.parametrize("key", ["sk-first\nsk-second", "sk-\0", "sk-\x7f"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="'Authorization' holds a control character") as caught:
        Endpoint(CHAT, "http://h", api_key=key)
    assert "sk-" not in str(caught.value)


def test_a_key_with_half_of_a_character_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match="'Authorization' is not UTF-8") as caught:
        Endpoint(CHAT, "http://h", api_key="sk-secret\udc80")
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_how_long_a_body_is_cannot_be_given(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is set by who sends the body"):
        Endpoint(CHAT, "http://h", headers={name: "5"})


def test_a_password_in_what_is_no_address_is_not_shown() -> None:
    with pytest.raises(ValueError, match="base URL 'h'"):
        Endpoint(CHAT, "ftp://user:password@h")


def test_lists_that_a_request_brings_are_joined_to_ours() -> None:
    endpoint = Endpoint("anthropic", "http://h", headers={"Anthropic-Beta": "a"})
    headers = endpoint.headers_with({"anthropic-beta": "b,c", "x-other": "d"})
    assert headers == {**endpoint.headers, "Anthropic-Beta": "a,b,c", "x-other": "d"}
    assert endpoint.headers_with({}) is endpoint.headers
    with pytest.raises(ValueError, match="control character"):
        endpoint.headers_with({"x-other": "a\r\nb"})
