"""The mode `gate`: right calls are handed over, wrong ones never."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.collecting import Collected
from proxying import in_loop
from scripted import calls, chunk, cut, ending, opening, says
from wholecall.core.choice import Choice, Mode
from wholecall.core.conversation import CallResult, Message, Request, Role
from wholecall.core.spec import ToolSpec
from wholecall.core.values import Ended, Rejected, Text, Usage
from wholecall.errors import UpstreamError
from wholecall.proxy.gating import Gating, Question
from wholecall.proxy.taps import Exchange, Reading, Reads, Watch
from wholecall.runs.events import TurnRetried
from wholecall.runs.sending import sender_for
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer

DIG = ToolSpec(
    "dig",
    {
        "type": "object",
        "properties": {"depth": {"type": "integer"}},
        "required": ["depth"],
    },
)
REQUEST = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), tools=(DIG,))
WRONG = ("dig", {"depth": "deep"})
RIGHT = ("dig", {"depth": 3})


class Seen:
    """A tap that remembers which answers were asked for again."""

    def __init__(self) -> None:
        self.retried: list[TurnRetried] = []

    def open(self, _: Exchange) -> Reading:
        return self.retried, Reads({TurnRetried: list.append})


async def gate(
    *turns: ScriptedAnswer,
    reask: int = 0,
    choice: Choice | None = None,
    seen: Seen | None = None,
) -> tuple[Collected, ReplayUpstream]:
    upstream = ReplayUpstream(turns)
    request = REQUEST if choice is None else _with(choice)
    question = Question(
        request=request,
        upstream=upstream,
        sender=sender_for("m", request.messages),
        reask=reask,
    )
    collected = Collected()
    taps = () if seen is None else (seen,)
    await Gating(question, collected, watch=Watch(Exchange(request_id="r"), taps)).run()
    return collected, upstream


def _with(choice: Choice) -> Request:
    return Request(model="m", messages=REQUEST.messages, tools=(DIG,), choice=choice)


@in_loop
async def test_a_right_call_is_handed_over_with_its_end_and_usage() -> None:
    collected, upstream = await gate(calls(RIGHT))
    assert collected.calls == [RIGHT]
    assert [ended.finish_reason for ended in collected.of(Ended)] == ["tool_calls"]
    assert len(collected.of(Usage)) == 1
    assert len(upstream.requests) == 1
    assert collected.flushes > 1


@in_loop
async def test_a_wrong_call_is_asked_for_again_before_the_client_sees_it() -> None:
    seen = Seen()
    collected, upstream = await gate(calls(RIGHT, WRONG), calls(RIGHT), reask=1, seen=seen)
    assert collected.calls == [RIGHT]
    assert collected.turns == [True]
    assert seen.retried == [TurnRetried(1, "a call was wrong")]
    assert collected.reports == [{"type": "turn_retried", "turn": 1, "why": "a call was wrong"}]
    usage: Usage = collected.of(Usage)[-1]
    assert (usage.input_tokens, usage.output_tokens) == (20, 10)
    answer, results = upstream.requests[1].messages[-2:]
    assert [answer.role, results.role] == [Role.ASSISTANT, Role.TOOL]
    told = [part.result.text for part in results.parts if isinstance(part, CallResult)]
    assert told[0].startswith("This call was not run")
    assert "depth" in told[1]


@in_loop
async def test_what_was_no_call_is_told_as_by_a_user() -> None:
    nameless = {"index": 0, "function": {"name": None, "arguments": '{"depth": 3}'}}
    broken = ScriptedAnswer(chunks=[chunk({"tool_calls": [nameless]}), *ending("tool_calls")])
    collected, upstream = await gate(broken, calls(RIGHT), reask=1)
    assert collected.calls == [RIGHT]
    last = upstream.requests[1].messages[-1]
    assert (last.role, bool(last.text)) == (Role.USER, True)


@pytest.mark.parametrize("reask", [0, 1])
@in_loop
async def test_an_answer_of_wrong_calls_only_fails_when_it_was_asked_often_enough(
    reask: int,
) -> None:
    with pytest.raises(UpstreamError, match="dig") as caught:
        await gate(*[calls(WRONG)] * (reask + 1), reask=reask)
    assert caught.value.code == "bad_call"


@in_loop
async def test_right_calls_are_handed_over_beside_wrong_ones_that_are_only_told_of() -> None:
    collected, _ = await gate(calls(RIGHT, WRONG))
    assert collected.calls == [RIGHT]
    assert not collected.of(Rejected)
    [report] = collected.reports
    assert isinstance(report, dict)
    assert [each["name"] for each in report["rejected"]] == ["dig"]


@in_loop
async def test_an_end_at_the_output_limit_says_enough() -> None:
    collected, upstream = await gate(cut("dig", '{"dep'), reask=3)
    assert collected.calls == []
    assert [ended.finish_reason for ended in collected.of(Ended)] == ["length"]
    assert len(upstream.requests) == 1


@in_loop
async def test_a_cut_answer_keeps_its_bad_end() -> None:
    dropped = ScriptedAnswer(chunks=[opening(0, "dig", arguments='{"depth": 3}')])
    collected, upstream = await gate(dropped, reask=3)
    assert collected.calls == []
    assert [ended.error for ended in collected.of(Ended)] == ["stream_dropped"]
    assert len(upstream.requests) == 1


@in_loop
async def test_a_choice_that_was_not_obeyed_is_reminded_of() -> None:
    required = Choice(Mode.REQUIRED)
    seen = Seen()
    collected, upstream = await gate(says("No."), calls(RIGHT), reask=1, choice=required, seen=seen)
    assert collected.calls == [RIGHT]
    assert seen.retried == [TurnRetried(1, "the choice of tools was not obeyed")]
    assert upstream.requests[1].messages[-1].role is Role.USER
    collected, _ = await gate(says("No."), choice=required)
    assert collected.text == "No."


@in_loop
async def test_other_choices_pass_without_their_wrong_calls() -> None:
    def other(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": 1, "delta": delta, "finish_reason": finish}]}

    wrong = {"index": 0, "id": "c9", "function": {"name": "dig", "arguments": '{"depth": "x"}'}}
    answer = ScriptedAnswer(
        chunks=[
            chunk({"content": "one"}),
            other({"content": "two"}),
            other({"tool_calls": [wrong]}),
            other({}, "tool_calls"),
            *ending(),
        ]
    )
    collected, _ = await gate(answer)
    assert collected.text == "one"
    assert not collected.reports
