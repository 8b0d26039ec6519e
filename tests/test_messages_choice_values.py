"""A choice as a value: what it may say, and how it is put together."""

from typing import Any

import pytest

from wholecall.messages import Choice, Mode, Special, allow_all, restrict

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
