"""The loop: turns until the final answer, caps, choice, output form, history."""

import asyncio
from dataclasses import dataclass
from typing import Any, Unpack

import pytest
from pydantic import BaseModel

from scripted import calls, chunk, cut, ending, opening, says
from wholecall.asking import Options, ask, run
from wholecall.core.choice import Choice, Mode
from wholecall.core.conversation import CallResult, PastCall, Request, Role
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Call, Start, Usage
from wholecall.errors import RunFailed, UpstreamError
from wholecall.runs.events import RunEvent, Status, ToolEnded, TurnRetried, TurnStarted
from wholecall.runs.ledger import Stop
from wholecall.runs.limits import RunLimits
from wholecall.runs.plan import Progress, RunResult
from wholecall.tools.from_function import tool
from wholecall.tools.signals import Failed
from wholecall.tools.toolbox import Offered
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer, Turn


class Kitchen:
    """Tools that write down what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        kitchen = self

        @tool
        async def cook(dish: str) -> str:
            """Cook a dish."""
            kitchen.did.append(f"cooked {dish}")
            return f"{dish} is ready"

        @tool(read_only=True)
        def look(shelf: int = 1) -> str:
            """Look at a shelf."""
            kitchen.did.append(f"looked at {shelf}")
            return "empty"

        @tool
        async def burn(dish: str) -> str:
            """Fail at a dish."""
            kitchen.did.append(f"burnt {dish}")
            raise Failed(f"{dish} is black")

        @tool(ends_run=True)
        async def serve(dish: str) -> dict[str, str]:
            """Serve a dish. The last thing to do."""
            return {"served": dish}

        self.tools: list[Offered] = [cook, look, burn, serve]


@dataclass
class Played:
    kitchen: Kitchen
    upstream: ReplayUpstream
    events: list[RunEvent]
    result: RunResult | None
    error: Exception | None

    @property
    def done(self) -> RunResult:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def told(self, turn: int) -> list[str]:
        """What the model read behind the caller's messages when it was asked for this turn."""
        parts = [
            part for message in self.upstream.requests[turn].messages for part in message.parts
        ]
        return [part.result.text for part in parts if isinstance(part, CallResult)]


def play(*turns: Turn, **options: Unpack[Options]) -> Played:
    async def go() -> Played:
        kitchen, upstream = Kitchen(), ReplayUpstream(turns)
        options.setdefault("tools", kitchen.tools)
        options["upstream"] = upstream
        started = run("m", "Dinner!", **options)
        played = Played(kitchen, upstream, [], None, None)
        try:
            async for event in started:
                played.events.append(event)
            played.result = await started.result()
        except (RunFailed, UpstreamError) as error:
            played.error = error
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left over: {left}"
        return played

    async def bounded() -> Played:
        async with asyncio.timeout(30):
            return await go()

    return asyncio.run(bounded())


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


# ── Caps ────────────────────────────────────────────────────────────────────────────


def looks(times: int) -> list[ScriptedAnswer]:
    return [calls(("look", {"shelf": at})) for at in range(times)]


@pytest.mark.parametrize(
    ("limits", "turns", "stop", "ran"),
    [
        (RunLimits(turns=2), looks(2), Stop.TURNS, 2),
        (RunLimits(calls=1), looks(1), Stop.CALLS, 1),
        (RunLimits(tokens=30), looks(2), Stop.TOKENS, 2),
        (
            RunLimits(stop_identical=3),
            [calls(("look", {"shelf": 1}))] * 3,
            Stop.IDENTICAL,
            2,
        ),
    ],
)
def test_at_a_cap_one_last_answer_is_asked_for_without_tools(
    limits: RunLimits, turns: list[ScriptedAnswer], *, stop: Stop, ran: int
) -> None:
    played = play(*turns, says("That is all."), limits=limits)
    assert played.done.stop is stop
    assert played.done.text == "That is all."
    assert len(played.kitchen.did) == ran
    assert played.upstream.requests[-1].choice.mode is Mode.NONE
    assert all(each.choice.mode is Mode.AUTO for each in played.upstream.requests[:-1])


