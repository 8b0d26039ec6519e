"""Every setting that needs no restart takes effect on reload, wherever it is used."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_server import in_loop, proxying
from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.check import list_settings
from wholecall.proxy.config.load import Loaded, load
from wholecall.proxy.config.schema import (
    Config,
    InspectorConfig,
    KeysConfig,
    ModelConfig,
    Secret,
    ServerLimits,
)
from wholecall.proxy.server import make_server_config

MODEL = ModelConfig(upstream="openai/x", base_url="http://127.0.0.1:9/v1", api_key=Secret("old"))
# Of settings that cannot be changed by arithmetic: another value.
OTHERS: Mapping[str, Any] = {
    "listen.hosts": ("proxy.example",),
    "listen.origins": ("https://chat.example",),
    "models.a.upstream": "anthropic/y",
    "models.a.base_url": "http://127.0.0.1:10/v1",
    "models.a.api_key": Secret("new"),
    "models.a.headers": {"x-team": "tools"},
    "models.a.mode": "run",
    "models.a.tools": ("search",),
    "models.a.emulate": "hermes",
    "models.a.unsupported_tools": "drop",
    "models.a.rescue": "off",
    "models.a.system": "first",
    "models.a.cache": "off",
    "models.a.routes": ("embeddings",),
    "models.a.limits.seconds": 5.0,
    "models.a.limits.tokens": 500,
    "keys.open": ("/ready",),
    "log.level": "error",
}


def list_live() -> Iterator[str]:
    """The settings that a running proxy can change, those of the model `a` among them. Tools are
    imported and started: they have tests of their own."""
    for row in list_settings():
        if not row.restart and not row.setting.startswith("tools."):
            yield row.setting.replace("models.NAME", "models.a")


def change(section: Any, path: list[str], *, name: str) -> Any:
    """Return a section with another value of one setting."""
    if not path:
        return OTHERS[name] if name in OTHERS else _other(section)
    if isinstance(section, Mapping):
        return {**section, path[0]: change(section[path[0]], path[1:], name=name)}
    return replace(section, **{path[0]: change(getattr(section, path[0]), path[1:], name=name)})


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return max(value / 2, 0.5) if isinstance(value, float) else value + 1


def find(section: Any, path: list[str]) -> Any:
    """Return the value of a setting."""
    for name in path:
        section = section[name] if isinstance(section, Mapping) else getattr(section, name)
    return section


def route(proxy: Proxy) -> Any:
    """The route of the model."""
    return proxy.models.by_name["a"]


# By the beginning of a setting's name: the objects that use it, each as the section that it has.
USERS: Mapping[str, tuple[Callable[[Proxy], Any], ...]] = {
    "listen": (lambda proxy: proxy._middleware._config.listen,),
    "keys": (lambda proxy: proxy._middleware._config.keys,),
    "limits": (
        lambda proxy: proxy.limits,  # each connection, and the end of the server
        lambda proxy: proxy._middleware._config.limits,
        lambda proxy: proxy.api.planner.limits,
    ),
    "responses": (lambda proxy: proxy.stores.responses.settings,),
    "log": (lambda proxy: proxy.observers._writer._settings,),
    "inspector": (lambda proxy: proxy.config.inspector,),
    "models": (lambda proxy: {"a": route(proxy).settings},),
}
# What was made of a setting, if that is more than a copy of it.
MADE: Mapping[str, Callable[[Any], Any]] = {
    "limits.keep_alive_seconds": lambda proxy: proxy.api.connections.keep_alive_seconds,
    "inspector.bodies": lambda proxy: proxy.observers.inspector._quoting.bodies,
    "inspector.approval_seconds": lambda proxy: proxy.observers.inspector.approving.seconds,
    "models.a.upstream": lambda proxy: f"{route(proxy).upstream.protocol}/{route(proxy).model}",
    "models.a.timeouts.between_chunks": lambda proxy: route(proxy).pipe.silence,
    "models.a.retries": lambda proxy: route(proxy).pipe._settings.retry.retries,
    "models.a.mode": lambda proxy: "run" if route(proxy).runs_tools else "gate",
}


@pytest.mark.parametrize("name", [*list_live()])
@in_loop
async def test_a_setting_takes_effect_on_reload(name: str, tmp_path: Path) -> None:
    config = Config(
        models={"a": MODEL},
        keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
        inspector=InspectorConfig(enabled=True),
    )
    path = name.split(".")
    new = change(config, path, name=name)
    value = find(new, path)
    assert value != find(config, path)
    async with proxying(make_app(config, environ={})) as served:
        changed = await served.proxy.reload(Loaded(config=new, file=None, places={}))
        assert changed.restart == ()
        assert len(changed.live) == 1
        assert changed.live[0].startswith(name)
        for user in USERS[path[0]]:
            assert find(user(served.proxy), path[1:]) == value
        if name in MADE:
            assert MADE[name](served.proxy) == value


@pytest.mark.parametrize("seconds", [0.0, 0.5, 7.0])
@in_loop
async def test_the_server_waits_as_long_as_the_present_settings_say(seconds: float) -> None:
    async with proxying(make_app(Config(), environ={})) as served:
        listening = make_server_config(Config(), served.proxy)
        listening.load()
        limits = ServerLimits(drain_seconds=seconds)
        new = Loaded(config=Config(limits=limits), file=None, places={})
        await served.proxy.reload(new)
        assert listening.timeout_graceful_shutdown == math.ceil(seconds)


def test_every_setting_has_a_user() -> None:
    assert set(USERS) == {name.partition(".")[0] for name in list_live()}
    assert {*OTHERS, *MADE} <= set(list_live())


@in_loop
async def test_a_reload_says_that_the_file_of_a_tool_has_changed(tmp_path: Path) -> None:
    module, file = tmp_path / "tools_of_test_reload.py", tmp_path / "wholecall.yaml"
    module.write_text("def dig(depth: int) -> str:\n    return ''\n")
    file.write_text("tools: [{python: 'tools_of_test_reload:dig'}]\n")
    async with proxying(make_app(load(file, {}), environ={})) as served:
        reloaded = [await served.proxy.reload(load(file, {})) for _ in range(2)]
        assert [each.restart for each in reloaded] == [(), ()]
        os.utime(module, ns=(1, 1))
        for _ in range(2):  # until there is a restart
            again = await served.proxy.reload(load(file, {}))
            assert again.restart == ("tools.0.python (its file has changed)",)
