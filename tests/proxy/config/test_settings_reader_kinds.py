"""What a setting takes, in words and as a check."""

from collections.abc import Mapping
from typing import Annotated, Literal

import pytest

from wholecall.agent.budget import RunLimits
from wholecall.proxy.config.schema import (
    Config,
    ListenConfig,
    McpTool,
    ModelConfig,
    PythonTool,
    Range,
    Secret,
)
from wholecall.proxy.config.settings_reader import (
    ExpectedType,
    describe,
    expected_of,
    fits,
    hint_for,
)

PORT = ExpectedType(int, Range(0, 65535))


def test_the_types_of_the_fields_say_what_is_expected() -> None:
    listen = expected_of(ListenConfig)
    assert listen["port"] == ExpectedType(int, Range(0, 65535), restart=True)
    assert listen["hosts"] == ExpectedType(tuple[str, ...])
    model = expected_of(ModelConfig)
    assert model["api_key"] == ExpectedType(Secret, optional=True)
    assert model["base_url"].optional
    assert expected_of(RunLimits)["turn_retries"].bounds == Range(0)
    assert expected_of(RunLimits)["turns"].bounds is None


def test_what_is_in_a_container_inherits_what_holds_for_it() -> None:
    outer = ExpectedType(tuple[int, ...], Range(1, 2), restart=True)
    assert outer.within(int) == ExpectedType(int, Range(1, 2), restart=True)
    assert outer.within(Annotated[int, Range(3)]) == ExpectedType(int, Range(3), restart=True)


def test_the_sections_of_a_union_are_found() -> None:
    tools = expected_of(Config)["tools"]
    assert list(tools.within(PythonTool | McpTool).sections) == [PythonTool, McpTool]
    assert list(ExpectedType(str | Secret).sections) == []


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (ExpectedType(bool), "true or false"),
        (ExpectedType(int), "a whole number above 0"),
        (ExpectedType(float, Range(2)), "a number of at least 2"),
        (PORT, "a whole number from 0 to 65535"),
        (ExpectedType(str), "text"),
        (ExpectedType(Secret), "${NAME}"),
        (ExpectedType(str | Secret), "text"),
        (ExpectedType(Literal["gate", "run"]), '"gate" or "run"'),
        (ExpectedType(tuple[str, ...]), "a list"),
        (ExpectedType(Mapping[str, str]), "names with texts"),
        (ExpectedType(ListenConfig), "a section with settings"),
    ],
)
def test_words(expected: ExpectedType, words: str) -> None:
    assert describe(expected) == words


@pytest.mark.parametrize(
    ("value", "expected", "good"),
    [
        (True, ExpectedType(bool), True),
        (1, ExpectedType(bool), False),
        (1, ExpectedType(int), True),
        (0, ExpectedType(int), False),
        (-1, ExpectedType(int, Range(0)), False),
        (0, PORT, True),
        (65535, PORT, True),
        (65536, PORT, False),
        (1.0, ExpectedType(int), False),
        (True, ExpectedType(int), False),
        ("1", ExpectedType(int), False),
        (1, ExpectedType(float), True),
        (0.5, ExpectedType(float), True),
        (0.0, ExpectedType(float), False),
        (float("inf"), ExpectedType(float), False),
        (True, ExpectedType(float), False),
        ("", ExpectedType(str), True),
        (None, ExpectedType(str), False),
        (Secret("x"), ExpectedType(str), False),
        (Secret("x"), ExpectedType(Secret), True),
        ("x", ExpectedType(Secret), False),
        ("x", ExpectedType(str | Secret), True),
        (Secret("x"), ExpectedType(str | Secret), True),
        (1, ExpectedType(str | Secret), False),
        ("run", ExpectedType(Literal["gate", "run"]), True),
        ("rum", ExpectedType(Literal["gate", "run"]), False),
    ],
)
def test_single_values(
    value: str | float | Secret | None, expected: ExpectedType, *, good: bool
) -> None:
    assert fits(value, expected) is good


@pytest.mark.parametrize(
    ("value", "expected", "hint"),
    [
        (5, ExpectedType(str), '; write "5" in quotes'),
        (True, ExpectedType(str | Secret), '; write "true" in quotes'),
        ("9000", PORT, "; write 9000 without quotes"),
        (" true", ExpectedType(bool), "; write true without quotes"),
        ("70000", PORT, ""),
        ("nine", PORT, ""),
        ("[1]", PORT, ""),
        (70000, PORT, ""),
        (None, ExpectedType(str), ""),
    ],
)
def test_quotes_too_many_or_too_few_are_noticed(
    value: str | float | None, expected: ExpectedType, *, hint: str
) -> None:
    assert hint_for(value, expected) == hint
