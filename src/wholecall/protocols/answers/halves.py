r"""Texts that arrive in pieces and were cut within a character.

Providers cut text between the surrogates of a pair, raw or escaped (`\ud83d`). A lone surrogate is
not a character: strict clients refuse it, and Python does not join two of them either. So it is
held back until the other one comes; one that stays alone becomes U+FFFD.
"""

from __future__ import annotations

import re

from wholecall.core.surrogates import HALVES, replace_lone
from wholecall.errors import ProtocolError

_REPLACEMENT = "\ufffd"
_FIRST, _LAST = "\ud800", "\udbff"
"""The halves with which pairs begin."""
_HEX = "[0-9a-fA-F]"
_UPPER = rf"u[dD][89abAB]{_HEX}{{2}}"
_LOWER_BEGUN = rf"\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?"
# An escape that is not complete, or the first surrogate of a pair with the part of the second that
# has come. Pairs of backslashes before it do not matter.
_OPEN = re.compile(
    rf"(?<!\\)(?:\\\\)*+(?P<open>\\(?:u{_HEX}{{0,3}}|{_UPPER}(?:{_LOWER_BEGUN})?)?)\Z"
)
_LONGEST_OPEN = len(r"\ud83d\ude0")


class Halves:
    """Holds back half of a character at the end of a piece. What it lets go may be joined."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""

    def take(self, text: str) -> str:
        """Return the text that is complete after this piece."""
        if self.held:
            text, self.held = self.held + text, ""
        if text and _FIRST <= text[-1] <= _LAST:
            text, self.held = text[:-1], text[-1]
        return text

    def rest(self) -> str:
        """Return the replacement of a surrogate that stayed alone."""
        alone, self.held = self.held, ""
        return _REPLACEMENT if alone else ""


class EscapedHalves:
    """The same for an object of JSON. What it lets go has no halves, raw or escaped.

    An object ends with a brace, so that nothing of it is held in the end.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def take(self, text: str) -> str:
        """Return the text that is complete after this piece."""
        if self._held:
            text, self._held = self._held + text, ""
        found = _OPEN.search(text) if "\\" in text[-_LONGEST_OPEN:] else None
        if found is not None:
            self._held = found["open"]
        elif text and _FIRST <= text[-1] <= _LAST:
            self._held = text[-1]
        return _replace(text[: len(text) - len(self._held)])


def _replace(text: str) -> str:
    if "\\" not in text and text.isascii():
        return text
    whole = replace_lone(text)
    if whole is None:
        raise ProtocolError(f"garbled: more than {HALVES} halves of surrogate pairs")
    return whole.text
