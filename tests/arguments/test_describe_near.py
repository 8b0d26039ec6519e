"""The name that was probably meant, and when that is beyond doubt."""

import pytest

from wholecall.arguments.describe import find_misspelt, suggest

# what holds, name, known names, nearest, misspelt
ROWS = [
    ("a letter is missing", "get_wether", ["get_weather", "send"], "get_weather", "get_weather"),
    ("another framework's case", "dryRun", ["dry_run"], "dry_run", "dry_run"),
    ("hyphens and dots", "DRY-RUN.", ["dry_run"], "dry_run", "dry_run"),
    ("blanks and marks around it", ' \n":path', ["path"], "path", "path"),
    ("nothing but marks", "@", ["$"], None, None),
    ("a longer name is near, but may be another", "file_path", ["path"], "path", None),
    ("nothing is near", "town", ["path", "content"], None, None),
    ("nothing is known", "town", [], None, None),
    ("of two spellings the first in order", "a_b", ["AB", "a_b"], "AB", "AB"),
    ("only the head of a long name is compared", "x" * 100_000, ["x" * 70], "x" * 70, "x" * 70),
]


@pytest.mark.parametrize(
    ("name", "known", "near", "same"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_the_nearest_name(
    name: str, known: list[str], *, near: str | None, same: str | None
) -> None:
    assert suggest(name, known) == near
    assert find_misspelt([name], known) == ({} if same is None else {name: same})


def test_of_many_names_all_other_cases_and_some_other_letters_are_found() -> None:
    known = [f"parameter_{number}" for number in range(300)]
    in_capitals = {name.upper(): name for name in known}
    with_a_typo = [f"paramter_{number}" for number in range(300)]

    assert find_misspelt([*with_a_typo, *in_capitals], known).keys() == {
        *with_a_typo[:16],
        *in_capitals,
    }
