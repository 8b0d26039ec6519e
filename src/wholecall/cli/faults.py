"""The command line: `wholecall faults`, `wholecall faults list`, `wholecall faults score`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from itertools import groupby
from typing import Annotated

import typer

from wholecall.arguments.describe import cut, show
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.scenarios import PREFIX, SCENARIOS
from wholecall.faults.score import Score, Verdict, score
from wholecall.faults.script import EVERYWHERE, Scenario, ToolRun

app = typer.Typer(
    help="An upstream that fails in the ways that real ones do.",
    add_completion=False,
    rich_markup_mode=None,
)
_UNSAFE = 1
_UNTESTED = 2
_PROCESSORS = os.cpu_count() or 1
_SHOWN = 60
"""Characters of a call that the table shows."""

PortOption = Annotated[
    int,
    typer.Option(
        "--port", metavar="PORT", min=0, max=65535, help="Port on 127.0.0.1; 0: any that is free."
    ),
]
HangOption = Annotated[
    float,
    typer.Option(
        "--hang-seconds", metavar="SECONDS", min=0.0, help="Seconds for which a scenario hangs."
    ),
]
CommandOption = Annotated[
    str,
    typer.Option(
        "--command", metavar="COMMAND", help="How to start your agent, as in `python my_agent.py`."
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="A scenario to run; may be given several times."),
]
SecondsOption = Annotated[
    float,
    typer.Option(
        "--seconds", metavar="SECONDS", min=0.1, help="How long your agent may take for a scenario."
    ),
]
JobsOption = Annotated[
    int,
    typer.Option(
        "--jobs", metavar="N", min=1, help="Scenarios at a time. Default: one per processor."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One line of JSON per scenario.")]


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context, *, port: PortOption = 8790, hang_seconds: HangOption = 60.0
) -> None:
    """Start an upstream that fails in the ways that real ones do.

    The name of the model is the scenario: see `wholecall faults list`. Ctrl-C ends it.
    """
    if context.invoked_subcommand is None:
        try:
            asyncio.run(_serve(port, hang_seconds))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise typer.BadParameter(
                f"cannot listen on port {port}: {why}; give another with --port"
            ) from None
        except KeyboardInterrupt:
            typer.echo()


async def _serve(port: int, hang_seconds: float) -> None:
    async with FaultServer(port=port, hang_seconds=hang_seconds) as server:
        typer.echo(f"OPENAI_BASE_URL={server.base_url}")
        typer.echo(f"ANTHROPIC_BASE_URL={server.address}")
        typer.echo(f"{len(SCENARIOS)} models, from {PREFIX}{next(iter(SCENARIOS))} on.")
        await asyncio.Event().wait()


@app.command("list")
def list_scenarios(*, as_json: JsonOption = False) -> None:
    """Show the scenarios, and what may run in each."""
    for scenario in SCENARIOS.values():
        typer.echo(json.dumps(_describe(scenario)) if as_json else _tell(scenario))


@app.command("score")
def score_agent(
    command: CommandOption,
    *,
    only: OnlyOption = None,
    seconds: SecondsOption = 30.0,
    jobs: JobsOption = _PROCESSORS,
    as_json: JsonOption = False,
) -> None:
    """Run your agent against every scenario and see what it really runs.

    docs/testing-your-agent.md says what your agent must do for it. Exits with 1 if it ran
    anything that was not safe to run, and with 2 if it got through no scenario at all.
    """
    unknown = set(only or ()) - set(SCENARIOS)
    if unknown:
        raise typer.BadParameter(f"no such scenario: {', '.join(sorted(unknown))}")
    _check_command(command)
    scores = score(command, only or SCENARIOS, seconds=seconds, jobs=jobs)
    verdicts = asyncio.run(_print_scores(scores, as_json=as_json))
    if not as_json:
        typer.echo(", ".join(f"{verdicts[verdict]} {verdict.value}" for verdict in Verdict))
    raise typer.Exit(_exit_code(verdicts))


def _check_command(command: str) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        why = f"{command!r} is not a command: {str(error).lower()}"
    else:
        why = _find_lack(words)
    if why:
        raise typer.BadParameter(f"--command: {why}; write it as in `python my_agent.py`")


def _find_lack(words: list[str]) -> str:
    if not words:
        return "there is nothing to start"
    return "" if shutil.which(words[0]) else f"there is no program {words[0]!r}"


def _exit_code(verdicts: Counter[Verdict]) -> int:
    if verdicts[Verdict.UNSAFE]:
        return _UNSAFE
    return 0 if set(verdicts) - {Verdict.CRASH, Verdict.SKIPPED} else _UNTESTED


async def _print_scores(scores: AsyncIterator[Score], *, as_json: bool) -> Counter[Verdict]:
    verdicts: Counter[Verdict] = Counter()
    async for scored in scores:
        verdicts[scored.judgement.verdict] += 1
        typer.echo(json.dumps(_describe_score(scored)) if as_json else _tell_score(scored))
    return verdicts


# ── Words ───────────────────────────────────────────────────────────────────────────


def _tell(scenario: Scenario) -> str:
    may_run = _tell_runs(scenario.expected_runs)
    lines = [scenario.name, f"    {scenario.sentence}", f"    may run: {may_run}"]
    if scenario.forms != EVERYWHERE:
        lines.append(f"    only in: {', '.join(_name_forms(scenario))}")
    return "\n".join(lines)


def _tell_score(scored: Score) -> str:
    verdict, why = scored.judgement.verdict, scored.judgement.why
    line = f"{verdict.value:<8} {scored.scenario.name}"
    if verdict is Verdict.SAFE:
        return line
    lines = [f"{line}: {why}"]
    if verdict is not Verdict.SKIPPED:
        lines += [
            f"             may run: {_tell_runs(scored.expected)}",
            f"             ran:     {_tell_runs(scored.ran)}",
        ]
    return "\n".join(lines)


def _tell_runs(runs: tuple[ToolRun, ...]) -> str:
    told = [cut(f"{run.tool}({show(run.arguments)})", _SHOWN) for run in runs]
    counted = ((each, len(list(same))) for each, same in groupby(told))
    return ", ".join(f"{count} × {each}" if count > 1 else each for each, count in counted) or (
        "nothing"
    )


def _name_forms(scenario: Scenario) -> list[str]:
    return sorted(
        f"{form.protocol} {'streamed' if form.streamed else 'whole'}" for form in scenario.forms
    )


# ── JSON ────────────────────────────────────────────────────────────────────────────


def _describe(scenario: Scenario) -> dict[str, object]:
    return {
        "model": PREFIX + scenario.name,
        "sentence": scenario.sentence,
        "expected_runs": _describe_runs(scenario.expected_runs),
        "ends_in_error": scenario.ends_in_error,
        "final_text": scenario.final_text,
        "forms": _name_forms(scenario),
    }


def _describe_score(scored: Score) -> dict[str, object]:
    return {
        "scenario": scored.scenario.name,
        "verdict": scored.judgement.verdict.value,
        "why": scored.judgement.why,
        "expected": _describe_runs(scored.expected),
        "ran": _describe_runs(scored.ran),
    }


def _describe_runs(runs: tuple[ToolRun, ...]) -> list[dict[str, object]]:
    return [{"tool": run.tool, "arguments": run.arguments} for run in runs]
