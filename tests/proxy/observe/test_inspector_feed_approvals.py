"""Calls that need approval, in a real proxy."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy_server import Served, in_loop, proxying, upstream
from wholecall.events import JSON, Text
from wholecall.faults.fault_server import FaultServer
from wholecall.messages import Result
from wholecall.proxy.app import make_app
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.config.schema import (
    Config,
    InspectorConfig,
    KeysConfig,
    ListenConfig,
    ServerLimits,
)
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.service_builder import RUNS_FILE
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Context, Elicitation, Tool

QUESTION = [{"role": "user", "content": "Write to Ada."}]
APPROVALS = "/inspector/api/approvals"
WEBSITE = "https://chat.example.com"
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


class Mailbox:
    """What was really sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def send_email(self, to: str, body: str) -> str:
        """Send an email."""
        self.sent.append(to)
        return f"sent {len(body)} characters"


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"day": {"type": "string"}, "guests": {"type": "integer"}},
    "required": ["day"],
}


def make_asking(mailbox: Mailbox) -> Tool:
    """Return a tool that asks the user before it sends an email."""

    async def ask_and_send(_: Mapping[str, JSON], context: Context) -> Result:
        asked = Elicitation(server="post", message=f"Which day? {SECRET}", schema=FORM)
        given = await context.elicit(asked)
        if given.action == "accept":
            mailbox.sent.append(json.dumps(given.content))
        return Result((Text(given.action),))

    return replace(make_tool(mailbox.send_email), run=ask_and_send)


@asynccontextmanager
async def approved(
    folder: Path,
    *,
    inspector: InspectorConfig | None = None,
    keys: KeysConfig | None = None,
    asks: bool = False,
) -> AsyncIterator[tuple[Served, Mailbox]]:
    mailbox = Mailbox()
    async with FaultServer() as faults:
        config = Config(
            listen=ListenConfig(origins=(WEBSITE,)),
            models={"good": upstream("openai/good", faults.base_url, mode="run")},
            keys=replace(keys or KeysConfig(), path=str(folder / "keys.sqlite")),
            limits=ServerLimits(keep_alive_seconds=0.1),
            inspector=inspector or InspectorConfig(enabled=True, bodies=True),
        )
        approving = make_tool(mailbox.send_email, approve=True)
        tools = [make_asking(mailbox) if asks else approving]
        async with proxying(make_app(config, environ={}, tools=tools)) as served:
            yield served, mailbox


async def ask(served: Served, **headers: str) -> Any:
    body = {"model": "good", "messages": QUESTION, "stream": True}
    return await served.post("/v1/chat/completions", body, **headers)


async def list_waiting(served: Served, **headers: str) -> list[dict[str, Any]]:
    async with served.http.get(served.url + APPROVALS, headers=headers) as response:
        return list((await response.json())["waiting"])


async def until_waiting(served: Served, **headers: str) -> dict[str, Any]:
    return dict((await until(lambda: list_waiting(served, **headers)))[0])


async def until(read: Callable[[], Awaitable[Sequence[Any]]]) -> Sequence[Any]:
    """Read until there is something; a test that waits in vain fails by its time."""
    while not (found := await read()):
        await asyncio.sleep(0)
    return found


async def answer(served: Served, id: str, *, body: Any, **headers: str) -> tuple[int, Any]:
    status, told, _ = await served.post(f"{APPROVALS}/{id}", body, **headers)
    return status, told


async def denials(served: Served) -> list[str]:
    """What the model was told of calls that were denied."""
    async with served.http.get(f"{served.url}/inspector/api/runs") as response:
        runs = (await response.json())["runs"]
    async with served.http.get(f"{served.url}/inspector/api/runs/{runs[0]['id']}") as response:
        events = (await response.json())["events"]
    return [
        event["result"]
        for event in events
        if event["type"] == "ToolEnded" and event["status"] == "denied"
    ]


