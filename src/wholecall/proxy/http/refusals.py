"""Refusals of requests, in the client protocol's error format, and of those that are too large."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from wholecall.errors import UnreadableRequest
from wholecall.protocols.registry import CLIENTS, ClientSide, client_side
from wholecall.protocols.response_base import Failure
from wholecall.proxy.config.schema import ServerLimits

_SIDES = tuple(client_side(name) for name in CLIENTS)


class RequestRefused(Exception):
    """A request is turned away; the words are for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        unread: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers = headers
        self.unread = unread
        """True if the client is probably still sending its body."""


def refuse_for_now(status: int, message: str, *, code: str, seconds: float) -> RequestRefused:
    """Turn a request away that may come again after so many seconds."""
    retry_after = str(max(math.ceil(seconds), 1)).encode()
    return RequestRefused(status, message, code=code, headers=((b"retry-after", retry_after),))


def encode_refusal(path: str, refused: RequestRefused, *, request_id: str) -> bytes:
    """The body of the answer, as the clients of this path read errors."""
    failure = Failure(
        message=refused.message, status=refused.status, code=refused.code, request_id=request_id
    )
    return msgspec.json.encode(_clients_of(path).encode_error(failure))


@lru_cache(maxsize=256)
def request_id_header(path: str) -> bytes:
    """The header in which the clients of this path look for the id of their request."""
    return _clients_of(path).request_id_header.encode()


def _clients_of(path: str) -> ClientSide:
    """Return how the clients of this path are served; by default as those of chat completions."""
    served = (side for side in _SIDES if f"{path}/".startswith(f"{side.path}/"))
    return next(served, _SIDES[0])


class HttpRefusal(NamedTuple):
    """A request that was turned away, for those who look after the proxy."""

    request_id: str
    path: str
    status: int
    code: str
    key_id: str = ""
    """Whose it was, where that was found out."""


# ── Requests that hold too many messages, parts, calls or tools ───────────────────────
#
# Lists are counted in the raw bytes, and counting stops at the limit: nothing of a request is
# decoded before its size is known, and a refusal costs no more than one pass over the bytes. A
# request below these limits takes a bounded time to decode.

MOST_VALUES = 500_000
"""JSON values in a request. Decoding holds up every thread, at about 100 ns a value."""
LARGE = 64 * 1024
"""Bytes of a request that is decoded in a thread: it may take longer than a few milliseconds."""
_MESSAGES = ("messages", "input")
_TOOLS = ("tools", "functions")
_CALL_TYPES = (b'"tool_use"', b'"function_call"', b'"custom_tool_call"')
_NOTHING = msgspec.Raw(b"")
# A text in one step, however long, and what separates values. It never backtracks.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[,\[{]', re.DOTALL)
_MARKS = (b",", b"[", b"{")


class _Room(threading.local):
    """The entries that a list may still have. Threads count at the same time."""

    left = 0


_room = _Room()


class _Full(Exception):
    """A list has more entries than there is room for."""


class _Entry(msgspec.Struct):
    """An entry of a list that is only counted."""

    def __post_init__(self) -> None:
        _room.left -= 1
        if _room.left < 0:
            raise _Full


class _Holder(msgspec.Struct):
    """A message or a part, as far as it holds lists."""

    type: msgspec.Raw = _NOTHING
    content: msgspec.Raw = _NOTHING
    output: msgspec.Raw = _NOTHING
    summary: msgspec.Raw = _NOTHING
    tool_calls: msgspec.Raw = _NOTHING

    @property
    def parts(self) -> Iterator[msgspec.Raw]:
        return (raw for raw in (self.content, self.output, self.summary) if _is_list(raw))


_ENTRIES = msgspec.json.Decoder(list[_Entry])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_HOLDER = msgspec.json.Decoder(_Holder)


