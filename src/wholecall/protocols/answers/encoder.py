"""From the events of an answer to the bytes of its client's stream.

    encoder = make_encoder("openai-chat", head)
    send(encoder.begin())
    for event in events:
        send(encoder.encode(event))
    send(encoder.finish())

Whatever its caller does, a stream has one beginning and one end, and it ends well only if its last
turn did: `finish` writes an error if that was cut or failed, and nothing is written after the end.
"""

from __future__ import annotations

import enum

from wholecall.core.outcome import merge_usage
from wholecall.core.values import JSON, Event, OfChoice, Usage
from wholecall.errors import ProtocolError, UpstreamError
from wholecall.protocols.answers.delivery import Delivery, blame
from wholecall.protocols.answers.failures import Failure, read_failure
from wholecall.protocols.answers.frames import KEEP_ALIVE
from wholecall.protocols.answers.writer import Writer

_NOTHING = b""


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
        return writer.open()

    def _close(self) -> None:
        self._stage = _Stage.OVER
        self._first = None
