"""Files that are damaged while the proxy serves: clients get a 503, and the log the reason."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
import pytest

from damaged_files import DAMAGES, overwrite_pages
from e2e.tool_runs import ITEMS, QUESTION, Ran, serving
from proxy_server import Served, in_loop, proxying, upstream
from responses_proxy import serve
from wholecall.faults.fault_server import FaultServer
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.observe.inspector_feed import STORE_FILE
from wholecall.proxy.service_builder import RESPONSES_FILE, RUNS_FILE

MODEL = "openai:parallel-calls"


def assert_told(error: openai.APIStatusError, path: Path, *, log: str) -> None:
    """The client is told that it failed, and nothing of our files; the log says the rest."""
    assert error.status_code == 503
    assert error.code == "store_failed"
    assert str(path.parent) not in str(error.response.text)
    assert path.name not in str(error.response.text)
    assert f"{path}: " in log
    assert "move it away" in log
    assert "Traceback" not in log, "it is no mistake of ours"


async def ask(served: Served, messages: Any = QUESTION) -> Any:
    answer = await served.openai.chat.completions.create(
        model=MODEL, messages=messages, tools=ITEMS
    )
    return answer.choices[0]


@pytest.mark.parametrize("damage", DAMAGES)
@in_loop
async def test_a_conversation_whose_other_half_is_damaged_is_refused_before_anything_runs(
    tmp_path: Path, damage: Callable[[Path], None], *, caplog: pytest.LogCaptureFixture
) -> None:
    ran = Ran()
    async with serving(tmp_path, ran) as (served, _):
        choice = await ask(served)
    [call] = choice.message.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": "one, two"}
    history = [*QUESTION, choice.message.model_dump(exclude_none=True), result]
    async with serving(tmp_path, ran) as (served, faults):
        damage(tmp_path / RUNS_FILE)
        with pytest.raises(openai.APIStatusError) as refused:
            await ask(served, history)
        assert not faults.received
    assert len(ran.calls) == 2
    assert_told(refused.value, tmp_path / RUNS_FILE, log=caplog.text)


@in_loop
async def test_without_a_journal_that_can_be_written_nothing_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran = Ran()
    async with serving(tmp_path, ran) as (served, _):
        await ask(served)
    async with serving(tmp_path, ran) as (served, faults):
        overwrite_pages(tmp_path / RUNS_FILE)
        with pytest.raises(openai.APIStatusError) as refused:
            await ask(served)
        assert not faults.received
    assert len(ran.calls) == 2
    assert_told(refused.value, tmp_path / RUNS_FILE, log=caplog.text)


@in_loop
async def test_a_row_that_is_not_what_was_written_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran = Ran()
    async with serving(tmp_path, ran) as (served, _):
        choice = await ask(served)
        with closing(sqlite3.connect(tmp_path / RUNS_FILE)) as file, file:
            file.execute("UPDATE rows SET body = X'FF00FF00' WHERE key GLOB 'turn *'")
        [call] = choice.message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "one, two"}
        history = [*QUESTION, choice.message.model_dump(exclude_none=True), result]
        with pytest.raises(openai.APIStatusError) as refused:
            await ask(served, history)
    assert (refused.value.status_code, refused.value.code) == (503, "store_failed")
    assert len(ran.calls) == 2
    assert "a TurnRow cannot be read" in caplog.text
    assert "TurnRow" not in refused.value.response.text
    assert "Traceback" not in caplog.text


ANSWERED: Any = {"model": "openai:answer-only", "input": "one"}
ASKED_FOR: dict[str, Callable[[Any, str], Awaitable[object]]] = {
    "retrieve": lambda responses, id: responses.retrieve(id),
    "delete": lambda responses, id: responses.delete(id),
    "continue": lambda responses, id: responses.create(**ANSWERED, previous_response_id=id),
}


@pytest.mark.parametrize("ask_for", ASKED_FOR.values(), ids=ASKED_FOR)
@in_loop
async def test_a_response_that_cannot_be_read_is_no_response_that_is_not_there(
    tmp_path: Path,
    ask_for: Callable[[Any, str], Awaitable[object]],
    *,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve(tmp_path, workers=2) as (served, _):
        made = await served.openai.responses.create(**ANSWERED)
    async with serve(tmp_path, workers=2) as (served, faults):
        overwrite_pages(tmp_path / RESPONSES_FILE)
        with pytest.raises(openai.APIStatusError) as refused:
            await ask_for(served.openai.responses, made.id)
        assert not faults.received
    assert_told(refused.value, tmp_path / RESPONSES_FILE, log=caplog.text)


@pytest.mark.parametrize(
    "path",
    ["runs", "runs/run_1", "runs/run_1/chunks", "runs/run_1/case", "figures"],
)
@in_loop
async def test_the_inspector_says_that_its_file_fails(
    tmp_path: Path, path: str, *, caplog: pytest.LogCaptureFixture
) -> None:
    keys = KeysConfig(path=str(tmp_path / "keys.sqlite"))
    config = Config(keys=keys, inspector=InspectorConfig(enabled=True))
    async with proxying(make_app(config, environ={})) as served:
        overwrite_pages(tmp_path / STORE_FILE)
        async with served.http.get(f"{served.url}/inspector/api/{path}") as response:
            told = (await response.json())["error"]
    assert (response.status, told["code"]) == (503, "store_failed")
    assert str(tmp_path) not in told["message"]
    assert "move it away" in caplog.text


@in_loop
async def test_keys_that_cannot_be_read_let_nobody_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.sqlite"
    store = KeyStore(path)
    text, _ = store.create(Key(id="", name="ada"))
    store.close()
    async with FaultServer() as faults:
        models = {"good": upstream("openai/good", faults.base_url)}
        config = Config(models=models, keys=KeysConfig(required=True, path=str(path)))
        async with proxying(make_app(config, environ={})) as served:
            overwrite_pages(path)
            status, told, headers = await served.post(
                "/v1/chat/completions",
                {"model": "good", "messages": QUESTION},
                authorization=f"Bearer {text}",
            )
        assert not faults.received
    assert (status, told["error"]["code"]) == (503, "keys_failed")
    assert "retry-after" in headers
    assert str(path) not in str(told)
    assert f"{path}: " in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.ERROR]
