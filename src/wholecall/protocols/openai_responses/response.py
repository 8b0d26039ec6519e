"""Responses as OpenAI's Responses API sends them: items, their events, the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wholecall.events import JSON, Call, Opened, Reasoning, Text, Usage
from wholecall.messages import Native, Part, PastCall, ToolKind
from wholecall.protocols.decoder import DECLINED, Pieces, present
from wholecall.protocols.openai_chat.response import encode_error
from wholecall.protocols.openai_responses.history import ToolItem, find_form, wire_name
from wholecall.protocols.openai_responses.request import ITEM, MESSAGE, NOTES, PROTOCOL, pick_extras
from wholecall.protocols.request_fields import without
from wholecall.protocols.response_base import (
    KEEP_ALIVE,
    PRIVATE,
    ChoiceWriter,
    Failure,
    FinishReason,
    ResponseHead,
    ResponseStyle,
    dump,
    frame,
    quote,
    read_figures,
    write_past,
)
from wholecall.protocols.response_encoder import GatheredAnswer

IN_PROGRESS = "in_progress"
COMPLETED = "completed"
INCOMPLETE = "incomplete"
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_CUTTABLE = frozenset({"message", "reasoning"})
# The fields of a response that repeat the request, as the Open Responses specification requires
# them, with the values for a request that says nothing. `ResponseHead.rest` has what was said.
_DEFAULTS: Mapping[str, Any] = {
    "previous_response_id": None,
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": {"effort": None, "summary": None},
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
# Fields of objects in the request that the response has to name, although a client may omit them.
_OURS = ("tools", "tool_choice", "parallel_tool_calls")
_TOOL = {"description": None, "parameters": None, "strict": None}
_FORMAT = {"description": None, "schema": None, "strict": False}


def read_style(body: Mapping[str, Any]) -> ResponseStyle:
    """Return what the response repeats of its request.

    The tools are always named: an upstream was sent those of the proxy as well.
    """
    given = {name: body[name] for name in _DEFAULTS if body.get(name) is not None}
    said = {**{name: _DEFAULTS[name] for name in _OURS}, **given}
    for name, complete in _COMPLETED.items():
        if name in said:
            said[name] = complete(said[name])
    return ResponseStyle(echo=said)


def _complete_tools(tools: Any) -> Any:
    return [_complete_kind(tool, "function", missing=_TOOL) for tool in tools]


def _complete_text(text: Any) -> Any:
    wire = {**_DEFAULTS["text"], **present(text)}
    return {**wire, "format": _complete_kind(wire["format"], "json_schema", missing=_FORMAT)}


def _complete_reasoning(reasoning: Any) -> Any:
    missing: Mapping[str, Any] = _DEFAULTS["reasoning"]
    return {**missing, **reasoning} if isinstance(reasoning, Mapping) else missing


def _complete_kind(value: Any, kind: str, *, missing: Mapping[str, Any]) -> Any:
    named = isinstance(value, Mapping) and value.get("type") == kind
    return {**missing, **value} if named else value


# The forms of these fields were checked when the request was decoded.
_COMPLETED: Mapping[str, Callable[[Any], Any]] = {
    "tools": _complete_tools,
    "text": _complete_text,
    "reasoning": _complete_reasoning,
}


class ItemIds:
    """Ids for the items of one response."""

    __slots__ = ("_count", "_response")

    def __init__(self, head: ResponseHead) -> None:
        self._response = head.id.removeprefix("resp_")
        self._count = 0

    def make(self, prefix: str) -> str:
        """The next one: `msg_…`, `rs_…` or `fc_…`."""
        self._count += 1
        return f"{prefix}_{self._response}_{self._count}"


# ── Items ───────────────────────────────────────────────────────────────────────────


def text_part(text: str) -> dict[str, Any]:
    """The one part of a message's content."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def declined_part(text: str) -> dict[str, Any]:
    """The one part of a message that declines to answer."""
    return {"type": DECLINED, "refusal": text}


def message_item(id: str, content: list[Any], *, status: str = COMPLETED) -> dict[str, Any]:
    """Return the item of a message."""
    item = {"id": id, "type": "message", "status": status, "role": "assistant"}
    return {**item, "content": content}


def summary_part(text: str) -> dict[str, Any]:
    """A part of a reasoning's summary."""
    return {"type": "summary_text", "text": text}


def thought_part(text: str) -> dict[str, Any]:
    """A part of a reasoning's own text."""
    return {"type": "reasoning_text", "text": text}


def reasoning_item(id: str, summary: list[Any], *, status: str = COMPLETED) -> dict[str, Any]:
    """Return the item of reasoning."""
    return {"id": id, "type": "reasoning", "status": status, "summary": summary}


