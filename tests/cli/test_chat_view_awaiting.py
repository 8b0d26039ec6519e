"""The line that says what is waited for."""

from __future__ import annotations

import io

from rich.console import Console

from wholecall.cli.chat_view import SILENT_SECONDS, ProgressLine


def test_it_says_what_and_for_how_long_once_that_is_worth_a_word() -> None:
    console = Console(file=io.StringIO(), width=80)
    now, words = [0.0], ["loading"]
    line = ProgressLine(lambda: words[0], lambda: now[0])
    for now[0], words[0] in [(SILENT_SECONDS / 2, "loading"), (2.0, "loading"), (3.0, "waiting")]:
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    silence, first, second = console.file.getvalue().splitlines()
    assert silence == ""
    assert first.endswith(" loading 2 s")
    assert second.endswith(" waiting 3 s")
