"""The items of a response, and the response around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from wholecall.core.conversation import Native, Part, PastCall
from wholecall.core.values import Call, Reasoning, Text, Usage
from wholecall.protocols.answers.frames import dump
from wholecall.protocols.answers.head import Head
from wholecall.protocols.answers.usages import write_response_usage
from wholecall.protocols.answers.whole import Whole
from wholecall.protocols.answers.writer import Finish
from wholecall.protocols.requests.encoding.openai_responses import (
    ITEM,
    MESSAGE,
    NOTES,
    PROTOCOL,
    pick_extras,
)
from wholecall.protocols.wire import DECLINED, present

IN_PROGRESS = "in_progress"
COMPLETED = "completed"
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
# What a client reads of its own request; the caller's `Head.rest` knows better.
_ECHO = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


class ItemIds:
    """Ids for the items of one response."""

    __slots__ = ("_count", "_response")

    def __init__(self, head: Head) -> None:
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


def reasoning_item(id: str, summary: list[Any]) -> dict[str, Any]:
    """Return the item of reasoning."""
    return {"id": id, "type": "reasoning", "summary": summary}


def call_item(call: Call | PastCall, id: str, *, arguments: str) -> dict[str, Any]:
    """A function call. The item's own id goes back with it, where the upstream gave one."""
    item = {
        "id": id,
        "type": "function_call",
        "status": COMPLETED,
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }
    return {**item, **pick_extras(call)}


# ── The response ────────────────────────────────────────────────────────────────────


def write_response(
    head: Head, output: Iterable[Any], *, status: str = IN_PROGRESS, **more: Any
) -> dict[str, Any]:
    """A response with what there is of it."""
    fields = {
        "id": head.id,
        "object": "response",
        "created_at": head.created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": head.model,
        "output": list(output),
        "usage": None,
        **more,
    }
    return {**fields, **_ECHO, **head.rest, **fields}


def finish_response(
    head: Head, output: Iterable[Any], *, finish: Finish, usage: Usage | None
) -> dict[str, Any]:
    """A response that is over."""
    reason = _INCOMPLETE.get(finish.reason)
    return write_response(
        head,
        output,
        status=COMPLETED if reason is None else "incomplete",
        incomplete_details=None if reason is None else {"reason": reason},
        usage=None if usage is None else write_response_usage(usage),
    )


# ── Whole answers ───────────────────────────────────────────────────────────────────


def encode(whole: Whole, head: Head) -> dict[str, Any]:
    """The body of a response. It has one choice; others have no place in it."""
    said, ids = whole.choices[0], ItemIds(head)
    output = _write_items(said.parts, ids)
    if any(DECLINED in note for note in said.notes):
        output = [_decline(item) for item in output]
    return finish_response(head, output, finish=said.finish, usage=whole.usage)


def _write_items(parts: Iterable[Part], ids: ItemIds) -> list[Any]:
    items: list[Any] = []
    for part in parts:
        if isinstance(part, Reasoning) and MESSAGE in part.extras:
            items[-1:] = [_complete_message(item, part) for item in items[-1:]]
        else:
            items += _PARTS[type(part)](part, ids)
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


def _write_text(part: Text, ids: ItemIds) -> Iterator[Any]:
    yield message_item(ids.make("msg"), [text_part(part.text)])


def _write_reasoning(part: Reasoning, ids: ItemIds) -> Iterator[Any]:
    if ITEM in part.extras:
        yield present(part.extras[ITEM])
    elif part.text:
        yield reasoning_item(ids.make("rs"), [summary_part(part.text)])


def _write_call(part: PastCall, ids: ItemIds) -> Iterator[Any]:
    yield call_item(part, ids.make("fc"), arguments=dump(part.arguments).decode())


def _write_native(part: Native, _: ItemIds) -> Iterator[Mapping[str, Any]]:
    if part.protocol == PROTOCOL:
        yield part.value


_PARTS: dict[type, Callable[[Any, ItemIds], Iterator[Any]]] = {
    Text: _write_text,
    Reasoning: _write_reasoning,
    PastCall: _write_call,
    Native: _write_native,
}
