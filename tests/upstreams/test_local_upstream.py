"""A local model as an upstream: asked, restarted, closed, and found by its name."""

from __future__ import annotations

import asyncio
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import web

from proxy_server import in_loop
from upstreams.fake_endpoint import PATIENCE, serving
from upstreams.fake_runtime import count_starts, program
from wholecall.errors import UnknownModel, UpstreamError
from wholecall.events import Outcome, Text, collect
from wholecall.messages import Message, Request, Role, ToolSpec
from wholecall.protocols.reader import Reader
from wholecall.upstreams.http import HttpSettings
from wholecall.upstreams.local_upstream import MOST_WAYS, LocalUpstream, find_file, takes_tools
from wholecall.upstreams.model_process import LocalSettings
from wholecall.upstreams.providers import find_upstream


def make_file(folder: Path, name: str = "tiny.gguf") -> Path:
    path = folder / name
    path.write_bytes(b"GGUF")
    return path


def make_upstream(
    folder: Path, behaviour: str = "serves", *, name: str = "tiny.gguf"
) -> LocalUpstream:
    settings = LocalSettings(start_seconds=PATIENCE)
    path = make_file(folder, name)
    return LocalUpstream(path, settings=settings, program=program(behaviour, folder))


async def ask(
    upstream: LocalUpstream, question: str, *, tools: tuple[ToolSpec, ...] = ()
) -> Outcome:
    messages = (Message(Role.USER, (Text(question),)),)
    request = Request(model="local/tiny", messages=messages, tools=tools)
    reader = Reader(upstream.protocol)
    async with upstream.answer(request) as answer:
        events = [event async for chunk in answer.chunks for event in reader.feed(chunk)]
    return collect([*events, *reader.end()])


def test_it_answers_and_may_be_closed_and_asked_again(tmp_path: Path) -> None:
    async def talk() -> list[str]:
        upstream = make_upstream(tmp_path)
        try:
            said = [(await ask(upstream, word)).text for word in ("one", "two")]
            await upstream.close()
            return [*said, (await ask(upstream, "three")).text]
        finally:
            await upstream.close()
            await upstream.close()

    assert asyncio.run(talk()) == ["one", "two", "three"]
    assert count_starts(tmp_path) == 2


def test_tools_that_the_template_would_drop_are_refused(tmp_path: Path) -> None:
    async def talk() -> None:
        upstream = make_upstream(tmp_path, name="toolless.gguf")
        try:
            for _ in range(2):
                with pytest.raises(UpstreamError, match=r"toolless\.gguf has no place for tools"):
                    await ask(upstream, "one", tools=(ToolSpec("look"),))
            assert (await ask(upstream, "two")).text == "two"
        finally:
            await upstream.close()

    asyncio.run(talk())


@pytest.mark.parametrize("name", ["tooled.gguf", "odd.gguf", "silent.gguf"])
def test_a_template_that_is_not_known_to_drop_tools_is_given_them(
    name: str, *, tmp_path: Path
) -> None:
    async def talk() -> str:
        upstream = make_upstream(tmp_path, name=name)
        try:
            return (await ask(upstream, "one", tools=(ToolSpec("look"),))).text
        finally:
            await upstream.close()

    assert asyncio.run(talk()) == "one"


def test_no_proxy_stands_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    async def talk() -> Outcome:
        upstream = make_upstream(tmp_path)
        try:
            return await ask(upstream, "hello")
        finally:
            await upstream.close()

    assert asyncio.run(talk()).text == "hello"


def test_a_model_that_dies_in_an_answer_cuts_it_and_is_started_again(tmp_path: Path) -> None:
    async def talk() -> tuple[Outcome, Outcome]:
        upstream = make_upstream(tmp_path)
        try:
            return await ask(upstream, "die"), await ask(upstream, "alive")
        finally:
            await upstream.close()

    cut, whole = asyncio.run(talk())
    assert (cut.text, cut.error) == ("die", "stream_dropped")
    assert (whole.text, whole.error) == ("alive", None)


def test_a_process_that_died_unseen_is_replaced_and_asked_again(tmp_path: Path) -> None:
    async def talk() -> Outcome:
        upstream = make_upstream(tmp_path, "dies the first time")
        try:
            return await ask(upstream, "hello")
        finally:
            await upstream.close()

    assert asyncio.run(talk()).text == "hello"
    assert count_starts(tmp_path) == 2


