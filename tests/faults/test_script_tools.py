"""The four tools, in the form of each protocol."""

from __future__ import annotations

import pytest

from wholecall.arguments.validate import admit
from wholecall.events import Start
from wholecall.faults.script import PROTOCOLS, READ_ONLY, TOOLS, definitions
from wholecall.messages import read_offer


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_definition_says_what_the_tool_is(protocol: str) -> None:
    offer = read_offer(definitions(protocol))
    assert [(tool.name, tool.parameters, tool.description) for tool in offer.values()] == [
        (tool.name, tool.parameters, tool.description) for tool in TOOLS
    ]


def test_the_tools_may_be_offered() -> None:
    assert not admit(TOOLS)


def test_only_what_reads_may_start_early() -> None:
    assert {"get_weather", "list_items"} == READ_ONLY
    assert {tool.name for tool in TOOLS if tool.start is Start.CONFIRMED} == {
        "send_email",
        "write_file",
    }
