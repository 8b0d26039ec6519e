"""What is read from a request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.errors import UnreadableRequest
from wholecall.faults.fault_server import ScenarioRequest, read_question
from wholecall.faults.script import Form, ToolRun

USER: dict[str, Any] = {"role": "user", "content": "Hello"}
SAID: dict[str, Any] = {"role": "assistant", "content": "Hi"}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_0", "content": "done"}
CALL_ITEM: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "n"}
OUTPUT_ITEM: dict[str, Any] = {"type": "function_call_output", "call_id": "c", "output": "done"}
THOUGHT: dict[str, Any] = {"type": "reasoning", "summary": []}


def read(
    protocol: str, history: object, *, headers: dict[str, str] | None = None, **fields: object
) -> ScenarioRequest:
    field = "input" if protocol == "openai-responses" else "messages"
    body = {"model": "good", field: history, **fields}
    return read_question(protocol, json.dumps(body).encode(), headers=headers or {})


@pytest.mark.parametrize(
    ("protocol", "history", "turn"),
    [
        ("openai-chat", [USER], 0),
        ("openai-chat", [{"role": "system", "content": "Be kind."}, USER], 0),
        ("openai-chat", [USER, SAID, RESULT, RESULT], 1),
        ("openai-chat", [USER, SAID, USER, SAID, RESULT], 2),
        ("anthropic", [USER, SAID, USER], 1),
        ("openai-responses", "Hello", 0),
        ("openai-responses", [USER, THOUGHT, CALL_ITEM, CALL_ITEM, OUTPUT_ITEM, OUTPUT_ITEM], 1),
        ("openai-responses", [USER, CALL_ITEM, OUTPUT_ITEM, SAID, USER], 2),
    ],
)
def test_the_turn_is_how_often_the_assistant_spoke(
    *, protocol: str, history: object, turn: int
) -> None:
    assert read(protocol, history).turn == turn


def _chat(arguments: object) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "n", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _written(calls: object) -> dict[str, Any]:
    """An assistant's message of smolagents."""
    return {"role": "assistant", "content": [{"type": "text", "text": f"Calling tools:\n{calls}"}]}


def _noted(*notes: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "\n".join(notes)}]}


DONE, AGAIN = "Observation:\nIt is done.", "Error:\nNo.\nNow let's retry: take care."


@pytest.mark.parametrize(
    ("history", "turn"),
    [
        ([_noted("Hello", AGAIN)], 1),
        ([_noted("Hello", AGAIN, AGAIN)], 2),
        ([USER, _written([]), _noted(DONE)], 1),
        ([USER, _written([]), _noted(DONE, AGAIN)], 2),
        ([USER, SAID, _noted(AGAIN)], 1),
        ([USER, SAID, {"role": "user", "content": f"{DONE}\n{AGAIN}"}], 2),
        ([{"role": "system", "content": f"{DONE}\n{AGAIN}"}, USER], 0),
    ],
)
def test_the_turn_of_a_history_that_tells_of_steps_in_words(
    history: list[dict[str, Any]], turn: int
) -> None:
    assert read("openai-chat", history).turn == turn


BLOCK = {"type": "tool_use", "id": "c", "name": "n", "input": {"a": 1}}
REFUSED = {"type": "tool_result", "tool_use_id": "c", "content": "It was not run."}
TALK = {"type": "text", "text": "Let me see."}
NOT_RUN = "One was not run."