@in_loop
async def test_a_run_waits_for_its_approval_and_its_client_hears_signs_of_life(
    tmp_path: Path,
) -> None:
    async with approved(tmp_path) as (served, mailbox):
        body = {"model": "good", "messages": QUESTION, "stream": True}
        url = f"{served.url}/v1/chat/completions"
        async with served.http.post(url, json=body) as response:
            waiting = await until_waiting(served)
            assert (waiting["name"], waiting["model"]) == ("send_email", "good")
            assert "ada@example.org" in waiting["arguments"]
            assert waiting["request_id"] == response.headers["x-request-id"]
            beat = b""
            while b": " not in beat:
                beat = await response.content.readany()
            assert mailbox.sent == []
            assert await answer(served, waiting["id"], body={"approved": True}) == (
                200,
                {"approved": True},
            )
            rest = await response.text()
        assert "[DONE]" in rest
        assert mailbox.sent == ["ada@example.org"]
        status, told = await answer(served, waiting["id"], body={"approved": True})
        assert (status, list(told["error"])) == (404, ["message"])


@in_loop
async def test_the_model_reads_why_a_call_was_denied(tmp_path: Path) -> None:
    async with approved(tmp_path) as (served, mailbox):
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(served)
        await answer(served, waiting["id"], body={"approved": False, "why": "Ada is away"})
        await asked
        assert mailbox.sent == []
        told = await until(lambda: _told(served))
        assert "Ada is away" in told[0]


async def _told(served: Served) -> list[str]:
    async with served.http.get(f"{served.url}/inspector/api/runs") as response:
        runs = (await response.json())["runs"]
    return await denials(served) if runs else []


@in_loop
async def test_an_answer_may_come_by_another_process_of_the_proxy(tmp_path: Path) -> None:
    async with approved(tmp_path) as (served, mailbox), approved(tmp_path) as (other, _):
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(other)
        assert (await answer(other, waiting["id"], body={"approved": True}))[0] == 200
        await asked
        assert mailbox.sent == ["ada@example.org"]


@in_loop
async def test_nobody_answers_in_time_and_that_is_a_no(tmp_path: Path) -> None:
    async with approved(tmp_path) as (served, mailbox):
        inspector = served.proxy.observers.inspector
        assert inspector is not None
        inspector.approving.seconds = 0
        status, _, _ = await ask(served)
        assert status == 200
        assert mailbox.sent == []
        assert await list_waiting(served) == []
        assert "nobody answered in time" in (await until(lambda: _told(served)))[0]


@in_loop
async def test_without_the_inspector_nobody_can_be_asked_and_that_is_a_no(tmp_path: Path) -> None:
    async with approved(tmp_path, inspector=InspectorConfig()) as (served, mailbox):
        status, text, _ = await ask(served)
        assert (status, "[DONE]" in text) == (200, True)
        assert mailbox.sent == []


@in_loop
async def test_without_bodies_the_arguments_are_not_told(tmp_path: Path) -> None:
    async with approved(tmp_path, inspector=InspectorConfig(enabled=True)) as (served, _):
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(served)
        assert (waiting["name"], waiting["arguments"]) == ("send_email", "")
        file = b"".join(path.read_bytes() for path in tmp_path.glob("wholecall-inspector*"))
        assert b"ada@example.org" not in file
        await answer(served, waiting["id"], body={"approved": False})
        await asked


@in_loop
async def test_how_long_a_call_waits_can_be_changed_while_it_runs(tmp_path: Path) -> None:
    async with approved(tmp_path) as (served, _):
        inspector = replace(served.proxy.config.inspector, approval_seconds=7.0)
        config = replace(served.proxy.config, inspector=inspector)
        await served.proxy.reload(Loaded(config=config, file=None, places={}))
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(served)
        assert waiting["until"] - waiting["asked"] == pytest.approx(7.0, abs=5.0)
        await answer(served, waiting["id"], body={"approved": True})
        await asked


@in_loop
async def test_a_disk_that_fails_denies_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with approved(tmp_path) as (served, mailbox):
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(served)
        with sqlite3.connect(tmp_path / RUNS_FILE) as other:
            other.execute("DROP TABLE rows")
        other.close()
        status, text, _ = await asked
        assert (status, mailbox.sent) == (200, [])
        assert "store_failed" in text
        async with served.http.get(served.url + APPROVALS) as response:
            assert response.status == 503
            assert "cannot be used" in (await response.json())["error"]["message"]
        assert (await answer(served, waiting["id"], body={"approved": True}))[0] == 503
    assert {record.name for record in caplog.records} >= {
        "wholecall.proxy.observe.inspector_feed",
        "wholecall.inspector.approval_queue",
    }


