"""From events to the bytes of a client's stream, or to one whole response."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.arguments.parse import HALVES, Parsed, parse, replace_lone
from wholecall.assembly.json_scanner import same_json
from wholecall.errors import ProtocolError, UpstreamError
from wholecall.events import (
    JSON,
    Call,
    Ended,
    Event,
    Fault,
    FaultKind,
    Grew,
    OfChoice,
    Opened,
    ProviderBlock,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
    Usage,
    merge_usage,
)
from wholecall.messages import Native, Part, PastCall
from wholecall.protocols.decoder import Pieces
from wholecall.protocols.history import LEFT_OUT, answer_message, own_text
from wholecall.protocols.response_base import (
    KEEP_ALIVE,
    ChoiceWriter,
    Failure,
    FinishReason,
    Writer,
    dump,
    read_failure,
    waits_for_client,
)

_REPLACEMENT = "\ufffd"
_FIRST, _LAST = "\ud800", "\udbff"
"""The halves with which pairs begin."""
_HEX = "[0-9a-fA-F]"
_UPPER = rf"u[dD][89abAB]{_HEX}{{2}}"
_LOWER_BEGUN = rf"\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?"
# An escape that is not complete, or the first surrogate of a pair with the part of the second that
# has come. Pairs of backslashes before it do not matter.
_OPEN = re.compile(
    rf"(?<!\\)(?:\\\\)*+(?P<open>\\(?:u{_HEX}{{0,3}}|{_UPPER}(?:{_LOWER_BEGUN})?)?)\Z"
)
_LONGEST_OPEN = len(r"\ud83d\ude0")


class Halves:
    """Holds back half of a character at the end of a piece. What it lets go may be joined."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""

    def take(self, text: str) -> str:
        """Return the text that is complete after this piece."""
        if self.held:
            text, self.held = self.held + text, ""
        if text and _FIRST <= text[-1] <= _LAST:
            text, self.held = text[:-1], text[-1]
        return text

    def rest(self) -> str:
        """Return the replacement of a surrogate that stayed alone."""
        alone, self.held = self.held, ""
        return _REPLACEMENT if alone else ""


class EscapedHalves:
    """The same for an object of JSON. What it lets go has no halves, raw or escaped.

    An object ends with a brace, so that nothing of it is held in the end.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def take(self, text: str) -> str:
        """Return the text that is complete after this piece."""
        if self._held:
            text, self._held = self._held + text, ""
        found = _OPEN.search(text) if "\\" in text[-_LONGEST_OPEN:] else None
        if found is not None:
            self._held = found["open"]
        elif text and _FIRST <= text[-1] <= _LAST:
            self._held = text[-1]
        return _replace(text[: len(text) - len(self._held)])


def _replace(text: str) -> str:
    if "\\" not in text and text.isascii():
        return text
    whole = replace_lone(text)
    if whole is None:
        raise ProtocolError(f"garbled: more than {HALVES} halves of surrogate pairs")
    return whole.text


# Decide when the parts of one choice are sent.
#
# A call is *gated*: its frames are written when it is released, with the arguments that were
# checked, and a rejected one is never seen. In a *live* delivery its text is written as it grows.
# That is a promise: if the call is released with other arguments than were shown, is rejected or
# turns out to be a repeat, the promise is broken and the answer fails.


_CUT = "the answer was cut off before its end"
_NOTHING = b""


def finish_of(ended: Ended | None, *, called: bool) -> FinishReason | None:
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
    return FinishReason(reason, ended.native)


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

    def finish(self) -> FinishReason | None:
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
        self._called = self._called or (bool(frames) and waits_for_client(event.native))
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
    return own_text(call) or dump(call.arguments).decode()


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


# An answer that is not streamed: its events, put together to what every protocol writes.


@dataclass(frozen=True, slots=True)
class GatheredChoice:
    """One choice: its parts in order, and how it ended."""

    parts: tuple[Part, ...]
    finish: FinishReason
    notes: tuple[Mapping[str, Any], ...] = ()
    """Notes on its text and its end that its parts omit, in the upstream's form."""


@dataclass(frozen=True, slots=True)
class GatheredAnswer:
    """All choices of an answer, and what it cost."""

    choices: Mapping[int, GatheredChoice]
    usage: Usage | None


def gather(events: Iterable[Event], *, upstream: str = "") -> GatheredAnswer:
    """Put the events of an answer together.

    An answer that did not end well is an `UpstreamError`: nothing of it may look like one that
    did. Rejected calls are left out.
    """
    usage: Usage | None = None
    choices: dict[int, list[Event]] = {0: []}
    for event in events:
        if isinstance(event, OfChoice):
            choices.setdefault(event.choice, []).append(event.value)
        elif isinstance(event, Usage):
            usage = merge_usage(usage, event)
        else:
            choices[0].append(event)
    said = {index: _put_together(each, upstream) for index, each in choices.items()}
    return GatheredAnswer(said, usage)


def _put_together(events: list[Event], upstream: str) -> GatheredChoice:
    delivered = [event for event in events if not isinstance(event, Rejected)]
    parts = answer_message(delivered, upstream).parts
    ended = next((event for event in reversed(events) if isinstance(event, Ended)), None)
    finish = finish_of(ended, called=any(map(_is_call, parts)))
    if finish is None:
        raise blame(event for event in events if isinstance(event, Fault))
    extras = (event.extras for event in events if isinstance(event, Reasoning))
    notes = tuple(each for each in extras if each and each.keys() <= LEFT_OUT)
    return GatheredChoice(parts, finish, notes)


