"""Wrappers around calls."""

import asyncio
from dataclasses import replace

import pytest

from executor_calls import make_call
from wholecall.agent.tool_middleware import Around, RunNext, only_once, wrap
from wholecall.events import Call, Text
from wholecall.messages import Result


async def echo(call: Call) -> Result:
    return Result((Text(str(call.arguments["text"])),))


def mark(letter: str) -> Around:
    async def marks(call: Call, run_next: RunNext) -> Result:
        result = await run_next(
            replace(call, arguments={"text": f"{letter}{call.arguments['text']}"})
        )
        return Result((Text(f"{result.text}{letter}"),))

    return marks


async def fake(_call: Call, _run_next: RunNext) -> Result:
    return Result((Text("fake"),))


async def answer_in_words(_call: Call, _run_next: RunNext) -> str:
    return "words"


async def repeat(call: Call, run_next: RunNext) -> Result:
    await run_next(call)
    return await run_next(call)


CALL = make_call("echo", text=".")


@pytest.mark.parametrize(
    ("around", "text"),
    [
        ([], "."),
        ([mark("a")], "a.a"),
        ([mark("a"), mark("b")], "ba.ba"),
        ([mark("a"), fake, mark("b")], "fakea"),
        ([mark("a"), answer_in_words], "wordsa"),
        ([repeat], "."),
    ],
    ids=["none", "one", "the first is the outermost", "a fake", "words are a result", "repeats"],
)
def test_wrappers_see_the_call_and_its_result(around: list[Around], text: str) -> None:
    async def scenario() -> Result:
        return await wrap(around, echo)(CALL)

    assert asyncio.run(scenario()).text == text


def test_a_tool_that_may_not_be_repeated_is_not() -> None:
    ran = []

    async def pay(call: Call) -> Result:
        ran.append(call)
        return Result()

    async def scenario() -> Result:
        return await wrap([repeat], only_once(pay))(CALL)

    with pytest.raises(RuntimeError, match="run_next was called twice for 'echo'"):
        asyncio.run(scenario())
    assert len(ran) == 1