@pytest.mark.parametrize(
    ("behaviour", "question", "code"),
    [("serves nobody", "hello", "connection"), ("serves", "refuse", "status")],
)
def test_a_process_that_runs_and_does_not_answer_is_an_error(
    behaviour: str, question: str, *, code: str, tmp_path: Path
) -> None:
    async def talk() -> None:
        upstream = make_upstream(tmp_path, behaviour)
        try:
            await ask(upstream, question)
        finally:
            await upstream.close()

    with pytest.raises(UpstreamError) as raised:
        asyncio.run(talk())
    assert raised.value.code == code
    assert count_starts(tmp_path) == 1


def test_a_file_that_is_no_model_starts_nothing(tmp_path: Path) -> None:
    upstream = make_upstream(tmp_path)
    upstream.path.write_bytes(b"no model")
    with pytest.raises(UpstreamError, match="is not a model in GGUF"):
        asyncio.run(ask(upstream, "hello"))
    assert not (tmp_path / "starts").exists()


PARENT = """
import asyncio, os, sys
from pathlib import Path
from upstreams.test_local_upstream import make_upstream
upstream = make_upstream(Path(sys.argv[1]))
asyncio.run(upstream._keeper.find_address())
print(upstream._keeper._running[0]._process.pid, flush=True)
sys.stdin.read()
"""


def test_the_process_dies_with_us_even_when_we_are_killed(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": tests},
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    with parent, parent.stdout, parent.stdin:
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(PATIENCE)
        wait_for_end(pid)


def wait_for_end(pid: int) -> None:
    """It is nobody's child any more, so that only its number can be asked for."""
    handle = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([handle], [], [], PATIENCE)
        assert ended
    finally:
        os.close(handle)


# ── Names ───────────────────────────────────────────────────────────────────────────


def test_a_file_is_found_by_its_path_or_by_its_name(tmp_path: Path) -> None:
    environ = {"WHOLECALL_MODELS": str(tmp_path)}
    own = make_file(tmp_path, "mine.gguf")
    known = make_file(tmp_path, "smollm2-135m.gguf")
    assert find_file(str(own), environ) == own
    assert find_file("mine", environ) == own
    assert find_file("smollm2", environ) == known


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/nowhere/mine.gguf", "there is no file /nowhere/mine.gguf"),
        ("smollm2", "run `wholecall model pull smollm2-135m`"),
        ("mine", "no model is called 'mine'"),
    ],
)
def test_a_model_that_is_not_here_says_what_to_do(name: str, said: str, *, tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match=re.escape(said)):
        find_file(name, {"WHOLECALL_MODELS": str(tmp_path)})


def test_the_prefix_names_it_and_stays_in_the_name(tmp_path: Path) -> None:
    make_file(tmp_path, "mine.gguf")
    settings = HttpSettings(environ={"WHOLECALL_MODELS": str(tmp_path)})
    route = find_upstream("local/mine", settings=settings)
    assert isinstance(route.upstream, LocalUpstream)
    assert route.upstream.path == tmp_path / "mine.gguf"
    assert route.model == "local/mine"


def test_who_comes_late_with_an_old_address_takes_no_way_from_others(tmp_path: Path) -> None:
    async def connect() -> None:
        upstream = LocalUpstream(tmp_path / "tiny.gguf")
        new, old = "http://127.0.0.1:2", "http://127.0.0.1:1"
        way = await upstream._connect(new)
        pool = await way._pools.current()
        await upstream._connect(old)
        assert await upstream._connect(new) is way
        closed = [pool.closed]
        for port in range(10, 10 + MOST_WAYS):
            await upstream._connect(f"http://127.0.0.1:{port}")
        closed.append(pool.closed)  # those that have ended are not kept for ever
        await upstream.close()
        assert closed == [False, True]

    asyncio.run(connect())


# ── What llama.cpp says of a chat template, if it says anything ─────────────────────────

ROWS: dict[str, tuple[int, str, bool | None]] = {
    "it has a place for tools": (200, '{"chat_template_caps": {"supports_tools": true}}', True),
    "it has none": (200, '{"chat_template_caps": {"supports_tools": false}, "x": 1}', False),
    "nothing is said of it": (200, '{"chat_template_caps": {}}', None),
    "nothing is said of templates": (200, "{}", None),
    "the server is busy": (503, '{"chat_template_caps": {"supports_tools": true}}', None),
    "it is no JSON": (200, "<html>", None),
}


@pytest.mark.parametrize(("status", "said", "taken"), ROWS.values(), ids=ROWS)
@in_loop
async def test_row(status: int, said: str, *, taken: bool | None) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/props"
        return web.Response(status=status, text=said)

    async with serving(handler) as server:
        assert await takes_tools(server.url, "key") is taken


@in_loop
async def test_a_server_that_is_not_there_says_nothing() -> None:
    async with serving(web.Response) as server:  # type: ignore[arg-type]  # nobody asks it
        address = server.url
    assert await takes_tools(address, "key") is None
