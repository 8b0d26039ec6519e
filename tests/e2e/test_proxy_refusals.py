"""Statuses of an upstream, as the official clients raise them."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import anthropic
import openai
import pytest
from aiohttp import web

from proxy_server import Offer, Served, in_loop, proxying, upstream
from upstreams.fake_endpoint import always, serving
from wholecall.tools.function_tool import make_tool


class Told(NamedTuple):
    """What a client is told: a status, and what its library makes of it."""

    status: int
    openai: type[openai.APIStatusError]
    anthropic: type[anthropic.APIStatusError]


GATEWAY = Told(502, openai.InternalServerError, anthropic.InternalServerError)
NOT_FOUND = Told(404, openai.NotFoundError, anthropic.NotFoundError)
SAID = "the words of the upstream"
HANDED_ON: dict[int, Told] = {
    400: Told(400, openai.BadRequestError, anthropic.BadRequestError),
    404: NOT_FOUND,
    408: Told(408, openai.APIStatusError, anthropic.RequestTimeoutError),
    409: Told(409, openai.ConflictError, anthropic.ConflictError),
    413: Told(413, openai.APIStatusError, anthropic.ContentTooLargeError),
    422: Told(422, openai.UnprocessableEntityError, anthropic.UnprocessableEntityError),
    429: Told(429, openai.RateLimitError, anthropic.RateLimitError),
    500: GATEWAY,
    502: GATEWAY,
    503: Told(503, openai.InternalServerError, anthropic.ServiceUnavailableError),
    504: Told(504, openai.InternalServerError, anthropic.GatewayTimeoutError),
    529: Told(529, openai.InternalServerError, anthropic.OverloadedError),
}
"""What an upstream says of the request, in its own words."""
OURS = (401, 402, 403)
"""What it says of our account with it."""

Body: TypeAlias = Mapping[str, Any]
MODEL_MISSING: dict[str, Body] = {
    "OpenAI": {
        "error": {
            "message": f"{SAID}: `x` does not exist",
            "type": "invalid_request_error",
            "param": None,
            "code": "model_not_found",
        }
    },
    "Anthropic": {"type": "error", "error": {"type": "not_found_error", "message": SAID}},
    "Ollama": {"error": SAID},
    "Gemini": {"error": {"code": 404, "message": SAID, "status": "NOT_FOUND"}},
    "vLLM": {"error": {"message": SAID, "type": "NotFoundError", "param": "model", "code": 404}},
    "vLLM before": {"object": "error", "message": SAID, "type": "NotFoundError", "code": 404},
    "OpenRouter": {"error": {"message": SAID, "code": 404}},
}
NO_MODEL_THERE: dict[str, tuple[bytes, str]] = {
    "a framework": (b'{"detail":"Not Found"}', "application/json"),
    "a router": (b"404 page not found", "text/plain"),
    "a web server": (b"<html><h1>404</h1></html>", "text/html"),
    "nothing": (b"", "application/json"),
}
"""Answers under an address that is not that of a model: whoever set it up has to mend it."""
FLAGGED: Body = {
    "error": {
        "code": 403,
        "message": SAID,
        "metadata": {"reasons": ["violence"], "flagged_input": "…", "provider_name": "p"},
    }
}
HI: Any = [{"role": "user", "content": "hi"}]


def work() -> str:
    """Never runs."""
    raise AssertionError


async def ask_chat(served: Served, model: str, *, stream: bool) -> None:
    await served.openai.chat.completions.create(model=model, messages=HI, stream=stream)


async def ask_responses(served: Served, model: str, *, stream: bool) -> None:
    await served.openai.responses.create(model=model, input="hi", stream=stream)


async def ask_messages(served: Served, model: str, *, stream: bool) -> None:
    await served.anthropic.messages.create(model=model, messages=HI, max_tokens=5, stream=stream)


CLIENTS: dict[str, Callable[..., Awaitable[None]]] = {
    "chat": ask_chat,
    "responses": ask_responses,
    "messages": ask_messages,
}
UPSTREAMS = ("openai/m", "anthropic/m")
MODES = ("gate", "run")


async def check(
    folder: Path, refuse: Callable[[], web.Response], *, told: Told, words: str = ""
) -> None:
    """Every client in front of each upstream in each mode, streamed or not, is told the same."""
    async with serving(always(refuse)) as behind:
        models = {
            f"{name} {mode}": upstream(name, f"{behind.url}/v1", mode=mode)
            for name, mode in itertools.product(UPSTREAMS, MODES)
        }
        async with proxying(Offer(models, tools=(make_tool(work),), folder=folder)) as served:
            for client, model, stream in itertools.product(CLIENTS, models, (False, True)):
                error = await catch(CLIENTS[client](served, model, stream=stream))
                wanted = told.anthropic if client == "messages" else told.openai
                assert (type(error), error.status_code) == (wanted, told.status)
                assert behind.url not in str(error)
                assert words in str(error)


async def catch(asking: Awaitable[None]) -> openai.APIStatusError | anthropic.APIStatusError:
    try:
        await asking
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return error
    raise AssertionError("it was answered")


@pytest.mark.parametrize("status", HANDED_ON)
@in_loop
async def test_what_an_upstream_says_of_a_request_reaches_its_client(
    status: int, tmp_path: Path
) -> None:
    error = {"message": SAID, "type": "of_its_own"}
    refuse = partial(web.json_response, {"error": error}, status=status)
    await check(tmp_path, refuse, told=HANDED_ON[status], words=SAID)


@pytest.mark.parametrize("maker", MODEL_MISSING)
@in_loop
async def test_a_model_that_is_missing_there_is_not_found(maker: str, tmp_path: Path) -> None:
    refuse = partial(web.json_response, MODEL_MISSING[maker], status=404)
    await check(tmp_path, refuse, told=NOT_FOUND, words=SAID)


@pytest.mark.parametrize("who", NO_MODEL_THERE)
@in_loop
async def test_an_address_without_a_model_is_not_the_clients_mistake(
    who: str, tmp_path: Path
) -> None:
    body, kind = NO_MODEL_THERE[who]
    refuse = partial(web.Response, body=body, content_type=kind, status=404)
    await check(tmp_path, refuse, told=GATEWAY, words="404")


@pytest.mark.parametrize("status", OURS)
@in_loop
async def test_what_it_says_of_our_account_is_not_the_clients_mistake(
    status: int, tmp_path: Path
) -> None:
    error = {"message": SAID, "type": "of_its_own"}
    refuse = partial(web.json_response, {"error": error}, status=status)
    await check(tmp_path, refuse, told=GATEWAY)


@in_loop
async def test_a_question_that_it_forbids_is_told_as_such(tmp_path: Path) -> None:
    refuse = partial(web.json_response, FLAGGED, status=403)
    forbidden = Told(403, openai.PermissionDeniedError, anthropic.PermissionDeniedError)
    await check(tmp_path, refuse, told=forbidden, words=SAID)
