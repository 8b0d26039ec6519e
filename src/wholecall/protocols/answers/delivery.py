"""Decide when the parts of one choice are sent.

A call is *gated*: its frames are written when it is released, with the arguments that were checked,
and a rejected one is never seen. In a *live* delivery its text is written as it grows. That is a
promise: if the call is released with other arguments than were shown, is rejected or turns out to
be a repeat, the promise is broken and the answer fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wholecall.core.merge import same_json
from wholecall.core.parse import Parsed, parse
from wholecall.core.values import (
    Call,
    Ended,
    Event,
    Fault,
    FaultKind,
    Grew,
    Opened,
    ProviderBlock,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
)
from wholecall.errors import ProtocolError, UpstreamError
from wholecall.protocols.answers.frames import dump
from wholecall.protocols.answers.halves import EscapedHalves, Halves
from wholecall.protocols.answers.writer import ChoiceWriter, Finish, is_for_client
from wholecall.protocols.pieces import Pieces

_CUT = "the answer was cut off before its end"
_NOTHING = b""


def finish_of(ended: Ended | None, *, called: bool) -> Finish | None:
    """Return the finish of a choice, by what its client really got; None if it was cut.

    A turn may have called tools that the client never sees, and the other way round: the calls may
    come from an earlier turn.
    """
    if ended is None or ended.finish_reason is None:
        return None
    reason = ended.finish_reason
    if called and reason != "content_filter":
        reason = "tool_calls"
    elif reason == "tool_calls":
        reason = "stop"
    return Finish(reason, ended.native)


def blame(faults: Iterable[Fault]) -> UpstreamError:
    """Return why an answer did not end well: its first fault; without one, it just stopped."""
    fault = next(iter(faults), None)
    if fault is None:
        return UpstreamError(_CUT, code=FaultKind.STREAM_DROPPED.value)
    return UpstreamError(fault.message, code=fault.kind.value)


class _Shown:
    """The text of a call that its client sees grow."""

    __slots__ = ("_halves", "_pieces")

    def __init__(self) -> None:
        self._halves = EscapedHalves()
        self._pieces = Pieces("a call on its way to the client")

    def take(self, text: str) -> str:
        """Return the text to show after this piece."""
        shown = self._halves.take(text)
        self._pieces.add(shown)
        return shown

    def join(self) -> str:
        """All that was shown."""
        return self._pieces.join()


class Delivery:
    """One choice on its way to the client."""

    __slots__ = ("_called", "_ended", "_shown", "_steps", "_thoughts", "_words", "_writer", "fault")

    def __init__(self, writer: ChoiceWriter, *, live: bool) -> None:
        self._writer = writer
        self._steps = _LIVE if live else _GATED
        self._called = False
        self._words, self._thoughts = Halves(), Halves()
        self._shown: dict[int, _Shown] = {}
        """The text of each call that is being shown as it grows."""
        self._ended: Ended | None = None
        self.fault: Fault | None = None

    def take(self, event: Event) -> bytes:
        """Return the bytes to send now. Raise `ProtocolError` for a broken promise."""
        step = self._steps.get(type(event))
        if step is None:
            return _NOTHING
        if self._words.held or self._thoughts.held:
            return self._let_go(event) + step(self, event)
        return step(self, event)

    def finish(self) -> Finish | None:
        """Return the finish of the choice; None if it was cut."""
        return finish_of(self._ended, called=self._called)

    # ── Words ───────────────────────────────────────────────────────────────────────

    def _say(self, event: Text) -> bytes:
        text = self._words.take(event.text)
        return self._writer.say(text) if text else _NOTHING

    def _think(self, event: Reasoning) -> bytes:
        text = self._thoughts.take(event.text)
        return self._writer.think(event if text == event.text else Reasoning(text, event.extras))

    def _let_go(self, event: Event) -> bytes:
        """Flush a lone surrogate before an event of another kind."""
        frames = _NOTHING
        if not isinstance(event, Reasoning) and self._thoughts.held:
            frames += self._writer.think(Reasoning(self._thoughts.rest()))
        if not isinstance(event, Text) and self._words.held:
            frames += self._writer.say(self._words.rest())
        return frames

    def _add_block(self, event: ProviderBlock) -> bytes:
        frames = self._writer.add_block(event.native)
        self._called = self._called or (bool(frames) and is_for_client(event.native))
        return frames

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _release(self, event: Released) -> bytes:
        self._called = True
        return self._writer.add_call(event.call, _write(event.call))

    def _show(self, event: Opened) -> bytes:
        self._shown[event.number] = _Shown()
        return self._writer.open_call(event)

    def _grow(self, event: Grew) -> bytes:
        shown = self._shown.get(event.number)
        if shown is None:
            return _NOTHING
        text = shown.take(event.text)
        return self._writer.grow_call(event.number, text) if text else _NOTHING

    def _close(self, event: Released) -> bytes:
        call = event.call
        shown = self._shown.pop(call.number, None)
        if shown is None:
            return self._release(event)
        self._called = True
        frames, text = _NOTHING, shown.join()
        if not text.strip():  # without arguments a call has `{}`, never an empty text
            text = _write(call)
            frames = self._writer.grow_call(call.number, text)
        elif not _says(text, call):
            raise ProtocolError(f"the arguments of call {call.id!r} were changed after being shown")
        return frames + self._writer.close_call(call, text)

    def _reject(self, event: Rejected) -> bytes:
        return self._break(event.number, f"call {event.id!r} was rejected: {event.detail}")

    def _repeat(self, event: Repeated) -> bytes:
        return self._break(event.number, f"call {event.number} only repeats call {event.of}")

    def _break(self, number: int, why: str) -> bytes:
        if number in self._shown:
            raise ProtocolError(why)
        return _NOTHING

    # ── The end ─────────────────────────────────────────────────────────────────────

    def _fail(self, event: Fault) -> bytes:
        self.fault = self.fault or event
        return _NOTHING

    def _end(self, event: Ended) -> bytes:
        self._ended = event
        if event.finish_reason is not None:
            self.fault = None  # it was of an attempt that was made again
        return _NOTHING


def _write(call: Call) -> str:
    return dump(call.arguments).decode()


def _says(text: str, call: Call) -> bool:
    """Return True if a text is exactly the arguments of a call, as JSON."""
    parsed = parse(text)
    return isinstance(parsed, Parsed) and same_json(parsed.value, call.arguments)


_GATED: dict[type[Event], Callable[[Delivery, Any], bytes]] = {
    Text: Delivery._say,
    Reasoning: Delivery._think,
    ProviderBlock: Delivery._add_block,
    Released: Delivery._release,
    Fault: Delivery._fail,
    Ended: Delivery._end,
}
_LIVE: dict[type[Event], Callable[[Delivery, Any], bytes]] = {
    **_GATED,
    Opened: Delivery._show,
    Grew: Delivery._grow,
    Released: Delivery._close,
    Rejected: Delivery._reject,
    Repeated: Delivery._repeat,
}
