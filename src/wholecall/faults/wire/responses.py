"""OpenAI's Responses API, as the script wants it.

The API says everything up to four times: in pieces, whole, with the item, and with the
response. This writer repeats faithfully what the pieces said, wrong as it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wholecall.faults import script
from wholecall.faults.wire.whole import Whole, WrittenCall, drop_empty, name_id
from wholecall.faults.wire.writer import CREATED, INPUT_TOKENS, OUTPUT_TOKENS, write_event

_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesWriter:
    """Writes one response."""

    def __init__(self, model: str, turn: int) -> None:
        self._model = model
        self._turn = turn
        self._number = -1
        self._next = 0
        self._whole = Whole()
        """The output so far, which is sent again."""
        self._words: tuple[str, int] | None = None
        """The open item of text or reasoning: its kind and its index."""
        self._indices: dict[int, int | None] = {}

    def open(self) -> str:
        """The response as it begins."""
        response = self._response("in_progress", [])
        return self._event("response.created", response=response) + self._event(
            "response.in_progress", response=response
        )

    def write(self, step: script.Spoken) -> str:
        """One step of a stream."""
        self._whole.take(step)
        return _STEPS[type(step)](self, step)

    def encode(self, whole: Whole) -> dict[str, Any]:
        """A whole answer."""
        if whole.error is not None:
            return self._fail_response(whole.error)
        output: list[dict[str, Any]] = []
        if whole.thought:
            output.append(self._reasoning(whole.thought))
        if whole.text:
            output.append(self._message([_text_part(whole.text)], "completed"))
        output += (self._item(call) for call in whole.calls.values())
        reason = _INCOMPLETE.get(whole.reason or "")
        response = self._response("incomplete" if reason else "completed", output)
        details = {"reason": reason} if reason else None
        return {**response, "incomplete_details": details, "usage": _USAGE}

    # ── Text ────────────────────────────────────────────────────────────────────────

    def _say(self, step: script.Say) -> str:
        opening = self._open_words("message", self._message([], "in_progress"))
        where = self._where("message")
        if opening:
            part = _text_part("")
            opening += self._event(
                "response.content_part.added", **where, content_index=0, part=part
            )
        return opening + self._event(
            "response.output_text.delta", **where, content_index=0, delta=step.text, logprobs=[]
        )

    def _close_message(self, index: int) -> str:
        text = self._whole.text
        where = {"item_id": self._id("message"), "output_index": index, "content_index": 0}
        return (
            self._event("response.output_text.done", **where, text=text, logprobs=[])
            + self._event("response.content_part.done", **where, part=_text_part(text))
            + self._event(
                "response.output_item.done",
                output_index=index,
                item=self._message([_text_part(text)], "completed"),
            )
        )

    # ── Reasoning ───────────────────────────────────────────────────────────────────

    def _think(self, step: script.Think) -> str:
        opening = self._open_words("reasoning", self._reasoning(""))
        where = {**self._where("reasoning"), "summary_index": 0}
        if opening:
            part = {"type": "summary_text", "text": ""}
            opening += self._event("response.reasoning_summary_part.added", **where, part=part)
        return opening + self._event(
            "response.reasoning_summary_text.delta", **where, delta=step.text
        )

    def _close_reasoning(self, index: int) -> str:
        text = self._whole.thought
        where = {"item_id": self._id("reasoning"), "output_index": index, "summary_index": 0}
        part = {"type": "summary_text", "text": text}
        return (
            self._event("response.reasoning_summary_text.done", **where, text=text)
            + self._event("response.reasoning_summary_part.done", **where, part=part)
            + self._event(
                "response.output_item.done", output_index=index, item=self._reasoning(text)
            )
        )

    def _open_words(self, kind: str, item: Mapping[str, Any]) -> str:
        if self._words is not None and self._words[0] == kind:
            return ""
        closing = self._close_words()
        self._words = (kind, self._take_index())
        added = self._event("response.output_item.added", output_index=self._words[1], item=item)
        return closing + added

    def _close_words(self) -> str:
        if self._words is None:
            return ""
        (kind, index), self._words = self._words, None
        return _CLOSERS[kind](self, index)

    def _where(self, kind: str) -> dict[str, Any]:
        return {"item_id": self._id(kind), "output_index": self._next - 1}

    def _take_index(self) -> int:
        self._next += 1
        return self._next - 1

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _begin(self, step: script.Begin) -> str:
        closing = self._close_words()
        index = self._take_index() if isinstance(step.index, script.Auto) else step.index
        self._indices[step.call] = index
        item = self._item(self._whole.call(step.call), "in_progress")
        return closing + self._at(step.call, "response.output_item.added", item=item)

    def _grow(self, step: script.Grow) -> str:
        return self._at(
            step.call,
            "response.function_call_arguments.delta",
            item_id=self._call_item_id(step.call),
            delta=step.arguments,
        )

    def _seal(self, step: script.Seal) -> str:
        call = self._whole.call(step.call)
        return self._at(
            step.call,
            "response.function_call_arguments.done",
            item_id=self._call_item_id(step.call),
            name=call.name,
            arguments=call.arguments,
        ) + self._at(step.call, "response.output_item.done", item=self._item(call))

    def _at(self, call: int, kind: str, **fields: Any) -> str:
        index = self._indices.get(call)
        place = {} if index is None else {"output_index": index}
        return self._event(kind, **place, **fields)

    def _item(self, call: WrittenCall, status: str = "") -> dict[str, Any]:
        item = {
            "id": self._call_item_id(call.number),
            "type": "function_call",
            "status": status or ("completed" if call.sealed else "incomplete"),
            "call_id": name_id(call.id, prefix="call", turn=self._turn, call=call.number),
            "name": call.name,
            "arguments": call.arguments,
        }
        return drop_empty(item)

    def _call_item_id(self, call: int) -> str:
        return f"fc_{self._turn}_{call}"

    # ── The end ─────────────────────────────────────────────────────────────────────

    def _finish(self, _: script.Finish) -> str:
        return self._close_words()  # how it finished is said by the terminal event

    def _count_tokens(self, _: script.CountTokens) -> str:
        return ""  # the terminal event holds the usage

    def _terminate(self, _: script.Terminate) -> str:
        closing = self._close_words()
        response = self.encode(self._whole)
        return closing + self._event(f"response.{response['status']}", response=response)

    def _fail(self, step: script.Fail) -> str:
        return self._event("response.failed", response=self._fail_response(step.message))

    def _raw(self, step: script.Raw) -> str:
        return step.text

    # ── Pieces ──────────────────────────────────────────────────────────────────────

    def _event(self, kind: str, **fields: Any) -> str:
        self._number += 1
        return write_event({"type": kind, "sequence_number": self._number, **fields}, kind)

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._turn}"

    def _message(self, content: list[Mapping[str, Any]], status: str) -> dict[str, Any]:
        return {
            "id": self._id("message"),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": content,
        }

    def _reasoning(self, text: str) -> dict[str, Any]:
        summary = [{"type": "summary_text", "text": text}] if text else []
        return {"id": self._id("reasoning"), "type": "reasoning", "summary": summary}

    def _fail_response(self, message: str) -> dict[str, Any]:
        error = {"code": "server_error", "message": message}
        return {**self._response("failed", []), "error": error}

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"resp_{self._turn}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


_CLOSERS: dict[str, Callable[[ResponsesWriter, int], str]] = {
    "message": ResponsesWriter._close_message,
    "reasoning": ResponsesWriter._close_reasoning,
}
_STEPS: dict[type[script.Spoken], Callable[[ResponsesWriter, Any], str]] = {
    script.Say: ResponsesWriter._say,
    script.Think: ResponsesWriter._think,
    script.Begin: ResponsesWriter._begin,
    script.Grow: ResponsesWriter._grow,
    script.Seal: ResponsesWriter._seal,
    script.Finish: ResponsesWriter._finish,
    script.CountTokens: ResponsesWriter._count_tokens,
    script.Terminate: ResponsesWriter._terminate,
    script.Fail: ResponsesWriter._fail,
    script.Raw: ResponsesWriter._raw,
}
