"""The proxy of the demo: what it serves, and what it asks itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from proxy_server import in_loop
from wholecall.cli.demo import Audience, Demo, ask, make_demo
from wholecall.errors import UpstreamError
from wholecall.proxy.config.schema import ListenConfig
from wholecall.proxy.server import listen, make_server_config, write_address

ANYWHERE = ListenConfig(port=0)


def make(folder: Path, *, local: str | None = None) -> Demo:
    return Demo(listen=ANYWHERE, folder=folder, local=local)


@pytest.mark.parametrize(
    ("local", "name"),
    [
        (None, "demo"),
        ("local/qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b"),
        ("local//home/me/mine.gguf", "mine"),
        ("local/demo.gguf", "local/demo.gguf"),
    ],
)
def test_clients_ask_for_a_short_name(local: str | None, name: str, *, tmp_path: Path) -> None:
    demo = make(tmp_path, local=local)
    assert demo.model == name
    assert list(demo.make_config().models) == ([] if local is None else [name])


@asynccontextmanager
async def showing(folder: Path, local: str | None, *, audience: Audience) -> AsyncIterator[str]:
    with listen(ANYWHERE) as bound:
        address = write_address(bound)
        proxy, asking = make_demo(make(folder, local=local), address, audience=audience)
        asking.stop()  # before it began that changes nothing
        server = uvicorn.Server(make_server_config(proxy.config, proxy))
        task = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            yield address
        finally:
            server.should_exit = True
            await task


@in_loop
async def test_a_model_that_does_not_run_is_told_and_the_script_answers(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model")
    failed: asyncio.Future[UpstreamError] = asyncio.get_running_loop().create_future()
    async with showing(
        tmp_path, f"local/{path}", audience=Audience(failed=failed.set_result)
    ) as address:
        assert "is not a model in GGUF" in str(await failed)
        with pytest.raises(UpstreamError, match="is not a model in GGUF"):
            await ask(address, "broken", question="Hello?")
        said = await ask(address, "demo", question="weather in Oslo")
    assert said == "In Oslo it is 3 °C, and it snows."


@in_loop
async def test_a_model_that_is_not_served_is_an_error(tmp_path: Path) -> None:
    async with showing(tmp_path, None, audience=Audience()) as address:
        with pytest.raises(UpstreamError, match="does not exist"):
            await ask(address, "nobody", question="Hello?")