# ── Who may answer ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": WEBSITE, "sec_fetch_site": "cross-site"}, 403),
        ({"origin": WEBSITE}, 403),
        ({"origin": WEBSITE, "sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"host": "rebound.example"}, 421),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
@in_loop
async def test_other_websites_cannot_answer(
    tmp_path: Path, headers: dict[str, str], *, status: int
) -> None:
    async with approved(tmp_path) as (served, mailbox):
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(served)
        told = await answer(served, waiting["id"], body={"approved": True}, **headers)
        assert told[0] == status
        assert [row["id"] for row in await list_waiting(served)] == [waiting["id"]]
        ours = {"origin": served.url, "sec_fetch_site": "same-origin"}
        assert (await answer(served, waiting["id"], body={"approved": False}, **ours))[0] == 200
        await asked
        assert mailbox.sent == []


@pytest.mark.parametrize("body", [{}, {"approved": "yes"}, {"approved": 1}, [], {"yes": True}])
@in_loop
async def test_what_is_no_answer_is_refused(tmp_path: Path, body: Any) -> None:
    async with approved(tmp_path) as (served, _):
        assert (await answer(served, "any", body=body))[0] == 400


@in_loop
async def test_what_is_no_utf_8_is_no_answer(tmp_path: Path) -> None:
    async with approved(tmp_path) as (served, _):
        url, body = f"{served.url}{APPROVALS}/any", b'{"approved": true, "why": "\xff"}'
        headers = {"content-type": "application/json"}
        async with served.http.post(url, data=body, headers=headers) as response:
            assert response.status == 400
            assert "utf-8" in (await response.json())["error"]["message"]


@in_loop
async def test_a_key_answers_for_its_own_runs_only(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    rights = Key(id="", name="mine", tools=("*",), may_approve=True)
    mine, _ = store.create(rights)
    weak, _ = store.create(replace(rights, may_approve=False))
    other, _ = store.create(replace(rights, name="other"))
    async with approved(tmp_path, keys=KeysConfig(required=True)) as (served, mailbox):
        asked = asyncio.create_task(ask(served, x_api_key=mine))
        bearer = {"authorization": f"Bearer {mine}"}
        waiting = await until_waiting(served, **bearer)
        assert await list_waiting(served, authorization=f"Bearer {other}") == []
        yes = {"approved": True}
        assert (await answer(served, waiting["id"], body=yes))[0] == 401
        assert (await answer(served, waiting["id"], body=yes, x_api_key=other))[0] == 404
        status, told = await answer(served, waiting["id"], body=yes, x_api_key=weak)
        assert (status, "--may-approve" in told["error"]["message"]) == (403, True)
        assert mailbox.sent == []
        assert (await answer(served, waiting["id"], body=yes, x_api_key=mine))[0] == 200
        await asked
        assert mailbox.sent == ["ada@example.org"]


@in_loop
async def test_the_log_says_who_answered_for_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    mine, key = store.create(Key(id="", name="mine", tools=("*",), may_approve=True))
    async with approved(tmp_path, keys=KeysConfig(required=True)) as (served, _):
        asked = asyncio.create_task(ask(served, x_api_key=mine, x_request_id="req_run"))
        waiting = await until_waiting(served, authorization=f"Bearer {mine}")
        sent = {"x_api_key": mine, "x_request_id": "req_answer"}
        await answer(served, waiting["id"], body={"approved": False, "why": "no"}, **sent)
        await asked
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    told = [line for line in lines if line["event"].startswith("approval ")]
    assert [line["event"] for line in told] == [
        "approval asked for",
        "approval given",
        "approval answered",
    ]
    assert [line["request_id"] for line in told] == ["req_run", "req_answer", "req_run"]
    assert (told[1]["key_id"], told[1]["run_request_id"]) == (key.id, "req_run")
    assert (told[1]["tool"], told[1]["approved"]) == ("send_email", False)
    assert (told[2]["name"], told[2]["approved"]) == ("send_email", False)
    assert "why" not in told[2]


@in_loop
async def test_whoever_may_look_without_a_key_may_not_answer_without_one(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    mine, _ = store.create(Key(id="", name="mine", tools=("*",), may_approve=True))
    keys = KeysConfig(required=True, open=("/inspector",))
    async with approved(tmp_path, keys=keys) as (served, mailbox):
        asked = asyncio.create_task(ask(served, x_api_key=mine))
        waiting = await until_waiting(served)
        assert (await answer(served, waiting["id"], body={"approved": True}))[0] == 401
        assert mailbox.sent == []
        no = {"approved": False}
        assert (await answer(served, waiting["id"], body=no, x_api_key=mine))[0] == 200
        await asked


# ── What tools ask the user ─────────────────────────────────────────────────────────


@in_loop
async def test_a_tool_asks_in_the_page_and_goes_on_with_the_form(tmp_path: Path) -> None:
    async with approved(tmp_path, asks=True) as (served, mailbox):
        asked = asyncio.create_task(ask(served))
        waiting = await until_waiting(served)
        question = waiting["elicitation"]
        assert (question["server"], question["schema"]) == ("post", FORM)
        assert question["message"].startswith("Which day?")
        assert SECRET not in question["message"]
        assert waiting["decisions"] == ["accept", "decline"]
        yes = {"approved": True}
        assert (await answer(served, waiting["id"], body=yes))[0] == 400
        wrong = {"decision": "accept", "content": {"guests": "many"}}
        status, told = await answer(served, waiting["id"], body=wrong)
        assert (status, "day" in told["error"]["message"]) == (400, True)
        assert [row["id"] for row in await list_waiting(served)] == [waiting["id"]]
        right = {"decision": "accept", "content": {"day": "Friday", "guests": 4}}
        assert (await answer(served, waiting["id"], body=right))[0] == 200
        status, _, _ = await asked
        assert status == 200
        assert [json.loads(each) for each in mailbox.sent] == [{"day": "Friday", "guests": 4}]


DECLINED = [({"decision": "decline"}, "decline"), (None, "cancel")]


@pytest.mark.parametrize(("body", "action"), DECLINED)
@in_loop
async def test_what_is_declined_or_not_answered_is_not_done(
    body: Any, action: str, *, tmp_path: Path
) -> None:
    async with approved(tmp_path, asks=True) as (served, mailbox):
        inspector = served.proxy.observers.inspector
        assert inspector is not None
        if body is None:
            inspector.approving.seconds = 0
        asked = asyncio.create_task(ask(served))
        if body is not None:
            waiting = await until_waiting(served)
            assert (await answer(served, waiting["id"], body=body))[0] == 200
        await asked
        assert mailbox.sent == []
        assert await until(lambda: _answers(served)) == [action]


async def _answers(served: Served) -> list[str]:
    async with served.http.get(f"{served.url}/inspector/api/runs") as response:
        runs = (await response.json())["runs"]
    if not runs:
        return []
    async with served.http.get(f"{served.url}/inspector/api/runs/{runs[0]['id']}") as response:
        events = (await response.json())["events"]
    return [event["action"] for event in events if event["type"] == "ElicitationAnswered"]


@in_loop
async def test_without_the_inspector_a_question_is_cancelled(tmp_path: Path) -> None:
    async with approved(tmp_path, inspector=InspectorConfig(), asks=True) as (served, mailbox):
        status, _, _ = await ask(served)
        assert status == 200
        assert mailbox.sent == []


@in_loop
async def test_a_question_is_only_for_the_key_of_its_run(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    mine, _ = store.create(Key(id="", name="mine", tools=("*",), may_approve=True))
    other, _ = store.create(Key(id="", name="other", tools=("*",), may_approve=True))
    keys = KeysConfig(required=True)
    async with approved(tmp_path, keys=keys, asks=True) as (served, mailbox):
        asked = asyncio.create_task(ask(served, x_api_key=mine))
        waiting = await until_waiting(served, authorization=f"Bearer {mine}")
        assert await list_waiting(served, authorization=f"Bearer {other}") == []
        body = {"decision": "accept", "content": {"day": "Friday"}}
        assert (await answer(served, waiting["id"], body=body, x_api_key=other))[0] == 404
        assert mailbox.sent == []
        assert (await answer(served, waiting["id"], body=body, x_api_key=mine))[0] == 200
        await asked
        assert len(mailbox.sent) == 1
