"""Tools that stand in a prompt, as a case says it: what `check` needs to read the answer again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholecall.core.assembler import Assembler
from wholecall.core.choice import decode, encode
from wholecall.core.conversation import Prompted
from wholecall.core.spec import read_offer
from wholecall.dialects.emulate import NewAssembler, with_unmarked
from wholecall.dialects.emulated_answer import EmulatedAssembler
from wholecall.dialects.enforce import Gate
from wholecall.dialects.engine import Engine
from wholecall.dialects.registry import dialect_named
from wholecall.protocols.reader import Tools, TurnAssembler

_DIALECT, _BEGINNING = "dialect", "beginning"
_FORM = "openai-chat"
"""Whose words a case has for the choice."""


def write_prompted(prompted: Prompted) -> dict[str, Any]:
    """Return the fields of a case other than its tools."""
    begun = {_BEGINNING: prompted.beginning} if prompted.beginning else {}
    return {_DIALECT: prompted.dialect, **encode(prompted.choice, _FORM).fields, **begun}


def read_prompted(case: Mapping[str, Any], tools: Tools) -> Prompted | None:
    """The same of a case that was read; None if its tools were offered natively.

    A dialect that is not known is an `UnusableDialect`, and a choice an `InvalidChoice`.
    """
    if not case.get(_DIALECT):
        return None
    offer = read_offer(tools)
    return Prompted(
        dialect=dialect_named(str(case[_DIALECT])).name,
        tools=tuple(offer.values()),
        choice=decode(_FORM, case, offered=offer),
        beginning=str(case.get(_BEGINNING) or ""),
    )


def assembler_of(prompted: Prompted) -> NewAssembler:
    """Return the reader of the answer; `Reader` takes it as `new_assembler`."""
    dialect = with_unmarked(dialect_named(prompted.dialect))
    offer = read_offer(prompted.tools)

    def new_assembler(tools: Tools | None) -> TurnAssembler:
        return EmulatedAssembler(
            Assembler(tools),
            Gate(prompted.choice),
            engine=Engine(dialect, offer),
            beginning=prompted.beginning,
        )

    return new_assembler
