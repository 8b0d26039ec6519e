"""Question and answer in a terminal, until the user has no more."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from wholecall.chat import Chat, gather_tools
from wholecall.chat_input import echo, history, is_confirmed, read_text
from wholecall.chat_view import ChatView
from wholecall.demo.tools import TOOLS
from wholecall.errors import WholecallError
from wholecall.upstreams.local.upstream import LocalUpstream
from wholecall.upstreams.names import Route

_HELP = (
    "Ctrl-C stops the answer, Ctrl-D ends the chat. A line that ends with a backslash goes on in "
    'the next; """ opens and closes a longer text. /clear forgets the conversation, /exit ends it.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """Settings of a chat."""

    system: str = ""
    """Instructions for the model."""
    emulate: str | None = None
    """The way in which tools are offered."""
    with_tools: bool = True
    """Offer the example tools."""
    approve: bool = False
    """Ask before each call."""


def chat_with(route: Route, settings: ChatSettings, *, history_file: Path) -> None:
    """Talk until the user ends it. Ctrl-C breaks off an answer."""
    view = ChatView(
        Console(highlight=False), width=_find_width, awaited=lambda: say_what_is_awaited(route)
    )
    view.note(f"{route.model}. {_HELP}")
    with asyncio.Runner() as runner, history(history_file):
        chat = Chat(
            route,
            tools=gather_tools(TOOLS if settings.with_tools else (), approve=settings.approve),
            system=settings.system,
            emulate=settings.emulate,
        )
        try:
            converse(
                chat,
                view,
                run=lambda question: runner.run(chat.ask(question, view, confirm=is_confirmed)),
            )
        finally:
            view.pause()
            runner.run(chat.close())


def say_what_is_awaited(route: Route) -> str:
    """Describe what is awaited: the first question loads a local model."""
    upstream = route.upstream
    is_loading = isinstance(upstream, LocalUpstream) and not upstream.is_loaded
    return f"{'loading' if is_loading else 'waiting for'} {route.model} …"


def _find_width() -> int:
    return shutil.get_terminal_size((0, 0)).columns


def converse(
    chat: Chat,
    view: ChatView,
    *,
    run: Callable[[str], None],
    read: Callable[[], str | None] = read_text,
) -> None:
    """Question and answer, until the user has no more."""
    while True:
        try:
            question = read()
        except KeyboardInterrupt:
            view.note("\nCtrl-D ends the chat")
            continue
        if question is None or question == "/exit":
            return
        if question == "/clear":
            chat.forget()
            view.note("forgotten")
        elif question.startswith("/"):
            view.note(_HELP)
        elif question:
            _answer(question, view, run=run)


def _answer(question: str, view: ChatView, *, run: Callable[[str], None]) -> None:
    try:
        with echo(on=False):
            run(question)
    except KeyboardInterrupt:
        view.settle()
        view.note("broken off; the question is forgotten", "yellow")
    except WholecallError as error:
        view.settle()
        view.note(str(error), "bold red")
