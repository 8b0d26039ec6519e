"""The outermost layer: how often a key may ask, and how much goes on at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from asgi_calls import ask, call, make_scope
from proxy.middleware_app import LOCKED, make_edge, make_key
from wholecall.proxy.config.schema import Config, ServerLimits
from wholecall.proxy.http.api_keys import KeyStore
from wholecall.proxy.http.middleware import ProxyMiddleware
from wholecall.proxy.http.rate_limits import RateLimits
from wholecall.proxy.http.refusals import RequestRefused


def test_who_asks_too_often_has_to_wait(keys: KeyStore) -> None:
    headers = make_key(keys, rpm=2)
    edge = make_edge(LOCKED, keys=keys, quotas=RateLimits(clock=lambda: 0.0))
    statuses = [ask(edge, "/v1/models", headers=headers).status for _ in range(2)]
    assert statuses == [200, 200]
    refused = ask(edge, "/v1/models", headers=headers)
    assert (refused.status, refused.headers["retry-after"]) == (429, "30")
    assert refused.json["error"]["type"] == "rate_limit_error"
    assert ask(edge, "/v1/models", headers=make_key(keys)).status == 200


class Held:
    """An application that answers when it is let."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - the form of ASGI
        self.asked.set()
        await self.let.wait()
        await Response("done")(scope, receive, send)


@pytest.mark.parametrize(
    ("limit", "rights", "status"), [(1000, {"concurrent": 1}, 429), (1, {}, 503)]
)
def test_places_are_taken_while_requests_to_models_last(
    limit: int, rights: dict[str, int], *, status: int, keys: KeyStore
) -> None:
    headers = make_key(keys, **rights)

    async def run() -> list[int]:
        app = Held()
        config = replace(LOCKED, limits=ServerLimits(concurrent=limit))
        edge = ProxyMiddleware(app, config, keys=keys)

        async def post(path: str) -> int:
            answered = await call(edge, make_scope("POST", path, headers=headers))
            return answered.status

        first = asyncio.create_task(post("/v1/messages"))
        await app.asked.wait()
        refused = await post("/v1/chat/completions")
        app.let.set()
        other = await post("/v1/messages/count_tokens")
        return [await first, refused, other, await post("/v1/responses")]

    assert asyncio.run(run()) == [200, status, 200, 200]


LOOKS: dict[str, tuple[str, str, bytes, bool]] = {
    "a stream": ("GET", "/v1/responses/r", b"stream=true&starting_after=7", True),
    "the last word counts": ("GET", "/v1/responses/r", b"stream=false&stream=true", True),
    "a stream without its body": ("HEAD", "/v1/responses/r", b"stream=true", True),
    "the response": ("GET", "/v1/responses/r", b"", False),
    "the response, expressly": ("GET", "/v1/responses/r", b"stream=true&stream=false", False),
    "an end": ("POST", "/v1/responses/r/cancel", b"stream=true", False),
    "something else": ("GET", "/v1/models", b"stream=true", False),
}


@pytest.mark.parametrize(("method", "path", "query", "held"), LOOKS.values(), ids=LOOKS)
def test_a_place_is_taken_while_the_stream_of_a_response_is_read(
    method: str, path: str, *, query: bytes, held: bool
) -> None:
    quotas, running = RateLimits(), list[int]()

    async def look(*_: object) -> None:
        running.append(quotas.running)
        raise RequestRefused(404, "nothing is held", code="response_not_found")

    scope = {**make_scope(method, path), "query_string": query}
    asyncio.run(call(ProxyMiddleware(look, Config(), rate_limits=quotas), scope))
    assert running == [int(held)]
    assert quotas.running == 0


def test_a_request_that_fails_gives_its_place_back(keys: KeyStore) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    quotas = RateLimits()
    edge = ProxyMiddleware(fail, Config(), keys=keys, rate_limits=quotas)
    with pytest.raises(ZeroDivisionError):
        ask(edge, "/v1/messages", method="POST")
    assert quotas.running == 0
