"""The function calls of a Responses stream, followed over all events that speak of them.

OpenAI says the same four times: the item when it begins, its arguments in pieces and
whole, the item when it is done, all items at the end. Imitators leave out any of it and
renumber or rename the rest. So a call is found by its ids, else by its index; it is opened when
its name is known; and what was said before is not handed on again.

Some servers give one `call_id` to several calls. An item is another call than its namesake if it
begins at another place, if it says something else there after the namesake is over, or if the
end of the response lists it beside the namesake.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

import msgspec

from wholecall.core.limits import DEFAULT
from wholecall.core.merge import same_json
from wholecall.core.values import CallDelta, CallSealed, Delta, Slot
from wholecall.errors import ProtocolError
from wholecall.protocols.pieces import Pieces
from wholecall.protocols.wire import plain, present, read_arguments


class CallItem(msgspec.Struct):
    """A function call as an item of the output."""

    id: str | None = None  # of the item; `call_id` is the one that the result names
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None  # text; an object from imitators
    status: str | None = None
    namespace: str | None = None
    caller: Any = None


class Address(msgspec.Struct):
    """The address of an item in an event."""

    index: int | None = None  # missing, or the same for all, from imitators
    item_id: str | None = None  # a new one in each event, or the `call_id`, from some gateways
    call_id: str | None = None  # instead of the id of the item from imitators

    @property
    def slot(self) -> Slot | None:
        """The index, or an id if there is none."""
        return self.item_id or self.call_id if self.index is None else self.index


class _Call:
    __slots__ = ("address", "filled", "held", "id", "name", "opened", "repeated", "sealed", "slot")

    def __init__(self, slot: Slot | None, address: Address) -> None:
        self.slot = slot
        self.address = address
        self.id: str | None = None
        self.name: str | None = None
        self.opened = False
        self.held = Pieces("a function call without a name")
        self.filled = False
        """True if any arguments came."""
        self.sealed: str | None = None
        """The whole text with which the call was said to be over."""
        self.repeated = False
        """Whether the end of the response has listed it."""

    def may_be(self, item: CallItem) -> bool:
        return not (self.id and item.call_id) or self.id == item.call_id

    def says(self, item: CallItem) -> bool:
        """Return True if an item is the same, as far as it is known."""
        told = self.sealed is None or _same_arguments(self.sealed, read_text(item.arguments))
        return self.name == item.name and told

    def is_apart(self, address: Address) -> bool:
        """Return whether an address is certainly that of another item."""
        mine, ours, theirs = self.address, self.address.item_id, address.item_id
        if ours and ours == theirs:
            return False
        if mine.index is not None and address.index is not None:
            return mine.index != address.index
        return bool(ours and theirs) and self.sealed is not None


class FunctionCalls:
    """All function calls of one stream."""

    __slots__ = ("_by_call_id", "_by_index", "_by_item_id", "_calls", "_unrepeated")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_call_id: dict[str | None, list[_Call]] = {}
        self._by_item_id: dict[str | None, _Call] = {}
        self._by_index: dict[int | None, _Call] = {}
        self._unrepeated: Iterator[_Call] | None = None
        """The calls of the stream that the end has not repeated yet."""

    # ── Events ──────────────────────────────────────────────────────────────────────

    def begin(self, item: CallItem, address: Address) -> Iterator[Delta]:
        """The item begins."""
        call = self._find(item)
        if call is None or call.is_apart(address):
            call = self._add(address)
            yield from _give(call, read_text(item.arguments))
        yield from self._open(call, item)

    def grow(self, arguments: Any, address: Address) -> Iterator[Delta]:
        """A piece of the arguments came."""
        yield from _give(self._at(address), read_text(arguments))

    def complete(
        self, arguments: Any, address: Address, *, name: str | None = None
    ) -> Iterator[Delta]:
        """The arguments are over, and come once more as a whole; OpenAI's say the name, too."""
        call, text = self._at(address), read_text(arguments)
        if not call.opened:
            yield from () if call.filled else _give(call, text)
            yield from self._open(call, CallItem(call_id=address.call_id, name=name))
        # Without any text it proves nothing: some servers have it in the item only.
        if text and call.opened:
            yield from _seal(call, text)

    def finish(self, item: CallItem, address: Address) -> Iterator[Delta]:
        """The item is done, and comes once more as a whole."""
        call = self._find(item, self._known(address))
        there = self._by_item_id.get(address.item_id)
        if call is None and there is not None and there.sealed is not None and there.says(item):
            call = there  # only its id was made up anew
        if call is not None and not call.says(item) and call.is_apart(address):
            call = None
        yield from self._finish(call or self._add(address), item)

    def repeat(self, item: CallItem, ids: Container[str | None] = frozenset()) -> Iterator[Delta]:
        """The response is over, and its items come once more, in order. `ids` are those of all."""
        if self._unrepeated is None:
            self._unrepeated = iter(tuple(self._calls))
        there = next(self._unrepeated, None)
        call = self._find(item, there)
        if call is None and there is not None and there.id not in ids and there.says(item):
            call = there  # under another id, as vLLM makes one up for the end
        if call is None or (call.repeated and item.call_id):
            call = self._add(Address(item_id=item.id))
        call.repeated = True
        yield from self._finish(call, item)

    def conclude(self) -> Iterator[Delta]:
        """Nothing more comes: what has no name yet will have none."""
        yield from (_opening(call, None, extras={}) for call in self._calls if not call.opened)

    # ── Finding ─────────────────────────────────────────────────────────────────────

    def _known(self, address: Address) -> _Call | None:
        if address.slot is None:  # no address at all: the call being built
            return next((call for call in self._calls[-1:] if call.sealed is None), None)
        namesakes = self._by_call_id.get(address.call_id or address.item_id, [None])
        at_index = self._by_index.get(address.index)
        # Of several calls with one id, it is the one that stands here, or else the newest.
        by_call_id = at_index if at_index in namesakes else namesakes[-1]
        return self._by_item_id.get(address.item_id) or by_call_id or at_index

    def _at(self, address: Address) -> _Call:
        return self._known(address) or self._add(address)

    def _find(self, item: CallItem, call: _Call | None = None) -> _Call | None:
        """The call that an item is: by its ids, else the given one, if nothing contradicts it."""
        namesakes, by_item = self._by_call_id.get(item.call_id, []), self._by_item_id.get(item.id)

        def rank(each: _Call) -> tuple[bool, ...]:
            return each.repeated, each is not by_item, not each.says(item), each is not call

        known = (*(sorted(namesakes, key=rank) if namesakes[1:] else namesakes), by_item, call)
        return next((each for each in known if each is not None and each.may_be(item)), None)

    def _add(self, address: Address) -> _Call:
        if len(self._calls) >= DEFAULT.blocks:
            raise ProtocolError(f"the answer has more than {DEFAULT.blocks} function calls")
        taken = address.index in self._by_index and address.item_id
        call = _Call(address.item_id if taken else address.slot, address)
        self._calls.append(call)
        if address.index is not None:
            self._by_index[address.index] = call
        if address.item_id:
            self._by_item_id[address.item_id] = call
        if address.call_id:
            self._by_call_id.setdefault(address.call_id, []).append(call)
        return call

    # ── Taking in ───────────────────────────────────────────────────────────────────

    def _finish(self, call: _Call, item: CallItem) -> Iterator[Delta]:
        text = read_text(item.arguments)
        if not call.filled:
            yield from _give(call, text)
        yield from self._open(call, item)
        # An incomplete item is not over, it was cut off.
        if call.opened and item.status != "incomplete":
            yield from _seal(call, text)

    def _open(self, call: _Call, item: CallItem) -> Iterator[Delta]:
        late = call.opened and call.id is None and item.call_id is not None
        if item.call_id and call.id is None:
            call.id = item.call_id
            namesakes = self._by_call_id.setdefault(call.id, [])
            if call not in namesakes:
                namesakes.append(call)
        if late:
            yield CallDelta(call.slot, id=call.id)
        elif item.name and not call.opened:
            call.opened, call.name = True, item.name
            extras = {"item_id": item.id, "namespace": item.namespace, "caller": plain(item.caller)}
            yield _opening(call, item.name, extras=present(extras))


def _opening(call: _Call, name: str | None, *, extras: Mapping[str, Any]) -> CallDelta:
    text = call.held.join() or None
    return CallDelta(call.slot, text, name, call.id, opens=True, extras=extras or None)


def _give(call: _Call, text: str) -> Iterator[Delta]:
    """A piece of the arguments. It waits until the name of the call is known."""
    if not text:
        return
    call.filled = True
    if call.opened:
        yield CallDelta(call.slot, text)
    else:
        call.held.add(text)


def _seal(call: _Call, text: str) -> Iterator[Delta]:
    """The call is over. What says so again is handed on only if it says something else."""
    if call.sealed is None or text not in ("", call.sealed):
        call.sealed = text
        call.filled = True
        yield CallSealed(call.slot, text or None)


def _same_arguments(one: str, other: str) -> bool:
    try:
        return one == other or same_json(json.loads(one), json.loads(other))
    except (ValueError, RecursionError):
        return False


def read_text(arguments: Any) -> str:
    """The text of arguments, whatever form they have."""
    text = read_arguments(arguments)
    return json.dumps(plain(text)) if isinstance(text, Mapping) else text or ""
