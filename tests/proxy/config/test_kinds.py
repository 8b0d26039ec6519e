"""What a setting takes, in words and as a check."""

from collections.abc import Mapping
from typing import Annotated, Literal

import pytest

from wholecall.proxy.config.kinds import Expected, describe, expected_of, fits, hint_for
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.settings import (
    Config,
    ListenConfig,
    McpTool,
    ModelConfig,
    PythonTool,
    Range,
)
from wholecall.runs.limits import RunLimits

PORT = Expected(int, Range(0, 65535))


def test_the_types_of_the_fields_say_what_is_expected() -> None:
    listen = expected_of(ListenConfig)
    assert listen["port"] == Expected(int, Range(0, 65535), restart=True)
    assert listen["hosts"] == Expected(tuple[str, ...])
    model = expected_of(ModelConfig)
    assert model["api_key"] == Expected(Secret, optional=True)
    assert model["base_url"].optional
    assert expected_of(RunLimits)["turn_retries"].bounds == Range(0)
    assert expected_of(RunLimits)["turns"].bounds is None


def test_what_is_in_a_container_inherits_what_holds_for_it() -> None:
    outer = Expected(tuple[int, ...], Range(1, 2), restart=True)
    assert outer.within(int) == Expected(int, Range(1, 2), restart=True)
    assert outer.within(Annotated[int, Range(3)]) == Expected(int, Range(3), restart=True)


def test_the_sections_of_a_union_are_found() -> None:
    tools = expected_of(Config)["tools"]
    assert list(tools.within(PythonTool | McpTool).sections) == [PythonTool, McpTool]
    assert list(Expected(str | Secret).sections) == []


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (Expected(bool), "true or false"),
        (Expected(int), "a whole number above 0"),
        (Expected(float, Range(2)), "a number of at least 2"),
        (PORT, "a whole number from 0 to 65535"),
        (Expected(str), "text"),
        (Expected(Secret), "${NAME}"),
        (Expected(str | Secret), "text"),
        (Expected(Literal["gate", "run"]), '"gate" or "run"'),
        (Expected(tuple[str, ...]), "a list"),
        (Expected(Mapping[str, str]), "names with texts"),
        (Expected(ListenConfig), "a section with settings"),
    ],
)
def test_words(expected: Expected, words: str) -> None:
    assert describe(expected) == words


@pytest.mark.parametrize(
    ("value", "expected", "good"),
    [
        (True, Expected(bool), True),
        (1, Expected(bool), False),
        (1, Expected(int), True),
        (0, Expected(int), False),
        (-1, Expected(int, Range(0)), False),
        (0, PORT, True),
        (65535, PORT, True),
        (65536, PORT, False),
        (1.0, Expected(int), False),
        (True, Expected(int), False),
        ("1", Expected(int), False),
        (1, Expected(float), True),
        (0.5, Expected(float), True),
        (0.0, Expected(float), False),
        (float("inf"), Expected(float), False),
        (True, Expected(float), False),
        ("", Expected(str), True),
        (None, Expected(str), False),
        (Secret("x"), Expected(str), False),
        (Secret("x"), Expected(Secret), True),
        ("x", Expected(Secret), False),
        ("x", Expected(str | Secret), True),
        (Secret("x"), Expected(str | Secret), True),
        (1, Expected(str | Secret), False),
        ("run", Expected(Literal["gate", "run"]), True),
        ("rum", Expected(Literal["gate", "run"]), False),
    ],
)
def test_single_values(
    value: str | float | Secret | None, expected: Expected, *, good: bool
) -> None:
    assert fits(value, expected) is good


@pytest.mark.parametrize(
    ("value", "expected", "hint"),
    [
        (5, Expected(str), '; write "5" in quotes'),
        (True, Expected(str | Secret), '; write "true" in quotes'),
        ("9000", PORT, "; write 9000 without quotes"),
        (" true", Expected(bool), "; write true without quotes"),
        ("70000", PORT, ""),
        ("nine", PORT, ""),
        ("[1]", PORT, ""),
        (70000, PORT, ""),
        (None, Expected(str), ""),
    ],
)
def test_quotes_too_many_or_too_few_are_noticed(
    value: str | float | None, expected: Expected, *, hint: str
) -> None:
    assert hint_for(value, expected) == hint
