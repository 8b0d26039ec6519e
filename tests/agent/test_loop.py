"""The loop: from the question to the final answer, and how a run ends."""

import asyncio
from typing import Any, cast

from agent.kitchen import Kitchen, Menu, looks, play
from scripted import calls, says
from wholecall.agent.api import ask
from wholecall.agent.budget import Stop
from wholecall.agent.run import Progress
from wholecall.agent.run_events import ApprovalAsked, RunEvent, Status, ToolEnded, ToolStarted
from wholecall.events import Call, Released, Usage
from wholecall.messages import PastCall, Role
from wholecall.tools.function_tool import tool
from wholecall.tools.toolbox import Offered
from wholecall.upstreams.replay import ReplayUpstream

# ── From question to answer ─────────────────────────────────────────────────────────


def test_an_answer_without_calls_is_the_final_one() -> None:
    played = play(says("Enjoy."))
    assert played.done.text == "Enjoy."
    assert played.done.stop is Stop.ANSWER
    assert played.done.turns == 1
    assert played.done.output == "Enjoy."


def test_calls_are_run_and_their_results_go_back_in_call_order() -> None:
    played = play(
        calls(("cook", {"dish": "soup"}), ("look", {"shelf": 2}), ("cook", {"dish": "rice"})),
        says("Enjoy."),
    )
    assert sorted(played.kitchen.did) == ["cooked rice", "cooked soup", "looked at 2"]
    assert played.told(1) == ["soup is ready", "empty", "rice is ready"]
    assert [message.role for message in played.done.messages] == [
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
    ]
    assert [ended.status for ended in played.done.ended] == [Status.DONE] * 3


def test_usage_is_summed_over_turns() -> None:
    usage = play(calls(("look", {})), says("Enjoy.")).done.usage
    assert (usage.input_tokens, usage.output_tokens) == (20, 10)
    assert isinstance(usage, Usage)


def test_the_callers_messages_are_only_read() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Dinner!"}]

    async def go() -> None:
        upstream = ReplayUpstream([calls(("look", {})), says("Enjoy.")])
        await ask("m", messages, tools=Kitchen().tools, upstream=upstream)

    asyncio.run(go())
    assert messages == [{"role": "user", "content": "Dinner!"}]


def test_a_rejected_call_has_a_result_beside_the_others_in_call_order() -> None:
    played = play(calls(("cook", {"dish": 5}), ("look", {})), says("Enjoy."))
    wrong, empty = played.told(1)
    assert 'call of "cook" was not run' in wrong
    assert "$.dish" in wrong
    assert empty == "empty"
    parts = played.done.messages[0].parts
    assert [part.name for part in parts if isinstance(part, PastCall)] == ["cook", "look"]


def test_ids_are_unique_over_the_turns() -> None:
    played = play(calls(("look", {"shelf": 1})), calls(("look", {"shelf": 2})), says("Enjoy."))
    ids = [ended.call.id for ended in played.done.ended]
    assert len(set(ids)) == 2


# ── The end ─────────────────────────────────────────────────────────────────────────


def test_a_terminating_tool_gives_the_answer() -> None:
    played = play(calls(("serve", {"dish": "soup"})))
    assert played.done.stop is Stop.TOOL
    assert played.done.text == '{"served":"soup"}'
    assert played.done.output == {"served": "soup"}


def test_a_terminating_tool_gives_the_answer_in_the_form_that_was_asked_for() -> None:
    @tool(ends_run=True)
    async def choose(dish: str) -> dict[str, list[str]]:
        """Choose the dish."""
        return {"dishes": [dish]}

    @tool(ends_run=True)
    async def hand_over() -> str:
        """Let somebody else do it."""
        return "handed over"

    tools: list[Offered] = [choose, hand_over]
    chosen = play(calls(("choose", {"dish": "soup"})), tools=tools, output=Menu).done
    assert (chosen.stop, chosen.output) == (Stop.TOOL, Menu(dishes=["soup"]))
    handed = play(calls(("hand_over", {})), tools=tools, output=Menu).done
    assert (handed.stop, handed.text, handed.output) == (Stop.TOOL, "handed over", None)


