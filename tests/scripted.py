"""Answers of a model, written by hand: chunks of OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.upstreams.base import Answer
from wholecall.upstreams.replay import ScriptedAnswer

USAGE = {"prompt_tokens": 10, "completion_tokens": 5}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def opening(number: int, name: str, *, arguments: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": number, "id": f"c{number}", "function": function}]})


def growing(number: int, arguments: str) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": number, "function": {"arguments": arguments}}]})


def ending(finish: str = "stop") -> list[Chunk]:
    usage = {"choices": [], "usage": USAGE}
    return [chunk({}, finish), usage, "data: [DONE]", ""]


def says(text: str, finish: str = "stop") -> ScriptedAnswer:
    """The model answers in text."""
    return ScriptedAnswer(chunks=[chunk({"content": text}), *ending(finish)])


def calls(*made: tuple[str, dict[str, Any]], finish: str = "tool_calls") -> ScriptedAnswer:
    """The model calls tools, each with its arguments in two pieces."""
    chunks: list[Chunk] = []
    for number, (name, arguments) in enumerate(made):
        text = json.dumps(arguments)
        chunks += [opening(number, name, arguments=text[:3]), growing(number, text[3:])]
    return ScriptedAnswer(chunks=[*chunks, *ending(finish)])


def cut(name: str, arguments: str, *, finish: str = "length") -> ScriptedAnswer:
    """A call that is not whole."""
    return ScriptedAnswer(chunks=[opening(0, name, arguments=arguments), *ending(finish)])


class LiveUpstream:
    """Answers with streams that are written while they are read."""

    protocol = "openai-chat"

    def __init__(self, *turns: Callable[[], AsyncIterator[Chunk]]) -> None:
        self._turns: Sequence[Callable[[], AsyncIterator[Chunk]]] = turns
        self.requests: list[Request] = []
        self.open = 0

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        turn = self._turns[len(self.requests)]
        self.requests.append(request)
        self.open += 1
        try:
            yield Answer(protocol=self.protocol, chunks=turn())
        finally:
            self.open -= 1

    async def close(self) -> None:
        pass
