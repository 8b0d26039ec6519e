"""A conversation: what the model gets to see of it, and what needs a yes."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import pytest
from rich.console import Console

from scripted import calls, ending, opening, says
from wholecall.cli.chat import Chat, gather_tools
from wholecall.cli.chat_view import ChatView
from wholecall.errors import UpstreamError
from wholecall.events import JSON, Text
from wholecall.messages import Result, Role, ToolSpec
from wholecall.scripted_model import TOOLS
from wholecall.tools.tool import Context, Elicitation, Elicited, Tool
from wholecall.upstreams.providers import Route
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer

WEATHER = ("get_weather", {"city": "Oslo"})
TIME = ("get_time", {"city": "Oslo"})


class Talk:
    """A chat with a scripted model and a scripted user."""

    def __init__(self, *answers: ScriptedAnswer, approve: bool = False, says_yes: bool = True):
        self.upstream = ReplayUpstream(answers)
        self.console = Console(file=io.StringIO(), width=100)
        self.asked = 0
        self._says_yes = says_yes
        self.lines: list[str] = []
        self.chat = Chat(
            Route(self.upstream, "m"),
            tools=gather_tools(TOOLS, approve=approve),
            system="Be brief.",
            emulate="native",
        )

    def ask(self, *questions: str) -> None:
        async def talk() -> None:
            for question in questions:
                await self.chat.ask(question, ChatView(self.console), hear=self._hear)
            await self.chat.close()

        asyncio.run(talk())

    async def _hear(self, show: Callable[[], None]) -> str:
        show()
        self.asked += 1
        await asyncio.sleep(0)
        if self.lines:
            return self.lines.pop(0)
        return "yes\n" if self._says_yes else "no\n"

    @property
    def shown(self) -> str:
        assert isinstance(self.console.file, io.StringIO)
        return self.console.file.getvalue()


def test_each_question_carries_what_was_said_before() -> None:
    talk = Talk(calls(WEATHER), says("Snow."), says("Bye."))
    talk.ask("Weather?", "Thanks.")
    roles = [message.role for message in talk.upstream.requests[-1].messages]
    assert roles == [
        Role.SYSTEM,
        *(Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT),
        Role.USER,
    ]
    assert "get_weather: done" in talk.shown
    assert "Snow." in talk.shown
    talk.chat.forget()
    assert talk.chat.messages == ()


def test_without_system_and_emulation_nothing_is_added() -> None:
    upstream = ReplayUpstream([says("Hi.")])
    chat = Chat(Route(upstream, "m"))
    view = ChatView(Console(file=io.StringIO()))

    async def never(_: object) -> str:
        raise AssertionError

    asyncio.run(chat.ask("Hello", view, hear=never))
    [request] = upstream.requests
    assert [message.role for message in request.messages] == [Role.USER]
    assert request.tools == ()


@pytest.mark.parametrize(("says_yes", "status"), [(True, "done"), (False, "denied")])
def test_a_call_may_need_a_yes(says_yes: bool, status: str) -> None:
    talk = Talk(calls(WEATHER, TIME), says("Well."), approve=True, says_yes=says_yes)
    talk.ask("Weather and time?")
    assert talk.asked == 2
    assert 'Run get_weather {"city": "Oslo"}? [y/N]' in talk.shown
    assert f"get_time: {status}" in talk.shown


def test_who_is_asked_is_told_what_the_model_did_not_write_so() -> None:
    arguments = '{"city": "Oslo", "mood": "cosy",}'
    written = ScriptedAnswer(
        chunks=[opening(0, "get_weather", arguments=arguments), *ending("tool_calls")]
    )
    talk = Talk(written, says("Well."), approve=True)
    talk.ask("Weather?")
    question = 'Run get_weather {"city": "Oslo"}? (repaired: trailing_comma, left out: mood) [y/N]'
    assert question in talk.shown


def test_a_question_that_failed_leaves_no_trace() -> None:
    talk = Talk(says("One."))
    with pytest.raises(UpstreamError):
        talk.ask("First", "Second")
    assert [message.text for message in talk.chat.messages] == ["First", "One."]


# ── What tools ask the user ─────────────────────────────────────────────────────────

FORM: dict[str, JSON] = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "title": "Day", "enum": ["Friday", "Sunday"]},
        "guests": {"type": "integer", "description": "At the table"},
        "outside": {"type": "boolean"},
    },
    "required": ["day"],
}
BOOKED = [
    (["y\n", "Friday\n", "4\n", "true\n"], {"day": "Friday", "guests": 4, "outside": True}),
    (["y\n", "Friday\n", "\n", "\n"], {"day": "Friday"}),
    (["n\n"], "decline"),
    (["\n"], "decline"),
    ([""], "cancel"),
    (["y\n", ""], "cancel"),
    (["y\n", "Monday\n", "\n", "\n"], "cancel"),
    (["y\n", "Friday\n", "many\n", "\n"], "cancel"),
]


@pytest.mark.parametrize(("lines", "heard"), BOOKED)
def test_a_tool_asks_field_by_field(lines: list[str], heard: object) -> None:
    given: list[Elicited] = []

    async def book(_: object, context: Context) -> Result:
        asked = Elicitation(server="tables", message="Which day?", schema=FORM)
        given.append(await context.elicit(asked))
        return Result((Text("booked"),))

    talk = Talk(calls(("book", {})), says("Well."))
    tool = Tool(spec=ToolSpec("book", {"type": "object", "properties": {}}), run=book)
    talk.chat = Chat(Route(talk.upstream, "m"), tools=(tool,), emulate="native")
    talk.lines = [*lines]
    talk.ask("Book a table.")
    [answer] = given
    assert (dict(answer.content) if answer.action == "accept" else answer.action) == heard
    assert talk.lines == []
    assert "The server tables asks: Which day?" in talk.shown
    if len(lines) > 2:
        assert "Day (Friday | Sunday):" in talk.shown
        assert "guests (At the table, optional):" in talk.shown
        assert "outside (true or false, optional):" in talk.shown


def test_a_page_to_visit_is_named() -> None:
    async def pay(_: object, context: Context) -> Result:
        page = Elicitation(server="tables", message="Pay here.", url="https://pay.example.com/1")
        return Result((Text((await context.elicit(page)).action),))

    talk = Talk(calls(("pay", {})), says("Well."))
    tool = Tool(spec=ToolSpec("pay", {"type": "object", "properties": {}}), run=pay)
    talk.chat = Chat(Route(talk.upstream, "m"), tools=(tool,), emulate="native")
    talk.ask("Pay.")
    assert "https://pay.example.com/1" in talk.shown
    assert "pay: done in" in talk.shown
    assert "accept" in talk.shown
