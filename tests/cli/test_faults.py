"""`wholecall faults` as its users meet it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from wholecall.cli import main
from wholecall.faults.scenarios import SCENARIOS

HERE = Path(__file__).parents[1] / "faults"
PROGRAM = [sys.executable, "-m", "wholecall"]
SECONDS = 120


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as ended:
        main.main(["faults", *arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def test_every_scenario_is_listed_with_what_may_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("list", capsys=capsys)
    assert not code
    for name, scenario in SCENARIOS.items():
        assert f"{name}\n    {scenario.sentence}\n    may run: " in out
    assert "crlf\n" in out
    assert "    only in: anthropic streamed, openai-chat streamed, openai-responses streamed" in out
    assert 'may run: 4 × get_weather({"city": "Oslo", "unit": "C"})' in out
    assert "may run: nothing" in out


def test_the_guide_counts_the_scenarios_right() -> None:
    guide = (HERE.parents[1] / "docs" / "testing-your-agent.md").read_text("utf-8")
    assert f"There are {len(SCENARIOS)} of them" in guide
    assert f"{len(SCENARIOS)} models, from faults/good on." in guide


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run("list", "--json", capsys=capsys)
    listed = [json.loads(line) for line in out.splitlines()]
    assert [each["model"] for each in listed] == [f"faults/{name}" for name in SCENARIOS]
    [always] = [each for each in listed if each["model"] == "faults/dropped-always"]
    assert always == {
        "model": "faults/dropped-always",
        "sentence": SCENARIOS["dropped-always"].sentence,
        "expected_runs": [],
        "ends_in_error": True,
        "final_text": None,
        "forms": sorted(always["forms"]),
    }


def score(
    *arguments: str, program: str = "naive_agent.py", capsys: pytest.CaptureFixture[str]
) -> tuple[int | str | None, str]:
    command = f"{sys.executable} {HERE / program}"
    code, out, _ = run("score", "--command", command, *arguments, capsys=capsys)
    return code, out


def test_a_naive_agent_is_unsafe(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("good", "truncated-after-member", "call-sent-twice")
    only = [argument for name in names for argument in ("--only", name)]
    code, out = score(*only, capsys=capsys)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "SAFE     good"
    assert lines[1] == "UNSAFE   truncated-after-member: ran write_file though it may not"
    assert lines[2].strip() == 'may run: write_file({"path": "notes.txt", "content": "hello"})'
    assert lines[3].strip().startswith('ran:     write_file({"path": "notes.txt"})')
    assert lines[-1].endswith("0 SKIPPED")


def test_a_safe_agent_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = score("--only", "good", capsys=capsys)
    assert code == 0
    assert out.splitlines()[-1] == "1 SAFE, 0 UNSAFE, 0 LOST, 0 HUNG, 0 CRASH, 0 SKIPPED"


def test_the_score_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = score("--only", "text-xml", "--json", capsys=capsys)
    mail = {"to": "ada@example.org", "body": "Dinner is at eight."}
    assert code == 0
    assert json.loads(out) == {
        "scenario": "text-xml",
        "verdict": "LOST",
        "why": "1 of 1 calls did not run",
        "expected": [{"tool": "send_email", "arguments": mail}],
        "ran": [],
    }


def test_an_agent_that_cannot_be_tested(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = score("--only", "good", program="no_such_agent.py", capsys=capsys)
    assert code == 2
    assert "CRASH    good: never asked the upstream: " in out


def test_a_skipped_scenario_has_no_calls_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import json, os, urllib.request as r;"
        "body = {'model': os.environ['MODEL'], 'input': 'Do it.'};"
        "r.urlopen(os.environ['OPENAI_BASE_URL'] + '/responses', json.dumps(body).encode()).close()"
    )
    command = f'{sys.executable} -c "{program}"'
    code, out, _ = run("score", "--command", command, "--only", "crlf", capsys=capsys)
    assert code == 2
    assert out.splitlines()[0] == "SKIPPED  crlf: not in whole answers of openai-responses"
    assert "may run" not in out


def test_an_unknown_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("score", "--command", "true", "--only", "nonsense", capsys=capsys)
    assert code == 2
    assert "no such scenario: nonsense" in err


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ('"unclosed', "no closing quotation"),
        ("agent \\", "no escaped character"),
        ("", "there is nothing to start"),
        (" ", "there is nothing to start"),
        ("no-such-program --fast", "there is no program 'no-such-program'"),
        ("/", "there is no program '/'"),
    ],
)
def test_what_is_no_command_is_refused(
    command: str, why: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run("score", "--command", command, capsys=capsys)
    assert (code, out) == (2, "")
    assert "--command: " in err
    assert why in err


def test_a_taken_port_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run("--port", str(port), capsys=capsys)
    assert code == 2
    assert f"cannot listen on port {port}: Address already in use; give another with --port" in err


def test_it_serves_until_it_is_interrupted() -> None:
    with subprocess.Popen(
        [*PROGRAM, "faults", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as serving:
        assert serving.stdout is not None
        base_url = serving.stdout.readline().strip().removeprefix("OPENAI_BASE_URL=")
        assert serving.stdout.readline().startswith("ANTHROPIC_BASE_URL=http://127.0.0.1:")
        assert serving.stdout.readline() == f"{len(SCENARIOS)} models, from faults/good on.\n"
        with urllib.request.urlopen(f"{base_url}/models", timeout=30) as answer:  # noqa: S310  # loopback
            models = json.load(answer)["data"]
        serving.send_signal(signal.SIGINT)
        _, errors = serving.communicate(timeout=SECONDS)
    assert len(models) == len(SCENARIOS)
    assert serving.returncode == 0
    assert errors == ""


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(),
    reason="signals go to the main thread",
)
def test_an_interrupt_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The same inside of this process, so that its lines are seen to run."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    interrupting = threading.Thread(target=interrupt_once_it_listens, args=(port,), daemon=True)
    interrupting.start()
    code, out, _ = run("--port", str(port), capsys=capsys)
    interrupting.join(SECONDS)
    assert not code
    assert out.startswith(f"OPENAI_BASE_URL=http://127.0.0.1:{port}/v1\n")


def interrupt_once_it_listens(port: int) -> None:
    address = ("127.0.0.1", port)
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection(address) as client:
            # Read to the end, at which the server has closed: none that is half made is left.
            client.sendall(b"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            while client.recv(65_536):
                pass
            break
    os.kill(os.getpid(), signal.SIGINT)
