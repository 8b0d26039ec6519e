from __future__ import annotations

import pytest

from wholecall.proxy.observe.redaction import Redactor
from wholecall.upstreams.secrets import FORMS, MAKERS, hide_keys, hide_known, names_secret

KEY = "Zq81hHw0pLx5RkT2aB"


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "Proxy-Authorization", "x-api-key", "api-key", "X-Goog-Api-Key"),
        *("cookie", "key", "api_key", "apikey", "token", "access_token", "X-Auth-Tokens"),
        *("CLIENT_SECRET", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "credentials"),
    ],
)
def test_a_name_says_that_a_secret_follows(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", ["X-Monkey", "keyboard", "tokenizer", "api-version", "alt", ""])
def test_a_name_that_says_nothing_of_the_kind(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("joint", ["-", "_"])
def test_the_key_of_every_maker_is_hidden_in_what_is_only_looked_at(maker: str, joint: str) -> None:
    assert Redactor().hide(f"they sent {maker}{joint}{KEY}!") == f"they sent {maker}-***!"


@pytest.mark.parametrize(
    "text",
    [
        *(f"sk-{KEY}", f"gsk_{KEY}", f"xai-{KEY}", f"hf_{KEY}", f"ghp_{KEY}", f"glpat-{KEY}"),
        *(f"github_pat_{KEY}", f"xoxb-{KEY}", f"AIza{KEY}{KEY}", f"Bearer {KEY}=="),
    ],
)
def test_what_is_certainly_a_key_is_taken_out_of_a_recording(text: str) -> None:
    assert hide_keys(f"say {text}.") in ("say ***.", "say ***")


@pytest.mark.parametrize(
    "text",
    [
        "wc_get_product_by_id(7)",
        "PRIMARY KEY pk_customer_order_lines",
        "a basic understanding",
        '{"token": "Constantinople"}',
        "key=correct-horse",
        "sk-short, hf_1, Bearer of news",
    ],
)
def test_what_may_be_no_key_stays_in_a_recording(text: str) -> None:
    assert hide_keys(text) == text


def test_a_form_leaves_nothing_that_it_fits() -> None:
    shown = f"https://anna:{KEY}@h?key={KEY} Bearer {KEY} AKIA{KEY} sk-{KEY}"
    for form, instead in FORMS:
        shown = form.sub(instead, shown)
    assert KEY not in shown


def test_known_secrets_are_hidden_wherever_they_stand() -> None:
    assert hide_known("correct horse, horse", ["correct", "battery"]) == "*** horse, horse"
