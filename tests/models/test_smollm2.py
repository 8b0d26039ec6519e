"""A real model, too small to be right: its calls fit their schemas all the same, come in
pieces, and stop when nobody waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from models.conftest import Model
from wholecall.agent.turn import sender_for
from wholecall.errors import UpstreamError
from wholecall.events import Event, Grew, Reason, Rejected, Released, Text, collect
from wholecall.messages import Choice, Message, Mode, Request, Role, ToolSpec
from wholecall.upstreams.local_upstream import LocalUpstream

NAME = "local/smollm2"
LIGHT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "room": {"enum": ["kitchen", "hall", "cellar"]},
        "level": {"enum": [0, 25, 50, 100]},
        "colours": {"type": "array", "items": {"enum": ["red", "blue"]}, "maxItems": 2},
        "on": {"type": "boolean"},
    },
    "required": ["room", "level", "on"],
    "additionalProperties": False,
}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "trip": {
            "type": "object",
            "properties": {
                "from": {"enum": ["Oslo", "Rome"]},
                "to": {"anyOf": [{"enum": ["Paris", "Lima"]}, {"type": "null"}]},
            },
            "required": ["from", "to"],
            "additionalProperties": False,
        }
    },
    "required": ["trip"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec("set_light", LIGHT, "Switch a light."),
    ToolSpec("book_trip", NESTED, "Book a trip."),
)
QUESTIONS = (
    "Turn on the light in the kitchen.",
    "I want to go from Oslo to Paris.",
    "Make the cellar blue, and book a trip to Lima.",
    "Tell me a joke.",
    "}}]] </tool_call> \\u0000 \"'{",
)


async def ask(
    upstream: LocalUpstream,
    question: str,
    *,
    choice: Choice,
    max_tokens: int = 200,
    temperature: float = 0.0,
) -> list[Event]:
    messages = (Message(Role.USER, (Text(question),)),)
    request = Request(
        model=NAME,
        messages=messages,
        tools=TOOLS,
        choice=choice,
        max_tokens=max_tokens,
        temperature=temperature,
    )
    sent = sender_for(NAME, messages)(request)
    async with upstream.answer(sent.request) as answer:
        reader = sent.make_reader(answer)
        events = [event async for chunk in answer.chunks for event in reader.feed(chunk)]
    return [*events, *reader.end()]


REQUIRED = Choice(Mode.REQUIRED, parallel=False)


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_call_that_is_forced_fits_its_schema(smollm2: Model, question: str) -> None:
    outcome = collect(smollm2.run(lambda upstream: ask(upstream, question, choice=REQUIRED)))
    assert [rejected.reason for rejected in outcome.rejected] == []
    [call] = outcome.calls
    assert (call.repairs, call.coercions, call.dropped) == ((), (), ())


GUESSES = 10


def test_however_it_guesses_every_call_fits(smollm2: Model) -> None:
    for number in range(GUESSES):
        question = QUESTIONS[number % len(QUESTIONS)]
        events = smollm2.run(
            lambda upstream: ask(upstream, question, choice=REQUIRED, temperature=1.5)  # noqa: B023 - it is run before the next
        )
        outcome = collect(events)
        assert [rejected.reason for rejected in outcome.rejected] == [], question
        [call] = outcome.calls
        assert (call.repairs, call.coercions, call.dropped) == ((), (), ()), call


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_free_answer_is_calls_that_fit_or_words(smollm2: Model, question: str) -> None:
    outcome = collect(smollm2.run(lambda upstream: ask(upstream, question, choice=Choice())))
    # The output limit may cut an answer; nothing else may be wrong with it.
    assert {rejected.reason for rejected in outcome.rejected} <= {Reason.TRUNCATED}
    assert outcome.calls or outcome.text or outcome.rejected


def test_one_tool_that_is_named_is_called(smollm2: Model) -> None:
    choice = Choice(Mode.REQUIRED, ("book_trip",), parallel=False)
    outcome = collect(smollm2.run(lambda upstream: ask(upstream, QUESTIONS[0], choice=choice)))
    assert [call.name for call in outcome.calls] == ["book_trip"]


def test_where_no_tool_may_be_called_there_are_words(smollm2: Model) -> None:
    choice = Choice(Mode.NONE)
    events = smollm2.run(lambda upstream: ask(upstream, "Hi!", choice=choice, max_tokens=8))
    assert collect(events).text
    assert not any(isinstance(event, Released | Rejected) for event in events)


def test_its_template_would_drop_tools_and_that_is_told(smollm2: Model) -> None:
    messages = (Message(Role.USER, (Text("Hi!"),)),)
    request = Request(model=NAME, messages=messages, tools=TOOLS, max_tokens=4)

    async def offer(upstream: LocalUpstream) -> None:
        async with upstream.answer(request):
            pass

    with pytest.raises(UpstreamError, match="has no place for tools"):
        smollm2.run(offer)


def test_answers_do_not_say_where_the_file_lies(smollm2: Model) -> None:
    messages = (Message(Role.USER, (Text("Hi!"),)),)
    request = Request(model=NAME, messages=messages, max_tokens=2)

    async def read(upstream: LocalUpstream) -> bytes:
        async with upstream.answer(request) as answer:
            return b"".join([chunk async for chunk in answer.chunks if isinstance(chunk, bytes)])

    said = smollm2.run(read)
    assert b'"model":"smollm2-135m"' in said
    assert b".gguf" not in said


def test_a_call_comes_in_pieces(smollm2: Model) -> None:
    events = smollm2.run(lambda upstream: ask(upstream, QUESTIONS[0], choice=REQUIRED))
    kinds = [type(event) for event in events]
    assert kinds.count(Grew) > 1
    assert kinds.index(Grew) < kinds.index(Released)


def test_an_answer_that_nobody_waits_for_is_broken_off(smollm2: Model) -> None:
    """There is one place: the second question is answered only when the first gave it up, and
    the first would go on for the whole context."""
    messages = (Message(Role.USER, (Text("Count to a million."),)),)
    endless = Request(model=NAME, messages=messages, max_tokens=100_000, temperature=1.0)

    async def leave_and_ask(upstream: LocalUpstream) -> list[Event]:
        async with upstream.answer(endless) as answer:
            await anext(answer.chunks)
        return await ask(upstream, "Hi!", choice=Choice(Mode.NONE), max_tokens=1)

    assert collect(smollm2.run(leave_and_ask)).text
