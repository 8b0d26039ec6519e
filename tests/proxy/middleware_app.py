"""An application behind the edge, and keys for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from wholecall.proxy.config.schema import Config, KeysConfig
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.http.client_request import CALLER, Caller
from wholecall.proxy.http.middleware import ProxyMiddleware
from wholecall.proxy.http.rate_limits import RateLimits


async def answer(request: Request) -> Response:
    """Reads the body and says who asked for what."""
    try:
        body = await request.body()
    except ClientDisconnect:
        return Response("nobody hears this")
    caller: Caller = request.scope[CALLER]
    return JSONResponse({"bytes": len(body), "key": caller.key.name, "id": caller.request_id})


ROUTES = [
    Route("/health", answer),
    Route("/ready", answer),
    Route("/metrics", answer),
    Mount("/inspector", routes=[Route("/", answer), Route("/events", answer)]),
    Route("/v1/models", answer),
    Route("/v1/tools", answer),
    Route("/v1/chat/completions", answer, methods=["POST"]),
    Route("/v1/responses", answer, methods=["POST"]),
    Route("/v1/responses/{id}", answer, methods=["GET", "DELETE"]),
    Route("/v1/messages", answer, methods=["POST"]),
    Route("/v1/messages/count_tokens", answer, methods=["POST"]),
]
LOCKED = Config(keys=KeysConfig(required=True))


def walk(routes: list[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path of a route table."""
    for route in routes:
        if isinstance(route, Mount):
            yield from walk(route.routes, prefix + route.path)
        else:
            for method in sorted(route.methods):
                yield method, prefix + route.path.replace("{id}", "resp_1")


def make_edge(
    config: Config, *, keys: KeyStore | None = None, quotas: RateLimits | None = None
) -> ProxyMiddleware:
    return ProxyMiddleware(Starlette(routes=ROUTES), config, keys=keys, rate_limits=quotas)


def make_key(keys: KeyStore, **rights: Any) -> dict[str, str]:
    text, _ = keys.create(Key(id="", name="ops", **rights))
    return {"authorization": f"Bearer {text}"}
