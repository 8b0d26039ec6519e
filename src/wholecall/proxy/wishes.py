"""The client's options for the proxy itself: a field of its request that no upstream sees.

    {"model": …, "messages": […], "wholecall": {"events": true}}

It equals the header `X-Wholecall-Events: 1`, for clients that cannot send headers.
"""

from __future__ import annotations

import msgspec

from wholecall.errors import UnreadableRequest
from wholecall.protocols.answers import PRIVATE


class Wishes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client's options for the proxy."""

    events: bool = False
    """Report what happens between the turns."""


NONE = Wishes()
_DECODER = msgspec.json.Decoder(Wishes | None)


def take_wishes(fields: dict[str, msgspec.Raw]) -> tuple[Wishes, dict[str, msgspec.Raw]]:
    """The wishes of a request, and its other fields."""
    if PRIVATE not in fields:
        return NONE, fields
    others = {name: value for name, value in fields.items() if name != PRIVATE}
    try:
        return _DECODER.decode(fields[PRIVATE]) or NONE, others
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = f'`{PRIVATE}` has to be an object such as {{"events": true}}: {error}'
        raise UnreadableRequest(why, param=PRIVATE) from None
