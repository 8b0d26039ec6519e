"""The fields above an answer's content, as the upstream sent them.

`system_fingerprint`, `service_tier` and whatever comes next year is not ours to know, but it is
the client's to see: where client and upstream speak the same protocol, it is handed on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from wholecall.protocols.answers import Head, make_answer_id
from wholecall.protocols.reader import Chunk
from wholecall.proxy.holding import UNREADABLE


@dataclass(frozen=True, slots=True)
class _Form:
    """The place of the fields in one protocol, and which of them the encoder writes itself."""

    within: str
    """The field of the stream's first event that holds them; empty: its top level."""
    created: str
    written: frozenset[str]


_FORMS = {
    "openai-chat": _Form(
        # An error is of an answer that was asked for again.
        "",
        "created",
        frozenset({"object", "choices", "usage", "error"}),
    ),
    "openai-responses": _Form(
        "response",
        "created_at",
        frozenset({"object", "output", "usage", "status", "error", "incomplete_details"})
        | {"completed_at", "output_text"},
    ),
    "anthropic": _Form(
        "message",
        "",
        frozenset({"type", "role", "content", "usage", "stop_reason", "stop_sequence"})
        | {"stop_details"},
    ),
}
_DATA = b"data:"


class Original:
    """The metadata of an upstream's answer, from its first chunk."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._first: bytes | None = None

    def look(self, chunk: Chunk) -> None:
        """An answer begins. Only that of the first one counts."""
        if self._first is None:
            self._first = chunk if isinstance(chunk, bytes) else b""

    def make_head(self, protocol: str, model: str) -> Head:
        """Return the metadata in a client's protocol; `model` is the name that the client used."""
        fields = self._fields() if protocol == self._protocol else {}
        form = _FORMS[protocol]
        rest = {name: value for name, value in fields.items() if name not in form.written}
        id, created = rest.pop("id", None), rest.pop(form.created, None)
        return Head(
            id=id if isinstance(id, str) and id else make_answer_id(protocol),
            model=str(rest.pop("model", None) or model),
            created=int(created) if isinstance(created, int | float) else int(time.time()),
            rest=rest,
        )

    def _fields(self) -> Mapping[str, Any]:
        payload = _read_first(self._first or b"")
        within = _FORMS[self._protocol].within
        inner = payload.get(within, payload) if within else payload
        return inner if isinstance(inner, Mapping) else {}


def _read_first(chunk: bytes) -> Mapping[str, Any]:
    """The first payload of a stream, or a whole body. What is cut says nothing."""
    if not chunk.lstrip().startswith(b"{"):
        chunk = chunk.partition(_DATA)[2].partition(b"\n")[0]
    try:
        payload = msgspec.json.decode(chunk)
    except UNREADABLE:
        return {}
    return payload if isinstance(payload, Mapping) else {}
