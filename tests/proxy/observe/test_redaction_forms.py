from __future__ import annotations

import pytest

from wholecall.proxy.observe.redaction import Redactor

KEY = "Zq81hHw0pLx5RkT2"


@pytest.mark.parametrize(
    "text",
    [
        f"invalid key sk-{KEY}",
        f"invalid key sk-ant-api03-{KEY}",
        f"the key wc_{KEY} was revoked",
        f"AIza{KEY} is no key",
        f"Authorization: Bearer {KEY}",
        f"authorization: basic {KEY}==",
        f"cannot reach https://anna:{KEY}@models.example.com/v1",
        f"cannot reach https://{KEY}@models.example.com/v1",
        f"GET https://models.example.com/v1?key={KEY}&alt=sse",
        f"GET https://models.example.com/v1?alt=sse&api_key={KEY}",
        f"x-api-key: {KEY}",
        f'{{"api_key": "{KEY}", "model": "m"}}',
        f"{{'password': '{KEY}'}}",
        f"cookie={KEY}; path=/",
        f"CLIENT_SECRET={KEY}",
        f"access_token: {KEY}",
    ],
)
def test_secrets_are_known_by_their_form(text: str) -> None:
    hidden = Redactor().hide(text)
    assert KEY not in hidden
    assert "***" in hidden


@pytest.mark.parametrize(
    "text",
    [
        "the answer broke off (stream_dropped)",
        "https://models.example.com:8000/v1/chat/completions answered with status 404",
        "unknown key 'days'",
        "sk-8 skis",
        "send at most 4096 tokens: the limit is 8192",
        "mail anna@example.com",
    ],
)
def test_prose_stays_as_it_is(text: str) -> None:
    assert Redactor().hide(text) == text


def test_known_secrets_are_hidden_wherever_they_stand() -> None:
    hiding = Redactor(["correct horse", "correct horse battery"])
    assert hiding.hide("say correct horse battery, or correct horse") == "say ***, or ***"


def test_short_words_are_no_secrets() -> None:
    assert Redactor(["none", ""]).hide("none of them") == "none of them"


def test_a_secret_of_before_remains_one() -> None:
    hiding = Redactor(["correct horse"])
    hiding.learn(["battery staple"])
    assert hiding.hide("correct horse, battery staple") == "***, ***"


def test_a_secret_that_is_learned_later_is_hidden_in_a_text_that_had_none() -> None:
    hiding = Redactor()
    text = f"{'word ' * 400}known to us"
    assert hiding.hide(text) == hiding.hide(text) == text
    hiding.learn(["known to us"])
    assert hiding.hide(text) == f"{'word ' * 400}***"


def test_a_word_that_every_line_has_is_hidden_once_it_is_a_secret() -> None:
    redactor, fields = Redactor(), {"model": "Zq81hHw0pLx5RkT2", "path": "/v1"}
    assert redactor.hide_fields(fields) == fields
    redactor.learn(["Zq81hHw0pLx5RkT2"])
    assert redactor.hide_fields(fields) == {"model": "***", "path": "/v1"}


def test_few_words_of_clients_are_remembered() -> None:
    redactor = Redactor()
    for number in range(1000):
        redactor.hide_fields({"model": f"model {number}"})
    assert redactor.hide_fields({"model": "token=Zq81hHw0pLx5RkT2"}) != {
        "model": "token=Zq81hHw0pLx5RkT2"
    }
    assert len(redactor._words) <= 256
