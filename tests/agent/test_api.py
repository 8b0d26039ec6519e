"""`run`, `ask` and `ask_sync`, over HTTP against the upstream that fails."""

import asyncio
from typing import Any

import pytest

from scripted import calls, says
from wholecall.agent.api import RunOptions, ask, ask_sync, run
from wholecall.agent.run_events import RunEvent
from wholecall.errors import InvalidChoice, UnknownModel, UnreadableRequest
from wholecall.events import Text
from wholecall.faults.fault_server import FaultServer, start_in_thread
from wholecall.messages import CallResult, Choice, Message, Mode, Native, PastCall, Role
from wholecall.tools.function_tool import tool
from wholecall.upstreams.replay import ReplayUpstream


@tool
def send_email(to: str, body: str) -> str:
    """Send an email."""
    return f"sent {len(body)} characters to {to}"


def test_ask_goes_over_http_to_the_final_answer() -> None:
    async def go() -> None:
        async with FaultServer() as server:
            result = await ask(
                "openai/good", "Go", tools=[send_email], base_url=server.base_url, api_key="k"
            )
        assert result.text == "All done."
        assert [ended.result.text for ended in result.ended] == [
            "sent 19 characters to ada@example.org"
        ]

    asyncio.run(go())


def test_ask_sync_needs_no_event_loop() -> None:
    with start_in_thread() as server:
        result = ask_sync(
            "anthropic/good", "Go", tools=[send_email], base_url=server.address, api_key="k"
        )
    assert result.text == "All done."


def test_ask_sync_refuses_to_block_an_event_loop() -> None:
    async def go() -> None:
        with pytest.raises(RuntimeError, match="await ask"):
            ask_sync("openai/good", "Go")

    asyncio.run(go())


def asked(prompt: Any, **options: Any) -> ReplayUpstream:
    """What an upstream is asked by this prompt."""
    upstream = ReplayUpstream([says("Fine.")])
    asyncio.run(ask("m", prompt, upstream=upstream, **options))
    return upstream


def test_a_conversation_may_be_of_two_forms_and_stays_in_order() -> None:
    prompt = [
        {"role": "user", "content": "Hello"},
        Message(Role.ASSISTANT, (Text("Yes?"),)),
        {"role": "user", "content": "Dinner!"},
    ]
    [request] = asked(prompt, system="Be brief.").requests
    assert [message.text for message in request.messages] == [
        "Be brief.",
        "Hello",
        "Yes?",
        "Dinner!",
    ]
    assert request.messages[0].role is Role.SYSTEM


def test_earlier_calls_and_their_results_are_read() -> None:
    look = {"name": "look", "arguments": '{"shelf": 1}'}
    made = [{"id": "c1", "type": "function", "function": look}]
    prompt = [
        {"role": "user", "content": "Hello"},
        {
            "role": "assistant",
            "tool_calls": made,
        },
        {"role": "tool", "tool_call_id": "c1", "content": "empty"},
    ]
    [request] = asked(prompt).requests
    parts = [part for message in request.messages for part in message.parts]
    assert any(isinstance(part, PastCall) and part.arguments == {"shelf": 1} for part in parts)
    assert any(isinstance(part, CallResult) and part.result.text == "empty" for part in parts)


def test_settings_reach_the_upstream() -> None:
    [request] = asked("Hi", max_tokens=7, temperature=0.5, stream=False).requests
    assert (request.max_tokens, request.temperature, request.stream) == (7, 0.5, False)


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, Choice()),
        ("none", Choice(Mode.NONE)),
        (Choice(Mode.AUTO, ("send_email",)), Choice(Mode.AUTO, ("send_email",))),
    ],
)
def test_the_choice_is_read(choice: Any, read: Choice) -> None:
    [request] = asked("Hi", tools=[send_email], tool_choice=choice).requests
    assert request.choice == read


