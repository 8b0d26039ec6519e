"""What a request asks for: the scenario, the form, and how far the conversation is.

The turn is read from the history, so the server need not remember conversations: it is the
number of times that the assistant has spoken. Whatever an agent puts after an answer of the
model, a result, feedback or a question, the script goes on. The calls in the history are read as
well: a gateway that asks again by itself does not show all answers to its client.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from wholecall.errors import UnreadableRequest
from wholecall.faults.script import Form, ToolRun

_FORCES = frozenset({"required", "any", "tool", "function"})
_KEYS = ("authorization", "x-api-key")
"""The headers that tell two runs apart: give each run an API key of its own."""
_FIELDS = ("model", "user", "metadata", "previous_response_id")
_ASSISTANT_ITEMS = frozenset({"function_call", "reasoning"})
_PREVIOUS = "resp_"
_NOT_RUN = "was not run"
"""In the result of a call that was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request, as far as the script needs to know it."""

    form: Form
    model: str
    turn: int
    offers_tools: bool
    forces_call: bool
    conversation: str
    """Equal for requests with the same history, model, user and API key."""
    body: Mapping[str, Any]
    calls: tuple[ToolRun, ...] = ()
    """The calls in the history."""


def read_question(protocol: str, text: bytes, *, headers: Mapping[str, str]) -> Question:
    """Read the body of a request; what is wrong with it is an `UnreadableRequest`."""
    body = _read_body(text)
    model = body.get("model")
    if not isinstance(model, str):
        raise UnreadableRequest("`model` must be the name of a scenario", param="model")
    history = _read_history(protocol, body)
    return Question(
        form=Form(protocol, bool(body.get("stream"))),
        model=model,
        turn=_base_turn(body) + _count_turns(_IS_ASSISTANT[protocol], history),
        offers_tools=bool(body.get("tools")) and _read_choice(body) != "none",
        forces_call=_read_choice(body) in _FORCES,
        conversation=_identify(body, history, headers=headers),
        body=body,
        calls=tuple(_read_calls(protocol, history)),
    )


def _read_body(text: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        raise UnreadableRequest("the request is no JSON", param="body") from None
    if not isinstance(body, Mapping):
        raise UnreadableRequest("the request is no JSON object", param="body")
    return body


def _read_history(protocol: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    field = "input" if protocol == "openai-responses" else "messages"
    history = body.get(field)
    if isinstance(history, str) and field == "input":
        return [{"role": "user", "content": history}]
    if not isinstance(history, list) or not all(isinstance(each, Mapping) for each in history):
        raise UnreadableRequest(f"`{field}` must be a list of objects", param=field)
    return history


def _read_choice(body: Mapping[str, Any]) -> str:
    choice = body.get("tool_choice")
    return str(choice.get("type") if isinstance(choice, Mapping) else choice)


# ── Turns ───────────────────────────────────────────────────────────────────────────


def _is_assistant_message(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant"


def _is_assistant_item(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" or str(item.get("type")) in _ASSISTANT_ITEMS


_IS_ASSISTANT: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "openai-chat": _is_assistant_message,
    "openai-responses": _is_assistant_item,
    "anthropic": _is_assistant_message,
}


def _count_turns(
    is_assistant: Callable[[Mapping[str, Any]], bool], history: Iterable[Mapping[str, Any]]
) -> int:
    return sum(spoke for spoke, _ in groupby(history, key=is_assistant))


def _read_calls(protocol: str, history: list[Mapping[str, Any]]) -> Iterator[ToolRun]:
    """Read the calls that were made. One whose result says that it was not run was not."""
    not_run = {_read_result_id(entry) for entry in _list_entries(history) if _NOT_RUN in str(entry)}
    for message in history:
        for call in _FIND_CALLS[protocol](message):
            function = call.get("function", call)
            arguments = function.get("input", function.get("arguments"))
            if call.get("call_id", call.get("id")) not in not_run:
                yield ToolRun(str(function.get("name")), _read_arguments(arguments))


def _list_entries(history: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """List the messages or items, and the blocks in them."""
    for message in history:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        yield from [message, *(block for block in blocks if isinstance(block, Mapping))]


def _read_result_id(entry: Mapping[str, Any]) -> Any:
    of_item = entry.get("call_id") if entry.get("type") == "function_call_output" else ""
    return entry.get("tool_call_id") or entry.get("tool_use_id") or of_item or ""


def _read_arguments(arguments: Any) -> Any:
    """Read the text of arguments. What an agent sends back of a broken call may be anything."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _find_chat_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return message.get("tool_calls") or []


def _find_items(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item] if item.get("type") == "function_call" else []


def _find_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if block.get("type") == "tool_use"]


_FIND_CALLS: dict[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {
    "openai-chat": _find_chat_calls,
    "openai-responses": _find_items,
    "anthropic": _find_blocks,
}


def _base_turn(body: Mapping[str, Any]) -> int:
    """Return the turns before `previous_response_id`: our response ids hold their number."""
    previous = body.get("previous_response_id")
    number = previous.removeprefix(_PREVIOUS) if isinstance(previous, str) else ""
    return int(number) + 1 if number.isdecimal() else 0


# ── Conversations ───────────────────────────────────────────────────────────────────


def _identify(
    body: Mapping[str, Any], history: list[Mapping[str, Any]], *, headers: Mapping[str, str]
) -> str:
    keys = [headers.get(name) for name in _KEYS]
    fields = [body.get(name) for name in _FIELDS]
    named = json.dumps([keys, fields, history], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()
