"""Agents made of client libraries: each asks the proxy and runs its own tools."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import agents  # type: ignore[import-not-found]
import pydantic_ai  # type: ignore[import-not-found]
import smolagents  # type: ignore[import-not-found]
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

from peers.programs import AI_SDK, AI_SDK_INSTALLED, LLM, Start, inside, program
from peers.sdk_loops import (
    create,
    create_response,
    loop_of_chat,
    loop_of_messages,
    loop_of_responses,
    parse,
    parse_response,
    stream_chat,
    stream_message,
    stream_response,
    tool_runner,
)
from peers.tasks import KEY, MOST_TOKENS, MOST_TURNS, RETRIES, Task, Unfinished
from wholecall.faults.script import Form
from wholecall.integrations.langchain_middleware import WholecallMiddleware
from wholecall.integrations.pydantic_ai_model import WholecallModel
from wholecall.messages import ToolSpec

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


def _langchain(
    make_model: Any, *, streamed: bool, middleware: tuple[Any, ...] = ()
) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        model, tools = make_model(task, streamed=streamed), _langchain_tools(task)
        agent = create_agent(model, tools, middleware=middleware)
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


# ── smolagents ──────────────────────────────────────────────────────────────────────


def _smol_tool(task: Task, spec: ToolSpec) -> Any:
    """A tool as smolagents describes it: an optional parameter may be null."""
    properties, required = spec.parameters["properties"], spec.parameters["required"]

    class Noted(smolagents.Tool):  # type: ignore[misc]
        name = spec.name
        description = spec.description
        inputs = {  # noqa: RUF012 - the library wants it so
            name: {"description": "", **schema, "nullable": name not in required}
            for name, schema in properties.items()
        }
        output_type = "string"
        skip_forward_signature_validation = True

        def forward(self, **arguments: Any) -> str:
            return task.note(spec.name, arguments)

    return Noted()


def _smolagents(*, streamed: bool) -> Callable[[Task], Awaitable[str]]:
    async def run(task: Task) -> str:
        # Behind the SDK's own retries it would wait for minutes.
        model = smolagents.OpenAIModel(
            task.model, api_base=f"{task.url}/v1", api_key=KEY, retry=False
        )
        agent = smolagents.ToolCallingAgent(
            tools=[_smol_tool(task, spec) for spec in task.specs],
            model=model,
            stream_outputs=streamed,
            max_steps=MOST_TURNS,
            verbosity_level=smolagents.LogLevel.OFF,
        )
        return str(await asyncio.to_thread(agent.run, task.prompt))

    return run


# ── All of them ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Client:
    """One library, used in one way."""

    form: Form
    start: Start
    installed: bool = True
    """False where npm is missing: `make` says so and installs the others."""


CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic"
_PROGRAMS = (
    ("llm", LLM, {"chat": CHAT, "responses": RESPONSES}),
    (
        "ai-sdk",
        AI_SDK,
        {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES, "compatible": CHAT},
    ),
)
CLIENTS: dict[str, Client] = {
    "openai-chat": Client(Form(CHAT, streamed=False), inside(loop_of_chat(ask=create))),
    "openai-parse": Client(Form(CHAT, streamed=False), inside(loop_of_chat(ask=parse))),
    "openai-stream": Client(Form(CHAT, streamed=True), inside(loop_of_chat(ask=stream_chat))),
    "openai-responses": Client(
        Form(RESPONSES, streamed=False), inside(loop_of_responses(ask=create_response))
    ),
    "openai-responses-parse": Client(
        Form(RESPONSES, streamed=False), inside(loop_of_responses(ask=parse_response))
    ),
    "openai-responses-stream": Client(
        Form(RESPONSES, streamed=True), inside(loop_of_responses(ask=stream_response))
    ),
    "anthropic-messages": Client(
        Form(MESSAGES, streamed=False), inside(loop_of_messages(ask=create))
    ),
    "anthropic-stream": Client(
        Form(MESSAGES, streamed=True), inside(loop_of_messages(ask=stream_message))
    ),
    "anthropic-runner": Client(Form(MESSAGES, streamed=False), inside(tool_runner())),
    "anthropic-runner-streamed": Client(
        Form(MESSAGES, streamed=True), inside(tool_runner(stream=True))
    ),
    "agents-chat": Client(
        Form(CHAT, streamed=True),
        inside(_openai_agents(agents.OpenAIChatCompletionsModel, streamed=True)),
    ),
    "agents-responses": Client(
        Form(RESPONSES, streamed=False),
        inside(_openai_agents(agents.OpenAIResponsesModel, streamed=False)),
    ),
    "pydantic-ai-chat": Client(
        Form(CHAT, streamed=False),
        inside(_pydantic_ai(_openai_model(OpenAIChatModel), streamed=False)),
    ),
    "pydantic-ai-responses": Client(
        Form(RESPONSES, streamed=True),
        inside(_pydantic_ai(_openai_model(OpenAIResponsesModel), streamed=True)),
    ),
    "pydantic-ai-messages": Client(
        Form(MESSAGES, streamed=False), inside(_pydantic_ai(_anthropic_model, streamed=False))
    ),
    "pydantic-ai-messages-stream": Client(
        Form(MESSAGES, streamed=True), inside(_pydantic_ai(_anthropic_model, streamed=True))
    ),
    "langchain-chat": Client(
        Form(CHAT, streamed=False), inside(_langchain(_chat_openai, streamed=False))
    ),
    "langchain-messages": Client(
        Form(MESSAGES, streamed=True), inside(_langchain(_chat_anthropic, streamed=True))
    ),
    "bind-tools-chat": Client(
        Form(CHAT, streamed=True), inside(_bound(_chat_openai, streamed=True))
    ),
    "bind-tools-messages": Client(
        Form(MESSAGES, streamed=False), inside(_bound(_chat_anthropic, streamed=False))
    ),
    "smolagents-chat": Client(Form(CHAT, streamed=False), inside(_smolagents(streamed=False))),
    "smolagents-stream": Client(Form(CHAT, streamed=True), inside(_smolagents(streamed=True))),
    **{
        f"{name}-{way}{'-stream' if streamed else ''}": Client(
            Form(protocol, streamed=streamed),
            program(command, way, streamed=streamed),
            installed=name != "ai-sdk" or AI_SDK_INSTALLED,
        )
        for name, command, ways in _PROGRAMS
        for way, protocol in ways.items()
        for streamed in (False, True)
    },
}


# ── With Wholecall inside ───────────────────────────────────────────────────────────


def _judged_model(make_model: Any, *, streamed: bool) -> Start:
    return inside(_pydantic_ai(lambda task: WholecallModel(make_model(task)), streamed=streamed))


def _judged_agent(make_model: Any, *, streamed: bool) -> Start:
    return inside(_langchain(make_model, streamed=streamed, middleware=(WholecallMiddleware(),)))


WITH_WHOLECALL: dict[str, Client] = {
    f"{name}-{way}{'-stream' if streamed else ''}": Client(
        Form(protocol, streamed=streamed), start(make_model, streamed=streamed)
    )
    for name, start, ways in (
        (
            "pydantic-ai",
            _judged_model,
            {
                "chat": (CHAT, _openai_model(OpenAIChatModel)),
                "messages": (MESSAGES, _anthropic_model),
            },
        ),
        (
            "langchain",
            _judged_agent,
            {"chat": (CHAT, _chat_openai), "messages": (MESSAGES, _chat_anthropic)},
        ),
    )
    for way, (protocol, make_model) in ways.items()
    for streamed in (False, True)
}
"""The same libraries, each with our integration and without the proxy."""
