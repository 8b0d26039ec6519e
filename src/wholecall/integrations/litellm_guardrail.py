"""A guardrail for LiteLLM's proxy: clients get whole calls that fit their schema, or an error.

```yaml
guardrails:
  - guardrail_name: wholecall
    litellm_params:
      guardrail: wholecall.integrations.litellm_guardrail.WholecallGuardrail
      mode: post_call
      default_on: true
```
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import Any

import msgspec
from fastapi import HTTPException  # type: ignore[import-not-found]
from litellm.integrations.custom_guardrail import (  # type: ignore[import-not-found]
    CustomGuardrail,
)
from litellm.types.utils import (  # type: ignore[import-not-found]
    ChatCompletionMessageToolCall,
    ModelResponse,
    ModelResponseStream,
)

from wholecall.events import Call, Outcome
from wholecall.integrations import check_chunks, describe

BAD_GATEWAY = 502
"""Official clients ask again by themselves after this status."""


class WholecallGuardrail(CustomGuardrail):  # type: ignore[misc]  # not installed everywhere
    """Judges the calls of chat completions. An answer with one that must not run is an error.

    LiteLLM reports a stream that broke off as finished, and missing arguments as `{}`. So an empty
    object proves nothing here, unless the tool has no parameters.
    """

    async def async_post_call_success_hook(  # noqa: PLR0917 - LiteLLM's own signature
        self,
        data: Mapping[str, Any],
        user_api_key_dict: Any,  # noqa: ARG002 - LiteLLM's own signature
        response: Any,
    ) -> Any:
        """Put the checked arguments into a whole answer."""
        if not isinstance(response, ModelResponse) or not data.get("tools"):
            return response
        body = response.model_dump()
        for choice in body["choices"]:
            choice["delta"] = choice.pop("message")
            for place, call in enumerate(choice["delta"].get("tool_calls") or ()):
                call["index"] = place
        outcome = _check([body], data)
        for choice in response.choices:
            judged = outcome if choice.index == 0 else outcome.choices[choice.index]
            if choice.message.tool_calls:
                calls = [
                    ChatCompletionMessageToolCall(**_write_call(call)) for call in judged.calls
                ]
                choice.message.tool_calls = calls
        return response

    async def async_post_call_streaming_iterator_hook(  # noqa: PLR0917 - LiteLLM's own signature
        self,
        user_api_key_dict: Any,  # noqa: ARG002 - LiteLLM's own signature
        response: AsyncIterable[Any],
        request_data: Mapping[str, Any],
    ) -> AsyncGenerator[Any]:
        """Pass text on as it comes, and calls when all of them have been checked."""
        seen: list[dict[str, Any]] = []
        held: list[Any] = []
        async for chunk in response:
            if not isinstance(chunk, ModelResponseStream) or not request_data.get("tools"):
                yield chunk
                continue
            seen.append(chunk.model_dump(exclude_none=True))
            # From the first call on, everything waits, so that the order stays.
            if held or any(each.delta.tool_calls or each.finish_reason for each in chunk.choices):
                held.append(chunk)
            else:
                yield chunk
        if held:
            outcome = _check(seen, request_data)
            for chunk in _put_calls(held, outcome):
                yield chunk


def _check(chunks: Iterable[Mapping[str, Any]], data: Mapping[str, Any]) -> Outcome:
    tools = [tool for tool in data["tools"] if tool.get("type") == "function"]
    outcome = check_chunks(chunks, tools=tools, hides_truncation=True)
    for judged in (outcome, *outcome.choices.values()):
        if judged.rejected:
            raise HTTPException(BAD_GATEWAY, describe(judged, tools))
    return outcome


def _put_calls(held: Iterable[Any], outcome: Outcome) -> Iterable[Any]:
    """Yield what was held back: each choice's calls once, and no piece of them before."""
    left = {0: outcome, **outcome.choices}
    for chunk in held:
        for choice in chunk.choices:
            if choice.delta.tool_calls:
                judged = left.pop(choice.index, None)
                calls = judged.calls if judged is not None else ()
                written = [
                    {**_write_call(call), "index": place} for place, call in enumerate(calls)
                ]
                delta = type(choice.delta)(
                    **{**choice.delta.model_dump(), "tool_calls": written or None}
                )
                choice.delta = delta
        yield chunk


def _write_call(call: Call) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.provider_id or call.id, "type": "function", "function": function}
