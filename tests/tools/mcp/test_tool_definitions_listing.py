"""Of a server's tools only those are offered that may be and that are what they were."""

import pytest

from wholecall.tools.mcp.server_config import McpServer
from wholecall.tools.mcp.tool_definitions import (
    TOOLS,
    Definition,
    Pins,
    ToolListing,
    ToolRefused,
    arrange,
    choose,
    read_definition,
)

SERVER = McpServer("s", command="x", deny=("secret",))


def define(name: str, canonical: str = "{}") -> Definition:
    return Definition(name=name, parameters={"type": "object"}, canonical=canonical)


def test_what_the_operator_denies_is_not_even_mentioned() -> None:
    assert choose(SERVER, [define("a"), define("secret")]) == ToolListing((define("a"),))


def test_what_cannot_be_offered_is_refused_with_a_reason() -> None:
    broken = Definition(name="b", parameters={"type": "strong"})
    listing = choose(SERVER, [define("a"), define("a", "other"), broken])
    assert listing.definitions == (define("a"),)
    twice, flawed = listing.refused
    assert twice == ToolRefused("s", "a", "the server names it twice")
    assert (flawed.tool, "schema" in flawed.reason) == ("b", True)


@pytest.mark.parametrize(
    ("support", "offered"),
    [("required", False), ("optional", True), ("forbidden", True), (None, True)],
)
def test_a_tool_that_runs_only_as_a_task_is_refused(support: str | None, *, offered: bool) -> None:
    execution = {} if support is None else {"execution": {"taskSupport": support}}
    tool = read_definition({"name": "a", "inputSchema": {"type": "object"}, **execution})
    listing = choose(SERVER, [tool])
    assert bool(listing.definitions) is offered
    assert ["taskSupport: required" in each.reason for each in listing.refused] == (
        [] if offered else [True]
    )


def test_no_server_fills_the_models_context() -> None:
    listing = choose(SERVER, [define(str(number)) for number in range(TOOLS + 2)])
    assert len(listing.definitions) == TOOLS
    assert [refused.tool for refused in listing.refused] == [str(TOOLS), str(TOOLS + 1)]


def test_what_changed_is_withheld() -> None:
    _, pins = arrange("s", ToolListing((define("a"), define("b"))), pins=Pins())
    shelf, after = arrange(
        "s", ToolListing((define("a", "new"), define("b"), define("c"))), pins=pins
    )
    assert list(shelf.offered) == ["b", "c"]
    assert [change.tool for change in shelf.changed] == ["a"]
    assert after.find("s", "a") == define("a").digest
    assert after.find("s", "c") == define("c").digest
