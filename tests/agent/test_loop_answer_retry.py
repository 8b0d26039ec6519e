"""Answers that cannot be used: asked for again, or an error that says what ran."""

import asyncio
from typing import Any

import pytest

from agent.kitchen import DROPPED, Kitchen, play
from scripted import calls, chunk, cut, ending, opening, says
from wholecall.agent.api import ask
from wholecall.agent.budget import RunLimits, Stop
from wholecall.agent.executor import Executor
from wholecall.agent.loop import Loop
from wholecall.agent.run import Plan
from wholecall.agent.run_events import RunEvent, ToolEnded, ToolStarted, TurnRetried, TurnStarted
from wholecall.agent.turn import sender_for
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import Start, Text
from wholecall.messages import Message, Request, Role, ToolSpec
from wholecall.tools.function_tool import tool
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.replay import Reaction, ReplayUpstream, ScriptedAnswer


def test_a_cut_call_is_asked_for_with_more_room_and_then_told_to_be_shorter() -> None:
    played = play(
        cut("cook", '{"dish": "so'),
        cut("cook", '{"dish": "so'),
        says("Fine."),
        max_tokens=20_000,
    )
    assert [request.max_tokens for request in played.upstream.requests] == [20_000, 32_768, 32_768]
    assert "cut off by the output limit" in played.told(2)[0]
    assert played.kitchen.did == []
    assert played.done.turns == 2


def test_a_call_at_the_limit_is_cut_whatever_the_finish_reason_says() -> None:
    # The server closed what it had of the call, and says that all is well.
    salvaged = cut("cook", "{}", finish="tool_calls")
    played = play(salvaged, calls(("cook", {"dish": "soup"})), says("Fine."), max_tokens=5)
    assert [request.max_tokens for request in played.upstream.requests] == [5, 10, 10]
    assert played.kitchen.did == ["cooked soup"]
    retried = [event for event in played.events if isinstance(event, TurnRetried)]
    assert [event.why for event in retried] == ["a call was cut off; there is more room now"]


def test_a_whole_call_beside_a_cut_one_runs_and_the_model_is_told_of_the_other() -> None:
    whole = opening(0, "cook", arguments='{"dish": "soup"}')
    half = opening(1, "cook", arguments='{"dish": "ri')
    played = play(
        ScriptedAnswer(chunks=[whole, half, *ending("length")]),
        calls(("cook", {"dish": "rice"})),
        says("Enjoy."),
    )
    assert played.done.text == "Enjoy."
    assert played.kitchen.did == ["cooked soup", "cooked rice"]
    ready, told = played.told(1)
    assert ready == "soup is ready"
    assert "cut off" in told
    assert not any(isinstance(event, TurnRetried) for event in played.events)


def test_a_dropped_answer_is_asked_for_again() -> None:
    dropped = ScriptedAnswer(chunks=[opening(0, "cook", arguments='{"dish"'), "!EOF"])
    played = play(dropped, calls(("cook", {"dish": "soup"})), says("Enjoy."))
    assert played.kitchen.did == ["cooked soup"]
    turns = [type(event) for event in played.events if isinstance(event, TurnStarted | TurnRetried)]
    assert turns == [TurnStarted, TurnRetried, TurnStarted, TurnStarted]


def test_a_dropped_answer_after_a_tool_began_says_what_ran() -> None:
    dropped = ScriptedAnswer(chunks=[opening(0, "look", arguments='{"shelf": 3}'), "!EOF"])
    played = play(dropped, says("never asked"))
    assert played.kitchen.did == ["looked at 3"]
    assert isinstance(played.error, RunFailed)
    assert [call.name for call in played.error.ran] == ["look"]
    assert len(played.upstream.requests) == 1


def test_a_refused_forced_choice_is_still_enforced() -> None:
    refusal = UpstreamError("no forced tools while thinking", status=400)
    played = play(
        refusal, says("No."), refusal, calls(("look", {})), says("Empty."), tool_choice="required"
    )
    assert played.kitchen.did == ["looked at 1"]
    assert played.done.text == "Empty."


def test_an_error_of_the_upstream_is_raised_as_it_is() -> None:
    played = play(UpstreamError("who are you?", status=401))
    assert isinstance(played.error, UpstreamError)


def test_every_released_call_has_exactly_one_end() -> None:
    played = play(
        calls(("cook", {"dish": "soup"}), ("burn", {"dish": "rice"}), ("look", {})), says("Fine.")
    )
    ends = [event.call.id for event in played.events if isinstance(event, ToolEnded)]
    assert len(ends) == len(set(ends)) == 3


def test_emulated_tools_take_the_same_way() -> None:
    written = '<tool_call>\n{"name": "look", "arguments": {"shelf": 4}}\n</tool_call>'
    played = play(says(written), says("Empty."), emulate="hermes")
    assert played.kitchen.did == ["looked at 4"]
    assert played.done.text == "Empty."
    assert played.upstream.requests[0].tools == ()
    assert "look" in played.upstream.requests[0].messages[0].text
    said = "".join(message.text for message in played.upstream.requests[1].messages)
    assert "empty" in said


