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


def _ask_for(call: Call) -> str:
    """Describe a call for approval: the call as it would run, and how it differs from what the
    model wrote."""
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    changes = [
        *(f"repaired: {repair.kind}" for repair in call.repairs),
        *(f"coerced: {coercion.path}" for coercion in call.coercions),
        *(f"left out: {name}" for name in call.dropped),
    ]
    noted = f" ({', '.join(changes)})" if changes else ""
    return f"Run {call.name} {arguments}?{noted} [y/N]"


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
        self,
        question: str,
        view: ChatView,
        *,
        confirm: Callable[[Callable[[], None]], Awaitable[bool]],
    ) -> None:
        """Let the model answer, and show how it does. `confirm` shows a question, and hears."""
        messages = (*self.messages, Message(Role.USER, (Text(question),)))
        asking = asyncio.Lock()

        async def approve(call: Call) -> bool:
            async with asking:  # the user is asked one thing at a time
                with view.asking(_ask_for(call)) as show:
                    return await confirm(show)

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
