"""Events of OpenAI's Responses API to deltas."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec

from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.finish_reasons import read_hint
from wholecall.assembly.json_scanner import same_json
from wholecall.errors import ProtocolError
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Hint,
    HintGiven,
    ProviderBlock,
    Reasoning,
    Slot,
    Terminated,
    Text,
)
from wholecall.messages import ToolSpec
from wholecall.protocols.decoder import (
    Decoded,
    Payload,
    Pieces,
    decline,
    fit,
    guard,
    plain,
    present,
    read,
    read_arguments,
    read_error,
    read_mark,
    read_usage,
    terminate,
)
from wholecall.protocols.openai_responses import shapes
from wholecall.protocols.openai_responses.history import BY_CALL, PROTOCOL
from wholecall.protocols.tool_kinds import FUNCTION, OwnCall, WireNames


class Address(msgspec.Struct):
    """The address of an item in an event."""

    index: int | None = None  # missing, or the same for all, from imitators
    item_id: str | None = None  # a new one in each event, or the `call_id`, from some gateways
    call_id: str | None = None  # instead of the id of the item from imitators

    @property
    def slot(self) -> Slot | None:
        """The index, or an id without one."""
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
        """True if the end of the response has listed it."""

    def may_be(self, item: shapes.CallItem) -> bool:
        return not (self.id and item.call_id) or self.id == item.call_id

    def says(self, item: shapes.CallItem) -> bool:
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

    def begin(self, item: shapes.CallItem, address: Address) -> Iterator[Delta]:
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
            yield from self._open(call, shapes.CallItem(call_id=address.call_id, name=name))
        # Without any text it proves nothing: some servers have it in the item only.
        if text and call.opened:
            yield from _seal(call, text)

    def finish(self, item: shapes.CallItem, address: Address) -> Iterator[Delta]:
        """The item is done, and comes once more as a whole."""
        call = self._find(item, self._known(address))
        there = self._by_item_id.get(address.item_id)
        if call is None and there is not None and there.sealed is not None and there.says(item):
            call = there  # only its id was made up anew
        if call is not None and not call.says(item) and call.is_apart(address):
            call = None
        yield from self._finish(call or self._add(address), item)

    def repeat(
        self, item: shapes.CallItem, ids: Container[str | None] = frozenset()
    ) -> Iterator[Delta]:
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
        # Among several calls with one id, take the one at this index, or else the newest.
        by_call_id = at_index if at_index in namesakes else namesakes[-1]
        return self._by_item_id.get(address.item_id) or by_call_id or at_index

    def _at(self, address: Address) -> _Call:
        return self._known(address) or self._add(address)

    def _find(self, item: shapes.CallItem, call: _Call | None = None) -> _Call | None:
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

    def _finish(self, call: _Call, item: shapes.CallItem) -> Iterator[Delta]:
        text = read_text(item.arguments)
        if not call.filled:
            yield from _give(call, text)
        yield from self._open(call, item)
        # An incomplete item is not over, it was cut off.
        if call.opened and item.status != "incomplete":
            yield from _seal(call, text)

    def _open(self, call: _Call, item: shapes.CallItem) -> Iterator[Delta]:
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


# OpenAI's Responses API.
#
# The stream is a list of typed events about the items of one response: messages, reasoning,
# function calls, and what OpenAI's own tools did. `output_item.added` opens an item, `….delta`
# events bring its text in pieces, `output_item.done` repeats it whole, and the terminal event
# repeats all items, with how the response ended. What was said before is not said again.


_EVENT = msgspec.json.Decoder(shapes.ResponseEvent)
_RESPONSE = msgspec.json.Decoder(shapes.ResponseObject)


# ── Decoding ────────────────────────────────────────────────────────────────────────


class Decoder:
    """Reads one stream, or one whole answer. `tools` are those of the request."""

    def __init__(self, tools: Iterable[ToolSpec] = ()) -> None:
        self._stream = _Stream(WireNames(tools, PROTOCOL))

    def decode(self, payload: Payload) -> Decoded:
        """Turn one event into deltas."""
        # `[DONE]` says nothing here: what ended well says so in its terminal event.
        return guard(self._decode(payload)) if read_mark(payload) is None else iter(())

    def read_piece(self, _: Payload) -> None:
        """No chunk leaves it as it was."""

    def decode_response(self, body: Payload) -> Decoded:
        """Turn a whole answer into the same deltas."""
        return terminate(guard(self._decode_response(body)))

    def _decode(self, payload: Payload) -> Decoded:
        event = read(payload, _EVENT)
        yield from _HANDLERS.get(event.type, _other)(self._stream, event)

    def _decode_response(self, body: Payload) -> Decoded:
        response = read(body, _RESPONSE)
        if response.output is None and not response.error:
            raise ProtocolError("the answer has neither output nor an error")
        yield from _conclude(self._stream, response, status=response.status or "completed")


class _Stream:
    """The state from earlier events of the stream."""

    def __init__(self, names: WireNames) -> None:
        self.names = names
        self.calls = FunctionCalls()
        self.stated: set[str] = set()
        """The ids of calls that are not function calls."""
        self.last: OwnCall | None = None
        """The latest of them, as long as nothing has followed it: it may have been cut."""
        self.said: set[Slot | None] = set()
        """The items whose text came already."""
        self.thought: set[Slot | None] = set()
        """The items whose reasoning came already."""
        self.has_items = False
        """True if the stream sends its items one by one, so that the end only repeats them."""

    def read_call(self, item: Any) -> shapes.CallItem:
        """Read a function call; its tool has the name that the request gives it."""
        call = fit(item, shapes.CallItem)
        if call.name:
            call.name = self.names.find(FUNCTION, call.name, namespace=call.namespace or "")
        return call

    def go_on(self, *, cut: bool = False) -> Iterator[Delta]:
        """Something follows the latest call, or the end of the answer does."""
        last, self.last = self.last, None
        yield from () if last is None else last.state(cut=cut)

    def is_own(self, item: Any) -> bool:
        """Return True if an item is a call of a tool that the client runs."""
        call = fit(item, shapes.OwnCallItem)
        form = BY_CALL.get(call.type or "")
        return form is not None and call.execution != "server" and self.names.has(form.type)

    def take_own(self, item: Any, slot: Slot | None) -> Iterator[Delta]:
        """Hold a call until something follows it. What is repeated says nothing."""
        call, native = fit(item, shapes.OwnCallItem), plain(item)
        id = call.call_id or call.id or str(len(self.stated))
        if id in self.stated:
            return
        yield from self.go_on()
        self.stated.add(id)
        form = BY_CALL[call.type or ""]
        self.last = OwnCall(
            slot=call.id or id if slot is None else slot,
            name=self.names.find(form.type, call.name or "", namespace=call.namespace or ""),
            id=call.call_id,
            arguments=form.read_call(native),
            extras=present({key: native.get(name) for key, name in _OWN_EXTRAS.items()}),
        )
        if call.status == "incomplete":
            yield from self.go_on(cut=True)


# ── Function calls ──────────────────────────────────────────────────────────────────


def _call_added(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    item = stream.read_call(event.item)
    return stream.calls.begin(item, Address(event.output_index, item.id or event.item_id))


def _call_done(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    item = stream.read_call(event.item)
    return stream.calls.finish(item, Address(event.output_index, item.id or event.item_id))


def _arguments_delta(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    return stream.calls.grow(event.delta, _address(event))


def _arguments_done(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    # A name that several tools have waits for the item, which also has the namespace.
    name = None if stream.names.is_shared(event.name) else event.name
    if name:
        name = stream.names.find(FUNCTION, name)
    return stream.calls.complete(event.arguments, _address(event), name=name)


def _address(event: shapes.ResponseEvent) -> Address:
    return Address(event.output_index, event.item_id, event.call_id)


# ── Words and other items ───────────────────────────────────────────────────────────


def _said(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    if event.delta:
        stream.said.add(_address(event).slot)
        yield Text(read_text(event.delta))


def _declined(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    if event.delta:
        stream.said.add(_address(event).slot)
        yield from decline(read_text(event.delta))


def _thought(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    if event.delta:
        stream.thought.add(_address(event).slot)
        yield Reasoning(read_text(event.delta))


def _message_done(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    slot = _address(event).slot
    if slot not in stream.said:
        stream.said.add(slot)
        yield from _message(event.item)
    yield from _envelope(event.item)


def _message(item: Any) -> Iterator[Delta]:
    for part in fit(item, shapes.MessageItem).content or ():
        yield from (Text(part.text),) if part.text else ()
        yield from decline(part.refusal) if part.refusal else ()


def _envelope(item: Any) -> Iterator[Delta]:
    """Yield the envelope of the preceding text: the reasoning refers to its message by the id."""
    message = fit(item, shapes.MessageItem)
    fields = present({"id": message.id, "phase": message.phase})
    if message.content and fields:
        yield Reasoning("", {"message": fields, **_notes(message.content)})


def _notes(content: list[shapes.TextEntry]) -> dict[str, Any]:
    """Return notes on the text. They count characters, so several parts have none."""
    if len(content) != 1:
        return {}
    [part] = content
    lists = {"annotations": plain(part.annotations), "logprobs": plain(part.logprobs)}
    notes = {name: value for name, value in lists.items() if value and isinstance(value, list)}
    return {"notes": notes} if notes else {}


def _reasoning_done(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    yield from _reasoning(event.item, told=_address(event).slot in stream.thought)


def _reasoning(item: Any, *, told: bool) -> Iterator[Delta]:
    reasoning = fit(item, shapes.ReasoningItem)
    parts = [*(reasoning.summary or ()), *(reasoning.content or ())]
    # An item without any text is sent back as well: without it the next call is refused.
    if parts or reasoning.encrypted_content or reasoning.id:
        text = "" if told else "".join(part.text or "" for part in parts)
        yield Reasoning(text, {"item": plain(item)})


def _other_item_done(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    if stream.is_own(event.item):
        yield from stream.take_own(event.item, _address(event).slot)
    else:
        yield ProviderBlock(plain(event.item))


def _item_added(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    stream.has_items = True
    is_call = fit(event.item, shapes.ItemKind).type == _FUNCTION_CALL
    return chain(stream.go_on(), _call_added(stream, event) if is_call else ())


def _item_done(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    stream.has_items = True
    done = _ITEMS_DONE.get(fit(event.item, shapes.ItemKind).type, _other_item_done)
    return done(stream, event)


# ── The end ─────────────────────────────────────────────────────────────────────────


def _terminal(stream: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    response = event.response or shapes.ResponseObject()
    status = _TERMINAL[event.type]
    if status == "completed" and (response.status or "") in _ENDINGS:
        status = response.status or status
    return _conclude(stream, response, status=status)


def _conclude(stream: _Stream, response: shapes.ResponseObject, *, status: str) -> Iterator[Delta]:
    silent = not stream.said
    ids = _list_call_ids(response)
    for item in response.output or ():
        kind = fit(item, shapes.ItemKind).type
        if kind == _FUNCTION_CALL:
            yield from stream.calls.repeat(stream.read_call(item), ids)
        elif kind == _MESSAGE:
            yield from chain(_message(item), _envelope(item)) if silent else ()
        elif stream.is_own(item):
            yield from stream.take_own(item, None)
        elif not stream.has_items:
            yield from chain(stream.go_on(), _other_item(stream, kind, item=item))
    yield from chain(stream.go_on(cut=status == "incomplete"), stream.calls.conclude())
    yield from read_usage(
        response.usage, input_tokens="input_tokens", output_tokens="output_tokens"
    )
    ending = _failed if response.error else _ENDINGS.get(status, _unfinished)
    yield from ending(response, status)


def _list_call_ids(response: shapes.ResponseObject) -> frozenset[str | None]:
    items = (
        item for item in response.output or () if fit(item, shapes.ItemKind).type == _FUNCTION_CALL
    )
    return frozenset(fit(item, shapes.CallItem).call_id for item in items)


def _other_item(stream: _Stream, kind: str | None, *, item: Any) -> Iterator[Delta]:
    if kind == _REASONING:
        return _reasoning(item, told=bool(stream.thought))
    return iter((ProviderBlock(plain(item)),))


def _completed(_: shapes.ResponseObject, status: str) -> Iterator[Delta]:
    yield HintGiven(read_hint(status), status)
    yield Terminated()


def _incomplete(response: shapes.ResponseObject, status: str) -> Iterator[Delta]:
    details = response.incomplete_details
    reason = (details.reason if details is not None else None) or status
    hint = read_hint(reason)
    # For whatever reason the response is incomplete, it did not end well.
    yield HintGiven(read_hint(status) if hint is Hint.UNKNOWN else hint, reason)
    yield Terminated()


def _failed(response: shapes.ResponseObject, status: str) -> Iterator[Delta]:
    yield read_error(response.error or f"the response is {status}")


def _unfinished(_: shapes.ResponseObject, status: str) -> Iterator[Delta]:
    yield read_error(f"the response is not finished, it is {status!r}")


def _error(_: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    fields = {"code": event.code, "message": event.message, "param": event.param}
    yield read_error(event.error or present(fields))


def _other(_: _Stream, event: shapes.ResponseEvent) -> Iterator[Delta]:
    """Events that say nothing new; and an error that does not say it is an event."""
    if event.error:
        yield read_error(event.error)


_OWN_EXTRAS = {"item_id": "id", "namespace": "namespace", "caller": "caller"}
_FUNCTION_CALL = "function_call"
_MESSAGE = "message"
_REASONING = "reasoning"
_ITEMS_DONE: dict[str | None, Callable[[_Stream, shapes.ResponseEvent], Iterator[Delta]]] = {
    _FUNCTION_CALL: _call_done,
    _MESSAGE: _message_done,
    _REASONING: _reasoning_done,
}
_TERMINAL: dict[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",  # what some gateways call it; its status decides
    "response.requires_action": "requires_action",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_ENDINGS: dict[str, Callable[[shapes.ResponseObject, str], Iterator[Delta]]] = {
    "completed": _completed,
    "requires_action": _completed,  # the calls are whole, and the server waits for their results
    "incomplete": _incomplete,
    "failed": _failed,
    "cancelled": _failed,
}
_HANDLERS: dict[str, Callable[[_Stream, shapes.ResponseEvent], Iterator[Delta]]] = {
    "response.output_item.added": _item_added,
    "response.output_item.done": _item_done,
    "response.function_call_arguments.delta": _arguments_delta,
    "response.function_call_arguments.done": _arguments_done,
    "response.output_text.delta": _said,
    "response.refusal.delta": _declined,
    "response.reasoning_summary_text.delta": _thought,
    "response.reasoning_text.delta": _thought,
    **dict.fromkeys(_TERMINAL, _terminal),
    "error": _error,
}
