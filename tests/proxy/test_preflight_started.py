"""What a configuration names is started or reached, and ended again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from configs import load_text
from proxy_server import in_loop
from tools.mcp_calls import scripted
from upstreams.fake_endpoint import good, serving
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.preflight import probe_servers, probe_upstreams

NOWHERE = "http://127.0.0.1:9"
CRASH = ("-c", "import sys; print('first', file=sys.stderr); sys.exit('no such account')")


def load_servers(folder: Path, *servers: dict[str, Any]) -> Loaded:
    lines = [f"  - {json.dumps({'mcp': f's{n}', **each})}" for n, each in enumerate(servers)]
    return load_text(folder, "\n".join(["tools:", *lines]))


def python(*args: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": args}


SERVERS: dict[str, tuple[dict[str, Any], str]] = {
    "it names its tools": (python(*scripted("look")), ""),
    "its program is not there": (
        {"command": "wc-no-such-program"},
        "there is no 'wc-no-such-program'",
    ),
    "its program ends": (python(*CRASH), "; the last line that it wrote: no such account"),
    "it says nothing": (
        {**python(*scripted(mood="silent")), "start_timeout": 0.5},
        "it did not answer in 0.5 seconds",
    ),
    "nobody listens there": ({"url": f"{NOWHERE}/mcp"}, "did not start"),
}


@pytest.mark.parametrize(("server", "why"), SERVERS.values(), ids=SERVERS)
@in_loop
async def test_a_server_that_does_not_start_is_told_with_its_line(
    tmp_path: Path, server: dict[str, Any], *, why: str
) -> None:
    for required in (True, False):
        loaded = load_servers(tmp_path, python(*scripted("fine")), {**server, "required": required})
        problems, notes = await probe_servers(loaded)
        told = problems if required else notes
        assert len(problems) + len(notes) == len(told) == bool(why)
        for problem in told:
            start = f"{tmp_path / 'wholecall.yaml'}:3: tools.1.mcp: MCP server 's1' did not start"
            assert str(problem).startswith(start)
            assert why in problem.message
            assert problem.message.endswith("it is not required") is not required


@in_loop
async def test_without_servers_nothing_is_started(tmp_path: Path) -> None:
    assert await probe_servers(load_text(tmp_path, "{}")) == ((), ())


@in_loop
async def test_an_upstream_that_cannot_be_reached_is_told_with_its_line(tmp_path: Path) -> None:
    async with serving(good) as behind:
        text = (
            f"models:\n  here: {{upstream: openai/x, base_url: {behind.url}}}\n"
            f"  gone: {{upstream: anthropic/x, base_url: {NOWHERE}}}\n"
        )
        problems, notes = await probe_upstreams(load_text(tmp_path, text), {})
        assert not behind.requests
    assert (len(problems), notes) == (1, ())
    assert str(problems[0]).startswith(f"{tmp_path / 'wholecall.yaml'}:3: models.gone.upstream: ")
    assert "cannot be reached" in problems[0].message
