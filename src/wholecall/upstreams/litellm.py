"""LiteLLM as an upstream: `litellm/<model>`, for the providers that it reaches.

LiteLLM is an extra. It is imported on first use, in a thread, for that takes seconds; none of its
settings, callbacks or loggers is touched.

It returns an answer in OpenAI's chat form, and it hides a truncation: a dropped stream arrives with
the finish reason `stop`, empty arguments as `{}`. The answer says so (`hides_truncation`), and its
reader must not take these for a proof.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import ModuleType
from typing import Any

from wholecall.errors import WORDLESS, UpstreamError, require_extra
from wholecall.messages import Request
from wholecall.protocols.reader import Chunk
from wholecall.protocols.registry import CHAT, encode_request
from wholecall.upstreams.base import Answer, once
from wholecall.upstreams.retry import (
    FailedAttempt,
    RetryPolicy,
    ask,
    is_repeatable,
    read_retry_after,
)
from wholecall.upstreams.secrets import hide_known

_CODES = {404: "not_found"}
"""The meaning of a status, because LiteLLM passes on only the upstream's message."""


class LiteLLMUpstream:
    """Asks through `litellm.acompletion`."""

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """LiteLLM looks up missing values itself, in the environment variables it knows."""
        self._options = {
            "base_url": base_url,
            "api_key": api_key,
            "extra_headers": dict(headers or {}) or None,
            # Asking again is our part: its own attempts would multiply with ours.
            "num_retries": 0,
            "max_retries": 0,
        }
        self._api_key = api_key
        self._retry = retry or RetryPolicy()

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return CHAT

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Ask, and read the answer inside of the context."""
        await asyncio.to_thread(_load, "litellm")
        answer = await ask(partial(self._attempt, request), self._retry)
        try:
            yield Answer(
                protocol=CHAT,
                chunks=self._read(answer) if request.stream else once(answer),
                streamed=request.stream,
                hides_truncation=True,
            )
        finally:
            if request.stream:
                await answer.aclose()

    async def close(self) -> None:
        """LiteLLM keeps its connections to itself; there is nothing to give back."""

    async def _attempt(self, request: Request) -> Any | FailedAttempt:
        """The answer is an object of LiteLLM's: a stream, or a whole completion."""
        body = encode_request(CHAT, request)
        try:
            return await _load("litellm").acompletion(**body, **self._options)
        except _load("openai").OpenAIError as error:
            return self._explain(error)

    async def _read(self, answer: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        try:
            async for chunk in answer:
                yield chunk
        except _load("openai").OpenAIError as error:
            raise self._explain(error).error from error

    def _explain(self, error: Exception) -> FailedAttempt:
        """Every error of LiteLLM is one of the openai package's."""
        openai = _load("openai")
        said = hide_known(str(error), filter(None, (self._api_key,)))
        match _unwrap(error):
            case openai.APITimeoutError():
                return FailedAttempt(UpstreamError(said, code="timeout"), False, error)
            case openai.APIConnectionError():
                return FailedAttempt(UpstreamError(said, code="connection"), True, error)
            case openai.APIError(status_code=int(status)) as refusal:
                headers = _read_headers(refusal)
                wait = read_retry_after(headers)
                code = _CODES.get(status, WORDLESS)
                refused = UpstreamError(said, status=status, retry_after=wait, code=code)
                return FailedAttempt(refused, is_repeatable(status, headers), error)
        return FailedAttempt(UpstreamError(said, code="litellm"), False, error)


def _unwrap(error: Exception) -> Exception:
    """Unwrap an error of a broken stream, which LiteLLM wraps for its own fallbacks."""
    match error:
        case object(original_exception=Exception() as original):
            return original
    return error


def _read_headers(refusal: Exception) -> Mapping[str, str]:
    """The upstream's, which LiteLLM keeps beside the reply that it makes up itself."""
    match refusal:
        case object(litellm_response_headers=Mapping() as headers):
            return headers
    return {}


def _load(package: str) -> ModuleType:
    require_extra("litellm/… models", "litellm")
    return importlib.import_module(package)
