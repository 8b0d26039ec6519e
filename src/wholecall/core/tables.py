"""Tables with an entry for each protocol, and what is said where one has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from wholecall.errors import UnknownProtocol

_Found = TypeVar("_Found")


def find_entry(table: Mapping[str, _Found], protocol: str) -> _Found:
    """The entry of a protocol, or an `UnknownProtocol` that names those of the table."""
    try:
        return table[protocol]
    except KeyError:
        known = ", ".join(map(repr, table))
        raise UnknownProtocol(f"protocol {protocol!r} is none of {known}") from None
