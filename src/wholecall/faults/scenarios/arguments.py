"""Arguments that are not what the schema asks for, or not JSON, or not sent once."""

from __future__ import annotations

import json

from wholecall.faults.script import (
    CHAT_STREAMED,
    FILE,
    FINAL,
    MAIL,
    OSLO,
    OTHER_MAIL,
    STREAMED,
    TEXTUAL,
    Answers,
    Begin,
    Expected,
    Grow,
    Scenario,
    Seal,
    ToolRun,
    answer,
    call,
    calls,
    later,
    runs,
    split,
    write,
)

_FORECAST = ToolRun("get_weather", {"city": "Oslo", "days": 3})
_MOODY = ToolRun("get_weather", {**OSLO.arguments, "mood": "sunny"})
_DEEP = '{"path": ' + "[" * 300 + "]" * 300 + "}"


def _then(right: ToolRun, wrong: ToolRun, *, text: str | None = None) -> tuple[Answers, ...]:
    """A wrong call; after feedback the model makes the right one."""
    return ((answer(*call(wrong, text=text)),), (calls(right),), (FINAL,))


_WIRE = (
    Scenario(
        name="placeholder-first",
        sentence="`{}` comes first, as a placeholder, and then the real arguments.",
        turns=(
            (
                answer(
                    Begin(name="send_email"),
                    Grow(arguments="{}"),
                    *(Grow(arguments=piece) for piece in split(write(MAIL))),
                    Seal(),
                ),
            ),
            (FINAL,),
        ),
        expected=runs(MAIL),
        forms=STREAMED,
    ),
    Scenario(
        name="arguments-resent",
        sentence="The whole arguments are sent a second time behind the pieces.",
        turns=((answer(*call(MAIL, text=write(MAIL) * 2)),), (FINAL,)),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="arguments-cumulative",
        sentence="Each piece repeats all that came before.",
        turns=(
            (
                answer(
                    Begin(name="send_email"),
                    *(
                        Grow(arguments=write(MAIL)[:end])
                        for end in (9, 25, 40, 60, len(write(MAIL)))
                    ),
                    Seal(),
                ),
            ),
            (FINAL,),
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
        turns=(
            (answer(Begin(name="send_email", arguments=MAIL.arguments), Seal()),),
            (FINAL,),
        ),
        expected=runs(MAIL),
    ),
)

_SYNTAX = (
    Scenario(
        name="json-in-json",
        sentence="The arguments are a JSON string that holds the object.",
        turns=((answer(*call(ToolRun("send_email", {}), text=json.dumps(write(MAIL)))),), (FINAL,)),
        expected=runs(MAIL),
    ),
    Scenario(
        name="trailing-comma",
        sentence="A comma stands before the last brace.",
        turns=((answer(*call(MAIL, text=write(MAIL)[:-1] + ",}")),), (FINAL,)),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="python-literals",
        sentence="The arguments are a Python dict, in apostrophes.",
        turns=((answer(*call(MAIL, text=str(dict(MAIL.arguments)))),), (FINAL,)),
        expected=runs(MAIL),
        forms=TEXTUAL,
    ),
    Scenario(
        name="fenced-arguments",
        sentence="The arguments stand in a code fence.",
        turns=((answer(*call(MAIL, text=f"```json\n{write(MAIL)}\n```")),), (FINAL,)),
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
            FILE,
            FILE,
            text='{"path": "notes.txt", "content": "say "hello", then "world" twice"}',
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
        turns=(
            (answer(*call(_FORECAST, text='{"city": "Oslo", "days": "3"}')),),
            (FINAL,),
        ),
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
        turns=((calls(_MOODY),), (calls(OSLO),), (FINAL,)),
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
        turns=((calls(ToolRun("send_mail", MAIL.arguments), OSLO),), (calls(MAIL),), (FINAL,)),
        expected=Expected(runs=(OSLO, MAIL), first=(OSLO,)),
    ),
)

SCENARIOS = (*_WIRE, *_SYNTAX, *_SCHEMA)
