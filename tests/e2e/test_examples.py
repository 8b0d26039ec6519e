"""The programs in examples/ do what they say, each started as a reader would start it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from example_programs import EXAMPLES, SECONDS, results, run_example
from scripted import calls, cut, says

LONGEST = 40
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_example_is_short(program: str) -> None:
    lines = (EXAMPLES / program).read_text("utf-8").splitlines()
    assert len(lines) <= LONGEST
    assert lines[0].startswith('"""'), "its first line says what it shows"


def test_a_first_tool() -> None:
    done = run_example(
        "first_tool.py",
        calls(("weather", {"city": "Olso"})),
        calls(("weather", {"city": "Oslo", "unit": "F"})),
        says("It is 45 °F in Oslo."),
    )
    mistaken, *_, corrected, answer = done.lines
    assert mistaken.startswith("weather({'city': 'Olso'}): ")
    assert corrected == "weather({'city': 'Oslo', 'unit': 'F'}): 45 °F"
    assert answer == "It is 45 °F in Oslo."
    [mistake] = results(done.asked[1]).values()
    assert "there is no city 'Olso'; there are Oslo, Rome" in mistake


def test_parallel_tools_with_progress() -> None:
    paths = ["a.py", "b.py", "c.py"]
    done = run_example(
        "parallel_tools.py",
        calls(*(("count_lines", {"path": path}) for path in paths)),
        says("Each has 120 lines."),
    )
    *told, answer = done.lines
    assert answer == "Each has 120 lines."
    by_call: dict[str, list[str]] = {}
    for line in told:
        call, _, what = line.partition(" ")
        by_call.setdefault(call, []).append(what)
    assert list(by_call.values()) == [
        [
            f"started: {path}",
            "reports: 50 %",
            "reports: 100 %",
            f"reports: {path} has 120 lines",
            f"done: {path} has 120 lines",
        ]
        for path in paths
    ]
    assert list(results(done.asked[1]).values()) == [f"{path} has 120 lines" for path in paths]


@pytest.mark.parametrize(
    ("typed", "status", "sent"), [("y\n", "done", 2), ("n\n", "denied", 1), ("", "denied", 1)]
)
def test_an_approval(typed: str, status: str, *, sent: int) -> None:
    done = run_example(
        "approval.py",
        calls(
            ("send_email", {"to": "ada@example.org", "body": "Dinner?"}),
            ("send_email", {"to": "eve@example.com", "body": "Dinner?"}),
        ),
        says("Done."),
        typed=typed,
    )
    printed = "\n".join(done.lines)
    assert printed.count("sending 'Dinner?' to ") == sent
    assert ("to eve@example.com" in printed) == (status == "done")
    assert printed.count("[y/N]") == 1, "only a stranger is asked about"
    assert "ada@example.org: done" in printed
    assert f"eve@example.com: {status}" in printed
    assert done.lines[-1] == "Done."


def test_the_tools_of_an_mcp_server() -> None:
    done = run_example(
        "mcp_tools.py",
        calls(("stock__count", {"item": "lamp"})),
        calls(("stock__reserve", {"item": "lamp", "number": 2})),
        says("Two lamps are yours."),
    )
    assert done.lines == [
        "offered: stock__count, stock__reserve",
        "stock__count: 4",
        "stock__reserve: 2 × lamp put aside, 2 left",
        "Two lamps are yours.",
    ]
    offered = [tool["function"]["name"] for tool in done.asked[0]["tools"]]
    assert offered == ["stock__count", "stock__reserve"]


def test_a_client_and_a_loop_of_ones_own() -> None:
    done = run_example(
        "own_client.py",
        cut("weather", '{"city": "Ro'),
        calls(("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})),
        says("Rain everywhere."),
    )
    assert done.lines == ["Rain everywhere."]
    [feedback] = results(done.asked[1]).values()
    assert re.search(r"cut off.*output limit", feedback)
    answers = list(results(done.asked[2]).values())
    assert answers == [feedback, "rain in Oslo", "rain in Rome"]


def test_tests_with_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "testing_with_faults.py"],
        cwd=EXAMPLES,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert re.search(r"^\d+ passed", done.stdout.splitlines()[-1]), done.stdout
