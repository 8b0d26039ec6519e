from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import aiohttp
import pytest
from starlette.types import Receive, Scope, Send

from asgi_calls import ask
from proxy_server import Served, in_loop, proxying
from wholecall.inspector import routes
from wholecall.inspector.tap import is_admitted, put_admission
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig
from wholecall.proxy.http import api_keys as keys_module
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.http.middleware import ProxyMiddleware

LIVE = "/inspector/api/live"


def test_who_was_let_in_may_read_unless_somebody_says_otherwise() -> None:
    scope: dict[str, object] = {}
    assert is_admitted(scope)
    put_admission(scope, lambda: False)
    assert not is_admitted(scope)


@asynccontextmanager
async def inspected(path: Path) -> AsyncIterator[Served]:
    config = Config(
        keys=KeysConfig(path=str(path), required=True), inspector=InspectorConfig(enabled=True)
    )
    async with proxying(make_app(config, environ={})) as served:
        yield served


async def listen(served: Served, key: str) -> aiohttp.ClientResponse:
    """A page that looks, behind the first that it was told."""
    headers = {"authorization": f"Bearer {key}"}
    response = await served.http.get(served.url + LIVE, headers=headers)
    first = await response.content.readline()
    assert json.loads(first.removeprefix(b"data: ")) == [{"running": []}]
    return response


@in_loop
async def test_the_stream_of_a_key_that_was_revoked_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(keys_module, "FRESH_SECONDS", 0.0)
    with closing(KeyStore(tmp_path / "keys.sqlite")) as store:
        text, key = store.create(Key(id="", name="mine"))
        other, _ = store.create(Key(id="", name="other"))
        async with inspected(tmp_path / "keys.sqlite") as served:
            ending, staying = await listen(served, text), await listen(served, other)
            assert store.revoke(key.id)
            while await ending.content.readline():
                pass
            assert await staying.content.readline()
            staying.close()
            again = {"authorization": f"Bearer {text}"}
            async with served.http.get(served.url + LIVE, headers=again) as refused:
                assert refused.status == 401


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def break_file(clock: Clock, store: KeyStore, _: Key) -> None:
    store.close()
    clock.now = 1500.0


ENDS: dict[str, Callable[[Clock, KeyStore, Key], object]] = {
    "revoked": lambda _, store, key: store.revoke(key.id),
    "over": lambda clock, *_: setattr(clock, "now", 2000.0),
    "the file fails": break_file,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_key_that_is_good_no_longer_admits_nobody(
    end: Callable[[Clock, KeyStore, Key], object], tmp_path: Path
) -> None:
    clock = Clock()
    store = KeyStore(tmp_path / "keys.sqlite", clock=clock)
    text, key = store.create(Key(id="", name="mine", expires=2000.0))
    told: list[bool] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        told.append(is_admitted(scope))
        end(clock, store, key)
        told.append(is_admitted(scope))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    edge = ProxyMiddleware(app, Config(keys=KeysConfig(required=True)), keys=store)
    assert ask(edge, LIVE, headers={"authorization": f"Bearer {text}"}).status == 200
    assert told == [True, False]
    store.close()
