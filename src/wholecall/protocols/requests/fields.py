"""The fields of a request: read with their names, and put together again."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from wholecall.core.conversation import Message, Native, Request
from wholecall.errors import UnreadableRequest
from wholecall.protocols.wire import plain, present

_Shape = TypeVar("_Shape")
# What msgspec says of a value that does not fit: the place comes last, if there is one.
_PLACE = re.compile(r" - at `\$(?P<path>.*)`$")
_MISSING = re.compile(r"missing required field `(?P<name>[^`]*)`")


class _Kind(msgspec.Struct):
    type: str | None = None


# ── Reading ─────────────────────────────────────────────────────────────────────────


def fit(value: Any, shape: type[_Shape], *, at: str = "") -> _Shape:
    """Check a part of the request once; `at` is its path."""
    try:
        return msgspec.convert(value, shape)
    except ValueError as error:  # half of a surrogate pair is another one than what does not fit
        raise _explain(str(error), at) from None


def read_kind(part: Any, at: str) -> str:
    """Return the type of a content part; empty if it has none."""
    return fit(part, _Kind, at=at).type or ""


def refuse(param: str, message: str) -> UnreadableRequest:
    """The error for a field that cannot be read."""
    return UnreadableRequest(f"{param or 'the body'}: {message}", param=param)


def _explain(message: str, at: str) -> UnreadableRequest:
    place = _PLACE.search(message)
    path = place["path"] if place else ""
    missing = _MISSING.search(message)
    if missing:
        path += f".{missing['name']}"
    return refuse(f"{at}{path}".removeprefix("."), _PLACE.sub("", message))


def read_id(id: str | int | None) -> str:
    """The id of a call as text: some clients count them, some leave them out."""
    return "" if id is None else str(id)


def refuse_role(at: str, role: str | None, *, known: Collection[str]) -> UnreadableRequest:
    """The error for a message of a role that the protocol does not have."""
    return refuse(f"{at}.role", f"{role!r} is none of {', '.join(map(repr, known))}")


def without(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The fields that have other names."""
    return {name: value for name, value in fields.items() if name not in names}


def keep_rest(protocol: str, fields: Mapping[str, Any]) -> Native | None:
    """The other fields of a request, if there are any."""
    return Native(protocol, dict(fields)) if fields else None


# ── Writing ─────────────────────────────────────────────────────────────────────────


def rest_of(request: Request, protocol: str) -> Mapping[str, Any]:
    """The other fields of a request, as far as they were written in this protocol."""
    rest = request.rest
    value: Mapping[str, Any] = rest.value if rest and rest.protocol == protocol else {}
    return value


def natives_of(message: Message, protocol: str) -> Sequence[Any] | None:
    """The messages or items that a message was read from in this protocol."""
    native = message.native
    return native.value if native is not None and native.protocol == protocol else None


def complete(body: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """A body with all its fields, which shares nothing with what it was made of."""
    copied: dict[str, Any] = plain(merge(rest, present(body)))
    return copied


def merge(rest: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Put the fields of both together, those of objects too; of two values the body's counts."""
    merged = dict(rest)
    for name, value in body.items():
        beside: Any = merged.get(name)
        both = isinstance(beside, Mapping) and isinstance(value, Mapping)
        merged[name] = merge(beside, value) if both else value
    return merged