def test_calls_in_the_last_answer_are_not_run_and_answered_all_the_same() -> None:
    played = play(*looks(3), limits=RunLimits(turns=2))
    assert len(played.kitchen.did) == 2
    assert played.done.stop is Stop.TURNS
    [result] = played.done.messages[-1].parts
    assert isinstance(result, CallResult)
    assert "was not run" in result.result.text


def test_the_same_call_is_warned_of_in_its_result() -> None:
    same = calls(("look", {"shelf": 1}))
    played = play(same, same, same, says("Fine."), limits=RunLimits(warn_identical=3))
    assert "call number 3 of 'look'" in played.told(3)[-1]
    assert "call number" not in "".join(played.told(2))


def test_a_tool_that_fails_too_often_is_withdrawn() -> None:
    burns = [calls(("burn", {"dish": f"dish {at}"})) for at in range(2)]
    played = play(*burns, says("Sorry."), limits=RunLimits(attempts=2))
    assert played.kitchen.did == ["burnt dish 0", "burnt dish 1"]
    assert "dish 1 is black" in played.told(2)[-1]
    assert "burn" not in {spec.name for spec in played.upstream.requests[-1].tools}
    assert "burn" in {spec.name for spec in played.upstream.requests[1].tools}


def test_when_all_tools_are_withdrawn_none_may_be_called() -> None:
    burns = [calls(("burn", {"dish": f"dish {at}"})) for at in range(2)]
    only_burn = [Kitchen().tools[2]]
    played = play(*burns, says("Sorry."), limits=RunLimits(attempts=2), tools=only_burn)
    assert played.upstream.requests[-1].choice.mode is Mode.NONE
    assert played.done.stop is Stop.ANSWER


# ── The end ─────────────────────────────────────────────────────────────────────────


def test_a_terminating_tool_gives_the_answer() -> None:
    played = play(calls(("serve", {"dish": "soup"})))
    assert played.done.stop is Stop.TOOL
    assert played.done.text == '{"served":"soup"}'
    assert played.done.output == {"served": "soup"}


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


def test_a_call_that_the_choice_forbids_is_no_mistake_of_its_tool() -> None:
    forbidden = [calls(("look", {"shelf": at})) for at in range(3)]
    limits = RunLimits(attempts=2)
    named = {"type": "function", "function": {"name": "cook"}}
    played = play(
        *forbidden,
        calls(("cook", {"dish": "soup"})),
        says("Enjoy."),
        limits=limits,
        tool_choice=named,
    )
    assert played.kitchen.did == ["cooked soup"]
    assert "look" in {spec.name for spec in played.upstream.requests[-1].tools}


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


# ── Choice and form ─────────────────────────────────────────────────────────────────


def test_a_forced_choice_holds_until_it_was_obeyed() -> None:
    played = play(says("No."), calls(("look", {})), says("Empty."), tool_choice="required")
    assert [request.choice.mode for request in played.upstream.requests] == [
        Mode.REQUIRED,
        Mode.REQUIRED,
        Mode.AUTO,
    ]
    assert "must call" in played.upstream.requests[1].messages[-1].text
    assert played.done.text == "Empty."


def test_a_model_that_will_not_obey_is_an_error() -> None:
    played = play(*[says("No.")] * 3, tool_choice="required")
    assert isinstance(played.error, RunFailed)
    assert "must call" in str(played.error)


def test_choice_none_offers_no_call() -> None:
    played = play(calls(("look", {})), says("Fine."), tool_choice="none")
    assert played.kitchen.did == []


def test_a_named_choice_refuses_the_others() -> None:
    named = {"type": "function", "function": {"name": "look"}}
    played = play(calls(("cook", {"dish": "soup"}), ("look", {})), says("Fine."), tool_choice=named)
    assert played.kitchen.did == ["looked at 1"]


class Menu(BaseModel):
    dishes: list[str]


