"""LiteLLM's proxy: in front of ours, and with our guardrail inside.

Its clients get the calls that we let pass.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx  # type: ignore[import-not-found]
import openai
import pytest

from peers.proxy_agents import CLIENTS
from peers.tasks import Task
from proxy_server import Offer, proxy_in_thread, upstream
from wholecall.faults import start_in_thread
from wholecall.faults.scenarios import find_scenario
from wholecall.faults.score import Conduct, Verdict, judge

# One of them for all tests: it takes long to start.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("litellm")]

LITELLM = Path(sys.executable).with_name("litellm")
SCENARIOS = ("good", "two-steps", "parallel-calls", "truncated-but-stop", "dropped-in-call")
GUARDED = "guarded-"
"""Begins the names of the models that LiteLLM asks without our proxy."""
GUARDRAIL = "wholecall.integrations.litellm_guardrail.WholecallGuardrail"
PATIENCE = 180.0
"""Seconds. It takes 20 to start on a quiet machine."""


@dataclass(frozen=True)
class Front:
    """LiteLLM's proxy, as a client sees it."""

    url: str
    key: str


@contextmanager
def _starting(config: Path, *, log: Path) -> Iterator[Front]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    front = Front(f"http://127.0.0.1:{port}", f"sk-{secrets.token_hex(32)}")
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    environ = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MASTER_KEY": front.key,
        "NO_PROXY": "127.0.0.1",
    }
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written, env=environ)
        try:
            _wait_for(f"{front.url}/health/liveliness", process, log=log)
            yield front
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait_for(url: str, process: subprocess.Popen[bytes], *, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own address
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)  # it is another program: nothing of ours can be waited for
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("litellm")
    guardrail = {"guardrail": GUARDRAIL, "mode": "post_call"}
    with start_in_thread() as faults:
        offer = Offer({"*": upstream("openai/*", faults.base_url)})
        with proxy_in_thread(offer) as url:
            ways: dict[str, dict[str, Any]] = {
                "": {"api_base": f"{url}/v1"},
                GUARDED: {"api_base": faults.base_url, "guardrails": ["wholecall"]},
            }
            models = [
                {
                    "model_name": f"{prefix}{name}",
                    "litellm_params": {"model": f"openai/{name}", "api_key": "any", **params},
                }
                for name in SCENARIOS
                for prefix, params in ways.items()
            ]
            config = folder / "config.yaml"
            # Otherwise a request that failed is sent again by LiteLLM itself.
            settings = {"num_retries": 0}
            guardrails = [{"guardrail_name": "wholecall", "litellm_params": guardrail}]
            written = {"model_list": models, "litellm_settings": settings}
            config.write_text(json.dumps({**written, "guardrails": guardrails}))
            with _starting(config, log=folder / "log") as found:
                yield found


@pytest.mark.parametrize("prefix", ["", GUARDED], ids=["in-front", "guarded"])
@pytest.mark.parametrize("name", ["openai-chat", "openai-stream"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_of_litellm_gets_the_right_calls_or_an_error(
    front: Front, name: str, *, scenario: str, prefix: str
) -> None:
    client = CLIENTS[name]

    async def work() -> Conduct:
        async with openai.AsyncOpenAI(
            base_url=f"{front.url}/v1", api_key=front.key, max_retries=0
        ) as sdk:
            task = Task(model=f"{prefix}{scenario}", sdk=sdk)
            try:
                async with asyncio.timeout(PATIENCE), client.start() as run:
                    await run(task)
            # Within a stream LiteLLM breaks the connection off, and the SDK hands that on.
            except (openai.OpenAIError, httpx.HTTPError) as error:
                return Conduct(ran=tuple(task.ran), exit_code=1, complaint=repr(error))
            return Conduct(ran=tuple(task.ran))

    judgement = judge(find_scenario(scenario).expect(client.form), asyncio.run(work()))
    good = {"good", "two-steps", "parallel-calls"}
    allowed = {Verdict.SAFE} if scenario in good else {Verdict.SAFE, Verdict.CRASH, Verdict.LOST}
    assert judgement.verdict in allowed, judgement
