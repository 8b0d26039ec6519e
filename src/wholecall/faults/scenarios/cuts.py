"""Answers that stop before they are over: at the output limit, or with the connection."""

from __future__ import annotations

from wholecall.faults.scenarios.phrases import (
    ANTHROPIC_WHOLE,
    FILE,
    FINAL,
    MAIL,
    OSLO,
    SHORT_FILE,
    STREAMED,
    TEXTUAL,
    answer,
    call,
    calls,
    cut_call,
    later,
    open_call,
)
from wholecall.faults.script import (
    Answer,
    Begin,
    Drop,
    Expected,
    Fail,
    Finish,
    Grow,
    Hang,
    Raw,
    Reset,
    Scenario,
    Seal,
    Terminate,
    forms,
)

_IN_STRING = cut_call(FILE, "hello wor")
_WHOLE = forms(streamed=[False])

_AT_THE_LIMIT = (
    Scenario(
        name="truncated-after-member",
        sentence="The output limit cuts the arguments behind a member; closed, they would fit.",
        turns=(
            (answer(*cut_call(FILE, '"notes.txt"'), reason="length"),),
            (calls(SHORT_FILE),),
            (FINAL,),
        ),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="truncated-in-string",
        sentence="The output limit cuts the arguments inside of a string.",
        turns=((answer(*_IN_STRING, reason="length"),), (calls(SHORT_FILE),), (FINAL,)),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="truncated-before-first-byte",
        sentence="The output limit cuts a call before its arguments began; `{}` would fit.",
        turns=((answer(Begin(name="list_items"), reason="length"),), (calls(MAIL),), (FINAL,)),
        expected=later(MAIL),
    ),
    Scenario(
        name="truncated-second-call",
        sentence="The output limit cuts the second of two calls; the first is whole and runs.",
        turns=(
            (answer(*call(MAIL), *cut_call(FILE, "hello wor", number=1), reason="length"),),
            (calls(SHORT_FILE),),
            (FINAL,),
        ),
        expected=Expected(runs=(MAIL, SHORT_FILE), first=(MAIL,)),
        # An object has no brace that would prove it whole, so the limit may have cut it, too.
        differs={ANTHROPIC_WHOLE: later(SHORT_FILE)},
    ),
    Scenario(
        name="truncated-but-stop",
        sentence="The arguments are cut, and the finish reason says `stop`.",
        turns=((answer(*_IN_STRING, Seal(), reason="stop"),), (calls(SHORT_FILE),), (FINAL,)),
        expected=later(SHORT_FILE),
        forms=TEXTUAL,
    ),
    Scenario(
        name="truncated-but-tool-calls",
        sentence="The arguments are cut, and the finish reason says `tool_calls`.",
        turns=((answer(*_IN_STRING, Seal()),), (calls(SHORT_FILE),), (FINAL,)),
        expected=later(SHORT_FILE),
        forms=TEXTUAL,
    ),
    Scenario(
        name="blank-flood",
        sentence="The model has lost the thread: white space without end inside of the arguments.",
        turns=(
            (
                answer(
                    Begin(name="write_file"),
                    Grow(arguments='{"path": "notes.txt"'),
                    *(Grow(arguments="\n " * 256) for _ in range(8)),
                    reason="length",
                ),
            ),
            (calls(SHORT_FILE),),
            (FINAL,),
        ),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="content-filter",
        sentence="A content filter ends the answer after a whole call; nothing of it runs.",
        turns=((answer(*call(MAIL), reason="content_filter"),), (FINAL,)),
        expected=Expected(may_give_up=True),
    ),
)

_BY_THE_CONNECTION = (
    Scenario(
        name="dropped-in-call",
        sentence="The stream ends inside of the arguments, as if complete; then all is well.",
        turns=((Answer(steps=(*_IN_STRING, Drop())), calls(FILE)), (FINAL,)),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="dropped-after-call",
        sentence="The stream ends after a whole call, without a finish reason; then all is well.",
        turns=((Answer(steps=(*open_call(MAIL), Drop())), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="dropped-after-read-only-call",
        sentence="The stream ends after a whole call of a read-only tool, which may have started.",
        turns=((Answer(steps=(*open_call(OSLO), Drop())), calls(OSLO)), (FINAL,)),
        expected=Expected(runs=(OSLO,), first=(OSLO,), error=True, may_give_up=True),
        differs=dict.fromkeys(_WHOLE, later(OSLO, may_give_up=True)),
    ),
    Scenario(
        name="dropped-in-line",
        sentence="The stream ends in the middle of a line; then all is well.",
        turns=(
            (Answer(steps=(*open_call(MAIL), Raw('data: {"id": "chatc'), Drop())), calls(MAIL)),
            (FINAL,),
        ),
        expected=later(MAIL, may_give_up=True),
        forms=STREAMED,
    ),
    Scenario(
        name="dropped-always",
        sentence="The stream ends inside of the arguments, however often one asks.",
        turns=((Answer(steps=(*_IN_STRING, Drop())),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="reset-before-headers",
        sentence="The connection is reset before the answer begins; then all is well.",
        turns=((Answer(steps=(Reset(),)), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="reset-in-call",
        sentence="The connection is reset inside of the arguments; then all is well.",
        turns=((Answer(steps=(*_IN_STRING, Reset())), calls(FILE)), (FINAL,)),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="hang-before-headers",
        sentence="The upstream takes the request and says nothing; asked again, all is well.",
        turns=((Answer(steps=(Hang(),)), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="hang-in-call",
        sentence="The upstream falls silent inside of the arguments; asked again, all is well.",
        turns=((Answer(steps=(*_IN_STRING, Hang())), calls(FILE)), (FINAL,)),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="error-in-call",
        sentence="An error object comes inside of the arguments; then all is well.",
        turns=((Answer(steps=(*_IN_STRING, Fail())), calls(FILE)), (FINAL,)),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="error-after-call",
        sentence="An error object comes after a whole call, and an end as if nothing had been.",
        turns=(
            (
                Answer(steps=(*call(MAIL), Fail(), Finish("tool_calls"), Terminate())),
                calls(MAIL),
            ),
            (FINAL,),
        ),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="malformed-event",
        sentence="An event of the stream is no JSON; what it said is unknown. Then all is well.",
        turns=(
            (
                answer(
                    *cut_call(FILE, "hello "),
                    Raw('data: {"id": "chatcmpl-0", "choices": [{"index\n\n'),
                    Grow(arguments='good night"}'),
                    Seal(),
                ),
                calls(FILE),
            ),
            (FINAL,),
        ),
        expected=later(FILE, may_give_up=True),
        forms=STREAMED,
    ),
)

SCENARIOS = (*_AT_THE_LIMIT, *_BY_THE_CONNECTION)
