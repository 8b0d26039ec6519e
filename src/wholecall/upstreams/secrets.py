"""The forms of secrets, for all code that shows, stores or passes on a text.

A secret is known because we were given it, by the name before it, or by its form. How far a form is
trusted depends on the purpose of the text:

- Logs and the inspector are only read. There everything that may be a secret is hidden (`FORMS`),
  even if it was prose; `proxy/observe/redaction.py` does that fast.
- A recording is played again, so only certain keys are removed from it (`hide_keys`).
- The rows of a run are what it continues with, so they keep what was said; the reason why a run
  stopped is only read, and is hidden as in a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
"""The replacement of a secret."""
SHORTEST = 8
"""A shorter secret is a word such as "none" that local servers take; hiding it hides prose."""

# ── Forms: each is a piece of a pattern ─────────────────────────────────────────────

_SURE_MAKERS = (
    *("sk", "gsk", "xai", "hf", "ghp", "gho", "github_pat", "glpat"),
    *("xoxa", "xoxb", "xoxp"),
)
MAKERS = (*_SURE_MAKERS, "pk", "rk", "wc")
"""Keys begin with their maker's prefix: sk-ant-…, wc_…, ghp_…. Some of these prefixes also begin
names in programs: wc_get_product_by_id."""
JOINT = "[-_]"
"""Between that word and the key."""
BARE_MAKERS = ("AIza", "AKIA")
"""Words with nothing between them and the key."""
KEY = r"[\w-]{12}"
"""The least of a key after its maker's prefix."""
SCHEMES = ("bearer", "basic")
"""The beginnings of an authorization header."""
CREDENTIALS = r"[ \t]{1,16}[\w.~+/=-]{8}"
"""The least that follows a scheme."""
USER = r"://[^/\s@\"'<>]{1,512}@"
"""https://user:password@host"""
WORDS = ("key", "token", "secret", "password", "signature", "cookie")
"""Before a secret, as in `?key=…`, `"api_key": "…"`, `x-api-key: …`."""
ASSIGNS = r"[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?"
"""Between such a word and the secret."""
VALUE = r"[^\s&\"',;})]{8}"
"""The least of a secret after such a word."""

FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"\b({'|'.join(MAKERS)}){JOINT}{KEY}[\w-]*"), rf"\1-{HIDDEN}"),
    (re.compile(rf"\b({'|'.join(BARE_MAKERS)}){KEY}[\w-]*"), rf"\1{HIDDEN}"),
    (
        re.compile(rf"\b({'|'.join(SCHEMES)}){CREDENTIALS}[\w.~+/=-]*", re.IGNORECASE),
        rf"\1 {HIDDEN}",
    ),
    (re.compile(USER), f"://{HIDDEN}@"),
    (
        re.compile(
            rf"(?<![^\W_])({'|'.join(WORDS)})({ASSIGNS}){VALUE}[^\s&\"',;}})]*", re.IGNORECASE
        ),
        rf"\1\2{HIDDEN}",
    ),
)
"""Whatever may be a secret, and what is written instead."""

_KEYS = re.compile(
    rf"\b(?:(?:{'|'.join(_SURE_MAKERS)})[-_][\w-]{{16,}}"
    r"|AIza[\w-]{30,}|Bearer\s+[\w.~+/-]{16,}=*)"
)
_NAME = re.compile(
    r"authorization|cookie|apikey|secret|password|credential|(?<![a-z])(key|token)s?(?![a-z])",
    re.IGNORECASE,
)


def names_secret(name: str) -> bool:
    """Return True if a header, parameter or variable of this name holds a secret."""
    return _NAME.search(name) is not None


def hide_known(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def hide_forms(text: str) -> str:
    """The text without whatever has the form of a secret."""
    for form, instead in FORMS:
        text = form.sub(instead, text)
    return text


def hide_keys(text: str) -> str:
    """The text without what is certainly a key."""
    return _KEYS.sub(HIDDEN, text)
