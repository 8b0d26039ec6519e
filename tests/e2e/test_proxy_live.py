"""Calls that clients see grow: what is right arrives, what is not ends in an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from e2e.recording_proxy import answering, between
from proxy_server import in_loop

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "dig",
        "parameters": {
            "type": "object",
            "properties": {"depth": {"type": "integer"}, "why": {"type": "string"}},
            "required": ["depth"],
        },
    },
}
MESSAGES: Any = [{"role": "user", "content": "hi"}]
GOOD = ['{"depth":', " 3, ", '"why": "gold"}']


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def stream(pieces: list[str], finish: str = "tool_calls") -> list[bytes]:
    function = {"name": "dig", "arguments": ""}
    head = chunk({"tool_calls": [{"index": 0, "id": "c0", "function": function}]})
    body = (
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": each}}]}) for each in pieces
    )
    return [head, *body, chunk({}, finish) + b"data: [DONE]\n\n"]


@in_loop
async def test_arguments_arrive_as_they_grow(tmp_path: Path) -> None:
    async with between(answering(*stream(GOOD)), tmp_path, live=True) as (served, _):
        _, frames, _ = await served.post(
            "/v1/chat/completions",
            {"model": "m", "messages": MESSAGES, "tools": [TOOL], "stream": True},
        )
        calls = [
            call["function"]
            for line in frames.split("\n\n")
            if line.startswith("data: {")
            for choice in json.loads(line.removeprefix("data: "))["choices"]
            for call in choice["delta"].get("tool_calls", ())
        ]
    assert calls[0]["name"] == "dig"
    assert "".join(call.get("arguments") or "" for call in calls) == "".join(GOOD)
    assert frames.endswith("data: [DONE]\n\n")


CUT_IN_TWO = {
    "escaped in the arguments": (r'{"depth": 3, "why": "\ud83d', r'\ude00"}'),
    "escaped, within an escape": (r'{"depth": 3, "why": "\ud83d\u', 'de00"}'),
    "raw": ('{"depth": 3, "why": "\ud83d', '\ude00"}'),
}


@pytest.mark.parametrize("pieces", CUT_IN_TWO.values(), ids=CUT_IN_TWO)
@in_loop
async def test_a_character_that_was_cut_in_two_arrives_as_one(
    tmp_path: Path, pieces: tuple[str, str]
) -> None:
    words = [chunk({"content": "a\ud83d"}), chunk({"content": "\ude00"})]
    async with between(answering(*words, *stream([*pieces])), tmp_path, live=True) as (served, _):
        asked: Any = {"model": "m", "messages": MESSAGES, "tools": [TOOL]}
        async with served.openai.chat.completions.stream(**asked) as streamed:
            message = (await streamed.get_final_completion()).choices[0].message
        messages: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 9}
        tool: Any = {"name": "dig", "input_schema": TOOL["function"]["parameters"]}
        async with served.anthropic.messages.stream(**messages, tools=[tool]) as other:
            blocks = (await other.get_final_message()).content
    assert message.content == "a😀"
    assert message.tool_calls is not None
    assert json.loads(message.tool_calls[0].function.arguments) == {"depth": 3, "why": "😀"}
    assert [each.type for each in blocks] == ["text", "tool_use"]
    assert getattr(blocks[0], "text", "") == "a😀"
    assert getattr(blocks[1], "input", {}) == {"depth": 3, "why": "😀"}


WRONG = {
    "it does not fit its schema": stream(['{"depth":', ' "deep"}']),
    "it is cut by the output limit": stream(['{"depth": 3, "why": "go'], "length"),
    "it is cut by the connection": stream(GOOD)[:-2],
    "it has to be repaired": stream(['{"depth": 3,', "}"]),
    "it has to be coerced": stream(['{"depth":', ' "3"}']),
    "it is no JSON": stream(["{depth", ": 3"]),
}


@pytest.mark.parametrize("sent", WRONG.values(), ids=WRONG)
@in_loop
async def test_a_call_that_was_shown_and_is_wrong_ends_in_an_error(
    tmp_path: Path, sent: list[bytes]
) -> None:
    async with between(answering(*sent), tmp_path, live=True) as (served, _):
        streamed = await served.openai.chat.completions.create(
            model="m", messages=MESSAGES, tools=[TOOL], stream=True
        )
        finishes = []
        with pytest.raises(openai.APIError):
            finishes = [part.choices[0].finish_reason async for part in streamed]
        assert not any(finishes)
        function = TOOL["function"]
        tool: Any = {"name": function["name"], "input_schema": function["parameters"]}
        # Its helper parses what it has so far, and fails by itself where that is no JSON.
        with pytest.raises((anthropic.APIError, ValueError)):
            async with served.anthropic.messages.stream(
                model="m", max_tokens=9, messages=MESSAGES, tools=[tool]
            ) as events:
                await events.get_final_message()
