from __future__ import annotations

from collections.abc import Sequence

import pytest

from encoded_answers import ended, grown, make_call
from wholecall.errors import ProtocolError
from wholecall.events import (
    Call,
    Coercion,
    Event,
    Fault,
    FaultKind,
    Grew,
    Hint,
    HintGiven,
    Opened,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Repeated,
    Text,
)
from wholecall.protocols.response_base import FinishReason
from wholecall.protocols.response_encoder import Delivery, blame, finish_of


class Words:
    """A choice written in words."""

    opening = b""

    def say(self, text: str, /) -> bytes:
        return f"say {text};".encode()

    def think(self, event: Reasoning, /) -> bytes:
        return f"think {event.text};".encode()

    def add_block(self, native: object, /) -> bytes:
        return f"block {native};".encode()

    def add_call(self, call: Call, arguments: str, /) -> bytes:
        return f"call {call.id} {arguments};".encode()

    def open_call(self, opened: Opened, /) -> bytes:
        return f"begin {opened.id};".encode()

    def grow_call(self, number: int, text: str, /) -> bytes:
        return f"grow {number} {text};".encode()

    def close_call(self, call: Call, arguments: str, /) -> bytes:
        return f"close {call.id} {arguments};".encode()


REJECTED = Rejected(reason=Reason.SCHEMA, detail="no city", id="call_0", number=0)
EMPTY = make_call(0, {})
COERCED = make_call(0, {"days": 3}, raw='{"days": "3"}', coercions=(Coercion("$.days", "3", 3),))
SPACED = make_call(0, raw='{ "city" : "Oslo" }')
BEGUN = [Opened(0, "call_0", "weather"), Grew(0, '{"city')]
ROWS: list[tuple[str, Sequence[Event], str, str]] = [
    (
        "a call is sent when it is released; live, as it grows",
        grown(make_call(), size=9),
        'call call_0 {"city":"Oslo"};',
        'begin call_0;grow 0 {"city":";grow 0 Oslo"};close call_0 {"city":"Oslo"};',
    ),
    (
        "a call without arguments has {}",
        [Opened(0, "call_0", "weather"), Released(EMPTY)],
        "call call_0 {};",
        "begin call_0;grow 0 {};close call_0 {};",
    ),
    (
        "blank text is no arguments either",
        [Opened(0, "call_0", "weather"), Grew(0, " "), Released(EMPTY)],
        "call call_0 {};",
        "begin call_0;grow 0  ;grow 0 {};close call_0 {};",
    ),
    (
        "a healthy call leaves as the model wrote it",
        grown(SPACED, size=99),
        'call call_0 { "city" : "Oslo" };',
        'begin call_0;grow 0 { "city" : "Oslo" };close call_0 { "city" : "Oslo" };',
    ),
    (
        "a call that nobody saw growing is sent whole",
        [Grew(0, '{"city":"Oslo"}'), Released(make_call())],
        'call call_0 {"city":"Oslo"};',
        'call call_0 {"city":"Oslo"};',
    ),
    (
        "of arguments that came twice one copy is sent",
        [Released(make_call(raw='{"city": "Oslo"}{"city": "Oslo"}'))],
        'call call_0 {"city":"Oslo"};',
        'call call_0 {"city":"Oslo"};',
    ),
    (
        "a text that Python takes for the same is not sent",
        [Released(make_call(0, {"days": 3}, raw='{"days": 3.0}', coercions=COERCED.coercions))],
        'call call_0 {"days":3};',
        'call call_0 {"days":3};',
    ),
    (
        "a text that says something else is not sent",
        [Released(make_call(raw='{"city": "Rome"}'))],
        'call call_0 {"city":"Oslo"};',
        'call call_0 {"city":"Oslo"};',
    ),
    (
        "a rejected call that nobody saw is not sent",
        [Text("Hm"), REJECTED, Repeated(1, 0)],
        "say Hm;",
        "say Hm;",
    ),
    (
        "words go out as they come",
        [Reasoning("I"), Text("You"), Text(""), ProviderBlock({}), HintGiven(Hint.STOP, "stop")],
        "think I;say You;block {};",
        "think I;say You;block {};",
    ),
]


@pytest.mark.parametrize(
    ("events", "gated", "live"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_sent_when(events: Sequence[Event], gated: str, *, live: str) -> None:
    for is_live, expected in ((False, gated), (True, live)):
        delivery = Delivery(Words(), live=is_live)
        assert b"".join(map(delivery.take, events)).decode() == expected


@pytest.mark.parametrize(
    ("events", "why", "gated"),
    [
        ([*BEGUN, REJECTED], "call 'call_0' was rejected: no city", b""),
        ([*BEGUN, Repeated(0, 4)], "call 0 only repeats call 4", b""),
        (grown(COERCED, size=99), "'call_0' were changed after", b'call call_0 {"days":3};'),
        (
            [*BEGUN, Released(make_call())],
            "'call_0' were changed after",
            b'call call_0 {"city":"Oslo"};',
        ),
    ],
    ids=["rejected", "a repeat", "coerced", "completed"],
)
def test_a_promise_that_cannot_be_kept(events: list[Event], why: str, *, gated: bytes) -> None:
    *shown, last = events
    live = Delivery(Words(), live=True)
    for event in shown:
        live.take(event)
    with pytest.raises(ProtocolError, match=why):
        live.take(last)
    assert b"".join(map(Delivery(Words(), live=False).take, events)) == gated


@pytest.mark.parametrize(
    ("said", "called", "expected"),
    [
        ("stop", False, "stop"),
        ("stop", True, "tool_calls"),
        ("tool_calls", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        ("length", False, "length"),
        ("length", True, "tool_calls"),
        ("content_filter", True, "content_filter"),
    ],
)
def test_the_finish_is_what_the_client_really_got(
    said: str, called: bool, *, expected: str
) -> None:
    assert finish_of(ended(said, "native"), called=called) == FinishReason(expected, "native")


def test_a_cut_answer_has_no_finish() -> None:
    assert finish_of(None, called=False) is None
    assert finish_of(ended(None), called=True) is None


def test_a_lane_knows_what_it_sent() -> None:
    for live in (False, True):
        delivery = Delivery(Words(), live=live)
        for event in [*grown(make_call()), ended("stop")]:
            delivery.take(event)
        assert delivery.finish() == FinishReason("tool_calls")


def test_the_first_fault_is_kept_until_a_turn_ends_well() -> None:
    delivery = Delivery(Words(), live=False)
    first = Fault(FaultKind.UPSTREAM_ERROR, "overloaded")
    for event in (first, Fault(FaultKind.PROTOCOL, "and more"), ended(None)):
        delivery.take(event)
    assert (delivery.fault, delivery.finish()) == (first, None)
    delivery.take(ended("stop"))
    assert (delivery.fault, delivery.finish()) == (None, FinishReason("stop"))


def test_the_first_fault_is_to_blame_and_without_one_the_cut() -> None:
    faults = [Fault(FaultKind.UPSTREAM_ERROR, "overloaded"), Fault(FaultKind.PROTOCOL, "later")]
    assert (str(blame(faults)), blame(faults).code) == ("overloaded", "upstream_error")
    cut = blame([])
    assert (str(cut), cut.code) == ("the answer was cut off before its end", "stream_dropped")
