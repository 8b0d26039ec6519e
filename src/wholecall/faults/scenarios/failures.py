"""Answers that are cut, end with a wrong reason, or are HTTP errors."""

from __future__ import annotations

from wholecall.faults.script import (
    ANTHROPIC_WHOLE,
    CHAT,
    CHAT_STREAMED,
    FILE,
    FINAL,
    FINAL_TEXT,
    MAIL,
    OSLO,
    SHORT_FILE,
    STREAMED,
    TEXTUAL,
    Answers,
    Begin,
    Drop,
    Expected,
    Fail,
    FinishWith,
    Grow,
    Hang,
    Raw,
    Reset,
    Say,
    Scenario,
    ScriptAnswer,
    Seal,
    Step,
    Terminate,
    ToolRun,
    answer,
    call,
    calls,
    corrected,
    cut_call,
    exactly,
    forms,
    later,
    one_turn,
    open_call,
    runs,
    write,
)

_IN_STRING = cut_call(FILE, "hello wor")
_WHOLE = forms(streamed=[False])


def _again(right: ScriptAnswer, *before: Step) -> tuple[Answers, ...]:
    """An answer that breaks off, and the right one when it is asked for again."""
    return ((ScriptAnswer(steps=before), right), (FINAL,))


_AT_THE_LIMIT = (
    Scenario(
        name="truncated-after-member",
        sentence="The output limit cuts the arguments behind a member; closed, they would fit.",
        turns=corrected(answer(*cut_call(FILE, '"notes.txt"'), reason="length"), SHORT_FILE),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="truncated-in-string",
        sentence="The output limit cuts the arguments inside of a string.",
        turns=corrected(answer(*_IN_STRING, reason="length"), SHORT_FILE),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="truncated-before-first-byte",
        sentence="The output limit cuts a call before its arguments began; `{}` would fit.",
        turns=corrected(answer(Begin(name="list_items"), reason="length"), MAIL),
        expected=later(MAIL),
    ),
    Scenario(
        name="truncated-second-call",
        sentence="The output limit cuts the second of two calls; the first is whole and runs.",
        turns=corrected(
            answer(*call(MAIL), *cut_call(FILE, "hello wor", number=1), reason="length"), SHORT_FILE
        ),
        expected=Expected(runs=(MAIL, SHORT_FILE), first=(MAIL,)),
    ),
    Scenario(
        name="truncated-but-stop",
        sentence="The arguments are cut, and the finish reason says `stop`.",
        turns=corrected(answer(*_IN_STRING, Seal(), reason="stop"), SHORT_FILE),
        expected=later(SHORT_FILE),
        forms=TEXTUAL,
    ),
    Scenario(
        name="truncated-but-tool-calls",
        sentence="The arguments are cut, and the finish reason says `tool_calls`.",
        turns=corrected(answer(*_IN_STRING, Seal()), SHORT_FILE),
        expected=later(SHORT_FILE),
        forms=TEXTUAL,
    ),
    Scenario(
        name="blank-flood",
        sentence="The model has lost the thread: white space without end inside of the arguments.",
        turns=corrected(
            answer(
                Begin(name="write_file"),
                Grow(arguments='{"path": "notes.txt"'),
                *(Grow(arguments="\n " * 256) for _ in range(8)),
                reason="length",
            ),
            SHORT_FILE,
        ),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="content-filter",
        sentence="A content filter ends the answer after a whole call; nothing of it runs.",
        turns=one_turn(*call(MAIL), reason="content_filter"),
        expected=Expected(may_give_up=True),
    ),
)

