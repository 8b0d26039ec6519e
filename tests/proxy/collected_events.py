"""An answer that is only collected, and a watch that nobody looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholecall.events import JSON, Event, Released, Text
from wholecall.protocols.response_base import Failure
from wholecall.proxy.http.client_connection import RawHeaders, ResponseBody
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch


class Collected:
    """Takes the events of an answer."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.reports: list[JSON] = []
        self.turns: list[bool] = []
        self.flushes = 0

    def put(self, *events: Event) -> None:
        self.events += events

    def begin_turn(self, *, void: bool) -> None:
        self.turns.append(void)

    def report(self, progress: JSON) -> None:
        self.reports.append(progress)

    def recall(self, text: str) -> None:
        self.events.append(Text(text))

    async def flush(self) -> None:
        self.flushes += 1

    async def finish(self) -> None:
        """Nothing is written here."""

    async def fail(self, failure: Failure, headers: RawHeaders = ()) -> None:
        raise AssertionError((failure, headers))

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Text))

    @property
    def calls(self) -> list[tuple[str, Any]]:
        made = [event.call for event in self.events if isinstance(event, Released)]
        return [(call.name, call.arguments) for call in made]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


class KeptSink:
    """Keeps what is written to it."""

    def __init__(self) -> None:
        self.frames = b""
        self.flushed = 0
        self.woken = 0
        self.closed = False
        self.body: ResponseBody | None = None
        self.headers: RawHeaders = ()
        self.begun = False
        self.gone = False
        self.beat: Callable[[], bytes] = bytes

    def add_headers(self, headers: RawHeaders) -> None:
        self.headers += headers

    def put(self, frames: bytes) -> None:
        self.frames += frames

    async def flush(self) -> None:
        self.flushed = len(self.frames)
        self.begun = self.begun or bool(self.frames)

    def wake(self) -> None:
        self.woken += 1

    async def close(self) -> None:
        await self.flush()
        self.closed = True

    async def send_body(self, body: ResponseBody) -> None:
        self.body = body


def unseen() -> ExchangeWatch:
    """A watch without taps."""
    return ExchangeWatch(Exchange(request_id="req_1"), ())
