"""Events as the page reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from inspector.recorded import Hider
from wholecall.agent.budget import Stop
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ElicitationAnswered,
    ElicitationAsked,
    Resumed,
    RunEnded,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolRecalled,
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
    Value,
)
from wholecall.inspector.page_encoder import (
    ENCODERS,
    MOST_CHARACTERS,
    MOST_MESSAGES,
    MOST_NAMES,
    Quoting,
    encode_request,
    make_encoder,
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

NAMED = {"id": "c1", "name": "look"}
SHOWN = {
    "number": 0,
    "id": "c1",
    "name": "look",
    "evidence": ["CLOSED", "CONFIRMED"],
    "raw": '{"n": "12345678901234567890", "word": "***",}',
    "arguments": '{"n": 12345678901234567890, "word": "***"}',
    "repairs": [{"kind": "trailing_comma", "before": "***,}", "after": "***}"}],
    "coercions": [{"path": "$.n", "before": f'"{BIG}"', "after": f"{BIG}"}],
    "dropped": ["extra"],
}
EVENTS: list[tuple[object, dict[str, Any]]] = [
    (Opened(0, "c1", "look"), {"number": 0, "id": "c1", "name": "look"}),
    (Proved(0, Evidence.CLOSED), {"number": 0, "evidence": ["CLOSED"]}),
    (
        Released(CALL),
        {"call": SHOWN},
    ),
    (
        REJECTED,
        {
            "number": 1,
            "id": "c2",
            "name": "look",
            "reason": "schema",
            "detail": "the word *** is wrong",
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
    (Repeated(1, of=0), {"number": 1, "of": 0}),
    (Usage(3, 4, {"said": "wrong"}), {"input_tokens": 3, "output_tokens": 4}),
    (HintGiven(Hint.STOP, "stop"), {"hint": "stop", "native": "stop"}),
    (
        Inconsistent(Oddity.ID_MISSING, "hunter2", 0),
        {"oddity": "id_missing", "detail": "***", "number": 0},
    ),
    (
        Fault(FaultKind.PROTOCOL, "hunter2", {"said": "wrong"}),
        {"kind": "protocol", "message": "***"},
    ),
    (
        Ended("stop", Hint.STOP, "end_turn", "hunter2"),
        {"finish_reason": "stop", "hint": "stop", "native": "end_turn", "error": "***"},
    ),
    (TurnStarted(2), {"turn": 2}),
    (TurnRetried(2, "hunter2"), {"turn": 2, "why": "***"}),
    (RunEnded(Stop.ANSWER), {"stop": "answer"}),
    (RunEnded(Stop.TURNS, "hunter2"), {"stop": "turns", "no_answer": "***"}),
    (ToolStarted(CALL, 2), {"call": NAMED, "attempt": 2}),
    (
        ToolReported("c1", {"n": BIG}),
        {"call_id": "c1", "progress": '{"n": 12345678901234567890}'},
    ),
    (
        ToolEnded(CALL, Status.FAILED, Result((Text("hunter2"),)), 0.5, KeyError("wrong")),
        {"call": NAMED, "status": "failed", "seconds": 0.5, "error": "KeyError", "result": "***"},
    ),
    (
        ToolEndedLate(CALL, Status.DONE, Result((Text("hunter2"),)), 40.5),
        {"call": NAMED, "status": "done", "seconds": 40.5, "result": "***"},
    ),
    (ToolAbandoned(CALL), {"call": NAMED}),
    (Resumed(3, "b", "a"), {"turn": 3, "worker": "b", "taken": True}),
    (Resumed(1, "b"), {"turn": 1, "worker": "b", "taken": False}),
    (ToolRecalled(CALL, Status.DONE), {"call": SHOWN, "status": "done"}),
    (ApprovalAsked(CALL), {"call": NAMED}),
    (
        ApprovalAnswered(CALL, approved=False, why="hunter2"),
        {"call": NAMED, "approved": False, "why": "***"},
    ),
    (
        ElicitationAsked(CALL, "post", "hunter2?"),
        {"call": NAMED, "server": "post", "message": "***?"},
    ),
    (ElicitationAnswered(CALL, "accept"), {"call": NAMED, "action": "accept"}),
]
SAID = {"arguments", "detail", "message", "result", "progress", "received", "before"}


def tell(event: object, quoting: Quoting = OPEN) -> dict[str, Any]:
    """An event, as the page gets it."""
    shown = ENCODERS[type(event)](event, quoting)
    return dict(msgspec.json.decode(msgspec.json.encode(shown)))


def list_names(value: Any) -> Iterator[str]:
    """The names of all fields, of parts as well."""
    if isinstance(value, dict):
        yield from value
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            yield from list_names(part)


@pytest.mark.parametrize(("event", "told"), EVENTS, ids=lambda each: type(each).__name__)
def test_an_event_is_told_without_secrets(event: object, told: dict[str, Any]) -> None:
    assert tell(event) == {"type": type(event).__name__, **told}


@pytest.mark.parametrize("event", [event for event, _ in EVENTS])
def test_without_bodies_nothing_is_told_that_was_said(event: object) -> None:
    told = tell(event, CLOSED)
    text = str(told)
    assert told["type"]
    assert not SAID & {*list_names(told)}
    assert "hunter2" not in text
    assert "$.n" not in text
    assert str(BIG) not in text
    assert "wrong" not in text


def test_every_event_that_is_shown_is_in_the_table() -> None:
    assert {type(event) for event, _ in EVENTS} == set(ENCODERS)
    assert Text not in ENCODERS  # a text grows in another way


def test_without_bodies_it_is_told_how_long_arguments_are_and_that_there_is_no_answer() -> None:
    assert tell(Released(CALL), CLOSED)["call"]["raw"] == len(CALL.raw)
    assert tell(REJECTED, CLOSED)["raw"] == len(REJECTED.raw)
    assert tell(RunEnded(Stop.TURNS, "hunter2"), CLOSED)["no_answer"] is True


def test_a_field_without_a_rule_is_not_shown() -> None:
    class New(Value, frozen=True):
        number: int
        novelty: str

    assert make_encoder(New)(New(1, "hunter2"), OPEN) == {"type": "New", "number": 1}


def test_a_call_whose_values_were_changed_is_not_repaired() -> None:
    """The page tells by the field whether there were any."""
    assert "repairs" not in tell(Released(replace(CALL, repairs=(), dropped=())))["call"]


def test_a_call_that_was_not_changed_says_its_arguments_once() -> None:
    plain = replace(CALL, repairs=(), coercions=(), dropped=())
    assert "arguments" not in tell(Released(plain))["call"]


def test_a_name_that_is_a_sentence_is_not_told_without_bodies() -> None:
    opened = Opened(0, "c1", "call the bank about 1234")
    assert tell(opened)["name"] == "call the bank about 1234"
    assert tell(opened, CLOSED)["name"] == "(24 characters that are not a name)"


def test_names_are_remembered_up_to_a_number() -> None:
    names: dict[str, str] = {}
    quoting = CLOSED._replace(names=names)
    for _ in range(2):
        assert quoting.name("hunter2-tool") == "***-tool"
        assert quoting.name("call the bank") == "(13 characters that are not a name)"
        assert quoting.name(None) == quoting.name("") == ""
    assert len(names) == 2
    for number in range(MOST_NAMES):
        quoting.name(f"tool_{number}")
    assert len(names) == 2


def test_long_texts_are_cut_and_half_characters_replaced() -> None:
    rejected = msgspec.structs.replace(
        REJECTED, raw="x" * (MOST_CHARACTERS + 5), detail="half \ud83d"
    )
    told = tell(rejected)
    assert told["raw"].endswith("x … and 5 more characters")
    assert told["detail"] == "half ?"


# ── Requests ────────────────────────────────────────────────────────────────────────


def test_a_request_tells_messages_and_tools() -> None:
    told = encode_request(REQUEST, OPEN)
    assert (told["tools"], told["left_out"]) == (("look",), 0)
    assert told["messages"] == [
        {"role": Role.USER, "text": "hi"},
        {
            "role": Role.ASSISTANT,
            "text": "",
            "calls": [{"name": "look", "arguments": '{"n": 12345678901234567890}'}],
        },
        {
            "role": Role.TOOL,
            "text": "",
            "results": [{"name": "look", "failed": True, "text": "no"}],
        },
    ]
    assert "messages" not in encode_request(REQUEST, CLOSED)


@pytest.mark.parametrize(("told", "fresh"), [(0, 3), (1, 2), (3, 3), (7, 3)])
def test_only_messages_that_were_not_told_before_are_told(told: int, fresh: int) -> None:
    encoded = encode_request(REQUEST, OPEN, told=told)
    assert len(encoded["messages"]) == fresh
    assert encoded["left_out"] == 3 - fresh


def test_of_a_long_history_the_end_is_told() -> None:
    messages = tuple(Message(Role.USER, (Text(str(n)),)) for n in range(MOST_MESSAGES + 10))
    told = encode_request(replace(REQUEST, messages=messages), OPEN)
    assert told["left_out"] == 10
    assert told["messages"][0]["text"] == "10"
