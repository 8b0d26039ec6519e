"""Search secrets in a stream faster, without what all of its lines have in common.

The chunks of a stream are all alike but for a few characters:

    data: {"id":"x","choices":[{"delta":{"content":"The"},"finish_reason":null}]}
    data: {"id":"x","choices":[{"delta":{"content":" sky"},"finish_reason":null}]}
    └────────────────── head ─────────────────────┘   └───────── rest ──────────┘

Head and rest are searched once. That misses no secret, because none can extend over the quotes
between which the lines differ:

- No form of a secret goes over the end of a line.
- The head ends with a quote and the rest begins with one. Only the form `word": "value"` has
  quotes inside. If the head ends as such a form begins, or the rest begins as one continues, the
  text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wholecall.upstreams.secrets import VALUE, WORDS

SHORTEST = 2048
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
    if len(text) < SHORTEST:
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
