"""Answers as OpenAI's responses, streamed.

Everything is said several times, in events whose numbers rise: an item when it begins, its text
in pieces and whole, the item when it is done, and all items at the end. Clients check that an
item keeps its id. Encrypted reasoning is bound to the upstream's id, so reasoning that comes
from this same protocol waits until its item is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.core.values import JSON, Call, Opened, Reasoning, Usage
from wholecall.protocols.answers.failures import Failure, openai_error
from wholecall.protocols.answers.frames import KEEP_ALIVE
from wholecall.protocols.answers.head import PRIVATE, Head, Style
from wholecall.protocols.answers.response_events import (
    SAID,
    SAID_NO,
    SUMMARY,
    THOUGHT,
    Events,
    Growth,
    TextEvents,
    TextKind,
)
from wholecall.protocols.answers.response_items import (
    IN_PROGRESS,
    ItemIds,
    call_item,
    finish_response,
    message_item,
    reasoning_item,
    write_response,
)
from wholecall.protocols.answers.writer import ChoiceWriter, Finish
from wholecall.protocols.pieces import Pieces
from wholecall.protocols.requests.encoding.openai_responses import ITEM, MESSAGE, NOTES, PROTOCOL
from wholecall.protocols.requests.fields import without
from wholecall.protocols.wire import DECLINED, present

_NOTHING = b""
_SAYINGS = (SAID, SAID_NO)
_NO_NOTES: Mapping[str, Any] = {}


class ResponsesWriter:
    """Writes one response as a stream."""

    def __init__(self, head: Head, style: Style) -> None:
        self._head = head
        self._events = Events()
        self._items = _Items(self._events, ItemIds(head), native=style.upstream == PROTOCOL)
        self._begun = False

    def begin(self, _: Usage | None) -> bytes:
        """The response without output."""
        self._begun = True
        response = write_response(self._head, [])
        created = self._events.write("response.created", response=response)
        return created + self._events.write("response.in_progress", response=response)

    def choice(self, index: int) -> ChoiceWriter | None:
        """The items of the response, which has no other choices."""
        return None if index else self._items

    def finish(self, finishes: Mapping[int, Finish], usage: Usage | None) -> bytes:
        """The whole response once more, as its own end."""
        closing, output = self._items.close(), self._items.output()
        response = finish_response(self._head, output, finish=finishes[0], usage=usage)
        return closing + self._events.write(f"response.{response['status']}", response=response)

    def fail(self, failure: Failure) -> bytes:
        """Write an error that SDKs raise, followed by the failed response, as OpenAI sends them.

        The content of the response is not repeated: a client must not take it for whole.
        """
        error = openai_error(failure)["error"]
        told = {"code": failure.code, "message": failure.message, "param": failure.param}
        frames = self._events.write("error", **told, error=error)
        if not self._begun:
            return frames
        why = {"code": failure.code or error["type"], "message": failure.message}
        failed = write_response(self._head, [], status="failed", error=why)
        return frames + self._events.write("response.failed", response=failed)

    def keep_alive(self) -> bytes:
        """A comment."""
        return KEEP_ALIVE

    def report(self, progress: JSON) -> bytes:
        """An event of a type of our own."""
        return self._events.write(f"{PRIVATE}.progress", **{PRIVATE: progress})


@dataclass(slots=True)
class _Words:
    """The item of text or reasoning that is open."""

    kind: TextKind
    id: str
    index: int
    events: TextEvents
    said: Pieces


@dataclass(slots=True)
class _OpenCall:
    """A call that is being shown as it grows."""

    id: str
    index: int
    growth: Growth


class _Items:
    """Writes the items of a response."""

    __slots__ = (
        "_calls",
        "_events",
        "_held",
        "_ids",
        "_native",
        "_next",
        "_output",
        "_saying",
        "_words",
    )

    def __init__(self, events: Events, ids: ItemIds, *, native: bool) -> None:
        self._events = events
        self._ids = ids
        self._native = native
        self._next = 0
        self._output: dict[int, Mapping[str, Any]] = {}
        self._words: _Words | None = None
        self._saying = SAID
        self._held: Pieces | None = None
        """Reasoning that waits for its item."""
        self._calls: dict[int, _OpenCall] = {}

    def open(self) -> bytes:
        """Nothing: the response has begun already."""
        return _NOTHING

    def output(self) -> list[Mapping[str, Any]]:
        """All items that are done, in order."""
        return [self._output[index] for index in sorted(self._output)]

    # ── Words ───────────────────────────────────────────────────────────────────────

    def say(self, text: str) -> bytes:
        """A piece of text."""
        return self._grow(self._saying, text)

    def think(self, event: Reasoning) -> bytes:
        """A piece of reasoning, its whole item, or what belongs to the message before it."""
        if ITEM in event.extras:
            return self._finish_reasoning(present(event.extras[ITEM]))
        if MESSAGE in event.extras:
            fields = without(event.extras[MESSAGE], ["id"])
            return self.close(event.extras.get(NOTES, {}), **fields)
        if DECLINED in event.extras:
            self._saying = SAID_NO
        if not event.text:
            return _NOTHING
        return self._hold(event.text) if self._native else self._grow(SUMMARY, event.text)

    def close(self, notes: Mapping[str, Any] = _NO_NOTES, **more: Any) -> bytes:
        """Close the open item; `notes` are added to its text, and `more` are further fields of
        it."""
        held, self._held = self._held, None
        if held is not None:  # its item never came
            return self._grow(SUMMARY, held.join()) + self.close()
        words, self._words = self._words, None
        if words is None:
            return _NOTHING
        text = words.said.join()
        write = message_item if words.kind in _SAYINGS else reasoning_item
        item = {**write(words.id, [{**words.kind.write_part(text), **notes}]), **more}
        return words.events.close(text, notes) + self._finish_item(words.index, item)

    def _grow(self, kind: TextKind, text: str) -> bytes:
        words, opening = self._words, _NOTHING
        if words is None or words.kind is not kind:
            opening, words = self._open_words(kind)
        words.said.add(text)
        return opening + words.events.grow(text)

    def _open_words(self, kind: TextKind) -> tuple[bytes, _Words]:
        closing = self.close()
        says = kind in _SAYINGS
        id = self._ids.make("msg" if says else "rs")
        empty = message_item(id, [], status=IN_PROGRESS) if says else reasoning_item(id, [])
        index, added = self._add_item(empty)
        events = TextEvents(self._events, kind, where={"item_id": id, "output_index": index})
        self._words = _Words(kind, id, index, events, Pieces("the text of an item"))
        return closing + added + events.open(), self._words

    # ── Reasoning of the same protocol ──────────────────────────────────────────────

    def _hold(self, text: str) -> bytes:
        closing = self.close() if self._held is None else _NOTHING
        if self._held is None:
            self._held = Pieces("the reasoning of an item")
        self._held.add(text)
        return closing

    def _finish_reasoning(self, item: Mapping[str, Any]) -> bytes:
        if self._words is not None and self._words.kind is SUMMARY:
            return self.close()  # it was already shown under our own id
        self._held = None  # the item says it whole
        closing = self.close()
        item = {"id": self._ids.make("rs"), **item}
        empty = {**without(item, ["content", "encrypted_content"]), "summary": []}
        index, added = self._add_item(empty)
        where = {"item_id": item["id"], "output_index": index}
        texts = [
            TextEvents(self._events, kind, where=where, at=place).write(part.get("text") or "")
            for kind, field in ((SUMMARY, "summary"), (THOUGHT, "content"))
            for place, part in enumerate(item.get(field) or ())
        ]
        return b"".join([closing, added, *texts, self._finish_item(index, item)])

    # ── Calls and other items ───────────────────────────────────────────────────────

    def add_block(self, native: Mapping[str, Any]) -> bytes:
        """Write the actions of OpenAI's own tools, for clients that know them."""
        if not self._native:
            return _NOTHING
        closing = self.close()
        index, added = self._add_item(native)
        return closing + added + self._finish_item(index, native)

    def add_call(self, call: Call, arguments: str) -> bytes:
        """An item whose whole arguments are one delta."""
        item = call_item(call, self._ids.make("fc"), arguments="")
        return (
            self._open_call(call.number, item)
            + self.grow_call(call.number, arguments)
            + self.close_call(call, arguments)
        )

    def open_call(self, opened: Opened) -> bytes:
        """An item begins whose arguments are yet to come."""
        call = {"call_id": opened.id, "name": opened.name, "arguments": ""}
        item = {"id": self._ids.make("fc"), "type": "function_call", **call}
        return self._open_call(opened.number, item)

    def grow_call(self, number: int, text: str) -> bytes:
        """A piece of the arguments."""
        return self._calls[number].growth.write(text)

    def close_call(self, call: Call, arguments: str) -> bytes:
        """The arguments are whole, and so is the item."""
        shown = self._calls.pop(call.number)
        item = {**call_item(call, shown.id, arguments=arguments), "id": shown.id}
        done = self._events.write(
            "response.function_call_arguments.done",
            item_id=shown.id,
            output_index=shown.index,
            name=call.name,
            arguments=arguments,
        )
        return done + self._finish_item(shown.index, item)

    def _open_call(self, number: int, item: Mapping[str, Any]) -> bytes:
        closing = self.close()
        index, added = self._add_item({**item, "status": IN_PROGRESS})
        fields = {"item_id": item["id"], "output_index": index}
        growth = Growth(self._events, "response.function_call_arguments.delta", fields=fields)
        self._calls[number] = _OpenCall(item["id"], index, growth)
        return closing + added

    def _add_item(self, item: Mapping[str, Any]) -> tuple[int, bytes]:
        index = self._next
        self._next += 1
        added = self._events.write("response.output_item.added", output_index=index, item=item)
        return index, added

    def _finish_item(self, index: int, item: Mapping[str, Any]) -> bytes:
        self._output[index] = item
        return self._events.write("response.output_item.done", output_index=index, item=item)
