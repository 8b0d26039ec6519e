"""Exchanges for tests of taps: a clock that is set by hand, and calls that are made up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wholecall.events import Call, Evidence
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Reading, Reads, Tap, TapEvent


class Clock:
    """Shows the time that it is set to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Recorder:
    """A tap that keeps the events of the types that it is told to."""

    kinds: tuple[type, ...]
    seen: list[TapEvent] = field(default_factory=list)

    def open(self, exchange: Exchange) -> Reading:  # noqa: ARG002 - of all exchanges alike
        return self.seen, Reads(dict.fromkeys(self.kinds, list.append))


def exchange(**fields: Any) -> Exchange:
    known = {
        "request_id": "req_1",
        "protocol": "openai-chat",
        "path": "/v1/chat/completions",
        "model": "gpt-x",
        "key_id": "key_1",
        "way": "gate",
        "stream": True,
        "upstream": "openai-chat",
        "upstream_model": "gpt-x-2026",
        "started": 100.0,
    }
    return Exchange(**{**known, **fields})


def watch(*taps: Tap, clock: Clock | None = None, **fields: Any) -> ExchangeWatch:
    return ExchangeWatch(exchange(**fields), taps, clock=clock or Clock())


def call(name: str = "get_weather", **fields: Any) -> Call:
    known = {"id": "call_1", "arguments": {}, "raw": "{}", "evidence": Evidence.CONFIRMED}
    return Call(name=name, **{**known, **fields})
