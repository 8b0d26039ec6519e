"""One run while it goes on, and what is kept of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from inspector.recorded import ARGUMENTS, OVER, SECRET, STORY, Note, end, record, told
from wholecall.agent.run_events import TurnStarted
from wholecall.events import Ended, Grew, Hint, Reasoning, Terminated, Text
from wholecall.inspector.captured_answer import read
from wholecall.inspector.run_record import (
    STEP,
    Record,
    RecordedChunk,
    RecordedForm,
    RecordedRequest,
    RecordLimits,
    read_runs,
)
from wholecall.messages import Message, Request, Role, ToolSpec

ENDED = Ended("stop", Hint.STOP, "stop", None)
REQUEST = Request(
    model="m", messages=(Message(Role.USER, (Text("hi"),)),), tools=(ToolSpec("look"),)
)
CHAT = RecordedForm("openai-chat")
STREAM = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


def kinds(made: Record) -> list[str]:
    return [event["type"] for event in told(made)]


def of(made: Record, kind: str) -> list[dict[str, Any]]:
    return [event for event in told(made) if event["type"] == kind]


def test_events_have_their_number_and_their_time() -> None:
    made = record([*STORY, OVER])
    assert kinds(made) == [
        *("Exchange", "TurnStarted", "Opened", "Grew", "Grew", "Released", "Ended"),
        "ExchangeEnded",
    ]
    assert [event["n"] for event in told(made)] == list(range(8))
    assert [event["at"] for event in told(made)] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert made.about.head["model"] == "m"
    assert made.is_over


def test_pieces_of_the_same_moment_are_one_event() -> None:
    made = record()
    pieces = [Grew(0, "a"), Text("x"), Grew(0, "b"), Grew(1, "c"), Reasoning("y")]
    made.take_all([101.0, *pieces, 101.0 + 2 * STEP, Grew(0, "later"), ENDED])
    assert [
        (event["type"], event.get("number"), event.get("text")) for event in told(made)[1:]
    ] == [
        ("Grew", 0, "ab"),
        ("Grew", 1, "c"),
        ("Reasoning", 0, "y"),
        ("Text", 0, "x"),
        ("Grew", 0, "later"),
        ("Ended", None, None),
    ]


def test_events_are_published_once() -> None:
    made = record([Text("a")])
    made.join()
    assert made.publish() == made.events[:2]
    assert made.publish() == []
    made.take_all([103.0, Text("b")])
    made.join()
    assert made.publish() == [{"type": "Text", "number": 0, "text": "b", "n": 2, "at": 3.0}]


def test_an_event_that_is_not_shown_is_left_out() -> None:
    assert kinds(record([Terminated()])) == ["Exchange"]


def test_events_of_others_stand_among_ours() -> None:
    made = record([Text("a"), Note("words"), Text("b"), OVER])
    assert kinds(made) == ["Exchange", "Text", "Note", "Text", "ExchangeEnded"]
    assert of(made, "Note")[0]["text"] == "words"


# ── Secrets ─────────────────────────────────────────────────────────────────────────


def test_a_secret_is_nowhere_in_what_is_kept() -> None:
    made = record([TurnStarted(1), RecordedRequest(REQUEST), CHAT])
    for number, piece in enumerate(["key: ", SECRET[:9], SECRET[9:], " and more"]):
        made.take_all([200.0 + number, Text(piece)])
        made.take_all([200.0 + number, STREAM])
        made.join()
    made.take_all([300.0, ENDED])
    made.take_all([301.0, end("failed", f"bad {SECRET}")])
    kept = made.keep()
    assert SECRET[:9].encode() not in kept.content
    assert of(made, "Text")[-1] == {
        **of(made, "Text")[-1],
        "text": "key: *** and more",
        "whole": True,
    }
    assert of(made, "ExchangeEnded")[0]["message"] == "bad ***"
    assert kept.answers == ()


def test_a_secret_in_one_text_does_not_touch_the_others() -> None:
    first = [TurnStarted(1), Grew(0, "first"), ENDED]
    made = record([*first, TurnStarted(2), Text("words"), Grew(0, SECRET), Grew(1, "other"), OVER])
    texts = [event["text"] for event in told(made) if "text" in event]
    assert texts == ["first", "", "words", "other", "***"]


def test_a_secret_is_taken_back_although_no_turn_was_told_of() -> None:
    made = record([Text(SECRET[:5])])
    made.join()
    made.take_all([200.0, Text(SECRET[5:])])
    made.take_all([201.0, OVER])
    assert [event["text"] for event in of(made, "Text")] == ["", "", "***"]


# ── Bounds ──────────────────────────────────────────────────────────────────────────


def test_texts_are_shown_up_to_a_size() -> None:
    made = record([Text("12345678"), Text("more"), Text("9"), OVER], limits=RecordLimits(grown=10))
    assert [event["text"] for event in of(made, "Text")] == ["12345678"]
    assert of(made, "Dropped")[0]["events"] == 2


def test_events_are_kept_up_to_a_number_and_the_end_always() -> None:
    turns = [TurnStarted(number) for number in range(1, 5)]
    made = record([*turns, OVER], limits=RecordLimits(events=3))
    assert kinds(made) == ["Exchange", "TurnStarted", "TurnStarted", "ExchangeEnded"]
    assert read_runs(made.keep().content)[0].dropped == 3


# ── What is kept ────────────────────────────────────────────────────────────────────


def test_a_run_is_kept_with_its_events_calls_and_answers() -> None:
    made = record(
        [
            TurnStarted(1),
            RecordedRequest(REQUEST),
            CHAT,
            STREAM,
            b"data: [DONE]\n\n",
            *STORY[1:],
            OVER,
        ],
        key="k1",
    )
    kept = made.keep()
    run = read_runs(kept.content)[0]
    assert (run.head["id"], run.key, run.head["model"]) == (made.id, "k1", "m")
    assert kept.began == run.head["began"]
    assert json.loads(msgspec.json.encode(run.events)) == told(made)
    assert (run.over["fate"], run.dropped) == ("done", 0)
    [case] = [json.loads(read(answer)) for answer in kept.answers]
    assert (case["protocol"], case["title"]) == ("openai-chat", f"{made.id}, answer 1")
    assert "".join(case["events"]) == STREAM.decode() + "data: [DONE]\n\n"
    assert case["tools"][0]["function"]["name"] == "look"
    assert of(made, "Released")[0]["call"]["raw"] == ARGUMENTS


def test_of_a_run_with_dropped_events_no_answer_is_kept() -> None:
    made = record([RecordedRequest(REQUEST), CHAT, STREAM])
    made.dropped = 1
    made.take_all([200.0, OVER])
    assert made.keep().answers == ()
    assert of(made, "Dropped")[0]["events"] == 1


def test_a_chunk_before_any_question_belongs_to_no_answer() -> None:
    assert record([CHAT, STREAM, RecordedChunk({}), OVER]).keep().answers == ()


def test_later_questions_tell_only_what_is_new() -> None:
    longer = Request(model="m", messages=(*REQUEST.messages, *REQUEST.messages))
    made = record([RecordedRequest(REQUEST), RecordedRequest(longer), RecordedRequest(None)])
    assert [len(event["messages"]) for event in of(made, "UpstreamAsked")] == [1, 1]


def test_a_request_that_passes_through_has_an_answer_all_the_same() -> None:
    made = record([RecordedRequest(None), CHAT, STREAM, OVER])
    [case] = [json.loads(read(answer)) for answer in made.keep().answers]
    assert case["tools"] is None
