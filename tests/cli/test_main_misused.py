"""The command line where it is misused, or cannot write: help, shut streams, full disks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wholecall.cli import main

PROGRAM = [sys.executable, "-m", "wholecall"]
SECONDS = 60
CALL = {"index": 0, "id": "c", "function": {"name": "book", "arguments": '{"people": 4, "pla'}}
CUT = {"choices": [{"message": {"content": None, "tool_calls": [CALL]}, "finish_reason": "length"}]}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as exited:
        main.main(arguments)
    captured = capsys.readouterr()
    return exited.value.code or 0, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["nonsense"],
            (
                "there is no command 'nonsense'; there are ask, chat, check, config, demo, "
                "dialects, faults, keys, model, record, replay, runs, serve, worker "
                "(see wholecall --help)"
            ),
        ),
        (["check"], "Missing argument 'FILE' (see wholecall check --help)"),
        (["model"], "Missing command (see wholecall model --help)"),
        (["keys", "create"], "Missing option '--name' (see wholecall keys create --help)"),
        (
            ["keys", "create", "--name", "x", "--expires", "soon"],
            "'soon' is not a time span: write 12h, 30d or 8w (see wholecall keys create --help)",
        ),
    ],
)
def test_what_was_misused_is_named_with_its_own_help(
    arguments: list[str], said: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, *arguments) == (2, "", f"wholecall: {said}\n")


COMMANDS = ["serve", "demo", "faults", "faults score", "keys create", "replay", "record", "chat"]


@pytest.mark.parametrize("command", COMMANDS)
def test_options_take_things_and_not_types_of_python(
    command: str, *, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, *command.split(), "--help")
    assert not re.findall(r"^  --[\w-]+ <.*", out, re.MULTILINE)


@pytest.mark.parametrize("shut", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_shut_change_nothing_else(shut: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps(CUT), "utf-8")
    command = f'"$0" -m wholecall check "$1" {shut}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, str(cut)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("arguments", [["--help"], ["dialects"], ["model", "list"]])
def test_an_output_that_is_full_is_told(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    said = "wholecall: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)