def _is_call(part: Part) -> bool:
    own = isinstance(part, Native) and waits_for_client(part.value)
    return own or isinstance(part, PastCall)


# From the events of an answer to the bytes of its client's stream.
#
# >     encoder = make_encoder("openai-chat", head)
# >     send(encoder.begin())
#     for event in events:
# >         send(encoder.encode(event))
# >     send(encoder.finish())
#
# Whatever its caller does, a stream has one beginning and one end, and it ends well only if its
# last turn did: `finish` writes an error if that was cut or failed, and nothing is written after
# the end.


def _break(why: str) -> UpstreamError:
    return UpstreamError(why, code="broken_answer")


class _Stage(enum.Enum):
    NEW = "new"
    OPEN = "open"
    OVER = "over"


class Encoder:
    """Writes one answer. A run may take many turns for it; the client sees one."""

    __slots__ = ("_broken", "_deliveries", "_first", "_live", "_stage", "_usage", "_writer")

    def __init__(self, writer: Writer, *, live: bool = False) -> None:
        self._writer = writer
        self._live = live
        self._stage = _Stage.NEW
        self._deliveries: dict[int, Delivery] = {}
        self._first: Delivery | None = None
        """The delivery of the first choice, while the stream is open."""
        self._usage: Usage | None = None
        self._broken = ""
        """The reason why the shown part of a call was wrong."""

    @property
    def is_over(self) -> bool:
        """True if the stream has ended: nothing more will be written."""
        return self._stage is _Stage.OVER

    def begin(self) -> bytes:
        """The beginning of the stream: written once, at the latest with the first event."""
        if self._stage is not _Stage.NEW:
            return _NOTHING
        self._stage = _Stage.OPEN
        opening = self._writer.begin(self._usage) + self._open_choice(0)
        self._first = self._deliveries[0]
        return opening

    def encode(self, event: Event) -> bytes:
        """The frames that this event brings about, if any."""
        first = self._first
        if first is None:
            return self._encode_outside(event)
        try:
            if isinstance(event, OfChoice):
                return self._encode_other(event)
            if isinstance(event, Usage):
                self._usage = merge_usage(self._usage, event)
            return first.take(event)
        except ProtocolError as error:  # what was shown of a call turned out to be wrong
            self._broken = str(error)
            return self.fail(read_failure(_break(self._broken)))

    def demand_end(self) -> None:
        """`UpstreamError` says why the answer cannot end well, as far as it has come."""
        if self._broken:
            raise _break(self._broken)
        finishes = [delivery.finish() for delivery in self._deliveries.values()]
        if self._stage is _Stage.OVER or (finishes and None not in finishes):
            return
        raise blame(each.fault for each in self._deliveries.values() if each.fault is not None)

    def finish(self) -> bytes:
        """The end of the stream: its terminator if the answer ended well, else an error."""
        if self._stage is _Stage.OVER:
            return _NOTHING
        opening = self.begin()
        try:
            self.demand_end()
        except UpstreamError as why:
            return opening + self.fail(read_failure(why))
        finishes = {index: delivery.finish() for index, delivery in self._deliveries.items()}
        whole = {index: finish for index, finish in finishes.items() if finish is not None}
        self._close()
        return opening + self._writer.finish(whole, self._usage)

    def fail(self, failure: Failure) -> bytes:
        """An error in the protocol's shape, and no terminator."""
        if self._stage is _Stage.OVER:
            return _NOTHING
        self._close()
        return self._writer.fail(failure)

    def keep_alive(self) -> bytes:
        """A sign of life for a client that has to wait."""
        if self._stage is _Stage.OVER:
            return _NOTHING
        # No protocol has a sign of its own that may stand before its beginning.
        return KEEP_ALIVE if self._stage is _Stage.NEW else self._writer.keep_alive()

    def report(self, progress: JSON) -> bytes:
        """Write progress for clients that requested it; others ignore it."""
        if self._stage is _Stage.OVER:
            return _NOTHING
        return self.begin() + self._writer.report(progress)

    def _encode_outside(self, event: Event) -> bytes:
        """Encode an event before the beginning or after the end."""
        if self._stage is _Stage.OVER:
            return _NOTHING
        if isinstance(event, Usage):  # a stream may begin with what it cost to read the request
            self._usage = merge_usage(self._usage, event)
            return _NOTHING
        return self.begin() + self.encode(event)

    def _encode_other(self, event: OfChoice[Event]) -> bytes:
        opening = _NOTHING if event.choice in self._deliveries else self._open_choice(event.choice)
        delivery = self._deliveries.get(event.choice)
        return _NOTHING if delivery is None else opening + delivery.take(event.value)

    def _open_choice(self, index: int) -> bytes:
        writer = self._writer.choice(index)
        if writer is None:
            return _NOTHING
        self._deliveries[index] = Delivery(writer, live=self._live)
        return writer.opening

    def _close(self) -> None:
        self._stage = _Stage.OVER
        self._first = None
