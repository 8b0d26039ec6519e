"""Proxies on several machines share their journal, keys, pins and stored responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from local_postgres import LocalPostgres
from proxy_server import Served, in_loop, proxying, upstream
from wholecall.cli import main
from wholecall.faults.fault_server import FaultServer
from wholecall.journal.postgres_server import PostgresBlobs, PostgresSession
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, JournalConfig, KeysConfig
from wholecall.proxy.http.api_keys import Key, KeyStoreFailed, SharedKeyStore
from wholecall.proxy.service_builder import SharedPins
from wholecall.storage import StoreFailed
from wholecall.tools.function_tool import make_tool
from wholecall.tools.mcp.tool_definitions import Pins

NOWHERE = "postgresql://wholecall@127.0.0.1:1/none"


class Till:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_email(self, to: str, body: str) -> str:
        """Send an email."""
        self.sent.append(to)
        return f"sent {len(body)} characters"


@pytest.fixture
def url(postgres: LocalPostgres) -> str:
    return postgres.make_database()


@asynccontextmanager
async def machines(
    folder: Path, url: str, *, till: Till, required: bool = False, count: int = 2
) -> AsyncIterator[list[Served]]:
    """Proxies with folders of their own."""
    async with FaultServer() as faults:
        config = Config(
            models={
                "good": upstream("openai/good", faults.base_url, mode="run"),
                "plain": upstream("openai/answer-only", faults.base_url),
            },
            journal=JournalConfig(url=url),
        )
        served: list[Served] = []
        try:
            opened = []
            for number in range(count):
                place = folder / str(number)
                place.mkdir()
                keys = KeysConfig(path=str(place / "keys.sqlite"), required=required)
                tools = [make_tool(till.send_email)]
                app = make_app(replace(config, keys=keys), environ={}, tools=tools)
                opened.append(proxying(app))
                served.append(await opened[-1].__aenter__())
            yield served
        finally:
            for context in reversed(opened):
                await context.__aexit__(None, None, None)
    assert [path.name for path in folder.glob("*/*.sqlite")] == []


@in_loop
async def test_a_resend_finds_its_run_on_another_machine(tmp_path: Path, url: str) -> None:
    till = Till()
    async with machines(tmp_path, url, till=till) as proxies:
        body = {"model": "good", "messages": [{"role": "user", "content": "Write."}]}
        said = [
            await served.post("/v1/chat/completions", body, idempotency_key="order-17")
            for served in proxies
        ]
        assert [status for status, _, _ in said] == [200, 200]
        texts = [told["choices"][0]["message"]["content"] for _, told, _ in said]
        assert texts == ["All done.", "All done."]
    assert till.sent == ["ada@example.org"]


@in_loop
async def test_a_response_is_read_and_continued_on_another_machine(
    tmp_path: Path, url: str
) -> None:
    async with machines(tmp_path, url, till=Till()) as (one, other):
        first = await one.openai.responses.create(model="plain", input="Hello.")
        read = await other.openai.responses.retrieve(first.id)
        assert read.output_text == first.output_text
        next_one = await other.openai.responses.create(
            model="plain", input="And?", previous_response_id=first.id
        )
        assert next_one.previous_response_id == first.id
        made = await one.openai.responses.create(model="good", input="x", background=True)
        while (await other.openai.responses.retrieve(made.id)).status != "completed":
            await asyncio.sleep(0.01)


@in_loop
async def test_one_set_of_keys_holds_on_every_machine(tmp_path: Path, url: str) -> None:
    with closing(SharedKeyStore(url)) as store:
        text, key = store.create(Key(id="", name="mine", tools=("*",)))
        async with machines(tmp_path, url, till=Till(), required=True) as proxies:
            for served in proxies:
                assert await greet(served, "wc_wrong") == 401
                assert await greet(served, text) == 200
            assert store.revoke(key.id)
            for served in proxies:
                await until_revoked(served, text)


async def greet(served: Served, key: str) -> int:
    body = {"model": "plain", "messages": [{"role": "user", "content": "Hello."}]}
    return (await served.post("/v1/chat/completions", body, x_api_key=key))[0]


async def until_revoked(served: Served, key: str) -> None:
    while await greet(served, key) != 401:
        await asyncio.sleep(0.05)


@in_loop
async def test_without_the_database_plain_traffic_is_served(tmp_path: Path) -> None:
    till = Till()
    async with machines(tmp_path, NOWHERE, till=till, count=1) as [served]:
        body = {"model": "plain", "messages": [{"role": "user", "content": "Hello."}]}
        assert (await served.post("/v1/chat/completions", body))[0] == 200
        status, told, _ = await served.post("/v1/chat/completions", {**body, "model": "good"})
        assert (status, told["error"]["code"]) == (503, "store_failed")
        async with served.http.get(f"{served.url}/v1/runs") as response:
            assert response.status == 503
        async with served.http.get(f"{served.url}/metrics") as response:
            assert response.status == 200
    assert till.sent == []


@in_loop
async def test_keys_that_no_one_can_read_are_not_valid(tmp_path: Path) -> None:
    async with machines(tmp_path, NOWHERE, till=Till(), required=True, count=1) as [served]:
        body = {"model": "plain", "messages": [{"role": "user", "content": "Hello."}]}
        status, told, _ = await served.post("/v1/chat/completions", body, x_api_key="wc_any")
        assert (status, told["error"]["code"]) == (503, "keys_failed")


# ── The parts ───────────────────────────────────────────────────────────────────────


def test_keys_stay_valid_while_the_server_is_away(url: str) -> None:
    now = [1000.0]
    store = SharedKeyStore(url, clock=lambda: now[0])
    text, key = store.create(Key(id="", name="mine", expires=2000.0))
    assert store.check(text) == key
    assert store.find(key.id) == key
    assert [entry.key for entry in store.list()] == [key]
    store._session.url = NOWHERE
    store.close()
    now[0] += 60
    assert store.check(text) == key
    now[0] += 1000
    assert store.check(text) is None
    with pytest.raises(KeyStoreFailed):
        store.list()


def test_a_new_machine_does_not_trust_anew_what_it_sees(url: str) -> None:
    one, other = SharedPins(url), SharedPins(url)
    seen = one.read().pin("files", {"read": "a" * 64})
    one.keep(seen)
    one.keep(seen)
    while other.read() != seen:
        pass
    other.keep(seen.pin("files", {"read": "b" * 64}).pin("files", {"write": "c" * 64}))
    expected = Pins({"files": {"read": "a" * 64, "write": "c" * 64}})
    while one.read() != expected:
        pass


def test_pins_that_no_one_can_read_trust_no_tool() -> None:
    pins = SharedPins(NOWHERE).read()
    assert (pins.strict, pins.digests) == (True, {})


def test_blobs_are_found_by_name_until_they_are_old(url: str) -> None:
    now = [1000.0]
    one, other = (
        PostgresBlobs(PostgresSession(url), kind, seconds=60, clock=lambda: now[0])
        for kind in ("a", "b")
    )
    one.put(["x", "y"], b"first")
    assert one.find(["x", "y", "z"]) == {"x": b"first", "y": b"first"}
    assert other.find(["x"]) == {}
    assert one.edit("x", lambda text: text + b"!") == b"first!"
    assert one.edit("z", lambda text: text) is None
    assert one.edit("x", lambda _: None) is None
    assert one.find(["x", "y"]) == {"x": b"first!"}
    one.drop(["x"])
    assert one.find(["x"]) == {}
    one.put(["x"], b"second")
    now[0] += 61
    assert one.find(["x"]) == {}
    one.put(["w"], b"third")
    assert one._session.ask("SELECT text FROM wholecall.texts") == [(b"third",)]
    for blobs in (one, other):
        blobs.close()
    with pytest.raises(StoreFailed, match="cannot be read or written"):
        PostgresBlobs(PostgresSession(NOWHERE), "a").find(["x"])


def test_the_command_line_makes_keys_for_all_machines(
    url: str, *, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHOLECALL__JOURNAL__URL", url)
    for words in (["create", "--name", "ops"], ["list"]):
        with pytest.raises(SystemExit):
            main.main(["keys", *words])
    said = capsys.readouterr().out.splitlines()
    with closing(SharedKeyStore(url)) as store:
        assert store.check(said[0]) is not None
    assert "  ops  " in said[1]
