"""The choices of a whole answer of OpenAI's chat protocol: which is which.

Copilot's gateway sends the words of one answer in one choice and its calls in the next ones
(https://github.com/SWE-agent/mini-swe-agent/issues/804). The first says that it ended for its
calls and has none, which no answer of its own would say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from wholecall.core.hints import read_hint
from wholecall.core.values import Hint


class _Entry(Protocol):
    index: Any


class _Choice(Protocol):
    index: Any
    message: Any
    delta: Any
    finish_reason: Any


def number(choices: Sequence[_Choice | None]) -> None:
    """In a whole answer the place in the list is the index; nothing is missing there."""
    _number_by_place(choices)
    present = [choice for choice in choices if choice is not None]
    if present and _lacks_calls(present[0]):
        _join(present)
    for choice in present:
        message = _message_of(choice)
        if message is not None:
            _number_by_place(message.tool_calls or [])


def _number_by_place(entries: Sequence[_Entry | None]) -> None:
    for place, entry in enumerate(entries):
        if entry is not None and entry.index is None:
            entry.index = place


def _lacks_calls(choice: _Choice) -> bool:
    message = _message_of(choice)
    reason = choice.finish_reason
    if message is None or message.tool_calls or message.function_call:
        return False
    return bool(reason) and read_hint(str(reason)) is Hint.TOOL_CALLS


def _join(choices: Sequence[_Choice]) -> None:
    """Choices that are nothing but calls are the calls of the first."""
    calls: list[Any] = []
    for choice in choices[1:]:
        message = _message_of(choice)
        if message is not None and message.tool_calls and not message.content:
            calls += message.tool_calls
            message.tool_calls = None
    _message_of(choices[0]).tool_calls = calls


def _message_of(choice: _Choice) -> Any:
    return choice.message or choice.delta
