"""Tools of both sides: what the client does not see is put back into its history."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from proxy_server import in_loop
from wholecall.agent.budget import Stop
from wholecall.agent.run import RunResult
from wholecall.events import Call, Evidence, Text, Usage
from wholecall.journal.journal_rows import (
    EndRow,
    GuardState,
    Row,
    TurnRow,
    encode_row,
    write_messages,
)
from wholecall.journal.run_journal import RunRow, RunStatus
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.messages import CallResult, Choice, Message, PastCall, Result, Role
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.storage import StoreFailed

THEIRS = Call(id="p1", name="ask", arguments={}, raw="{}", evidence=Evidence.CONFIRMED, number=1)
FIRST = Message(Role.ASSISTANT, (PastCall(id="p9", name="dig", arguments={}),))
FIRST_RESULT = Message(Role.TOOL, (CallResult(call_id="p9", result=Result((Text("dug"),))),))
LAST = Message(
    Role.ASSISTANT,
    (
        Text("Wait."),
        PastCall(id="p0", name="dig", arguments={"depth": 3}),
        PastCall(id="p1", name="ask", arguments={}),
        PastCall(id="p2", name="dig", arguments={"depth": 4}),
    ),
)
OURS = Message(
    Role.TOOL,
    (
        CallResult(call_id="p0", result=Result((Text("three"),))),
        CallResult(call_id="p2", result=Result((Text("four"),))),
    ),
)
TOLD = Message(Role.USER, (Text("That was no call."),))
ASKED = Message(Role.USER, (Text("hi"),))


@contextmanager
def waiting(folder: Path, *more: Message) -> Iterator[tuple[MixedTools, SqliteJournal]]:
    """Tools of both sides, with a run that waits for the client."""
    journal = SqliteJournal(folder / "runs.sqlite")
    journal.open_run(RunRow("run")).result()
    state = TurnRow(
        messages=write_messages([FIRST, FIRST_RESULT, LAST, *more]),
        ended=[],
        turns=1,
        usage=Usage(),
        guard=GuardState(),
        choice=Choice(),
        max_tokens=None,
        texts=[],
        reminders=0,
        seconds=0.0,
    )
    end = EndRow(Stop.CLIENT_CALLS.value, pending=[THEIRS])
    rows = [Row("turn 1", encode_row(state)), Row("end", encode_row(end))]
    journal.append("run", rows, epoch=1, status=RunStatus.CLIENT).result()
    try:
        yield MixedTools(lambda: journal), journal
    finally:
        journal.close()


def keep(mixed: MixedTools) -> Awaitable[tuple[Call, ...]]:
    result = RunResult(text="", stop=Stop.CLIENT_CALLS, pending=(THEIRS,))
    return mixed.keep("key", result, run="run")


def find_status(journal: SqliteJournal) -> RunStatus:
    found = journal.load("run").result()
    assert found is not None
    return found.run.status


def _texts(messages: tuple[Message, ...]) -> list[tuple[str, list[str]]]:
    return [
        (
            message.role.value,
            [
                part.result.text
                if isinstance(part, CallResult)
                else part.name
                if isinstance(part, PastCall)
                else "…"
                for part in message.parts
            ],
        )
        for message in messages
    ]


@in_loop
async def test_a_history_is_put_together_again_once_and_in_order(tmp_path: Path) -> None:
    with waiting(tmp_path, OURS, TOLD) as (mixed, journal):
        [call] = await keep(mixed)
        assert call.id != "p1"
        said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
        result = Message(Role.TOOL, (CallResult(call_id=call.id, result=Result((Text("yes"),))),))
        history = (ASKED, said, result, ASKED)
        restored = await mixed.restore("key", history)
        expected = [
            ("user", ["…"]),
            ("assistant", ["dig"]),
            ("tool", ["dug"]),
            ("assistant", ["…", "dig", "ask", "dig"]),
            ("tool", ["three", "yes", "four"]),
            ("user", ["…"]),
            ("user", ["…"]),
        ]
        assert _texts(restored) == expected
        # The client sends the same history with every further request.
        assert await mixed.restore("key", history) == restored
        assert find_status(journal) is RunStatus.DONE


@in_loop
async def test_a_client_that_leaves_out_its_result_gets_the_rest_all_the_same(
    tmp_path: Path,
) -> None:
    with waiting(tmp_path, OURS, TOLD) as (mixed, _):
        [call] = await keep(mixed)
        said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
        restored = await mixed.restore("key", (ASKED, said))
        assert _texts(restored)[-2:] == [("tool", ["three", "four"]), ("user", ["…"])]


@in_loop
async def test_nothing_is_given_to_another_key(tmp_path: Path) -> None:
    with waiting(tmp_path, OURS, TOLD) as (mixed, journal):
        [call] = await keep(mixed)
        said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
        assert await mixed.restore("other", (ASKED, said)) == (ASKED, said)
        assert find_status(journal) is RunStatus.CLIENT


@in_loop
async def test_a_history_of_others_stays_as_it_is() -> None:
    history = (ASKED, LAST, OURS)
    assert await MixedTools(lambda: None).restore("key", history) is history


@in_loop
async def test_without_any_result_there_is_no_message_of_results(tmp_path: Path) -> None:
    with waiting(tmp_path) as (mixed, _):
        [call] = await keep(mixed)
        said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
        assert [role for role, _ in _texts(await mixed.restore("key", (said,)))] == [
            "assistant",
            "tool",
            "assistant",
        ]


@in_loop
async def test_a_resend_is_answered_with_the_same_ids(tmp_path: Path) -> None:
    with waiting(tmp_path, OURS) as (mixed, _):
        assert await keep(mixed) == await keep(mixed)


@in_loop
async def test_a_damaged_row_is_no_history(tmp_path: Path) -> None:
    with waiting(tmp_path, OURS) as (mixed, journal):
        [call] = await keep(mixed)
        with sqlite3.connect(journal.path) as database:
            database.execute("UPDATE rows SET body = '{' WHERE key = 'turn 1'")
        database.close()
        said = Message(Role.ASSISTANT, (PastCall(id=call.id, name="ask", arguments={}),))
        with pytest.raises(StoreFailed, match="what the proxy keeps of this conversation"):
            await mixed.restore("key", (ASKED, said))
