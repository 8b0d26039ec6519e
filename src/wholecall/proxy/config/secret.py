"""Text that is never shown."""

from __future__ import annotations

from dataclasses import dataclass, field

HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Secret:
    """A key, or a text that holds one. Neither `str` nor `repr` shows it."""

    _text: str = field(repr=False)
    written: str = field(default=HIDDEN, compare=False)
    """How the file says it: `${OPENAI_API_KEY}`."""

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __str__(self) -> str:
        return HIDDEN


def reveal(text: str | Secret) -> str:
    """The text of a value that may be a secret."""
    return text.reveal() if isinstance(text, Secret) else text