def test_a_terminating_tool_may_end_while_the_model_still_speaks() -> None:
    @tool(ends_run=True, read_only=True)
    async def peek() -> str:
        """Look, and that is all."""
        return "nothing there"

    @tool(ends_run=True, read_only=True)
    async def look(shelf: int) -> str:
        """Look at a shelf, and that is all."""
        return f"shelf {shelf} is empty"

    assert play(calls(("look", {"shelf": 1})), tools=[look]).done.text == "shelf 1 is empty"
    assert play(calls(("peek", {})), tools=[peek]).done.stop is Stop.TOOL


def test_a_stop_condition_ends_the_run_after_a_turn() -> None:
    def has_cooked(progress: Progress) -> bool:
        return any(ended.call.name == "cook" for ended in progress.ended)

    played = play(*looks(1), calls(("cook", {"dish": "soup"})), stop_when=[has_cooked])
    assert played.done.stop is Stop.CONDITION
    assert played.done.turns == 2


def test_calls_of_the_callers_own_tools_are_handed_back() -> None:
    mine = {"name": "ask_guest", "parameters": {"type": "object"}}
    played = play(
        calls(("look", {}), ("ask_guest", {"what": "salt?"})), tools=[Kitchen().tools[1], mine]
    )
    assert played.done.stop is Stop.CLIENT_CALLS
    assert [call.arguments for call in played.done.pending] == [{"what": "salt?"}]
    assert [ended.call.name for ended in played.done.ended] == ["look"]


def test_a_content_filter_ends_the_run_and_nothing_runs() -> None:
    played = play(calls(("cook", {"dish": "soup"}), finish="content_filter"), says("Sorry."))
    assert played.kitchen.did == []


def test_a_filtered_text_ends_the_run() -> None:
    assert play(says("I can", "content_filter")).done.stop is Stop.CONTENT_FILTER


def test_a_final_answer_that_is_too_long_says_so_or_is_continued() -> None:
    assert play(says("Once upon", "length")).done.stop is Stop.LENGTH
    played = play(says("Once upon", "length"), says(" a time."), continue_text=True)
    assert played.done.text == "Once upon a time."
    assert played.done.stop is Stop.ANSWER


def test_of_two_that_end_the_run_the_first_call_counts() -> None:
    served: list[str] = []
    second = asyncio.Event()

    @tool(ends_run=True)
    async def slow() -> str:
        await second.wait()
        served.append("slow")
        return "slow"

    @tool(ends_run=True)
    async def fast() -> str:
        second.set()
        served.append("fast")
        return "fast"

    played = play(calls(("slow", {}), ("fast", {})), tools=[slow, fast])
    assert served == ["fast", "slow"]
    assert played.done.text == "slow"


# ── What is shown ───────────────────────────────────────────────────────────────────


def spoil(call: Call) -> bool:
    cast("dict[str, Any]", call.arguments)["dish"] = "poison"
    return True


async def approve(call: Call) -> bool:
    return spoil(call)


def spoil_event(event: RunEvent) -> None:
    if isinstance(event, Released | ToolStarted | ToolEnded | ApprovalAsked):
        spoil(event.call)


def spoil_progress(progress: Progress) -> bool:
    return not all(spoil(ended.call) for ended in progress.ended)


def test_what_is_done_to_what_is_shown_changes_nothing_of_what_runs() -> None:
    """Neither by a tap, nor by a rule, an approver or a stop condition."""
    ran: list[str] = []

    @tool(approve=spoil)
    async def cook(dish: str) -> str:
        """Cook a dish."""
        ran.append(dish)
        return "ready"

    @tool(read_only=True)
    async def taste(dish: str) -> str:
        """Taste a dish."""
        ran.append(dish)
        return "good"

    played = play(
        calls(("cook", {"dish": "soup"}), ("taste", {"dish": "rice"})),
        says("Enjoy."),
        tools=[cook, taste],
        approve=approve,
        taps=[spoil_event],
        stop_when=[spoil_progress],
    )
    assert sorted(ran) == ["rice", "soup"]
    parts = [part for message in played.upstream.requests[1].messages for part in message.parts]
    made = [part.arguments for part in parts if isinstance(part, PastCall)]
    assert made == [{"dish": "soup"}, {"dish": "rice"}]
