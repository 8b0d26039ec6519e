"""Answers for the tests of their encoders: by hand, taken apart, and made up by hypothesis."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hypothesis import strategies as st

from conversations import arguments
from wholecall.events import (
    JSON,
    Call,
    Ended,
    Event,
    Evidence,
    Grew,
    Hint,
    Inconsistent,
    Oddity,
    OfChoice,
    Opened,
    Outcome,
    Proved,
    Reason,
    Reasoning,
    Rejected,
    Released,
    Text,
    Usage,
    collect,
)
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import make_encoder
from wholecall.protocols.response_base import ResponseHead, ResponseStyle

CLIENTS = ("openai-chat", "openai-responses", "anthropic")
HEAD = ResponseHead(id="resp_7", model="m", created=7, rest={"system_fingerprint": "fp"})
LIVE = ResponseStyle(live=True)


# ── By hand ─────────────────────────────────────────────────────────────────────────


def make_call(number: int = 0, arguments: Mapping[str, JSON] | None = None, **fields: Any) -> Call:
    given = {"city": "Oslo"} if arguments is None else arguments
    whole: dict[str, Any] = {
        "id": f"call_{number}",
        "name": "weather",
        "arguments": given,
        "raw": json.dumps(given, separators=(",", ":")),
        "evidence": Evidence.CLOSED,
        "number": number,
        **fields,
    }
    return Call(**whole)


def grown(call: Call, size: int = 5) -> list[Event]:
    """The events of a call that is built piece by piece, up to its release."""
    pieces = [call.raw[start : start + size] for start in range(0, len(call.raw), size)]
    return [
        Opened(call.number, call.id, call.name),
        *(Grew(call.number, piece) for piece in pieces),
        Released(call),
    ]


def ended(reason: str | None = "stop", native: str | None = None) -> Ended:
    return Ended(reason, Hint.STOP, native, None if reason else "stream_dropped")


def encode(protocol: str, events: Iterable[Event], *, style: ResponseStyle | None = None) -> bytes:
    encoder = make_encoder(protocol, HEAD, style=style or ResponseStyle())
    return b"".join([encoder.begin(), *map(encoder.encode, events), encoder.finish()])


class Frame(NamedTuple):
    name: str
    payload: Any


def take_apart(stream: bytes) -> list[Frame]:
    """The frames of a stream; a comment is a frame without a name whose payload is its text."""
    assert stream.endswith(b"\n\n") or not stream
    return [_read(block.split("\n")) for block in stream.decode().split("\n\n") if block]


def _read(lines: list[str]) -> Frame:
    if lines[0].startswith(":"):
        [only] = lines
        return Frame("", only)
    *names, data = lines
    name = "".join(line.removeprefix("event: ") for line in names)
    text = data.removeprefix("data: ")
    return Frame(name, text if text == "[DONE]" else json.loads(text))


def payloads(stream: bytes) -> list[Any]:
    return [frame.payload for frame in take_apart(stream)]


def read(protocol: str, stream: bytes, *, cuts: Sequence[int] = ()) -> Outcome:
    """What our own reader makes of a stream that arrives in pieces."""
    reader = Reader(protocol)
    bounds = [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(bounds)]
    return collect([*(event for piece in pieces for event in reader.feed(piece)), *reader.end()])


def read_whole(protocol: str, body: Mapping[str, Any]) -> Outcome:
    reader = Reader(protocol)
    return collect([*reader.feed_response(json.dumps(body)), *reader.end()])


# ── Made up ─────────────────────────────────────────────────────────────────────────

ENDINGS = ("stop", "length", "content_filter")
pieces = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4)
counts = st.integers(min_value=0, max_value=10**6)
tokens = st.text("abcdefgh01", min_size=1, max_size=12)


def turns(
    protocol: str, reasons: Sequence[str | None] = (*ENDINGS, None)
) -> st.SearchStrategy[list[Event]]:
    """The events of one turn in which stands what the protocol can carry."""
    return st.builds(
        _join,
        st.lists(st.one_of(_words(protocol), calls, rejections), max_size=5),
        st.none() | st.builds(Usage, counts, counts),
        reason=st.sampled_from(reasons),
    )


def _words(protocol: str) -> st.SearchStrategy[list[Event]]:
    said = pieces.map(lambda texts: [Text(text) for text in texts])
    return st.one_of(said, st.builds(_FORMS[protocol], pieces, tokens))


def _think_in_chat(texts: list[str], _: str) -> list[Event]:
    return [Reasoning(text) for text in texts]


def _think_in_responses(texts: list[str], token: str) -> list[Event]:
    summary = [{"type": "summary_text", "text": "".join(texts)}]
    item = {"type": "reasoning", "id": f"rs_{token}", "summary": summary}
    return [*map(Reasoning, texts), Reasoning("", {"item": {**item, "encrypted_content": token}})]


def _think_in_messages(texts: list[str], token: str) -> list[Event]:
    return [*map(Reasoning, texts), Reasoning("", {"signature": token})]


_FORMS = {
    "openai-chat": _think_in_chat,
    "openai-responses": _think_in_responses,
    "anthropic": _think_in_messages,
}
calls = st.builds(
    lambda given, size: grown(make_call(arguments=given), size),
    arguments,
    st.integers(min_value=1, max_value=9),
)
rejections = st.just(
    [
        Opened(0, "call_0", "weather"),
        Grew(0, '{"city": "Os'),
        Rejected(reason=Reason.TRUNCATED, detail="cut off", name="weather", id="call_0"),
    ]
)


def _join(parts: list[list[Event]], usage: Usage | None, *, reason: str | None) -> list[Event]:
    """One turn: calls and items that are told apart by their numbers, and an end that fits."""
    events = [event for number, part in enumerate(parts) for event in _number(part, number)]
    called = any(isinstance(event, Released) for event in events)
    if called and reason is not None:
        reason = "tool_calls"
    odd = Inconsistent(Oddity.HINT_MISSING)
    told: list[Event] = [] if usage is None else [usage]
    return [*events, odd, *told, Ended(reason, None, None, None if reason else "stream_dropped")]


def _number(events: list[Event], number: int) -> Iterator[Event]:
    for event in events:
        match event:
            case Opened():
                yield Opened(number, f"call_{number}", event.name)
                yield Proved(number, Evidence.SEALED)
            case Grew():
                yield Grew(number, event.text)
            case Released():
                yield Released(make_call(number, event.call.arguments))
            case Rejected():
                yield Rejected(reason=event.reason, detail=event.detail, number=number)
            case Reasoning(extras={"item": item}):
                yield Reasoning("", {"item": {**item, "id": f"{item['id']}_{number}"}})
            case _:
                yield event


class Told(NamedTuple):
    """What a client can know of an answer, whatever its protocol."""

    text: str
    reasoning: str
    calls: list[tuple[str, str, Mapping[str, JSON]]]
    finish_reason: str | None
    tokens: tuple[int | None, int | None] | None
    sealed: list[Any]
    """Signatures and items that go back with the reasoning."""


def told(outcome: Outcome) -> Told:
    # What belongs to the text before it: its item, or that the next one is a block of its own.
    of_text = {"message", "citations"}
    extras = [extra for extra in outcome.reasoning_extras if of_text.isdisjoint(extra)]
    usage = outcome.usage
    return Told(
        outcome.text,
        outcome.reasoning,
        [(call.id, call.name, call.arguments) for call in outcome.calls],
        outcome.finish_reason,
        None if usage is None else (usage.input_tokens or 0, usage.output_tokens or 0),
        extras,
    )


def of_choice(choice: int, events: Iterable[Event]) -> list[Event]:
    return [OfChoice(choice, event) for event in events]
