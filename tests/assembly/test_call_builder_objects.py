"""Arguments that come as objects instead of text."""

from types import MappingProxyType
from typing import Any

import pytest

from assembly.drafts import SMALL, draft_of, odd
from wholecall.assembly.call_builder import BuildStep
from wholecall.events import Oddity

PROXY = MappingProxyType[str, Any]({})
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

# what holds, what came, the object, all that came as text
OBJECTS = [
    ("one object", [{"a": 1}], {"a": 1}, '{"a":1}'),
    ("an object of a client library", [MappingProxyType({"a": PROXY})], {"a": PROXY}, '{"a":{}}'),
    ("objects that grow", [{"a": "x"}, {"a": "xy"}], {"a": "xy"}, '{"a":"xy"}'),
    ("objects that contradict each other", [{"a": 1}, {"a": 2}], None, '{"a":1}{"a":2}'),
    ("the text is told, too", ['{"b', {"a": 1}, {"a": 2}], None, '{"b{"a":1}{"a":2}'),
    ("letters stay as they are", [{"a": "é\ud800"}], {"a": "é\ud800"}, '{"a":"é\ud800"}'),
    ("a value that is no JSON is described", [{"a": {1}}], {"a": {1}}, '{"a":"{1}"}'),
    ("a cycle has no text", [{"a": CYCLE}], {"a": CYCLE}, '"…"'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "merged", "raw"), [row[1:] for row in OBJECTS], ids=[row[0] for row in OBJECTS]
)
def test_arguments_may_come_as_objects(
    pieces: list[Any], merged: dict[str, Any] | None, *, raw: str
) -> None:
    draft = draft_of(*pieces)
    assert draft.arguments.is_object
    assert draft.has_ended
    assert draft.has_begun
    assert not draft.arguments.is_empty
    assert draft.arguments.object() == merged
    assert draft.arguments.raw == raw
    assert odd(draft) == [Oddity.ARGUMENTS_OBJECT]


def test_an_empty_object_is_nothing() -> None:
    draft = draft_of({})
    assert draft.arguments.is_empty
    assert not draft.arguments.is_object
    assert not draft.has_begun


# what holds, what came, its text
OTHERS = [
    ("null is nothing", None, ""),
    ("nor is an empty text", "", ""),
    ("a list is written out", [1, "é"], '[1,"é"]'),
    ("a number is written out", 5, "5"),
    ("false is not nothing", False, "false"),
    ("an empty list is not nothing", [], "[]"),
    ("a list too deep to be written is not nothing", DEEP, '"…"'),
]


@pytest.mark.parametrize(
    ("value", "text"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS]
)
def test_what_is_no_object_does_not_look_like_a_call_without_arguments(
    value: Any, text: str
) -> None:
    draft = draft_of(value)
    assert draft.arguments.text == text
    assert draft.arguments.is_empty is (text == "")
    assert draft.has_begun is (text != "")
    assert not draft.arguments.is_object


# ── The limit of objects ────────────────────────────────────────────────────────────

# what holds, the objects (20 characters are allowed), how many were kept, whether it ends early
MANY = [
    ("one alone is measured where it is read", [{"a": "x" * 99}], 1, False),
    ("several that fit", [{"a": "x"}, {"a": "y"}], 2, False),
    ("all of them count", [{"a": "x"}, {"a": "y"}, {"a": "z"}], 2, True),
    ("the first one counts, too", [{"a": "x" * 9}, {"a": "y"}], 1, True),
    ("what follows is dropped as well", [{"a": "x" * 9}, {"a": "y"}, {"a": "z"}], 1, True),
]


@pytest.mark.parametrize(
    ("pieces", "kept", "ends"), [row[1:] for row in MANY], ids=[row[0] for row in MANY]
)
def test_objects_count_as_the_text_they_stand_for(
    pieces: list[dict[str, str]], kept: int, *, ends: bool
) -> None:
    draft = draft_of(*pieces, limits=SMALL)
    assert draft.arguments.object() == draft_of(*pieces[:kept]).arguments.object()
    assert (draft.early_end is not None) is ends


def test_an_object_for_a_rejected_draft_is_dropped() -> None:
    draft = draft_of({"a": "x"})
    draft.step(BuildStep.REJECT)
    draft.add({"a": "y"})
    assert draft.arguments.object() == {"a": "x"}
