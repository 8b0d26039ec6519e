"""Remove secrets from whatever is written down, fast in streams whose lines are alike."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from wholecall.upstreams.secrets import (
    ASSIGNS,
    BARE_MAKERS,
    CREDENTIALS,
    HIDDEN,
    JOINT,
    KEY,
    MAKERS,
    SCHEMES,
    SHORTEST,
    USER,
    VALUE,
    WORDS,
    hide_forms,
)

SHORTEST_LINE = 2048
"""Characters of a text that is worth it."""
_FEW = 4
"""Texts that are not worth it."""
_LEAST = 64
"""Characters that two lines must have in common."""
# Without case, `[kK]` has a third letter and `[sS]` as well: not worth a rule, so text that is not
# plain ASCII is left alone.
_BEGINS = re.compile(
    rf"(?:{'|'.join(WORDS)})[\"']?[ \t]{{0,4}}(?:[=:][ \t]{{0,4}}[\"']?)?\Z",
    re.IGNORECASE | re.ASCII,
)
_GOES_ON = re.compile(rf"\"[ \t]{{0,4}}(?:[=:]|{VALUE})")


def shrink(text: str) -> str:
    """A text that has a secret in it exactly if the given one has one."""
    if len(text) < SHORTEST_LINE:
        return text
    head, rest = _find_common(*_find_lines(text))
    if len(head) + len(rest) < _LEAST or not (head + rest).isascii():
        return text
    if head:
        text = text.replace(f"\n{head}", "\n")
    if rest:
        text = text.replace(f"{rest}\n", "\n")
    return "\n".join((head, rest, text))


def shrink_all(texts: Sequence[str]) -> str:
    """The same for texts of whole lines, in one. Chunks of a stream are nearly all alike."""
    middle = len(texts) // 2
    head, rest = _find_common(*texts[middle : middle + 2]) if len(texts) > _FEW else ("", "")
    if len(head) + len(rest) < _LEAST or not (head + rest).isascii():
        return shrink("".join(texts))
    begin, end = len(head), -len(rest) or None
    small = [
        text[begin:end] if text.startswith(head) and text.endswith(rest) else text for text in texts
    ]
    return "\n".join((head, rest, *small))


def _find_lines(text: str) -> tuple[str, str]:
    """Two lines from the middle that follow each other; blank ones do not count."""
    place = text.find("\n", len(text) // 2)
    found: list[str] = []
    while place >= 0 and len(found) < 2:  # noqa: PLR2004 - two lines
        end = text.find("\n", place + 1)
        line = text[place + 1 : end] if end >= 0 else ""
        if line:
            found.append(line)
        place = end
    return (found[0], found[1]) if len(found) == 2 else ("", "")  # noqa: PLR2004 - two lines


def _find_common(one: str, other: str) -> tuple[str, str]:
    """Return the common prefix up to a quote, and the common suffix from a quote on."""
    head = one[: _count_common(one, other)]
    head = head[: head.rfind('"') + 1]
    if _BEGINS.search(head):
        head = ""
    one, other = one[len(head) :], other[len(head) :]
    rest = one[len(one) - _count_common(one[::-1], other[::-1]) :]
    quote = rest.find('"')
    rest = rest[quote:] if quote >= 0 else ""
    return head, "" if _GOES_ON.match(rest) else rest


def _count_common(one: str, other: str) -> int:
    """Characters that both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


# Secrets are taken out of whatever is written down.
#
# Those that we know are replaced wherever they stand. Those that we do not know, because a client
# or an upstream put them into its words, are recognised by their form.
#
# Nearly all texts hold none, and some are long: the inspector looks at every chunk of a stream. So
# it is first found out cheaply whether there is one at all. `re` looks for a literal with which a
# pattern begins many times faster than for alternatives; hence one pattern for each word.


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


_PLAIN = frozenset({bool, int, float, type(None)})
_REPEATED = frozenset({"model", "path", "native_finish_reason"})
"""Fields with a word that nearly every line of a log has. Clients may choose it: few are known."""
_MOST_WORDS = 256
_DEEPEST = 6
"""Levels of a field that are searched for secrets; deeper ones are omitted."""


class Redactor:
    """Takes secrets out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: tuple[str, ...] = ()
        self._innocent: tuple[str, tuple[str, ...]] = ("", ())
        """The last long text without a secret. A call has the one that grew before it."""
        self._words: set[str] = set()
        """Short texts without a secret: models and paths are in every line of a log."""
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        """Hide these as well. What was a secret once remains one."""
        known = {*self._secrets, *(secret for secret in secrets if len(secret) >= SHORTEST)}
        # The longest first: a secret may be a part of another.
        self._secrets = tuple(sorted(known, key=len, reverse=True))
        self._words.clear()

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

    def hide_fields(
        self, fields: Mapping[str, object], *, known: Collection[str] = ()
    ) -> dict[str, object]:
        """Return fields without secrets in their values. The `known` ones hold our own words."""
        hidden = dict(fields)
        for name, value in fields.items():
            if type(value) in _PLAIN or name in known:
                continue
            if name in _REPEATED and isinstance(value, str):
                hidden[name] = self._hide_word(value)
            else:
                hidden[name] = self._hide_in(value, _DEEPEST)
        return hidden

    def _hide_word(self, word: str) -> str:
        """The same as `hide`, for a word that comes again and again."""
        if word in self._words:
            return word
        hidden = self.hide(word)
        if hidden == word and len(self._words) < _MOST_WORDS:
            self._words.add(word)
        return hidden

    def _hide_in(self, value: object, depth: int) -> object:
        """Hide secrets in every text of a value; the names of fields are ours."""
        match value:
            case str():
                return self.hide(value)
            case bool() | int() | float() | None:
                return value
            case dict() if depth:
                return {name: self._hide_in(each, depth - 1) for name, each in value.items()}
            case list() | tuple() if depth:
                return [self._hide_in(each, depth - 1) for each in value]
            case _:
                return self.hide(str(value))

    def hide(self, text: str) -> str:
        """The text without secrets."""
        secrets, (innocent, of) = self._secrets, self._innocent
        if len(text) < SHORTEST or (text == innocent and secrets is of):
            return text
        hidden = text
        for secret in secrets:
            hidden = hidden.replace(secret, HIDDEN)
        if len(hidden) >= _SHORTEST_FORM and _has_form(shrink(hidden)):
            hidden = hide_forms(hidden)
        if len(text) > _SHORT and hidden == text:
            self._innocent = (text, secrets)
        return hidden
