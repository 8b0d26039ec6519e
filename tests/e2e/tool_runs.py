"""A proxy that runs tools, in front of scenarios in three protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from proxy_server import Offer, Served, proxying, upstream
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.script import definitions
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool

QUESTION: Any = [{"role": "user", "content": "Do it."}]
ITEMS: Any = [
    each for each in definitions("openai-chat") if each["function"]["name"] == "list_items"
]
PREFIXES = ("openai", "responses", "anthropic")


class Ran:
    """The server's tools, and which of them ran."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def tools(self) -> tuple[Tool, ...]:
        def get_weather(city: str, unit: str = "C") -> str:
            """Current weather of a city."""
            self.calls.append(("get_weather", {"city": city, "unit": unit}))
            return f"12 degrees in {city}"

        def send_email(to: str, body: str) -> str:
            """Send an email."""
            self.calls.append(("send_email", {"to": to, "body": body}))
            return "sent"

        return (make_tool(get_weather, read_only=True), make_tool(send_email))


@asynccontextmanager
async def serving(folder: Path, ran: Ran) -> AsyncIterator[tuple[Served, FaultServer]]:
    async with FaultServer(hang_seconds=2.0) as faults:
        models = {
            f"{prefix}:{name}": upstream(
                f"{prefix}/{name}",
                faults.address if prefix == "anthropic" else faults.base_url,
                mode="run",
            )
            for prefix in PREFIXES
            for name in ("good", "two-steps", "parallel-calls", "dropped-always", "answer-only")
        }
        offer = Offer(models, tools=ran.tools(), folder=folder)
        async with proxying(offer) as served:
            yield served, faults
