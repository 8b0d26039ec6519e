"""The scripted model: which scene it plays, and what its scenes show in a run."""

from __future__ import annotations

import asyncio
import json
from importlib import resources

import pytest

from wholecall import run
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import RunEvent, Status, ToolEnded, ToolStarted, TurnRetried
from wholecall.cli.recordings import load
from wholecall.events import Event, Grew, Outcome, Rejected, Released, Text, collect
from wholecall.messages import Message, PastCall, Request, Role, ToolSpec
from wholecall.scripted_model import (
    NAME,
    TOOLS,
    Scene,
    ScriptedModel,
    find_place,
    find_question,
    load_script,
)
from wholecall.tools.toolbox import Toolbox

SPECS: tuple[ToolSpec, ...] = tuple(Toolbox(TOOLS).offer.values())
QUESTIONS = ScriptedModel().questions


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),))


def said(text: str) -> Message:
    return Message(Role.ASSISTANT, (Text(text),))


def called(name: str) -> Message:
    return Message(Role.ASSISTANT, (PastCall(id=name, name=name, arguments={}),))


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([user("a")], ("a", 1)),
        ([user("a"), called("t"), Message(Role.TOOL, ())], ("a", 2)),
        ([user("a"), called("t"), user("that was no call")], ("a", 2)),
        ([user("a"), called("t"), said("done"), user("b")], ("b", 1)),
        ([], ("", 1)),
    ],
)
def test_a_conversation_has_a_place_in_the_script(
    messages: list[Message], place: tuple[str, int]
) -> None:
    assert find_place(messages) == place


def test_the_question_that_shares_most_words_is_meant() -> None:
    known = ("What is the weather in Oslo?", "What time is it in Rome?")
    assert find_question("the weather, please", known) == known[0]
    assert find_question("time in rome", known) == known[1]
    assert find_question("xyzzy", known) == find_question("xyzzy", known)
    assert find_question("\ud83d", known) in known  # half of a pair is as good as any
    assert {find_question(str(number), known) for number in range(9)} == set(known)


# ── Playing ─────────────────────────────────────────────────────────────────────────


def scene(text: str, *, turn: int = 1) -> Scene:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return Scene(question="q", turn=turn, title=text, events=(chunk, "data: [DONE]"))


def play(model: ScriptedModel, *messages: Message, tools: tuple[ToolSpec, ...] = SPECS) -> bytes:
    async def read() -> bytes:
        request = Request(model=NAME, messages=messages, tools=tools)
        async with model.answer(request) as answer:
            return b"".join([chunk async for chunk in answer.chunks if isinstance(chunk, bytes)])

    return asyncio.run(read())


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)  # others have their turn


def test_who_asks_again_gets_the_next_attempt_and_later_the_first_again() -> None:
    model = ScriptedModel([scene("one"), scene("two"), scene("end", turn=2)], sleep=no_sleep)
    heard = [play(model, user("q")) for _ in range(3)]
    assert [b"one" in each for each in heard] == [True, False, True]
    assert b"two" in heard[1]
    assert heard[0].endswith(b"\n\ndata: [DONE]\n\n")


def test_behind_the_last_turn_and_without_tools_there_is_the_final_answer() -> None:
    model = ScriptedModel([scene("one"), scene("end", turn=2)], sleep=no_sleep)
    assert b"end" in play(model, user("q"), called("t"), called("t"), called("t"))
    assert b"end" in play(model, user("q"), tools=())


def test_a_tool_that_no_scene_knows_is_called_with_made_up_arguments() -> None:
    schema = {
        "type": "object",
        "properties": {"article": {"type": "string"}},
        "required": ["article"],
    }
    own = (ToolSpec("find_price", schema), ToolSpec("other", {"type": "object"}))
    model = ScriptedModel(sleep=no_sleep)
    first = play(model, user("What does a pear cost?"), tools=own)
    assert b'"name":"find_price","arguments":"{\\"article\\": \\"text\\"}"' in first
    assert b"called find_price with made-up" in play(model, user("q"), called("x"), tools=own)
    assert b'"name":"find_price"' in play(model, user("q"), tools=(*SPECS, *own))
    assert b"made-up" not in play(model, user("q"), tools=SPECS)


def test_it_waits_before_each_chunk() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    play(ScriptedModel([scene("one")], pause=0.5, sleep=sleep), user("q"))
    assert waited == [0.5, 0.5]


# ── The script that comes with the package ──────────────────────────────────────────


async def _run(question: str) -> tuple[RunResult, list[RunEvent]]:
    model = ScriptedModel(sleep=no_sleep)
    async with run(NAME, question, upstream=model, tools=list(TOOLS)) as started:
        events = [event async for event in started]
        return await started.result(), events


OUTCOMES = {
    # question: tools that ran, reasons of rejections, turns
    "What is the weather in Oslo?": (["get_weather"], [], 2),
    "Compare Tokyo and Lima: time and weather, please.": (
        ["get_time", "get_time", "get_weather", "get_weather"],
        [],
        2,
    ),
    "Multiply 1234 by 5678, and look up what evidence is.": (
        ["calculate", "search_docs"],
        ["truncated"],
        3,
    ),
    "Is it warmer in Rome or in Cairo?": (["get_weather", "get_weather"], ["schema"], 3),
    "What time is it in Nairobi?": (["get_time"], ["stream_dropped"], 2),
    "What do the docs say about approvals?": (["search_docs"], [], 2),
    "How far is it from Paris to Vienna?": ([], ["unknown_tool"], 2),
    "What is 2 to the power of 40, and its square root?": (["calculate", "calculate"], [], 2),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_ends_as_its_scenes_say(question: str) -> None:
    result, events = asyncio.run(_run(question))
    ran = [event.call.name for event in events if isinstance(event, ToolEnded)]
    rejected = [event.reason.value for event in events if isinstance(event, Rejected)]
    assert (sorted(ran), rejected, result.turns) == OUTCOMES[question]
    assert all(each.status is Status.DONE for each in result.ended)
    assert result.text


def test_one_call_is_repaired_and_one_answer_asked_for_again() -> None:
    _, events = asyncio.run(_run("Is it warmer in Rome or in Cairo?"))
    [first, *_] = [event for event in events if isinstance(event, Released)]
    assert [repair.kind for repair in first.call.repairs] == ["trailing_comma"]
    assert first.call.dropped == ("unit",)
    _, events = asyncio.run(_run("What time is it in Nairobi?"))
    assert any(isinstance(event, TurnRetried) for event in events)


def test_a_tool_starts_while_another_call_is_still_being_built() -> None:
    _, events = asyncio.run(_run("Compare Tokyo and Lima: time and weather, please."))
    kinds = [type(event) for event in events]
    last_piece = len(kinds) - 1 - kinds[::-1].index(Grew)
    assert kinds.index(ToolStarted) < last_piece


def test_each_scene_is_a_case_that_the_command_line_reads() -> None:
    with resources.as_file(resources.files("wholecall") / "demo" / "script.jsonl") as path:
        recordings = load(path)
        ids = [json.loads(line)["id"] for line in path.read_text("utf-8").splitlines()]
    assert [recording.title for recording in recordings] == [each.title for each in load_script()]
    assert len(set(ids)) == len(ids)
    played = [[event for step in recording.play() for event in step] for recording in recordings]
    assert all(_has_ended(events) for events in played)


def _has_ended(events: list[Event]) -> bool:
    outcome: Outcome = collect(events)
    return bool(outcome.calls or outcome.text or outcome.rejected)
