"""All that one turn gave, folded from its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wholecall.events import (
    Call,
    Ended,
    Event,
    Inconsistent,
    OfChoice,
    ProviderBlock,
    Reasoning,
    Rejected,
    Released,
    Text,
    Usage,
)

FIGURES = 256
"""Names of figures that are kept over the chunks of one answer. Providers have a dozen; with more,
those of the last chunk are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a turn. `calls` is exactly what may be executed, in call order."""

    calls: tuple[Call, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    """The finish reason for what was really delivered: `tool_calls`, `stop`, `length`,
    `content_filter`."""
    native_finish_reason: str | None = None
    """The upstream's own word."""
    error: str | None = None
    """None, or in one word what went wrong with the stream."""
    usage: Usage | None = None
    inconsistencies: tuple[Inconsistent, ...] = ()
    reasoning_extras: tuple[Mapping[str, Any], ...] = ()
    """Signatures and encrypted reasoning that the provider wants back."""
    provider_blocks: tuple[Mapping[str, Any], ...] = ()
    choices: Mapping[int, Outcome] = field(default_factory=dict)
    """The other choices of an answer with `n` > 1, by their index."""


def collect(events: Iterable[Event]) -> Outcome:
    """Fold the events of one turn."""
    fold = _Fold()
    for event in events:
        fold.add(event)
    return fold.outcome()


def merge_usage(before: Usage | None, usage: Usage) -> Usage:
    """Later figures win; what they leave out is kept (Anthropic sends the input first)."""
    if before is None:
        return usage
    native = {**before.native, **usage.native}
    return Usage(
        before.input_tokens if usage.input_tokens is None else usage.input_tokens,
        before.output_tokens if usage.output_tokens is None else usage.output_tokens,
        native if len(native) <= FIGURES else usage.native,
    )


class _Fold:
    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._rejected: list[Rejected] = []
        self._texts: list[str] = []
        self._reasoning: list[Reasoning] = []
        self._blocks: list[Mapping[str, Any]] = []
        self._odd: list[Inconsistent] = []
        self._usage: Usage | None = None
        self._ended = Ended(None, None, None, None)
        self._choices: dict[int, _Fold] = {}

    def add(self, event: Event) -> None:
        take = _TAKE.get(type(event))
        if take is not None:
            take(self, event)

    def outcome(self) -> Outcome:
        return Outcome(
            calls=tuple(sorted(self._calls, key=lambda call: call.number)),
            rejected=tuple(sorted(self._rejected, key=lambda rejected: rejected.number)),
            text="".join(self._texts),
            reasoning="".join(piece.text for piece in self._reasoning),
            finish_reason=self._ended.finish_reason,
            native_finish_reason=self._ended.native,
            error=self._ended.error,
            usage=self._usage,
            inconsistencies=tuple(self._odd),
            reasoning_extras=tuple(piece.extras for piece in self._reasoning if piece.extras),
            provider_blocks=tuple(self._blocks),
            choices={index: fold.outcome() for index, fold in self._choices.items()},
        )

    def _take_usage(self, usage: Usage) -> None:
        self._usage = merge_usage(self._usage, usage)

    def _take_ended(self, ended: Ended) -> None:
        self._ended = ended

    def _take_choice(self, of_choice: OfChoice[Event]) -> None:
        self._choices.setdefault(of_choice.choice, _Fold()).add(of_choice.value)


_TAKE: dict[type[Event], Callable[[_Fold, Any], None]] = {
    Released: lambda fold, event: fold._calls.append(event.call),
    Rejected: lambda fold, event: fold._rejected.append(event),
    Text: lambda fold, event: fold._texts.append(event.text),
    Reasoning: lambda fold, event: fold._reasoning.append(event),
    ProviderBlock: lambda fold, event: fold._blocks.append(event.native),
    Usage: _Fold._take_usage,
    Inconsistent: lambda fold, event: fold._odd.append(event),
    Ended: _Fold._take_ended,
    OfChoice: _Fold._take_choice,
}
