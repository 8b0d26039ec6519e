"""How a model on this machine is run, and what its process is told."""

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
    """Where the request names none. A small model's calls are best when it does not guess."""
    start_seconds: float = 300.0
    """A model of many gigabytes on a slow disk takes minutes to load."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the process reads first, as one line of JSON.

    Not from its command line: that is shown to everybody on the machine, key included.
    """

    path: str
    key: str
    context: int
    parallel: int
    threads: int
    output_tokens: int
    temperature: float


class Ready(msgspec.Struct, frozen=True):
    """What the process says when the model is loaded."""

    address: str
