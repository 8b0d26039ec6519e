"""Loops around the official SDKs, as everybody writes them, and those that they bring along."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from anthropic.lib.tools import BetaAsyncFunctionTool

from peers.tasks import MOST_TOKENS, MOST_TURNS, Task, Unfinished


def loop_of_chat(*, ask: Callable[..., Awaitable[Any]]) -> Callable[[Task], Awaitable[str]]:
    """A loop as everybody writes it, around one way to ask for a completion."""

    async def run(task: Task) -> str:
        # Only strict tools are parsed by the helpers.
        tools = task.define("openai-chat")
        for tool in tools:
            tool["function"]["strict"] = True
        history: list[Any] = [{"role": "user", "content": task.prompt}]
        client = task.openai
        for _ in range(MOST_TURNS):
            asked = {"model": task.model, "messages": history, "tools": tools}
            message = (await ask(client.chat.completions, asked)).choices[0].message
            if not message.tool_calls:
                return str(message.content)
            history.append(message.model_dump(exclude_none=True, include=_SENT_BACK))
            history += [
                {
                    "role": "tool",
                    "tool_call_id": call.id,
                    "content": task.note(call.function.name, _read_arguments(call.function)),
                }
                for call in message.tool_calls
            ]
        raise Unfinished

    return run


def _read_arguments(function: Any) -> Any:
    """As the helpers parsed them; where there is no helper, as everybody does."""
    if hasattr(function, "parsed_arguments"):
        return function.parsed_arguments
    return json.loads(function.arguments)


_SENT_BACK: Any = {
    "role": True,
    "content": True,
    "tool_calls": {"__all__": {"id": True, "type": True, "function": {"name", "arguments"}}},
}


async def create(completions: Any, asked: dict[str, Any]) -> Any:
    return await completions.create(**asked)


async def parse(completions: Any, asked: dict[str, Any]) -> Any:
    return await completions.parse(**asked)


async def stream_chat(completions: Any, asked: dict[str, Any]) -> Any:
    async with completions.stream(**asked) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_completion()


def loop_of_responses(*, ask: Callable[..., Awaitable[Any]]) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        history: list[Any] = [{"role": "user", "content": task.prompt}]
        tools = task.define("openai-responses")
        client = task.openai
        for _ in range(MOST_TURNS):
            asked = {"model": task.model, "input": history, "tools": tools}
            response = await ask(client.responses, asked)
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                return str(response.output_text)
            history += [
                {
                    "type": "function_call",
                    "call_id": call.call_id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
                for call in calls
            ]
            history += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": task.note_text(call.name, call.arguments),
                }
                for call in calls
            ]
        raise Unfinished

    return run


async def create_response(responses: Any, asked: dict[str, Any]) -> Any:
    return await responses.create(**asked)


async def parse_response(responses: Any, asked: dict[str, Any]) -> Any:
    return await responses.parse(**asked)


async def stream_response(responses: Any, asked: dict[str, Any]) -> Any:
    async with responses.stream(**asked) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_response()


def loop_of_messages(*, ask: Callable[..., Awaitable[Any]]) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        history: list[Any] = [{"role": "user", "content": task.prompt}]
        asked = {
            "model": task.model,
            "max_tokens": MOST_TOKENS,
            "messages": history,
            "tools": task.define("anthropic"),
        }
        client = task.anthropic
        for _ in range(MOST_TURNS):
            message = await ask(client.messages, asked)
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return "".join(block.text for block in message.content if block.type == "text")
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": task.note(call.name, call.input),
                }
                for call in calls
            ]
            history += [
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": results},
            ]
        raise Unfinished

    return run


async def stream_message(messages: Any, asked: dict[str, Any]) -> Any:
    async with messages.stream(**asked) as stream:
        return await stream.get_final_message()


def tool_runner(**settings: Any) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        # Its type says that the parameters must be known; ours come from the definition.
        make_tool: Any = BetaAsyncFunctionTool
        tools = [
            make_tool(
                task.runner(spec.name),
                name=spec.name,
                description=spec.description,
                input_schema=dict(spec.parameters),
            )
            for spec in task.specs
        ]
        client = task.anthropic
        runner: Any = client.beta.messages.tool_runner(
            model=task.model,
            max_tokens=MOST_TOKENS,
            max_iterations=MOST_TURNS,
            messages=[{"role": "user", "content": task.prompt}],
            tools=tools,
            **settings,
        )
        message = await runner.until_done()
        return "".join(block.text for block in message.content if block.type == "text")

    return run
