"""The pytest plugin, as a user's own pytest runs it."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

AGENT = """
import json
import openai
import pytest
from wholecall.faults.script import definitions


def run_agent(upstream, *, repair):
    with openai.OpenAI(
        base_url=upstream.base_url, api_key=upstream.api_key, max_retries=0, timeout=20
    ) as client:
        ask(client, upstream, repair=repair)


def ask(client, upstream, *, repair):
    messages = [{"role": "user", "content": upstream.prompt}]
    for _ in range(4):
        answer = client.chat.completions.create(
            model=upstream.model, messages=messages, tools=definitions("openai-chat")
        )
        said = answer.choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        if not said.tool_calls:
            return
        for call in said.tool_calls:
            try:
                arguments = json.loads(call.function.arguments)
            except ValueError:
                arguments = {"path": "notes.txt"} if repair else None
            if arguments is None:
                content = "not valid JSON, so it was not run"
            else:
                content = upstream.tools[call.function.name](**arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
"""
TEST = """
def test_agent(fault_upstream):
    run_agent(fault_upstream, repair={repair})
"""


def run(pytester: pytest.Pytester, test: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(AGENT + test)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)


def test_a_careful_agent_passes_and_a_pattern_chooses(pytester: pytest.Pytester) -> None:
    ended = run(pytester, TEST.format(repair=False), "--wholecall-faults", "truncated-in-*")
    counts = ended.parseoutcomes()
    assert counts["passed"] >= 1
    assert set(counts) == {"passed"}


def test_an_agent_that_repairs_is_unsafe_and_the_report_says_why(
    pytester: pytest.Pytester,
) -> None:
    option = "--wholecall-faults=truncated-in-string"
    ended = run(pytester, TEST.format(repair=True), option)
    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(
        [
            "UNSAFE: ran write_file though it may not",
            "  scenario: *",
            '  may run:  write_file({"path": "notes.txt", "content": "hello"})',
            '  ran:      write_file({"path": "notes.txt"})*',
        ]
    )


ROWS = {
    "without the option the test is skipped": ((), TEST.format(repair=False), {"skipped": 1}),
    "an error may be the right end": (
        ("--wholecall-faults", "server-error-always"),
        TEST.format(repair=False),
        {"passed": 1},
    ),
    "an error is not the right end of a good answer": (
        ("--wholecall-faults", "good"),
        (
            "def test_agent(fault_upstream):\n"
            "    run_agent(fault_upstream, repair=False)\n    fault_upstream.ran.clear()\n"
            "    raise OSError('gave up')\n"
        ),
        {"failed": 1},
    ),
    "a call that did not run is lost": (
        ("--wholecall-faults", "good"),
        (
            "def test_agent(fault_upstream):\n"
            "    run_agent(fault_upstream, repair=False)\n    fault_upstream.ran.clear()\n"
        ),
        {"failed": 1},
    ),
    "an agent that asks nothing fails": (
        ("--wholecall-faults", "good"),
        "def test_agent(fault_upstream):\n    pass\n",
        {"failed": 1},
    ),
    "a scenario that the agent's form lacks is skipped": (
        ("--wholecall-faults", "call-in-error-event"),
        TEST.format(repair=False),
        {"skipped": 1},
    ),
    "a failed assertion stays one, though an error would be right": (
        ("--wholecall-faults", "server-error-always"),
        "def test_agent(fault_upstream):\n    assert fault_upstream.ran, 'nothing ran'\n",
        {"failed": 1},
    ),
    "other tests are left alone": (
        ("--wholecall-faults", "good"),
        "def test_other():\n    raise OSError('its own')\n",
        {"failed": 1},
    ),
}


@pytest.mark.parametrize(("options", "test", "outcome"), ROWS.values(), ids=ROWS)
def test_each_end_has_its_outcome(
    pytester: pytest.Pytester, *, options: tuple[str, ...], test: str, outcome: dict[str, int]
) -> None:
    assert run(pytester, test, *options).parseoutcomes() == outcome


def test_a_pattern_that_fits_nothing_is_named(pytester: pytest.Pytester) -> None:
    ended = run(pytester, TEST.format(repair=False), "--wholecall-faults", "no-such")
    assert ended.ret == pytest.ExitCode.INTERRUPTED
    ended.stdout.fnmatch_lines(["*no scenario fits 'no-such'; `wholecall faults list`*"])
