"""Calls that the upstream left in the text of its answer, and text that only looks like one."""

from __future__ import annotations

import json

from wholecall.faults.script import (
    FILE,
    FINAL,
    FINAL_TEXT,
    MAIL,
    OTHER_MAIL,
    SHORT_FILE,
    Say,
    Scenario,
    ScriptAnswer,
    ToolRun,
    answer,
    call,
    calls,
    later,
    runs,
    split,
)


def _say(text: str, reason: str = "stop") -> ScriptAnswer:
    return answer(*(Say(piece) for piece in split(text, 7)), reason=reason)


def _envelope(run: ToolRun) -> str:
    return json.dumps({"name": run.tool, "arguments": run.arguments})


_XML = (
    "<tool_call>\n<function=send_email>\n<parameter=to>\nada@example.org\n</parameter>\n"
    "<parameter=body>\nDinner is at eight.\n</parameter>\n</function>\n</tool_call>"
)
_INVOKED = (
    '<function_calls>\n<invoke name="send_email">\n'
    '<parameter name="to">ada@example.org</parameter>\n'
    '<parameter name="body">Dinner is at eight.</parameter>\n</invoke>\n</function_calls>'
)
_EXAMPLE = (
    f"One would write it so:\n```\n<tool_call>{_envelope(MAIL)}</tool_call>\n```\n{FINAL_TEXT}"
)

SCENARIOS = (
    Scenario(
        name="text-tagged-json",
        sentence="The call stands in the text, as JSON between `<tool_call>` tags.",
        turns=((_say(f"<tool_call>\n{_envelope(MAIL)}\n</tool_call>"),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-two-calls",
        sentence="Two calls stand in the text, with prose before them.",
        turns=(
            (
                _say(
                    "Let me write to both.\n"
                    f"<tool_call>{_envelope(MAIL)}</tool_call>\n"
                    f"<tool_call>{_envelope(OTHER_MAIL)}</tool_call>"
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL, OTHER_MAIL),
    ),
    Scenario(
        name="text-xml",
        sentence="The call stands in the text, in Qwen3-Coder's XML.",
        turns=((_say(_XML),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-invoked",
        sentence="The call stands in the text, as Anthropic's older models wrote it.",
        turns=((_say(_INVOKED),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-mistral",
        sentence="The call stands in the text, behind Mistral's `[TOOL_CALLS]`.",
        turns=((_say(f"[TOOL_CALLS] [{_envelope(MAIL)}]"),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-bare-json",
        sentence="The whole text is the call, as JSON.",
        turns=((_say(_envelope(MAIL)),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-truncated",
        sentence="The call in the text is cut by the output limit.",
        turns=(
            (_say(f"<tool_call>\n{_envelope(FILE)[:-12]}", "length"),),
            (calls(SHORT_FILE),),
            (FINAL,),
        ),
        expected=later(SHORT_FILE),
    ),
    Scenario(
        name="text-example",
        sentence="The text shows in a code block how a call is written: the answer, and no call.",
        turns=((_say(_EXAMPLE),),),
        expected=runs(),
        text=_EXAMPLE,
    ),
    Scenario(
        name="text-echo",
        sentence="The call stands in the text and comes natively as well; it runs once.",
        turns=(
            (
                answer(
                    Say(f"<tool_call>{_envelope(MAIL)}</tool_call>"),
                    *call(MAIL),
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL),
    ),
)
