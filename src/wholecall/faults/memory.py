"""The server's memory: how often the same was asked, and what happened."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wholecall.faults.question import Question
from wholecall.faults.script import Form, ToolRun

_CONVERSATIONS = 4096
"""Histories whose attempts are counted; the least recently used one is forgotten."""
_EVENTS = 2048
"""Requests, and reports of tools, that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request that the server got, and which answer of the script it gave."""

    scenario: str
    form: Form
    turn: int
    attempt: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reported:
    """A tool that an agent says it ran."""

    label: str
    """The run of an agent: the label in the address that it reported to."""
    run: ToolRun


@dataclass(slots=True)
class Memory:
    """All of it; `forget` empties it."""

    received: deque[Received] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    reported: deque[Reported] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    _attempts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def receive(self, question: Question, scenario: str) -> int:
        """Note a request; return how often the same was asked before."""
        attempt = self._count(question.conversation)
        received = Received(
            scenario=scenario,
            form=question.form,
            turn=question.turn,
            attempt=attempt,
            body=question.body,
        )
        self.received.append(received)
        return attempt

    def forget(self) -> None:
        """Begin anew."""
        self.received.clear()
        self.reported.clear()
        self._attempts.clear()

    def _count(self, conversation: str) -> int:
        attempt = self._attempts.pop(conversation, 0)
        self._attempts[conversation] = attempt + 1
        if len(self._attempts) > _CONVERSATIONS:
            self._attempts.popitem(last=False)
        return attempt
