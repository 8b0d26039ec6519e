"""Durable runs as their operators see and change them, over HTTP and from the command line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_server import Served, in_loop, proxying, upstream
from responses_proxy import until
from wholecall.cli import main
from wholecall.faults.fault_server import FaultServer
from wholecall.journal.journal_rows import (
    DecisionRow,
    IntentRow,
    Row,
    encode_row,
    restore,
)
from wholecall.journal.run_journal import RunStatus
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig, Secret
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.service_builder import RUNS_FILE
from wholecall.tools.function_tool import make_tool

RUNS = "/v1/runs"
UPSTREAM_KEY = "key-that-the-upstream-gets"


class Mailbox:
    """What was really sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_email(self, to: str, body: str) -> str:
        """Send an email."""
        self.sent.append(to)
        return f"sent {len(body)} characters with the key sk-ant-aaaabbbbccccdddd"


@asynccontextmanager
async def serve(
    folder: Path, mailbox: Mailbox, *, required: bool = False, **rules: Any
) -> AsyncIterator[Served]:
    async with FaultServer() as faults:
        config = Config(
            models={
                "good": upstream(
                    "openai/good", faults.base_url, mode="run", api_key=Secret(UPSTREAM_KEY)
                )
            },
            keys=KeysConfig(path=str(folder / "keys.sqlite"), required=required),
        )
        tools = [make_tool(mailbox.send_email, **rules)]
        async with proxying(make_app(config, environ={}, tools=tools)) as served:
            yield served


async def get(served: Served, path: str = "", **headers: str) -> tuple[int, Any]:
    async with served.http.get(f"{served.url}{RUNS}{path}", headers=headers) as response:
        return response.status, await response.json()


