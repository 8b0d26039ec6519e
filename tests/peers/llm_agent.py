"""An agent made of llm, in an environment of its own: it wants another openai than the others.

Tasks come as lines of JSON on the standard input, and are done at the same time.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import llm  # type: ignore[import-not-found]
from llm.default_plugins.openai_models import (  # type: ignore[import-not-found]
    AsyncChat,
    AsyncResponses,
)

MODELS = {"chat": AsyncChat, "responses": AsyncResponses}


def _write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _make_tool(task: dict[str, Any], tool: dict[str, Any]) -> Any:
    def implement(name: str) -> Callable[..., Awaitable[str]]:
        async def run(**arguments: Any) -> str:
            _write({"id": task["id"], "tool": name, "arguments": arguments})
            return f"{name} is done"

        return run

    return llm.Tool(
        name=tool["name"],
        description=tool["description"],
        input_schema=tool["parameters"],
        implementation=implement(tool["name"]),
    )


async def _answer(task: dict[str, Any]) -> None:
    name = task["model"]
    model = MODELS[task["way"]](
        name, model_name=name, api_base=f"{task['url']}/v1", supports_tools=True
    )
    tools = [_make_tool(task, tool) for tool in task["tools"]]
    try:
        conversation = model.conversation(tools=tools, chain_limit=task["turns"])
        chain = conversation.chain(task["prompt"], stream=task["streamed"], key=task["key"])
        said = ""
        async for response in chain.responses():
            said = await response.text()
        _write({"id": task["id"], "said": said})
    except Exception as error:  # noqa: BLE001 - whatever a library raises is an error that is seen
        _write({"id": task["id"], "error": repr(error)})


async def _work() -> None:
    loop = asyncio.get_running_loop()
    tasks = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        tasks.append(asyncio.create_task(_answer(json.loads(line))))


if __name__ == "__main__":
    asyncio.run(_work())
