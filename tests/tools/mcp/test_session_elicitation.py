"""What MCP servers ask the user in the middle of a call. It fails closed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import pytest

from executor_calls import make_call
from tools.mcp_calls import SDK_SERVER, find, hearing, in_loop, make_server, opened, scripted
from wholecall.agent.approvals import Approvals
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.run_events import ElicitationAnswered, ElicitationAsked, Status, ToolEnded
from wholecall.events import JSON, Call
from wholecall.messages import Result
from wholecall.tools.mcp.server_config import McpServer
from wholecall.tools.tool import Elicitation
from wholecall.tools.toolbox import Toolbox

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"day": {"type": "string"}, "guests": {"type": "integer"}},
    "required": ["day"],
}
Answer = Mapping[str, JSON] | None


class User:
    """Answers what is asked, and remembers it."""

    def __init__(self, answer: Callable[[], Any] | Any) -> None:
        self.asked: list[Elicitation] = []
        self._answer = answer

    async def __call__(self, _call: Call, asked: Elicitation) -> Answer:
        self.asked.append(asked)
        given = self._answer() if callable(self._answer) else self._answer
        answer: Answer = await given if isinstance(given, Awaitable) else given
        return answer


async def run(
    server: McpServer, name: str, *, user: User | None, **arguments: Any
) -> tuple[Result, list[str]]:
    """Run a call as a run would; its result, and how the user answered."""
    events: list[Any] = []
    async with opened(server) as tools:
        settings = ExecutorSettings(approvals=Approvals(elicitor=user))
        box = Toolbox([find(tools, name)])
        async with Executor(box, emit=events.append, settings=settings) as executor:
            executor.start(make_call(name, **arguments))
            [given] = await executor.settle()
    answered = [event.action for event in events if isinstance(event, ElicitationAnswered)]
    asked = [event for event in events if isinstance(event, ElicitationAsked)]
    assert len(asked) == len(answered)
    assert {event.status for event in events if isinstance(event, ToolEnded)} <= {
        Status.DONE,
        Status.FAILED,
    }
    return given.result, answered


def fail() -> Answer:
    raise RuntimeError("the terminal is gone")


class Row(NamedTuple):
    """What the user does, how it is reported, and the result of the call."""

    answer: Any
    action: str
    text: str | None


ANSWERS = [
    Row(*row)
    for row in [
        ({"day": "Friday", "guests": 4}, "accept", "4 on Friday"),
        ({"day": "Friday"}, "accept", "2 on Friday"),
        ({"day": "Friday", "guests": "4"}, "accept", "4 on Friday"),
        (None, "decline", None),
        ({}, "cancel", None),
        ({"day": "Friday", "guests": "many"}, "cancel", None),
        (["Friday"], "cancel", None),
        (True, "cancel", None),
        (fail, "cancel", None),
    ]
]


@pytest.mark.parametrize("row", ANSWERS)
@in_loop
async def test_a_server_of_the_sdk_asks(row: Row) -> None:
    user = User(row.answer)
    result, answered = await run(make_server(SDK_SERVER), "s__book", user=user)
    assert answered == [row.action]
    assert result.failed is (row.text is None)
    assert row.text is None or result.text == row.text
    [asked] = user.asked
    assert (asked.server, asked.message) == ("s", "Which day?")
    properties = asked.schema["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {"day", "guests"}


@pytest.mark.parametrize("server", [SDK_SERVER, scripted("ask_user")])
@in_loop
async def test_without_anybody_to_ask_there_is_no_answer(server: tuple[str, ...]) -> None:
    name = "s__book" if server == SDK_SERVER else "s__ask_user"
    result, answered = await run(make_server(server), name, user=None, schema=FORM)
    assert answered == ["cancel"]
    assert result.failed or result.text == '{"action": "cancel"}'


@pytest.mark.parametrize("server", [SDK_SERVER, scripted("ask_user")])
@in_loop
async def test_a_server_that_may_not_ask_does_not_reach_the_user(server: tuple[str, ...]) -> None:
    user = User({"day": "Friday"})
    name = "s__book" if server == SDK_SERVER else "s__ask_user"
    silent = make_server(server, elicitation=False)
    result, answered = await run(silent, name, user=user, schema=FORM)
    assert (answered, user.asked) == ([], [])
    assert result.failed or "not supported" in result.text


@pytest.mark.parametrize("row", ANSWERS)
@in_loop
async def test_a_server_from_before_2026_asks(row: Row) -> None:
    user = User(row.answer)
    server = make_server(scripted("ask_user"))
    result, answered = await run(server, "s__ask_user", user=user, schema=FORM)
    given = json.loads(result.text)
    assert (answered, given["action"]) == ([row.action], row.action)
    assert ("content" in given) is (row.text is not None)
    assert user.asked == [Elicitation(server="s", message="Which day?", schema=FORM)]


@in_loop
async def test_of_two_calls_that_may_have_asked_neither_user_is_asked() -> None:
    """The question does not say whose it is."""
    user = User({"day": "Friday"})
    server = make_server(scripted("ask_user", "hang"))
    async with hearing() as words, opened(server) as tools:
        hang, ask = find(tools, "s__hang"), find(tools, "s__ask_user")
        settings = ExecutorSettings(approvals=Approvals(elicitor=user))
        events: list[Any] = []
        async with Executor(
            Toolbox([hang, ask]), emit=events.append, settings=settings
        ) as executor:
            executor.start(make_call(hang.name, port=words.port))
            assert await words.hear() == "begun"
            executor.start(make_call(ask.name, 1, schema=FORM))
            while not any(isinstance(event, ToolEnded) for event in events):
                await asyncio.sleep(0)
    [ended, *_] = [event for event in events if isinstance(event, ToolEnded)]
    assert ended.result.text == '{"action": "cancel"}'
    assert user.asked == []


@in_loop
async def test_a_question_ends_with_its_call() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> Answer:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    running = asyncio.create_task(
        run(make_server(scripted("ask_user")), "s__ask_user", user=User(wait), schema=FORM)
    )
    await asked.wait()
    running.cancel()
    await ended.wait()


@in_loop
async def test_the_time_of_the_tool_stands_still_meanwhile() -> None:
    async def think() -> Answer:
        await asyncio.sleep(0.7)
        return {"day": "Friday"}

    server = make_server(scripted("ask_user"), timeout=0.5)
    result, answered = await run(server, "s__ask_user", user=User(think), schema=FORM)
    assert answered == ["accept"]
    assert json.loads(result.text)["content"] == {"day": "Friday"}


PAGE = "https://pay.example.com/1"
ROOTS = {"method": "roots/list", "params": {}}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}


def form(schema: Any) -> dict[str, Any]:
    params = {"mode": "form", "message": "Which day?", "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def page(url: str) -> dict[str, Any]:
    params = {"mode": "url", "message": "Pay here.", "url": url}
    return {"method": "elicitation/create", "params": params}


ACCEPTED = {"action": "accept"}
CANCELLED = {"action": "cancel"}
IN_TURN = [
    ({"a": form(FORM)}, {"a": {**ACCEPTED, "content": {"day": "Friday"}}}, 1),
    ({"a": form(FORM), "b": page(PAGE)}, None, 2),
    ({"a": page(PAGE)}, {"a": ACCEPTED}, 1),
    ({"a": page("file:///etc/passwd")}, {"a": CANCELLED}, 0),
    ({"a": page("javascript:alert(1)")}, {"a": CANCELLED}, 0),
    ({"a": form({**FORM, "title": "x" * 5000})}, {"a": CANCELLED}, 0),
]


@pytest.mark.parametrize("row", IN_TURN)
@in_loop
async def test_a_call_is_continued_with_the_answers(row: tuple[Any, Any, int]) -> None:
    requests, responses, asked = row
    user = User({"day": "Friday"})
    server = make_server(scripted("ask_in_turn", mood="modern"))
    result, _ = await run(server, "s__ask_in_turn", user=user, requests=requests)
    given, state = json.loads(result.text)
    assert state == "opaque"
    assert given.keys() == requests.keys()
    assert responses is None or given == responses
    assert len(user.asked) == asked


@pytest.mark.parametrize("request_of_server", [ROOTS, SAMPLE])
@in_loop
async def test_what_is_not_for_the_user_fails_the_call(request_of_server: Any) -> None:
    user = User({"day": "Friday"})
    server = make_server(scripted("ask_in_turn", mood="modern"))
    requests = {"a": request_of_server}
    result, _ = await run(server, "s__ask_in_turn", user=user, requests=requests)
    assert result.failed
    assert user.asked == []
