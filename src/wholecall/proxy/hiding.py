"""Secrets are taken out of whatever is written down.

Those that we know are replaced wherever they stand. Those that we do not know, because a client
or an upstream put them into its words, are recognised by their form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wholecall.proxy.config.secret import HIDDEN

# A shorter secret is a word such as "none" that local servers take; hiding it hides prose.
_SHORTEST = 8
# Keys begin with the word of whoever made them: sk-ant-…, wc_…, ghp_….
_MAKERS = (
    *("sk", "pk", "rk", "wc", "gsk", "xai", "hf", "ghp", "gho", "github_pat", "glpat"),
    *("xoxa", "xoxb", "xoxp"),
)
# ?key=…, "api_key": "…", x-api-key: …
_WORDS = ("key", "token", "secret", "password", "signature", "cookie")
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"\b({'|'.join(_MAKERS)})[-_][\w-]{{12,}}"), rf"\1-{HIDDEN}"),
    (re.compile(r"\b(AIza|AKIA)[\w-]{12,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(bearer|basic)[ \t]+[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    # https://user:password@host
    (re.compile(r"://[^/\s@\"'<>]{1,512}@"), f"://{HIDDEN}@"),
    (
        re.compile(
            rf"(?<![^\W_])({'|'.join(_WORDS)})([\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}[\"']?)"
            r"[^\s&\"',;})]{8,}",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
)
_SHORTEST_FORM = 12
"""Characters of the shortest text that one of the forms fits. Most texts of a log are shorter."""


class Hiding:
    """Takes secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these as well. What was a secret once remains one."""
        known = {*self._secrets, *(secret for secret in secrets if len(secret) >= _SHORTEST)}
        # The longest first: a secret may be a part of another.
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def hide(self, text: str) -> str:
        """The text without secrets."""
        if len(text) < _SHORTEST:
            return text
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        if len(text) >= _SHORTEST_FORM:
            for form, instead in _FORMS:
                text = form.sub(instead, text)
        return text
