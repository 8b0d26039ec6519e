"""Tools that run in the proxy, with the official SDKs as clients over a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from e2e.tool_runs import ITEMS, PREFIXES, QUESTION, Ran, serving
from proxy_server import Served, in_loop
from wholecall.faults.script import definitions

MAIL = ("send_email", {"to": "ada@example.org", "body": "Dinner is at eight."})


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_the_servers_tools_run_and_the_client_sees_one_answer(
    tmp_path: Path, prefix: str
) -> None:
    ran = Ran()
    async with serving(tmp_path, ran) as (served, _):
        stream = await served.openai.chat.completions.create(
            model=f"{prefix}:two-steps",
            messages=QUESTION,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    assert [name for name, _ in ran.calls] == ["get_weather", "send_email"]
    finishes = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert [finish for finish in finishes if finish] == ["stop"]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "All done."
    assert not any(c.choices[0].delta.tool_calls for c in chunks if c.choices)
    usages = [c.usage for c in chunks if c.usage]
    assert len(usages) == 1


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_an_answer_in_one_piece_runs_the_tools_as_well(tmp_path: Path, prefix: str) -> None:
    ran = Ran()
    async with serving(tmp_path, ran) as (served, _):
        message = await served.anthropic.messages.create(
            model=f"{prefix}:good", max_tokens=100, messages=QUESTION
        )
        response = await served.openai.responses.create(model=f"{prefix}:good", input="Do it.")
    assert [block.type for block in message.content] == ["text"]
    assert message.stop_reason == "end_turn"
    assert response.output_text == "All done."
    assert (
        ran.calls == [("send_email", {"to": "ada@example.org", "body": "Dinner is at eight."})] * 2
    )


@in_loop
async def test_usage_is_the_sum_of_all_turns(tmp_path: Path) -> None:
    async with serving(tmp_path, Ran()) as (served, _):
        one = await served.openai.chat.completions.create(
            model="openai:answer-only", messages=QUESTION
        )
        both = await served.openai.chat.completions.create(model="openai:good", messages=QUESTION)
    assert one.usage is not None
    assert both.usage is not None
    assert both.usage.prompt_tokens == 2 * one.usage.prompt_tokens


# ── Tools of both sides ─────────────────────────────────────────────────────────────


async def _first_half(served: Served) -> Any:
    """The model calls get_weather twice (ours) and list_items (the client's)."""
    answer = await served.openai.chat.completions.create(
        model="openai:parallel-calls", messages=QUESTION, tools=ITEMS
    )
    return answer.choices[0]


@in_loop
async def test_a_client_gets_only_its_own_calls_and_the_history_is_put_together_again(
    tmp_path: Path,
) -> None:
    ran = Ran()
    async with serving(tmp_path, ran) as (served, faults):
        choice = await _first_half(served)
        assert choice.finish_reason == "tool_calls"
        [call] = choice.message.tool_calls
        assert call.function.name == "list_items"
        assert call.function.arguments == "{}"
        assert len(ran.calls) == 2
    # The proxy ends, and another one takes over.
    async with serving(tmp_path, ran) as (served, faults):
        history: Any = [
            *QUESTION,
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "one, two"},
        ]
        answer = await served.openai.chat.completions.create(
            model="openai:parallel-calls", messages=history, tools=ITEMS
        )
        [received] = faults.received
    assert answer.choices[0].message.content == "All done."
    assert len(ran.calls) == 2
    body = received.body
    assert isinstance(body, dict)
    said = [message["role"] for message in body["messages"]]
    assert said == ["user", "assistant", "tool", "tool", "tool"]
    made = [made["function"]["name"] for made in body["messages"][1]["tool_calls"]]
    assert made == ["get_weather", "get_weather", "list_items"]
    results = [message["content"] for message in body["messages"][2:]]
    assert results == ["12 degrees in Oslo", "12 degrees in Rome", "one, two"]


@in_loop
async def test_tools_of_both_sides_work_for_anthropics_clients(tmp_path: Path) -> None:
    ran = Ran()
    items: Any = [each for each in definitions("anthropic") if each["name"] == "list_items"]
    asked: dict[str, Any] = {
        "model": "anthropic:parallel-calls",
        "max_tokens": 100,
        "tools": items,
    }
    async with (
        serving(tmp_path, ran) as (served, _),
        served.anthropic.messages.stream(messages=QUESTION, **asked) as stream,
    ):
        first = await stream.get_final_message()
    # The proxy ends, and another one takes over.
    [call] = [block for block in first.content if block.type == "tool_use"]
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "one, two"}
    history: Any = [
        *QUESTION,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    async with serving(tmp_path, ran) as (served, faults):
        async with served.anthropic.messages.stream(messages=history, **asked) as stream:
            last = await stream.get_final_message()
        [received] = faults.received
    assert (first.stop_reason, call.input) == ("tool_use", {})
    assert last.stop_reason == "end_turn"
    assert len(ran.calls) == 2
    assert isinstance(received.body, dict)
    _, answer, results = received.body["messages"]
    made = [block["name"] for block in answer["content"] if block["type"] == "tool_use"]
    assert made == ["get_weather", "get_weather", "list_items"]
    ids = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    assert [block["tool_use_id"] for block in results["content"]] == ids
    assert "one, two" in str(results["content"][-1])


# ── Progress ────────────────────────────────────────────────────────────────────────


@in_loop
async def test_progress_is_told_to_those_who_ask(tmp_path: Path) -> None:
    body = {"model": "openai:good", "messages": QUESTION, "stream": True}
    async with serving(tmp_path, Ran()) as (served, _):
        _, silent, _ = await served.post("/v1/chat/completions", body)
        _, told, _ = await served.post("/v1/chat/completions", body, X_Wholecall_Events="1")
    assert "wholecall" not in silent
    assert _types(told) == PROGRESS
    frames = [line[6:] for line in told.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(frame) for frame in frames]
    assert all(chunk["choices"] == [] for chunk in chunks if "wholecall" in chunk)


ASKING: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": QUESTION},
    "/v1/responses": {"input": "Do it."},
    "/v1/messages": {"messages": QUESTION, "max_tokens": 100},
}


