"""Repair the history of a request so that its upstream accepts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeGuard

from wholecall.protocols.anthropic.history import ANTHROPIC
from wholecall.protocols.call_pairs import settle
from wholecall.protocols.decoder import find_entry
from wholecall.protocols.history import (
    ANTHROPIC_IDS,
    Aside,
    Change,
    ChangeKind,
    HistoryForm,
    Mending,
    Piece,
    System,
    Target,
    Wire,
)
from wholecall.protocols.openai_chat.history import CHAT
from wholecall.protocols.openai_responses.history import RESPONSES

# Each protocol, and what every reader of it accepts.
_FORMS: dict[str, tuple[HistoryForm, Target]] = {
    "openai-chat": (CHAT, Target()),
    "openai-responses": (RESPONSES, Target()),
    "anthropic": (ANTHROPIC, Target(ids=ANTHROPIC_IDS)),
}
_SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Mended:
    """A history that can be sent, and what was changed to make it so."""

    messages: list[Any]
    changes: tuple[Change, ...] = ()
    system: tuple[Any, ...] = ()
    """System messages that may not stand among the others: the request holds them elsewhere."""


def mend(
    protocol: str,
    messages: Sequence[Any],
    *,
    target: Target | None = None,
    continues: bool = False,
    remembered: Mapping[str, Wire] | None = None,
) -> Mended:
    """Mend a history and report each change. What comes in is not touched.

    `continues` says that the upstream holds earlier messages (`previous_response_id`): a result
    whose call is not here stays. `remembered` are fields of earlier messages that clients lose,
    such as `reasoning_content`, by the id of a call that the message made.
    """
    form, default = find_entry(_FORMS, protocol)
    mending = Mending(target or default, continues, remembered or {})
    pieces = form.split(messages, mending)
    pieces, system = _place_system(pieces, mending)
    joined = form.join(settle(pieces, form, mending=mending), mending)
    return Mended(joined, tuple(mending.changes), system)


def repair_history(protocol: str, messages: Sequence[Any]) -> list[Any]:
    """The same history as the protocol's upstreams accept it: `mend` without the report.

    ```python
    import wholecall

    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    call = {"id": "c1", "type": "function", "function": function}
    history = [{"role": "assistant", "tool_calls": [call]}]
    print(wholecall.repair_history("openai-chat", history)[1]["content"])
    ```

    ```text
    Error: no result was recorded for this call. It may or may not have run.
    ```
    """
    return mend(protocol, messages).messages


def _place_system(pieces: list[Piece], mending: Mending) -> tuple[list[Piece], tuple[Any, ...]]:
    """Put system messages where the target wants them."""
    where = mending.target.system
    if where is System.ANYWHERE:
        return pieces, ()
    system = [piece for piece in pieces if _is_system(piece)]
    others = [piece for piece in pieces if not _is_system(piece)]
    ordered = [*system, *others] if where is System.LEADING else others
    leading = len(list(takewhile(_is_system, pieces))) if where is System.LEADING else 0
    for piece in system[leading:]:
        mending.note(ChangeKind.SYSTEM_MOVED, piece.at)
    apart = system if where is System.APART else []
    return ordered, tuple(piece.native for piece in apart)


def _is_system(piece: Piece) -> TypeGuard[Aside]:
    if not isinstance(piece, Aside) or piece.opaque:
        return False
    role, kind = piece.native.get("role"), piece.native.get("type", "message")
    return kind == "message" and isinstance(role, str) and role in _SYSTEM_ROLES
