"""The routes of the proxy, and its settings while it runs."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import closing
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy_server import KEY, Offer, Served, in_loop, proxying, upstream
from tools.mcp_calls import is_running, scripted
from upstreams.fake_endpoint import always, good, serving
from wholecall.proxy.app import make_app
from wholecall.proxy.config.load import Loaded, load
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    InspectorConfig,
    KeysConfig,
    ListenConfig,
    McpTool,
    MetricsConfig,
    ModelConfig,
    PythonTool,
    ResponsesConfig,
    ServerLimits,
)
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.http.shutdown import ShutdownDeadline
from wholecall.proxy.service_builder import state_path
from wholecall.storage import StoreFailed
from wholecall.tools.function_tool import make_tool
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.replay import ReplayUpstream

NOWHERE = "http://127.0.0.1:9/v1"


def look(what: str) -> str:
    """Look at something."""
    return what


async def _get(served: Served, path: str) -> tuple[int, Any]:
    async with served.http.get(served.url + path) as response:
        if response.content_type == "application/json":
            return response.status, await response.json()
        return response.status, await response.text()


@in_loop
async def test_models_are_listed_for_both_kinds_of_clients() -> None:
    models = {name: upstream("openai/x", NOWHERE) for name in ("a", "b", "*")}
    async with proxying(Offer(models)) as served:
        listed = [model.id async for model in served.openai.models.list()]
        assert listed == ["a", "b"]
        assert [model.id async for model in served.anthropic.models.list()] == ["a", "b"]
    async with proxying(Offer({})) as served:
        assert [model.id async for model in served.openai.models.list()] == []


@in_loop
async def test_one_model_is_shown_to_both_kinds_of_clients() -> None:
    models = {name: upstream("openai/x", NOWHERE) for name in ("a", "org/b")}
    async with proxying(Offer(models)) as served:
        assert (await served.openai.models.retrieve("a")).id == "a"
        assert (await served.anthropic.models.retrieve("org/b")).id == "org/b"
        status, page = await _get(served, "/v1/models/c")
        assert (status, page["error"]["code"]) == (404, "model_not_found")
        _, page = await _get(served, "/v1/models/")
        assert [model["id"] for model in page["data"]] == ["a", "org/b"]


@in_loop
async def test_a_model_says_what_becomes_of_calls(tmp_path: Path) -> None:
    models = {
        "gate": upstream("openai/x", NOWHERE),
        "run": upstream("openai/x", NOWHERE, mode="run"),
        "bare": upstream("openai/x", NOWHERE, mode="run", tools=()),
        "*": upstream("openai/*", NOWHERE),
    }
    async with proxying(Offer(models, tools=(make_tool(look),), folder=tmp_path)) as served:
        _, page = await _get(served, "/v1/models")
    assert {model["id"]: model["wholecall"] for model in page["data"]} == {
        "gate": {"mode": "gate", "tools": []},
        "run": {"mode": "run", "tools": ["look"]},
        "bare": {"mode": "run", "tools": []},
    }
    assert page["wholecall"] == {"any_model": {"mode": "gate", "tools": []}}


@in_loop
async def test_tools_are_listed(tmp_path: Path) -> None:
    offer = Offer({}, tools=(make_tool(look, read_only=True),), folder=tmp_path)
    async with proxying(offer) as served:
        status, page = await _get(served, "/v1/tools")
    assert status == 200
    [tool] = page["data"]
    assert (tool["name"], tool["read_only"], tool["approve"]) == ("look", True, False)
    assert tool["parameters"]["required"] == ["what"]


@in_loop
async def test_it_is_ready_when_its_upstreams_can_be_reached() -> None:
    async with serving(good) as behind:
        offer = Offer({"here": upstream("openai/x", f"{behind.url}/v1")})
        async with proxying(offer) as served:
            assert await _get(served, "/health") == (200, {"status": "ok"})
            assert await _get(served, "/ready") == (
                200,
                {"status": "ready", "models": {"here": True}, "servers": {}},
            )
    async with proxying(Offer({"gone": upstream("openai/x", NOWHERE)})) as served:
        status, page = await _get(served, "/ready")
        assert (status, page["models"]) == (503, {"gone": False})


@in_loop
async def test_what_is_not_served_is_told_in_the_clients_shape() -> None:
    async with proxying(Offer({})) as served:
        status, page = await _get(served, "/v1/chat/nothing")
        assert (status, page["error"]["code"]) == (404, "not_found")
        status, page = await _get(served, "/v1/messages")
        assert (status, page["type"]) == (405, "error")


@in_loop
async def test_figures_are_shown_unless_they_are_turned_off() -> None:
    async with proxying(Offer({})) as served:
        await served.post("/v1/chat/completions", {"model": "none", "messages": []})
        status, page = await _get(served, "/metrics")
        assert status == 200
        assert "wholecall_" in page
    silent = make_app(Config(metrics=MetricsConfig(enabled=False)), environ={})
    async with proxying(silent) as served:
        assert (await _get(served, "/metrics"))[0] == 404


@in_loop
async def test_every_model_of_an_address_is_served_under_its_own_name() -> None:
    async with serving(good) as behind:
        async with proxying(Offer({"*": upstream("openai/*", f"{behind.url}/v1")})) as served:
            body = {"model": "qwen3:8b", "messages": [], "stream": True}
            _, text, _ = await served.post("/v1/chat/completions", body)
        assert text.endswith("data: [DONE]\n\n")
        assert b'"qwen3:8b"' in behind.bodies[0]


@in_loop
async def test_keys_of_upstreams_are_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = always(lambda: web.json_response({"error": f"bad key {KEY}"}, status=401))
    async with serving(refusal) as behind:
        model = upstream("openai/x", f"{behind.url}/v1", headers={"Authorization": f"Bearer {KEY}"})
        async with proxying(Offer({"m": model})) as served:
            body = {"model": "m", "messages": []}
            status, told, _ = await served.post("/v1/chat/completions", body)
            _, page = await _get(served, "/metrics")
    assert status == 502
    assert KEY not in str(told) + page + capsys.readouterr().err
    assert behind.url not in str(told)


# ── Other settings ──────────────────────────────────────────────────────────────────


def _loaded(config: Config) -> Loaded:
    return Loaded(config=config, file=None, places={("tools", "0", "python"): None})  # type: ignore[dict-item]


@in_loop
async def test_models_and_limits_change_while_it_runs() -> None:
    async with serving(good) as behind:
        url = f"{behind.url}/v1"
        config = Config(
            models={"old": upstream("openai/x", url), "same": upstream("openai/y", url)}
        )
        async with proxying(make_app(config, environ={})) as served:
            same = served.proxy.models.by_name["same"]
            fresh = {"same": config.models["same"], "new": upstream("openai/z", url)}
            limits = replace(config.limits, keep_alive_seconds=3.0)
            responses = ResponsesConfig(kept_seconds=5.0)
            changed = await served.proxy.reload(
                _loaded(replace(config, models=fresh, limits=limits, responses=responses))
            )
            assert {"limits.keep_alive_seconds", "responses.kept_seconds"} <= {*changed.live}
            assert served.proxy.stores.responses.settings.kept_seconds == 5.0
            assert served.proxy.limits.keep_alive_seconds == 3.0
            assert served.proxy.api.connections.keep_alive_seconds == 3.0
            assert list(served.proxy.models.by_name) == ["same", "new"]
            assert served.proxy.models.by_name["same"] is same
            body = {"model": "new", "messages": [], "stream": True}
            assert (await served.post("/v1/chat/completions", body))[0] == 200
            body["model"] = "old"
            assert (await served.post("/v1/chat/completions", body))[0] == 404


@in_loop
async def test_a_model_that_is_served_no_more_is_closed_behind_its_last_answer() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await go_on.wait()
        return await good(request)

    async with serving(slowly) as behind:
        config = Config(models={"old": upstream("openai/x", f"{behind.url}/v1")})
        async with proxying(make_app(config, environ={})) as served:
            old = served.proxy.models.by_name["old"]
            assert old.pipe is not None
            body = {"model": "old", "messages": [], "stream": True}
            asking = asyncio.create_task(served.post("/v1/chat/completions", body))
            await asked.wait()
            client = await old.pipe._pools.current()
            await served.proxy.reload(_loaded(replace(config, models={})))
            assert (await _get(served, "/v1/models"))[1]["data"] == []
            assert not client.closed
            go_on.set()
            assert (await asking)[0] == 200
            while not client.closed:
                await asyncio.sleep(0)


MCP_SERVER = """
import os
from pathlib import Path
from mcp.server import MCPServer
server = MCPServer("small")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

