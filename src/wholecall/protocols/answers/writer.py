"""The interface of a protocol's writer: the shape of its frames, and nothing about when to send
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from wholecall.core.values import JSON, Call, Opened, Reasoning, Usage
from wholecall.protocols.answers.failures import Failure
from wholecall.protocols.custom_calls import CUSTOM


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a choice: in OpenAI's words, and in the upstream's own."""

    reason: str
    native: str | None = None


def is_for_client(native: Mapping[str, Any]) -> bool:
    """Return True if a block is a call of a tool that the client runs and that we do not know."""
    return native.get("type") == CUSTOM


class ChoiceWriter(Protocol):
    """Writes the content of one choice.

    A call is written at once (`add_call`); or, while its verdict is open, it is opened, grows, and
    is closed.
    """

    def open(self) -> bytes:
        """The choice begins."""

    def say(self, text: str, /) -> bytes:
        """A piece of text."""

    def think(self, event: Reasoning, /) -> bytes:
        """A piece of reasoning, or what belongs to it."""

    def add_block(self, native: Mapping[str, Any], /) -> bytes:
        """Write the actions of the provider itself."""

    def add_call(self, call: Call, arguments: str, /) -> bytes:
        """A whole call; `arguments` is the text of its checked arguments."""

    def open_call(self, opened: Opened, /) -> bytes:
        """A call begins."""

    def grow_call(self, number: int, text: str, /) -> bytes:
        """The arguments of a call grow."""

    def close_call(self, call: Call, arguments: str, /) -> bytes:
        """A call is over; `arguments` is all the text that it grew to."""


class Writer(Protocol):
    """Writes one answer in one protocol."""

    def begin(self, usage: Usage | None, /) -> bytes:
        """The answer begins; `usage` is what is known of its cost so far."""

    def choice(self, index: int, /) -> ChoiceWriter | None:
        """The writer of a choice; None where the protocol has but one."""

    def finish(self, finishes: Mapping[int, Finish], usage: Usage | None, /) -> bytes:
        """The answer is over, and it ended well."""

    def fail(self, failure: Failure, /) -> bytes:
        """The answer failed."""

    def keep_alive(self) -> bytes:
        """Something that says nothing but that the connection lives."""

    def report(self, progress: JSON, /) -> bytes:
        """Write progress, which clients ignore that did not request it."""
