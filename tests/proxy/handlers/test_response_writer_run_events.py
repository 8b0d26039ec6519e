"""What a client gets to see of a run."""

from __future__ import annotations

import pytest

from proxy.collected_events import Collected
from wholecall.agent.budget import Stop
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import (
    ApprovalAsked,
    Status,
    ToolEnded,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.errors import RunFailed
from wholecall.events import Call, Ended, Evidence, Reasoning, Released, Text, Usage
from wholecall.messages import Result
from wholecall.proxy.handlers.response_writer import RunView

CALL = Call(id="c1", name="dig", arguments={}, raw="{}", evidence=Evidence.CONFIRMED, number=2)
END = Ended("stop", None, "stop", None)


def test_words_are_shown_and_the_servers_calls_are_not() -> None:
    collected = Collected()
    view = RunView(collected)
    for event in (TurnStarted(1), Reasoning("hm"), Text("Let me see."), Released(CALL), END):
        view.take(event)
    assert collected.events == [Reasoning("hm"), Text("Let me see.")]
    assert not view.ran


def test_one_answer_is_made_of_several_turns() -> None:
    collected = Collected()
    view = RunView(collected)
    events = (
        TurnStarted(1),
        Usage(3, 4),
        Ended("tool_calls", None, None, None),
        ToolStarted(CALL),
        TurnStarted(2),
        Usage(5, 6),
        END,
    )
    for event in events:
        view.take(event)
    assert view.ran
    view.conclude(RunResult(text="", stop=Stop.ANSWER, usage=Usage(8, 10)), (CALL,))
    assert collected.turns == [False]
    assert collected.of(Usage) == [Usage(3, 4), Usage(8, 10)]
    assert collected.of(Ended) == [END]
    [released] = collected.of(Released)
    assert released.call.number == 0


def test_a_tool_that_ends_the_run_gives_the_answer() -> None:
    collected = Collected()
    view = RunView(collected)
    view.take(TurnStarted(1))
    view.conclude(RunResult(text="served", stop=Stop.TOOL), ())
    assert collected.events == [Text("served")]


def test_a_turn_is_asked_for_again_only_as_long_as_nothing_of_it_was_shown() -> None:
    view = RunView(Collected())
    view.take(TurnStarted(1))
    view.take(TurnRetried(1, "it dropped"))
    view.take(TurnStarted(1))
    view.take(Text("Once"))
    with pytest.raises(RunFailed, match="already sent"):
        view.take(TurnRetried(1, "it dropped"))


def test_progress_names_turns_and_tools() -> None:
    collected = Collected()
    view = RunView(collected)
    view.take(ApprovalAsked(CALL))
    view.take(TurnRetried(1, "it dropped"))
    view.take(ToolStarted(CALL))
    view.take(ToolReported("c1", {"percent": 50}))
    view.take(ToolEnded(CALL, Status.DONE, Result(), 0.12345))
    assert collected.reports == [
        {"type": "approval_asked", "id": "c1", "name": "dig"},
        {"type": "turn_retried", "turn": 1, "why": "it dropped"},
        {"type": "tool_started", "id": "c1", "name": "dig", "attempt": 1},
        {"type": "tool_reported", "id": "c1", "progress": {"percent": 50}},
        {"type": "tool_ended", "id": "c1", "name": "dig", "status": "done", "seconds": 0.123},
    ]


def test_a_call_that_has_its_place_keeps_it() -> None:
    collected = Collected()
    first = Call(id="c0", name="dig", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)
    RunView(collected).conclude(RunResult(text="", stop=Stop.CLIENT_CALLS), (first, CALL))
    assert [event.call.number for event in collected.of(Released)] == [0, 1]
