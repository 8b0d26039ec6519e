"""The caps of a run: one last answer without tools, tools that are withdrawn."""

from typing import Any

import pytest

from agent.kitchen import WRONG, Kitchen, Menu, looks, play
from scripted import calls, chunk, ending, opening, says
from wholecall.agent.budget import RunLimits, Stop
from wholecall.messages import CallResult, Choice, Mode
from wholecall.upstreams.replay import ScriptedAnswer


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


SAME = calls(("look", {"shelf": 1}))
BURNT = calls(("burn", {"dish": "soup"}))
# what holds, the limits, the answers, what the model was told last, what it must say
TOLD: list[tuple[str, RunLimits, list[ScriptedAnswer], str]] = [
    ("an identical call", RunLimits(stop_identical=2), [SAME, SAME], "this is what the same call"),
    (
        "a call beyond the limit",
        RunLimits(calls=1),
        [calls(("look", {"shelf": 1}), ("look", {"shelf": 2}))],
        "No further tool can be called",
    ),
    (
        "a call of a tool that was withdrawn",
        RunLimits(attempts=1),
        [BURNT, BURNT],
        "This tool cannot be used any more",
    ),
    (
        "a call in the last answer",
        RunLimits(turns=1),
        [SAME, SAME],
        "No further tool can be called",
    ),
]


@pytest.mark.parametrize(
    ("limits", "turns", "words"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD]
)
def test_what_will_not_be_run_is_not_asked_for_again(
    limits: RunLimits, turns: list[ScriptedAnswer], *, words: str
) -> None:
    played = play(*turns, says("That is all."), limits=limits)
    told = [
        part.result.text
        for message in played.done.messages
        for part in message.parts
        if isinstance(part, CallResult)
    ]
    assert words in told[-1]
    assert "could not find out" in told[-1]
    assert "again" not in told[-1]


def test_a_call_that_is_not_repeated_gets_the_result_that_it_had() -> None:
    burnt = [BURNT, SAME, SAME, says("Empty.")]
    played = play(*burnt, limits=RunLimits(stop_identical=2, warn_identical=2, attempts=5))
    told = played.told(3)[-1].splitlines()
    assert told[0] == "empty"
    assert "call number" not in "".join(told)  # it needs no further call
    assert played.kitchen.did.count("looked at 1") == 1


def test_a_call_that_failed_has_no_result_to_repeat() -> None:
    played = play(BURNT, BURNT, says("Sorry."), limits=RunLimits(stop_identical=2, attempts=5))
    assert "The same call would give the same result" in played.told(2)[-1]


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
    assert played.done.stop is Stop.TURNS
    assert played.done.text.startswith("Well.\n\nThe run was stopped")
    assert played.done.text.count("Well.") == 1


def test_the_last_answer_has_its_form_too() -> None:
    played = play(
        calls(("look", {})), says('{"dishes": ["soup"]}'), limits=RunLimits(turns=1), output=Menu
    )
    assert played.done.output == Menu(dishes=["soup"])
