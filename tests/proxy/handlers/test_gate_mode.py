"""The mode `gate`: right calls are handed over, wrong ones never."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.collected_events import Collected
from proxy_server import in_loop
from scripted import calls, chunk, ending, opening, says
from wholecall.agent.budget import RunLimits
from wholecall.agent.run import Plan
from wholecall.agent.run_events import TurnRetried
from wholecall.agent.turn import sender_for
from wholecall.errors import UpstreamError
from wholecall.events import Ended, Rejected, Text, Usage
from wholecall.messages import (
    CallResult,
    Choice,
    Message,
    Mode,
    Native,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)
from wholecall.proxy.handlers.gate_mode import GateMode
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Reading, Reads
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.replay import Reaction, ReplayUpstream, ScriptedAnswer

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
    *turns: Reaction,
    reask: int = 0,
    request: Request = REQUEST,
    seen: Seen | None = None,
    limits: RunLimits | None = None,
) -> tuple[Collected, ReplayUpstream]:
    upstream = ReplayUpstream(turns)
    plan = Plan(
        request=request,
        upstream=upstream,
        toolbox=Toolbox(request.tools),
        sender=sender_for("m", request.messages),
        limits=limits or RunLimits(),
    )
    collected = Collected()
    taps = () if seen is None else (seen,)
    watch = ExchangeWatch(Exchange(request_id="r"), taps)
    await GateMode(plan, collected, watch=watch, retries=reask).run()
    return collected, upstream


def _with(choice: Choice) -> Request:
    return replace(REQUEST, choice=choice)


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
    assert "do not send it again" in told[0]
    assert "depth" in told[1]


@in_loop
async def test_a_call_at_the_limit_of_the_request_is_cut_whatever_the_server_says() -> None:
    # The server parsed what it had of the call, and says that all is well.
    entry = {"index": 0, "id": "c", "function": {"name": "dig", "arguments": {"depth": 3}}}
    salvaged = ScriptedAnswer(chunks=[chunk({"tool_calls": [entry]}), *ending("tool_calls")])
    upstream = ReplayUpstream([salvaged])
    request = replace(REQUEST, max_tokens=5)
    sender = sender_for("m", request.messages)
    toolbox = Toolbox(request.tools)
    plan = Plan(request=request, upstream=upstream, toolbox=toolbox, sender=sender)
    collected = Collected()
    gate = GateMode(plan, collected, watch=ExchangeWatch(Exchange(request_id="r"), ()))
    with pytest.raises(UpstreamError, match="dig: the answer was cut off by the output limit"):
        await gate.run()
    assert collected.calls == []
    [report] = collected.reports
    assert "cut off by the output limit" in str(report)


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


# ── Asked again ─────────────────────────────────────────────────────────────────────


def talks(
    *pieces: str, made: tuple[str, str] | None = None, finish: str = "stop"
) -> ScriptedAnswer:
    """Words in pieces, then a call; `finish` empty: the stream breaks off."""
    chunks = [chunk({"content": piece}) for piece in pieces]
    chunks += [opening(0, made[0], arguments=made[1])] if made else []
    return ScriptedAnswer(chunks=[*chunks, *(ending(finish) if finish else [])])


LEAD = "Let me dig. "
WHOLE, HALF = ("dig", '{"depth": 3}'), ("dig", '{"dep')
CUT = talks(made=HALF, finish="length")
BROKEN = talks(made=HALF, finish="")
SAYING_CUT = talks("Let me ", "dig. ", made=HALF, finish="length")
SAYING_BROKEN = talks("Let me ", "dig. ", made=HALF, finish="")
UNKNOWN = calls(("fly", {}))
DENIED = UpstreamError("no", status=500)

RECOVERED: dict[str, tuple[tuple[Reaction, ...], str]] = {
    # The answers of the model, and the words that a client of a stream reads. The call comes once.
    "a cut call": ((CUT, calls(RIGHT)), ""),
    "a broken answer": ((BROKEN, calls(RIGHT)), ""),
    "an answer that broke off before its first word": (
        (ScriptedAnswer(chunks=[]), calls(RIGHT)),
        "",
    ),
    "wrong arguments": ((calls(WRONG), calls(RIGHT)), ""),
    "an unknown tool": ((UNKNOWN, calls(RIGHT)), ""),
    "words are not repeated": ((SAYING_CUT, talks("Let me dig.", made=WHOLE)), LEAD),
    "nor those before a break": ((SAYING_BROKEN, talks("Let ", "me dig.", made=WHOLE)), LEAD),
    "new words that follow the repeated ones are sent": (
        (SAYING_CUT, talks("Let me dig. Less", " deep.", made=WHOLE)),
        LEAD + "Less deep.",
    ),
    "other words beside the call are left out": (
        (SAYING_CUT, talks("I dig", " less.", made=WHOLE)),
        LEAD,
    ),
    "a part of the words is no garble": ((SAYING_CUT, talks("Let me", made=WHOLE)), LEAD),
    "a right call beside a wrong one is kept": ((calls(RIGHT, WRONG), says("ok")), "ok"),
    "even if the next answer breaks off": ((calls(RIGHT, WRONG), BROKEN), ""),
    "or does not come": ((calls(RIGHT, WRONG), DENIED), ""),
}


@pytest.mark.parametrize("name", RECOVERED)
@in_loop
async def test_the_call_comes_once_and_no_word_twice(name: str) -> None:
    turns, words = RECOVERED[name]
    collected, upstream = await gate(*turns, reask=1)
    assert collected.calls == [RIGHT]
    assert collected.text == words
    assert collected.turns == [True]
    assert [ended.error for ended in collected.of(Ended)][-1] is None
    assert len(upstream.requests) == len(turns)


@in_loop
async def test_words_alone_follow_those_that_were_sent() -> None:
    collected, _ = await gate(SAYING_CUT, talks("I ", "cannot."), reask=1)
    assert (collected.calls, collected.text) == ([], LEAD + "I cannot.")


@in_loop
async def test_an_answer_in_one_piece_takes_all_words_of_the_last() -> None:
    request = replace(REQUEST, stream=False)
    collected, _ = await gate(
        SAYING_BROKEN, talks("Let me dig.", made=WHOLE), reask=1, request=request
    )
    assert collected.text == LEAD + "Let me dig."  # the first part is dropped by `begin_turn`
    collected, _ = await gate(talks("Half", finish=""), calls(RIGHT), reask=1, request=request)
    assert collected.calls == [RIGHT]


ROOM = replace(REQUEST, max_tokens=100)


@in_loop
async def test_a_cut_call_gets_twice_the_room_and_the_last_time_it_is_told() -> None:
    seen = Seen()
    _, upstream = await gate(CUT, CUT, calls(RIGHT), reask=2, request=ROOM, seen=seen)
    assert [request.max_tokens for request in upstream.requests] == [100, 200, 400]
    assert upstream.requests[1].messages == ROOM.messages
    [result] = upstream.requests[2].messages[-1].parts
    assert isinstance(result, CallResult)
    assert "less in it" in result.result.text
    assert [each.why for each in seen.retried] == [
        "a call was cut off; there is more room now",
        "a call was wrong",
    ]


@pytest.mark.parametrize(
    ("most", "rooms"), [(150, [100, 150]), (100, [100, 100]), (50, [100, 100])]
)
@in_loop
async def test_the_room_ends_at_the_models_limit(most: int, rooms: list[int]) -> None:
    limits = RunLimits(output_tokens=most)
    _, upstream = await gate(CUT, calls(RIGHT), reask=1, request=ROOM, limits=limits)
    assert [request.max_tokens for request in upstream.requests] == rooms


@in_loop
async def test_room_that_the_upstream_refuses_is_done_without() -> None:
    refused = UpstreamError("max_tokens is too large", status=400)
    collected, upstream = await gate(CUT, refused, calls(RIGHT), reask=1, request=ROOM)
    assert collected.calls == [RIGHT]
    assert [request.max_tokens for request in upstream.requests] == [100, 200, 100]


BLOCK = ScriptedAnswer(
    protocol="anthropic",
    chunks=[
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}},
        {"type": "content_block_stop", "index": 0},
    ],
)
FAILED: dict[str, tuple[tuple[Reaction, ...], str]] = {
    # The answers of the model, and the code of the error.
    "cut each time": ((CUT, CUT), "bad_call"),
    "cut each time, after words": ((SAYING_CUT, SAYING_CUT), "bad_call"),
    "wrong each time": ((calls(WRONG), calls(WRONG)), "bad_call"),
    "cut, and then the upstream fails": ((CUT, DENIED), "bad_call"),
    "wrong, and then the upstream refuses": (
        (calls(WRONG), UpstreamError("", status=400)),
        "bad_call",
    ),
    "nothing came, and then the upstream fails": ((ScriptedAnswer(chunks=[]), DENIED), ""),
}


@pytest.mark.parametrize("name", FAILED)
@in_loop
async def test_what_fails_in_the_end_is_told(name: str) -> None:
    turns, code = FAILED[name]
    with pytest.raises(UpstreamError) as caught:
        await gate(*turns, reask=1)
    assert caught.value.code == code
    assert ("dig" in str(caught.value)) is bool(code)


BROKEN_OFF: dict[str, tuple[Reaction, ...]] = {
    "each time": (BROKEN, BROKEN),
    "and then the upstream fails": (BROKEN, DENIED),
    "in the midst of words": (talks("The answer is fou", finish=""),),
    "after what a provider's tool did": (BLOCK,),
}


@pytest.mark.parametrize("name", BROKEN_OFF)
@in_loop
async def test_what_broke_off_has_no_good_end(name: str) -> None:
    turns = BROKEN_OFF[name]
    collected, upstream = await gate(*turns, reask=1)
    assert all(ended.finish_reason is None for ended in collected.of(Ended))
    assert len(upstream.requests) == len(turns)


NOT_AGAIN: dict[str, tuple[Request, ScriptedAnswer, str]] = {
    # The request, the answer, and the finish reason of what is handed over.
    "a filter stopped it": (REQUEST, talks(made=WHOLE, finish="content_filter"), "content_filter"),
    "the one call that is allowed is there": (
        _with(Choice(parallel=False)),
        calls(RIGHT, RIGHT, ("dig", {"depth": 4})),
        "tool_calls",
    ),
    "a forced call did not come within the limit": (
        _with(Choice(Mode.REQUIRED)),
        says("No", "length"),
        "length",
    ),
}


@pytest.mark.parametrize("name", NOT_AGAIN)
@in_loop
async def test_what_is_not_asked_for_again(name: str) -> None:
    request, answer, finish = NOT_AGAIN[name]
    collected, upstream = await gate(answer, reask=3, request=request)
    assert [ended.finish_reason for ended in collected.of(Ended)] == [finish]
    assert len(upstream.requests) == 1


# ── The same call again and again ───────────────────────────────────────────────────


def _asked(*texts: str, times: int, note: str = "", depth: int = 3) -> Request:
    """Questions of the user, and behind the last of them the same call so many times."""
    messages = [Message(Role.USER, (Text(text),)) for text in texts]
    for number in range(times):
        past = PastCall(id=f"p{number}", name="dig", arguments={"depth": depth})
        result = CallResult(call_id=past.id, result=Result((Text("earth"),)))
        messages.append(Message(Role.ASSISTANT, (past,)))
        messages.append(Message(Role.TOOL, (result,), Native("openai-chat", ("as it came",))))
        messages += [Message(Role.USER, (Text(note),))] if note else []
    return replace(REQUEST, messages=tuple(messages))


@pytest.mark.parametrize(("times", "warned"), [(2, []), (3, [3]), (4, [3, 4])])
@in_loop
async def test_the_model_is_told_that_it_repeats_a_call(times: int, warned: list[int]) -> None:
    request = _asked("dig", times=times)
    _, upstream = await gate(says("earth"), request=request)
    sent = upstream.requests[0].messages
    noted = [message for message in sent if message.native is None and message.role is Role.TOOL]
    texts = [part.result.text for message in noted for part in message.parts]  # type: ignore[union-attr]
    assert [
        f"call number {number} of 'dig'" in text for number, text in zip(warned, texts, strict=True)
    ] == [True] * len(warned)
    assert all(text.startswith("earth\n") for text in texts)
    assert all(m.native for m in request.messages if m.role is Role.TOOL)


STUCK: dict[str, tuple[Request, int, tuple[Reaction, ...], str]] = {
    # The request, `reask`, the answers, and what the client reads.
    "it answers from the results": (
        _asked("dig", times=4),
        1,
        (calls(RIGHT), says("earth")),
        "earth",
    ),
    "it insists": (
        _asked("dig", times=4),
        1,
        (calls(RIGHT), calls(RIGHT)),
        "The model called 'dig' 5",
    ),
    "it may not be asked": (_asked("dig", times=4), 0, (calls(RIGHT),), "The model called 'dig' 5"),
    "it breaks off": (
        _asked("dig", times=4),
        1,
        (calls(RIGHT), BROKEN),
        "The model called 'dig' 5",
    ),
    "it fails": (_asked("dig", times=4), 1, (calls(RIGHT), DENIED), "The model called 'dig' 5"),
    "notes of the client are no question": (
        _asked("dig", times=4, note="Remember your list."),
        1,
        (calls(RIGHT), says("earth")),
        "earth",
    ),
}


@pytest.mark.parametrize("name", STUCK)
@in_loop
async def test_a_call_that_was_made_too_often_is_not_handed_over(name: str) -> None:
    request, reask, turns, words = STUCK[name]
    collected, upstream = await gate(*turns, reask=reask, request=request)
    assert collected.calls == []
    assert collected.text.startswith(words)
    assert [ended.finish_reason for ended in collected.of(Ended)][-1] == "stop"
    asked_again = upstream.requests[1:]
    assert len(asked_again) == reask
    for again in asked_again:
        assert again.choice.mode is Mode.NONE
        [result] = again.messages[-1].parts
        assert isinstance(result, CallResult)
        assert "Answer from the results" in result.result.text


GOES_ON: dict[str, tuple[Request, ScriptedAnswer, list[Any]]] = {
    "not yet": (_asked("dig", times=3), calls(RIGHT), [RIGHT]),
    "another call": (_asked("dig", times=9), calls(("dig", {"depth": 4})), [("dig", {"depth": 4})]),
    "the other call beside it": (
        _asked("dig", times=4),
        calls(RIGHT, ("dig", {"depth": 4})),
        [("dig", {"depth": 4})],
    ),
    "the user asks anew": (
        replace(
            REQUEST,
            messages=(
                *_asked("dig", times=9).messages,
                Message(Role.ASSISTANT, (Text("earth"),)),
                Message(Role.USER, (Text("again"),)),
            ),
        ),
        calls(RIGHT),
        [RIGHT],
    ),
    "a long task": (
        replace(
            REQUEST,
            messages=tuple(m for n in range(4, 300) for m in _asked(times=1, depth=n).messages),
        ),
        calls(RIGHT),
        [RIGHT],
    ),
}


@pytest.mark.parametrize("name", GOES_ON)
@in_loop
async def test_other_calls_are_handed_over(name: str) -> None:
    request, answer, expected = GOES_ON[name]
    collected, upstream = await gate(answer, request=request, reask=1)
    assert collected.calls == expected
    assert len(upstream.requests) == 1


@in_loop
async def test_a_repeated_call_beside_a_wrong_one_is_not_kept() -> None:
    collected, _ = await gate(
        calls(RIGHT, WRONG), says("earth"), reask=1, request=_asked("dig", times=4)
    )
    assert (collected.calls, collected.text) == ([], "earth")


@in_loop
async def test_a_choice_that_was_not_obeyed_is_reminded_of() -> None:
    required = Choice(Mode.REQUIRED)
    seen = Seen()
    collected, upstream = await gate(
        says("No."), calls(RIGHT), reask=1, request=_with(required), seen=seen
    )
    assert collected.calls == [RIGHT]
    assert seen.retried == [TurnRetried(1, "the choice of tools was not obeyed")]
    assert upstream.requests[1].messages[-1].role is Role.USER
    collected, _ = await gate(says("No."), request=_with(required))
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
