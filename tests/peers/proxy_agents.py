"""Agents made of client libraries: each asks the proxy and runs its own tools.

The tools take a JSON schema and whatever the library hands them, and write it down. So nothing
that a library might check by itself stands between a call and the list of what ran.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import agents  # type: ignore[import-not-found]
import anthropic
import openai
import pydantic_ai  # type: ignore[import-not-found]
from anthropic.lib.tools import BetaAsyncFunctionTool
from langchain.agents import create_agent  # type: ignore[import-not-found]
from langchain_anthropic import ChatAnthropic  # type: ignore[import-not-found]
from langchain_core.tools import StructuredTool  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]
from pydantic_ai.models.anthropic import AnthropicModel  # type: ignore[import-not-found]
from pydantic_ai.models.openai import (  # type: ignore[import-not-found]
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from pydantic_ai.providers.anthropic import (  # type: ignore[import-not-found]
    AnthropicProvider,
)
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]

from proxying import Served
from wholecall.core.spec import ToolSpec
from wholecall.faults.script import Form, ToolRun
from wholecall.faults.tools import TOOLS, definitions

MOST_TURNS = 6
"""No scenario that ends well needs more."""
MOST_TOKENS = 1000
KEY = "any"
RETRIES = 2
"""Of the official SDKs, unless they are told otherwise."""


class Unfinished(Exception):
    """The loop went round too often."""


@dataclass(kw_only=True)
class Task:
    """What an agent shall do, and what its tools did."""

    model: str
    served: Served | None = None
    """The proxy on its socket."""
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
    def proxy(self) -> Served:
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


# ── The official SDKs ───────────────────────────────────────────────────────────────


def _loop_of_chat(*, ask: Callable[..., Awaitable[Any]]) -> Callable[[Task], Awaitable[str]]:
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


async def _create(completions: Any, asked: dict[str, Any]) -> Any:
    return await completions.create(**asked)


async def _parse(completions: Any, asked: dict[str, Any]) -> Any:
    return await completions.parse(**asked)


async def _stream_chat(completions: Any, asked: dict[str, Any]) -> Any:
    async with completions.stream(**asked) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_completion()


def _loop_of_responses(*, ask: Callable[..., Awaitable[Any]]) -> Callable[[Task], Awaitable[str]]:
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


async def _create_response(responses: Any, asked: dict[str, Any]) -> Any:
    return await responses.create(**asked)


async def _parse_response(responses: Any, asked: dict[str, Any]) -> Any:
    return await responses.parse(**asked)


async def _stream_response(responses: Any, asked: dict[str, Any]) -> Any:
    async with responses.stream(**asked) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_response()


def _loop_of_messages(*, ask: Callable[..., Awaitable[Any]]) -> Callable[[Task], Awaitable[str]]:
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


async def _stream_message(messages: Any, asked: dict[str, Any]) -> Any:
    async with messages.stream(**asked) as stream:
        return await stream.get_final_message()


def _tool_runner(**settings: Any) -> Callable[[Task], Awaitable[str]]:
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


# ── openai-agents ───────────────────────────────────────────────────────────────────


def _agents_tools(task: Task) -> list[Any]:
    def invoke(name: str) -> Callable[[Any, str], Awaitable[str]]:
        async def run(_: Any, arguments: str) -> str:
            return task.note_text(name, arguments)

        return run

    return [
        agents.FunctionTool(
            name=spec.name,
            description=spec.description,
            params_json_schema=dict(spec.parameters),
            on_invoke_tool=invoke(spec.name),
            strict_json_schema=False,
        )
        for spec in task.specs
    ]


def _openai_agents(make_model: Any, *, streamed: bool) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        quiet = agents.RunConfig(tracing_disabled=True)
        client = task.openai
        model = make_model(model=task.model, openai_client=client)
        agent = agents.Agent(name="tester", model=model, tools=_agents_tools(task))
        asked: dict[str, Any] = {"max_turns": MOST_TURNS, "run_config": quiet}
        if not streamed:
            return str((await agents.Runner.run(agent, task.prompt, **asked)).final_output)
        running = agents.Runner.run_streamed(agent, task.prompt, **asked)
        async for _ in running.stream_events():
            pass
        return str(running.final_output)

    return run


# ── pydantic-ai ─────────────────────────────────────────────────────────────────────


def _anthropic_model(task: Task) -> Any:
    return AnthropicModel(task.model, provider=AnthropicProvider(anthropic_client=task.anthropic))


def _openai_model(make_model: Any) -> Callable[[Task], Any]:
    return lambda task: make_model(task.model, provider=OpenAIProvider(openai_client=task.openai))


async def _read_along(_: Any, events: Any) -> None:
    """Who reads along makes pydantic-ai ask for streams."""
    async for _ in events:
        pass


def _pydantic_ai(
    make_model: Callable[[Task], Any], *, streamed: bool
) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        tools = [
            pydantic_ai.Tool.from_schema(
                task.runner(spec.name),
                name=spec.name,
                description=spec.description,
                json_schema=dict(spec.parameters),
            )
            for spec in task.specs
        ]
        agent = pydantic_ai.Agent(make_model(task), tools=tools)
        limits = pydantic_ai.UsageLimits(request_limit=MOST_TURNS)
        handler = _read_along if streamed else None
        done = await agent.run(task.prompt, usage_limits=limits, event_stream_handler=handler)
        return str(done.output)

    return run


# ── LangChain ───────────────────────────────────────────────────────────────────────


def _langchain_tools(task: Task) -> list[Any]:
    return [
        StructuredTool(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),
            coroutine=task.runner(spec.name),
        )
        for spec in task.specs
    ]


def _chat_openai(task: Task, *, streamed: bool) -> Any:
    return ChatOpenAI(
        model=task.model,
        base_url=f"{task.url}/v1",
        api_key=KEY,
        max_retries=RETRIES,
        streaming=streamed,
    )


def _chat_anthropic(task: Task, *, streamed: bool) -> Any:
    return ChatAnthropic(
        model=task.model,
        base_url=task.url,
        api_key=KEY,
        max_retries=RETRIES,
        max_tokens=MOST_TOKENS,
        streaming=streamed,
    )


def _langchain(make_model: Any, *, streamed: bool) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        agent = create_agent(make_model(task, streamed=streamed), _langchain_tools(task))
        asked = {"messages": [{"role": "user", "content": task.prompt}]}
        done = await agent.ainvoke(asked, {"recursion_limit": 2 * MOST_TURNS})
        return str(done["messages"][-1].text)

    return run


def _bound(make_model: Any, *, streamed: bool) -> Callable[[Task], Awaitable[str]]:
    """LangChain without an agent: `bind_tools`, and a loop around it."""

    async def run(task: Task) -> str:
        tools = {tool.name: tool for tool in _langchain_tools(task)}
        model = make_model(task, streamed=streamed).bind_tools(list(tools.values()))
        history: list[Any] = [{"role": "user", "content": task.prompt}]
        for _ in range(MOST_TURNS):
            message = await model.ainvoke(history)
            if not message.tool_calls:
                return str(message.text)
            history.append(message)
            history += [await tools[call["name"]].ainvoke(call) for call in message.tool_calls]
        raise Unfinished

    return run


# ── All of them ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Client:
    """One library, used in one way."""

    form: Form
    run: Callable[[Task], Awaitable[str]]


CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic"
CLIENTS: dict[str, Client] = {
    "openai-chat": Client(Form(CHAT, streamed=False), _loop_of_chat(ask=_create)),
    "openai-parse": Client(Form(CHAT, streamed=False), _loop_of_chat(ask=_parse)),
    "openai-stream": Client(Form(CHAT, streamed=True), _loop_of_chat(ask=_stream_chat)),
    "openai-responses": Client(
        Form(RESPONSES, streamed=False), _loop_of_responses(ask=_create_response)
    ),
    "openai-responses-parse": Client(
        Form(RESPONSES, streamed=False), _loop_of_responses(ask=_parse_response)
    ),
    "openai-responses-stream": Client(
        Form(RESPONSES, streamed=True), _loop_of_responses(ask=_stream_response)
    ),
    "anthropic-messages": Client(Form(MESSAGES, streamed=False), _loop_of_messages(ask=_create)),
    "anthropic-stream": Client(
        Form(MESSAGES, streamed=True), _loop_of_messages(ask=_stream_message)
    ),
    "anthropic-runner": Client(Form(MESSAGES, streamed=False), _tool_runner()),
    "anthropic-runner-streamed": Client(Form(MESSAGES, streamed=True), _tool_runner(stream=True)),
    "agents-chat": Client(
        Form(CHAT, streamed=True), _openai_agents(agents.OpenAIChatCompletionsModel, streamed=True)
    ),
    "agents-responses": Client(
        Form(RESPONSES, streamed=False), _openai_agents(agents.OpenAIResponsesModel, streamed=False)
    ),
    "pydantic-ai-chat": Client(
        Form(CHAT, streamed=False), _pydantic_ai(_openai_model(OpenAIChatModel), streamed=False)
    ),
    "pydantic-ai-responses": Client(
        Form(RESPONSES, streamed=True),
        _pydantic_ai(_openai_model(OpenAIResponsesModel), streamed=True),
    ),
    "pydantic-ai-messages": Client(
        Form(MESSAGES, streamed=False), _pydantic_ai(_anthropic_model, streamed=False)
    ),
    "pydantic-ai-messages-stream": Client(
        Form(MESSAGES, streamed=True), _pydantic_ai(_anthropic_model, streamed=True)
    ),
    "langchain-chat": Client(Form(CHAT, streamed=False), _langchain(_chat_openai, streamed=False)),
    "langchain-messages": Client(
        Form(MESSAGES, streamed=True), _langchain(_chat_anthropic, streamed=True)
    ),
    "bind-tools-chat": Client(Form(CHAT, streamed=True), _bound(_chat_openai, streamed=True)),
    "bind-tools-messages": Client(
        Form(MESSAGES, streamed=False), _bound(_chat_anthropic, streamed=False)
    ),
}
