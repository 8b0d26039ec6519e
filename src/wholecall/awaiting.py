"""A line that moves while nothing else does: what is waited for, and for how long."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType
from rich.spinner import Spinner
from rich.text import Text as Styled

SILENT_SECONDS = 0.5
"""A shorter wait needs no words."""
FRAMES = 8
"""In a second."""


class Awaiting:
    """A spinner with a status line, redrawn by `rich`."""

    def __init__(self, words: Callable[[], str], clock: Callable[[], float]) -> None:
        self._words = words
        self._clock = clock
        self._began = clock()
        self._spinner = Spinner("dots")

    def __rich__(self) -> RenderableType:
        """The line as it is now."""
        seconds = self._clock() - self._began
        if seconds < SILENT_SECONDS:
            return ""
        self._spinner.update(text=Styled(f"{self._words()} {seconds:.0f} s", "dim"))
        return self._spinner
