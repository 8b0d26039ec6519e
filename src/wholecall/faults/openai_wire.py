"""Fault scripts as bytes of OpenAI's two protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wholecall.faults import script
from wholecall.faults.script import (
    CREATED,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    WholeScript,
    WrittenCall,
    drop_empty,
    name_id,
    write_event,
)

_CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_SERVER_ERROR = 500


def refuse(status: int, message: str) -> dict[str, Any]:
    """The body of an HTTP error. Responses has the same."""
    kind = "invalid_request_error" if status < _SERVER_ERROR else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class ChatFaultWriter:
    """Writes one chat completion."""

    def __init__(self, model: str, turn: int) -> None:
        self._model = model
        self._turn = turn

    def open(self) -> str:
        """The first chunk names the role."""
        return self._delta({"role": "assistant", "content": ""})

    def write(self, step: script.Spoken) -> str:
        """One step of a stream."""
        return _CHAT_STEPS[type(step)](self, step)

    def encode(self, whole: WholeScript) -> dict[str, Any]:
        """A whole answer."""
        if whole.error is not None:
            return refuse(500, whole.error)
        calls = [self._entry(call) for call in whole.calls.values()]
        message = {
            "role": "assistant",
            "content": whole.text or None,
            **drop_empty({"reasoning_content": whole.thought or None, "tool_calls": calls or None}),
        }
        choice = {"index": 0, "message": message, "finish_reason": whole.reason}
        return {**self._head("chat.completion"), "choices": [choice], "usage": _CHAT_USAGE}

    # ── Steps ───────────────────────────────────────────────────────────────────────

    def _say(self, step: script.Say) -> str:
        return self._delta({"content": step.text})

    def _think(self, step: script.Think) -> str:
        return self._delta({"reasoning_content": step.text})

    def _call(self, step: script.Begin | script.Grow) -> str:
        function = drop_empty({"name": step.name, "arguments": step.arguments})
        entry = {
            "index": step.call if isinstance(step.index, script.Auto) else step.index,
            "id": name_id(step.id, prefix="call", turn=self._turn, call=step.call),
            "type": "function" if isinstance(step, script.Begin) else None,
            "function": function,
        }
        return self._delta({"tool_calls": [drop_empty(entry)]})

    def _seal(self, _: script.Seal) -> str:
        return ""  # this protocol has no word for it

    def _finish(self, step: script.FinishWith) -> str:
        return self._delta({}, step.reason)

    def _count_tokens(self, _: script.CountTokens) -> str:
        return write_event(
            {**self._head("chat.completion.chunk"), "choices": [], "usage": _CHAT_USAGE}
        )

    def _terminate(self, _: script.Terminate) -> str:
        return "data: [DONE]\n\n"

    def _fail(self, step: script.Fail) -> str:
        return write_event(refuse(500, step.message))

    def _raw(self, step: script.Raw) -> str:
        return step.text

    # ── Pieces ──────────────────────────────────────────────────────────────────────

    def _delta(self, delta: Mapping[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return write_event({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._turn}",
            "object": kind,
            "created": CREATED,
            "model": self._model,
        }

    def _entry(self, call: WrittenCall) -> dict[str, Any]:
        entry = {
            "id": name_id(call.id, prefix="call", turn=self._turn, call=call.number),
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        return drop_empty(entry)


_CHAT_STEPS: dict[type[script.Spoken], Callable[[ChatFaultWriter, Any], str]] = {
    script.Say: ChatFaultWriter._say,
    script.Think: ChatFaultWriter._think,
    script.Begin: ChatFaultWriter._call,
    script.Grow: ChatFaultWriter._call,
    script.Seal: ChatFaultWriter._seal,
    script.FinishWith: ChatFaultWriter._finish,
    script.CountTokens: ChatFaultWriter._count_tokens,
    script.Terminate: ChatFaultWriter._terminate,
    script.Fail: ChatFaultWriter._fail,
    script.Raw: ChatFaultWriter._raw,
}


# OpenAI's Responses API, as the script wants it.
#
# The API says everything up to four times: in pieces, whole, with the item, and with the response.
# This writer repeats faithfully what the pieces said, wrong as it may be.


_RESPONSES_USAGE = {
    "input_tokens": INPUT_TOKENS,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": OUTPUT_TOKENS,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesFaultWriter:
    """Writes one response."""

    def __init__(self, model: str, turn: int) -> None:
        self._model = model
        self._turn = turn
        self._number = -1
        self._next = 0
        self._whole = WholeScript()
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
        return _RESPONSES_STEPS[type(step)](self, step)

    def encode(self, whole: WholeScript) -> dict[str, Any]:
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
        return {**response, "incomplete_details": details, "usage": _RESPONSES_USAGE}

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

    def _finish(self, _: script.FinishWith) -> str:
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


_CLOSERS: dict[str, Callable[[ResponsesFaultWriter, int], str]] = {
    "message": ResponsesFaultWriter._close_message,
    "reasoning": ResponsesFaultWriter._close_reasoning,
}
_RESPONSES_STEPS: dict[type[script.Spoken], Callable[[ResponsesFaultWriter, Any], str]] = {
    script.Say: ResponsesFaultWriter._say,
    script.Think: ResponsesFaultWriter._think,
    script.Begin: ResponsesFaultWriter._begin,
    script.Grow: ResponsesFaultWriter._grow,
    script.Seal: ResponsesFaultWriter._seal,
    script.FinishWith: ResponsesFaultWriter._finish,
    script.CountTokens: ResponsesFaultWriter._count_tokens,
    script.Terminate: ResponsesFaultWriter._terminate,
    script.Fail: ResponsesFaultWriter._fail,
    script.Raw: ResponsesFaultWriter._raw,
}