async def post(  # noqa: PLR0917 - read as a sentence
    served: Served, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    status, told, _ = await served.post(f"{RUNS}/{path}", body or {}, **headers)
    return status, told


async def until_status(served: Served, id: str, status: str, **headers: str) -> Any:  # noqa: PLR0917 - read as a sentence
    while True:
        code, run = await get(served, f"/{id}", **headers)
        if code == 200 and run["status"] == status:
            return run
        await asyncio.sleep(0.01)


async def begin(served: Served) -> str:
    made = await served.openai.responses.create(model="good", input="Write.", background=True)
    return made.id


@in_loop
async def test_a_run_waits_for_its_approval_over_a_restart(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with serve(tmp_path, mailbox, approve=True) as served:
        assert await get(served) == (200, {"object": "list", "data": []})
        id = await begin(served)
        run = await until_status(served, id, "waiting")
        assert (run["model"], run["background"], run["worker"]) == ("good", True, "")
        [call] = run["calls"]
        assert (call["name"], call["state"]) == ("send_email", "waiting")
        assert call["decisions"] == ["approve", "deny"]
        assert "ada@example.org" in call["arguments"]
        assert served.proxy.api.background.live == {}
    async with serve(tmp_path, mailbox, approve=True) as served:
        _, listed = await get(served, "?status=waiting")
        assert [each["id"] for each in listed["data"]] == [id]
        path = f"{id}/calls/{call['id']}/decision"
        for wrong, status in (("done", 400), ("", 400)):
            assert (await post(served, path, {"decision": wrong}))[0] == status
        assert mailbox.sent == []
        assert (await post(served, path, {"decision": "approve"}))[0] == 200
        done = await until(served, id, status="completed")
        assert (done.output_text, mailbox.sent) == ("All done.", ["ada@example.org"])
        status, told = await post(served, path, {"decision": "deny"})
        assert (status, told["error"]["code"]) == (404, "call_not_found")
        run = await until_status(served, id, "done")
        assert run["calls"][0]["approval"] == "approve"
        assert "sk-***" in run["calls"][0]["result"]


@in_loop
async def test_a_denied_call_does_not_begin(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with serve(tmp_path, mailbox, approve=True) as served:
        id = await begin(served)
        run = await until_status(served, id, "waiting")
        body = {"decision": "deny", "why": "Ada is away"}
        await post(served, f"{id}/calls/{run['calls'][0]['id']}/decision", body)
        await until(served, id, status="completed")
        run = await until_status(served, id, "done")
    assert mailbox.sent == []
    assert "Ada is away" in run["calls"][0]["result"]


@in_loop
async def test_what_is_said_reaches_the_rows_and_no_key_does(tmp_path: Path) -> None:
    key, _ = KeyStore(tmp_path / "keys.sqlite").create(Key(id="", name="mine", tools=("*",)))
    asked = {"model": "good", "input": "Write to Ada.", "background": True}
    sent = {"x_api_key": key, "cookie": "session=c00kie-of-the-client", "idempotency_key": "once"}
    async with serve(tmp_path, Mailbox(), required=True) as served:
        _, made, _ = await served.post("/v1/responses", asked, **sent)
        await until_status(served, made["id"], "done", authorization=f"Bearer {key}")
        files = list(tmp_path.glob(f"{RUNS_FILE}*"))
        rows = b"".join(each.read_bytes() for each in files if each.is_file())
    for said in (b"Write to Ada.", b"ada@example.org", b"with the key sk-ant-aaaabbbbccccdddd"):
        assert said in rows
    for secret in (key.encode(), b"c00kie-of-the-client", UPSTREAM_KEY.encode()):
        assert secret not in rows
    assert {each.stat().st_mode & 0o077 for each in files if each.is_file()} == {0}


async def interrupt(folder: Path, mailbox: Mailbox) -> str:
    """Leave a run as a worker leaves it that dies while its tool runs; return its id."""
    async with serve(folder, mailbox, approve=True) as served:
        id = await begin(served)
        await until_status(served, id, "waiting")
    store = SqliteJournal(folder / RUNS_FILE)
    claim = store.claim(id).result()
    assert claim is not None
    restored = restore(claim.rows)
    assert restored.open_answer is not None
    [call] = restored.open_answer.outcome.calls
    rows = [
        Row(f"approval {call.id}", encode_row(DecisionRow("approve"))),
        Row(f"intent 1 {call.id}", encode_row(IntentRow(call))),
    ]
    store.append(id, rows, epoch=claim.run.epoch, status=RunStatus.READY).result()
    store.let_go(id)
    store.close()
    return id


OUTCOMES = [("done", 0, "completed"), ("not_done", 0, "completed"), ("rerun", 1, "completed")]


@pytest.mark.parametrize(("decision", "times", "status"), OUTCOMES)
@in_loop
async def test_a_person_says_what_became_of_a_call(
    tmp_path: Path, *, decision: str, times: int, status: str
) -> None:
    mailbox = Mailbox()
    id = await interrupt(tmp_path, mailbox)
    async with serve(tmp_path, mailbox, on_crash="ask") as served:
        run = await until_status(served, id, "waiting")
        _, listed = await get(served, "?status=unknown")
        assert [each["id"] for each in listed["data"]] == [id]
        [call] = run["calls"]
        assert (call["state"], call["decisions"]) == ("unknown", ["done", "not_done", "rerun"])
        path = f"{id}/calls/{call['id']}/decision"
        assert (await post(served, path, {"decision": "approve"}))[0] == 400
        assert (await post(served, path, {"decision": decision}))[0] == 200
        await until(served, id, status=status)
        _, listed = await get(served, "?status=unknown")
        assert listed["data"] == []
    assert len(mailbox.sent) == times


@in_loop
async def test_a_run_is_cancelled_and_let_go_on(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with serve(tmp_path, mailbox, approve=True) as served:
        id = await begin(served)
        await until_status(served, id, "waiting")
        status, run = await post(served, f"{id}/resume")
        assert (status, run["status"]) == (200, "ready")
        await until_status(served, id, "waiting")
        status, run = await post(served, f"{id}/cancel")
        assert (status, run["status"], run["calls"][0]["decisions"]) == (200, "cancelled", [])
        assert (await post(served, f"{id}/resume"))[0] == 409
        assert (await served.openai.responses.retrieve(id)).status == "cancelled"
        for path in ("resp_none", "resp_none/cancel", "resp_none/resume"):
            code, told = await (get(served, f"/{path}") if "/" not in path else post(served, path))
            assert (code, told["error"]["code"]) == (404, "run_not_found")


EMAIL: Any = {
    "type": "function",
    "name": "send_email",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}


@in_loop
async def test_a_run_that_waits_for_its_client_is_cancelled_and_its_answer_stays(
    tmp_path: Path,
) -> None:
    mailbox = Mailbox()
    async with serve(tmp_path, mailbox, name="write_letter") as served:
        made = await served.openai.responses.create(
            model="good", input="Write.", background=True, tools=[EMAIL]
        )
        await until_status(served, made.id, "client")
        answered = await served.openai.responses.retrieve(made.id)
        _, listed = await get(served, "?status=open")
        assert [each["id"] for each in listed["data"]] == [made.id]
        status, run = await post(served, f"{made.id}/cancel")
        assert (status, run["status"]) == (200, "cancelled")
        _, listed = await get(served, "?status=open")
        assert listed["data"] == []
        assert await served.openai.responses.retrieve(made.id) == answered
        assert [item.type for item in answered.output] == ["function_call"]
        stream = await served.openai.responses.retrieve(made.id, stream=True)
        assert [event.type async for event in stream][-1] == "response.completed"
    assert mailbox.sent == []


@in_loop
async def test_a_foreground_run_is_seen_when_it_is_over(tmp_path: Path) -> None:
    async with serve(tmp_path, Mailbox()) as served:
        said = await served.openai.responses.create(model="good", input="Write.")
        assert said.output_text == "All done."
        _, listed = await get(served, "?status=done&limit=1")
        [run] = listed["data"]
        assert (run["background"], run["stop"]) == (False, "answer")
        _, listed = await get(served, "?status=open")
        assert listed["data"] == []


BAD = ["?status=nonsense", "?limit=0", "?limit=101", "?limit=many"]


@pytest.mark.parametrize("query", BAD)
@in_loop
async def test_a_query_that_makes_no_sense_is_refused(tmp_path: Path, query: str) -> None:
    async with serve(tmp_path, Mailbox()) as served:
        assert (await get(served, query))[0] == 400


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[]", b'{"decision": 1}', b'{"yes": true}'])
@in_loop
async def test_what_is_no_decision_is_refused(tmp_path: Path, body: bytes) -> None:
    async with serve(tmp_path, Mailbox()) as served:
        url = f"{served.url}{RUNS}/any/calls/any/decision"
        headers = {"content-type": "application/json"}
        async with served.http.post(url, data=body, headers=headers) as response:
            assert response.status == 400
        async with served.http.post(url, data="decision=done") as response:
            assert response.status == 415


@in_loop
async def test_a_key_sees_and_changes_its_own_runs_only(tmp_path: Path) -> None:
    store, mailbox = KeyStore(tmp_path / "keys.sqlite"), Mailbox()
    rights = Key(id="", name="mine", tools=("*",))
    mine, _ = store.create(rights)
    other, _ = store.create(replace(rights, may_approve=True))
    async with serve(tmp_path, mailbox, required=True, approve=True) as served:
        body = {"model": "good", "input": "Write.", "background": True}
        _, made, _ = await served.post("/v1/responses", body, x_api_key=mine)
        id = made["id"]
        bearer = {"authorization": f"Bearer {mine}"}
        run = await until_status(served, id, "waiting", **bearer)
        path = f"{id}/calls/{run['calls'][0]['id']}/decision"
        yes = {"decision": "approve"}
        status, told = await post(served, path, yes, x_api_key=mine)
        assert (status, "--may-approve" in told["error"]["message"]) == (403, True)
        stranger = {"authorization": f"Bearer {other}"}
        assert await get(served, **stranger) == (200, {"object": "list", "data": []})
        assert (await get(served, f"/{id}", **stranger))[0] == 404
        for action in ("cancel", "resume"):
            assert (await post(served, f"{id}/{action}", x_api_key=other))[0] == 404
        assert (await post(served, path, yes, x_api_key=other))[0] == 404
        assert (await get(served))[0] == 401
        assert (await get(served, f"/{id}", **bearer))[1]["status"] == "waiting"
    assert mailbox.sent == []


@in_loop
async def test_another_website_does_not_decide(tmp_path: Path) -> None:
    async with serve(tmp_path, Mailbox()) as served:
        sent = {"sec_fetch_site": "cross-site"}
        assert (await post(served, "a/calls/b/decision", {"decision": "done"}, **sent))[0] == 403


# ── The command line ────────────────────────────────────────────────────────────────


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    with pytest.raises(SystemExit) as exited:
        main.main(["runs", *words])
    said = capsys.readouterr()
    return exited.value.code or 0, said.out, said.err


def test_operators_do_the_same_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHOLECALL_JOURNAL", raising=False)
    mailbox = Mailbox()
    id = asyncio.run(_begin_one(tmp_path, mailbox))
    there = ("--journal", f"sqlite:{tmp_path / RUNS_FILE}")
    capsys.readouterr()
    code, out, _ = command(capsys, "list", *there)
    assert (code, f"{id}  waiting  good" in out) == (0, True)
    assert json.loads(command(capsys, "list", *there, "--json")[1])["id"] == id
    _, out, err = command(capsys, "list", *there, "--status", "over")
    assert (out, err) == ("", "wholecall: there are no such runs\n")
    assert command(capsys, "list", *there, "--status", "blue")[0] == 2
    shown = json.loads(command(capsys, "show", id, *there, "--json")[1])
    call = shown["calls"][0]["id"]
    _, out, _ = command(capsys, "show", id, *there)
    assert f"  {call}  send_email" in out
    assert "decide: approve, deny" in out
    code, _, err = command(capsys, "decide", id, call, "done", *there)
    assert (code, "one of approve, deny" in err) == (1, True)
    code, out, _ = command(capsys, "resume", id, *there)
    assert (code, f"{id}  ready" in out) == (0, True)
    assert command(capsys, "resume", id, *there)[0] == 1
    code, out, _ = command(capsys, "decide", id, call, "approve", *there, "--why", "fine")
    assert (code, "approve" in out) == (0, True)
    assert command(capsys, "cancel", id, *there)[0] == 0
    code, _, err = command(capsys, "cancel", id, *there)
    assert (code, "is over" in err) == (1, True)
    assert command(capsys, "show", "none", *there)[0] == 1
    code, _, err = command(capsys, "list", "--journal", f"sqlite:{tmp_path / 'none'}")
    assert (code, "there is no journal" in err) == (1, True)
    assert not (tmp_path / "none").exists()


async def _begin_one(folder: Path, mailbox: Mailbox) -> str:
    async with serve(folder, mailbox, approve=True) as served:
        id = await begin(served)
        await until_status(served, id, "waiting")
        return id


# ── Figures ─────────────────────────────────────────────────────────────────────────


@in_loop
async def test_metrics_tell_of_runs(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with serve(tmp_path, mailbox, approve=True) as served:
        await until_status(served, await begin(served), "waiting")
        async with served.http.get(f"{served.url}/metrics") as response:
            page = await response.text()
    assert 'wholecall_runs_open{status="waiting"} 1.0' in page
    assert 'wholecall_runs_open{status="running"} 0.0' in page
    assert 'wholecall_runs_total{event="began",model="good"} 1.0' in page
    assert 'wholecall_runs_total{event="waiting",model="good"} 1.0' in page
    assert "wholecall_journal_commit_seconds_count" in page


# ── Tools of both sides ─────────────────────────────────────────────────────────────

ITEMS = {"type": "function", "name": "list_items", "parameters": {"type": "object"}}


def look_up(city: str, unit: str = "C") -> str:
    """Current weather of a city."""
    return f"12 {unit} in {city}"


@asynccontextmanager
async def serve_both(folder: Path) -> AsyncIterator[tuple[Served, FaultServer]]:
    async with FaultServer() as faults:
        models = {"both": upstream("openai/parallel-calls", faults.base_url, mode="run")}
        keys = KeysConfig(path=str(folder / "keys.sqlite"))
        weather = make_tool(look_up, name="get_weather", read_only=True)
        tools = [weather, make_tool(Mailbox().send_email)]
        made = make_app(Config(models=models, keys=keys), environ={}, tools=tools)
        async with proxying(made) as served:
            yield served, faults


@pytest.mark.parametrize("background", [False, True])
@in_loop
async def test_a_run_waits_for_the_clients_calls_over_a_restart(
    tmp_path: Path, *, background: bool
) -> None:
    asked = {"model": "both", "input": "Go.", "tools": [ITEMS], "background": background}
    headers = {"idempotency_key": "once"}
    async with serve_both(tmp_path) as (served, _):
        _, made, _ = await served.post("/v1/responses", asked, **headers)
        if background:
            done = await until(served, made["id"], status="completed")
            made = done.model_dump(exclude_none=True)
        [call] = [item for item in made["output"] if item["type"] == "function_call"]
        _, listed = await get(served, "?status=client")
        [waiting] = listed["data"]
        assert served.proxy.api.background.live == {}
        assert served.proxy.api.background.runs.live == {}
        if not background:
            _, again, _ = await served.post("/v1/responses", asked, **headers)
            assert [item["call_id"] for item in again["output"] if "call_id" in item] == [
                call["call_id"]
            ]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "one, two"}
    history = [{"role": "user", "content": "Go."}, call, result]
    async with serve_both(tmp_path) as (served, faults):
        body = {"model": "both", "input": history, "tools": [ITEMS]}
        status, answer, _ = await served.post("/v1/responses", body)
        assert (status, answer["status"]) == (200, "completed")
        sent = json.dumps(faults.received[-1].body)
        assert "12 C in" in sent
        assert "one, two" in sent
        assert (await get(served, f"/{waiting['id']}"))[1]["status"] == "done"
