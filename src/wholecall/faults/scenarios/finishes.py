"""Finish reasons that say something else than what was delivered."""

from __future__ import annotations

from wholecall.faults.scenarios.phrases import (
    ANTHROPIC_WHOLE,
    CHAT,
    CHAT_STREAMED,
    FINAL,
    MAIL,
    answer,
    call,
    runs,
)
from wholecall.faults.script import (
    FINAL_TEXT,
    Answer,
    Expected,
    Finish,
    Say,
    Scenario,
    Terminate,
    forms,
)

_WITH_WORDS = forms(["openai-chat", "anthropic"])
"""Responses has a status instead of a finish reason."""
_STREAMS_WITH_WORDS = forms(["openai-chat", "anthropic"], streamed=[True])

SCENARIOS = (
    Scenario(
        name="finish-stop",
        sentence="A whole call, and the finish reason says `stop`.",
        turns=((answer(*call(MAIL), reason="stop"),), (FINAL,)),
        expected=runs(MAIL),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="finish-length",
        sentence="A whole call, and the output limit was reached right behind it.",
        turns=((answer(*call(MAIL), reason="length"),), (FINAL,)),
        expected=runs(MAIL),
        # An object has no brace that would prove it whole.
        differs={ANTHROPIC_WHOLE: Expected()},
    ),
    Scenario(
        name="finish-unknown",
        sentence="The finish reason is a word that nobody knows.",
        turns=((answer(*call(MAIL), reason="eos_reached_42"),), (FINAL,)),
        expected=runs(MAIL),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="finish-missing",
        sentence="There is no finish reason, but the stream has its proper end.",
        turns=((Answer(steps=(*call(MAIL), Terminate())),), (FINAL,)),
        expected=runs(MAIL),
        forms=_WITH_WORDS,
    ),
    Scenario(
        name="finish-twice",
        sentence="Two finish reasons: `tool_calls`, then `stop`.",
        turns=(
            (Answer(steps=(*call(MAIL), Finish("tool_calls"), Finish("stop"), Terminate())),),
            (FINAL,),
        ),
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
        turns=((Answer(steps=(*call(MAIL), Finish("tool_calls"))),), (FINAL,)),
        expected=runs(MAIL),
        forms=_STREAMS_WITH_WORDS,
    ),
    Scenario(
        name="chunks-after-finish",
        sentence="Empty chunks go on after the finish reason.",
        turns=(
            (Answer(steps=(*call(MAIL), Finish("tool_calls"), Say(""), Say(""), Terminate())),),
            (FINAL,),
        ),
        expected=runs(MAIL),
        forms=CHAT_STREAMED,
    ),
    Scenario(
        name="finish-on-every-chunk",
        sentence="The finish reason is sent as an empty text until it is there.",
        turns=(
            (Answer(steps=(Finish(""), *call(MAIL), Finish("tool_calls"), Terminate())),),
            (FINAL,),
        ),
        expected=runs(MAIL),
        forms=CHAT,
    ),
)
