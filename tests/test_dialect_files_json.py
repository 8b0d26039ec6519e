"""A dialect that is stored comes back as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.dialect_files import FAMILIES, dump_dialect, family_of, read_dialect
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.errors import UnusableDialect


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_dialect_comes_back(name: str) -> None:
    stored = json.loads(json.dumps(dump_dialect(DIALECTS[name])))
    assert read_dialect(stored) == DIALECTS[name]


def test_what_is_as_by_default_is_left_out() -> None:
    assert dump_dialect(DIALECTS["think_tags"]) == {
        "wholecall_dialect": 1,
        "name": "think_tags",
        "models": "any that reasons and calls nothing",
    }
    grammar = dump_dialect(DIALECTS["hermes"])["written"]
    closers = ["</tool_call>", "<\\/tool_call>"]
    assert grammar == [
        {"openers": ["<tool_call>"], "grammar": {"family": "json", "closers": closers}}
    ]


def stored(**fields: Any) -> dict[str, Any]:
    return {"wholecall_dialect": 1, "name": "mine", **fields}


def written(openers: list[str], **grammar: Any) -> dict[str, Any]:
    return stored(written=[{"openers": openers, "grammar": grammar}])


# what is stored, what is said of it
REFUSED: list[tuple[Any, str]] = [
    ([], "no stored dialect"),
    ({"name": "mine"}, "no stored dialect"),
    ({"wholecall_dialect": 2, "name": "mine"}, "is 2; only 1 is read"),
    (stored(colour="red", age=1), "no field 'age', 'colour'"),
    ({"wholecall_dialect": 1}, "missing required field `name`"),
    (written(["<a>"]), "no family of grammars None"),
    (written(["<a>"], family="klingon"), "no family of grammars 'klingon'; there are json"),
    (stored(bare=[1]), "no family of grammars None"),
    (written(["<a>"], family="headed"), "missing required field `calls`"),
    (written(["<a>"], family="tags", trim="all"), "missing required|Invalid enum"),
    (written([""], family="json"), "an empty mark"),
    (written(["<a>"], family="json", closers=[""]), "an empty mark"),
    (stored(reasoning=[{"open": "<a>", "close": [""]}]), "an empty mark"),
    (stored(reasoning=["\ud83d"]), "surrogates"),
    (
        written(["<a>"], family="headed", calls=["<a>"], head_end=["{"], head="id_first"),
        "needs a name_mark before the name",
    ),
]


@pytest.mark.parametrize(("described", "why"), REFUSED)
def test_what_is_no_dialect_is_refused(described: Any, why: str) -> None:
    with pytest.raises(UnusableDialect, match=why):
        read_dialect(described)


def test_a_grammar_may_hold_another() -> None:
    muse = DIALECTS["muse_atem"].written[0].grammar
    assert family_of(muse) == "routed"
    assert set(FAMILIES.values()) >= {
        type(entry.grammar) for dialect in DIALECTS.values() for entry in dialect.written
    }
