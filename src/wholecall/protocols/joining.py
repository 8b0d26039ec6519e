"""Join neighbours of the same kind that came in one read.

A fast upstream, or a slow client, makes many chunks come in one read of the socket. How a stream
was cut changes nothing (law 5), so it is cheaper to handle them together: everything after the
decoder then works once per read, not once per chunk.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby
from typing import Any

from wholecall.core.values import CallDelta, CallPieces, Delta, OfChoice, Reasoning, Text


def join(deltas: Iterable[Delta | OfChoice[Delta]]) -> list[Delta | OfChoice[Delta]]:
    """Say the same in fewer deltas."""
    joined: list[Delta | OfChoice[Delta]] = []
    for address, group in groupby(deltas, _address):
        neighbours = list(group)
        if address is None or len(neighbours) == 1:
            joined += neighbours
        else:
            joined.append(_as_one(neighbours))
    return joined


def _address(delta: Delta | OfChoice[Delta]) -> Hashable:
    """Return what a delta adds to, if it adds nothing but text."""
    kind = type(delta)
    if kind is Text:
        return Text
    if isinstance(delta, CallDelta):
        return (delta.slot,) if _is_piece(delta) else None
    return Reasoning if isinstance(delta, Reasoning) and not delta.extras else None


def _is_piece(delta: CallDelta) -> bool:
    return (
        type(delta.arguments) is str
        and not delta.name
        and not delta.id
        and not delta.opens
        and not delta.extras
    )


def _as_one(neighbours: list[Any]) -> Delta:
    first = neighbours[0]
    if isinstance(first, CallDelta):
        return CallPieces(first.slot, pieces=tuple(each.arguments for each in neighbours))
    whole = "".join(each.text for each in neighbours)
    return Text(whole) if isinstance(first, Text) else Reasoning(whole)
