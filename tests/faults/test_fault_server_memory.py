"""What the server remembers, and how much of it."""

from __future__ import annotations

from wholecall.faults.fault_server import Memory, ReceivedRequest, Reported, ScenarioRequest
from wholecall.faults.script import Form, ToolRun

FORM = Form("openai-chat", True)


def question(conversation: str) -> ScenarioRequest:
    return ScenarioRequest(
        form=FORM,
        model="good",
        turn=1,
        offers_tools=True,
        forces_call=False,
        conversation=conversation,
        body={"model": "good"},
    )


def test_attempts_are_counted_by_conversation() -> None:
    memory = Memory()
    asked = [memory.receive(question(each), "good") for each in ("a", "a", "b", "a")]
    assert asked == [0, 1, 0, 2]


def test_a_request_is_noted() -> None:
    memory = Memory()
    memory.receive(question("a"), "good")
    [received] = memory.received
    assert received == ReceivedRequest(
        scenario="good", form=FORM, turn=1, attempt=0, body={"model": "good"}
    )


def test_the_conversation_that_was_asked_for_least_recently_is_forgotten() -> None:
    memory = Memory()
    memory.receive(question("old"), "good")
    memory.receive(question("kept"), "good")
    for number in range(4094):
        memory.receive(question(str(number)), "good")
    assert memory.receive(question("kept"), "good") == 1
    memory.receive(question("one more"), "good")
    assert memory.receive(question("old"), "good") == 0


def test_forgetting_begins_anew() -> None:
    memory = Memory()
    memory.receive(question("a"), "good")
    memory.reported.append(Reported("", ToolRun("list_items", {})))
    memory.forget()
    assert not memory.received
    assert not memory.reported
    assert memory.receive(question("a"), "good") == 0
