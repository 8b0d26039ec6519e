"""Laws of answers: what a client reads is what was said, however its stream is cut."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoded_answers import CLIENTS, HEAD, Told, encode, of_choice, read, read_whole, told, turns
from wholecall.errors import UpstreamError
from wholecall.events import Event, Grew, Opened, Outcome, Proved, Rejected, Usage, collect
from wholecall.protocols.registry import encode_answer
from wholecall.protocols.response_base import ResponseStyle


def expect(protocol: str, outcome: Outcome) -> Told:
    """What of an answer can be read from it again: only good ones say what they cost."""
    expected = told(outcome)
    if expected.finish_reason is None:
        return expected._replace(tokens=None)
    unknown = (0, 0) if protocol == "anthropic" else None
    return expected._replace(tokens=expected.tokens or unknown)


@pytest.mark.parametrize("live", [False, True], ids=["gated", "live"])
@pytest.mark.parametrize("protocol", CLIENTS)
@given(data=st.data())
def test_a_stream_says_what_was_said(protocol: str, data: st.DataObject, *, live: bool) -> None:
    events = data.draw(turns(protocol))
    if live:  # a call that is shown and then rejected cannot be taken back
        events = [event for event in events if not is_of_rejected(event, events)]
    stream = encode(protocol, events, style=ResponseStyle(live=live, upstream=protocol))
    cuts = data.draw(st.lists(st.integers(min_value=0, max_value=len(stream)), max_size=6))
    actual = told(read(protocol, stream, cuts=cuts))
    expected = expect(protocol, collect(events))
    if expected.finish_reason is None:  # nothing is run, and its cost was never told
        expected, actual = expected._replace(calls=[]), actual._replace(tokens=None)
    assert actual == expected


@pytest.mark.parametrize("protocol", CLIENTS)
@given(data=st.data())
def test_a_body_says_what_was_said(protocol: str, data: st.DataObject) -> None:
    events = data.draw(turns(protocol))
    outcome = collect(events)
    if outcome.finish_reason is None:
        with pytest.raises(UpstreamError):
            encode_answer(protocol, events, head=HEAD, upstream=protocol)
    else:
        body = encode_answer(protocol, events, head=HEAD, upstream=protocol)
        assert told(read_whole(protocol, body)) == expect(protocol, outcome)


@pytest.mark.parametrize("protocol", CLIENTS)
@given(data=st.data())
def test_no_beginning_of_a_stream_looks_finished(protocol: str, data: st.DataObject) -> None:
    stream = encode(protocol, data.draw(turns(protocol)))
    end = data.draw(st.integers(min_value=0, max_value=max(len(stream) - 1, 0)))
    whole, cut = read(protocol, stream), read(protocol, stream[:end])
    if cut.finish_reason is not None:  # only the very last words are missing: `[DONE]`, usage
        assert (cut.text, cut.calls) == (whole.text, whole.calls)
        assert cut.finish_reason == whole.finish_reason


@given(turns("openai-chat"), turns("openai-chat"))
def test_the_choices_of_a_stream_do_not_mix(first: list[Event], second: list[Event]) -> None:
    other = of_choice(1, [event for event in second if not isinstance(event, Usage)])
    mixed = [event for pair in zip_longest(first, other) for event in pair if event is not None]
    outcome, expected = read("openai-chat", encode("openai-chat", mixed)), collect(mixed)
    if None in (expected.finish_reason, expected.choices[1].finish_reason):
        assert outcome.finish_reason is None
    else:
        assert told(outcome) == told(expected)
        assert told(outcome.choices[1]) == told(expected.choices[1])


def is_of_rejected(event: Event, events: list[Event]) -> bool:
    rejected = {each.number for each in events if isinstance(each, Rejected)}
    return isinstance(event, Opened | Grew | Proved | Rejected) and event.number in rejected
