"""A conversation with a model that may use tools, turn after turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from wholecall.asking import Options, run
from wholecall.chat_view import ChatView
from wholecall.core.conversation import Message, Role
from wholecall.core.values import Call, Text
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Offered, Toolbox
from wholecall.upstreams.names import Route


def gather_tools(tools: Iterable[Offered], *, approve: bool) -> tuple[Tool, ...]:
    """The tools of a chat; with `approve`, each call of them needs a yes."""
    found = tuple(Toolbox(tools))
    return tuple(replace(tool, approve=True) for tool in found) if approve else found


class Chat:
    """Keeps the conversation. A question that was broken off leaves no trace in it."""

    def __init__(
        self,
        route: Route,
        *,
        tools: tuple[Tool, ...] = (),
        system: str = "",
        emulate: str | None = None,
    ) -> None:
        self._route = route
        self._options: Options = {"upstream": route.upstream, "tools": tools}
        if system:
            self._options["system"] = system
        if emulate is not None:
            self._options["emulate"] = emulate
        self.messages: tuple[Message, ...] = ()

    async def ask(
        self, question: str, view: ChatView, *, confirm: Callable[[], Awaitable[bool]]
    ) -> None:
        """Let the model answer, and show how it does."""
        messages = (*self.messages, Message(Role.USER, (Text(question),)))
        asking = asyncio.Lock()

        async def approve(call: Call) -> bool:
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            async with asking:  # the user is asked one thing at a time
                with view.asking(f"Run {call.name} {arguments}? [y/N]"):
                    return await confirm()

        options: Options = {**self._options, "approve": approve}
        async with run(self._route.model, messages, **options) as started:
            async for event in started:
                view.take(event)
            result = await started.result()
        self.messages = (*messages, *result.messages)
        view.finish(result)

    def forget(self) -> None:
        """Begin anew."""
        self.messages = ()

    async def close(self) -> None:
        """Give back connections and processes."""
        await self._route.upstream.close()
