"""Every route of the real proxy stands behind the edge: a walk over its route table."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from starlette.routing import BaseRoute, Mount, Route

from asgi_calls import Answered, call, make_scope
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig

_PARAMETER = re.compile(r"\{[^}]*\}")
# Whoever asks may know that the proxy is alive, and get a page without anything in it.
OPEN = {"/", "/health", "/inspector", "/inspector/page/x"}


def walk(routes: Sequence[BaseRoute], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path of a route table."""
    for route in routes:
        if isinstance(route, Mount):
            yield from walk(route.routes, prefix + route.path)
        else:
            assert isinstance(route, Route)
            for method in sorted(route.methods or {"GET"}):
                yield method, _PARAMETER.sub("x", prefix + route.path)


def reach(folder: Path, headers: dict[str, str]) -> dict[tuple[str, str], Answered]:
    """Ask for everything there is, and for what there is not."""
    keys = KeysConfig(path=str(folder / "keys.sqlite"), required=True)
    proxy = make_app(Config(keys=keys, inspector=InspectorConfig(enabled=True)), environ={})
    every = [*walk(proxy.routes), ("GET", "/nowhere"), ("PUT", "/v1/responses")]

    async def ask_all() -> dict[tuple[str, str], Answered]:
        return {
            (method, path): await call(proxy, make_scope(method, path, headers=headers))
            for method, path in every
        }

    return asyncio.run(ask_all())


def test_the_table_has_all_routes(tmp_path: Path) -> None:
    paths = {path for _, path in reach(tmp_path, {})}
    assert paths >= {
        *("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"),
        *("/v1/responses/x", "/v1/responses/x/cancel", "/v1/models", "/v1/tools"),
        *("/health", "/ready", "/metrics", "/inspector"),
    }


ROWS: dict[str, tuple[dict[str, str], int, set[str]]] = {
    "without a key": ({}, 401, OPEN),
    "with a key that is none": ({"x-api-key": "wc_nobody"}, 401, OPEN),
    "by another name": ({"host": "evil.example"}, 421, {"/health"}),
    "from another website": ({"origin": "https://evil.example"}, 403, {"/health"}),
    "with too large headers": ({"x-large": "x" * 40_000}, 431, set()),
    "with too large a body": ({"content-length": "99999999999"}, 413, set()),
}


@pytest.mark.parametrize(("headers", "status", "but"), ROWS.values(), ids=ROWS)
def test_nothing_is_reached(
    tmp_path: Path, headers: dict[str, str], *, status: int, but: set[str]
) -> None:
    answered = reach(tmp_path, headers)
    wrong = {
        (method, path): each.status
        for (method, path), each in answered.items()
        if path not in but and each.status != status
    }
    assert not wrong
