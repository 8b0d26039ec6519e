from __future__ import annotations

import pytest

from encoded_answers import ended, grown, make_call, of_choice
from wholecall.errors import UpstreamError
from wholecall.events import (
    Event,
    Fault,
    FaultKind,
    Opened,
    ProviderBlock,
    Reason,
    Reasoning,
    Rejected,
    Text,
    Usage,
)
from wholecall.messages import Native, PastCall
from wholecall.protocols.response_base import FinishReason
from wholecall.protocols.response_encoder import GatheredChoice, gather


def test_parts_stand_in_their_order_without_what_was_rejected() -> None:
    events: list[Event] = [
        Reasoning("I "),
        Reasoning("think"),
        Reasoning("", {"signature": "s"}),
        ProviderBlock({"type": "x"}),
        Opened(0, "call_0", "weather"),
        Rejected(reason=Reason.SCHEMA, detail="no", name="weather", id="call_0", number=0),
        *grown(make_call(1)),
        Text("B"),
        Text("ye"),
        Usage(1, None),
        Usage(None, 2),
        ended("tool_calls", "tool_use"),
    ]
    whole = gather(events, upstream="anthropic")
    call = PastCall(id="call_1", name="weather", arguments={"city": "Oslo"})
    parts = (
        Reasoning("I think", {"signature": "s"}),
        Native("anthropic", {"type": "x"}),
        call,
        Text("Bye"),
    )
    assert whole.choices == {0: GatheredChoice(parts, FinishReason("tool_calls", "tool_use"))}
    assert whole.usage == Usage(1, 2)


def test_choices_are_kept_apart() -> None:
    other = of_choice(1, [Text("Ho"), ended("length")])
    whole = gather([Text("Hi"), *other, ended("stop")])
    assert whole.choices[0] == GatheredChoice((Text("Hi"),), FinishReason("stop"))
    assert whole.choices[1] == GatheredChoice((Text("Ho"),), FinishReason("length"))


@pytest.mark.parametrize(
    ("events", "message", "code"),
    [
        ([Text("Hi")], "cut off before its end", "stream_dropped"),
        ([Text("Hi"), ended(None)], "cut off before its end", "stream_dropped"),
        ([Fault(FaultKind.PROTOCOL, "is no JSON"), ended(None)], "is no JSON", "protocol"),
        ([ended("stop"), *of_choice(1, [Text("Ho")])], "cut off before its end", "stream_dropped"),
    ],
    ids=["no end", "cut", "failed", "another choice"],
)
def test_what_did_not_end_well_is_no_answer(
    events: list[Event], message: str, *, code: str
) -> None:
    with pytest.raises(UpstreamError, match=message) as caught:
        gather(events)
    assert caught.value.code == code
