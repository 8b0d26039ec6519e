"""Names of tools of several servers: each of its own, whatever the order."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.tools.mcp.tool_definitions import LONGEST, Origin, name_tools


def test_a_tool_is_named_after_its_server() -> None:
    origin = Origin("time", "time__", "now")
    assert name_tools([origin]) == {origin: "time__now"}


@pytest.mark.parametrize(
    ("tool", "name"),
    [("a.b/c", "s__a_b_c"), ("köln", "s__k_ln"), ("", "s__"), ("A-1", "s__A-1")],
)
def test_only_characters_that_every_provider_takes(tool: str, name: str) -> None:
    origin = Origin("s", "s__", tool)
    assert name_tools([origin])[origin] == name


def test_a_tool_without_a_name_has_one_all_the_same() -> None:
    origin = Origin("s", "", "")
    assert name_tools([origin])[origin] == "_"


def test_of_a_long_name_the_rest_is_in_its_digest() -> None:
    one, other = Origin("s", "s__", "x" * 100 + "1"), Origin("s", "s__", "x" * 100 + "2")
    names = name_tools([one, other])
    assert len(names[one]) == len(names[other]) == LONGEST
    assert names[one] != names[other]
    assert names[one] == name_tools([one])[one]


def test_all_that_would_have_the_same_name_get_a_suffix() -> None:
    one, other, alone = (
        Origin("s", "s__", "a.b"),
        Origin("s", "s__", "a_b"),
        Origin("s", "s__", "c"),
    )
    names = name_tools([one, other, alone])
    assert re.fullmatch(r"s__a_b_[0-9a-f]{8}", names[one])
    assert re.fullmatch(r"s__a_b_[0-9a-f]{8}", names[other])
    assert names[alone] == "s__c"
    assert names == name_tools([alone, other, one])


def test_a_server_cannot_take_a_name_by_looking_suffixed() -> None:
    one, other = Origin("s", "s__", "a.b"), Origin("s", "s__", "a_b")
    taken = name_tools([one, other])[one].removeprefix("s__")
    thief = Origin("s", "s__", taken)
    names = name_tools([one, other, thief])
    assert len(set(names.values())) == 3


@given(st.sets(st.builds(Origin, st.sampled_from("ab"), st.sampled_from(["", "a__"]), st.text())))
def test_names_differ_and_can_be_offered(origins: set[Origin]) -> None:
    names = name_tools(origins)
    assert set(names) == origins
    assert len(set(names.values())) == len(origins)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names.values())