_BY_THE_CONNECTION = (
    Scenario(
        name="dropped-in-call",
        sentence="The stream ends inside of the arguments, as if complete; then all is well.",
        turns=_again(calls(FILE), *_IN_STRING, Drop()),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="dropped-after-call",
        sentence="The stream ends after a whole call, without a finish reason; then all is well.",
        turns=_again(calls(MAIL), *open_call(MAIL), Drop()),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="dropped-after-read-only-call",
        sentence="The stream ends after a whole call of a read-only tool, which may have started.",
        turns=_again(calls(OSLO), *open_call(OSLO), Drop()),
        expected=Expected(runs=(OSLO,), first=(OSLO,), error=True, may_give_up=True),
        differs=dict.fromkeys(_WHOLE, later(OSLO, may_give_up=True)),
    ),
    Scenario(
        name="dropped-in-line",
        sentence="The stream ends in the middle of a line; then all is well.",
        turns=_again(calls(MAIL), *open_call(MAIL), Raw('data: {"id": "chatc'), Drop()),
        expected=later(MAIL, may_give_up=True),
        forms=STREAMED,
    ),
    Scenario(
        name="dropped-always",
        sentence="The stream ends inside of the arguments, however often one asks.",
        turns=((ScriptAnswer(steps=(*_IN_STRING, Drop())),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="reset-before-headers",
        sentence="The connection is reset before the answer begins; then all is well.",
        turns=_again(calls(MAIL), Reset()),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="reset-in-call",
        sentence="The connection is reset inside of the arguments; then all is well.",
        turns=_again(calls(FILE), *_IN_STRING, Reset()),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="hang-before-headers",
        sentence="The upstream takes the request and says nothing; asked again, all is well.",
        turns=_again(calls(MAIL), Hang()),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="hang-in-call",
        sentence="The upstream falls silent inside of the arguments; asked again, all is well.",
        turns=_again(calls(FILE), *_IN_STRING, Hang()),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="error-in-call",
        sentence="An error object comes inside of the arguments; then all is well.",
        turns=_again(calls(FILE), *_IN_STRING, Fail()),
        expected=later(FILE, may_give_up=True),
    ),
    Scenario(
        name="error-after-call",
        sentence="An error object comes after a whole call, and an end as if nothing had been.",
        turns=_again(calls(MAIL), *call(MAIL), Fail(), FinishWith("tool_calls"), Terminate()),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="malformed-event",
        sentence="An event of the stream is not JSON, so its content is lost. The rest is sound.",
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

CUT_SCENARIOS = (*_AT_THE_LIMIT, *_BY_THE_CONNECTION)


# Finish reasons that say something else than what was delivered.


_WITH_WORDS = forms(["openai-chat", "anthropic"])
"""Responses has a status instead of a finish reason."""
_STREAMS_WITH_WORDS = forms(["openai-chat", "anthropic"], streamed=[True])

FINISH_SCENARIOS = (
    Scenario(
        name="finish-stop",
        sentence="A whole call, and the finish reason says `stop`.",
        turns=one_turn(*call(MAIL), reason="stop"),
        expected=runs(MAIL),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="finish-length",
        sentence="A whole call, and the output limit was reached right behind it.",
        turns=one_turn(*call(MAIL), reason="length"),
        expected=runs(MAIL),
        # An object has no brace that would prove it whole.
        differs={ANTHROPIC_WHOLE: Expected()},
    ),
    Scenario(
        name="finish-unknown",
        sentence="The finish reason is an unknown word.",
        turns=one_turn(*call(MAIL), reason="eos_reached_42"),
        expected=runs(MAIL),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="finish-missing",
        sentence="There is no finish reason, but the stream has its proper end.",
        turns=exactly(*call(MAIL), Terminate()),
        expected=runs(MAIL),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="finish-twice",
        sentence="Two finish reasons: `tool_calls`, then `stop`.",
        turns=exactly(*call(MAIL), FinishWith("tool_calls"), FinishWith("stop"), Terminate()),
        expected=runs(MAIL),
        forms=_STREAMS_WITH_WORDS,
    ),
    Scenario(
        name="finish-without-calls",
        sentence="The finish reason says `tool_calls`, but there is only text: the answer.",
        turns=((answer(Say(FINAL_TEXT)),),),
        expected=runs(),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="no-terminator",
        sentence="The finish reason comes, the terminator does not.",
        turns=exactly(*call(MAIL), FinishWith("tool_calls")),
        expected=runs(MAIL),
        forms=_STREAMS_WITH_WORDS,
    ),
    Scenario(
        name="chunks-after-finish",
        sentence="Empty chunks go on after the finish reason.",
        turns=exactly(*call(MAIL), FinishWith("tool_calls"), Say(""), Say(""), Terminate()),
        expected=runs(MAIL),
        forms=CHAT_STREAMED,
    ),
    Scenario(
        name="finish-on-every-chunk",
        sentence="The finish reason is sent as an empty text until it is there.",
        turns=exactly(FinishWith(""), *call(MAIL), FinishWith("tool_calls"), Terminate()),
        expected=runs(MAIL),
        forms=CHAT,
    ),
)


# HTTP errors, bodies that are not answers, and models that never end.


_PAGE = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"
_EMPTY = answer(reason="stop")


def _refusal(status: int, **headers: str) -> ScriptAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ScriptAnswer(status=status, headers=named)


# As llama.cpp and Ollama report a call that they cannot parse.
_WRITTEN = f'<tool_call>{{"name": "get_weather", "arguments": {write(OSLO)}}}</tool_call>'
_QUOTED = f"Failed to parse input at pos 0: {_WRITTEN}"
_HALF = 'error parsing tool call: raw=\'{"to": "ada@exam\', err=unexpected end of JSON input'

REFUSAL_SCENARIOS = (
    Scenario(
        name="call-in-server-error",
        sentence="500, and the error quotes the call that the server could not parse.",
        turns=((ScriptAnswer(status=500, body=_QUOTED),), (FINAL,)),
        expected=Expected(runs=(OSLO,), may_give_up=True),
    ),
    Scenario(
        name="call-in-error-event",
        sentence="The stream ends with an error that quotes the call.",
        turns=exactly(Fail(_QUOTED)),
        expected=Expected(runs=(OSLO,), may_give_up=True),
        forms=STREAMED,
    ),
    Scenario(
        name="half-call-in-server-error",
        sentence="500, and the error quotes half a call; the model is told, and makes it whole.",
        turns=corrected(ScriptAnswer(status=500, body=_HALF), MAIL),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="rate-limited",
        sentence="429 with `Retry-After: 1`; then all is well.",
        turns=((_refusal(429, retry_after="1"), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="rate-limited-for-an-hour",
        sentence="429 with `Retry-After: 3600`, which is too long to wait.",
        turns=((_refusal(429, retry_after="3600"),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="server-error",
        sentence="500; then all is well.",
        turns=((_refusal(500), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="server-error-always",
        sentence="500, however often one asks.",
        turns=((_refusal(500),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="server-error-after-call",
        sentence="A call ran, and the next request gets a 500 twice; the call runs once.",
        turns=((calls(MAIL),), (_refusal(500), _refusal(500), FINAL)),
        expected=Expected(runs=(MAIL,), may_give_up=True),
    ),
    Scenario(
        name="overloaded",
        sentence="529, as Anthropic says it; then all is well.",
        turns=((_refusal(529, retry_after="1"), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="unauthorized",
        sentence="401: asking again is useless.",
        turns=((_refusal(401),),),
        expected=Expected(error=True),
    ),
    Scenario(
        name="forced-choice-refused",
        sentence="A request that forces a call is answered by a 400; any other is served.",
        turns=((calls(MAIL),), (FINAL,)),
        expected=Expected(runs=(MAIL,), may_give_up=True),
        refuses_choice=True,
    ),
    Scenario(
        name="page-instead",
        sentence="A proxy's HTML page comes with a status of 200; then all is well.",
        turns=((ScriptAnswer(body=_PAGE), calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="empty-answer",
        sentence="The first answer holds nothing at all; asked again, all is well.",
        turns=((_EMPTY, calls(MAIL)), (FINAL,)),
        expected=later(MAIL, may_give_up=True),
    ),
    Scenario(
        name="identical-calls",
        sentence="The model makes the same call again and again, as long as it has tools.",
        turns=((calls(OSLO),),),
        expected=Expected(runs=(OSLO,) * 4, first=(OSLO,)),
        closing=FINAL,
    ),
    Scenario(
        name="wrong-calls",
        sentence="The model makes the same wrong call again and again, as long as it has tools.",
        turns=((calls(ToolRun("send_email", {"to": "ada@example.org"})),),),
        expected=runs(),
        closing=FINAL,
    ),
)
