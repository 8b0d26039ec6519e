"""A LangChain middleware that judges tool calls before the agent runs them.

```python no-run
from langchain.agents import create_agent
from wholecall.integrations.langchain_middleware import WholecallMiddleware

agent = create_agent("openai:gpt-x", tools=[send_email], middleware=[WholecallMiddleware()])
```
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware  # type: ignore[import-not-found]
from langchain.agents.middleware.types import ModelResponse  # type: ignore[import-not-found]
from langchain_core.callbacks import BaseCallbackHandler  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, ToolMessage  # type: ignore[import-not-found]
from langchain_core.utils.function_calling import (  # type: ignore[import-not-found]
    convert_to_openai_tool,
)

from wholecall.arguments.feedback import feedback
from wholecall.events import Call, Outcome, Rejected
from wholecall.integrations import ReceivedCall, check_answer, check_chunks
from wholecall.messages import Offer, ToolSpec, read_offer


class WholecallMiddleware(AgentMiddleware):  # type: ignore[misc]  # not installed everywhere
    """Lets only calls run that are whole and fit their schema.

    Every other call gets a result at once, which tells the model what was wrong. The calls beside
    it run as usual.
    """

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Ask the model, and judge its calls."""
        pieces = _Pieces()
        return _judge(handler(_listen(request, pieces)), request, pieces=pieces)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask the model, and judge its calls."""
        pieces = _Pieces()
        return _judge(await handler(_listen(request, pieces)), request, pieces=pieces)


class _Pieces(BaseCallbackHandler):  # type: ignore[misc]  # not installed everywhere
    """Keeps the chunks of a stream: a finished message no longer says which calls were cut."""

    run_inline = True  # in the order in which they came

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.messages.clear()

    def on_llm_new_token(self, _: Any, *, chunk: Any = None, **__: Any) -> None:
        if chunk is not None:
            self.messages.append(chunk.message)


def _listen(request: Any, pieces: _Pieces) -> Any:
    model, before = request.model, request.model.callbacks
    if before is None or isinstance(before, list):
        callbacks: Any = [*(before or []), pieces]
    else:
        callbacks = before.copy()
        callbacks.add_handler(pieces)
    return request.override(model=model.model_copy(update={"callbacks": callbacks}))


def _judge(response: Any, request: Any, *, pieces: _Pieces) -> Any:
    message, offer = response.result[0], _read_tools(request.tools)
    received = [*message.tool_calls, *message.invalid_tool_calls]
    if not received:
        return response
    for call in received:
        offer.setdefault(call["name"] or "", ToolSpec(call["name"] or ""))
    outcome = _read(message, pieces.messages, tools=offer.values())
    verdicts: list[Call | Rejected] = [*outcome.calls, *outcome.rejected]
    verdicts.sort(key=lambda each: each.number)
    results = [_refuse(each, offer) for each in outcome.rejected]
    update = {"tool_calls": list(map(_write_call, verdicts)), "invalid_tool_calls": []}
    checked = AIMessage(**{**message.model_dump(exclude={"type"}), **update})
    if not results:
        return ModelResponse([checked, *response.result[1:]], response.structured_response)
    # What LangChain made of a call that is not whole, a structured response say, is void.
    return ModelResponse([checked, *results])


def _read_tools(tools: Iterable[Any]) -> dict[str, ToolSpec]:
    # A provider's own tools, such as a web search, have no function: the provider runs them.
    written = [convert_to_openai_tool(each) for each in tools]
    return dict(read_offer([each for each in written if "function" in each]))


def _read(message: Any, pieces: list[Any], *, tools: Iterable[ToolSpec]) -> Outcome:
    if pieces:
        return check_chunks(map(_write_chunk, pieces), tools=list(tools))
    calls = [
        ReceivedCall(call["id"], call["name"] or "", call["args"])
        for call in [*message.tool_calls, *message.invalid_tool_calls]
    ]
    finish = _finish_reason(message) or "stop"
    return check_answer(calls, tools=list(tools), finish_reason=finish)


def _write_chunk(piece: Any) -> dict[str, Any]:
    calls = [
        {
            "index": call["index"],
            "id": call["id"],
            "function": {"name": call["name"], "arguments": call["args"]},
        }
        for call in getattr(piece, "tool_call_chunks", ())
    ]
    choice = {"index": 0, "delta": {"tool_calls": calls}, "finish_reason": _finish_reason(piece)}
    return {"choices": [choice]}


def _finish_reason(message: Any) -> str | None:
    said: Mapping[str, Any] = message.response_metadata
    return said.get("finish_reason") or said.get("stop_reason")


def _write_call(verdict: Call | Rejected) -> dict[str, Any]:
    arguments = dict(verdict.arguments) if isinstance(verdict, Call) else {}
    id = verdict.provider_id or verdict.id
    return {"name": verdict.name or "", "args": arguments, "id": id, "type": "tool_call"}


def _refuse(rejected: Rejected, offer: Offer) -> Any:
    return ToolMessage(
        feedback(rejected, offer.get(rejected.name or ""), offer=offer),
        tool_call_id=rejected.provider_id or rejected.id,
        name=rejected.name or "",
        status="error",
    )
