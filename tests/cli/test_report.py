"""Outcomes as JSON and in words; what a model wrote cannot steer the reader's terminal."""

import json
from typing import Any

import pytest

from wholecall.cli.report import (
    KEPT_CHARACTERS,
    as_json,
    as_text,
    escape,
    name_evidence,
    row,
    watch,
)
from wholecall.events import (
    Call,
    Coercion,
    Ended,
    Event,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    Inconsistent,
    Oddity,
    OfChoice,
    Opened,
    Problem,
    Proved,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repair,
    Repeated,
    Text,
    Usage,
    collect,
)

BOOKED = Call(
    id="call_1",
    name="book",
    arguments={"people": 4, "name": "Léa", "big": 10**30},
    raw='{"people": "4",}',
    evidence=Evidence.CLOSED | Evidence.SEALED | Evidence.CONFIRMED,
    repairs=(Repair("trailing_comma", ",}", "}"),),
    coercions=(Coercion("$.people", "4", 4),),
    dropped=("mood",),
)
UNFIT = Rejected(
    reason=Reason.SCHEMA,
    detail="the arguments do not fit the schema",
    name="book",
    id="call_2",
    raw='{"people": "few"}',
    number=1,
    problems=(
        Problem("$.people", "type", "$.people must be an integer", '"few"', "integer"),
        Problem("$.a", "duplicate_key", "given twice", "again", "each key once"),
    ),
)
NAMELESS = Rejected(reason=Reason.NO_NAME, detail="the call has no tool name", number=2)
GOOD_END = Ended("tool_calls", Hint.STOP, "stop", None)

FULL_ANSWER: list[Event] = [
    Reasoning("hm"),
    Text("Two\ntables."),
    Opened(0, "call_1", "book"),
    Grew(0, '{"people": "4",}'),
    Opened(1, "call_2", "book"),
    Proved(1, Evidence.CLOSED),
    Usage(12, 5),
    Released(BOOKED),
    UNFIT,
    NAMELESS,
    Inconsistent(Oddity.ID_MISSING),
    Inconsistent(Oddity.ID_MISSING),
    Fault(FaultKind.UPSTREAM_ERROR, "overloaded"),
    GOOD_END,
]
FULL_TEXT = """\
== A title
reasoning  hm
text       Two\\ntables.
call 0     book  [CLOSED SEALED CONFIRMED]
  received {"people": "4",}
  repaired trailing_comma: ',}' -> '}'
  coerced  $.people: "4" -> 4
  dropped  'mood': the tool has no such parameter
  CALL     book {"people": 4, "name": "Léa", "big": 1000000000000000000000000000000}
call 1     book  [CLOSED]
  received {"people": "few"}
  problem  $.people must be an integer
  problem  $.a: given twice
  REJECTED schema: the arguments do not fit the schema
call 2     (no name)  [no evidence]
  received (nothing)
  REJECTED no_name: the call has no tool name
odd        id_missing, 2 times
error      upstream_error: overloaded
ended      tool_calls (the upstream said 'stop')"""


def test_an_answer_in_words() -> None:
    assert as_text("A title", watch(FULL_ANSWER)) == FULL_TEXT


ROWS: dict[str, tuple[list[Event], list[str]]] = {
    "nothing came": ([], []),
    "a call being built": (
        [Opened(0, "call_1", "book"), Grew(0, '{"peo')],
        ["call 0     book  [no evidence]", '  building {"peo'],
    ),
    "a call sent again": (
        [Released(BOOKED), Opened(1, "call_2", "book"), Grew(1, "{}"), Repeated(1, 0)],
        [
            "call 1     book  [no evidence]",
            "  received {}",
            "  REPEATED the same as call 0, sent again: dropped",
        ],
    ),
    "a text of which only the end is kept": (
        [Text("a" * 5_000), Text("b" * KEPT_CHARACTERS)],
        ["text       …" + "b" * KEPT_CHARACTERS],
    ),
    "an answer that broke off": (
        [Ended(None, None, None, "stream_dropped")],
        ["ended      in error (the upstream said no finish reason)"],
    ),
    "more oddities than are listed": (
        [Inconsistent(Oddity.SLOT_REUSED, f"slot {number}") for number in range(12)],
        ["odd        slot_reused (slot 9)", "odd        and 2 others"],
    ),
    "another choice": (
        [Text("one"), OfChoice(1, Text("two"))],
        ["text       one", "-- choice 1", "text       two"],
    ),
}


@pytest.mark.parametrize("title", ROWS)
def test_the_last_lines_say(title: str) -> None:
    events, lines = ROWS[title]
    shown = as_text(title, watch(events)).split("\n")
    assert shown[0] == f"== {title}"
    assert shown[len(shown) - len(lines) :] == lines


