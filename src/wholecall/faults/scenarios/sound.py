"""Answers that are right, in all the shapes that clients do not expect."""

from __future__ import annotations

from dataclasses import replace

from wholecall.faults.script import (
    CHAT_STREAMED,
    FINAL,
    ITEMS,
    MAIL,
    OSLO,
    ROME,
    STREAMED,
    Begin,
    CountTokens,
    Expected,
    FinishWith,
    Pause,
    Raw,
    Say,
    Scenario,
    Seal,
    Step,
    Terminate,
    Think,
    ToolRun,
    address,
    answer,
    call,
    calls,
    corrected,
    exactly,
    one_turn,
    runs,
)

_HUGE = ToolRun("write_file", {"path": "huge.txt", "content": "0123456789abcdef" * 32_768})
_UNICODE = ToolRun("send_email", {"to": "zoë@example.org", "body": "Größe: 5 m², 火曜日 🦉"})
_KEEP_ALIVE = Raw(": keep-alive\n\n")


def _between(steps: tuple[Step, ...], inserted: Step) -> tuple[Step, ...]:
    return tuple(step for pair in ((inserted, each) for each in steps) for step in pair)


SCENARIOS = (
    Scenario(
        name="good",
        sentence="One call, then the answer.",
        turns=((calls(MAIL),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="answer-only",
        sentence="The model answers at once.",
        turns=((FINAL,),),
        expected=runs(),
    ),
    Scenario(
        name="text-and-call",
        sentence="Some text comes before the call, and the call counts.",
        turns=one_turn(Say("Let me "), Say("write to her."), *call(MAIL)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="reasoning-and-call",
        sentence="Reasoning comes before the call; what it mentions is not a call.",
        turns=one_turn(Think("I could send_email"), Think(" to Ada."), *call(MAIL)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="parallel-calls",
        sentence="Three calls in one answer; all of them run.",
        turns=((calls(OSLO, ROME, ITEMS),), (FINAL,)),
        expected=runs(OSLO, ROME, ITEMS),
    ),
    Scenario(
        name="two-steps",
        sentence="A call, its result, another call, then the answer.",
        turns=corrected(calls(OSLO), MAIL),
        expected=Expected(runs=(OSLO, MAIL), first=(OSLO,)),
    ),
    Scenario(
        name="ids-reused-over-turns",
        sentence="The second turn's call has the id of the first one's; both run.",
        turns=(
            (answer(*address(call(OSLO), id="call_0")),),
            (answer(*address(call(MAIL), id="call_0")),),
            (FINAL,),
        ),
        expected=Expected(runs=(OSLO, MAIL), first=(OSLO,)),
    ),
    Scenario(
        name="empty-object",
        sentence="A tool without parameters gets `{}`, in an answer that ends well.",
        turns=((calls(ITEMS),), (FINAL,)),
        expected=runs(ITEMS),
    ),
    Scenario(
        name="no-arguments",
        sentence="A tool without parameters gets no arguments at all, and the answer ends well.",
        turns=one_turn(Begin(name="list_items"), Seal()),
        expected=runs(ITEMS),
    ),
    Scenario(
        name="usage-chunk",
        sentence="The usage comes after the finish reason, in a chunk without choices.",
        turns=exactly(*call(MAIL), FinishWith("tool_calls"), CountTokens(), Terminate()),
        expected=runs(MAIL),
        forms=CHAT_STREAMED,
    ),
    Scenario(
        name="huge-arguments",
        sentence="The arguments have half a million characters.",
        turns=((calls(_HUGE),), (FINAL,)),
        expected=runs(_HUGE),
    ),
    Scenario(
        name="split-characters",
        sentence="The stream is cut inside of characters that have several bytes.",
        turns=((replace(calls(_UNICODE), cut=3),), (FINAL,)),
        expected=runs(_UNICODE),
    ),
    Scenario(
        name="crlf",
        sentence="The lines of the stream end in CR LF.",
        turns=((replace(calls(MAIL), newline="\r\n"),), (FINAL,)),
        expected=runs(MAIL),
        forms=STREAMED,
    ),
    Scenario(
        name="keep-alives",
        sentence="Comments come between the events, to keep the connection alive.",
        turns=one_turn(*_between(call(MAIL), _KEEP_ALIVE)),
        expected=runs(MAIL),
        forms=STREAMED,
    ),
    Scenario(
        name="slow-drip",
        sentence="The pieces come slowly, one at a time.",
        turns=one_turn(*_between(call(MAIL), Pause(0.02))),
        expected=runs(MAIL),
        forms=STREAMED,
    ),
)
