"""Text that is never shown."""

from __future__ import annotations

from wholecall.upstreams.secrets import HIDDEN


class Secret:
    """A key, or a text that holds one. Neither `str` nor `repr` shows it. It does not change."""

    __slots__ = ("_text", "_written")

    def __init__(self, text: str, *, written: str = HIDDEN) -> None:
        self._text = text
        self._written = written

    @property
    def written(self) -> str:
        """The setting as written in the file: `${OPENAI_API_KEY}`."""
        return self._written

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Secret({self._written!r})"

    def __str__(self) -> str:
        return HIDDEN


def reveal(text: str | Secret) -> str:
    """The text of a value that may be a secret."""
    return text.reveal() if isinstance(text, Secret) else text
