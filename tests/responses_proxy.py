"""A proxy whose responses are held, for tests: with scenarios behind it, and a tool that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from proxy_server import Served, proxying, upstream
from wholecall.faults.fault_server import FaultServer
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig, ListenConfig, ResponsesConfig
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool

PREFIXES = ("openai", "responses", "anthropic")


class Tools:
    """A tool that goes on when it is let; it may be broken off if it only reads."""

    def __init__(self, *, read_only: bool = True) -> None:
        self._read_only = read_only
        self.begun, self.go_on, self.cancelled = (asyncio.Event() for _ in range(3))
        self.times = 0

    def make(self) -> tuple[Tool, ...]:
        async def send_email(to: str, body: str) -> str:  # noqa: ARG001 - what the model says
            self.times += 1
            self.begun.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "sent"

        return (make_tool(send_email, read_only=self._read_only),)


@asynccontextmanager
async def serve(
    folder: Path,
    *,
    tools: Tools | None = None,
    responses: ResponsesConfig | None = None,
    locked: bool = False,
    workers: int = 1,
) -> AsyncIterator[tuple[Served, FaultServer]]:
    """The proxy in front of scenarios in three protocols: the model is `prefix:scenario`."""
    async with FaultServer(hang_seconds=20.0) as faults:
        models = {
            f"{prefix}:{name}": upstream(
                f"{prefix}/{name}",
                faults.address if prefix == "anthropic" else faults.base_url,
                mode="gate" if tools is None else "run",
            )
            for prefix in PREFIXES
            for name in ("answer-only", "good", "hang-before-headers", "server-error-always")
        }
        config = Config(
            models=models,
            keys=KeysConfig(path=str(folder / "keys.sqlite"), required=locked),
            responses=responses or ResponsesConfig(),
            listen=ListenConfig(workers=workers),
        )
        made = () if tools is None else tools.make()
        async with proxying(make_app(config, environ={}, tools=made)) as served:
            yield served, faults


async def until(served: Served, id: str, *, status: str) -> Any:
    """Ask until the response stands so."""
    while True:
        response = await served.openai.responses.retrieve(id)
        if response.status == status:
            return response
        assert response.status == "in_progress", response
        await asyncio.sleep(0.01)
