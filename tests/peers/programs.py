"""Clients that are programs of their own: another language, or another environment.

A program gets its tasks as lines of JSON and does them at the same time. It writes a line for each
tool that it runs, and one for the end of a task: the answer, or the error.
"""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from peers.tasks import KEY, MOST_TOKENS, MOST_TURNS, Task

Run: TypeAlias = Callable[[Task], Awaitable[str]]
Start: TypeAlias = Callable[[], AbstractAsyncContextManager[Run]]
HERE = Path(__file__).parent
LLM = (str(HERE.parents[1] / ".venv-llm" / "bin" / "python"), str(HERE / "llm_agent.py"))
_LONGEST_LINE = 1 << 24
AI_SDK = ("node", str(HERE / "ai_sdk" / "agent.mjs"))
AI_SDK_INSTALLED = (HERE / "ai_sdk" / "node_modules" / ".installed").exists()


class ClientError(Exception):
    """The client ended with an error; its words are ours."""


@dataclass
class _Program:
    """One process, and the tasks that it has not ended."""

    process: Process
    asked: dict[str, Any]
    tasks: dict[int, tuple[Task, asyncio.Future[str]]] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)

    async def run(self, task: Task) -> str:
        """Hand over a task and wait for its end."""
        number = next(self.numbers)
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.tasks[number] = task, done
        tools = [
            {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
            for spec in task.specs
        ]
        line = {
            **self.asked,
            "id": number,
            "url": task.url,
            "model": task.model,
            "prompt": task.prompt,
            "tools": tools,
            "key": KEY,
            "turns": MOST_TURNS,
            "tokens": MOST_TOKENS,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        return await done

    async def read(self) -> None:
        """Read what it writes. If it ends, its tasks have failed."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self._take(json.loads(line))
        for _, done in self.tasks.values():
            if not done.done():
                done.set_exception(ClientError("the program ended"))

    def _take(self, line: dict[str, Any]) -> None:
        task, done = self.tasks[line["id"]]
        if "tool" in line:
            task.note(line["tool"], line["arguments"])
            return
        del self.tasks[line["id"]]
        if done.done():  # nobody waits for it any more
            return
        if "error" in line:
            done.set_exception(ClientError(line["error"]))
        else:
            done.set_result(line["said"])


def program(command: tuple[str, ...], way: str, *, streamed: bool) -> Start:
    """A client that is a program; it runs as long as the context."""

    @asynccontextmanager
    async def start() -> AsyncIterator[Run]:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=_LONGEST_LINE
        )
        running = _Program(process, {"way": way, "streamed": streamed})
        reading = asyncio.create_task(running.read())
        try:
            yield running.run
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await reading

    return start


def inside(run: Run) -> Start:
    """A client that is a library of this process."""

    @asynccontextmanager
    async def start() -> AsyncIterator[Run]:
        yield run

    return start
