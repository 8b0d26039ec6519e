"""A run that was stopped says so: words of the model, or one honest sentence, never a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.kitchen import Kitchen, Menu, Played, play
from scripted import USAGE, calls, chunk, ending, opening, says
from wholecall.agent.api import ask, run
from wholecall.agent.budget import RunLimits, Stop
from wholecall.agent.run_events import RunEnded
from wholecall.errors import RunFailed
from wholecall.events import Rejected, Text
from wholecall.messages import Mode, Native
from wholecall.upstreams.replay import Reaction, ReplayUpstream, ScriptedAnswer

LOOK = calls(("look", {"shelf": 1}))
LOOKED = "Results so far:\n- look: empty"
TURNS = f"because it reached its turn limit (1). {LOOKED}"
OBJECT = '{"name": "look", "arguments": {"shelf": 2}}'
HERMES = f"<tool_call>\n{OBJECT}\n</tool_call>"
FIRST = {
    "native": LOOK,
    "hermes": says(f"<tool_call>\n{OBJECT.replace('2', '1')}\n</tool_call>"),
    "constrained": says(f'{{"calls": [{OBJECT.replace("2", "1")}]}}'),
}
QWEN = "<tool_call>\n<function=look>\n<parameter=shelf>\n2\n</parameter>\n</function>\n</tool_call>"


def spell(text: str) -> ScriptedAnswer:
    """The same words, one character a chunk."""
    return ScriptedAnswer(chunks=[*(chunk({"content": each}) for each in text), *ending()])


def stop(last: Reaction, emulate: str = "native", **options: Any) -> Played:
    """A run that is stopped after its first turn."""
    return play(FIRST[emulate], last, limits=RunLimits(turns=1), emulate=emulate, **options)


# what holds, how tools are offered, the last answer, the words of the model in it
WRITTEN: list[tuple[str, str, str, str]] = [
    ("hermes, natively offered", "native", HERMES, ""),
    ("Qwen's tags, natively offered", "native", QWEN, ""),
    ("words and a call", "native", f"Let me look again.\n{HERMES}", "Let me look again."),
    ("hermes, announced", "hermes", HERMES, ""),
    ("an object without marks, announced", "hermes", OBJECT, ""),
    ("words and a call, announced", "hermes", f"Let me look.\n{HERMES}", "Let me look."),
    ("a call where a reply was demanded", "constrained", f'{{"calls": [{OBJECT}]}}', ""),
    ("a call that is cut", "constrained", f'{{"calls": [{OBJECT[:20]}', ""),
    ("an empty reply", "constrained", '{"reply": ""}', ""),
]


@pytest.mark.parametrize("write", [says, spell], ids=["whole", "by character"])
@pytest.mark.parametrize(
    ("emulate", "text", "said"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN]
)
def test_a_call_in_the_last_answer_is_neither_run_nor_shown(
    emulate: str, text: str, *, said: str, write: Any
) -> None:
    # An empty answer is asked for again, so there is one for each time.
    played = play(
        FIRST[emulate],
        *[write(text)] * 3,
        limits=RunLimits(turns=1),
        emulate=emulate,
    )
    done = played.done
    assert played.kitchen.did == ["looked at 1"]
    assert done.stop is Stop.TURNS
    assert done.no_answer == f"The run was stopped without an answer from the model, {TURNS}"
    assert done.text == "\n\n".join(filter(None, (said, done.no_answer)))
    shown = "".join(event.text for event in played.events if isinstance(event, Text))
    assert shown.replace("\n", "") == done.text.replace("\n", "")
    assert played.events[-1] == RunEnded(Stop.TURNS, done.no_answer)


@pytest.mark.parametrize("write", [says, spell], ids=["whole", "by character"])
@pytest.mark.parametrize(
    ("emulate", "text", "said"),
    [
        ("native", "The shelf is empty.", "The shelf is empty."),
        ("native", f"I would write:\n```\n{HERMES}\n```", f"I would write:\n```\n{HERMES}\n```"),
        ("hermes", "The shelf is empty.", "The shelf is empty."),
        ("constrained", '{"reply": "The shelf\\nis empty."}', "The shelf\nis empty."),
        ("constrained", "The shelf is empty.", "The shelf is empty."),
    ],
)
def test_words_in_the_last_answer_are_the_answer(
    emulate: str, text: str, *, said: str, write: Any
) -> None:
    done = stop(write(text), emulate).done
    assert (done.text, done.no_answer, done.stop) == (said, "", Stop.TURNS)


NATIVE = calls(("look", {"shelf": 2}))
LED_TO = ScriptedAnswer(
    chunks=[
        chunk({"content": "Well."}),
        opening(0, "look", arguments='{"shelf": 2}'),
        *ending("tool_calls"),
    ]
)
WITHOUT = ScriptedAnswer(chunks=[chunk({"content": ""}), *ending("length")])


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([NATIVE], ""),
        ([LED_TO], "Well."),
        ([WITHOUT], ""),
        ([says(""), says(" "), says("")], ""),
    ],
    ids=["a native call", "words and a native call", "nothing, at the limit", "nothing"],
)
def test_without_words_the_answer_is_ours_and_ask_raises_it(
    last: list[ScriptedAnswer], said: str
) -> None:
    done = play(LOOK, *last, limits=RunLimits(turns=1)).done
    assert done.no_answer.endswith(TURNS)
    assert done.text == "\n\n".join(filter(None, (said, done.no_answer)))

    kitchen, upstream = Kitchen(), ReplayUpstream([LOOK, *last])
    asking = ask("m", "Go", tools=kitchen.tools, upstream=upstream, limits=RunLimits(turns=1))
    with pytest.raises(RunFailed) as caught:
        asyncio.run(asking)
    assert str(caught.value) == done.no_answer
    assert caught.value.text == said
    assert [call.name for call in caught.value.ran] == ["look"]


SAME = [LOOK] * 3
# the cap, its limits, the answers, why
CAPS: list[tuple[Stop, RunLimits, list[ScriptedAnswer], str]] = [
    (Stop.TURNS, RunLimits(turns=1), [LOOK, NATIVE], "it reached its turn limit (1)"),
    (Stop.CALLS, RunLimits(calls=1), [LOOK, NATIVE], "it reached its call limit (1)"),
    (
        Stop.TOKENS,
        RunLimits(tokens=USAGE["prompt_tokens"]),
        [LOOK, NATIVE],
        "it reached its token limit (10)",
    ),
    (Stop.SECONDS, RunLimits(seconds=0), [NATIVE], "it reached its time limit (0 seconds)"),
    (
        Stop.IDENTICAL,
        RunLimits(stop_identical=2),
        SAME,
        "the model made the same call 2 times",
    ),
]


@pytest.mark.parametrize(
    ("cap", "limits", "turns", "why"), CAPS, ids=[row[0].value for row in CAPS]
)
def test_every_cap_is_named(
    cap: Stop, limits: RunLimits, *, turns: list[ScriptedAnswer], why: str
) -> None:
    done = play(*turns, limits=limits).done
    assert done.stop is cap
    results = LOOKED if cap is not Stop.SECONDS else "No tool had given a result."
    said = "The run was stopped without an answer from the model, because"
    assert done.text == f"{said} {why}. {results}"


def test_the_results_that_are_named_are_few_and_short() -> None:
    many = [calls(("look", {"shelf": at})) for at in range(12)]
    burnt = calls(("burn", {"dish": "soup"}))
    done = play(*many, burnt, NATIVE, limits=RunLimits(turns=13)).done
    first, *lines = done.text.splitlines()
    assert first.endswith("Results so far (the last 10 of 13):")
    assert lines[:9] == ["- look: empty"] * 9
    assert lines[9].startswith('- burn: (failed) The tool "burn" failed: soup is black')


def test_the_last_request_is_held_to_a_reply() -> None:
    played = stop(says('{"reply": "Empty."}'), "constrained")
    first, last = played.upstream.requests
    assert first.output is not None
    assert "calls" in str(first.output.schema)
    assert last.output is not None
    assert last.output.schema["required"] == ["reply"]
    assert "calls" not in str(last.output.schema)
    assert last.prompted is not None
    assert last.prompted.choice.mode is Mode.NONE


def test_the_last_request_has_a_grammar_of_replies() -> None:
    upstream = ReplayUpstream([FIRST["constrained"], says('{"reply": "Empty."}')])
    started = run(
        "local/mine", "Go", tools=Kitchen().tools, upstream=upstream, limits=RunLimits(turns=1)
    )

    async def go() -> str:
        return (await started.result()).text

    assert asyncio.run(go()) == "Empty."
    first, last = (request.rest for request in upstream.requests)
    assert isinstance(first, Native)
    assert isinstance(last, Native)
    assert "calls" in first.value["grammar"]
    assert "calls" not in last.value["grammar"]
    assert "reply" in last.value["grammar"]


def test_the_form_of_the_last_reply_is_the_one_that_was_asked_for() -> None:
    played = stop(says('{"reply": {"dishes": ["soup"]}}'), "constrained", output=Menu)
    assert played.done.output == Menu(dishes=["soup"])
    last = played.upstream.requests[-1].output
    assert last is not None
    assert "dishes" in str(last.schema)


def test_tools_that_failed_too_often_are_not_called_in_words_either() -> None:
    burn = Kitchen().tools[2]
    burns = calls(("burn", {"dish": "soup"}))
    written = '<tool_call>{"name": "burn", "arguments": {"dish": "rice"}}</tool_call>'
    limits = RunLimits(attempts=1)
    played = play(burns, says(written), says("Sorry."), limits=limits, tools=[burn])
    assert (played.done.text, played.done.stop) == ("Sorry.", Stop.ANSWER)
    assert [event.name for event in played.events if isinstance(event, Rejected)] == ["burn"]


@pytest.mark.parametrize("finish", ["content_filter", "length"])
def test_ask_raises_where_an_answer_ended_before_its_first_word(finish: str) -> None:
    upstream = ReplayUpstream([ScriptedAnswer(chunks=[chunk({"content": ""}), *ending(finish)])])
    with pytest.raises(RunFailed, match="first word"):
        asyncio.run(ask("m", "Go", upstream=upstream))


# ── An answer in a form ─────────────────────────────────────────────────────────────


def test_an_answer_in_another_form_is_an_error_in_the_callers_words() -> None:
    wrong = says('{"dishes": "soup"}')
    error = play(wrong, wrong, says('{"dishes": 5}'), output=Menu).error
    assert isinstance(error, RunFailed)
    assert str(error) == (
        "the model gave no answer that fits output=Menu: "
        "$.dishes must be an array (each item: a string); received 5. "
        'Its last text was "{\\"dishes\\": 5}"'
    )
    assert error.text == '{"dishes": 5}'


def test_a_last_answer_in_another_form_is_no_answer() -> None:
    played = stop(says("Soup."), output=Menu)
    assert (played.done.text, played.done.output) == ("Soup.", None)
    assert played.done.no_answer.startswith("the model gave no answer that fits output=Menu: ")
