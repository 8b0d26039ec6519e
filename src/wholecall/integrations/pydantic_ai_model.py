"""A pydantic-ai model whose tool calls are judged before the agent sees them.

```python no-run
from pydantic_ai import Agent
from wholecall.integrations.pydantic_ai_model import WholecallModel

agent = Agent(WholecallModel("openai:gpt-x"), tools=[send_email])
```
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from pydantic_ai.exceptions import UnexpectedModelBehavior  # type: ignore[import-not-found]
from pydantic_ai.messages import (  # type: ignore[import-not-found]
    ModelRequest,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models import CompletedStreamedResponse  # type: ignore[import-not-found]
from pydantic_ai.models.wrapper import WrapperModel  # type: ignore[import-not-found]

from wholecall.arguments.feedback import feedback
from wholecall.events import Outcome
from wholecall.integrations import ReceivedCall, check_answer, describe
from wholecall.messages import ToolSpec

_Ask: TypeAlias = Callable[[list[Any]], Awaitable[Any]]
"""Sends messages, and returns a `ModelResponse`."""


class WholecallModel(WrapperModel):  # type: ignore[misc]  # the base is not installed everywhere
    """Wraps a model: only calls that are whole and fit their schema reach the agent.

    If no call of an answer can run, the model is told why and asked again, `retries` times at most;
    after that the run fails with `UnexpectedModelBehavior`. Beside calls that can run, the others
    are left out, and the answer says so.
    """

    def __init__(self, wrapped: Any, *, retries: int = 2) -> None:
        super().__init__(wrapped)
        self._retries = retries

    async def request(  # noqa: PLR0917 - pydantic-ai's own signature
        self, messages: list[Any], model_settings: Any, parameters: Any
    ) -> Any:
        """Return an answer whose calls may run."""

        async def ask(conversation: list[Any]) -> Any:
            answer = await self.wrapped.request(conversation, model_settings, parameters)
            # Some servers leave the reason out of a whole answer; it arrived whole all the same.
            return answer if answer.finish_reason else replace(answer, finish_reason="stop")

        return await self._ask_until_whole(ask, messages, parameters=parameters)

    @asynccontextmanager
    async def request_stream(  # noqa: PLR0917 - pydantic-ai's own signature
        self, messages: list[Any], model_settings: Any, parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[Any]:
        """Yield a stream of an answer whose calls may run, after it has been read to its end."""

        async def ask(conversation: list[Any]) -> Any:
            async with self.wrapped.request_stream(
                conversation, model_settings, parameters, run_context
            ) as stream:
                async for _ in stream:
                    pass
                return stream.get()

        answer = await self._ask_until_whole(ask, messages, parameters=parameters)
        yield CompletedStreamedResponse(
            answer, model_request_parameters=parameters, replay_events=True
        )

    async def _ask_until_whole(self, ask: _Ask, messages: list[Any], *, parameters: Any) -> Any:
        tools = [
            ToolSpec(each.name, each.parameters_json_schema, each.description or "")
            for each in parameters.tool_defs.values()
        ]
        conversation, usage, outcome = messages, None, Outcome()
        for _ in range(1 + self._retries):
            answer = await ask(conversation)
            usage = answer.usage if usage is None else usage + answer.usage
            outcome = _judge(answer, tools)
            if outcome.calls or not outcome.rejected:
                return replace(_with_checked_calls(answer, outcome, tools=tools), usage=usage)
            conversation = [*messages, *_refuse(answer, outcome, tools=tools)]
        told = describe(outcome, tools)
        raise UnexpectedModelBehavior(f"no call that can run after {self._retries} retries: {told}")


def _judge(answer: Any, tools: list[ToolSpec]) -> Outcome:
    calls = [
        ReceivedCall(part.tool_call_id, part.tool_name, part.args)
        for part in answer.parts
        if isinstance(part, ToolCallPart)
    ]
    return check_answer(calls, tools=tools, finish_reason=answer.finish_reason)


def _refuse(answer: Any, outcome: Outcome, *, tools: list[ToolSpec]) -> tuple[Any, Any]:
    """Return the answer as the model may see it again, and a result for each of its calls."""
    parts = [
        replace(part, args={}) if isinstance(part, ToolCallPart) else part for part in answer.parts
    ]
    offer = {spec.name: spec for spec in tools}
    results = [
        RetryPromptPart(
            content=feedback(each, offer.get(each.name or "")),
            tool_name=each.name,
            tool_call_id=each.provider_id or each.id,
        )
        for each in outcome.rejected
    ]
    return replace(answer, parts=parts), ModelRequest(parts=results)


def _with_checked_calls(answer: Any, outcome: Outcome, *, tools: list[ToolSpec]) -> Any:
    """Return the answer with the calls that may run, and their checked arguments.

    What is told about the others becomes text of the answer, which the model reads next time.
    """
    checked = {call.provider_id: dict(call.arguments) for call in outcome.calls}
    parts = []
    for part in answer.parts:
        if not isinstance(part, ToolCallPart):
            parts.append(part)
        elif part.tool_call_id in checked:
            parts.append(replace(part, args=checked.pop(part.tool_call_id)))
    if outcome.rejected:
        parts.append(TextPart(content=describe(outcome, tools)))
    return replace(answer, parts=parts)