@pytest.mark.parametrize(("path", "body"), ASKING.items(), ids=ASKING)
@in_loop
async def test_a_field_asks_for_progress_and_no_upstream_sees_it(
    tmp_path: Path, path: str, *, body: dict[str, Any]
) -> None:
    asked = {**body, "model": "openai:good", "stream": True, "wholecall": {"events": True}}
    async with serving(tmp_path, Ran()) as (served, faults):
        _, told, _ = await served.post(path, asked)
        status, refused, _ = await served.post(path, {**asked, "wholecall": {"event": 1}})
        sent = [received.body for received in faults.received]
    assert _types(told) == PROGRESS
    assert len(sent) == 2
    assert "wholecall" not in str(sent)
    assert status == 400
    assert "wholecall" in refused["error"]["message"]


@in_loop
async def test_the_helpers_of_the_sdks_read_over_progress(tmp_path: Path) -> None:
    wish: Any = {"extra_body": {"wholecall": {"events": True}}}
    model = "openai:good"
    async with serving(tmp_path, Ran()) as (served, _):
        async with served.openai.chat.completions.stream(
            model=model, messages=QUESTION, **wish
        ) as chat:
            completion = await chat.get_final_completion()
        async with served.openai.responses.stream(model=model, input="Do it.", **wish) as events:
            response = await events.get_final_response()
        async with served.anthropic.messages.stream(
            model=model, messages=QUESTION, max_tokens=100, **wish
        ) as messages:
            message = await messages.get_final_message()
        whole = await served.openai.responses.create(model=model, input="Do it.", **wish)
    assert completion.choices[0].message.content == "All done."
    assert response.output_text == whole.output_text == "All done."
    assert [block.type for block in message.content] == ["text"]


PROGRESS = ["turn_started", "tool_started", "tool_ended", "turn_started"]


def _types(stream: str) -> list[str]:
    """What was told of progress: in a private field, or in a comment for Anthropic's clients."""
    payloads = [
        json.loads(line.removeprefix("data: ").removeprefix(": wholecall "))
        for line in stream.splitlines()
        if line.startswith(("data: {", ": wholecall "))
    ]
    private = [payload.get("wholecall", payload) for payload in payloads]
    return [each["type"] for each in private if each.get("type") in PROGRESS]


# ── Failures ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [True, False])
@in_loop
async def test_a_run_whose_upstream_drops_ends_in_an_error(tmp_path: Path, stream: bool) -> None:
    body = {"model": "openai:dropped-always", "messages": QUESTION, "stream": stream}
    async with serving(tmp_path, Ran()) as (served, _):
        status, answer, _ = await served.post("/v1/chat/completions", body)
    if isinstance(answer, str):
        assert "[DONE]" not in answer
        assert '"error"' in answer
    else:
        assert status == 502
        assert answer["error"]["type"] == "server_error"


# ── Fewer of them ───────────────────────────────────────────────────────────────────

# what the header says, and what runs of the two calls that the model makes one after the other
WANTED = {
    None: ["get_weather", "send_email"],
    "get_weather": ["get_weather"],
    " send_email , get_weather": ["get_weather", "send_email"],
    "": [],
    "no_such_tool": [],
}


@pytest.mark.parametrize(("header", "ran_in_order"), WANTED.items())
@in_loop
async def test_a_client_may_want_fewer_tools(
    tmp_path: Path, header: str | None, *, ran_in_order: list[str]
) -> None:
    ran = Ran()
    asked = {"model": "openai:two-steps", "messages": QUESTION}
    headers = {} if header is None else {"X_Wholecall_Tools": header}
    async with serving(tmp_path, ran) as (served, _):
        await served.post("/v1/chat/completions", asked, **headers)
    assert [name for name, _ in ran.calls] == ran_in_order


@in_loop
async def test_two_requests_for_other_tools_are_two(tmp_path: Path) -> None:
    ran = Ran()
    asked = {"model": "openai:good", "messages": QUESTION}
    again = {"x_stainless_retry_count": "1"}
    async with serving(tmp_path, ran) as (served, _):
        await served.post("/v1/chat/completions", asked, x_wholecall_tools="get_weather")
        await served.post(
            "/v1/chat/completions", asked, x_wholecall_tools="send_email,get_weather", **again
        )
    assert ran.calls == [MAIL]