Path(__file__).with_suffix(".pid").write_text(str(os.getpid()))
server.run()
"""


@in_loop
async def test_an_mcp_server_that_is_served_no_more_ends(tmp_path: Path) -> None:
    program = tmp_path / "small_server.py"
    program.write_text(MCP_SERVER)
    server = McpTool(mcp="small", command=sys.executable, args=(str(program),))
    config = Config(tools=(server,), keys=KeysConfig(path=str(tmp_path / "keys.sqlite")))
    async with proxying(make_app(config, environ={})) as served:
        _, page = await _get(served, "/v1/tools")
        assert [tool["name"] for tool in page["data"]] == ["small__add"]
        process = int(program.with_suffix(".pid").read_text())
        assert is_running(process)
        await served.proxy.reload(_loaded(replace(config, tools=())))
        while is_running(process):
            await asyncio.sleep(0.01)
        _, page = await _get(served, "/v1/tools")
        assert page["data"] == []


@in_loop
async def test_of_two_reloads_the_last_counts_however_long_the_first_takes(tmp_path: Path) -> None:
    config = Config(keys=KeysConfig(path=str(tmp_path / "keys.sqlite")))
    server = McpTool(mcp="slow", command=sys.executable, args=scripted("echo", pause=0.5))
    slow = replace(config, tools=(server,))
    quick = replace(config, limits=ServerLimits(body_bytes=7))
    async with proxying(make_app(config, environ={})) as served:
        first = asyncio.create_task(served.proxy.reload(_loaded(slow)))
        await asyncio.sleep(0)
        await served.proxy.reload(_loaded(quick))
        await first
        assert served.proxy.config == quick


@pytest.mark.parametrize("why", ["an address that is open until a restart", "a variable"])
@in_loop
async def test_settings_that_are_refused_change_nothing(why: str, tmp_path: Path) -> None:
    config = Config(
        listen=ListenConfig(host="192.0.2.1", hosts=("*",)),
        keys=KeysConfig(path=str(tmp_path / "keys.sqlite"), required=True),
        models={"old": upstream("openai/x", NOWHERE), "same": upstream("openai/y", NOWHERE)},
    )
    models = {"same": config.models["same"], "new": upstream("openai/z", NOWHERE)}
    good = replace(config, models=models, tools=(PythonTool(python="proxy.test_app:look"),))
    unsafe = replace(
        good, listen=ListenConfig(), keys=KeysConfig(path=config.keys.path, required=False)
    )
    unusable = replace(good, models={**models, "far": ModelConfig(upstream="ollama/x")})
    refused = unusable if why == "a variable" else unsafe
    async with proxying(make_app(config, environ={"OLLAMA_HOST": "http://["})) as served:
        proxy = served.proxy
        before = dict(proxy.models.by_name)
        with pytest.raises((ConfigError, ValueError)):
            await proxy.reload(_loaded(refused))
        assert (dict(proxy.models.by_name), proxy.models.offer_tools()) == (before, ())
        assert proxy.config == config
        await proxy.reload(_loaded(replace(config, tools=())))
        assert dict(proxy.models.by_name) == before


@in_loop
async def test_keys_can_be_required_while_it_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "keys.sqlite")
    config = Config(keys=KeysConfig(path=path))
    async with proxying(make_app(config, environ={})) as served:
        assert (await _get(served, "/v1/models"))[0] == 200
        with closing(KeyStore(path)) as store:
            text, _ = store.create(Key(id="", name="ops"))
        keys = KeysConfig(path=path, required=True)
        changed = await served.proxy.reload(_loaded(replace(config, keys=keys)))
        assert (changed.live, changed.restart) == (("keys.required",), ())
        assert (await _get(served, "/v1/models"))[0] == 401
        headers = {"authorization": f"Bearer {text}"}
        async with served.http.get(f"{served.url}/v1/models", headers=headers) as response:
            assert response.status == 200


@in_loop
async def test_a_responses_upstream_after_a_reload_keeps_who_owns_what_in_a_file(
    tmp_path: Path,
) -> None:
    config = Config(
        keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
        models={"m": upstream("openai/m", NOWHERE)},
    )
    state = state_path(config)
    async with proxying(make_app(config, environ={})) as served:
        assert not state.exists()
        keys, models = replace(config.keys, required=True), {"m": upstream("responses/m", NOWHERE)}
        await served.proxy.reload(_loaded(replace(config, keys=keys, models=models)))
        assert state.exists()


@in_loop
async def test_what_needs_a_restart_is_named_until_there_is_one() -> None:
    async with proxying(make_app(Config(), environ={})) as served:
        for _ in range(2):
            changed = await served.proxy.reload(_loaded(Config(listen=ListenConfig(port=1))))
            assert (changed.live, changed.restart) == ((), ("listen.port",))
            assert served.proxy.config == Config()


@in_loop
async def test_tools_change_while_it_runs_and_a_wrong_one_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "tools_of_test_app.py").write_text("def dig(depth: int) -> str:\n    return ''\n")
    (tmp_path / "wholecall.yaml").write_text("tools: [{python: 'tools_of_test_app:dig'}]\n")
    async with proxying(make_app(Config(), environ={})) as served:
        await served.proxy.reload(load(tmp_path / "wholecall.yaml", {}))
        _, page = await _get(served, "/v1/tools")
        assert [tool["name"] for tool in page["data"]] == ["dig"]
        (tmp_path / "wholecall.yaml").write_text("tools: [{python: 'tools_of_test_app:no'}]\n")
        with pytest.raises(ConfigError):
            await served.proxy.reload(load(tmp_path / "wholecall.yaml", {}))
        _, page = await _get(served, "/v1/tools")
        assert [tool["name"] for tool in page["data"]] == ["dig"]
        assert served.proxy.config.tools == (PythonTool(python="tools_of_test_app:dig"),)


def _is_open(path: Path) -> bool:
    """Return whether this process holds the file."""
    links = (os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return str(path) in links


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists open files")
@in_loop
async def test_a_reload_that_fails_closes_what_it_opened(tmp_path: Path) -> None:
    path, file = tmp_path / "keys.sqlite", tmp_path / "wholecall.yaml"
    wanted = f"keys: {{path: {path}, required: true}}\nmodels: {{new: {{upstream: ollama/x}}}}\n"
    file.write_text(f"{wanted}tools: [{{python: 'proxy.test_app:missing'}}]\n")
    wrong = load(file, {})
    config = Config(keys=KeysConfig(path=str(path)))
    async with proxying(make_app(config, environ={})) as served:
        with pytest.raises(ConfigError):
            await served.proxy.reload(wrong)
        assert (path.exists(), _is_open(path)) == (True, False)
        file.write_text(wanted)
        await served.proxy.reload(load(file, {}))
        assert _is_open(path)


@in_loop
async def test_the_time_that_answers_took_to_end_is_not_given_a_second_time(tmp_path: Path) -> None:
    config = Config(
        keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
        limits=ServerLimits(drain_seconds=3600.0),
    )
    proxy, times = make_app(config, environ={}), chain([0.0], repeat(3600.0))
    proxy.work.deadline = ShutdownDeadline(lambda: next(times))
    async with proxying(proxy) as served:
        going_on = asyncio.create_task(asyncio.Event().wait())
        proxy.work.hold(going_on)
        async with served.http.get(f"{served.url}/health"):
            pass
    assert going_on.cancelled()


class Stuck(ReplayUpstream):
    """Cannot be closed."""

    async def close(self) -> None:
        raise OSError("it is stuck")


@in_loop
async def test_what_cannot_be_closed_keeps_nothing_else_open(tmp_path: Path) -> None:
    pipe = UpstreamPipe(Endpoint("openai-chat", NOWHERE))
    stuck = ModelRoute(name="a", upstream=Stuck([]), model="m", pipe=pipe)
    config = Config(keys=KeysConfig(path=str(tmp_path / "keys.sqlite")))
    proxy = make_app(config, environ={}, models=[stuck, replace(stuck, name="b")])
    closed: list[str] = []

    async def retire() -> None:
        closed.append("retired")

    proxy.work.begin("somebody")
    proxy.work.retire(retire)
    with pytest.raises(OSError, match="it is stuck"):
        await proxy._close()
    assert closed == ["retired"]
    with pytest.raises(StoreFailed):
        proxy.stores.state.find(["any"])


@in_loop
async def test_the_root_leads_to_the_page_where_there_is_one(tmp_path: Path) -> None:
    config = Config(
        keys=KeysConfig(path=str(tmp_path / "keys.sqlite"), required=True),
        inspector=InspectorConfig(enabled=True),
    )
    async with (
        proxying(make_app(config, environ={})) as served,
        served.http.get(f"{served.url}/", allow_redirects=False) as response,
    ):
        assert (response.status, response.headers["location"]) == (307, "/inspector")
    async with proxying(Offer({})) as served:
        assert (await _get(served, "/"))[0] == 404
