"""The settings of a local model, and the order for its process."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """The defaults suit a small model on a laptop."""

    context: int = 8192
    """Tokens of a conversation. Memory is taken for all of them at the start."""
    parallel: int = 1
    """Answers at a time; they share the context. Who comes later waits."""
    threads: int | None = None
    """Of the processor; None: as many as there are cores."""
    output_tokens: int = 2048
    """Of one answer, where the request names no limit: a small model may go on for ever."""
    temperature: float = 0.0
    """The default. A small model's calls are best at zero."""
    start_seconds: float = 300.0
    """A model of many gigabytes on a slow disk takes minutes to load."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The first input of the process, as one line of JSON.

    Not on its command line: that is visible to every user of the machine, key included.
    """

    path: str
    key: str
    context: int
    parallel: int
    threads: int
    output_tokens: int
    temperature: float


class Ready(msgspec.Struct, frozen=True):
    """The process' message that the model is loaded."""

    address: str
