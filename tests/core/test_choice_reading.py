"""A field of a choice is read, or refused with its name, its value and what is allowed."""

from collections.abc import Callable
from typing import Any

import pytest

from wholecall.core.choice.reading import (
    list_words,
    read_flag,
    read_name,
    read_object,
    read_word,
    refuse,
)
from wholecall.core.choice.values import Mode
from wholecall.errors import InvalidChoice

WORDS = {"auto": Mode.AUTO, "none": Mode.NONE}


def test_what_is_allowed_is_read() -> None:
    assert read_word("none", "here", WORDS) is Mode.NONE
    assert read_flag(None, "here", default=True)
    assert not read_flag(False, "here", default=True)
    assert read_object({"a": 1}, "here") == {"a": 1}
    assert read_name({"name": "a"}, "here", ["a", "b"]) == "a"


# what holds, reading, field, words of the refusal
REFUSED: list[tuple[str, Callable[[], Any], str, str]] = [
    (
        "an unknown word",
        lambda: read_word("non", "here", WORDS),
        "here",
        "'non'; allowed: 'auto', 'none'",
    ),
    (
        "a word of the wrong type",
        lambda: read_word(["none"], "here", WORDS),
        "here",
        "['none']; allowed",
    ),
    (
        "a flag that is a number",
        lambda: read_flag(0, "here", default=True),
        "here",
        "0; allowed: true, false",
    ),
    ("a flag that is a word", lambda: read_flag("false", "here", default=True), "here", "'false'"),
    ("a list is no object", lambda: read_object([], "here"), "here", "[]; allowed: an object"),
    (
        "a tool that is not offered",
        lambda: read_name({"name": "c"}, "here", ["b", "a"]),
        "here.name",
        "'c'; allowed: 'a', 'b'",
    ),
    ("no name", lambda: read_name({}, "here", ["a"]), "here.name", "None; allowed: 'a'"),
    (
        "a name of the wrong type",
        lambda: read_name({"name": []}, "here", []),
        "here.name",
        "[]; allowed: nothing",
    ),
]


@pytest.mark.parametrize(
    ("read", "param", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_is_not_allowed_is_refused_by_name(
    read: Callable[[], Any], param: str, words: str
) -> None:
    with pytest.raises(InvalidChoice) as refused:
        read()

    assert refused.value.param == param
    assert words in str(refused.value)


def test_a_refusal_stays_short() -> None:
    assert len(str(refuse("here", "x" * 10_000, "nothing"))) < 300


def test_words_are_listed_in_order_and_not_all_of_a_thousand() -> None:
    assert list_words({"b", "a"}) == "'a', 'b'"
    assert list_words([]) == "nothing"
    assert list_words(f"{n:04}" for n in range(1000)).endswith("'0019', and 980 more")
