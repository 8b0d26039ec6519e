"""The inspector of a real proxy: what happened can be looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proxy_server import KEY, Served, in_loop, proxying, upstream
from scripted import chunk
from upstreams.fake_endpoint import ANSWER, always, serving, stream
from wholecall.cli.recordings import load
from wholecall.events import collect
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.script import definitions
from wholecall.proxy.app import make_app
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.config.schema import Config, InspectorConfig, KeysConfig
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.tools.function_tool import make_tool

QUESTION = [{"role": "user", "content": "What is the weather in Rome?"}]


def get_weather(city: str, unit: str = "C") -> str:
    """Current weather of a city."""
    return f"12 degrees {unit} in {city}"


def send_email(to: str, body: str) -> str:
    """Send an email."""
    return f"sent {len(body)} characters to {to}"


@asynccontextmanager
async def inspected(
    folder: Path, *scenarios: str, mode: str = "run", bodies: bool = True, keys: bool = False
) -> AsyncIterator[Served]:
    async with FaultServer(hang_seconds=2.0) as faults:
        config = Config(
            models={
                name: upstream(f"openai/{name}", faults.base_url, mode=mode, retries=1)
                for name in scenarios
            },
            keys=KeysConfig(path=str(folder / "keys.sqlite"), required=keys),
            inspector=InspectorConfig(enabled=True, bodies=bodies),
        )
        tools = (make_tool(get_weather, read_only=True), make_tool(send_email))
        async with proxying(make_app(config, environ={}, tools=tools)) as served:
            yield served


async def ask(served: Served, model: str, **fields: Any) -> Any:
    body = {"model": model, "messages": QUESTION, "stream": True, **fields}
    return await served.post("/v1/chat/completions", body)


async def get(served: Served, path: str, **headers: str) -> tuple[int, Any]:
    async with served.http.get(f"{served.url}/inspector{path}", headers=headers) as response:
        if response.content_type == "application/json":
            return response.status, await response.json()
        return response.status, await response.text()


async def wait_for_runs(served: Served, count: int = 1, **headers: str) -> list[dict[str, Any]]:
    """The runs in the file; they are written soon after their end."""
    while True:
        _, page = await get(served, "/api/runs", **headers)
        if len(page["runs"]) >= count and not page["running"]:
            return list(page["runs"])


async def events_of(served: Served, run: dict[str, Any]) -> list[dict[str, Any]]:
    _, page = await get(served, f"/api/runs/{run['id']}")
    return list(page["events"])


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


@in_loop
@pytest.mark.parametrize(
    ("bodies", "shown"),
    [(True, ("gpt-x", "<b>mine</b>")), (False, ("gpt-x", "(11 characters that are not a name)"))],
)
async def test_a_refused_request_is_listed_with_the_model_that_its_client_named(
    tmp_path: Path, bodies: bool, *, shown: tuple[str, ...]
) -> None:
    async with inspected(tmp_path, "answer-only", bodies=bodies) as served:
        for name in ("gpt-x", "<b>mine</b>"):
            assert (await ask(served, name))[0] == 404
        assert (await ask(served, "answer-only", messages=5))[0] == 400
        runs = await wait_for_runs(served, 3)
    assert sorted((run["model"], run["code"]) for run in runs) == sorted(
        [("answer-only", "invalid_value"), *((name, "model_not_found") for name in shown)]
    )


@in_loop
async def test_a_run_is_kept_with_its_turns_calls_and_results(tmp_path: Path) -> None:
    async with inspected(tmp_path, "two-steps") as served:
        await ask(served, "two-steps")
        [run] = await wait_for_runs(served)
        events = await events_of(served, run)
        _, figures = await get(served, "/api/figures")
    assert (run["model"], run["way"], run["fate"]) == ("two-steps", "run", "done")
    assert (run["turns"], run["tools"]) == (3, ["get_weather", "send_email"])
    [first, second, last] = [event for event in events if event["type"] == "UpstreamAsked"]
    assert first["messages"][0]["text"] == QUESTION[0]["content"]
    assert second["messages"][-1]["results"][0]["text"].startswith("12 degrees")
    assert last["left_out"] == 3
    assert [e["status"] for e in events if e["type"] == "ToolEnded"] == ["done", "done"]
    assert "".join(e["text"] for e in events if e["type"] == "Text") == "All done."
    assert {tool["name"]: tool["count"] for tool in figures["tools"]} == {
        "get_weather": 1,
        "send_email": 1,
    }


@in_loop
async def test_a_run_is_offered_the_tools_that_its_client_wants(tmp_path: Path) -> None:
    async with inspected(tmp_path, "answer-only") as served:
        body = {"model": "answer-only", "messages": QUESTION, "stream": True}
        for wanted in ("get_weather", "send_email, get_weather"):
            await served.post("/v1/chat/completions", body, X_Wholecall_Tools=wanted)
        status, told, _ = await served.post("/v1/chat/completions", body, x_wholecall_tools="fly")
        assert (status, "'fly'" in told["error"]["message"]) == (400, True)
        runs = [run for run in await wait_for_runs(served, 3) if run["fate"] == "done"]
        offered = [(await events_of(served, run))[2]["tools"] for run in runs]
    assert offered == [["send_email", "get_weather"], ["get_weather"]]


@pytest.mark.parametrize(
    ("scenario", "kind", "told"),
    [
        ("truncated-in-string", "Rejected", {"reason": "truncated"}),
        ("trailing-comma", "Released", {"call": {"name": "send_email"}}),
        ("missing-parameter", "Rejected", {"reason": "schema"}),
        ("server-error", "UpstreamRetried", {"type": "UpstreamRetried"}),
        ("server-error-always", "UpstreamFailed", {"error": {"status": 500}}),
        ("dropped-always", "Fault", {"kind": "stream_dropped"}),
        ("finish-stop", "Inconsistent", {"oddity": "calls_with_other_hint"}),
    ],
)
@in_loop
async def test_what_went_wrong_is_shown(
    tmp_path: Path, scenario: str, *, kind: str, told: dict[str, Any]
) -> None:
    async with inspected(tmp_path, scenario) as served:
        await ask(served, scenario)
        [run] = await wait_for_runs(served)
        events = [event for event in await events_of(served, run) if event["type"] == kind]
    assert events
    [(name, value)] = told.items()
    if isinstance(value, dict):
        assert value.items() <= events[0][name].items()
    else:
        assert events[0][name] == value


@pytest.mark.parametrize("scenario", ["good", "truncated-in-string", "trailing-comma", "crlf"])
@in_loop
async def test_an_exported_run_is_read_again_with_the_same_outcome(
    tmp_path: Path, scenario: str
) -> None:
    async with inspected(tmp_path, scenario, mode="gate") as served:
        await ask(served, scenario, tools=definitions("openai-chat"))
        [run] = await wait_for_runs(served)
        events = await events_of(served, run)
        status, text = await get(served, f"/api/runs/{run['id']}/case")
    assert status == 200
    check_again(text, events, folder=tmp_path)


def check_again(exported: str, events: list[dict[str, Any]], *, folder: Path) -> None:
    """What was exported is judged as it was at first."""
    (folder / "case.jsonl").write_text(exported)
    played = [
        collect([event for step in recording.play() for event in step])
        for recording in load(folder / "case.jsonl")
    ]
    judged = [e for e in events if e["type"] in {"Released", "Rejected"}]
    released = [call.raw for outcome in played for call in outcome.calls]
    assert released == [e["call"]["raw"] for e in judged if e["type"] == "Released"]
    reasons = [rejected.reason.value for outcome in played for rejected in outcome.rejected]
    assert reasons == [e["reason"] for e in judged if e["type"] == "Rejected"]
    assert judged


WRITTEN = {
    "constrained": '{"calls": [{"name": "get_weather", "arguments": {"city": "Rome"}}, '
    '{"name": "fly", "arguments": {}}]}',
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": {"town": "Rome"}}\n</tool_call>',
}


@pytest.mark.parametrize("dialect", WRITTEN)
@in_loop
async def test_so_is_one_whose_tools_stood_in_the_prompt(tmp_path: Path, dialect: str) -> None:
    said = [chunk({"content": piece}) for piece in WRITTEN[dialect]]
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in said)
    body += b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return await stream(request, body + b"data: [DONE]\n\n")

    async with serving(answer) as model:
        config = Config(
            models={"m": upstream("openai/m", f"{model.url}/v1", emulate=dialect)},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        async with proxying(make_app(config, environ={})) as served:
            await ask(served, "m", tools=definitions("openai-chat"))
            [run] = await wait_for_runs(served)
            events = await events_of(served, run)
            _, text = await get(served, f"/api/runs/{run['id']}/case")
            _, chunks = await get(served, f"/api/runs/{run['id']}/chunks")
    check_again(text, events, folder=tmp_path)
    told = [line for each in chunks["answers"][0]["chunks"] for line in each["events"]]
    assert any(line.startswith("Opened number=0") for line in told)


@pytest.mark.parametrize("stream", [True, False])
@in_loop
async def test_answers_that_pass_through_are_kept_as_well(tmp_path: Path, *, stream: bool) -> None:
    async with inspected(tmp_path, "answer-only", mode="gate") as served:
        await ask(served, "answer-only", stream=stream)
        [run] = await wait_for_runs(served)
        _, chunks = await get(served, f"/api/runs/{run['id']}/chunks")
        events = await events_of(served, run)
    assert run["way"] == "forward"
    assert "choices" in "".join(chunk["text"] for chunk in chunks["answers"][0]["chunks"])
    if stream:
        assert "Text" in kinds(events)


@in_loop
async def test_an_answer_in_one_piece_to_a_client_that_wants_a_stream_is_kept(
    tmp_path: Path,
) -> None:
    answer = {**ANSWER, "model": "m"}
    async with serving(always(lambda: web.json_response(answer))) as model:
        config = Config(
            models={"m": upstream("openai/m", f"{model.url}/v1")},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        async with proxying(make_app(config, environ={})) as served:
            await ask(served, "m")
            [run] = await wait_for_runs(served)
            _, chunks = await get(served, f"/api/runs/{run['id']}/chunks")
    assert json.loads(chunks["answers"][0]["chunks"][0]["text"]) == answer


@in_loop
async def test_without_bodies_nothing_is_kept_that_was_said(tmp_path: Path) -> None:
    async with inspected(tmp_path, "two-steps", "missing-parameter", bodies=False) as served:
        await ask(served, "two-steps")
        await ask(served, "missing-parameter")
        runs = await wait_for_runs(served, 2)
        told = [await get(served, f"/api/runs/{run['id']}") for run in runs]
        for run in runs:
            assert (await get(served, f"/api/runs/{run['id']}/case"))[0] == 404
    file = b"".join(path.read_bytes() for path in tmp_path.glob("wholecall-inspector*"))
    for said in ("Rome", "Oslo", "ada@example.org", "12 degrees", "All done"):
        assert said not in str(told)
        assert said.encode() not in file
    assert runs[1]["verdicts"] == {"released": 2}


@in_loop
async def test_without_bodies_a_model_whose_name_is_a_sentence_is_told_by_its_length(
    tmp_path: Path,
) -> None:
    async with inspected(tmp_path, "call the bank", bodies=False) as served:
        await ask(served, "call the bank")
        [run] = await wait_for_runs(served)
    told = "(13 characters that are not a name)"
    assert (run["model"], run["upstream_model"]) == (told, told)


@in_loop
async def test_whether_bodies_are_kept_can_be_changed_while_it_runs(tmp_path: Path) -> None:
    async with inspected(tmp_path, "good", bodies=False) as served:
        await ask(served, "good")
        inspector = replace(served.proxy.config.inspector, bodies=True)
        config = replace(served.proxy.config, inspector=inspector)
        changed = await served.proxy.reload(Loaded(config=config, file=None, places={}))
        assert changed.live == ("inspector.bodies",)
        await ask(served, "good")
        runs = await wait_for_runs(served, 2)
    assert [run["bodies"] for run in runs] == [True, False]


@in_loop
async def test_the_upstreams_key_is_nowhere(tmp_path: Path) -> None:
    refusal = always(lambda: web.json_response({"error": f"bad key {KEY}"}, status=401))
    async with serving(refusal) as behind:
        model = upstream("openai/x", f"{behind.url}/v1", headers={"Authorization": f"Bearer {KEY}"})
        config = Config(
            models={"m": model},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            inspector=InspectorConfig(enabled=True, bodies=True),
        )
        async with proxying(make_app(config, environ={})) as served:
            await ask(served, "m")
            [run] = await wait_for_runs(served)
            events = await events_of(served, run)
    assert "UpstreamFailed" in kinds(events)
    file = b"".join(path.read_bytes() for path in tmp_path.glob("wholecall-inspector*"))
    assert KEY not in str(events)
    assert KEY.encode() not in file


# ── Who may look ────────────────────────────────────────────────────────────────────


@in_loop
async def test_the_page_is_open_and_its_data_need_a_key_that_sees_its_own_runs(
    tmp_path: Path,
) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    mine, _ = store.create(Key(id="", name="mine", tools=("*",)))
    other, _ = store.create(Key(id="", name="other", tools=("*",)))
    async with inspected(tmp_path, "good", keys=True) as served:
        assert (await get(served, ""))[0] == 200
        assert (await get(served, "/page/app.js"))[0] == 200
        for path in ("/api/runs", "/api/live", "/api/figures", "/api/runs/x", "/nothing"):
            assert (await get(served, path))[0] == 401
        body = {"model": "good", "messages": QUESTION, "stream": True}
        await served.post("/v1/chat/completions", body, x_api_key=mine)
        [run] = await wait_for_runs(served, authorization=f"Bearer {mine}")
        path = f"/api/runs/{run['id']}"
        assert (await get(served, path, authorization=f"Bearer {mine}"))[0] == 200
        _, page = await get(served, "/api/runs", authorization=f"Bearer {other}")
        assert page["runs"] == []
        assert (await get(served, path, authorization=f"Bearer {other}"))[0] == 404


@in_loop
async def test_it_is_not_there_unless_it_is_turned_on(tmp_path: Path) -> None:
    config = Config(keys=KeysConfig(path=str(tmp_path / "keys.sqlite")))
    async with proxying(make_app(config, environ={})) as served:
        assert (await get(served, ""))[0] == 404
        assert (await get(served, "/api/runs"))[0] == 404
    assert list(tmp_path.iterdir()) == []


# ── Live ────────────────────────────────────────────────────────────────────────────


@in_loop
async def test_a_page_sees_a_run_as_it_happens(tmp_path: Path) -> None:
    async with inspected(tmp_path, "good") as served:
        response = await served.http.get(f"{served.url}/inspector/api/live")
        asked = asyncio.create_task(ask(served, "good"))
        seen: list[str] = []
        while "ExchangeEnded" not in seen:
            line = await response.content.readline()
            messages = json.loads(line[6:]) if line.startswith(b"data: ") else []
            told = [message["events"] for message in messages if "events" in message]
            seen += [kind for events in told for kind in kinds(events)]
        await asked
        assert {"Exchange", "Opened", "Released", "Ended"} <= set(seen)
        response.close()