@pytest.mark.parametrize(
    ("model", "prompt", "options", "error"),
    [
        ("gpt-x", "Hi", {}, UnknownModel),
        ("openai/gpt-x", "Hi", {"tool_choice": "maybe"}, InvalidChoice),
        ("openai/gpt-x", [{"role": "nobody", "content": "Hi"}], {}, UnreadableRequest),
        ("openai/gpt-x", "Hi", {"emulate": "klingon"}, ValueError),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    model: str, prompt: Any, *, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(model, prompt, **options)


@pytest.mark.parametrize(
    ("emulate", "written"),
    [
        (
            "constrained",
            '{"calls": [{"name": "send_email", "arguments": {"to": "a", "body": "b"}}]}',
        ),
        (
            "hermes",
            '<tool_call>{"name": "send_email", "arguments": {"to": "a", "body": "b"}}</tool_call>',
        ),
    ],
)
def test_a_model_without_tools_gets_them(emulate: str, written: str) -> None:
    final = '{"reply": "Sent."}' if emulate == "constrained" else "Sent."
    upstream = ReplayUpstream([says(written), says(final)])
    result = asyncio.run(ask("m", "Go", tools=[send_email], upstream=upstream, emulate=emulate))
    assert [ended.call.arguments for ended in result.ended] == [{"to": "a", "body": "b"}]
    assert result.text == "Sent."
    assert upstream.requests[0].tools == ()


def test_the_way_goes_by_the_name_of_the_model_where_it_should() -> None:
    upstream = ReplayUpstream([says("Fine.")])
    asyncio.run(ask("qwen2.5", "Go", tools=[send_email], upstream=upstream, emulate="auto"))
    assert upstream.requests[0].tools == ()
    upstream = ReplayUpstream([calls(("send_email", {"to": "a", "body": "b"})), says("Sent.")])
    asyncio.run(ask("gpt-5", "Go", tools=[send_email], upstream=upstream, emulate="auto"))
    assert len(upstream.requests[0].tools) == 1


def test_an_option_that_does_not_exist_is_refused() -> None:
    options: Any = {"limit": 5}
    with pytest.raises(TypeError, match=r"a run has no option 'limit'; did you mean 'limits'\?"):
        run("m", "Go", upstream=ReplayUpstream([]), **options)


def test_limits_that_are_none_are_refused_by_name() -> None:
    options: Any = {"limits": 5}
    with pytest.raises(TypeError, match="limits=5 are not RunLimits"):
        run("m", "Go", upstream=ReplayUpstream([]), **options)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (Choice(Mode.REQUIRED, ("fly",)), "names 'fly', not offered"),
        (Choice(Mode.REQUIRED), "without any tools"),
    ],
)
def test_a_choice_that_nothing_could_obey_is_refused(choice: Choice, words: str) -> None:
    tools = [send_email] if choice.names else []
    with pytest.raises(InvalidChoice, match=words):
        run("m", "Go", tools=tools, tool_choice=choice, upstream=ReplayUpstream([]))


def test_a_tool_that_the_upstream_runs_is_offered_in_its_own_form() -> None:
    [request] = asked("Go", tools=[send_email, {"type": "web_search"}]).requests
    assert [spec.name for spec in request.tools] == ["send_email"]
    assert request.native_tools == (Native("openai-chat", {"type": "web_search"}),)


def test_ask_sync_does_not_wait_for_a_tool_that_will_not_end() -> None:
    @tool(timeout=0.01)
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    upstream = ReplayUpstream([calls(("stubborn", {})), says("Fine.")])
    assert ask_sync("m", "Go", tools=[stubborn], upstream=upstream).text == "Fine."


def test_a_tap_that_raises_changes_nothing_and_is_told_of() -> None:
    told: list[Any] = []
    seen: list[str] = []

    def fail(event: RunEvent) -> None:
        raise ValueError(type(event).__name__)

    async def go() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        upstream = ReplayUpstream([calls(("send_email", {"to": "a", "body": "b"})), says("Fine.")])
        taps = [fail, lambda event: seen.append(type(event).__name__)]
        return (await ask("m", "Go", tools=[send_email], upstream=upstream, taps=taps)).text

    assert asyncio.run(go()) == "Fine."
    assert {"ToolStarted", "ToolEnded", "Released"} < set(seen)
    assert [str(context["exception"]) for context in told] == seen
    assert told[0]["message"] == "a tap of a run raised at TurnStarted"


def test_none_is_as_if_it_had_been_left_out() -> None:
    names = [name for name in RunOptions.__annotations__ if name != "upstream"]
    nothing: Any = dict.fromkeys(names)
    assert asked("Go", **nothing).requests == asked("Go").requests
