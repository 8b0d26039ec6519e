"""Calls without ids that a chunk brings again.

Some servers send all parts so far in each chunk, or the last ones once more with the finish
reason. Two equal calls may be meant, though, so equality alone says nothing. What does:

- the signature of a thought, which no other call has; and where one call of a chunk is known by
  it, so are those that came with it before;
- the count of tokens, where it has not grown: then nothing was written since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from wholecall.protocols.wire import present, read_count

_SHORTEST_SIGNATURE = 64
"""Characters. Signatures are much longer; shorter ones are words that gateways put there."""

_MOST_CALLS = 64
"""Calls of one answer that are compared with what follows."""
_PLAIN = frozenset({"name", "args"})

Part: TypeAlias = Mapping[str, Any]


class Snapshots:
    """The calls of one candidate so far."""

    __slots__ = ("_calls", "_tokens")

    def __init__(self) -> None:
        self._calls: list[Part] = []
        self._tokens = 0

    def known(self, parts: Sequence[Part | None], tokens: int) -> frozenset[int]:
        """The places of those parts that are calls which came before."""
        places = [at for at, part in enumerate(parts) if part is not None and _is_plain_call(part)]
        if not places or len(self._calls) > _MOST_CALLS:
            return frozenset()
        calls = [parts[at] or {} for at in places]
        again = self._count_again(calls, grown=not 0 < tokens == self._tokens)
        self._calls += calls[again:]
        self._tokens = tokens
        return frozenset(places[:again])

    def _count_again(self, calls: Sequence[Part], *, grown: bool) -> int:
        """Count the leading calls that came before."""
        if not grown and all(call in self._calls for call in calls):
            return len(calls)
        most = len(self._calls)
        if any(map(_is_signed, self._calls)) and list(calls[:most]) == self._calls:
            return most
        return next((at for at, call in enumerate(calls) if not self._is_known(call)), len(calls))

    def _is_known(self, call: Part) -> bool:
        return _is_signed(call) and call in self._calls


def count_tokens(usage: Mapping[str, Any] | None) -> int:
    """Return the number of tokens written so far, according to a chunk; 0 if it does not say."""
    said = usage or {}
    return read_count(said.get("candidatesTokenCount", said.get("candidates_token_count"))) or 0


def _is_plain_call(part: Part) -> bool:
    """Return True if a part is a whole call without an id."""
    call = part.get("functionCall", part.get("function_call"))
    return isinstance(call, Mapping) and bool(call.get("name")) and present(call).keys() <= _PLAIN


def _is_signed(part: Part) -> bool:
    signature = part.get("thoughtSignature", part.get("thought_signature"))
    return isinstance(signature, str | bytes) and len(signature) >= _SHORTEST_SIGNATURE
