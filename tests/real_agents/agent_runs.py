"""Run real programs against the upstream that fails, directly and through `wholecall serve`.

.venv/bin/python tests/real_agents/agent_runs.py             the table of docs/in-front-of.md
.venv/bin/python tests/real_agents/agent_runs.py codex       one program
.venv/bin/python tests/real_agents/agent_runs.py codex good  one scenario, in full
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from real_agents.agent_programs import PROGRAMS, Program, Start, make_environ
from real_agents.casting import (
    CODEX_SCENARIOS,
    FAULTS,
    HEALTHY,
    Casting,
    list_scenarios,
    prepare_folder,
    read_runs,
)
from wholecall.faults import FaultServer, start_in_thread
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.score import find_forbidden
from wholecall.faults.script import Expected, Form, Scenario, ToolRun

UPSTREAMS = {"openai-chat": "openai", "openai-responses": "responses", "anthropic": "anthropic"}
SECONDS = 90.0
"""For one run of a program: one that needs longer hangs, and is ended."""
_HANGS = 1.0
"""Seconds until an upstream that hangs is cut off."""
_START_SECONDS = 30.0
PROMPT = "Do what is needed, then say that all is done."


@dataclass(frozen=True, kw_only=True)
class AgentRun:
    """What a program did in one scenario."""

    partial: bool
    """It ran something that may not run: half a call, or a call too often."""
    survived: bool
    """All that was to run ran, and it ended without an error."""
    exit_code: int | None
    said: str
    ran: tuple[object, ...]
    asked: tuple[str, ...]
    """The requests that it made, by their ids in the proxy's log."""


@contextmanager
def proxying(protocol: str, faults: FaultServer, *, folder: Path) -> Iterator[str]:
    """Start `wholecall serve` with its defaults; end it with the context."""
    base_url = faults.address if protocol == "anthropic" else faults.base_url
    upstream = f"{UPSTREAMS[protocol]}={base_url}"
    command = [*_WHOLECALL, "serve", "--upstream", upstream, "--port", "0"]
    environ = {**os.environ, "HOME": str(folder)}
    with (folder / _LOG).open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            yield _read_address(process)
        finally:
            process.terminate()
            process.communicate(timeout=_START_SECONDS)


_WHOLECALL = (sys.executable, "-m", "wholecall")
_LOG = "proxy.log"


def _read_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        name, _, address = line.strip().partition("=")
        if name == "ANTHROPIC_BASE_URL":
            return address
    raise AssertionError(f"wholecall serve ended with {process.wait()}")


def run_program(program: Program, start: Start) -> tuple[int | None, str]:
    """Run a program to its end, or to the end of its time; end whatever it started."""
    launch = program.launch(start)
    environ = make_environ(start, launch.environ)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(
            launch.command,
            cwd=start.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        said.seek(0)
        return code, said.read()


def face(program: Program, name: str, *, upstream: str, direct: bool = False) -> AgentRun:
    """Let a program face one scenario of an upstream that speaks a protocol."""
    by_shell = program.writes_by_shell
    with tempfile.TemporaryDirectory(prefix="wholecall-agents-") as temporary:
        place = Path(temporary)
        folder, home = place / "work", place / "home"
        prepare_folder(folder, writes_by_shell=by_shell)
        home.mkdir()
        scenario, model = _play(program, name, folder=folder)
        with start_in_thread(hang_seconds=_HANGS, scenarios={model: scenario}) as faults:
            reached = (
                nullcontext(faults.address) if direct else proxying(upstream, faults, folder=place)
            )
            with reached as url:
                start = Start(url=url, model=model, home=home, folder=folder, prompt=PROMPT)
                code, said = run_program(program, start)
        ran = read_runs(folder)
        expected = _scenarios(program)[name].expect(Form(upstream, True))
        partial = bool(find_forbidden(expected, ran))
        survived = not partial and code == 0 and _is_complete(expected, ran)
        asked = () if direct else tuple(_read_ids(place / _LOG))
        return AgentRun(
            partial=partial,
            survived=survived,
            exit_code=code,
            said=said,
            ran=tuple(ran),
            asked=asked,
        )


def _read_ids(log: Path) -> Iterator[str]:
    for line in log.read_text("utf-8").splitlines():
        fields = json.loads(line) if line.startswith("{") else {}
        if fields.get("event") == "exchange":
            yield fields["request_id"]


def _scenarios(program: Program) -> Mapping[str, Scenario]:
    return CODEX_SCENARIOS if program.model else SCENARIOS


def _play(program: Program, name: str, *, folder: Path) -> tuple[Scenario, str]:
    """Return the scenario with the program's tools, and the model that it is asked for."""
    if program.model:
        return CODEX_SCENARIOS[name], program.model
    casting = Casting(program.words, folder, writes_by_shell=program.writes_by_shell)
    return casting.play(name), name


def _is_complete(expected: Expected, ran: list[ToolRun]) -> bool:
    """Return True if as much ran as was to run."""
    left = list(ran)
    for wanted in (*expected.runs, *expected.instead):
        if wanted in left:
            left.remove(wanted)
    return len(ran) - len(left) >= len(expected.runs)


# ── The table ───────────────────────────────────────────────────────────────────────


def _count(program: Program, names: Iterable[str], *, upstream: str, direct: bool) -> str:
    runs: dict[str, AgentRun] = {}
    for name in names:
        run = runs[name] = face(program, name, upstream=upstream, direct=direct)
        state = "PARTIAL" if run.partial else "survived" if run.survived else "not survived"
        way = "directly" if direct else f"through the proxy to {upstream}"
        sys.stderr.write(f"{name} {way}: {state}, exit code {run.exit_code}: {run.ran}\n")
    survived = sum(run.survived for run in runs.values())
    partial = sum(run.partial for run in runs.values())
    return f"{survived}/{len(runs)}" + (f" ({partial} partial)" if partial else "")


def _print_row(name: str) -> None:
    program = PROGRAMS[name]
    cells = [
        _count(program, names, upstream=program.protocol, direct=True)
        for names in (HEALTHY, list_scenarios(program.protocol, FAULTS))
    ]
    for upstream in UPSTREAMS:
        cells += [
            _count(program, names, upstream=upstream, direct=False)
            for names in (HEALTHY, list_scenarios(upstream, FAULTS))
        ]
    sys.stdout.write(f"| {' | '.join([name, *cells])} |\n")
    sys.stdout.flush()


def _print_one(name: str, scenario: str) -> None:
    program = PROGRAMS[name]
    ways = [(program.protocol, True), *((upstream, False) for upstream in UPSTREAMS)]
    for upstream, direct in ways:
        run = face(program, scenario, upstream=upstream, direct=direct)
        sys.stdout.write(f"{'direct' if direct else 'proxied'} {upstream}: {run}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        for each in sys.argv[2:]:
            _print_one(sys.argv[1], each)
    else:
        for each in sys.argv[1:] or PROGRAMS:
            _print_row(each)
