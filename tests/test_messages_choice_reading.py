"""A field of a choice is read, or refused with its name, its value and what is allowed."""

from collections.abc import Callable
from typing import Any

import pytest

from wholecall.errors import InvalidChoice
from wholecall.messages import Field, Mode, field_of, list_words

WORDS = {"auto": Mode.AUTO, "none": Mode.NONE}


def test_what_is_allowed_is_read() -> None:
    assert Field("here", "none").read_word(WORDS) is Mode.NONE
    assert Field("here", None).read_flag(default=True)
    assert not Field("here", False).read_flag(default=True)
    assert Field("here", {"a": 1}).read_object() == {"a": 1}
    assert Field("here", {"name": "a"}).read_name(["a", "b"]) == "a"


def test_a_field_knows_its_name() -> None:
    here = field_of({"here": {"a": {"b": 1}}}, "here")
    assert here.member("a").member("b") == Field("here.a.b", 1)
    assert here.member("c") == Field("here.c", None)
    assert field_of({}, "here") == Field("here", None)


# what holds, reading, field, words of the refusal
REFUSED: list[tuple[str, Callable[[], Any], str, str]] = [
    (
        "an unknown word",
        lambda: Field("here", "non").read_word(WORDS),
        "here",
        "'non'; allowed: 'auto', 'none'",
    ),
    (
        "a word of the wrong type",
        lambda: Field("here", ["none"]).read_word(WORDS),
        "here",
        "['none']; allowed",
    ),
    (
        "a flag that is a number",
        lambda: Field("here", 0).read_flag(default=True),
        "here",
        "0; allowed: true, false",
    ),
    (
        "a flag that is a word",
        lambda: Field("here", "false").read_flag(default=True),
        "here",
        "'false'",
    ),
    (
        "nothing is inside of a word",
        lambda: Field("here", "x").member("a"),
        "here",
        "'x'; allowed: an object",
    ),
    (
        "a list is no object",
        lambda: Field("here", []).read_object(),
        "here",
        "[]; allowed: an object",
    ),
    (
        "a tool that is not offered",
        lambda: Field("here", {"name": "c"}).read_name(["b", "a"]),
        "here.name",
        "'c'; allowed: 'a', 'b'",
    ),
    ("no name", lambda: Field("here", {}).read_name(["a"]), "here.name", "None; allowed: 'a'"),
    (
        "a name of the wrong type",
        lambda: Field("here", {"name": []}).read_name([]),
        "here.name",
        "[]; allowed: nothing",
    ),
]


@pytest.mark.parametrize(
    ("read", "param", "words"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_is_not_allowed_is_refused_by_name(
    read: Callable[[], Any], param: str, *, words: str
) -> None:
    with pytest.raises(InvalidChoice) as refused:
        read()

    assert refused.value.param == param
    assert words in str(refused.value)


def test_a_refusal_stays_short() -> None:
    assert len(str(Field("here", "x" * 10_000).refuse("nothing"))) < 300


def test_words_are_listed_in_order_and_not_all_of_a_thousand() -> None:
    assert list_words({"b", "a"}) == "'a', 'b'"
    assert list_words([]) == "nothing"
    assert list_words(f"{n:04}" for n in range(1000)).endswith("'0019', and 980 more")
