"""OpenAI's chat completions, as the script wants them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wholecall.faults import script
from wholecall.faults.wire.whole import Whole, WrittenCall, drop_empty, name_id
from wholecall.faults.wire.writer import CREATED, INPUT_TOKENS, OUTPUT_TOKENS, write_event

_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}
_SERVER_ERROR = 500


def refuse(status: int, message: str) -> dict[str, Any]:
    """The body of an HTTP error. Responses has the same."""
    kind = "invalid_request_error" if status < _SERVER_ERROR else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class ChatWriter:
    """Writes one chat completion."""

    def __init__(self, model: str, turn: int) -> None:
        self._model = model
        self._turn = turn

    def open(self) -> str:
        """The first chunk names the role."""
        return self._delta({"role": "assistant", "content": ""})

    def write(self, step: script.Spoken) -> str:
        """One step of a stream."""
        return _STEPS[type(step)](self, step)

    def encode(self, whole: Whole) -> dict[str, Any]:
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
        return {**self._head("chat.completion"), "choices": [choice], "usage": _USAGE}

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

    def _finish(self, step: script.Finish) -> str:
        return self._delta({}, step.reason)

    def _count_tokens(self, _: script.CountTokens) -> str:
        return write_event({**self._head("chat.completion.chunk"), "choices": [], "usage": _USAGE})

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


_STEPS: dict[type[script.Spoken], Callable[[ChatWriter, Any], str]] = {
    script.Say: ChatWriter._say,
    script.Think: ChatWriter._think,
    script.Begin: ChatWriter._call,
    script.Grow: ChatWriter._call,
    script.Seal: ChatWriter._seal,
    script.Finish: ChatWriter._finish,
    script.CountTokens: ChatWriter._count_tokens,
    script.Terminate: ChatWriter._terminate,
    script.Fail: ChatWriter._fail,
    script.Raw: ChatWriter._raw,
}
