"""What an agent made of a client library is to do, and what its tools did.

The tools take a JSON schema and whatever the library hands them, and write it down. So nothing
that a library might check by itself stands between a call and the list of what ran.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anthropic
import openai

from wholecall.faults.script import TOOLS, ToolRun, definitions
from wholecall.messages import ToolSpec

MOST_TURNS = 6
"""No scenario that ends well needs more."""
MOST_TOKENS = 1000
KEY = "any"
RETRIES = 2
"""Of the official SDKs, unless they are told otherwise."""


class Unfinished(Exception):
    """The loop went round too often."""


class Reached(Protocol):
    """Who is asked: the proxy, or the upstream itself."""

    @property
    def url(self) -> str: ...

    @property
    def openai(self) -> openai.AsyncOpenAI: ...

    @property
    def anthropic(self) -> anthropic.AsyncAnthropic: ...


@dataclass(kw_only=True)
class Task:
    """What an agent shall do, and what its tools did."""

    model: str
    served: Reached | None = None
    """The proxy on its socket, or the upstream."""
    sdk: openai.AsyncOpenAI | None = None
    """Instead of a client of its own, for those who reach the proxy in another way."""
    prompt: str = "Do what is needed, then say that all is done."
    specs: tuple[ToolSpec, ...] = TOOLS
    """The tools of the client."""
    ran: list[ToolRun] = field(default_factory=list)

    def note(self, name: str, arguments: Any) -> str:
        """A tool runs. Arguments that are no object are written down as they are."""
        self.ran.append(ToolRun(name, arguments))
        return f"{name} is done"

    def note_text(self, name: str, arguments: str) -> str:
        """The same for clients that leave the parsing to the tool."""
        return self.note(name, json.loads(arguments))

    def runner(self, name: str) -> Callable[..., Awaitable[str]]:
        """A function for libraries that call tools with keywords."""

        async def run(**arguments: Any) -> str:
            return self.note(name, arguments)

        return run

    def define(self, protocol: str) -> Any:
        """The tools as a request offers them."""
        names = {spec.name for spec in self.specs}
        return [
            each
            for each in definitions(protocol)
            if (each.get("name") or each["function"]["name"]) in names
        ]

    @property
    def proxy(self) -> Reached:
        assert self.served is not None
        return self.served

    @property
    def url(self) -> str:
        return self.proxy.url

    @property
    def openai(self) -> openai.AsyncOpenAI:
        """The SDK as it is: it repeats requests that fail."""
        return self.sdk or self.proxy.openai.with_options(max_retries=RETRIES)

    @property
    def anthropic(self) -> anthropic.AsyncAnthropic:
        return self.proxy.anthropic.with_options(max_retries=RETRIES)
