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
from wholecall.messages import Role
from wholecall.scripted_model import TOOLS
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
        self.chat = Chat(
            Route(self.upstream, "m"),
            tools=gather_tools(TOOLS, approve=approve),
            system="Be brief.",
            emulate="native",
        )

    def ask(self, *questions: str) -> None:
        async def talk() -> None:
            for question in questions:
                await self.chat.ask(question, ChatView(self.console), confirm=self._confirm)
            await self.chat.close()

        asyncio.run(talk())

    async def _confirm(self, show: Callable[[], None]) -> bool:
        show()
        self.asked += 1
        await asyncio.sleep(0)
        return self._says_yes

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

    async def never(_: object) -> bool:
        raise AssertionError

    asyncio.run(chat.ask("Hello", view, confirm=never))
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