def check_size(fields: Mapping[str, msgspec.Raw], limits: ServerLimits) -> None:
    """Raise `UnreadableRequest` if a request has more of something than the limits allow."""
    for name in _TOOLS:
        if name in fields and _is_list(fields[name]):
            _check_tools(name, fields[name], limits=limits)
    for name in _MESSAGES:
        if name in fields and _is_list(fields[name]):
            _History(name, limits).check(fields[name])
    for name, raw in fields.items():
        if _size(raw) > MOST_VALUES:
            _check_values(name, bytes(raw))


def _check_tools(name: str, raw: msgspec.Raw, *, limits: ServerLimits) -> None:
    if _size(raw) > limits.tool_bytes:
        raise _refuse(name, f"{limits.tool_bytes} bytes", setting="tool_bytes")
    if _count(raw, limits.tools) > limits.tools:
        raise _refuse(name, f"{limits.tools} tools", setting="tools")


class _History:
    """The messages of a request, whose parts and calls are counted together."""

    def __init__(self, name: str, limits: ServerLimits) -> None:
        self._name = name
        self._limits = limits
        self._parts = 0
        self._calls = 0

    def check(self, raw: msgspec.Raw) -> None:
        """Raise `UnreadableRequest` if there is too much of something."""
        limits = self._limits
        # An entry takes two bytes at least, so that a short list needs no counting.
        if _size(raw) // 2 <= min(limits.messages, limits.parts, limits.calls):
            return
        if _count(raw, limits.messages) > limits.messages:
            raise _refuse(self._name, f"{limits.messages} messages", setting="messages")
        for message in _RAWS.decode(raw):
            self._check_holder(message, is_part=False)

    def _check_holder(self, raw: msgspec.Raw, *, is_part: bool) -> None:
        try:
            holder = _HOLDER.decode(raw)
        except msgspec.DecodeError:  # not an object: it holds no lists
            return
        if bytes(holder.type) in _CALL_TYPES:
            self._add_calls(1)
        if _is_list(holder.tool_calls):
            self._add_calls(_count(holder.tool_calls, self._limits.calls - self._calls))
        for parts in holder.parts:
            self._add_parts(_count(parts, self._limits.parts - self._parts))
            if not is_part:
                for part in _RAWS.decode(parts):
                    self._check_holder(part, is_part=True)

    def _add_calls(self, count: int) -> None:
        self._calls += count
        if self._calls > self._limits.calls:
            raise _refuse(self._name, f"{self._limits.calls} calls", setting="calls")

    def _add_parts(self, count: int) -> None:
        self._parts += count
        if self._parts > self._limits.parts:
            raise _refuse(self._name, f"{self._limits.parts} parts", setting="parts")


def _is_list(raw: msgspec.Raw) -> bool:
    return memoryview(raw)[:1].tobytes() == b"["


def _size(raw: msgspec.Raw) -> int:
    return memoryview(raw).nbytes


def _count(raw: msgspec.Raw, most: int) -> int:
    """Count the entries of a list; one more than `most` for all that are longer.

    A long list with entries that are not objects is judged by its commas, which are never fewer.
    """
    _room.left = most
    try:
        return len(_ENTRIES.decode(raw))
    except _Full:
        return most + 1
    except msgspec.DecodeError:
        is_short = _size(raw) <= LARGE
        return len(_RAWS.decode(raw)) if is_short else min(bytes(raw).count(b",") + 1, most + 1)


def _check_values(name: str, raw: bytes) -> None:
    """Count what is outside of texts, if there may be too much of it."""
    if sum(map(raw.count, _MARKS)) <= MOST_VALUES:
        return
    for count, _ in enumerate(_TOKEN.finditer(raw)):
        if count == MOST_VALUES:
            raise UnreadableRequest(f"{name}: more than {MOST_VALUES} JSON values", param=name)


def _refuse(name: str, most: str, *, setting: str) -> UnreadableRequest:
    why = f"{name}: more than {most}, which is the limit of this server (limits.{setting})"
    return UnreadableRequest(why, param=name)
