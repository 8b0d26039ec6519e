"""`wholecall ask`: one question, tools of the user's own, the answer on the standard output."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from wholecall.cli import main
from wholecall.faults.fault_server import FaultServer, start_in_thread

MODULE = '''
def send_email(to: str, body: str) -> str:
    """Send an email."""
    return f"sent to {to}"
'''


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mail_tools.py").write_text(MODULE, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "stdin", io.StringIO())


def ask(*arguments: str) -> object:
    with pytest.raises(SystemExit) as exited:
        main.main(["ask", *arguments])
    return exited.value.code or 0


def at(server: FaultServer, scenario: str) -> tuple[str, ...]:
    return ("--model", f"faults/{scenario}", "--base-url", server.base_url)


def test_the_answer_is_printed_and_the_calls_are_reported_beside_it(
    *, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_in_thread() as server:
        code = ask("Tell Ada.", *at(server, "good"), "--tool", "mail_tools:send_email")
    out, err = capsys.readouterr()
    assert (code, out) == (0, "All done.\n")
    assert "send_email" in err
    assert "done: sent to ada@example.org" in err


def test_tools_of_an_mcp_server_are_offered(*, capsys: pytest.CaptureFixture[str]) -> None:
    server_command = f"time={sys.executable} -m mcp_server_time"
    with start_in_thread() as server:
        code = ask("When?", *at(server, "answer-only"), "--mcp", server_command)
        [request] = server.received
    assert (code, capsys.readouterr().out) == (0, "All done.\n")
    names = {tool["function"]["name"] for tool in request.body["tools"]}
    assert names == {"time__get_current_time", "time__convert_time"}


@pytest.mark.parametrize(
    ("question", "piped", "asked"),
    [
        (["Sum it up:"], "A long text.\n", "Sum it up:\n\nA long text."),
        ([], "What time is it?\n", "What time is it?"),
        (["What time is it?"], "", "What time is it?"),
    ],
)
def test_the_question_may_come_from_a_pipe(
    question: list[str], piped: str, *, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
    with start_in_thread() as server:
        assert ask(*question, *at(server, "answer-only")) == 0
        [request] = server.received
    assert request.body["messages"][-1]["content"] == asked


def test_no_question_at_all_is_refused(*, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--model", "demo") == 2
    assert "there is no question" in capsys.readouterr().err
