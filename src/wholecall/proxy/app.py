"""The proxy as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wholecall.proxy.chat import CHAT
from wholecall.proxy.messages import MESSAGES
from wholecall.proxy.responses import RESPONSES
from wholecall.proxy.serving import Service
from wholecall.proxy.turning import Endpoint

SETTLE_SECONDS = 30.0
"""For tools that run on behind clients that are gone, when the server ends."""


def make_app(service: Service) -> Starlette:
    """The routes of the proxy around one service."""

    @asynccontextmanager
    async def live(_: Starlette) -> AsyncIterator[None]:
        yield
        await service.settle(SETTLE_SECONDS)
        await service.close()

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    routes = [
        *(
            Route(client.path, Endpoint(service, client), methods=["POST"])
            for client in (CHAT, RESPONSES, MESSAGES)
        ),
        Route("/health", health),
    ]
    return Starlette(routes=routes, lifespan=live)
