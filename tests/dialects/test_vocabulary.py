"""What the engine looks for in an answer."""

from __future__ import annotations

from wholecall.dialects.machine import LONGEST_NAME
from wholecall.dialects.registry import AUTO
from wholecall.dialects.vocabulary import Vocabulary


def test_a_tool_has_a_tag_unless_its_name_is_longer_than_any_header() -> None:
    names = ("search", "a" * LONGEST_NAME, "b" * (LONGEST_NAME + 1))
    grammars = Vocabulary.of(AUTO, names).grammars
    assert [f"<{name}>" in grammars for name in names] == [True, True, False]
