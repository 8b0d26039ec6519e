from __future__ import annotations

from collections.abc import Callable

import pytest

from encoded_answers import (
    CLIENTS,
    HEAD,
    LIVE,
    encode,
    ended,
    grown,
    make_call,
    payloads,
    read,
    take_apart,
)
from wholecall.errors import UpstreamError
from wholecall.events import (
    Event,
    Fault,
    FaultKind,
    Grew,
    OfChoice,
    Opened,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Text,
    Usage,
)
from wholecall.protocols.registry import make_encoder
from wholecall.protocols.response_base import KEEP_ALIVE, Failure
from wholecall.protocols.response_encoder import Encoder

TERMINATORS = {
    "openai-chat": b"[DONE]",
    "openai-responses": b"response.completed",
    "anthropic": b"message_stop",
}
ANSWER: list[Event] = [Text("Hi"), *grown(make_call()), ended("tool_calls")]


@pytest.mark.parametrize("protocol", CLIENTS)
class TestEveryProtocol:
    def test_a_stream_begins_once_whoever_begins_it(self, protocol: str) -> None:
        explicit, implicit = make_encoder(protocol, HEAD), make_encoder(protocol, HEAD)
        opening = explicit.begin()
        assert opening
        assert explicit.begin() == b""
        assert implicit.encode(Text("Hi")) == opening + explicit.encode(Text("Hi"))

    def test_an_empty_answer_begins_and_ends(self, protocol: str) -> None:
        encoder = make_encoder(protocol, HEAD)
        stream = encoder.encode(ended("stop")) + encoder.finish()
        assert stream == encode(protocol, [ended("stop")])
        assert TERMINATORS[protocol] in stream

    def test_nothing_comes_behind_the_end(self, protocol: str) -> None:
        encoder = make_encoder(protocol, HEAD)
        encoder.encode(ended("stop"))
        states = [encoder.is_over, bool(encoder.finish()), encoder.is_over]
        assert states == [False, True, True]
        assert _write_more(encoder) == b""

    def test_nothing_comes_behind_an_error(self, protocol: str) -> None:
        encoder = make_encoder(protocol, HEAD)
        encoder.encode(Text("Hi"))
        stream = encoder.fail(Failure(message="gone"))
        assert b"gone" in stream
        assert TERMINATORS[protocol] not in stream
        assert encoder.is_over
        assert _write_more(encoder) == b""

    @pytest.mark.parametrize(
        ("events", "message"),
        [
            ([Text("Hi")], "the answer was cut off before its end"),
            ([Text("Hi"), ended(None)], "the answer was cut off before its end"),
            ([Fault(FaultKind.UPSTREAM_ERROR, "overloaded"), ended(None)], "overloaded"),
        ],
        ids=["no end", "cut", "failed"],
    )
    def test_an_answer_that_did_not_end_well_never_looks_finished(
        self, protocol: str, events: list[Event], *, message: str
    ) -> None:
        stream = encode(protocol, events)
        assert message.encode() in stream
        assert TERMINATORS[protocol] not in stream
        encoder = make_encoder(protocol, HEAD)
        for event in events:
            encoder.encode(event)
        with pytest.raises(UpstreamError, match=f"^{message}$"):
            encoder.demand_end()

    def test_how_an_answer_will_end_is_known_before_its_end_is_written(self, protocol: str) -> None:
        encoder = make_encoder(protocol, HEAD)
        with pytest.raises(UpstreamError) as cut:
            encoder.demand_end()
        assert cut.value.code == "stream_dropped"
        encoder.encode(ended("stop"))
        encoder.demand_end()
        encoder.finish()
        encoder.demand_end()

    def test_a_second_answer_behind_the_end_of_the_first_is_not_read(self, protocol: str) -> None:
        first = encode(protocol, [Text("Hi"), ended("stop")])
        outcome = read(protocol, first + encode(protocol, ANSWER))
        assert (outcome.text, outcome.calls) == ("Hi", ())
        assert "after_end" in {odd.oddity.value for odd in outcome.inconsistencies}

    def test_a_broken_promise_ends_the_stream(self, protocol: str) -> None:
        encoder = make_encoder(protocol, HEAD, style=LIVE)
        begun: list[Event] = [Opened(0, "call_0", "weather"), Grew(0, '{"city')]
        rejected = Rejected(reason=Reason.TRUNCATED, detail="it was cut off", number=0)
        shown = b"".join(map(encoder.encode, begun))
        assert b"call_0" in shown
        assert b"it was cut off" in encoder.encode(rejected)
        assert encoder.is_over
        with pytest.raises(UpstreamError) as broken:
            encoder.demand_end()
        assert broken.value.code == "broken_answer"
        assert encoder.encode(ended("length")) + encoder.finish() == b""

    def test_waiting_clients_get_a_sign_of_life_at_any_time(self, protocol: str) -> None:
        encoder = make_encoder(protocol, HEAD)
        assert encoder.keep_alive() == KEEP_ALIVE
        encoder.begin()
        assert len(take_apart(encoder.keep_alive())) == 1

    def test_progress_begins_a_stream(self, protocol: str) -> None:
        encoder, other = make_encoder(protocol, HEAD), make_encoder(protocol, HEAD)
        opening = other.begin()
        assert encoder.report({"turn": 2}) == opening + other.report({"turn": 2})
        assert b'{"turn":2}' in encoder.report({"turn": 2})

    def test_a_character_that_was_cut_in_two_arrives_as_one(self, protocol: str) -> None:
        thought: list[Event] = [Reasoning("\ud83d"), Reasoning("\ude00 and \ud83d")]
        said: list[Event] = [Text("a\ud83d"), Text("\ude00b\ud83d"), ended()]
        stream = encode(protocol, [*thought, *said])
        assert b"\\ud" not in stream
        outcome = read(protocol, stream)
        assert (outcome.text, outcome.error) == ("a😀b\ufffd", None)
        assert "😀 and " in stream.decode()

    @pytest.mark.parametrize("halves", [("\ud83d", "\ude00"), (r"\ud83d", r"\ude00")])
    def test_arguments_that_grow_are_cut_at_no_half(
        self, protocol: str, halves: tuple[str, str]
    ) -> None:
        first, second = halves
        raw = f'{{"city": "{first}{second}"}}'
        call = make_call(arguments={"city": "😀"}, raw=raw)
        pieces = [f'{{"city": "{first}', f'{second}"}}']
        shown: list[Event] = [Opened(0, call.id, call.name), *(Grew(0, each) for each in pieces)]
        stream = encode(protocol, [*shown, Released(call), ended("tool_calls")], style=LIVE)
        stream.decode()
        assert first.encode("utf-8", "replace") + b'"' not in stream
        outcome = read(protocol, stream)
        assert [each.arguments for each in outcome.calls] == [{"city": "😀"}]
        assert not outcome.calls[0].repairs

    def test_intermediate_turns_are_one_answer(self, protocol: str) -> None:
        once = encode(protocol, [Text("Hi"), Usage(5, 7), ended("stop")])
        turns: list[Event] = [
            ended("tool_calls"),
            Text("Hi"),
            Usage(1, 2),
            Usage(5, 7),
            ended("stop"),
        ]
        assert encode(protocol, turns) == once


