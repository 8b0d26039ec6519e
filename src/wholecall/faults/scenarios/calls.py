"""Calls that are hard to read: badly addressed, with wrong arguments, or left in the text."""

from __future__ import annotations

import json

from wholecall.faults.script import (
    AUTO,
    CHAT,
    CHAT_STREAMED,
    FILE,
    FINAL,
    FINAL_TEXT,
    MAIL,
    OSLO,
    OTHER_MAIL,
    SHORT_FILE,
    STREAMED,
    TEXTUAL,
    Answers,
    Begin,
    Expected,
    Grow,
    Say,
    Scenario,
    ScriptAnswer,
    Seal,
    Step,
    ToolRun,
    address,
    answer,
    call,
    calls,
    corrected,
    later,
    one_turn,
    open_call,
    runs,
    split,
    write,
)

_FORECAST = ToolRun("get_weather", {"city": "Oslo", "days": 3})
_MOODY = ToolRun("get_weather", {**OSLO.arguments, "mood": "sunny"})
_DEEP = '{"path": ' + "[" * 300 + "]" * 300 + "}"


def _then(right: ToolRun, wrong: ToolRun, *, text: str | None = None) -> tuple[Answers, ...]:
    """A wrong call; after feedback the model makes the right one."""
    return corrected(answer(*call(wrong, text=text)), right)


