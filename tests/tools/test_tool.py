"""A tool's rules that contradict each other are refused where they are written."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from wholecall.events import JSON
from wholecall.messages import Result, ToolSpec
from wholecall.tools.tool import Context, Failed, Retry, Tool


async def run(_arguments: Mapping[str, JSON], _context: Context) -> Result:
    return Result()


PLAIN = Tool(spec=ToolSpec("weather"), run=run)


def test_a_tool_has_the_name_of_its_spec() -> None:
    assert PLAIN.name == "weather"


@pytest.mark.parametrize(
    ("read_only", "idempotent", "repeatable"),
    [(False, False, False), (True, False, True), (False, True, True), (True, True, True)],
)
def test_what_changes_nothing_or_the_same_may_be_repeated(
    *, read_only: bool, idempotent: bool, repeatable: bool
) -> None:
    tool = replace(PLAIN, read_only=read_only, idempotent=idempotent)
    assert tool.repeatable is repeatable


@pytest.mark.parametrize("seconds", [0, -1.5, math.nan])
def test_a_tool_needs_some_time(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout of 'weather' must be more than 0"):
        replace(PLAIN, timeout=seconds)


@pytest.mark.parametrize("rule", ["retries", "result_limit"])
def test_less_than_nothing_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=f"{rule} of 'weather' must be 0 or more"):
        replace(PLAIN, read_only=True, **{rule: -1})  # type: ignore[arg-type]


def test_only_what_may_be_repeated_has_retries() -> None:
    with pytest.raises(ValueError, match="neither read_only nor idempotent"):
        replace(PLAIN, retries=1)
    assert replace(PLAIN, retries=1, idempotent=True).retries == 1


def test_places_follow_the_concurrency() -> None:
    assert PLAIN.places is None
    assert replace(PLAIN, concurrency=2).places is not None


def test_tools_with_equal_rules_are_equal() -> None:
    assert replace(PLAIN, concurrency=2) == replace(PLAIN, concurrency=2)


def test_a_context_of_one_s_own_needs_no_more_than_names() -> None:
    context = Context(call_id="c", run_id="r", idempotency_key="k")
    context.report({"done": 1})
    assert context.is_cancelled() is False


# ── `Retry` and `Failed` carry the words of the tool's author ───────────────────────────


@pytest.mark.parametrize("signal", [Retry, Failed])
def test_a_signal_says_what_its_author_wrote(signal: type[Exception]) -> None:
    with pytest.raises(signal, match="no city 'Olso'"):
        raise signal("no city 'Olso'")