@pytest.mark.parametrize(
    ("protocol", "history", "arguments"),
    [
        ("openai-chat", [USER, SAID], []),
        ("openai-chat", [USER, _chat('{"a": 1}'), RESULT, _chat("{}")], [{"a": 1}, {}]),
        ("openai-chat", [USER, _chat('{"a": ')], ['{"a": ']),
        ("openai-chat", [USER, _written(_chat({"a": 1})["tool_calls"])], [{"a": 1}]),
        ("openai-chat", [USER, _written("[{'id'")], []),
        ("openai-chat", [USER, _written({"a": 1})], []),
        ("openai-chat", [{**_written(_chat("{}")["tool_calls"]), "role": "user"}], []),
        (
            "openai-responses",
            [USER, {**CALL_ITEM, "arguments": '{"a": 1}'}, OUTPUT_ITEM],
            [{"a": 1}],
        ),
        ("anthropic", [USER, {"role": "assistant", "content": [TALK, BLOCK]}], [{"a": 1}]),
        ("anthropic", [USER, SAID], []),
        (
            "openai-chat",
            [USER, _chat("{}"), {**RESULT, "tool_call_id": "c", "content": "It was not run."}],
            [],
        ),
        (
            "openai-responses",
            [USER, {**CALL_ITEM, "arguments": "{}"}, {**OUTPUT_ITEM, "output": "It was not run."}],
            [],
        ),
        (
            "anthropic",
            [
                USER,
                {"role": "assistant", "content": [BLOCK]},
                {"role": "user", "content": [REFUSED]},
            ],
            [],
        ),
        (
            "anthropic",
            [
                USER,
                {"role": "assistant", "content": [BLOCK]},
                {"role": "user", "content": [{**REFUSED, "content": [{**TALK, "text": NOT_RUN}]}]},
            ],
            [],
        ),
        # Data that hold these words are not a refusal.
        (
            "openai-chat",
            [
                USER,
                _chat("{}"),
                {**RESULT, "tool_call_id": "c", "content": f"12 tests.\n{NOT_RUN}"},
            ],
            [{}],
        ),
        (
            "openai-chat",
            [USER, _chat("{}"), {**RESULT, "tool_call_id": "c", "content": []}],
            [{}],
        ),
    ],
)
def test_the_calls_of_the_history(*, protocol: str, history: object, arguments: list[Any]) -> None:
    assert read(protocol, history).calls == tuple(ToolRun("n", each) for each in arguments)


@pytest.mark.parametrize(("previous", "turn"), [("resp_0", 1), ("resp_3", 4), ("other", 0)])
def test_a_previous_response_counts(previous: str, turn: int) -> None:
    question = read("openai-responses", [OUTPUT_ITEM], previous_response_id=previous)
    assert question.turn == turn


@pytest.mark.parametrize(
    ("choice", "forces", "offers"),
    [
        (None, False, True),
        ("auto", False, True),
        ("none", False, False),
        ("required", True, True),
        ({"type": "function", "function": {"name": "n"}}, True, True),
        ({"type": "any"}, True, True),
        ({"type": "tool", "name": "n"}, True, True),
        ({"type": "auto"}, False, True),
        ({"type": "none"}, False, False),
        ({"type": ["any"]}, False, True),
        (["any"], False, True),
    ],
)
def test_the_choice_says_whether_a_call_is_forced(
    *, choice: object, forces: bool, offers: bool
) -> None:
    question = read("openai-chat", [USER], tools=[{"name": "n"}], tool_choice=choice)
    assert (question.forces_call, question.offers_tools) == (forces, offers)


def test_without_tools_none_are_offered() -> None:
    assert not read("openai-chat", [USER]).offers_tools


@pytest.mark.parametrize("stream", [True, False])
def test_the_form(stream: bool) -> None:
    question = read("anthropic", [USER], stream=stream)
    assert question.form == Form("anthropic", stream)
    assert question.model == "good"


def test_the_same_question_is_the_same_conversation() -> None:
    asked = read("openai-chat", [USER], stream=True, max_tokens=10).conversation
    assert read("openai-chat", [USER], max_tokens=20).conversation == asked


@pytest.mark.parametrize(
    "change",
    [
        {"headers": {"authorization": "Bearer b"}},
        {"headers": {"x-api-key": "b"}},
        {"user": "b"},
        {"metadata": {"user_id": "b"}},
        {"model": "parallel-calls"},
        {"previous_response_id": "resp_1"},
    ],
)
def test_another_key_user_or_model_is_another_conversation(change: dict[str, Any]) -> None:
    asked = read("openai-chat", [USER])
    assert read("openai-chat", [USER], **change).conversation != asked.conversation
    assert read("openai-chat", [USER, USER]).conversation != asked.conversation


@pytest.mark.parametrize(
    ("protocol", "body", "param"),
    [
        ("openai-chat", b"{", "body"),
        ("openai-chat", b"[]", "body"),
        ("openai-chat", b'{"messages": []}', "model"),
        ("openai-chat", b'{"model": "good"}', "messages"),
        ("openai-chat", b'{"model": "good", "messages": "Hello"}', "messages"),
        ("anthropic", b'{"model": "good", "messages": ["Hello"]}', "messages"),
        ("openai-responses", b'{"model": "good", "input": 5}', "input"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_the_field(
    *, protocol: str, body: bytes, param: str
) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read_question(protocol, body, headers={})
    assert caught.value.param == param