def call_item(
    call: Call | PastCall, id: str, *, arguments: str, kind: ToolKind | None = None
) -> dict[str, Any]:
    """A function call. The item's own id goes back with it, where the upstream gave one."""
    named = {"name": call.name} if kind is None else wire_name(kind)
    item = {
        "id": id,
        "type": "function_call",
        "status": COMPLETED,
        "call_id": call.id,
        **named,
        "arguments": arguments,
    }
    return {**item, **pick_extras(call)}


def own_item(form: ToolItem, call: Call | PastCall, *, kind: ToolKind, id: str) -> dict[str, Any]:
    """A call of a tool that has a form of its own."""
    item = {"id": id, "type": form.call, "status": COMPLETED, "call_id": call.id}
    return {**item, **form.write_call(kind, call.arguments), **pick_extras(call)}


# ── The response ────────────────────────────────────────────────────────────────────


def write_response(
    head: ResponseHead, output: Iterable[Any], *, status: str = IN_PROGRESS, **more: Any
) -> dict[str, Any]:
    """A response with what there is of it."""
    fields = {
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "completed_at": None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": head.model,
        "output": list(output),
        "usage": None,
        **more,
    }
    return {**fields, **_DEFAULTS, **present(head.rest), **fields}


def finish_response(
    head: ResponseHead, output: Iterable[Any], *, finish: FinishReason, usage: Usage | None
) -> dict[str, Any]:
    """A response that is over."""
    reason = _INCOMPLETE.get(finish.reason)
    now = head.created if head.clock is None else int(head.clock())
    return write_response(
        head,
        output,
        status=COMPLETED if reason is None else INCOMPLETE,
        completed_at=now if reason is None else None,
        incomplete_details=None if reason is None else {"reason": reason},
        usage=None if usage is None else write_usage(usage),
    )


# ── Whole answers ───────────────────────────────────────────────────────────────────


def encode_answer(whole: GatheredAnswer, head: ResponseHead) -> dict[str, Any]:
    """The body of a response. It has one choice; others have no place in it."""
    said, ids = whole.choices[0], ItemIds(head)
    output = _write_items(said.parts, ids, kinds=head.kinds)
    if any(DECLINED in note for note in said.notes):
        output = [_decline(item) for item in output]
    if said.finish.reason in _INCOMPLETE:
        output[-1:] = [_cut(item) for item in output[-1:]]
    return finish_response(head, output, finish=said.finish, usage=whole.usage)


