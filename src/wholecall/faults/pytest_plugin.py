"""A pytest plugin: run an agent against every fault scenario, and judge what it ran.

def test_my_agent(fault_upstream):
    run_my_agent(
        base_url=fault_upstream.base_url,
        model=fault_upstream.model,
        api_key=fault_upstream.api_key,
        prompt=fault_upstream.prompt,
        tools=fault_upstream.tools,
    )

`pytest --wholecall-faults` runs the test once for each scenario, `--wholecall-faults 'dropped-*'`
for some of them. Without the option such tests are skipped.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from wholecall.faults.fault_server import FaultServer, start_in_thread
from wholecall.faults.scenarios import PREFIX, SCENARIOS
from wholecall.faults.score import Conduct, Verdict, judge
from wholecall.faults.script import TOOLS, Scenario, ToolRun

_OPTION = "--wholecall-faults"
_FIXTURE = "fault_upstream"
_HANG_SECONDS = 5.0
"""Seconds for which a scenario hangs. An agent with a shorter timeout ends it earlier."""


class FaultUpstream:
    """The upstream of one scenario, and a record of what the agent ran."""

    def __init__(self, scenario: Scenario, server: FaultServer, *, api_key: str) -> None:
        self.scenario = scenario
        self.api_key = api_key
        self.ran: list[ToolRun] = []
        """What the agent ran, in order."""
        self._server = server

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI's clients."""
        return self._server.base_url

    @property
    def address(self) -> str:
        """The base URL for Anthropic's clients."""
        return self._server.address

    @property
    def model(self) -> str:
        """The name of the model to ask for: it chooses the scenario."""
        return PREFIX + self.scenario.name

    @property
    def prompt(self) -> str:
        """The question to ask."""
        return self.scenario.prompt

    @property
    def tools(self) -> Mapping[str, Callable[..., str]]:
        """The four tools by name. Each takes the arguments of the call as keywords."""
        return {tool.name: partial(self.report, tool.name) for tool in TOOLS}

    def report(self, tool: str, /, **arguments: Any) -> str:
        """Note that the agent runs a tool; return the tool's result."""
        self.ran.append(ToolRun(tool, arguments))
        return f"{tool}: done"

    def settle(self, error: Exception | None) -> None:
        """Fail or skip the test, by what the agent ran and how it ended."""
        __tracebackhide__ = True
        received = self._server.received
        if not received:
            pytest.fail(f"the agent never asked {self.model!r} at {self.address}", pytrace=False)
        form = received[0].form
        if form not in self.scenario.forms:
            pytest.skip(f"{self.scenario.name} does not exist in {form}")
        expected = self.scenario.expect(form)
        complaint = "" if error is None else f"{type(error).__name__}: {error}"
        exit_code = 0 if error is None else 1
        judgement = judge(
            expected, Conduct(ran=tuple(self.ran), exit_code=exit_code, complaint=complaint)
        )
        if judgement.verdict is not Verdict.SAFE:
            lines = (
                f"{judgement.verdict.value}: {judgement.why}",
                f"  scenario: {self.scenario.sentence}",
                f"  may run:  {_write_runs(expected.runs)}",
                f"  ran:      {_write_runs(self.ran)}",
            )
            pytest.fail("\n".join(lines), pytrace=False)


def _write_runs(runs: Iterator[ToolRun] | list[ToolRun] | tuple[ToolRun, ...]) -> str:
    written = [f"{run.tool}({json.dumps(run.arguments)})" for run in runs]
    return ", ".join(written) or "nothing"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("wholecall").addoption(
        _OPTION,
        nargs="?",
        const="*",
        metavar="PATTERN",
        help="run tests with the fixture fault_upstream, once for each fault scenario whose name "
        "fits the pattern (default: all)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each scenario."""
    if _FIXTURE not in metafunc.fixturenames:
        return
    pattern = metafunc.config.getoption(_OPTION)
    if pattern is None:
        skip = pytest.mark.skip(reason=f"it needs {_OPTION}")
        metafunc.parametrize(_FIXTURE, [pytest.param("", marks=skip)], indirect=True, ids=["-"])
        return
    names = fnmatch.filter(SCENARIOS, pattern)
    if not names:
        raise pytest.UsageError(
            f"{_OPTION}: no scenario fits {pattern!r}; `wholecall faults list` shows their names, "
            f"and `{_OPTION}='*'` before a file runs all"
        )
    metafunc.parametrize(_FIXTURE, names, indirect=True, ids=names)


@pytest.fixture(scope="session")
def _fault_server() -> Iterator[FaultServer]:
    with start_in_thread(hang_seconds=_HANG_SECONDS) as server:
        yield server


@pytest.fixture
def fault_upstream(request: pytest.FixtureRequest, _fault_server: FaultServer) -> FaultUpstream:
    """Return the upstream of one scenario. What the agent ran is judged when the test ends."""
    _fault_server.forget()
    name: str = request.param
    return FaultUpstream(SCENARIOS[name], _fault_server, api_key=f"test-{name}")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Judge the agent when the test function is over.

    An exception may be the right end of a scenario. A failed assertion is the test's own verdict.
    """
    upstream = pyfuncitem.funcargs.get(_FIXTURE)
    if not isinstance(upstream, FaultUpstream):
        return (yield)
    result, error = None, None
    try:
        result = yield
    except AssertionError:
        raise
    except Exception as raised:  # noqa: BLE001 - an agent may end with any exception
        error = raised
    upstream.settle(error)
    return result
