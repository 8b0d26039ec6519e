"""The text alone is enough to correct the call."""

import json
from typing import Any

import pytest

from wholecall.arguments.feedback import (
    Feedback,
    SkipReason,
    dropped_note,
    feedback,
    make_feedback,
    skipped,
    timed_out,
    tool_failed,
)
from wholecall.arguments.limits import DEFAULT
from wholecall.arguments.validate import check
from wholecall.assembly.call_builder import Draft
from wholecall.assembly.verdict import Ending, Judge
from wholecall.events import Call, Evidence, Problem, Reason, Rejected
from wholecall.messages import ToolSpec

WEATHER = ToolSpec(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "examples": ["Paris"]},
            "days": {"type": "integer", "minimum": 1},
            "unit": {"enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "days"],
    },
)
OFFER = {"get_weather": WEATHER, "send_mail": ToolSpec("send_mail"), "add": ToolSpec("add")}
EXAMPLE = '{"city": "Paris", "days": 1}'
TOOL = '"get_weather"'


def reject(reason: Reason, raw: str = "", *, detail: str = "", **more: Any) -> Rejected:
    return Rejected(reason=reason, detail=detail, raw=raw, **{"name": "get_weather", **more})


def cut(text: str, ending: Ending) -> Rejected:
    draft = Draft(0, DEFAULT)
    draft.name = "get_weather"
    draft.add(text)
    verdict = Judge(OFFER).judge(draft, ending)
    assert isinstance(verdict, Rejected)
    return verdict


def reject_unfit(raw: str) -> Rejected:
    return reject(Reason.SCHEMA, raw, problems=check(json.loads(raw), WEATHER).problems)


# what holds, rejection, all that the text must say, what it must not say
ROWS: list[tuple[str, Rejected, list[str], list[str]]] = [
    (
        "cut off by the output limit: to send less, and not that something is missing",
        cut('{"city": "Par', Ending.LENGTH),
        [TOOL, "not run", "cut off by the output limit", "less", "in parts", "smaller calls"],
        ["missing", "required", "Required", "JSON"],
    ),
    (
        "cut off by the output limit before it began",
        cut("", Ending.LENGTH),
        [TOOL, "not run", "cut off by the output limit", "less", "in parts", "smaller calls"],
        ["missing", "required", "Required", "JSON"],
    ),
    (
        "cut off, nobody knows by what: to send it again, and not to send less",
        cut('{"city": "Par', Ending.GOOD),
        [TOOL, "not run", "incomplete", "it ends inside a string", "Send the whole call again."],
        ["missing", "required", "Required", "JSON", "limit", "less"],
    ),
    (
        "cut off by the connection: to send it again, and not that something is missing",
        reject(Reason.STREAM_DROPPED, '{"city": "Par'),
        [TOOL, "not run", "connection broke", "whole call again", "in parts"],
        ["missing", "required", "Required", "JSON", "output limit"],
    ),
    (
        "not JSON: where, what stood there, and what it should be",
        reject(Reason.BAD_JSON, '{"city": Paris}'),
        [TOOL, "not valid JSON", "character 10", '"Paris}"', "one whole JSON object", EXAMPLE],
        ["None"],
    ),
    (
        "not JSON, at its end",
        reject(Reason.BAD_JSON, '{"city": "Paris"'),
        [TOOL, "not valid JSON", "character 17", "the text ends", EXAMPLE],
        [],
    ),
    (
        "not JSON although it can be read now: what was said then",
        reject(Reason.BAD_JSON, "{}", detail="the arguments go on after their end"),
        [TOOL, "not valid JSON: the arguments go on after their end", EXAMPLE],
        [],
    ),
    (
        "no object",
        reject(Reason.NOT_OBJECT, '["Paris", 3]'),
        [TOOL, "must be one JSON object", '["Paris", 3]', '"city", "days"', EXAMPLE],
        [],
    ),
    (
        "no object, in a text that is none",
        reject(Reason.NOT_OBJECT, "Paris"),
        [TOOL, "must be one JSON object", '"Paris"', EXAMPLE],
        [],
    ),
    (
        "what does not fit: every path, what was received, what is expected, an example",
        reject_unfit('{"city": 5, "days": "0", "unit": "kelvin"}'),
        [
            TOOL,
            "- $.city must be a string; received 5",
            "- $.days must be at least 1; received 0",
            '- $.unit must be one of "celsius", "fahrenheit"; received "kelvin"',
            'Required parameters: "city", "days".',
            'Received parameters: "city", "days", "unit".',
            f"An example that fits: {EXAMPLE}",
            "send the whole call",
        ],
        ["cut off"],
    ),
    (
        "a parameter that is missing, and what may have been meant",
        reject_unfit('{"cty": "Rome", "days": 2}'),
        [TOOL, "$.city is missing", '"cty" was received', "a string", EXAMPLE],
        [],
    ),
    (
        "a key given twice",
        reject(
            Reason.SCHEMA,
            '{"city": "a", "city": "b"}',
            problems=(
                Problem("$.city", "duplicate_key", "the key is twice", "b", "each key once"),
            ),
        ),
        [TOOL, "- $.city: the key is twice; expected each key once", EXAMPLE],
        [],
    ),
    (
        "what does not fit, if nobody knows why",
        reject(Reason.SCHEMA, "{}", detail="it is too large"),
        [TOOL, "do not fit: it is too large.", EXAMPLE],
        [],
    ),
    (
        "an unknown tool: the nearest, and all in order",
        reject(Reason.UNKNOWN_TOOL, name="get_wether"),
        ['no tool "get_wether"', f"Did you mean {TOOL}?", f'"add", {TOOL}, "send_mail"'],
        ["was not run"],
    ),
    (
        "an unknown tool like no other",
        reject(Reason.UNKNOWN_TOOL, name="xyz"),
        ['no tool "xyz"', f'The tools are: "add", {TOOL}, "send_mail".'],
        ["Did you mean"],
    ),
    (
        "a tool that there is, but that may not be called now",
        reject(Reason.UNKNOWN_TOOL, name="add", detail="only 'send_mail' may be called here"),
        ['call of "add" was not run', "only 'send_mail' may be called here"],
        ["no tool", "Did you mean", "again"],
    ),
    (
        "no name: which there are",
        reject(Reason.NO_NAME, name=None),
        ["not run", "which tool", f'"add", {TOOL}, "send_mail"'],
        ["None"],
    ),
    (
        "broken markup: to write it as shown",
        reject(Reason.BAD_MARKUP, detail="the closing tag is missing"),
        [TOOL, "not run", "the closing tag is missing", "exactly in the form"],
        [],
    ),
    (
        "text without end: to be short",
        reject(Reason.DEGENERATE, detail="white space without end"),
        [TOOL, "not run", "white space without end", "short and whole"],
        [],
    ),
    (
        "two readings: to send each call once",
        reject(Reason.AMBIGUOUS, detail="two different objects were sent"),
        [TOOL, "not run", "more than one way", "two different objects", "each call once"],
        [],
    ),
    (
        "a call written as text: to use the tool interface",
        reject(Reason.WRITTEN_AS_TEXT),
        [TOOL, "not run", "wrote it as text", "through the tool interface", "answer in words"],
        [],
    ),
    (
        "malformed, says the provider: to send it again",
        reject(Reason.MALFORMED_BY_PROVIDER),
        [TOOL, "not run", "malformed", "Send the call again"],
        [],
    ),
    (
        "a content filter: not to send it again",
        reject(Reason.CONTENT_FILTER),
        [TOOL, "not run", "content filter", "Do not send the same again"],
        [],
    ),
    (
        "a limit: which, and to send less",
        reject(Reason.LIMIT, detail="there are more than 64 calls"),
        [TOOL, "not run", "a limit: there are more than 64 calls", "Send less"],
        [],
    ),
    (
        "a call whose name was cut off, too",
        reject(Reason.TRUNCATED, name=None),
        ["Your call was not run", "incomplete"],
        ["None", "limit"],
    ),
]


