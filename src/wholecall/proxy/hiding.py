"""Secrets are taken out of whatever is written down.

Those that we know are replaced wherever they stand. Those that we do not know, because a client
or an upstream put them into its words, are recognised by their form.

Nearly all texts hold none, and some are long: the inspector looks at every chunk of a stream. So
it is first found out cheaply whether there is one at all. `re` looks for a literal with which a
pattern begins many times faster than for alternatives; hence one pattern for each word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from wholecall.proxy.shrinking import shrink, shrink_all
from wholecall.upstreams.secrets import (
    ASSIGNS,
    BARE_MAKERS,
    CREDENTIALS,
    FORMS,
    HIDDEN,
    JOINT,
    KEY,
    MAKERS,
    SCHEMES,
    SHORTEST,
    USER,
    VALUE,
    WORDS,
)

_MAKER_FINDERS = tuple(re.compile(rf"{maker}(?<=\b{maker}){JOINT}{KEY}") for maker in MAKERS)
_FINDERS = (
    re.compile(rf"A(?<=\bA)(?:{'|'.join(maker[1:] for maker in BARE_MAKERS)}){KEY}"),
    re.compile(USER),
)
# For a text in small letters.
_SCHEME_FINDERS = tuple(re.compile(rf"{scheme}(?<=\b{scheme}){CREDENTIALS}") for scheme in SCHEMES)
_WORD_FINDERS = tuple(re.compile(rf"{word}(?<![^\W_]{word}){ASSIGNS}{VALUE}") for word in WORDS)
# Letters that are equal to a small one where case does not matter, and have no small form.
_LONG_S = "\u017f"
_SLAB = 256
"""Texts that are searched together. Others cannot work meanwhile, so they are not too many."""
_SHORTEST_FORM = 12
"""Characters of the shortest text that one of the forms fits. Most texts of a log are shorter."""
_REACH = 64
"""Characters in which a secret shows its form, with the text before it."""
_LONGEST_REACH = 600
"""The same for one in an address."""
_SHORT = 1024
"""Characters up to which one pattern for all makers is faster than one for each."""
_AFTER_MAKER = "|".join(rf"(?<=\b{maker}{JOINT})" for maker in MAKERS)
_SIGN = re.compile(r"[ \t=:A]")
"""One of these is in every form but that of the makers."""
_ANY_MAKER = re.compile(rf"{JOINT}(?={KEY})(?:{_AFTER_MAKER})")


def _has_form(text: str) -> bool:
    # A single character is found at once, and plain words have none of these.
    if ("-" in text or "_" in text) and _has_maker(text):
        return True
    if _SIGN.search(text) is None:
        return False  # as most words of a log
    if any(finder.search(text) for finder in _FINDERS):
        return True
    small = text.lower()
    if _LONG_S in small:
        small = small.replace(_LONG_S, "s")
    if any(finder.search(small) for finder in _SCHEME_FINDERS):
        return True
    assigns = ":" in small or "=" in small
    return assigns and any(finder.search(small) for finder in _WORD_FINDERS)


def _has_maker(text: str) -> bool:
    if len(text) <= _SHORT:
        return _ANY_MAKER.search(text) is not None
    return any(finder.search(text) for finder in _MAKER_FINDERS)


class Hiding:
    """Takes secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self._innocent: tuple[str, tuple[str, ...]] = ("", ())
        """The last long text without a secret. A call has the one that grew before it."""
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these as well. What was a secret once remains one."""
        known = {*self._secrets, *(secret for secret in secrets if len(secret) >= SHORTEST)}
        # The longest first: a secret may be a part of another.
        self._secrets = tuple(sorted(known, key=len, reverse=True))

    def tail(self, text: str) -> str:
        """Return the end of a text: a secret may begin in it and continue after it."""
        if "://" in text[-_LONGEST_REACH:]:
            return text[-_LONGEST_REACH:]
        return text[-max(_REACH, len(self._secrets[0]) if self._secrets else 0) :]

    def finds_in(self, texts: Sequence[str]) -> bool:
        """Return True if a secret is in one of many texts, each of whole lines."""
        for start in range(0, len(texts), _SLAB):
            slab = texts[start : start + _SLAB]
            whole = "".join(slab) if self._secrets else ""
            if any(secret in whole for secret in self._secrets) or _has_form(shrink_all(slab)):
                return True
        return False

    def hide(self, text: str) -> str:
        """The text without secrets."""
        secrets, (innocent, of) = self._secrets, self._innocent
        if len(text) < SHORTEST or (text == innocent and secrets is of):
            return text
        hidden = text
        for secret in secrets:
            hidden = hidden.replace(secret, HIDDEN)
        if len(hidden) >= _SHORTEST_FORM and _has_form(shrink(hidden)):
            for form, instead in FORMS:
                hidden = form.sub(instead, hidden)
        if len(text) > _SHORT and hidden == text:
            self._innocent = (text, secrets)
        return hidden