def test_markup_that_is_no_call_is_told_as_the_user_would() -> None:
    broken = '<tool_call>\n{"name": "look", "arguments": [}\n</tool_call>'
    played = play(says(broken), says("Sorry."), emulate="hermes")
    assert played.kitchen.did == []
    assert "not run" in played.upstream.requests[1].messages[-1].text
    assert played.done.text == "Sorry."


def test_a_call_for_the_client_in_a_void_answer_is_void() -> None:
    theirs = ToolSpec("mine", {"type": "object"}, start=Start.CLOSED)
    chunks = [opening(0, "mine", arguments='{"a": 1}'), chunk({"content": "x"}), DROPPED]
    played = play(ScriptedAnswer(chunks=chunks), says("Enjoy."), tools=[theirs])
    assert (played.done.pending, played.done.stop) == ((), Stop.ANSWER)
    played = play(ScriptedAnswer(chunks=chunks), calls(("mine", {"a": 2})), tools=[theirs])
    assert [call.arguments for call in played.done.pending] == [{"a": 2}]
    assert played.done.stop is Stop.CLIENT_CALLS


@pytest.mark.parametrize(
    "turns",
    [
        [ScriptedAnswer(chunks=[chunk({"content": "x"}), DROPPED])] * 3,
        [UpstreamError("", status=400)],
    ],
    ids=["dropped", "refused"],
)
def test_an_error_says_what_ran_in_earlier_turns(turns: list[Reaction]) -> None:
    error = play(calls(("cook", {"dish": "soup"})), *turns).error
    assert isinstance(error, RunFailed | UpstreamError)
    assert [call.name for call in error.ran] == ["cook"]


def test_a_timeout_that_is_not_the_run_s_is_told_as_it_is() -> None:
    class Impatient(ReplayUpstream):
        def answer(self, request: Request) -> Any:
            raise TimeoutError(f"{request.model} sleeps")

    with pytest.raises(TimeoutError, match="m sleeps"):
        asyncio.run(ask("m", "Dinner!", upstream=Impatient([])))


def test_a_tool_s_own_timeout_is_its_result_and_not_the_end_of_the_run() -> None:
    @tool
    async def dial(number: int) -> str:
        """Dial a number."""
        raise TimeoutError(f"{number} does not answer")

    played = play(calls(("dial", {"number": 7})), says("Nobody is there."), tools=[dial])
    assert (played.done.text, played.done.stop) == ("Nobody is there.", Stop.ANSWER)
    assert "7 does not answer" in played.told(1)[0]


def test_a_timeout_while_calls_are_waited_for_is_not_taken_for_the_end_of_the_run() -> None:
    kitchen = Kitchen()
    toolbox = Toolbox(kitchen.tools)
    messages = (Message(Role.USER, (Text("Dinner!"),)),)
    plan = Plan(
        request=Request(model="m", messages=messages, tools=tuple(toolbox.offer.values())),
        upstream=ReplayUpstream([calls(("cook", {"dish": "soup"})), says("Enjoy.")]),
        toolbox=toolbox,
        sender=sender_for("m", messages),
    )

    def break_at_start(event: RunEvent) -> None:
        if isinstance(event, ToolStarted):
            raise TimeoutError("a reader of ours")

    async def room() -> None:
        pass

    loop = Loop(
        plan,
        make_executor=lambda emit: Executor(toolbox, emit=emit),
        emit=break_at_start,
        room=room,
    )
    with pytest.raises(TimeoutError, match="a reader of ours"):
        asyncio.run(loop.run())
    assert kitchen.did == []


def paused(stop_reason: str) -> ScriptedAnswer:
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    blocks = [{"type": "text", "text": "Rain"}, use]
    return ScriptedAnswer(
        protocol="anthropic", body={"content": blocks, "stop_reason": stop_reason}
    )


def test_an_answer_that_its_provider_paused_goes_on() -> None:
    rest = {"content": [{"type": "text", "text": " in Oslo."}], "stop_reason": "end_turn"}
    played = play(paused("pause_turn"), ScriptedAnswer(protocol="anthropic", body=rest))
    assert (played.done.text, played.done.stop) == ("Rain in Oslo.", Stop.ANSWER)
    last = played.upstream.requests[1].messages[-1]
    assert last.role is Role.ASSISTANT  # as it was said, and nothing behind it
    assert len(last.parts) == 2


def test_an_answer_is_paused_no_more_often_than_there_are_turns() -> None:
    played = play(*[paused("pause_turn")] * 4, limits=RunLimits(turns=3))
    assert (played.done.turns, played.done.stop) == (4, Stop.TURNS)