def _write_more(encoder: Encoder) -> bytes:
    steps: list[Callable[[], bytes]] = [
        encoder.begin,
        lambda: encoder.encode(Text("more")),
        lambda: encoder.encode(Usage(1, 2)),
        lambda: encoder.encode(OfChoice(1, Text("more"))),
        lambda: encoder.report({}),
        encoder.keep_alive,
        lambda: encoder.fail(Failure(message="late")),
        encoder.finish,
    ]
    return b"".join(step() for step in steps)


@pytest.mark.parametrize("protocol", ["openai-responses", "anthropic"])
def test_other_choices_have_no_place_where_there_is_but_one(protocol: str) -> None:
    others: list[Event] = [OfChoice(1, event) for event in ANSWER]
    assert encode(protocol, [*others, *ANSWER]) == encode(protocol, ANSWER)


def test_one_choice_that_was_cut_fails_the_stream() -> None:
    other: list[Event] = [OfChoice(1, Text("Ho")), OfChoice(1, ended(None))]
    last = payloads(encode("openai-chat", [*ANSWER, *other]))[-1]
    assert last["error"]["code"] == "stream_dropped"


def test_what_the_request_cost_may_be_known_before_the_beginning() -> None:
    encoder = make_encoder("anthropic", HEAD)
    assert encoder.encode(Usage(5, 1, {"input_tokens": 5, "output_tokens": 1})) == b""
    [start] = payloads(encoder.begin())
    assert start["message"]["usage"] == {"input_tokens": 5, "output_tokens": 1}
    encoder.encode(Usage(None, 9, {"output_tokens": 9}))
    encoder.encode(ended("stop"))
    delta = payloads(encoder.finish())[-2]
    assert delta["usage"] == {"input_tokens": 5, "output_tokens": 9}
