"""Anthropic's Messages API, as the script wants it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from wholecall.arguments.parse import preview
from wholecall.events import JSON
from wholecall.faults import script
from wholecall.faults.script import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    WholeScript,
    WrittenCall,
    drop_empty,
    name_id,
    write_event,
)

_REASONS = {
    "tool_calls": "tool_use",
    "stop": "end_turn",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SIGNATURE = "c2lnbmF0dXJl"


def refuse(status: int, message: str) -> dict[str, Any]:
    """The body of an HTTP error."""
    error = {"type": _ERRORS.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": "req_faults"}


class AnthropicFaultWriter:
    """Writes one message."""

    def __init__(self, model: str, turn: int) -> None:
        self._model = model
        self._turn = turn
        self._next = 0
        self._words: tuple[str, int] | None = None
        """The open block of text or thinking: its type and its index."""
        self._indices: dict[int, int | None] = {}
        """The indices of the calls' blocks."""

    def open(self) -> str:
        """The message as it begins, and a ping, as Anthropic sends it."""
        message = self._message([], None)
        return _event("message_start", message=message) + _event("ping")

    def write(self, step: script.Spoken) -> str:
        """One step of a stream."""
        return _STEPS[type(step)](self, step)

    def encode(self, whole: WholeScript) -> dict[str, Any]:
        """A whole answer."""
        if whole.error is not None:
            return refuse(529, whole.error)
        content: list[Mapping[str, Any]] = []
        if whole.thought:
            content.append({"type": "thinking", "thinking": whole.thought, "signature": _SIGNATURE})
        if whole.text:
            content.append({"type": "text", "text": whole.text})
        content += (self._block(call) for call in whole.calls.values())
        return self._message(content, _word(whole.reason))

    # ── Words ───────────────────────────────────────────────────────────────────────

    def _say(self, step: script.Say) -> str:
        start, index = self._open_words("text", {"text": ""})
        return start + _delta(index, type="text_delta", text=step.text)

    def _think(self, step: script.Think) -> str:
        start, index = self._open_words("thinking", {"thinking": "", "signature": ""})
        return start + _delta(index, type="thinking_delta", thinking=step.text)

    def _open_words(self, kind: str, empty: Mapping[str, str]) -> tuple[str, int]:
        if self._words is not None and self._words[0] == kind:
            return "", self._words[1]
        closing, index = self._close_words(), self._take_index()
        self._words = (kind, index)
        block = {"type": kind, **empty}
        return closing + _event("content_block_start", index=index, content_block=block), index

    def _close_words(self) -> str:
        if self._words is None:
            return ""
        (kind, index), self._words = self._words, None
        signed = kind == "thinking"
        signature = _delta(index, type="signature_delta", signature=_SIGNATURE) if signed else ""
        return signature + _event("content_block_stop", index=index)

    def _take_index(self) -> int:
        self._next += 1
        return self._next - 1

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _begin(self, step: script.Begin) -> str:
        closing = self._close_words()
        index = self._take_index() if isinstance(step.index, script.Auto) else step.index
        self._indices[step.call] = index
        given = step.arguments
        block = {
            "type": "tool_use",
            "id": name_id(step.id, prefix="toolu", turn=self._turn, call=step.call),
            "name": step.name,
            "input": {} if isinstance(given, str) else given,
        }
        start = _event("content_block_start", index=index, content_block=drop_empty(block))
        text = _input_delta(index, given) if isinstance(given, str) and given else ""
        return closing + start + text

    def _grow(self, step: script.Grow) -> str:
        return _input_delta(self._indices.get(step.call), step.arguments)

    def _seal(self, step: script.Seal) -> str:
        return _event("content_block_stop", index=self._indices.get(step.call))

    def _block(self, call: WrittenCall) -> dict[str, Any]:
        block = {
            "type": "tool_use",
            "id": name_id(call.id, prefix="toolu", turn=self._turn, call=call.number),
            "name": call.name,
            "input": _read_input(call.arguments),
        }
        return drop_empty(block)

    # ── The end ─────────────────────────────────────────────────────────────────────

    def _finish(self, step: script.FinishWith) -> str:
        delta = {"stop_reason": _word(step.reason), "stop_sequence": None}
        usage = {"output_tokens": OUTPUT_TOKENS}
        return self._close_words() + _event("message_delta", delta=delta, usage=usage)

    def _count_tokens(self, _: script.CountTokens) -> str:
        return ""  # the usage comes with the message's own events

    def _terminate(self, _: script.Terminate) -> str:
        return self._close_words() + _event("message_stop")

    def _fail(self, step: script.Fail) -> str:
        return write_event(refuse(529, step.message), "error")

    def _raw(self, step: script.Raw) -> str:
        return step.text

    def _message(self, content: list[Mapping[str, Any]], reason: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{self._turn}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
        }


def _event(kind: str, **fields: Any) -> str:
    if fields.get("index", 0) is None:
        del fields["index"]
    return write_event({"type": kind, **fields}, kind)


def _delta(index: int | None, **delta: str) -> str:
    return _event("content_block_delta", index=index, delta=delta)


def _input_delta(index: int | None, text: str) -> str:
    return _delta(index, type="input_json_delta", partial_json=text)


def _read_input(arguments: str | Mapping[str, JSON]) -> Any:
    """The input as a value: of a text that was cut, what a partial parser makes of it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return dict(preview(arguments).value)


def _word(reason: str | None) -> str | None:
    return None if reason is None else _REASONS.get(reason, reason)


_STEPS: dict[type[script.Spoken], Callable[[AnthropicFaultWriter, Any], str]] = {
    script.Say: AnthropicFaultWriter._say,
    script.Think: AnthropicFaultWriter._think,
    script.Begin: AnthropicFaultWriter._begin,
    script.Grow: AnthropicFaultWriter._grow,
    script.Seal: AnthropicFaultWriter._seal,
    script.FinishWith: AnthropicFaultWriter._finish,
    script.CountTokens: AnthropicFaultWriter._count_tokens,
    script.Terminate: AnthropicFaultWriter._terminate,
    script.Fail: AnthropicFaultWriter._fail,
    script.Raw: AnthropicFaultWriter._raw,
}