_WIRE = (
    Scenario(
        name="placeholder-first",
        sentence="`{}` comes first, as a placeholder, and then the real arguments.",
        turns=one_turn(
            Begin(name="send_email"),
            Grow(arguments="{}"),
            *(Grow(arguments=piece) for piece in split(write(MAIL))),
            Seal(),
        ),
        expected=runs(MAIL),
        forms=STREAMED,
    ),
    Scenario(
        name="arguments-resent",
        sentence="The whole arguments are sent a second time behind the pieces.",
        turns=one_turn(*call(MAIL, text=write(MAIL) * 2)),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="arguments-cumulative",
        sentence="Each piece repeats all that came before.",
        turns=one_turn(
            Begin(name="send_email"),
            *(Grow(arguments=write(MAIL)[:end]) for end in (9, 25, 40, 60, len(write(MAIL)))),
            Seal(),
        ),
        expected=runs(MAIL),
        forms=CHAT_STREAMED,
    ),
    Scenario(
        name="two-objects",
        sentence="Two different objects come as the arguments of one call: neither is certain.",
        turns=_then(MAIL, MAIL, text=write(MAIL) + write(OTHER_MAIL)),
        expected=later(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="arguments-as-object",
        sentence="The arguments are an object instead of its text.",
        turns=one_turn(Begin(name="send_email", arguments=MAIL.arguments), Seal()),
        expected=runs(MAIL),
    ),
)

_SYNTAX = (
    Scenario(
        name="json-in-json",
        sentence="The arguments are a JSON string that holds the object.",
        turns=one_turn(*call(ToolRun("send_email", {}), text=json.dumps(write(MAIL)))),
        expected=runs(MAIL),
    ),
    Scenario(
        name="trailing-comma",
        sentence="A comma stands before the last brace.",
        turns=one_turn(*call(MAIL, text=write(MAIL)[:-1] + ",}")),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="python-literals",
        sentence="The arguments are a Python dict, in apostrophes.",
        turns=one_turn(*call(MAIL, text=str(dict(MAIL.arguments)))),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="fenced-arguments",
        sentence="The arguments stand in a code fence.",
        turns=one_turn(*call(MAIL, text=f"```json\n{write(MAIL)}\n```")),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="not-an-object",
        sentence="The arguments are an array.",
        turns=_then(MAIL, MAIL, text='["ada@example.org", "Dinner is at eight."]'),
        expected=later(MAIL),
    ),
    Scenario(
        name="broken-json",
        sentence="A quote inside of a string is not escaped: the text has two readings.",
        turns=_then(
            FILE, FILE, text='{"path": "notes.txt", "content": "say "hello", then "world" twice"}'
        ),
        expected=later(FILE),
        forms=TEXTUAL,
    ),
    Scenario(
        name="duplicate-keys",
        sentence="A parameter is given twice, with two values.",
        turns=_then(
            MAIL, MAIL, text='{"to": "ada@example.org", "to": "eve@example.org", "body": "Hi."}'
        ),
        expected=later(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="not-a-number",
        sentence="A number is NaN, which JSON does not have.",
        turns=_then(OSLO, OSLO, text='{"city": "Oslo", "days": NaN}'),
        expected=later(OSLO),
    ),
    Scenario(
        name="deep-arguments",
        sentence="The arguments are nested 300 deep.",
        turns=_then(FILE, FILE, text=_DEEP),
        expected=later(FILE),
    ),
)

_SCHEMA = (
    Scenario(
        name="type-that-fits",
        sentence='A number came as text: `"days": "3"`.',
        turns=one_turn(*call(_FORECAST, text='{"city": "Oslo", "days": "3"}')),
        expected=runs(_FORECAST),
    ),
    Scenario(
        name="wrong-type",
        sentence='A word came where a number is expected: `"days": "many"`.',
        turns=_then(_FORECAST, ToolRun("get_weather", {"city": "Oslo", "days": "many"})),
        expected=later(_FORECAST),
    ),
    Scenario(
        name="wrong-word",
        sentence="A word came that is not in the list: the unit is `kelvin`.",
        turns=_then(OSLO, ToolRun("get_weather", {"city": "Oslo", "unit": "kelvin"})),
        expected=later(OSLO),
    ),
    Scenario(
        name="missing-parameter",
        sentence="A required parameter is missing.",
        turns=_then(MAIL, ToolRun("send_email", {"to": "ada@example.org"})),
        expected=later(MAIL),
    ),
    Scenario(
        name="extra-parameter",
        sentence="A parameter came that the tool does not have, and its schema lets it pass.",
        # Some clients make all schemas strict: then it is refused, and the model corrects it.
        turns=corrected(calls(_MOODY), OSLO),
        expected=Expected(runs=(OSLO,), instead=(_MOODY,)),
    ),
    Scenario(
        name="forbidden-parameter",
        sentence="A parameter came that the schema forbids.",
        turns=_then(FILE, ToolRun("write_file", {**FILE.arguments, "mode": "append"})),
        expected=later(FILE),
    ),
    Scenario(
        name="unknown-tool",
        sentence="The model calls a tool that was not offered.",
        turns=_then(MAIL, ToolRun("delete_everything", {"sure": True})),
        expected=later(MAIL),
    ),
    Scenario(
        name="unknown-and-known",
        sentence="One call of an unknown tool, one of a known; only the known one runs.",
        turns=corrected(calls(ToolRun("send_mail", MAIL.arguments), OSLO), MAIL),
        expected=Expected(runs=(OSLO, MAIL), first=(OSLO,)),
    ),
)

ARGUMENT_SCENARIOS = (*_WIRE, *_SYNTAX, *_SCHEMA)


# ── Indices, ids and names that do not say which call a piece belongs to ──────────────


_BOTH = runs(MAIL, OTHER_MAIL)


def _interleave(*streams: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(step for steps in zip(*streams, strict=True) for step in steps)


def _repeat_head(run: ToolRun, *, id: str) -> tuple[Step, ...]:
    """A call whose every piece has its id and name again."""
    grown = (Grow(id=id, name=run.tool, arguments=piece) for piece in split(write(run)))
    return (Begin(id=id, name=run.tool), *grown)


ADDRESS_SCENARIOS = (
    Scenario(
        name="index-missing",
        sentence="Two calls without any index.",
        turns=one_turn(*address(call(MAIL), index=None), *address(call(OTHER_MAIL, 1), index=None)),
        expected=_BOTH,
    ),
    Scenario(
        name="index-all-zero",
        sentence="Two calls, both with the index 0.",
        turns=one_turn(*address(call(MAIL), index=0), *address(call(OTHER_MAIL, 1), index=0)),
        expected=_BOTH,
    ),
    Scenario(
        name="index-one-based",
        sentence="The index of the first call is 1.",
        turns=one_turn(*address(call(MAIL), index=1), *address(call(OTHER_MAIL, 1), index=2)),
        expected=_BOTH,
    ),
    Scenario(
        name="index-reused",
        sentence="A third call has the index of the first, which is over.",
        turns=one_turn(
            *address(call(MAIL), index=0),
            *address(call(OTHER_MAIL, 1), index=1),
            *address(call(ToolRun("list_items", {}), 2), index=0),
        ),
        expected=runs(MAIL, OTHER_MAIL, ToolRun("list_items", {})),
    ),
    Scenario(
        name="interleaved",
        sentence="The pieces of two calls come in turns.",
        turns=one_turn(*_interleave(call(MAIL), call(OTHER_MAIL, 1))),
        expected=_BOTH,
    ),
    Scenario(
        name="id-missing",
        sentence="The call has no id.",
        turns=one_turn(*address(call(MAIL), id=None)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="id-shared",
        sentence="Two calls with the same id.",
        turns=one_turn(
            *address(call(MAIL), id="call_x"), *address(call(OTHER_MAIL, 1), id="call_x")
        ),
        expected=_BOTH,
        forms=CHAT,
    ),
    Scenario(
        name="id-and-name-repeated",
        sentence="Every piece has the id and the name again; joined, they would be nonsense.",
        turns=one_turn(*_repeat_head(MAIL, id="call_r")),
        expected=runs(MAIL),
        forms=CHAT,
    ),
    Scenario(
        name="name-split",
        sentence="The name comes in two pieces.",
        turns=one_turn(
            Begin(name="send_"),
            Grow(name="email"),
            *(Grow(arguments=piece) for piece in split(write(MAIL))),
        ),
        expected=runs(MAIL),
        forms=CHAT,
    ),
    Scenario(
        name="name-late",
        sentence="The arguments come before the name.",
        turns=one_turn(
            Begin(),
            *(Grow(arguments=piece) for piece in split(write(MAIL))),
            Grow(name="send_email"),
        ),
        expected=runs(MAIL),
        forms=CHAT,
    ),
    Scenario(
        name="call-sent-twice",
        sentence="The whole call comes a second time, under the same id; it runs once.",
        turns=one_turn(
            *open_call(MAIL), Begin(id=AUTO, name=MAIL.tool, arguments=write(MAIL)), Seal()
        ),
        expected=runs(MAIL),
        forms=CHAT & STREAMED,
    ),
)


# ── Calls in the text, and text that only looks like one ────────────────────────────


def _say(text: str, reason: str = "stop") -> ScriptAnswer:
    return answer(*(Say(piece) for piece in split(text, 7)), reason=reason)


def _said(text: str) -> tuple[Answers, ...]:
    return ((_say(text),), (FINAL,))


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

TEXT_SCENARIOS = (
    Scenario(
        name="text-tagged-json",
        sentence="The call stands in the text, as JSON between `<tool_call>` tags.",
        turns=_said(f"<tool_call>\n{_envelope(MAIL)}\n</tool_call>"),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-two-calls",
        sentence="Two calls stand in the text, with prose before them.",
        turns=_said(
            "Let me write to both.\n"
            f"<tool_call>{_envelope(MAIL)}</tool_call>\n"
            f"<tool_call>{_envelope(OTHER_MAIL)}</tool_call>"
        ),
        expected=runs(MAIL, OTHER_MAIL),
    ),
    Scenario(
        name="text-xml",
        sentence="The call stands in the text, in Qwen3-Coder's XML.",
        turns=_said(_XML),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-invoked",
        sentence="The call stands in the text, as Anthropic's older models wrote it.",
        turns=_said(_INVOKED),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-mistral",
        sentence="The call stands in the text, behind Mistral's `[TOOL_CALLS]`.",
        turns=_said(f"[TOOL_CALLS] [{_envelope(MAIL)}]"),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-bare-json",
        sentence="The whole text is the call, as JSON.",
        turns=_said(_envelope(MAIL)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="text-truncated",
        sentence="The call in the text is cut by the output limit.",
        turns=corrected(_say(f"<tool_call>\n{_envelope(FILE)[:-12]}", "length"), SHORT_FILE),
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
        turns=one_turn(Say(f"<tool_call>{_envelope(MAIL)}</tool_call>"), *call(MAIL)),
        expected=runs(MAIL),
    ),
)
