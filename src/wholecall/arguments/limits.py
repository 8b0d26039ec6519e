"""The named limits of the core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one turn."""

    calls: int = 64
    """Calls a turn. More than this is a model in a loop."""
    choices: int = 128
    """Choices an answer. It is the most that OpenAI gives for one request (`n`)."""
    name: int = 256
    """Characters of a tool's name, unless a longer one is offered. Providers allow 64 or 128."""
    blocks: int = 1024
    """Blocks, or calls, of one answer that a decoder tracks at a time. More than `calls`, so that
    the assembler can tell apart the excess calls."""
    characters: int = 4 * 1024 * 1024
    """Characters of arguments a call."""
    values: int = 65_000
    """Members and items of arguments, at whatever depth: a table of ten thousand rows. To
    build and check one takes a microsecond, and 4 MB could hold two million."""
    containers: int = 25_000
    """Objects and arrays among them. Each costs as much as several other values."""
    depth: int = 128
    """Nesting of arguments. Validators recurse; some crash on deep values."""
    blank_run: int = 1024
    """White space in a row outside strings. A model that emits more is degenerate and continues to
    the output limit; the deepest honest indentation stays below."""


DEFAULT = Limits()
