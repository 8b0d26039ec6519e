"""From the chunks of one answer to events: framing, decoding, assembling.

The reader does no IO. It is fed what its caller has: bytes as they come from the
socket, lines, decoded payloads, or the objects of a client library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from wholecall.core.assembler import Assembler
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Delta, Event, Fault, FaultKind, OfChoice
from wholecall.errors import ProtocolError
from wholecall.protocols.registry import decoder_for, framing_for

Chunk: TypeAlias = bytes | str | Mapping[str, Any] | object
"""Raw bytes of the stream, one raw line of it, a decoded payload, or a client's object."""
Tools: TypeAlias = Iterable[ToolSpec | Mapping[str, Any]]


class Reader:
    """Reads one answer in one protocol."""

    def __init__(
        self,
        protocol: str,
        tools: Tools | None = None,
        *,
        new_assembler: Callable[[Tools | None], Assembler] = Assembler,
    ) -> None:
        self._decoder = decoder_for(protocol)
        self._framing = framing_for(protocol)
        self._tools = None if tools is None else list(tools)
        self._new_assembler = new_assembler
        self._assembler = new_assembler(self._tools)
        self._others: dict[int, Assembler] = {}

    def feed(self, chunk: Chunk) -> list[Event]:
        """Take what came; return what it brought about."""
        if not isinstance(chunk, bytes | str):
            return self._decoded(self._decoder.decode(chunk))
        try:
            payloads = self._framing.feed(chunk)
        except ProtocolError as error:
            return self._decoded([Fault(FaultKind.PROTOCOL, str(error))])
        return self._payloads(payloads)

    def feed_response(self, body: Chunk) -> list[Event]:
        """Take a whole answer that was not streamed."""
        return self._decoded(self._decoder.decode_response(body))

    def end(self) -> list[Event]:
        """The stream is over: settle everything."""
        events = self._payloads(self._framing.end())
        for choice, assembler in self._others.items():
            events += (OfChoice(choice, event) for event in assembler.end())
        return events + self._assembler.end()

    def _payloads(self, payloads: Iterable[str]) -> list[Event]:
        events: list[Event] = []
        for payload in payloads:
            events += self._decoded(self._decoder.decode(payload))
        return events

    def _decoded(self, deltas: Iterable[Delta | OfChoice[Delta]]) -> list[Event]:
        events: list[Event] = []
        feed = self._assembler.feed
        for delta in deltas:
            events += self._of_choice(delta) if isinstance(delta, OfChoice) else feed(delta)
        return events

    def _of_choice(self, delta: OfChoice[Delta]) -> list[Event]:
        assembler = self._others.get(delta.choice)
        if assembler is None:
            assembler = self._others[delta.choice] = self._new_assembler(self._tools)
        return [OfChoice(delta.choice, event) for event in assembler.feed(delta.value)]