@pytest.mark.parametrize(
    ("rejection", "said", "unsaid"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_the_text_says_all_that_is_needed(
    rejection: Rejected, said: list[str], *, unsaid: list[str]
) -> None:
    spec = WEATHER if rejection.name == "get_weather" else None
    text = feedback(rejection, spec, offer=OFFER)

    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []
    assert len(text) < 1000


def test_every_reason_has_its_words() -> None:
    told = {rejection.reason for _, rejection, _, _ in ROWS}

    assert told == set(Reason)


def test_every_reason_has_a_hint_of_its_own() -> None:
    rejections = {reason: reject(reason, "{}", name="x") for reason in Reason}
    hints = [make_feedback(each, None, offer=OFFER).hint for each in rejections.values()]
    hints += [skipped("add", "why", reason=reason).hint for reason in SkipReason]

    assert all(hints)
    assert len(set(hints)) == len(hints)


# why a call was skipped, what its hint must say
SKIPPED: list[tuple[SkipReason, list[str]]] = [
    (SkipReason.IDENTICAL, ["same result", "Answer from the results", "could not find out"]),
    (SkipReason.WITHDRAWN, ["cannot be used", "Answer from the results", "could not find out"]),
    (SkipReason.CAPPED, ["No further tool", "from the results", "could not find out"]),
    (SkipReason.HANGING, ["without its result", "could not find out"]),
    (SkipReason.UNAVAILABLE, ["without this tool", "could not find out"]),
    (SkipReason.DENIED, ["Do not send the call again"]),
    (SkipReason.STOPPED, ["Send it again if it is still needed"]),
]


@pytest.mark.parametrize(("reason", "said"), SKIPPED, ids=[row[0].value for row in SKIPPED])
def test_a_call_that_would_be_skipped_again_is_not_asked_for(
    reason: SkipReason, said: list[str]
) -> None:
    text = skipped("add", "there is a reason", reason=reason).text

    assert text.startswith('The call of "add" was not run: there is a reason.\n')
    assert [words for words in said if words not in text] == []
    assert ("Send it again" in text) is (reason is SkipReason.STOPPED)


def test_every_reason_to_skip_has_its_row() -> None:
    assert {row[0] for row in SKIPPED} == set(SkipReason)


def test_the_structured_form_says_the_same_piece_by_piece() -> None:
    made = make_feedback(reject_unfit('{"city": 5, "town": "x"}'), WEATHER)

    assert made == Feedback(
        type="schema",
        message=made.message,
        tool="get_weather",
        parameter="$.days",
        required=("city", "days"),
        received_keys=("city", "town"),
        example={"city": "Paris", "days": 1},
        hint="Correct this and send the whole call.",
    )
    assert made.text == feedback(reject_unfit('{"city": 5, "town": "x"}'), WEATHER)


def test_problems_alone_are_enough() -> None:
    problems = check({"city": 5, "days": 1}, WEATHER).problems

    text = feedback(problems, WEATHER)

    assert f"Your call of {TOOL} was not run" in text
    assert "- $.city must be a string; received 5" in text
    assert EXAMPLE in text
    assert "Received parameters" not in text


def test_without_a_tool_there_is_no_example() -> None:
    text = feedback(reject(Reason.BAD_JSON, "x"), None)

    assert f"call of {TOOL}" in text
    assert "example" not in text


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"const": "x" * 5000}}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": "^q$"}},
            "required": ["a"],
        },
    ],
    ids=["too long", "none known"],
)
def test_an_example_that_is_of_no_use_is_left_out(parameters: dict[str, Any]) -> None:
    made = make_feedback(reject(Reason.NOT_OBJECT, "5"), ToolSpec("t", parameters))

    assert made.example is None
    assert made.required == ("a",)


