"""Tools of both sides in one box."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proxy.collected_events import Collected, unseen
from proxy_server import in_loop
from scripted import calls, says
from wholecall.agent.approvals import Approvals
from wholecall.agent.budget import RunLimits
from wholecall.agent.run import Plan
from wholecall.agent.turn import sender_for
from wholecall.events import Call, Ended, Evidence, Released, Text
from wholecall.journal.run_journal import RunJournal, RunRow
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.messages import Message, Request, Role, ToolSpec
from wholecall.proxy.handlers.run_mode import (
    MixedTools,
    Owner,
    PatientExecutor,
    RunMode,
    join_tools,
)
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.replay import ReplayUpstream, ScriptedAnswer


def look(what: str) -> str:
    """Look at something."""
    return what


def test_a_client_that_brings_a_tool_of_the_same_name_means_its_own() -> None:
    server = Toolbox([make_tool(look)])
    request = Request(model="m", messages=(), tools=(ToolSpec("look"), ToolSpec("dig")))
    toolbox, joined = join_tools(server, request)
    assert [spec.name for spec in joined.tools] == ["look", "dig"]
    assert not toolbox.runs("look")
    toolbox, joined = join_tools(server, Request(model="m", messages=()))
    assert [spec.name for spec in joined.tools] == ["look"]
    assert toolbox.runs("look")


@in_loop
async def test_what_must_not_be_broken_off_comes_to_its_end() -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await go_on.wait()
        done.set()
        return "done"

    executor = PatientExecutor(Toolbox([make_tool(work)]), emit=lambda _: None)
    call = Call(id="c", name="work", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)
    executor.start(call)
    await begun.wait()
    cancelling = asyncio.create_task(executor.cancel())
    await asyncio.sleep(0)
    go_on.set()
    await cancelling
    assert done.is_set()


STOPPED = (
    "The run was stopped without an answer from the model, because it reached its turn limit (1). "
    "Results so far:\n- look: up"
)


# ── Runs ────────────────────────────────────────────────────────────────────────────


async def run(
    *turns: ScriptedAnswer,
    brings: tuple[ToolSpec, ...] = (),
    tool: Tool | None = None,
    limits: RunLimits | None = None,
    journal: RunJournal | None = None,
) -> tuple[RunMode, Collected]:
    request = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), tools=brings)
    toolbox, joined = join_tools(Toolbox([tool or make_tool(look)]), request)
    plan = Plan(
        request=joined,
        upstream=ReplayUpstream(turns),
        toolbox=toolbox,
        sender=sender_for("m", joined.messages),
        limits=limits or RunLimits(),
    )
    woken: list[bool] = []
    collected = Collected()
    owner = Owner(
        key_id="k",
        request_id="r",
        mixed_tools=MixedTools(lambda: None),
        approvals=Approvals(),
        journal=journal,
    )
    running = RunMode(plan, collected, owner=owner, watch=unseen(), wake=lambda: woken.append(True))
    await running.run()
    assert bool(woken) == running.ran
    return running, collected


@in_loop
async def test_a_run_gives_one_answer() -> None:
    running, collected = await run(calls(("look", {"what": "up"})), says("Blue."))
    assert running.ran
    assert collected.text == "Blue."
    assert [ended.finish_reason for ended in collected.of(Ended)] == ["stop"]
    assert not collected.calls


@pytest.mark.parametrize(
    ("last", "text", "finish"),
    [
        (says("Blue."), "Blue.", "stop"),
        (calls(("look", {"what": "down"})), STOPPED, "length"),
        (
            says('<tool_call>{"name": "look", "arguments": {"what": "down"}}</tool_call>'),
            STOPPED,
            "length",
        ),
    ],
    ids=["words", "a call", "a call in the text"],
)
@in_loop
async def test_a_run_that_was_stopped_says_so(
    last: ScriptedAnswer, text: str, *, finish: str
) -> None:
    asked = calls(("look", {"what": "up"}))
    _, collected = await run(asked, last, limits=RunLimits(turns=1))
    assert collected.text == text
    assert [(end.finish_reason, end.native) for end in collected.of(Ended)] == [(finish, "turns")]
    ended = {"type": "run_ended", "stop": "turns", "answered": finish == "stop"}
    assert collected.reports[-1] == ended


@in_loop
async def test_the_clients_calls_get_ids_of_ours_if_something_is_hidden_from_it(
    tmp_path: Path,
) -> None:
    ask = ToolSpec("ask")
    store = SqliteJournal(tmp_path / "runs.sqlite")
    running, collected = await run(calls(("ask", {})), brings=(ask,))
    assert not running.ran
    [alone] = collected.of(Released)
    journal = RunJournal(store, store.open_run(RunRow("one")).result())
    both = calls(("look", {"what": "up"}), ("ask", {}))
    running, collected = await run(both, brings=(ask,), journal=journal)
    store.close()
    assert running.ran
    [beside] = collected.of(Released)
    assert (alone.call.id, alone.call.name, beside.call.name) == ("c0", "ask", "ask")
    assert beside.call.id.startswith("call_wc_")
