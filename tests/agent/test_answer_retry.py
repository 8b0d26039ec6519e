"""Which answers are asked for again, with what, and when the run gives up."""

import pytest

from wholecall.agent.answer_retry import FIRST_ROOM, AnswerRetry
from wholecall.agent.budget import RunLimits
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import Call, Evidence, Outcome, Reason, Rejected, Text, Usage
from wholecall.messages import Choice, Message, Mode, Request, Role

REQUEST = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),))
CALL = Call(id="call_1", name="look", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)
CUT = Outcome(
    rejected=(Rejected(reason=Reason.TRUNCATED, detail="cut"),),
    finish_reason="length",
    usage=Usage(10, 300),
)
FORCED = Request(model="m", messages=(), choice=Choice(Mode.REQUIRED, ("look",)))


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(text="Hello", finish_reason="stop"),
        Outcome(calls=(CALL,), finish_reason="tool_calls"),
        Outcome(rejected=(Rejected(reason=Reason.BAD_JSON, detail="x"),), finish_reason="stop"),
        Outcome(finish_reason="content_filter"),
        Outcome(provider_blocks=({"type": "web_search"},), finish_reason="stop"),
        Outcome(text="cut tex", finish_reason="length"),
    ],
)
def test_an_answer_that_can_be_used_is_used(outcome: Outcome) -> None:
    assert AnswerRetry(RunLimits()).after_answer(REQUEST, outcome, began=()) is None


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(error="stream_dropped"),
        Outcome(text="par", error="stream_dropped"),
        Outcome(error="upstream_error"),
        Outcome(error="protocol"),
        Outcome(finish_reason="stop"),
        Outcome(text=" \n", finish_reason="stop"),
        Outcome(finish_reason="tool_calls"),
    ],
)
def test_a_broken_or_empty_answer_is_asked_for_again_as_often_as_allowed(outcome: Outcome) -> None:
    recovery = AnswerRetry(RunLimits(turn_retries=2))
    for _ in range(2):
        again = recovery.after_answer(REQUEST, outcome, began=())
        assert again is not None
        assert again.request == REQUEST
    with pytest.raises(RunFailed, match="each time") as failed:
        recovery.after_answer(REQUEST, outcome, began=())
    assert failed.value.ran == ()


def test_after_a_call_began_nothing_is_asked_for_again() -> None:
    with pytest.raises(RunFailed, match=r"begun: look \(call_1\)") as failed:
        AnswerRetry(RunLimits()).after_answer(
            REQUEST, Outcome(error="stream_dropped"), began=(CALL,)
        )
    assert failed.value.ran == (CALL,)


@pytest.mark.parametrize(
    ("had", "usage", "asked"),
    [
        (1000, Usage(1, 1000), 2000),
        (None, Usage(1, 300), 600),
        (None, None, FIRST_ROOM),
        (20_000, None, 32_768),
        (32_768, None, None),
        (50_000, None, None),
    ],
)
def test_a_cut_call_gets_more_room_up_to_the_limit(
    had: int | None, usage: Usage | None, *, asked: int | None
) -> None:
    request = Request(model="m", messages=(), max_tokens=had)
    cut = Outcome(rejected=CUT.rejected, finish_reason="length", usage=usage)
    again = AnswerRetry(RunLimits()).after_answer(request, cut, began=())
    assert (again and again.request.max_tokens) == asked


def test_a_cut_call_beside_one_that_began_is_only_told() -> None:
    assert AnswerRetry(RunLimits()).after_answer(REQUEST, CUT, began=(CALL,)) is None


def test_a_call_cut_for_another_reason_gets_no_more_room() -> None:
    bad = Outcome(rejected=(Rejected(reason=Reason.SCHEMA, detail="x"),), finish_reason="length")
    assert AnswerRetry(RunLimits()).after_answer(REQUEST, bad, began=()) is None


def test_a_refused_forced_choice_is_demanded_in_words() -> None:
    recovery = AnswerRetry(RunLimits())
    refusal = UpstreamError("no forced tools while thinking", status=400)
    again = recovery.after_error(FORCED, refusal, began=())
    assert again is not None
    assert again.request.choice == Choice(Mode.AUTO, ("look",))
    assert again.request.messages[-1].text == "Your next answer must call 'look'."
    with pytest.raises(UpstreamError, match="no forced tools"):
        recovery.after_error(again.request, UpstreamError("other", status=400), began=())


def test_a_demand_without_a_name_says_so() -> None:
    request = Request(model="m", messages=(), choice=Choice(Mode.REQUIRED))
    again = AnswerRetry(RunLimits()).after_error(request, UpstreamError("x", status=422), began=())
    assert again is not None
    assert (
        again.request.messages[-1].text == "Your next answer must call at least one of the tools."
    )


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_a_status_is_final(status: int) -> None:
    error = UpstreamError("no", status=status)
    assert AnswerRetry(RunLimits()).after_error(REQUEST, error, began=()) is None


def test_a_lost_connection_is_tried_again_and_then_told() -> None:
    recovery, error = (
        AnswerRetry(RunLimits(turn_retries=1)),
        UpstreamError("reset", code="connection"),
    )
    again = recovery.after_error(REQUEST, error, began=())
    assert again is not None
    assert again.why == "reset"
    assert recovery.after_error(REQUEST, error, began=()) is None


def test_an_error_after_a_call_began_says_what_ran() -> None:
    with pytest.raises(RunFailed, match="look") as failed:
        AnswerRetry(RunLimits()).after_error(REQUEST, UpstreamError("reset"), began=(CALL,))
    assert failed.value.ran == (CALL,)
    assert isinstance(failed.value.__cause__, UpstreamError)


def test_what_was_tried_before_is_not_tried_again() -> None:
    error = UpstreamError("no connection", code="connection")
    error.attempts = 3
    assert AnswerRetry(RunLimits()).after_error(REQUEST, error, began=()) is None
