"""What an answer must be: the choice and the output form, and what is done if it is not."""

import pytest

from agent.kitchen import Menu, play
from scripted import calls, says
from wholecall.agent.budget import RunLimits
from wholecall.errors import RunFailed
from wholecall.messages import Mode


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


def test_the_answer_is_read_in_its_form() -> None:
    played = play(says('{"dishes": ["soup"]}'), output=Menu)
    assert played.done.output == Menu(dishes=["soup"])
    assert played.upstream.requests[0].output is not None


def test_an_answer_in_another_form_is_asked_for_again() -> None:
    played = play(says("Soup!"), says('{"dishes": ["soup"]}'), output=Menu)
    assert played.done.output == Menu(dishes=["soup"])
    assert played.done.text == '{"dishes": ["soup"]}'
    assert isinstance(play(*[says("Soup!")] * 3, output=Menu).error, RunFailed)


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
