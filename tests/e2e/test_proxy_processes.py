"""Several processes of one proxy, at a time or one after the other: what was begun in one is not
begun again in another."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.tool_runs import QUESTION, Ran
from proxy_server import in_loop, proxying, upstream
from wholecall.faults.fault_server import FaultServer
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig, ListenConfig

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("stream", [False, True])
@in_loop
async def test_a_resend_that_reaches_another_process_runs_nothing_again(
    tmp_path: Path, *, stream: bool, workers: int
) -> None:
    ran = Ran()
    body = {"model": "m", "messages": QUESTION, "stream": stream}
    async with FaultServer() as faults:
        config = Config(
            listen=ListenConfig(workers=workers),
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            models={"m": upstream("openai/good", faults.base_url, mode="run")},
        )
        one, other = (make_app(config, environ={}, tools=ran.tools()) for _ in range(2))
        async with proxying(one) as here, proxying(other) as there:
            status, *_ = await here.post(CHAT, body, x_stainless_retry_count="0")
            assert (status, len(ran.calls)) == (200, 1)
            for process in (there, here):
                status, told, _ = await process.post(CHAT, body, x_stainless_retry_count="1")
                assert (status, len(ran.calls)) == (200, 1)
                assert "All done." in str(told)
            # The same words may come anew.
            status, *_ = await there.post(CHAT, body, x_stainless_retry_count="0")
            assert (status, len(ran.calls)) == (200, 2)