def test_a_tool_whose_definition_is_broken_is_not_to_be_called_again() -> None:
    broken = ToolSpec("t", {"properties": {"a": {"pattern": "(?=a)"}}, "required": "a"})
    text = feedback(check({"a": "x"}, broken).problems, broken)

    assert "'t' cannot be called" in text
    assert "Do not call this tool again." in text
    assert "example" not in text


@pytest.mark.parametrize("reason", [Reason.UNKNOWN_TOOL, Reason.NO_NAME])
def test_if_nobody_says_which_tools_there_are_none_is_denied(reason: Reason) -> None:
    text = feedback(reject(reason, name=None), None)

    assert "no tools" not in text
    assert text.endswith("Call only tools that you were given, by their names.")


def test_parameters_that_a_reference_requires_are_named() -> None:
    spec = ToolSpec("t", {"$ref": "#/$defs/all", "$defs": {"all": WEATHER.parameters}})

    assert make_feedback(reject(Reason.NOT_OBJECT, "5"), spec).required == ("city", "days")


def test_without_tools_none_is_to_be_called() -> None:
    text = feedback(reject(Reason.UNKNOWN_TOOL, name=None), None, offer={})

    assert text == (
        'There is no tool "", so nothing was run.\nThere are no tools to call. Answer without one.'
    )


# what holds, feedback, type, lines
RELEASED: list[tuple[str, Feedback, str, list[str]]] = [
    (
        "the tool failed",
        tool_failed("add", " overflow "),
        "tool_failed",
        [
            'The tool "add" failed: overflow',
            "Correct the call if it was the cause; else go on without its result.",
        ],
    ),
    (
        "the tool failed in silence",
        tool_failed("add", ""),
        "tool_failed",
        [
            'The tool "add" failed: it gave no reason',
            "Correct the call if it was the cause; else go on without its result.",
        ],
    ),
    (
        "the tool took too long",
        timed_out("add", 2.5),
        "timed_out",
        [
            'The tool "add" did not finish within 2.5 seconds and was stopped.',
            "What it had done by then is unknown.",
            "Ask for less in one call, or go on without its result.",
        ],
    ),
    (
        "the call was skipped, and why",
        skipped("add", "the run was stopped by its user."),
        "skipped",
        [
            'The call of "add" was not run: the run was stopped by its user.',
            "Send it again if it is still needed.",
        ],
    ),
]


@pytest.mark.parametrize(
    ("made", "kind", "lines"), [r[1:] for r in RELEASED], ids=[r[0] for r in RELEASED]
)
def test_a_released_call_that_gave_no_output_is_told(
    made: Feedback, kind: str, *, lines: list[str]
) -> None:
    assert (made.type, made.tool) == (kind, "add")
    assert made.text.split("\n") == lines


def test_a_result_says_what_was_dropped() -> None:
    call = Call(
        id="1",
        name="add",
        arguments={},
        raw="{}",
        evidence=Evidence.CONFIRMED,
        dropped=("why", "how"),
    )

    assert (
        dropped_note(call) == 'Note: "add" has no parameter "why", "how"; the call was run without.'
    )


def test_a_result_says_nothing_if_nothing_was_dropped() -> None:
    call = Call(id="1", name="add", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)

    assert dropped_note(call) == ""
