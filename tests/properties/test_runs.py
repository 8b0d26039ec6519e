"""The laws of a run, whatever the model answers and whatever the tools do.

A model makes random calls, good and bad ones, in answers that end well, are cut or drop.
Tools succeed, fail, exit, hang or wait for an approval. The run is read, waited for, or
cancelled after some steps of the event loop. Then these hold:

- a call that is not harmless ran at most once, and only with the arguments that were sent;
- every call in the history has exactly one result, in call order, directly behind it;
- whatever began has one end, and an error says what had begun;
- the caller's messages are as they were, and no task is left.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
from scripted import chunk, ending, growing, opening, says
from wholecall.agent.api import run
from wholecall.agent.budget import RunLimits
from wholecall.agent.run import RunResult
from wholecall.agent.run_events import RunEvent, ToolEnded, ToolStarted
from wholecall.errors import RunFailed, UpstreamError
from wholecall.events import JSON, Call
from wholecall.messages import CallResult, Message, PastCall, Request
from wholecall.protocols.reader import Chunk
from wholecall.protocols.registry import encode_request
from wholecall.tools.function_tool import tool
from wholecall.tools.tool import Failed
from wholecall.tools.toolbox import Offered
from wholecall.upstreams.replay import Reaction, ReplayUpstream, ScriptedAnswer

HARMLESS = {"look"}
STEPS = 60
"""Iterations of the event loop after which a run may be cancelled; most are over by then."""


class House:
    """Tools of every kind, which write down what they did."""

    def __init__(self) -> None:
        self.did: list[tuple[str, JSON]] = []
        house = self

        @tool(read_only=True, retries=1)
        async def look(at: int) -> str:
            house.did.append(("look", at))
            await asyncio.sleep(0)
            return "looked"

        @tool
        async def write(at: int) -> str:
            house.did.append(("write", at))
            return "written"

        @tool(barrier=True)
        async def fail(at: int) -> str:
            house.did.append(("fail", at))
            raise Failed("no")

        @tool
        async def leave(at: int) -> str:
            house.did.append(("leave", at))
            raise SystemExit(at)

        @tool(timeout=0.001)
        async def hang(at: int) -> str:
            house.did.append(("hang", at))
            await asyncio.get_running_loop().create_future()
            return "never"

        @tool(approve=lambda call: call.arguments["at"] in (1, 3), concurrency=1)
        async def pay(at: int) -> str:
            house.did.append(("pay", at))
            return "paid"

        self.tools: list[Offered] = [look, write, fail, leave, hang, pay]


NAMES = ("look", "write", "fail", "leave", "hang", "pay")


@dataclass(frozen=True)
class Made:
    """A call as a model writes it."""

    name: str
    arguments: str

    def chunks(self, number: int) -> list[Chunk]:
        half = len(self.arguments) // 2
        return [
            opening(number, self.name, arguments=self.arguments[:half]),
            growing(number, self.arguments[half:]),
        ]


good_calls = st.builds(
    lambda name, at: Made(name, json.dumps({"at": at})), st.sampled_from(NAMES), st.integers(0, 3)
)
bad_calls = st.sampled_from(
    [
        Made("look", '{"at": '),
        Made("write", '{"at": "much"}'),
        Made("write", "{}"),
        Made("destroy", '{"at": 1}'),
        Made("pay", '["at"]'),
        Made("look", ""),
    ]
)
ENDS: dict[str, list[Chunk]] = {
    "good": ending("tool_calls"),
    "at the limit": ending("length"),
    "filtered": ending("content_filter"),
    "dropped": [],
    "failed": [{"error": {"message": "overloaded"}}],
}
turns: st.SearchStrategy[Reaction] = st.one_of(
    st.builds(
        lambda made, end: ScriptedAnswer(
            chunks=[
                chunk({"content": "Well."}),
                *(piece for number, call in enumerate(made) for piece in call.chunks(number)),
                *ENDS[end],
            ]
        ),
        st.lists(good_calls | bad_calls, max_size=4),
        st.sampled_from(["good", "good", "good", *ENDS]),
    ),
    st.just(UpstreamError("busy", status=503)),
    st.just(says("Done.")),
    st.just(says("")),
)


@dataclass
class Lived:
    """What became of a run."""

    house: House
    upstream: ReplayUpstream
    events: list[RunEvent] = field(default_factory=list)
    result: RunResult | None = None
    error: RunFailed | UpstreamError | None = None


async def live(script: list[Reaction], *, cancelled_after: int | None, is_read: bool) -> Lived:
    lived = Lived(House(), ReplayUpstream([*script, says("At last.")]))
    started = run(
        "m",
        [{"role": "user", "content": "Go"}],
        tools=lived.house.tools,
        upstream=lived.upstream,
        approve=approve,
        taps=[lived.events.append],
        limits=RunLimits(turns=4, concurrency=3),
    )

    async def follow() -> RunResult:
        if is_read:
            async for _ in started:
                pass
        return await started.result()

    following = asyncio.create_task(follow())
    if cancelled_after is not None:
        for _ in range(cancelled_after):
            await asyncio.sleep(0)
        await started.cancel()
    try:
        lived.result = await following
    except (RunFailed, UpstreamError) as error:
        lived.error = error
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks are left over: {left}"
    return lived


async def approve(call: Call) -> bool:
    await asyncio.sleep(0)
    return bool(call.arguments["at"] == 1)


@settings(max_examples=examples(120))
@given(
    script=st.lists(turns, max_size=5),
    cancelled_after=st.none() | st.integers(0, STEPS),
    is_read=st.booleans(),
)
def test_the_laws_hold_for_every_run(
    script: list[Reaction], *, cancelled_after: int | None, is_read: bool
) -> None:
    async def bounded() -> Lived:
        async with asyncio.timeout(60):
            return await live(script, cancelled_after=cancelled_after, is_read=is_read)

    before = copy.deepcopy([turn for turn in script if isinstance(turn, ScriptedAnswer)])
    lived = asyncio.run(bounded())
    check_calls(lived)
    check_ends(lived)
    for request in lived.upstream.requests:
        check_history(request)
    if lived.result is not None:
        check_pairs(lived.result.messages)
    assert [turn for turn in script if isinstance(turn, ScriptedAnswer)] == before


def check_calls(lived: Lived) -> None:
    started = [event.call for event in lived.events if isinstance(event, ToolStarted)]
    ids = Counter(call.id for call in started if call.name not in HARMLESS)
    assert all(times == 1 for times in ids.values())
    sent = Counter((call.name, call.arguments["at"]) for call in started)
    assert not Counter(lived.house.did) - sent


def check_ends(lived: Lived) -> None:
    ended = [event.call.id for event in lived.events if isinstance(event, ToolEnded)]
    begun = [event.call.id for event in lived.events if isinstance(event, ToolStarted)]
    assert len(ended) == len(set(ended))
    assert set(begun) <= set(ended)
    if lived.error is not None:
        ran = [call.id for call in lived.error.ran]
        assert ran == list(dict.fromkeys(begun))
    if lived.result is not None:
        assert [each.call.id for each in lived.result.ended] == ended


def check_history(request: Request) -> None:
    """What the model was told can be sent to every upstream."""
    check_pairs(request.messages)
    for protocol in ("openai-chat", "openai-responses", "anthropic", "ollama", "gemini"):
        assert json.dumps(encode_request(protocol, request))


def check_pairs(messages: tuple[Message, ...]) -> None:
    """Behind each message with calls stands one with their results, in their order."""
    for message, following in zip(messages, [*messages[1:], None], strict=True):
        made = [part.id for part in message.parts if isinstance(part, PastCall)]
        if made:
            assert following is not None
            assert [
                part.call_id for part in following.parts if isinstance(part, CallResult)
            ] == made
    answered: list[Any] = [
        part.call_id
        for message in messages
        for part in message.parts
        if isinstance(part, CallResult)
    ]
    assert len(answered) == len(set(answered))
