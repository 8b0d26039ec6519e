"""Events as the page reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from inspector.recorded import Hider
from wholecall.agent.budget import Stop
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    RunEnded,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolReported,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.events import (
    Call,
    Coercion,
    Ended,
    Evidence,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    Inconsistent,
    Oddity,
    Opened,
    Problem,
    Proved,
    Reason,
    Rejected,
    Released,
    Repair,
    Repeated,
    Text,
    Usage,
)
from wholecall.inspector.page_encoder import (
    ENCODERS,
    MOST_CHARACTERS,
    MOST_MESSAGES,
    MOST_NAMES,
    Quoting,
    encode_event,
    encode_request,
)
from wholecall.messages import CallResult, Message, PastCall, Request, Result, Role, ToolSpec

OPEN = Quoting(bodies=True, hides=Hider("hunter2"))
CLOSED = OPEN._replace(bodies=False)
BIG = 12345678901234567890
CALL = Call(
    id="c1",
    name="look",
    arguments={"n": BIG, "word": "hunter2"},
    raw='{"n": "12345678901234567890", "word": "hunter2",}',
    evidence=Evidence.CLOSED | Evidence.CONFIRMED,
    repairs=(Repair("trailing_comma", "hunter2,}", "hunter2}"),),
    coercions=(Coercion("$.n", str(BIG), BIG),),
    dropped=("extra",),
)
REJECTED = Rejected(
    reason=Reason.SCHEMA,
    detail="the word hunter2 is wrong",
    name="look",
    id="c2",
    raw='{"n": 1}',
    number=1,
    problems=(Problem("$.n", "type", "n is wrong", received="hunter2", expected="a word"),),
)
REQUEST = Request(
    model="m",
    messages=(
        Message(Role.USER, (Text("hi"),)),
        Message(Role.ASSISTANT, (PastCall(id="c1", name="look", arguments={"n": BIG}),)),
        Message(
            Role.TOOL,
            (CallResult(call_id="c1", name="look", result=Result((Text("no"),), failed=True)),),
        ),
    ),
    tools=(ToolSpec("look"),),
)

EVENTS: list[tuple[object, dict[str, Any]]] = [
    (Opened(0, "c1", "look"), {"kind": "opened", "number": 0, "id": "c1", "name": "look"}),
    (Proved(0, Evidence.CLOSED), {"kind": "proved", "number": 0, "evidence": ["CLOSED"]}),
    (
        Released(CALL),
        {
            "kind": "released",
            "number": 0,
            "id": "c1",
            "name": "look",
            "evidence": ["CLOSED", "CONFIRMED"],
            "characters": len(CALL.raw),
            "raw": '{"n": "12345678901234567890", "word": "***",}',
            "arguments": '{"n": 12345678901234567890, "word": "***"}',
            "repairs": [{"kind": "trailing_comma", "before": "***,}", "after": "***}"}],
            "coercions": [{"path": "$.n", "before": f'"{BIG}"', "after": f"{BIG}"}],
            "dropped": ["extra"],
        },
    ),
    (
        REJECTED,
        {
            "kind": "rejected",
            "number": 1,
            "id": "c2",
            "name": "look",
            "reason": "schema",
            "detail": "the word *** is wrong",
            "characters": 8,
            "raw": '{"n": 1}',
            "problems": [
                {
                    "kind": "type",
                    "path": "$.n",
                    "message": "n is wrong",
                    "received": "***",
                    "expected": "a word",
                }
            ],
        },
    ),
    (Repeated(1, of=0), {"kind": "repeated", "number": 1, "of": 0}),
    (Usage(3, 4), {"kind": "usage", "input": 3, "output": 4}),
    (HintGiven(Hint.STOP, "stop"), {"kind": "hint", "hint": "stop", "native": "stop"}),
    (
        Inconsistent(Oddity.ID_MISSING, "hunter2", 0),
        {"kind": "odd", "oddity": "id_missing", "detail": "***", "number": 0},
    ),
    (
        Fault(FaultKind.PROTOCOL, "hunter2"),
        {"kind": "fault", "fault": "protocol", "message": "***"},
    ),
    (
        Ended("stop", Hint.STOP, "end_turn", None),
        {"kind": "ended", "finish_reason": "stop", "native": "end_turn"},
    ),
    (TurnStarted(2), {"kind": "turn", "turn": 2}),
    (TurnRetried(2, "hunter2"), {"kind": "turn_retried", "turn": 2, "why": "***"}),
    (RunEnded(Stop.ANSWER), {"kind": "run_ended", "stop": "answer"}),
    (
        RunEnded(Stop.TURNS, "hunter2"),
        {"kind": "run_ended", "stop": "turns", "no_answer": True, "why": "***"},
    ),
    (
        ToolStarted(CALL, 2),
        {"kind": "tool_started", "id": "c1", "name": "look", "attempt": 2},
    ),
    (
        ToolReported("c1", {"n": BIG}),
        {"kind": "tool_reported", "id": "c1", "progress": '{"n": 12345678901234567890}'},
    ),
    (
        ToolEnded(CALL, Status.FAILED, Result((Text("hunter2"),)), 0.5, KeyError("x")),
        {
            "kind": "tool_ended",
            "id": "c1",
            "name": "look",
            "status": "failed",
            "seconds": 0.5,
            "error": "KeyError",
            "result": "***",
        },
    ),
    (
        ToolEndedLate(CALL, Status.DONE, Result((Text("hunter2"),)), 40.5),
        {
            "kind": "tool_ended_late",
            "id": "c1",
            "name": "look",
            "status": "done",
            "seconds": 40.5,
            "result": "***",
        },
    ),
    (ToolAbandoned(CALL), {"kind": "tool_abandoned", "id": "c1", "name": "look"}),
    (ApprovalAsked(CALL), {"kind": "approval_asked", "id": "c1", "name": "look"}),
    (
        ApprovalAnswered(CALL, approved=False, why="hunter2"),
        {
            "kind": "approval_answered",
            "id": "c1",
            "name": "look",
            "approved": False,
            "why": "***",
        },
    ),
]
SAID = {"raw", "arguments", "detail", "message", "result", "progress", "path", "received"}


def tell(event: object, quoting: Quoting = OPEN) -> dict[str, Any]:
    """An event, as the page gets it."""
    return dict(msgspec.json.decode(msgspec.json.encode(encode_event(event, quoting))))


@pytest.mark.parametrize(("event", "told"), EVENTS, ids=lambda each: type(each).__name__)
def test_an_event_is_told_without_secrets(event: object, told: dict[str, Any]) -> None:
    assert tell(event) == told


@pytest.mark.parametrize("event", [event for event, _ in EVENTS])
def test_without_bodies_nothing_is_told_that_was_said(event: object) -> None:
    told = tell(event, CLOSED)
    text = str(told)
    assert told["kind"]
    assert not SAID & told.keys()
    assert str(BIG) not in text
    assert "wrong" not in text


def test_every_event_that_is_shown_is_in_the_table() -> None:
    assert {type(event) for event, _ in EVENTS} == set(ENCODERS)
    assert encode_event(Text("a text grows in another way"), OPEN) is None


def test_a_call_whose_values_were_changed_is_not_repaired() -> None:
    """The page tells by the field whether there were any."""
    assert "repairs" not in tell(Released(replace(CALL, repairs=(), dropped=())))


def test_a_call_that_was_not_changed_says_its_arguments_once() -> None:
    plain = replace(CALL, repairs=(), coercions=(), dropped=())
    assert "arguments" not in tell(Released(plain))


def test_a_name_that_is_a_sentence_is_not_told_without_bodies() -> None:
    opened = Opened(0, "c1", "call the bank about 1234")
    assert tell(opened)["name"] == "call the bank about 1234"
    assert tell(opened, CLOSED)["name"] == "(24 characters that are no name)"


def test_names_are_remembered_up_to_a_number() -> None:
    names: dict[str, str] = {}
    quoting = CLOSED._replace(names=names)
    for _ in range(2):
        assert quoting.name("hunter2-tool") == "***-tool"
        assert quoting.name("call the bank") == "(13 characters that are no name)"
        assert quoting.name(None) == quoting.name("") == ""
    assert len(names) == 2
    for number in range(MOST_NAMES):
        quoting.name(f"tool_{number}")
    assert len(names) == 2


def test_long_texts_are_cut_and_half_characters_replaced() -> None:
    rejected = replace(REJECTED, raw="x" * (MOST_CHARACTERS + 5), detail="half \ud83d")
    told = tell(rejected)
    assert told["raw"].endswith("x … and 5 more characters")
    assert told["detail"] == "half ?"


# ── Requests ────────────────────────────────────────────────────────────────────────


def test_a_request_tells_messages_and_tools() -> None:
    told = encode_request(REQUEST, OPEN)
    assert (told.tools, told.left_out) == (("look",), 0)
    assert list(told.messages) == [
        {"role": "user", "text": "hi"},
        {
            "role": "assistant",
            "text": "",
            "calls": [{"name": "look", "arguments": '{"n": 12345678901234567890}'}],
        },
        {
            "role": "tool",
            "text": "",
            "results": [{"name": "look", "failed": True, "text": "no"}],
        },
    ]
    assert encode_request(REQUEST, CLOSED).messages == ()


@pytest.mark.parametrize(("told", "fresh"), [(0, 3), (1, 2), (3, 3), (7, 3)])
def test_only_messages_that_were_not_told_before_are_told(told: int, fresh: int) -> None:
    encoded = encode_request(REQUEST, OPEN, told=told)
    assert len(encoded.messages) == fresh
    assert encoded.left_out == 3 - fresh


def test_of_a_long_history_the_end_is_told() -> None:
    messages = tuple(Message(Role.USER, (Text(str(n)),)) for n in range(MOST_MESSAGES + 10))
    told = encode_request(replace(REQUEST, messages=messages), OPEN)
    assert told.left_out == 10
    assert told.messages[0]["text"] == "10"
