"""A field of a choice is read, or refused with its name, its value and what is allowed."""

from collections.abc import Callable
from typing import Any

import pytest

from wholecall.errors import InvalidChoice
from wholecall.messages import (
    Choice,
    Field,
    Mode,
    Special,
    allow_all,
    field_of,
    list_words,
    restrict,
)

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


# ── A choice as a value: what it may say, and how it is put together ────────────────────

SHELL = Special("shell")


@pytest.mark.parametrize(
    "restriction",
    [{"names": ("a",)}, {"parallel": False}, {"specials": (SHELL,)}],
    ids=["names", "parallel", "specials"],
)
def test_where_no_tool_may_be_called_there_is_nothing_to_restrict(
    restriction: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="nothing to restrict"):
        Choice(Mode.NONE, **restriction)


def test_the_tools_of_a_choice_are_its_functions_and_all_others() -> None:
    assert Choice().tools == ()
    assert Choice(Mode.AUTO, ("a",), specials=(SHELL,)).tools == ("a", SHELL)


def test_a_tool_that_is_named_twice_counts_once() -> None:
    choice = restrict(Mode.AUTO, ["b", SHELL, "a", "b", SHELL], parallel=False)

    assert choice == Choice(Mode.AUTO, ("b", "a"), parallel=False, specials=(SHELL,))


# what holds, mode, flag, choice
ALL = [
    ("the flag is kept", Mode.AUTO, False, Choice(parallel=False)),
    ("without the flag calls are parallel", Mode.REQUIRED, True, Choice(Mode.REQUIRED)),
    ("beside none the flag says nothing", Mode.NONE, False, Choice(Mode.NONE)),
]


@pytest.mark.parametrize(("mode", "flag", "choice"), [r[1:] for r in ALL], ids=[r[0] for r in ALL])
def test_a_choice_among_all_tools(mode: Mode, flag: bool, *, choice: Choice) -> None:
    assert allow_all(mode, parallel=flag) == choice
