"""What the engine looks for in an answer, built once for each set of tools."""

from __future__ import annotations

import pytest

from wholecall.dialects.char_stream import markers_of
from wholecall.dialects.dialect_registry import AUTO
from wholecall.dialects.engine import MANY, Vocabulary, has_vocabulary, vocabulary_of
from wholecall.dialects.parser_context import LONGEST_NAME, Tags


def test_a_tool_has_a_tag_unless_its_name_is_longer_than_any_header() -> None:
    names = ("search", "a" * LONGEST_NAME, "b" * (LONGEST_NAME + 1))
    grammars = Vocabulary.of(AUTO, names).grammars
    assert [f"<{name}>" in grammars for name in names] == [True, True, False]


@pytest.mark.parametrize("count", [1, MANY + 1, 1024])
def test_the_vocabulary_of_a_set_of_tools_is_built_once(count: int) -> None:
    names = tuple(f"kept_{count}_{number}" for number in range(count))
    assert not has_vocabulary(AUTO, names)
    built = vocabulary_of(AUTO, names)
    assert has_vocabulary(AUTO, names)
    assert vocabulary_of(AUTO, names) is built
    assert vocabulary_of(AUTO, names[1:]) is not built


def test_nothing_of_a_tool_is_kept_for_ever() -> None:
    markers_of.cache_clear()  # a full one does not grow
    Vocabulary.of(AUTO, ("one",))
    before = markers_of.cache_info().currsize
    Vocabulary.of(AUTO, ("another",))
    assert markers_of.cache_info().currsize == before


@pytest.mark.parametrize("count", [1, MANY + 1])
def test_behind_a_call_its_ends_are_looked_for(count: int) -> None:
    words = Vocabulary.of(AUTO, tuple(f"tool_{number}" for number in range(count)))
    ends = words.with_ends(Tags(("</query>",), ("</tool_0>",)))
    assert ends.match("</query>", 0) == "</query>"
    assert ends.match("<tool_0>", 0) == "<tool_0>"
    assert words.marks.match("</query>", 0) == ""