def _cut(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the last item of an answer that was cut off. A call is whole, or it would not be
    there, and what an upstream has sealed stays as it is."""
    open_ended = item.get("type") in _CUTTABLE and item.get("status") == COMPLETED
    return {**item, "status": INCOMPLETE} if open_ended else item


def _write_items(
    parts: Iterable[Part], ids: ItemIds, *, kinds: Mapping[str, ToolKind]
) -> list[Any]:
    items: list[Any] = []
    for part in parts:
        if isinstance(part, Reasoning) and MESSAGE in part.extras:
            items[-1:] = [_complete_message(item, part) for item in items[-1:]]
        else:
            items += _write_part(part, ids, kinds=kinds)
    return items


def _decline(item: Mapping[str, Any]) -> Mapping[str, Any]:
    if item.get("type") != "message":
        return item
    return {**item, "content": [declined_part(part["text"]) for part in item["content"]]}


def _complete_message(item: Mapping[str, Any], behind: Reasoning) -> Mapping[str, Any]:
    """The message with its own fields, and its text with what is said of it."""
    if item["type"] != "message":  # it had no text, and something else precedes it
        return item
    notes = behind.extras.get(NOTES, {})
    content = [{**part, **notes} for part in item["content"]]
    return {**item, **behind.extras[MESSAGE], "content": content}


def _write_part(
    part: Part, ids: ItemIds, *, kinds: Mapping[str, ToolKind]
) -> Iterator[Mapping[str, Any]]:
    match part:
        case Text(text):
            yield message_item(ids.make("msg"), [text_part(text)])
        case Reasoning() if ITEM in part.extras:
            yield present(part.extras[ITEM])
        case Reasoning() if part.text:
            yield reasoning_item(ids.make("rs"), [summary_part(part.text)])
        case PastCall():
            yield _write_call(part, ids, kind=kinds.get(part.name))
        case Native() if part.protocol == PROTOCOL:
            yield part.value


def _write_call(part: PastCall, ids: ItemIds, *, kind: ToolKind | None) -> Mapping[str, Any]:
    form = find_form(kind)
    if kind is not None and form is not None:
        return own_item(form, part, kind=kind, id=ids.make(form.prefix))
    return call_item(part, ids.make("fc"), arguments=write_past(part), kind=kind)


# The events of one text in a response: it begins, grows, and is repeated whole.
#
# Four kinds of text are written in the same way under other names: output, refusal, reasoning
# summary and reasoning.


_NO_NOTES: Mapping[str, Any] = {}


class TextKind(NamedTuple):
    """The names of a kind of text."""

    text: str
    """Of the events about the text."""
    part: str
    """Of the events about the part that holds it."""
    place: str
    """Of the field that counts the parts."""
    more: Mapping[str, Any]
    """Further fields of the events about the text."""
    field: str = "text"
    """Of the whole text."""

    def write_part(self, text: str) -> dict[str, Any]:
        """The part that holds a text."""
        return _TEXT_PARTS[self.text](text)


SAID = TextKind(
    "response.output_text", "response.content_part", "content_index", more={"logprobs": []}
)
SAID_NO = TextKind(
    "response.refusal", "response.content_part", "content_index", more={}, field="refusal"
)
SUMMARY = TextKind(
    "response.reasoning_summary_text", "response.reasoning_summary_part", "summary_index", more={}
)
THOUGHT = TextKind("response.reasoning_text", "response.content_part", "content_index", more={})
_TEXT_PARTS = {
    SAID.text: text_part,
    SAID_NO.text: declined_part,
    SUMMARY.text: summary_part,
    THOUGHT.text: thought_part,
}


class Events:
    """Writes events, each with the next number."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 0
        """The number of the event that is written next."""

    def write(self, kind: str, **fields: Any) -> bytes:
        """One event."""
        number = self.next
        self.next = number + 1
        return frame({"type": kind, "sequence_number": number, **fields}, kind)


class Growth:
    """Writes the pieces of one text: all but the number and the piece is prepared once."""

    __slots__ = ("_before", "_between", "_events")

    def __init__(self, events: Events, kind: str, *, fields: Mapping[str, Any]) -> None:
        self._events = events
        self._before = f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":'.encode()
        self._between = b"," + dump(fields)[1:-1] + b',"delta":'

    def write(self, text: str) -> bytes:
        """One more piece."""
        number = self._events.next
        self._events.next = number + 1
        return b"%b%d%b%b}\n\n" % (self._before, number, self._between, quote(text))


class TextEvents:
    """Writes the events of one text."""

    __slots__ = ("_events", "_kind", "_where", "grow")

    def __init__(
        self, events: Events, kind: TextKind, *, where: Mapping[str, Any], at: int = 0
    ) -> None:
        """`where` names the item; `at` is the place of the part in it."""
        self._events = events
        self._kind = kind
        self._where = {**where, kind.place: at}
        fields = {**self._where, **kind.more}
        self.grow = Growth(events, f"{kind.text}.delta", fields=fields).write

    def open(self) -> bytes:
        """The part begins."""
        part = self._kind.write_part("")
        return self._events.write(f"{self._kind.part}.added", **self._where, part=part)

    def close(self, text: str, notes: Mapping[str, Any] = _NO_NOTES) -> bytes:
        """Write the end of the text and of its part; `notes` are added to it."""
        kind, part = self._kind, {**self._kind.write_part(text), **notes}
        more = {name: part[name] for name in kind.more}
        return b"".join(
            [
                *self._annotate(notes.get("annotations", ())),
                self._events.write(
                    f"{kind.text}.done", **self._where, **{kind.field: text}, **more
                ),
                self._events.write(f"{kind.part}.done", **self._where, part=part),
            ]
        )

    def _annotate(self, annotations: Iterable[Any]) -> Iterator[bytes]:
        for place, annotation in enumerate(annotations):
            yield self._events.write(
                f"{self._kind.text}.annotation.added",
                **self._where,
                annotation_index=place,
                annotation=annotation,
            )

    def write(self, text: str) -> bytes:
        """A text that is whole already."""
        return self.open() + self.grow(text) + self.close(text)


# Answers as OpenAI's responses, streamed.
#
# Everything is said several times, in events whose numbers rise: an item when it begins, its text
# in pieces and whole, the item when it is done, and all items at the end. Clients check that an
# item keeps its id. Encrypted reasoning is bound to the upstream's id, so reasoning that comes from
# this same protocol waits until its item is there.


_NOTHING = b""
_SAYINGS = (SAID, SAID_NO)
_NO_ANNOTATIONS: Mapping[str, Any] = {}


class ResponsesWriter:
    """Writes one response as a stream."""

    def __init__(self, head: ResponseHead, style: ResponseStyle) -> None:
        self._head = head
        self._events = Events()
        native = style.upstream == PROTOCOL
        self._items = _Items(self._events, ItemIds(head), kinds=head.kinds, native=native)
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

    def finish(self, finishes: Mapping[int, FinishReason], usage: Usage | None) -> bytes:
        """The whole response once more, as its own end."""
        status = INCOMPLETE if finishes[0].reason in _INCOMPLETE else COMPLETED
        closing, output = self._items.close(status=status), self._items.output()
        response = finish_response(self._head, output, finish=finishes[0], usage=usage)
        return closing + self._events.write(f"response.{response['status']}", response=response)

    def fail(self, failure: Failure) -> bytes:
        """Write an error that SDKs raise, followed by the failed response, as OpenAI sends them.

        The content of the response is not repeated: a client must not take it for whole.
        """
        error = encode_error(failure)["error"]
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

    def __init__(
        self, events: Events, ids: ItemIds, *, kinds: Mapping[str, ToolKind], native: bool
    ) -> None:
        self.opening = _NOTHING
        self._events = events
        self._ids = ids
        self._kinds = kinds
        self._native = native
        self._next = 0
        self._output: dict[int, Mapping[str, Any]] = {}
        self._words: _Words | None = None
        self._saying = SAID
        self._held: Pieces | None = None
        """Reasoning that waits for its item."""
        self._calls: dict[int, _OpenCall] = {}

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

    def close(self, notes: Mapping[str, Any] = _NO_ANNOTATIONS, **more: Any) -> bytes:
        """Close the open item; `notes` are added to its text, and `more` are further fields of
        it."""
        held, self._held = self._held, None
        if held is not None:  # its item never came
            return self._grow(SUMMARY, held.join()) + self.close(notes, **more)
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
        write = message_item if says else reasoning_item
        empty = write(id, [], status=IN_PROGRESS)
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
        kind = self._kinds.get(call.name)
        form = find_form(kind)
        if kind is not None and form is not None:
            return self._add_own(form, call, kind=kind)
        item = call_item(call, self._ids.make("fc"), arguments="", kind=kind)
        return (
            self._open_call(call.number, item)
            + self.grow_call(call.number, arguments)
            + self.close_call(call, arguments)
        )

    def open_call(self, opened: Opened) -> bytes:
        """An item begins whose arguments are yet to come. One that does not hold them as JSON
        comes whole."""
        kind = self._kinds.get(opened.name)
        if find_form(kind) is not None:
            return _NOTHING
        named = {"name": opened.name} if kind is None else wire_name(kind)
        call = {"call_id": opened.id, **named, "arguments": ""}
        item = {"id": self._ids.make("fc"), "type": "function_call", **call}
        return self._open_call(opened.number, item)

    def grow_call(self, number: int, text: str) -> bytes:
        """A piece of the arguments."""
        shown = self._calls.get(number)
        return _NOTHING if shown is None else shown.growth.write(text)

    def close_call(self, call: Call, arguments: str) -> bytes:
        """The arguments are whole, and so is the item."""
        shown = self._calls.pop(call.number, None)
        if shown is None:
            return self.add_call(call, arguments)
        kind = self._kinds.get(call.name)
        item = {**call_item(call, shown.id, arguments=arguments, kind=kind), "id": shown.id}
        done = self._events.write(
            "response.function_call_arguments.done",
            item_id=shown.id,
            output_index=shown.index,
            name=item["name"],
            arguments=arguments,
        )
        return done + self._finish_item(shown.index, item)

    def _add_own(self, form: ToolItem, call: Call, *, kind: ToolKind) -> bytes:
        """An item of a form of its own. Free text is shown as such."""
        item = own_item(form, call, kind=kind, id=self._ids.make(form.prefix))
        closing, text = self.close(), item[form.holder]
        if not isinstance(text, str):
            index, added = self._add_item({**item, "status": IN_PROGRESS})
            return closing + added + self._finish_item(index, item)
        index, added = self._add_item({**item, form.holder: "", "status": IN_PROGRESS})
        where = {"item_id": item["id"], "output_index": index}
        name = f"response.{form.call}_{form.holder}"
        growth = self._events.write(f"{name}.delta", **where, delta=text)
        done = self._events.write(f"{name}.done", **where, **{form.holder: text})
        return closing + added + growth + done + self._finish_item(index, item)

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


_NO_DETAILS: Mapping[str, Any] = {
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}


def write_usage(usage: Usage) -> dict[str, Any]:
    """`usage` of a response."""
    if {"input_tokens", "output_tokens", "total_tokens"} <= usage.native.keys():
        return {**_NO_DETAILS, **present(usage.native)}
    figures = read_figures(usage)
    return {
        "input_tokens": figures.input,
        "input_tokens_details": {
            "cached_tokens": figures.cached,
            "cache_write_tokens": figures.stored,
        },
        "output_tokens": figures.output,
        "output_tokens_details": {"reasoning_tokens": figures.reasoning},
        "total_tokens": figures.input + figures.output,
    }
