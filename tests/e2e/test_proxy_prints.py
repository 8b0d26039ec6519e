"""What tools print does not get into the log's JSON: it becomes lines of theirs."""

# ruff: noqa: T201 - what tools print is the subject

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from e2e.tool_runs import QUESTION
from proxy_server import in_loop, proxying, upstream
from wholecall.faults.fault_server import FaultServer
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig
from wholecall.proxy.server import lifespan
from wholecall.tools.function_tool import make_tool


@in_loop
async def test_every_line_of_the_log_is_json_and_names_the_tool(
    tmp_path: Path, *, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def send_email(to: str, body: str) -> str:
        """Send an email."""
        print(f"to {to}")
        print(len(body), "characters", file=sys.stderr)
        return "sent"

    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    async with FaultServer() as faults:
        config = Config(
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            models={"m": upstream("openai/good", faults.base_url, mode="run")},
        )
        app = make_app(config, environ={}, tools=(make_tool(send_email),), around=lifespan)
        async with proxying(app) as served:
            body = {"model": "m", "messages": QUESTION}
            status, *_ = await served.post("/v1/chat/completions", body)
            print("of nobody")
    assert status == 200
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = [line for line in lines if line["event"] == "tool printed"]
    assert sorted((line["name"], line["text"]) for line in told) == [
        ("send_email", "19 characters"),
        ("send_email", "to ada@example.org"),
    ]
    assert all(line["request_id"] for line in told)
    assert [line["text"] for line in lines if line["event"] == "printed"] == ["of nobody"]
    assert capsys.readouterr().out == ""
