"""The tools of a run: whatever they are made of, each has a name of its own."""

from typing import Any

import pytest

from wholecall.errors import InadmissibleTools, UnusableFunction
from wholecall.messages import Result, ToolSpec
from wholecall.tools.function_tool import make_tool, tool
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import Offered, Toolbox


@tool(read_only=True)
def weather(city: str) -> str:
    """Current weather."""
    return city


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


async def run_remotely(*_: object) -> Result:
    return Result()


REMOTE = Tool(spec=ToolSpec("remote", {"type": "object"}), run=run_remotely)
DEFINED = {"type": "function", "function": {"name": "click", "parameters": {"type": "object"}}}
SPEC = ToolSpec("scroll", {"type": "object"})


def test_tools_come_from_everything_that_can_be_one() -> None:
    toolbox = Toolbox([weather, add, REMOTE, DEFINED, SPEC])
    assert list(toolbox.offer) == ["weather", "add", "remote", "click", "scroll"]
    assert [each.name for each in toolbox] == list(toolbox.offer)
    assert len(toolbox) == 5
    assert toolbox.find("weather") is weather.tool
    assert toolbox.find("remote") is REMOTE
    assert toolbox.find("nothing") is None
    assert "add" in toolbox
    assert "nothing" not in toolbox
    assert toolbox.offer["add"] == make_tool(add).spec


@pytest.mark.parametrize(
    ("name", "runs"),
    [("weather", True), ("remote", True), ("click", False), ("scroll", False), ("no", False)],
)
def test_a_definition_without_a_body_is_the_client_s(name: str, runs: bool) -> None:
    assert Toolbox([weather, REMOTE, DEFINED, SPEC]).runs(name) is runs


def test_a_provider_s_own_tool_is_kept_aside() -> None:
    toolbox = Toolbox([{"type": "web_search"}, weather])
    assert toolbox.native == ({"type": "web_search"},)
    assert list(toolbox.offer) == ["weather"]


def test_no_tools_are_a_toolbox_too() -> None:
    assert len(Toolbox()) == 0
    assert Toolbox().offer == {}


def with_that_name(city: str) -> str:
    return city


with_that_name.__name__ = "weather"


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (with_that_name, 'tool "weather" is offered twice: give each tool a name of its own'),
        ({"name": "weather"}, 'tool "weather" is offered twice'),
        ({"name": "no name"}, 'tool "no name" must have another name'),
        ({"name": "b", "parameters": {"type": "array"}}, 'tool "b": the schema must describe'),
    ],
)
def test_what_may_not_be_offered_is_named(second: Offered, words: str) -> None:
    with pytest.raises(InadmissibleTools, match=words):
        Toolbox([weather, second])


@pytest.mark.parametrize("culprit", ["weather", 5, str])
def test_what_is_no_tool_is_refused(culprit: Any) -> None:
    with pytest.raises(UnusableFunction, match="is not a function"):
        Toolbox([culprit])


@pytest.mark.parametrize("alone", [add, weather, REMOTE, DEFINED, SPEC])
def test_one_tool_without_a_list_is_refused_with_the_way_to_write_it(alone: Any) -> None:
    with pytest.raises(UnusableFunction, match=r"tools=\[…\]"):
        Toolbox(alone)
