"""An assembler that also looks for calls in the text of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wholecall.core.assembler import Assembler
from wholecall.core.ids import CallIds
from wholecall.core.spec import ToolSpec, read_offer
from wholecall.core.values import Delta, Event, Rejected
from wholecall.dialects.rescue import Rescuer


class RescuingAssembler:
    """Assembles one turn; calls that stand in its text are rescued.

    Only offered tools are looked for. Without any there is nothing to rescue.
    """

    def __init__(
        self,
        tools: Iterable[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        hides_truncation: bool = False,
        ids: CallIds | None = None,
    ) -> None:
        offer = read_offer(tools or ())
        self._assembler = Assembler(
            None if tools is None else offer.values(), hides_truncation=hides_truncation, ids=ids
        )
        self._rescuer = Rescuer(offer) if offer else None

    def feed(self, delta: Delta) -> list[Event]:
        """Take one delta; return what it brought about."""
        if self._rescuer is None:
            return self._assembler.feed(delta)
        return self._assemble(self._rescuer.feed(delta))

    def end(self) -> list[Event]:
        """The stream is over, with or without a terminator: settle every draft."""
        rest = self._rescuer.end() if self._rescuer is not None else []
        return self._assemble(rest) + self._assembler.end()

    def _assemble(self, given: list[Delta | Rejected]) -> list[Event]:
        events: list[Event] = []
        for each in given:
            events += [each] if isinstance(each, Rejected) else self._assembler.feed(each)
        return events