def test_the_answer_is_read_in_its_form() -> None:
    played = play(says('{"dishes": ["soup"]}'), output=Menu)
    assert played.done.output == Menu(dishes=["soup"])
    assert played.upstream.requests[0].output is not None


def test_an_answer_in_another_form_is_asked_for_again() -> None:
    played = play(says("Soup!"), says('{"dishes": ["soup"]}'), output=Menu)
    assert played.done.output == Menu(dishes=["soup"])
    assert played.done.text == '{"dishes": ["soup"]}'
    assert isinstance(play(*[says("Soup!")] * 3, output=Menu).error, RunFailed)


# ── Answers that cannot be used ─────────────────────────────────────────────────────


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
    assert [call.name for call in played.error.ran] == ["look"]  # type: ignore[attr-defined]  # calls
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


# ── Odd ends ────────────────────────────────────────────────────────────────────────

WRONG = calls(("cook", {"pan": 1}))
DROPPED = "!EOF"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "cook"}}], ids=["any", "one"]
)
def test_a_demand_for_what_was_withdrawn_is_dropped(choice: Any) -> None:
    kitchen = Kitchen()
    tools = kitchen.tools[:1] if choice == "required" else kitchen.tools
    played = play(WRONG, WRONG, WRONG, says("I cannot."), tools=tools, tool_choice=choice)
    assert (played.done.text, played.done.stop) == ("I cannot.", Stop.ANSWER)
    assert played.upstream.requests[-1].choice.mode is Mode.NONE


def test_a_choice_is_narrowed_to_what_is_left() -> None:
    choice = Choice(Mode.REQUIRED, ("cook", "look"))
    played = play(WRONG, WRONG, WRONG, calls(("look", {})), says("Enjoy."), tool_choice=choice)
    assert played.done.text == "Enjoy."
    assert played.upstream.requests[3].choice.names == ("look",)


def test_what_the_upstream_itself_runs_is_never_withdrawn() -> None:
    tools = [*Kitchen().tools[:1], {"type": "web_search"}]
    played = play(WRONG, WRONG, WRONG, says("Enjoy."), tools=tools)
    assert played.upstream.requests[-1].choice == Choice()
    assert played.upstream.requests[-1].tools == ()


def test_the_text_of_the_last_answer_is_given_once() -> None:
    chunks = [chunk({"content": "Well."}), opening(0, "cook", arguments='{"dish": "a"}')]
    played = play(
        calls(("look", {})),
        ScriptedAnswer(chunks=[*chunks, *ending()]),
        limits=RunLimits(turns=1),
        stop_when=[lambda progress: progress.turns > 1],
    )
    assert (played.done.text, played.done.stop) == ("Well.", Stop.TURNS)


def test_the_last_answer_has_its_form_too() -> None:
    class Menu(BaseModel):
        dish: str

    played = play(
        calls(("look", {})), says('{"dish": "soup"}'), limits=RunLimits(turns=1), output=Menu
    )
    assert played.done.output == Menu(dish="soup")


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
def test_an_error_says_what_ran_in_earlier_turns(turns: list[Turn]) -> None:
    error = play(calls(("cook", {"dish": "soup"})), *turns).error
    assert isinstance(error, RunFailed | UpstreamError)
    assert [call.name for call in error.ran if isinstance(call, Call)] == ["cook"]


def test_a_timeout_that_is_not_the_run_s_is_told_as_it_is() -> None:
    class Impatient(ReplayUpstream):
        def answer(self, request: Request) -> Any:
            raise TimeoutError(f"{request.model} sleeps")

    with pytest.raises(TimeoutError, match="m sleeps"):
        asyncio.run(ask("m", "Dinner!", upstream=Impatient([])))


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "cook", "arguments": {"dish": "soup"}}',
        'So: <tool_call>{"name": "cook", "arguments": {"dish": "soup"}}</tool_call>',
    ],
)
def test_where_no_tool_may_be_called_what_looks_like_a_call_is_text(text: str) -> None:
    played = play(says(text), tool_choice="none")
    assert played.done.text == text
    assert len(played.upstream.requests) == 1
