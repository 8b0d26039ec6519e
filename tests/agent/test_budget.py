"""The guard: which calls may run, and what the others are told."""

from wholecall.agent.budget import Guard, NotRun, RunLimits
from wholecall.arguments.feedback import SkipReason
from wholecall.events import Call, Evidence


def call(name: str = "look", **arguments: object) -> Call:
    return Call(
        id="call_1",
        name=name,
        arguments=arguments,
        raw="",
        evidence=Evidence.CLOSED,
    )


def test_the_number_of_calls_of_a_run_is_limited() -> None:
    guard = Guard(RunLimits(calls=2))
    assert [guard.refuse(call(at=at)) for at in range(3)] == [
        None,
        None,
        NotRun(SkipReason.CAPPED, "the limit of 2 calls is reached"),
    ]
    assert guard.calls == 2


def test_the_same_call_is_warned_of_and_then_refused_whatever_the_order_of_its_keys() -> None:
    guard = Guard(RunLimits(warn_identical=2, stop_identical=3))
    first, second = call(city="Oslo", unit="C"), call(unit="C", city="Oslo")
    assert guard.refuse(first) is None
    assert guard.warning(first) == ""
    assert guard.refuse(call(city="Rome")) is None
    assert guard.refuse(second) is None
    assert "call number 2 of 'look'" in guard.warning(second)
    assert not guard.stuck
    why = "it was made 3 times with the same arguments"
    assert guard.refuse(first) == NotRun(SkipReason.IDENTICAL, why)
    assert guard.stuck


def test_a_tool_that_fails_in_a_row_is_withdrawn_and_success_forgives() -> None:
    guard = Guard(RunLimits(attempts=2))
    guard.failed("look")
    guard.succeeded("look")
    guard.failed("look")
    assert guard.withdrawn == frozenset()
    guard.failed("look")
    guard.failed("send")
    assert guard.withdrawn == {"look"}
    why = "'look' failed 2 times in a row and is withdrawn"
    assert guard.refuse(call("look")) == NotRun(SkipReason.WITHDRAWN, why)
    assert guard.refuse(call("send")) is None