def test_a_long_text_is_shown_by_its_beginning_and_its_end() -> None:
    _, words = row("received", "a" * 1_000 + "b" * 1_000_000 + "c" * 1_000)
    assert words == "a" * 200 + " … 1,001,700 characters … " + "c" * 100


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [bold]text[/] é 漢字 🎉", "plain [bold]text[/] é 漢字 🎉"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("one\r\ntwo\tthree\x00", "one\\r\\ntwo\\tthree\\x00"),
        ("C1 \x9b31m", "C1 \\x9b31m"),
        ("right to left \u202egnp.exe", "right to left \\u202egnp.exe"),
        ("line\u2028separator, no\u00a0break", "line\\u2028separator, no\\xa0break"),
        ("half a pair \ud83d", "half a pair \\ud83d"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert escape(shown) == shown


HOSTILE = "\x1b[31m\u202e\ud800\n== forged"


def test_no_word_of_a_model_or_a_file_reaches_the_reader_unescaped() -> None:
    call = Call(
        id=HOSTILE,
        name=HOSTILE,
        arguments={HOSTILE: HOSTILE},
        raw=HOSTILE,
        evidence=Evidence.CLOSED,
        repairs=(Repair(HOSTILE, HOSTILE, HOSTILE),),
        coercions=(Coercion(HOSTILE, HOSTILE, HOSTILE),),
        dropped=(HOSTILE,),
    )
    problem = Problem(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    events: list[Event] = [
        Text(HOSTILE),
        Reasoning(HOSTILE),
        Opened(0, HOSTILE, HOSTILE),
        Released(call),
        Rejected(reason=Reason.SCHEMA, detail=HOSTILE, name=HOSTILE, number=1, problems=(problem,)),
        Opened(2, HOSTILE, HOSTILE),
        Grew(2, HOSTILE),
        Inconsistent(Oddity.ID_REUSED, HOSTILE),
        Fault(FaultKind.PROTOCOL, HOSTILE),
        Ended(HOSTILE, Hint.UNKNOWN, HOSTILE, None),
    ]
    lines = as_text(HOSTILE, watch(events)).split("\n")
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("==")] == [lines[0]]


def test_an_answer_as_json() -> None:
    shown: dict[str, Any] = json.loads(as_json("A title", collect(FULL_ANSWER)))
    assert shown == {
        "title": "A title",
        "calls": [
            {
                "id": "call_1",
                "name": "book",
                "arguments": {"people": 4, "name": "Léa", "big": 10**30},
                "evidence": ["CLOSED", "SEALED", "CONFIRMED"],
                "repairs": [{"kind": "trailing_comma", "before": ",}", "after": "}", "safe": True}],
                "coercions": [{"path": "$.people", "before": "4", "after": 4}],
                "dropped": ["mood"],
            }
        ],
        "rejected": [
            {
                "id": "call_2",
                "name": "book",
                "reason": "schema",
                "detail": "the arguments do not fit the schema",
                "raw": '{"people": "few"}',
                "problems": [
                    {
                        "path": "$.people",
                        "kind": "type",
                        "message": "$.people must be an integer",
                        "received": '"few"',
                        "expected": "integer",
                    },
                    {
                        "path": "$.a",
                        "kind": "duplicate_key",
                        "message": "given twice",
                        "received": "again",
                        "expected": "each key once",
                    },
                ],
            },
            {
                "id": "",
                "name": None,
                "reason": "no_name",
                "detail": "the call has no tool name",
                "raw": "",
                "problems": [],
            },
        ],
        "text": "Two\ntables.",
        "reasoning": "hm",
        "finish_reason": "tool_calls",
        "native_finish_reason": "stop",
        "error": None,
        "inconsistencies": ["id_missing", "id_missing"],
        "usage": {"input_tokens": 12, "output_tokens": 5},
    }


def test_json_is_one_line_of_ascii_whatever_is_in_it() -> None:
    line = as_json(HOSTILE, collect([Text(HOSTILE)]))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["text"] == HOSTILE
    assert json.loads(line)["usage"] is None


def test_json_holds_the_other_choices() -> None:
    shown = json.loads(as_json("", collect([OfChoice(2, Text("two"))])))
    assert shown["choices"]["2"]["text"] == "two"


def test_evidence_is_named_in_order() -> None:
    assert name_evidence(Evidence.CONFIRMED | Evidence.CLOSED) == ["CLOSED", "CONFIRMED"]
    assert name_evidence(Evidence.NONE) == []
