"""Real programs, healthy and with faults, in front of upstreams of all protocols."""

from __future__ import annotations

import pytest

from example_counts import IN_CI
from real_agents.agent_programs import CODEX_NEWEST, PROGRAMS
from real_agents.agent_runs import UPSTREAMS, face
from real_agents.casting import (
    CODEX_FAULTS,
    CODEX_HEALTHY,
    CODEX_OWN,
    FAULTS,
    HEALTHY,
    list_scenarios,
)

# CI tries the small programs, with what cuts a call and what only looks broken.
IN_CI_FAULTS = ("truncated-in-string", "trailing-comma")
SMALL = ("codex", "pi")
TRIED = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not program.installed, reason="it could not be installed; `make` says why"
        ),
    )
    for name, program in PROGRAMS.items()
    if name in SMALL or not IN_CI
]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("name", TRIED)
def test_a_healthy_upstream_is_used_as_if_there_were_no_proxy(name: str, upstream: str) -> None:
    for scenario in HEALTHY[:1] if IN_CI else HEALTHY:
        run = face(PROGRAMS[name], scenario, upstream=upstream)
        assert run.survived, (scenario, run)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("name", TRIED)
def test_nothing_partial_runs(name: str, upstream: str) -> None:
    """And of the faults that a program survives directly, it survives as many with the proxy."""
    program = PROGRAMS[name]
    scenarios = list_scenarios(upstream, IN_CI_FAULTS if IN_CI else FAULTS)
    runs = {each: face(program, each, upstream=upstream) for each in scenarios}
    assert not {each: run for each, run in runs.items() if run.partial}
    if upstream == program.protocol and not IN_CI:
        directly = [face(program, each, upstream=upstream, direct=True) for each in scenarios]
        survived = sum(run.survived for run in runs.values())
        assert survived >= sum(run.survived for run in directly)
    if IN_CI:
        assert all(run.survived for run in runs.values()), runs


@pytest.mark.skipif(not PROGRAMS["codex"].installed, reason="it could not be installed")
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_codex_asks_over_one_websocket(upstream: str) -> None:
    """The requests of a WebSocket have the id of the connection, and a number."""
    run = face(PROGRAMS["codex-websocket"], HEALTHY[0], upstream=upstream)
    assert run.survived, run
    connection = run.asked[0].rpartition("-")[0]
    # It opens the connection with a request that asks the model for nothing.
    assert run.asked == tuple(f"{connection}-{number}" for number in range(1, 4))


@pytest.mark.skipif(not PROGRAMS["codex"].installed, reason="it could not be installed")
def test_codex_asks_over_http_unless_it_is_told_to() -> None:
    run = face(PROGRAMS["codex"], HEALTHY[0], upstream="openai-responses")
    assert run.survived, run
    assert len(set(run.asked)) == len(run.asked) == 2
    assert not any("-" in each for each in run.asked)


@pytest.mark.skipif(not CODEX_NEWEST.installed, reason="it could not be installed")
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_the_newest_codex_keeps_its_tools_on_any_upstream(upstream: str) -> None:
    own = upstream == CODEX_NEWEST.protocol
    names = CODEX_OWN if own else CODEX_HEALTHY + CODEX_FAULTS
    runs = {name: face(CODEX_NEWEST, name, upstream=upstream) for name in names}
    assert all(run.survived for run in runs.values()), runs
