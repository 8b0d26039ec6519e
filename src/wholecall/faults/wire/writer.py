"""The interface of every protocol's writer, and the framing of a payload as an event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from wholecall.faults.script import Spoken
from wholecall.faults.wire.whole import Whole

CREATED = 1_790_000_000
"""The same time in every answer: two runs of a scenario are the same bytes."""
INPUT_TOKENS = 42
OUTPUT_TOKENS = 17


class Writer(Protocol):
    """Writes one answer in one protocol."""

    def open(self) -> str:
        """Return the beginning of a stream."""

    def write(self, step: Spoken) -> str:
        """One step of a stream."""

    def encode(self, whole: Whole) -> Mapping[str, Any]:
        """A whole answer."""


def write_event(payload: Mapping[str, Any], name: str = "") -> str:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n"
