"""The values: a `Call` cannot be built from partial arguments, and nothing changes afterwards."""

import dataclasses
from typing import Any

import msgspec
import pytest

from wholecall.events import (
    Call,
    CallDelta,
    Evidence,
    Reason,
    Reasoning,
    Rejected,
    Repair,
    Usage,
    copy_call,
)

CLOSED, SEALED, CONFIRMED = Evidence.CLOSED, Evidence.SEALED, Evidence.CONFIRMED


def call(**fields: Any) -> Call:
    whole = {"id": "a", "name": "f", "arguments": {}, "raw": "{}", "evidence": CLOSED}
    return Call(**{**whole, **fields})


# what holds, fields, the error, what it says
PARTIAL = [
    ("a text is no object", {"arguments": '{"a": 1}'}, TypeError, "arguments of 'f' are no object"),
    ("a list is no object", {"arguments": [1]}, TypeError, "are no object: [1]"),
    ("nothing is no object", {"arguments": None}, TypeError, "are no object: None"),
    ("no evidence proves nothing", {"evidence": Evidence.NONE}, ValueError, "not proven whole"),
    ("a sealed text may be cut inside", {"evidence": SEALED}, ValueError, "not proven whole"),
    (
        "an unsafe repair never reaches a call",
        {"repairs": (Repair("trailing_comma", ",}", "}"), Repair("close", "", "}", safe=False))},
        ValueError,
        "call of 'f' rests on an unsafe repair",
    ),
]


@pytest.mark.parametrize(
    ("fields", "error", "message"), [row[1:] for row in PARTIAL], ids=[row[0] for row in PARTIAL]
)
def test_a_call_cannot_be_built_from_partial_arguments(
    fields: dict[str, Any], error: type[Exception], *, message: str
) -> None:
    with pytest.raises(error) as raised:
        call(**fields)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "evidence", [CLOSED, CONFIRMED, CLOSED | SEALED, SEALED | CONFIRMED], ids=str
)
def test_a_closed_object_or_a_good_end_is_proof(evidence: Evidence) -> None:
    assert call(evidence=evidence).evidence is evidence


def test_a_call_may_rest_on_safe_repairs() -> None:
    repair = Repair("trailing_comma", ",}", "}")
    assert call(repairs=(repair,)).repairs == (repair,)


def test_a_replaced_call_is_checked_again() -> None:
    with pytest.raises(ValueError, match="not proven whole"):
        dataclasses.replace(call(), evidence=Evidence.NONE)


VALUES = [
    (call(), "name", "g"),
    (Rejected(reason=Reason.TRUNCATED, detail="cut"), "reason", Reason.SCHEMA),
    (CallDelta(0, "{"), "arguments", "{}"),
    (Usage(1, 2), "input_tokens", 3),
]


@pytest.mark.parametrize(
    ("value", "field", "other"), VALUES, ids=[type(row[0]).__name__ for row in VALUES]
)
def test_a_value_does_not_change(value: object, field: str, *, other: object) -> None:
    with pytest.raises(AttributeError):
        setattr(value, field, other)


def test_two_values_share_no_default() -> None:
    assert Reasoning("a").extras is not Reasoning("b").extras
    assert Usage().native is not Usage().native
    assert call().extras is not call().extras


def test_reasons_are_the_words_of_the_recorded_cases() -> None:
    words = {
        "truncated", "stream_dropped", "bad_json", "not_object", "schema", "unknown_tool",
        "no_name", "bad_markup", "degenerate", "ambiguous", "malformed_by_provider",
    }  # fmt: skip
    ours = {"content_filter", "limit", "written_as_text"}
    assert {reason.value for reason in Reason} == words | ours


def test_the_json_of_an_event_names_its_class() -> None:
    rejected = Rejected(reason=Reason.TRUNCATED, detail="cut", name="f")
    told = msgspec.json.decode(msgspec.json.encode([rejected, Usage(1, 2)]))
    assert [event["type"] for event in told] == ["Rejected", "Usage"]
    assert (told[0]["reason"], told[1]["input_tokens"]) == ("truncated", 1)
    assert msgspec.json.decode(msgspec.json.encode(rejected), type=Rejected | Usage) == rejected


def test_a_copied_call_shares_no_arguments() -> None:
    original = call(arguments={"list": [1]})
    copied = copy_call(original)
    assert copied == original
    copied.arguments["list"].append(2)
    assert original.arguments == {"list": [1]}
