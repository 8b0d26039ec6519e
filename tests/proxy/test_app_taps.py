"""The taps of a proxy."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_server import in_loop
from wholecall.inspector.run_store import Filter, RunStore
from wholecall.proxy.app import Observers
from wholecall.proxy.config.schema import (
    Config,
    InspectorConfig,
    KeysConfig,
    LogConfig,
    MetricsConfig,
)
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.request_plan import ModelRoute, ModelRoutes
from wholecall.proxy.http.refusals import HttpRefusal
from wholecall.proxy.observe.inspector_feed import STORE_FILE, ApprovalGiven
from wholecall.proxy.observe.taps import Exchange, ExchangeWatch, Fate
from wholecall.tools.mcp.tool_definitions import (
    Changed,
    McpEvent,
    ServerLost,
    ServerNoise,
    ServerStarted,
    ToolRefused,
    ToolsListed,
)
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.replay import ReplayUpstream


def observe(config: Config, stream: io.StringIO) -> Observers:
    models = ModelRoutes([ModelRoute(name="m", upstream=ReplayUpstream([]), model="m")])
    return Observers(config, models=models, stream=stream)


def test_what_happens_is_logged_and_counted() -> None:
    stream = io.StringIO()
    observing = observe(Config(), stream)
    ExchangeWatch(Exchange(request_id="req_1", model="m"), observing.taps).end(Fate.DONE)
    assert "req_1" in stream.getvalue()
    assert observing.metrics is not None
    assert b'model="m"' in observing.metrics.render()[0]


def test_a_request_that_is_turned_away_is_logged_and_counted() -> None:
    stream = io.StringIO()
    observing = observe(Config(), stream)
    observing.take_refusal(
        HttpRefusal("req_1", "/v1/a path with words", status=429, code="rate", key_id="key_7")
    )
    [line] = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert line.pop("timestamp")
    assert line == {
        "level": "warning",
        "event": "request refused",
        "request_id": "req_1",
        "key_id": "key_7",
        "path": "(21 characters that are no name)",
        "status": 429,
        "code": "rate",
    }
    assert observing.metrics is not None
    assert b'refusals_total{code="rate",status="429"} 1.0' in observing.metrics.render()[0]
    quiet = observe(Config(metrics=MetricsConfig(enabled=False)), io.StringIO())
    quiet.take_refusal(HttpRefusal("req_2", "/", status=404, code="not_found"))


def test_a_path_is_the_clients_and_may_hold_a_secret() -> None:
    stream = io.StringIO()
    path = "/v1/wc_Zq81hHw0pLx5RkT2/models"
    observe(Config(), stream).take_refusal(HttpRefusal("req_1", path, status=404, code="not_found"))
    assert json.loads(stream.getvalue())["path"] == "/v1/wc-***/models"


def test_who_answered_for_a_call_is_logged() -> None:
    stream = io.StringIO()
    given = ApprovalGiven(
        key_id="key_7", request_id="req_2", run_request_id="req_1", tool="a b", decision="deny"
    )
    observe(Config(), stream).take_approval(given)
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp")
    assert line == {
        "level": "info",
        "event": "approval given",
        "key_id": "key_7",
        "request_id": "req_2",
        "run_request_id": "req_1",
        "tool": "(3 characters that are no name)",
        "approved": False,
    }


CHANGED = Changed(server="time", tool="now", old="1", new="2", definition="{}")
LISTED = ToolsListed(server="time", offered=("now",))
EVENTS: dict[str, tuple[McpEvent, dict[str, Any]]] = {
    "a server that is there": (
        ServerStarted("time"),
        {"level": "info", "event": "MCP server started", "server": "time"},
    ),
    "a server that is gone": (
        ServerLost(server="time", reason="it ended", stderr="oops", delay=0.5),
        {"level": "warning", "event": "MCP server lost", "why": "it ended", "stderr": "oops"},
    ),
    "a server that prints a banner": (
        ServerNoise("time", "Welcome!"),
        {
            "level": "warning",
            "event": "MCP server wrote a line that is not a message",
            "line": "Welcome!",
        },
    ),
    "tools": (LISTED, {"level": "info", "event": "MCP tools listed", "offered": ["now"]}),
    "tools that are not what they were": (
        replace(LISTED, changed=(CHANGED,), refused=(ToolRefused("time", "bad", "why"),)),
        {"level": "warning", "changed": ["now"], "refused": {"bad": "why"}},
    ),
}


@pytest.mark.parametrize(("event", "fields"), EVENTS.values(), ids=EVENTS)
def test_what_becomes_of_mcp_servers_is_logged(event: McpEvent, fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    observe(Config(), stream).take_server_event(event)
    line = json.loads(stream.getvalue())
    assert fields.items() <= line.items()


def test_pins_that_cannot_be_kept_are_told_of() -> None:
    stream = io.StringIO()
    observe(Config(), stream).take_pin_trouble(OSError("read-only"))
    assert json.loads(stream.getvalue())["error"] == "read-only"


def test_figures_can_be_turned_off_and_the_log_can_be_made_quiet() -> None:
    stream = io.StringIO()
    config = Config(metrics=MetricsConfig(enabled=False))
    observing = observe(config, stream)
    assert observing.metrics is None
    observing.reload(replace(config, log=LogConfig(level="error")))
    observing.log.info("quiet")
    assert stream.getvalue() == ""


def test_secrets_of_models_are_never_written() -> None:
    stream = io.StringIO()
    observing = observe(Config(), stream)
    pipe = UpstreamPipe(Endpoint("openai-chat", "http://127.0.0.1:9", api_key="correct-horse"))
    upstream = ReplayUpstream([])
    observing.learn(
        {
            "m": ModelRoute(name="m", upstream=upstream, model="m", pipe=pipe),
            "n": ModelRoute(name="n", upstream=upstream, model="n"),
        }
    )
    observing.log.info("the key is correct-horse")
    assert "correct-horse" not in stream.getvalue()


@in_loop
async def test_a_name_that_turns_out_to_be_a_secret_is_not_shown_again(tmp_path: Path) -> None:
    keys = KeysConfig(path=str(tmp_path / "keys.sqlite"))
    config = Config(keys=keys, inspector=InspectorConfig(enabled=True))
    observing = observe(config, io.StringIO())
    pipe = UpstreamPipe(Endpoint("openai-chat", "http://127.0.0.1:9", api_key="correct-horse"))
    models = {"m": ModelRoute(name="m", upstream=ReplayUpstream([]), model="m", pipe=pipe)}
    inspector = observing.inspector
    assert inspector is not None
    for learned in ({}, models):
        observing.learn(learned)
        ExchangeWatch(Exchange(request_id="req_1", model="correct-horse"), [inspector]).end(
            Fate.DONE
        )
        await inspector._tap._catch_up()
    await observing.close()
    store = RunStore(tmp_path / STORE_FILE)
    assert [run["model"] for run in store.list_runs(Filter())] == ["***", "correct-horse"]
    store.close()
