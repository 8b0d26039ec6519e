"""An assembler that also looks for calls in the text of an answer."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from wholecall.core.assembler import Assembler
from wholecall.core.choice import Choice
from wholecall.core.ids import CallIds
from wholecall.core.spec import ToolSpec, read_offer
from wholecall.core.values import (
    Delta,
    Event,
    Inconsistent,
    Oddity,
    Opened,
    Reason,
    Rejected,
    Text,
)
from wholecall.dialects.enforce import Gate, Refusal
from wholecall.dialects.provenance import Provenance, is_rescued
from wholecall.dialects.rescue import Rescuer, Told


class Rescue(enum.Enum):
    """What becomes of a call that an upstream left in the text of its answer."""

    OFF = "off"
    """It stays text."""
    READ_ONLY = "read_only"
    """It is started if its tool changes nothing; else the model is told to make the call through
    the tool interface."""
    ALL = "all"
    """It is started."""


MayStart: TypeAlias = Callable[[str], bool]
"""Whether a call of the tool of this name may be started although it was written as text."""

WRITTEN = Refusal(Reason.WRITTEN_AS_TEXT, "")


class RescuingAssembler:
    """Assembles one turn; calls that stand in its text are rescued.

    Only offered tools are looked for. Without any there is nothing to rescue.
    """

    def __init__(
        self,
        tools: Iterable[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        provenance: Provenance | None = None,
        may_start: MayStart | None = None,
        hides_truncation: bool = False,
        ids: CallIds | None = None,
    ) -> None:
        """`provenance` knows what was said before. Without `may_start` every call may start."""
        offer = read_offer(tools or ())
        self._assembler = Assembler(
            None if tools is None else offer.values(), hides_truncation=hides_truncation, ids=ids
        )
        self._rescuer = Rescuer(offer, provenance) if offer else None
        self._may_start = may_start
        self._gate = Gate(Choice())

    def feed(self, delta: Delta) -> list[Event]:
        """Take one delta; return what it brought about."""
        if self._rescuer is None:
            return self._assembler.feed(delta)
        return self._assemble(self._rescuer.feed(delta))

    def end(self) -> list[Event]:
        """The stream is over, with or without a terminator: settle every draft."""
        rest = self._rescuer.end() if self._rescuer is not None else []
        return self._assemble(rest) + self._judge(self._assembler.end())

    def _assemble(self, given: list[Told]) -> list[Event]:
        events: list[Event] = []
        for each in given:
            if type(each) is Text:  # nearly always, and no call comes of it
                events += self._assembler.feed(each)
            elif isinstance(each, Rejected | Inconsistent):
                events.append(each)
            else:
                events += self._judge(self._assembler.feed(each))
        return events

    def _judge(self, events: list[Event]) -> list[Event]:
        """Report each call that was rescued, and refuse those that may not be started."""
        judged: list[Event] = []
        for event in events:
            judged.append(self._gate.judge(event))
            if isinstance(event, Opened) and is_rescued(event.id):
                judged.append(self._report(event))
        return judged

    def _report(self, opened: Opened) -> Inconsistent:
        detail = f"the call of {opened.name!r} was written as text"
        if self._may_start is not None and not self._may_start(opened.name):
            self._gate.refuse(opened.number, WRITTEN)
            detail += "; the setting `rescue: all` would have run it"
        return Inconsistent(Oddity.CALL_AS_TEXT, detail, opened.number)
